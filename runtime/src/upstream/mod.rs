//! Upstream MCP servers: their tools among ours, their connections kept up.
//!
//! Answers for connecting to the servers of a configuration, for handing on what they offer and say, and for requests to
//! them. Leaves out which of their tools are taken (that is the catalogue) and who may call them.
//!
//! One task for each server carries out what a state machine ([`devloop_core::connection`]) commands: connect, list the
//! tools, list them anew when they change, ping, connect again. A server that goes away costs the calls that wait for it
//! a clear error and the other servers nothing. Programs are started and ended as groups of processes, and end with this
//! process even when it is killed.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use devloop_core::catalogue::Catalogue;
//! use devloop_runtime::upstream::{CallOptions, CatalogueSink, McpConfig, Options, Sink, Upstreams};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = McpConfig::read("mcp.json".as_ref())?;
//! let catalogue = Arc::new(Catalogue::new(|_| Ok(())));
//! let sink: Arc<dyn Sink> = Arc::new(CatalogueSink::new(Arc::clone(&catalogue), |_server, _tool| ()));
//! let upstreams = Upstreams::start(config, &Options::default(), &sink);
//! upstreams.settled(std::time::Duration::from_secs(5)).await;
//! let path = serde_json::from_str(r#"{"path": "README.md"}"#)?;
//! let answer = upstreams.call("files", "read_file", path, CallOptions::default()).await?;
//! println!("{answer}");
//! upstreams.close().await;
//! # Ok(())
//! # }
//! ```

mod board;
mod child;
mod config;
#[cfg_attr(
    not(feature = "upstream-http"),
    expect(
        dead_code,
        reason = "pipes end by themselves: only a transport over HTTP seals a fate"
    )
)]
mod fate;
#[cfg(feature = "upstream-http")]
mod http;
mod list;
mod live;
mod request;
mod server;
mod text;
#[cfg(feature = "upstream-http")]
mod watched;
mod wire;

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use devloop_core::catalogue::{Catalogue, ConnectionState, Notice, Offered, Refused, Replaced};
use devloop_core::connection::Rules;
use devloop_core::registry::Definition;
use devloop_core::text::nearest;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, CustomRequest, GetPromptRequest, GetPromptRequestParams,
    ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams,
    ReadResourceRequest, ReadResourceRequestParams,
};
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

pub use child::Grace;
pub use config::{ConfigError, Hidden, McpConfig, ServerConfig, Way};
pub use request::{CallError, CallOptions};

use server::Server;

/// The logger of what this program itself says about a server.
pub(crate) const OURS: &str = "devloop";

/// Who is given what servers offer and say. Called from several threads; what takes long holds up the server that it
/// was called for.
pub trait Sink: Send + Sync + 'static {
    /// The whole list of a server's tools, which replaces the one before.
    ///
    /// # Errors
    /// The list as a whole can't be taken; the one before stays.
    fn tools(&self, server: &str, offered: Vec<Offered>) -> Result<Replaced, Refused>;

    /// The server was closed and will not come back.
    fn gone(&self, server: &str);

    /// What happened.
    fn notice(&self, notice: Notice);
}

/// Puts everything into a catalogue.
pub struct CatalogueSink<R, F> {
    catalogue: Arc<Catalogue<R>>,
    runner: F,
}

impl<R, F: Fn(&str, &Arc<Definition>) -> R> CatalogueSink<R, F> {
    /// `runner` gives what carries out the calls of a server's tool, whose own name is the definition's `source`.
    pub fn new(catalogue: Arc<Catalogue<R>>, runner: F) -> Self {
        Self { catalogue, runner }
    }
}

impl<R, F> Sink for CatalogueSink<R, F>
where
    R: Send + Sync + 'static,
    F: Fn(&str, &Arc<Definition>) -> R + Send + Sync + 'static,
{
    fn tools(&self, server: &str, offered: Vec<Offered>) -> Result<Replaced, Refused> {
        self.catalogue
            .replace_dynamic(server, offered, |tool| (self.runner)(server, tool))
    }

    fn gone(&self, server: &str) {
        self.catalogue.remove_dynamic(server);
    }

    fn notice(&self, notice: Notice) {
        self.catalogue.notify(notice);
    }
}

/// How servers are treated.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long things may take.
    pub rules: Rules,
    /// How long a program may take to end.
    pub grace: Grace,
    /// The longest message of a server; of a longer one only its length is kept.
    pub line_bytes: usize,
    /// Where programs are started; otherwise where this one was.
    pub directory: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            grace: Grace::default(),
            line_bytes: 16 << 20,
            directory: None,
        }
    }
}

/// How a server stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its name in the configuration.
    pub server: String,
    /// `stdio`, `http` or `sse`.
    pub way: &'static str,
    /// The state of its connection.
    pub state: ConnectionState,
    /// What it calls itself, with its version.
    pub implementation: Option<(String, String)>,
    /// The version of the protocol.
    pub protocol: Option<String>,
    /// Whether its tools were taken or refused so far.
    pub listed: bool,
    /// How many of its tools were taken.
    pub tools: usize,
    /// How many of its tools were set aside.
    pub quarantined: usize,
    /// Why its last list was not taken.
    pub refused: Option<String>,
}

/// The servers of a configuration. Dropped, their connections end at once; [`close`](Self::close) lets them end well.
pub struct Upstreams {
    servers: BTreeMap<String, Arc<Server>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    began: Instant,
}

impl fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstreams")
            .field("servers", &self.servers.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Upstreams {
    /// Begins to connect to all servers and returns at once.
    ///
    /// # Panics
    /// Outside a tokio runtime with input, output and time.
    pub fn start(config: McpConfig, options: &Options, sink: &Arc<dyn Sink>) -> Self {
        let mut servers = BTreeMap::new();
        let mut tasks = Vec::new();
        let random = RandomState::new();
        for (name, config) in config.servers {
            let seed = random.hash_one(&name);
            let (server, task) = Server::start(name.clone(), config, options.clone(), Arc::clone(sink), seed);
            servers.insert(name, server);
            tasks.push(task);
        }
        let tasks = Mutex::new(tasks);
        Self {
            servers,
            tasks,
            began: Instant::now(),
        }
    }

    /// When it began to connect.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Waits until the tools of one server were taken or refused, or it was given up, but no longer than until `latest`.
    /// Whether that is so; there is nothing to wait for from a server that nobody knows.
    pub async fn server_settled(&self, server: &str, latest: Instant) -> bool {
        let Some(server) = self.servers.get(server) else {
            return true;
        };
        let mut watch = server.watch();
        // A server that was closed is settled.
        timeout_at(latest, watch.wait_for(|known| known.settled)).await.is_ok()
    }

    /// Waits until the tools of every server were taken or refused, or it was given up, but no longer than `within`.
    /// Whether all are so far.
    pub async fn settled(&self, within: Duration) -> bool {
        let all = async {
            for server in self.servers.values() {
                // A server that was closed is settled.
                let _ = server.watch().wait_for(|known| known.settled).await;
            }
        };
        timeout(within, all).await.is_ok()
    }

    /// How all servers stand, by name.
    pub fn statuses(&self) -> Vec<ServerStatus> {
        self.servers.values().map(|server| status(server)).collect()
    }

    /// Calls a tool by the server's own name of it. The result is the protocol's `CallToolResult` as it came: `content`,
    /// `structuredContent`, `isError`.
    ///
    /// # Errors
    /// There is no answer, or it is an error of the protocol. A tool that says that it failed gives a result.
    pub async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> Result<Value, CallError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        self.request(server, request, &options).await
    }

    /// One page of a server's resources: `resources`, `nextCursor`.
    ///
    /// # Errors
    /// There is no answer, or it is an error of the protocol.
    pub async fn resources_list(
        &self,
        server: &str,
        cursor: Option<String>,
        options: CallOptions,
    ) -> Result<Value, CallError> {
        let request = ListResourcesRequest::with_param(page(cursor));
        self.request(server, ClientRequest::ListResourcesRequest(request), &options)
            .await
    }

    /// One page of a server's templates of resources: `resourceTemplates`, `nextCursor`.
    ///
    /// # Errors
    /// There is no answer, or it is an error of the protocol.
    pub async fn resource_templates_list(
        &self,
        server: &str,
        cursor: Option<String>,
        options: CallOptions,
    ) -> Result<Value, CallError> {
        let request = ListResourceTemplatesRequest::with_param(page(cursor));
        self.request(server, ClientRequest::ListResourceTemplatesRequest(request), &options)
            .await
    }

    /// A resource of a server: `contents`.
    ///
    /// # Errors
    /// There is no answer, or it is an error of the protocol.
    pub async fn resource_read(&self, server: &str, uri: &str, options: CallOptions) -> Result<Value, CallError> {
        let request = ReadResourceRequest::new(ReadResourceRequestParams::new(uri));
        self.request(server, ClientRequest::ReadResourceRequest(request), &options)
            .await
    }

    /// Asks a server to tell when a resource changes, until [`resource_unsubscribe`](Self::resource_unsubscribe) or the
    /// end of the connection.
    ///
    /// # Errors
    /// There is no answer, or it is an error of the protocol.
    pub async fn resource_subscribe(&self, server: &str, uri: &str, options: CallOptions) -> Result<Value, CallError> {
        self.custom(server, "resources/subscribe", json!({ "uri": uri }), &options)
            .await
    }

    /// Takes that back.
    ///
    /// # Errors
    /// There is no answer, or it is an error of the protocol.
    pub async fn resource_unsubscribe(
        &self,
        server: &str,
        uri: &str,
        options: CallOptions,
    ) -> Result<Value, CallError> {
        self.custom(server, "resources/unsubscribe", json!({ "uri": uri }), &options)
            .await
    }

    /// One page of a server's prompts: `prompts`, `nextCursor`.
    ///
    /// # Errors
    /// There is no answer, or it is an error of the protocol.
    pub async fn prompts_list(
        &self,
        server: &str,
        cursor: Option<String>,
        options: CallOptions,
    ) -> Result<Value, CallError> {
        let request = ListPromptsRequest::with_param(page(cursor));
        self.request(server, ClientRequest::ListPromptsRequest(request), &options)
            .await
    }

    /// A prompt of a server, filled in: `description`, `messages`.
    ///
    /// # Errors
    /// There is no answer, or it is an error of the protocol.
    pub async fn prompt_get(
        &self,
        server: &str,
        prompt: &str,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> Result<Value, CallError> {
        let request = GetPromptRequest::new(GetPromptRequestParams::new(prompt).with_arguments(arguments));
        self.request(server, ClientRequest::GetPromptRequest(request), &options)
            .await
    }

    /// One page of a server's tasks: `tasks`, `nextCursor`. Only the protocol version 2025-11-25 has it.
    ///
    /// # Errors
    /// There is no answer, or it is an error of the protocol.
    pub async fn task_list(
        &self,
        server: &str,
        cursor: Option<String>,
        options: CallOptions,
    ) -> Result<Value, CallError> {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        self.custom(server, "tasks/list", params, &options).await
    }

    /// A task of a server: `taskId`, `status` and what belongs to that.
    ///
    /// # Errors
    /// There is no answer, or it is an error of the protocol.
    pub async fn task_get(&self, server: &str, task: &str, options: CallOptions) -> Result<Value, CallError> {
        self.custom(server, "tasks/get", json!({ "taskId": task }), &options)
            .await
    }

    /// Asks a server to give up a task.
    ///
    /// # Errors
    /// There is no answer, or it is an error of the protocol.
    pub async fn task_cancel(&self, server: &str, task: &str, options: CallOptions) -> Result<Value, CallError> {
        self.custom(server, "tasks/cancel", json!({ "taskId": task }), &options)
            .await
    }

    /// How a server wants to be used, when it is connected and says so.
    ///
    /// # Errors
    /// There is no such server.
    pub fn instructions(&self, server: &str) -> Result<Option<String>, CallError> {
        let known = self.server(server)?.watch();
        let known = known.borrow();
        let info = known.live.as_ref().and_then(|live| live.info.as_ref());
        Ok(info.and_then(|info| info.instructions.clone()))
    }

    /// Ends all connections and waits until they have ended. Requests that wait for an answer fail.
    pub async fn close(&self) {
        for server in self.servers.values() {
            server.close();
        }
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            // One that has panicked has nothing left to end.
            let _ = task.await;
        }
    }

    fn server(&self, name: &str) -> Result<&Arc<Server>, CallError> {
        self.servers.get(name).ok_or_else(|| {
            let known = self.servers.keys().map(String::as_str);
            CallError::UnknownServer {
                server: name.to_owned(),
                nearest: nearest(name, known, 3).into_iter().map(str::to_owned).collect(),
            }
        })
    }

    async fn request(&self, server: &str, request: ClientRequest, options: &CallOptions) -> Result<Value, CallError> {
        request::request(self.server(server)?, request, options).await
    }

    async fn custom(
        &self,
        server: &str,
        method: &str,
        params: Value,
        options: &CallOptions,
    ) -> Result<Value, CallError> {
        let request = CustomRequest::new(method, Some(params));
        self.request(server, ClientRequest::CustomRequest(request), options)
            .await
    }
}

impl Drop for Upstreams {
    fn drop(&mut self) {
        for server in self.servers.values() {
            server.close();
        }
    }
}

fn page(cursor: Option<String>) -> PaginatedRequestParams {
    PaginatedRequestParams::default().with_cursor(cursor)
}

fn status(server: &Server) -> ServerStatus {
    let known = server.watch();
    let known = known.borrow();
    let info = known.live.as_ref().and_then(|live| live.info.as_ref());
    let implementation = info.and_then(|info| info.server_info.as_ref());
    ServerStatus {
        server: server.name.to_string(),
        way: server.config.way.name(),
        state: known.state.clone(),
        implementation: implementation.map(|this| (text::cut(&this.name, 80), text::cut(&this.version, 80))),
        protocol: info.map(|info| info.protocol_version.to_string()),
        listed: known.listed,
        tools: known.tools,
        quarantined: known.quarantined,
        refused: known.refused.clone(),
    }
}
