//! What the tools `mcp_*` have in common: asking upstream servers on behalf of a call.
//!
//! Answers for which servers are asked, for how long, and for what an agent is told when one does not answer. Leaves out the
//! connections (`upstream`).

use std::future::Future;
use std::sync::Arc;

use devloop_contract::{Because, ExpectedFailure, Refusal, ToolError};
use serde_json::{Map, Value};

use crate::context::Context;
use crate::pages::Bounds;
use crate::session::LARGEST_ANSWER;
use crate::upstream::{CallError, CallOptions, Upstreams};

/// What JSON-RPC says of a method that a server does not have.
const METHOD_NOT_FOUND: i32 = -32601;

/// What it says of parameters that name nothing, such as a task that is gone.
const INVALID_PARAMS: i32 = -32602;

/// As many characters of what a server says of its use are passed on.
const INSTRUCTIONS: usize = 2_000;

/// Fields of an answer.
pub(crate) type Object = Map<String, Value>;

/// The failures that all of these tools have.
pub(crate) trait ServerFailure: ExpectedFailure {
    /// There is no such server; these are there.
    fn unknown(servers: Vec<String>) -> Self;

    /// It gave no answer.
    fn failed() -> Self;
}

/// Says for the failures of a tool which is which.
macro_rules! server_failure {
    ($tool:ident) => {
        impl $crate::servers::ServerFailure for devloop_generated::tools::catalog::$tool::Failure {
            fn unknown(servers: Vec<String>) -> Self {
                let servers = Some(servers);
                Self::UnknownServer(devloop_generated::tools::catalog::$tool::UnknownServerDetails { servers })
            }

            fn failed() -> Self {
                Self::ServerFailed
            }
        }
    };
}
pub(crate) use server_failure;

/// The servers, for one call.
pub(crate) struct Servers<'c> {
    context: &'c Context,
    all: Option<&'c Arc<Upstreams>>,
    bounds: Bounds,
}

impl<'c> Servers<'c> {
    pub(crate) fn of(context: &'c Context) -> Self {
        Self {
            context,
            all: context.session().upstreams(),
            bounds: Bounds::of(context.time()),
        }
    }

    /// The connections, to ask the server of this name.
    ///
    /// # Errors
    /// There is no such server.
    pub(crate) fn one<F: ServerFailure>(&self, server: &str) -> Result<&'c Upstreams, Refusal<F>> {
        let names = self.names();
        match self.all {
            Some(upstreams) if names.iter().any(|name| name == server) => Ok(upstreams),
            _ if names.is_empty() => Err(F::unknown(names).because("no upstream server was configured")),
            _ => {
                let reason = format!("there is no upstream server `{server}`; there are {}", names.join(", "));
                Err(F::unknown(names).because(reason))
            }
        }
    }

    /// Asks the server that was named, or all, one after the other. Servers that just do not have what they are asked for
    /// are left out.
    ///
    /// # Errors
    /// There is no server of that name, or it gave no answer.
    pub(crate) async fn ask<F, T, A>(
        &self,
        server: Option<&str>,
        ask: impl Fn(&'c Upstreams, String) -> A,
    ) -> Result<Answers<T>, Refusal<F>>
    where
        F: ServerFailure,
        A: Future<Output = Result<T, CallError>>,
    {
        let mut answers = Answers {
            found: Vec::new(),
            silent: Vec::new(),
        };
        let (upstreams, names) = match (server, self.all) {
            (Some(server), _) => (self.one(server)?, vec![server.to_owned()]),
            (None, Some(upstreams)) => (&**upstreams, self.names()),
            (None, None) => return Ok(answers),
        };
        for name in names {
            match ask(upstreams, name.clone()).await {
                Ok(found) => answers.found.push(found),
                Err(error) if has_none(&error) => {}
                Err(error) if server.is_some() => return Err(refusal(&error)),
                Err(error) => answers.silent.push((name, error.to_string())),
            }
        }
        Ok(answers)
    }

    /// How the servers want to be used that say so, in their own words, cut.
    pub(crate) fn instructions(&self) -> Vec<(String, String)> {
        let Some(upstreams) = self.all else {
            return Vec::new();
        };
        let said = |server: String| {
            // Names come from the same servers.
            let text = upstreams.instructions(&server).ok().flatten()?;
            let mut short: String = text.chars().take(INSTRUCTIONS).collect();
            if short.len() < text.len() {
                short.push('…');
            }
            (!short.trim().is_empty()).then_some((server, short))
        };
        self.names().into_iter().filter_map(said).collect()
    }

    /// How a request of this call is made: a little shorter than the call itself, whose time-out says less.
    pub(crate) fn options(&self) -> CallOptions {
        CallOptions {
            timeout: self.context.time().mul_f32(0.9),
            cancel: self.context.cancel().clone(),
            progress: None,
            max_result_bytes: Some(LARGEST_ANSWER),
        }
    }

    /// How much of lists is read.
    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn names(&self) -> Vec<String> {
        let statuses = self.all.map(|upstreams| upstreams.statuses()).unwrap_or_default();
        let names = statuses.into_iter().map(|status| status.server);
        names
            .filter(|server| !self.context.session().denies_server(self.context.tool(), server))
            .collect()
    }
}

/// What several servers said.
pub(crate) struct Answers<T> {
    /// One for each server that gave one.
    pub(crate) found: Vec<T>,
    /// Those that gave none, and why.
    silent: Vec<(String, String)>,
}

impl<T> Answers<T> {
    /// The servers that gave no answer, and why, as a tool lists them; nothing when there are none.
    pub(crate) fn failed<I>(&self, item: impl Fn(String, String) -> I) -> Option<Vec<I>> {
        let silent = self.silent.iter().cloned();
        (!self.silent.is_empty()).then(|| silent.map(|(server, reason)| item(server, reason)).collect())
    }
}

/// Refuses a cursor without the server that made it.
///
/// # Errors
/// That is so.
pub(crate) fn cursor_of_one(cursor: Option<&String>, server: Option<&String>) -> Result<(), ToolError> {
    if cursor.is_some() && server.is_none() {
        let problem = "a cursor belongs to one server: name it in `server`";
        return Err(ToolError::validation("cursor", problem));
    }
    Ok(())
}

/// What is not there is left out of an answer.
pub(crate) fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

/// What the agent is told when a server gave no answer.
pub(crate) fn refusal<F: ServerFailure>(error: &CallError) -> Refusal<F> {
    match error {
        CallError::Cancelled => ToolError::Cancelled.into(),
        // Trying again gives it no method that it does not have.
        error if has_none(error) => F::failed().because(format!("{error}; it does not offer this at all")),
        error => F::failed().because(error.to_string()),
    }
}

/// The same for a request about a task, which the server may not know any more.
pub(crate) fn task_refusal<F: ServerFailure>(error: &CallError, unknown: F) -> Refusal<F> {
    if is_refused(error, INVALID_PARAMS) {
        return unknown.because(error.to_string());
    }
    refusal(error)
}

/// Whether a server just does not have what it was asked for.
pub(crate) fn has_none(error: &CallError) -> bool {
    is_refused(error, METHOD_NOT_FOUND)
}

/// Whether a server answered with this error.
fn is_refused(error: &CallError, code: i32) -> bool {
    matches!(error, CallError::Refused { code: given, .. } if *given == code)
}

/// The objects of a list in an answer, each with the server that it comes from.
pub(crate) fn listed(answer: &mut Value, key: &str, server: &str) -> Vec<Object> {
    let mut items = objects(answer, key);
    for item in &mut items {
        item.insert("server".to_owned(), server.into());
    }
    items
}

/// The objects of a list in an answer; what is none is left out.
pub(crate) fn objects(answer: &mut Value, key: &str) -> Vec<Object> {
    let Some(Value::Array(items)) = answer.get_mut(key).map(Value::take) else {
        return Vec::new();
    };
    let object = |item| match item {
        Value::Object(item) => Some(item),
        _ => None,
    };
    items.into_iter().filter_map(object).collect()
}

/// A text of an answer.
pub(crate) fn text(answer: &Value, key: &str) -> Option<String> {
    answer.get(key)?.as_str().map(str::to_owned)
}
