//! `devloop serve`: an MCP server on standard input and output for one agent.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::timeout;

use super::log::{Delivery, Log};
use super::output::Printer;
use super::target::Target;
use super::{Exit, target};
use crate::mcp;
use crate::session::Session;
use crate::upstream::McpConfig;

/// How many calls may be at their files at once; more wait for a thread.
const BLOCKING_THREADS: usize = 32;

/// How long upstream servers may take to end; a client may kill this process 500 ms after it told it to stop.
const CLOSING: Duration = Duration::from_millis(350);

/// How long the audit log may take before upstream servers are told to end.
const KEPT_SOON: Duration = Duration::from_millis(50);

/// At the end, as long as whoever reads standard error may take nothing before the last lines are given up.
const LOG_STALL: Duration = Duration::from_millis(20);

/// Arguments of `devloop serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
For Claude Code, in .mcp.json:
  {\"mcpServers\": {\"devloop\": {\"command\": \"devloop\", \"args\": [\"serve\", \"--agent\", \"pm\", \"--project-dir\", \"/path/to/shop\"]}}}

Standard output carries the protocol only; the log goes to standard error (DEVLOOP_LOG=debug for more of devloop itself).")]
pub(super) struct Args {
    #[command(flatten)]
    target: Target,
    /// Upstream servers whose tools are served, too: a file with `mcpServers`, as Claude Code has it.
    #[arg(long, value_name = "FILE")]
    mcp_config: Option<PathBuf>,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    let log = Log::start(Delivery::Queued);
    let servers = args.mcp_config.as_deref().map(target::servers).transpose();
    let session = match servers.and_then(|servers| Ok((args.target.session()?, servers))) {
        Ok(session) => session,
        Err(message) => {
            log.end(LOG_STALL);
            printer.error(message);
            return Exit::Usage;
        }
    };
    let (session, servers) = session;
    let exit = match serve(&session, servers) {
        Ok(()) => Exit::Ok,
        // Through the log: by now nobody may be reading standard error.
        Err(message) => {
            tracing::error!("cannot serve: {message}");
            Exit::System
        }
    };
    log.end(LOG_STALL);
    exit
}

fn serve(session: &Session, servers: Option<McpConfig>) -> Result<(), String> {
    // One thread serves: answers come fastest so, and file work has threads of its own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(|error| format!("the runtime does not start: {error}"))?;
    let config = session.project().config();
    let defaults = mcp::ServeOptions::default();
    let options = mcp::ServeOptions {
        server_name: config.server_name.clone(),
        // The session is to refuse, which knows why and keeps a record.
        waiting: defaults
            .waiting
            .max(config.execution.settings().pending.saturating_add(1)),
        ..defaults
    };
    let reason = runtime.block_on(async {
        if let Some(servers) = servers {
            let connected = session.connect(servers, &target::options_for(session));
            connected.map_err(|error| error.to_string())?;
        }
        let reason = Box::pin(mcp::serve(session.clone(), options)).await;
        // First of all, as this process may be killed while servers end.
        let _ = session.project().flush(KEPT_SOON);
        if let Some(upstreams) = session.upstreams()
            && timeout(CLOSING, upstreams.close()).await.is_err()
        {
            tracing::warn!("some upstream servers did not end in time and are killed");
        }
        Ok::<_, String>(reason)
    })?;
    // A call that ignores its cancellation must not keep the process.
    runtime.shutdown_background();
    target::flush(session.project());
    match reason {
        mcp::ExitReason::InputEnded | mcp::ExitReason::ClientGone | mcp::ExitReason::Signalled(_) => Ok(()),
        mcp::ExitReason::Failed(message) => Err(message),
    }
}
