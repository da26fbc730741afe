//! The MCP server itself: what it says about its tools, and how a call's outcome reads on the wire.
//!
//! Answers for `tools`, `resources` and `prompts`, for telling that the tools have changed, and for the server's description,
//! in both protocol eras. Leaves out the lifecycle (the protocol library's), the frames, and everything a tool does (the
//! [`ToolService`]'s).

mod answer;
mod approval;
mod gated;
mod library;
mod list;
mod progress;

use std::future::pending;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use devloop_contract::InternalError;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, GetPromptRequestParams, GetPromptResponse, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, NumberOrString,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::answer::answer;
use self::approval::{Client, Questions};
pub(super) use self::gated::Gated;
use self::gated::NoRoom;
use self::list::{List, Lists, one_page};
use self::progress::Reporter;
use super::ServeOptions;
use crate::call::{CallOutcome, CallRequest, Listing, ToolService};
use crate::caught::caught;

/// A client's name for a call above this length is not taken over.
const TOOL_USE_ID_LIMIT: usize = 256;

/// Where Claude Code puts its own name for the call.
const TOOL_USE_ID_META: &str = "claudecode/toolUseId";

/// The client that searches deferred tools by itself, so that it is shown them all.
const SEARCHES_ITSELF: &str = "claude-code";

/// Serves one agent's tools.
pub(super) struct Server<S> {
    service: Arc<S>,
    info: ServerConfig,
    lists: Lists,
    questions: Arc<Questions>,
    page_size: usize,
    silence: Duration,
    process: Uuid,
    stop: CancellationToken,
}

impl<S: ToolService> Server<S> {
    /// A server for the service's tools. With a page size of 0 their list is one page.
    ///
    /// # Errors
    /// When a tool's schema is not a JSON object.
    pub(super) fn new(service: S, options: &ServeOptions, stop: CancellationToken) -> Result<Self, InternalError> {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_prompts()
            .build();
        let info = ServerConfig::new(capabilities).with_server_info(
            Implementation::new(&options.server_name, env!("CARGO_PKG_VERSION")).with_title("devloop tool registry"),
        );
        let server = Self {
            info,
            lists: Lists::default(),
            questions: Arc::default(),
            page_size: options.page_size,
            silence: options.silence,
            process: Uuid::now_v7(),
            stop,
            service: Arc::new(service),
        };
        // A table that cannot be served is told at once, and not to the first client that asks.
        server.list(Listing::Shown)?;
        Ok(server)
    }

    fn list(&self, listing: Listing) -> Result<Arc<List>, InternalError> {
        // The revision first: a change in between makes the list anew once too often, and never once too seldom.
        let revision = self.service.revision();
        self.lists
            .get(listing, revision, self.page_size, || self.service.tools(listing))
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
        let cancel = context.ct.clone();
        let (sender, mut reporter) = match context.meta.get_progress_token() {
            Some(token) => {
                let (sender, receiver) = mpsc::unbounded_channel();
                let reporter = Reporter::new(token, receiver, context.peer.clone(), cancel.clone(), self.silence);
                (Some(sender), Some(reporter))
            }
            None => (None, None),
        };
        let client = Client::new(
            &context,
            &self.questions,
            request.input_responses.as_ref(),
            request.request_state.as_deref(),
        );
        let call = CallRequest {
            tool: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
            tool_use_id,
            cancel: cancel.clone(),
            progress: sender,
            approver: Some(Arc::new(client)),
        };
        let no_room = context.extensions.get::<NoRoom>().copied();
        let call = caught(async {
            match no_room {
                None => self.service.call(call).await,
                Some(no_room) => self.service.turned_away(call, no_room.body()).await,
            }
        });
        let mut call = pin!(call);
        let mut stopped = false;
        loop {
            tokio::select! {
                biased;
                outcome = &mut call => {
                    if let Some(reporter) = &mut reporter {
                        reporter.finish().await;
                    }
                    // Without an answer the client would wait for ever.
                    return outcome.unwrap_or_else(CallOutcome::broke_off);
                }
                () = self.stop.cancelled(), if !stopped => {
                    stopped = true;
                    cancel.cancel();
                }
                () = go_on(&mut reporter) => {}
            }
        }
    }
}

impl<S: ToolService> ServerHandler for Server<S> {
    fn get_info(&self) -> ServerConfig {
        let (info, instructions) = (self.info.clone(), self.service.instructions());
        if instructions.is_empty() {
            return info;
        }
        info.with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.service.ready().await;
        let listing = listing_for(&context);
        let list = self.list(listing).map_err(|error| {
            tracing::error!("the tools cannot be listed: {}", error.chain());
            ErrorData::internal_error(error.chain(), None)
        })?;
        list.page(request.as_ref().and_then(|request| request.cursor.as_deref()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.carry_out(request, context).await {
            CallOutcome::NeedsApproval(ask) => Ok(CallToolResponse::InputRequired(self.questions.put(&ask))),
            outcome => answer(outcome).map(CallToolResponse::Complete),
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        one_page(request.as_ref())?;
        Ok(library::resources(&self.service.tools(Listing::Every)))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        one_page(request.as_ref())?;
        Ok(library::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        library::read(&request.uri, &self.service.tools(Listing::Every)).map(Into::into)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        one_page(request.as_ref())?;
        Ok(library::prompts())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        library::prompt(&request.name).map(Into::into)
    }

    /// In the era with an opening, changes are told from then on.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Some(mut changes) = self.service.changes() else {
            return;
        };
        let (peer, stop, service) = (context.peer, self.stop.clone(), Arc::clone(&self.service));
        let mut references = References::of(&*service);
        tokio::spawn(async move {
            while changes.settled(&stop).await {
                let mut told = peer.notify_tool_list_changed().await;
                if told.is_ok() && references.have_changed(&*service) {
                    told = peer.notify_resource_list_changed().await;
                }
                if let Err(error) = told {
                    tracing::debug!(%error, "nobody heard that the tools have changed");
                    return;
                }
            }
        });
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::default();
        accepted.tools_list_changed = requested.tools_list_changed;
        accepted.resources_list_changed = requested.resources_list_changed;
        Some(accepted)
    }

    /// In the era without an opening, they are told to who listens.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let tools = context.accepted().tools_list_changed == Some(true);
        let resources = context.accepted().resources_list_changed == Some(true);
        let mut references = References::of(&*self.service);
        let Some(mut changes) = self.service.changes().filter(|_| tools || resources) else {
            tokio::select! {
                () = context.cancelled() => {}
                () = self.stop.cancelled() => {}
            }
            return Ok(());
        };
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                more = changes.settled(&self.stop) => {
                    if !more || (tools && context.sink().notify_tool_list_changed().await.is_err()) {
                        return Ok(());
                    }
                    if resources
                        && references.have_changed(&*self.service)
                        && context.sink().notify_resource_list_changed().await.is_err()
                    {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Which tools had a reference when it was last told: each is a resource.
struct References(u64);

impl References {
    fn of(service: &impl ToolService) -> Self {
        let mut hasher = DefaultHasher::new();
        for tool in service.tools(Listing::Every) {
            (&tool.name, &tool.summary).hash(&mut hasher);
        }
        Self(hasher.finish())
    }

    /// Whether there are others now, which are the last from then on.
    fn have_changed(&mut self, service: &impl ToolService) -> bool {
        let now = Self::of(service);
        std::mem::replace(&mut self.0, now.0) != now.0
    }
}

/// Claude Code defers tools by itself and searches in all that it was told.
fn listing_for(context: &RequestContext<RoleServer>) -> Listing {
    match context.client_info() {
        Some(client) if client.name == SEARCHES_ITSELF => Listing::Every,
        _ => Listing::Shown,
    }
}

/// Reports what comes next, where somebody wants to know.
async fn go_on(reporter: &mut Option<Reporter>) {
    match reporter {
        Some(reporter) => reporter.go_on().await,
        None => pending().await,
    }
}
