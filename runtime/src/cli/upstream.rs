//! Upstream servers for one command: which of them are started, how long they are waited for, and how they stand.
//!
//! Answers for the arguments `--mcp-config` and `--wait`. Leaves out what a command does with the servers.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use devloop_contract::Tool;
use devloop_core::catalogue::names::is_of;
use devloop_core::catalogue::{Catalogue, ConnectionState, TOOL_SEARCH};
use devloop_core::registry::Definition;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::Exit;
use super::output::{Printer, harmless};
use super::signals::Stop;
use super::target::{options_for, servers};
use crate::session::Session;
use crate::upstream::{CatalogueSink, McpConfig, Options, ServerStatus, Sink, Upstreams};

/// The servers that a command may reach.
#[derive(Debug, clap::Args)]
pub(super) struct Servers {
    /// Upstream servers, to reach their tools, too: a file with `mcpServers`, as Claude Code has it. Those that are needed
    /// are started.
    #[arg(long, value_name = "FILE")]
    mcp_config: Option<PathBuf>,
    /// As many seconds the servers have to connect and to list their tools.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600), requires = "mcp_config")]
    wait: u64,
}

impl Servers {
    /// How long they are waited for.
    pub(super) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait)
    }

    /// All servers, when there is a file.
    pub(super) fn all(&self) -> Result<Option<McpConfig>, String> {
        self.mcp_config.as_deref().map(servers).transpose()
    }

    /// The servers that a tool of an upstream server can belong to by its name, when there is a file.
    ///
    /// # Errors
    /// The file, or there is no such server.
    pub(super) fn of(&self, tool: &str) -> Result<Option<McpConfig>, String> {
        let Some(mut config) = self.all()? else {
            return Ok(None);
        };
        let known: Vec<String> = config.servers.keys().map(|server| harmless(server)).collect();
        config.servers.retain(|server, _| is_of(server, tool));
        if config.servers.is_empty() {
            return Err(no_server(tool, &known));
        }
        Ok(Some(config))
    }
}

/// Whether a tool of a spec goes on to upstream servers, or looks for their tools.
pub(super) fn reaches_servers(tool: &Tool) -> bool {
    tool.is_of_catalog() && (tool.open_world || tool.name == TOOL_SEARCH)
}

/// That a tool is of none of the servers.
pub(super) fn no_server(tool: &str, known: &[String]) -> String {
    format!("no server has the tool `{}`; {}", harmless(tool), the_servers(known))
}

/// The servers that there are.
pub(super) fn the_servers(known: &[String]) -> String {
    if known.is_empty() {
        "there is none".to_owned()
    } else {
        format!("the servers are: {}", known.join(", "))
    }
}

/// A session with its servers, and the runtime in which they are reached.
pub(super) struct Reached {
    pub(super) session: Session,
    runtime: tokio::runtime::Runtime,
    wait: Duration,
}

impl Reached {
    /// Connects the servers, and waits for none of them.
    pub(super) fn new(session: Session, config: Option<McpConfig>, wait: Duration) -> Result<Self, Broken> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = if config.is_some() {
            runtime.enable_all().build()
        } else {
            runtime.enable_time().build()
        };
        let runtime = runtime.map_err(|error| Broken(format!("cannot start the runtime: {error}")))?;
        if let Some(config) = config {
            let _inside = runtime.enter();
            let connected = session.connect(config, &options_for(&session));
            connected.map_err(|error| Broken(format!("cannot connect the servers: {error}")))?;
        }
        Ok(Self { session, runtime, wait })
    }

    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Waits for the server that a call is for, by the name of the tool or by the input, and for no other; for all of them
    /// when it is for all.
    pub(super) fn settle(&self, tool: &str, input: &Map<String, Value>) {
        let Some(upstreams) = self.session.upstreams() else {
            return;
        };
        let named = input.get("server").and_then(Value::as_str);
        let is_for = |server: &str| match self.session.catalogue().get(tool) {
            None => is_of(server, tool),
            Some(entry) => {
                let built_in = entry.definition().built_in();
                built_in.is_some_and(reaches_servers) && named.is_none_or(|named| named == server)
            }
        };
        self.runtime.block_on(async {
            for status in upstreams.statuses() {
                if is_for(&status.server) {
                    // Counted from the beginning: a server that hangs is waited for once.
                    let latest = upstreams.began() + self.wait;
                    upstreams.server_settled(&status.server, latest).await;
                }
            }
        });
    }

    /// Names the servers of a tool that is not there, with what is wrong with them.
    pub(super) fn complain(&self, tool: &str, printer: &Printer) {
        if self.session.catalogue().has(tool) {
            return;
        }
        let statuses = self.session.upstreams().map(|upstreams| upstreams.statuses());
        for status in statuses.into_iter().flatten() {
            if is_of(&status.server, tool)
                && let Some(problem) = problem(&status)
            {
                printer.error(format_args!("{}: {}", harmless(&status.server), harmless(&problem)));
            }
        }
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if let Some(upstreams) = self.session.upstreams() {
            self.runtime.block_on(upstreams.close());
        }
    }
}

/// Servers cannot be reached at all.
pub(super) struct Broken(String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Connects servers to a catalogue for as long as `look` takes; it is called when all have settled or the time is over,
/// with what a signal cancels. SIGINT and SIGTERM are heard from now on: the servers are ended, and the exit code says
/// which one it was.
pub(super) fn connect<R: Send + Sync + 'static>(
    config: McpConfig,
    wait: Duration,
    catalogue: &Arc<Catalogue<R>>,
    runner: impl Fn(&str, &Arc<Definition>) -> R + Send + Sync + 'static,
    look: impl AsyncFnOnce(&Upstreams, CancellationToken) -> Exit,
) -> io::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sink: Arc<dyn Sink> = Arc::new(CatalogueSink::new(Arc::clone(catalogue), runner));
    let stop = Stop::default();
    stop.listen(|| {});
    let exit = runtime.block_on(async {
        let upstreams = Upstreams::start(config, &Options::default(), &sink);
        let settled = stop.token().run_until_cancelled_owned(upstreams.settled(wait)).await;
        let exit = match settled {
            Some(_) => look(&upstreams, stop.token()).await,
            // The signal says how it ends.
            None => Exit::System,
        };
        upstreams.close().await;
        exit
    });
    Ok(stop.told().unwrap_or(exit))
}

/// Whether a server is connected and its tools are there.
pub(super) fn is_well(status: &ServerStatus) -> bool {
    status.state == ConnectionState::Connected && status.refused.is_none() && status.listed
}

/// Why a server is not well.
pub(super) fn problem(status: &ServerStatus) -> Option<String> {
    match &status.state {
        ConnectionState::Lost { reason } | ConnectionState::Failed { reason } => Some(reason.clone()),
        ConnectionState::Connecting => Some("it has not answered yet; give it longer with --wait".to_owned()),
        ConnectionState::Connected if !status.listed => {
            Some("it has not listed its tools yet; give it longer with --wait".to_owned())
        }
        ConnectionState::Connected | ConnectionState::Closed => status.refused.clone(),
    }
}
