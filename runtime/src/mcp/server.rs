//! The MCP server itself: what it says about its tools, and how a call's outcome reads on the wire.
//!
//! Answers for `tools/list`, `tools/call` and the server's description, in both protocol eras. Leaves out the
//! lifecycle (the protocol library's), the frames, and everything a tool does (the [`ToolService`]'s).

use std::fmt::Write as _;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use devloop_contract::InternalError;
use devloop_core::registry::Definition;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, ListToolsResult,
    NumberOrString, PaginatedRequestParams, ProgressNotification, ProgressNotificationParam, ProgressToken,
    ServerCapabilities, ServerConfig, ServerNotification,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::call::{CallOutcome, CallRequest, Progress, ToolService, with_causes};
use crate::projection::mcp_tool;

/// The longest error text that a client shows a model in full, with room to spare.
const ERROR_TEXT_LIMIT: usize = 4_000;

/// A client's name for a call above this length is not taken over.
const TOOL_USE_ID_LIMIT: usize = 256;

/// Where Claude Code puts its own name for the call.
const TOOL_USE_ID_META: &str = "claudecode/toolUseId";

/// Serves one agent's tools.
pub(super) struct Server<S> {
    service: S,
    info: ServerConfig,
    tools: Vec<rmcp::model::Tool>,
    page_size: usize,
    /// Tells cursors of this very list from any other.
    list_digest: u64,
    process: Uuid,
    stop: CancellationToken,
}

impl<S: ToolService> Server<S> {
    /// A server for the service's tools; the list is built here, once. With `page_size` 0 it is one page.
    ///
    /// # Errors
    /// When a tool's schema is not a JSON object.
    pub(super) fn new(
        service: S,
        name: &str,
        page_size: usize,
        stop: CancellationToken,
    ) -> Result<Self, InternalError> {
        let mut tools = service
            .tools()
            .iter()
            .map(|tool| mcp_tool(&Definition::from(*tool)))
            .collect::<Result<Vec<_>, _>>()?;
        tools.sort_by(|left, right| left.name.cmp(&right.name));
        let page_size = if page_size == 0 { tools.len().max(1) } else { page_size };
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(name, env!("CARGO_PKG_VERSION")).with_title("devloop tool registry"));
        if !service.instructions().is_empty() {
            info = info.with_instructions(service.instructions());
        }
        Ok(Self {
            info,
            list_digest: digest(&tools, page_size),
            tools,
            page_size,
            process: Uuid::now_v7(),
            stop,
            service,
        })
    }

    fn tool_use_id(&self, context: &RequestContext<RoleServer>) -> String {
        match context.meta.get(TOOL_USE_ID_META) {
            Some(Value::String(id)) if !id.is_empty() && id.len() <= TOOL_USE_ID_LIMIT => id.clone(),
            // Strings are quoted, so that the ids 1 and "1" stay apart.
            _ => match &context.id {
                NumberOrString::Number(id) => format!("{}:{id}", self.process),
                NumberOrString::String(id) => format!("{}:{id:?}", self.process),
            },
        }
    }

    /// Runs the call to its end, whatever happens: passes progress on, and a stop of the server.
    async fn carry_out(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> CallOutcome {
        let tool_use_id = self.tool_use_id(&context);
        let (sender, reporter) = match context.meta.get_progress_token() {
            Some(token) => {
                let (sender, receiver) = mpsc::unbounded_channel();
                (Some(sender), Some(Reporter::new(token, receiver, context.peer.clone())))
            }
            None => (None, None),
        };
        let cancel = context.ct.clone();
        let call = caught(self.service.call(CallRequest {
            tool: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
            tool_use_id,
            cancel: cancel.clone(),
            progress: sender,
        }));
        let mut call = pin!(call);
        let mut reporter = reporter;
        let mut stopped = false;
        loop {
            tokio::select! {
                biased;
                outcome = &mut call => {
                    if let Some(reporter) = &mut reporter {
                        reporter.finish().await;
                    }
                    return outcome;
                }
                () = self.stop.cancelled(), if !stopped => {
                    stopped = true;
                    cancel.cancel();
                }
                more = report(&mut reporter), if reporter.is_some() => {
                    if more.is_none() {
                        reporter = None;
                    }
                }
            }
        }
    }

    fn page(&self, cursor: Option<&str>) -> Result<ListToolsResult, ErrorData> {
        let start = match cursor {
            None => 0,
            Some(cursor) => self.start_of(cursor).ok_or_else(|| {
                ErrorData::invalid_params(
                    format!(
                        "unknown cursor {:?}: pass `nextCursor` of the last answer of this server, or leave the cursor \
                         out to start from the first page",
                        shortened(cursor, 64)
                    ),
                    None,
                )
            })?,
        };
        let end = (start + self.page_size).min(self.tools.len());
        let mut result = ListToolsResult::with_all_items(self.tools[start..end].to_vec());
        if end < self.tools.len() {
            result.next_cursor = Some(self.cursor(end));
        }
        Ok(result)
    }

    fn cursor(&self, start: usize) -> String {
        format!("{:016x}{start:x}", self.list_digest)
    }

    /// Where the page of a cursor starts, if this very list made the cursor.
    fn start_of(&self, cursor: &str) -> Option<usize> {
        let (_, start) = cursor.split_at_checked(16)?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let is_a_page = start > 0 && start < self.tools.len() && start.is_multiple_of(self.page_size);
        (is_a_page && self.cursor(start) == cursor).then_some(start)
    }
}

impl<S: ToolService> ServerHandler for Server<S> {
    fn get_info(&self) -> ServerConfig {
        self.info.clone()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.page(request.as_ref().and_then(|request| request.cursor.as_deref()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        answer(self.carry_out(request, context).await).map(CallToolResponse::Complete)
    }
}

/// A call's outcome on the wire. Some clients show a model only the structured content, others only the text, and on
/// an error all of them only the text: so the text always says everything.
fn answer(outcome: CallOutcome) -> Result<CallToolResult, ErrorData> {
    Ok(match outcome {
        CallOutcome::Success(value) => CallToolResult::structured(value),
        CallOutcome::Expected(body) => failed(match serde_json::to_string(&body) {
            Ok(text) => text,
            Err(error) => format!(
                "{}: {} (its details cannot be written as JSON: {error})",
                body.code, body.reason
            ),
        }),
        CallOutcome::Invalid(error) => failed(shortened(&error.to_string(), ERROR_TEXT_LIMIT)),
        CallOutcome::Sandbox { message, hint } => failed(match hint {
            Some(hint) => format!("{message}\n{hint}"),
            None => message,
        }),
        CallOutcome::Internal {
            message,
            chain,
            error_id,
            hint,
        } => failed(format!(
            "internal error: {}\nerror_id: {error_id}\n{hint} Do not retry blindly. Go on with other work, or say that this \
             needs a person, and give the error_id.",
            shortened(&with_causes(&message, &chain), ERROR_TEXT_LIMIT / 2)
        )),
        CallOutcome::Cancelled => failed("the call was cancelled before it was done".into()),
        CallOutcome::UnknownTool { name, nearest } => {
            let name = shortened(&name, 64);
            let mut message = format!("unknown tool {name:?}");
            if !nearest.is_empty() {
                let _ = write!(message, ": did you mean {}?", nearest.join(", "));
            }
            return Err(ErrorData::invalid_params(
                message,
                Some(json!({ "name": name, "nearest": nearest })),
            ));
        }
    })
}

fn failed(text: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// At most `limit` characters of a text, the last of them an ellipsis when something is missing.
fn shortened(text: &str, limit: usize) -> String {
    // No text has more characters than bytes.
    if text.len() <= limit || text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit - 1).chain(['…']).collect()
}

/// Polls the call, and turns a panic into an internal error: without an answer the client would wait for ever.
async fn caught(call: impl Future<Output = CallOutcome>) -> CallOutcome {
    let mut call = pin!(call);
    poll_fn(
        |context| match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context))) {
            Ok(poll) => poll,
            Err(panic) => {
                let chain = panic
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_else(|| "a panic without a text".into());
                let error_id = Uuid::now_v7().to_string();
                tracing::error!(%error_id, "a call panicked: {chain}");
                Poll::Ready(CallOutcome::Internal {
                    message: "the tool broke off".into(),
                    chain,
                    error_id,
                    hint: "This was reported; calling again is unlikely to help.".into(),
                })
            }
        },
    )
    .await
}

/// Passes the progress of one call on.
struct Reporter {
    token: ProgressToken,
    receiver: mpsc::UnboundedReceiver<Progress>,
    peer: Peer<RoleServer>,
    last: f64,
}

impl Reporter {
    fn new(token: ProgressToken, receiver: mpsc::UnboundedReceiver<Progress>, peer: Peer<RoleServer>) -> Self {
        Self {
            token,
            receiver,
            peer,
            last: f64::NEG_INFINITY,
        }
    }

    /// Sends a step if it leads on: the protocol wants every value above the one before.
    async fn send(&mut self, progress: Progress) {
        if !progress.done.is_finite() || progress.done <= self.last {
            return;
        }
        self.last = progress.done;
        let mut params = ProgressNotificationParam::new(self.token.clone(), progress.done);
        params.total = progress.total;
        params.message = progress.message;
        let notification = ServerNotification::ProgressNotification(ProgressNotification::new(params));
        if let Err(error) = self.peer.send_notification(notification).await {
            tracing::debug!(%error, "a progress notification was not sent");
        }
    }

    /// Sends what was reported before the call ended: nothing may follow its answer.
    async fn finish(&mut self) {
        while let Ok(progress) = self.receiver.try_recv() {
            self.send(progress).await;
        }
    }
}

/// Sends the next step; none when there will be no more.
async fn report(reporter: &mut Option<Reporter>) -> Option<()> {
    let reporter = reporter.as_mut()?;
    let progress = reporter.receiver.recv().await?;
    reporter.send(progress).await;
    Some(())
}

/// A digest of what a cursor depends on: the names, their order and the size of a page (FNV-1a).
fn digest(tools: &[rmcp::model::Tool], page_size: usize) -> u64 {
    let names = tools.iter().flat_map(|tool| tool.name.bytes().chain([0]));
    names
        .chain(page_size.to_be_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}
