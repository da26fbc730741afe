//! A catalogue, servers that are programs, and a look at what came of it.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use devloop_core::catalogue::{Catalogue, ConnectionState, LogLine};
use devloop_core::connection::Rules;
use devloop_core::registry::Definition;
use devloop_runtime::upstream::{
    CallError, CallOptions, CatalogueSink, McpConfig, Options, ServerStatus, Sink, Upstreams,
};
use serde_json::{Map, Value, json};

use crate::alive::is_alive;

/// Long enough for everything that should happen, on a machine with other things to do.
pub(crate) const LONG: Duration = Duration::from_mins(1);

pub(crate) struct Rig {
    pub(crate) catalogue: Arc<Catalogue<String>>,
    pub(crate) upstreams: Upstreams,
}

/// Short pauses, so that tests are short.
pub(crate) fn options() -> Options {
    Options {
        rules: Rules {
            first_pause: Duration::from_millis(20),
            longest_pause: Duration::from_millis(200),
            ..Rules::default()
        },
        ..Options::default()
    }
}

/// The configuration of a fake server in one of its modes.
pub(crate) fn fake(mode: &[&str]) -> Value {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream/server.py");
    let mut args = vec![program.display().to_string()];
    args.extend(mode.iter().map(|word| (*word).to_owned()));
    json!({ "command": "python3", "args": args })
}

pub(crate) fn start(servers: &[(&str, Value)], options: &Options) -> Rig {
    start_with(servers, options, Arc::new(Catalogue::new(|_| Ok(()))))
}

pub(crate) fn start_with(servers: &[(&str, Value)], options: &Options, catalogue: Arc<Catalogue<String>>) -> Rig {
    let servers: Map<String, Value> = servers
        .iter()
        .map(|(name, server)| ((*name).to_owned(), server.clone()))
        .collect();
    let text = json!({ "mcpServers": servers }).to_string();
    let config = McpConfig::parse("test", text.as_bytes(), |name| std::env::var(name).ok()).expect("it fits");
    let runner = |server: &str, tool: &Arc<Definition>| format!("{server}/{}", tool.source);
    let sink: Arc<dyn Sink> = Arc::new(CatalogueSink::new(Arc::clone(&catalogue), runner));
    let upstreams = Upstreams::start(config, options, &sink);
    Rig { catalogue, upstreams }
}

/// Runs on one thread, as `serve` does.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(2 * LONG, test).await.expect("in time") });
}

/// Waits until something is so.
pub(crate) async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LONG, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl Rig {
    pub(crate) async fn settled(&self) {
        assert!(self.upstreams.settled(LONG).await, "{:?}", self.upstreams.statuses());
    }

    pub(crate) fn status(&self, server: &str) -> ServerStatus {
        let mut all = self.upstreams.statuses().into_iter();
        all.find(|status| status.server == server).expect("it is known")
    }

    pub(crate) async fn call(&self, server: &str, tool: &str, arguments: Value) -> Result<Value, CallError> {
        self.call_with(server, tool, arguments, CallOptions::default()).await
    }

    pub(crate) async fn call_with(
        &self,
        server: &str,
        tool: &str,
        arguments: Value,
        options: CallOptions,
    ) -> Result<Value, CallError> {
        let Value::Object(arguments) = arguments else {
            panic!("an object")
        };
        self.upstreams.call(server, tool, arguments, options).await
    }

    /// The structured content of a call that succeeds.
    pub(crate) async fn structured(&self, server: &str, tool: &str) -> Value {
        let mut result = self.call(server, tool, json!({})).await.expect("it answers");
        result["structuredContent"].take()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.catalogue.all().iter().map(|tool| tool.name().to_owned()).collect()
    }

    /// Waits for a line of the log.
    pub(crate) async fn logged(&self, part: &str) -> LogLine {
        until(part, || {
            let lines = self.catalogue.drain_log().items;
            lines.into_iter().find(|line| line.data.to_string().contains(part))
        })
        .await
    }

    /// Waits for a change of a connection.
    pub(crate) async fn changed(&self, fits: impl Fn(&ConnectionState) -> bool) -> ConnectionState {
        until("a change of the connection", || {
            let changes = self.catalogue.drain_connection().items;
            changes.into_iter().map(|change| change.state).find(|state| fits(state))
        })
        .await
    }
}

pub(crate) async fn dead(pid: i32) {
    until("the end of a process", || (!is_alive(pid)).then_some(())).await;
}

pub(crate) fn pid(value: &Value) -> i32 {
    let pid = value["pid"].as_i64().expect("a process id");
    i32::try_from(pid).expect("a process id")
}
