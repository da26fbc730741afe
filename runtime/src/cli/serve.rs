//! `devloop serve`: an MCP server on standard input and output for one agent.

use std::sync::Arc;

use super::output::Printer;
use super::target::Target;
use super::{Exit, target};
use crate::identity::identify;
use crate::mcp;
use crate::project::Project;
use crate::session::Session;

/// How many calls may be at their files at once; more wait for a thread.
const BLOCKING_THREADS: usize = 32;

/// Arguments of `devloop serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
For Claude Code, in .mcp.json:
  {\"mcpServers\": {\"devloop\": {\"command\": \"devloop\", \"args\": [\"serve\", \"--agent\", \"pm\", \"--project-dir\", \"/path/to/shop\"]}}}

Standard output carries the protocol only; the log goes to standard error (DEVLOOP_LOG=debug for more).")]
pub(super) struct Args {
    #[command(flatten)]
    target: Target,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    start_log();
    let session = match prepare(&args.target) {
        Ok(session) => session,
        Err(message) => {
            printer.error(message);
            return Exit::Usage;
        }
    };
    // One thread serves: answers come fastest so, and file work has threads of its own.
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            printer.error(format_args!("cannot start the runtime: {error}"));
            return Exit::System;
        }
    };
    let server_name = session.project().config().server_name.clone();
    let options = mcp::ServeOptions {
        server_name,
        ..mcp::ServeOptions::default()
    };
    let reason = runtime.block_on(mcp::serve(session, options));
    // A call that ignores its cancellation must not keep the process.
    runtime.shutdown_background();
    match reason {
        mcp::ExitReason::InputEnded | mcp::ExitReason::ClientGone | mcp::ExitReason::Signalled(_) => Exit::Ok,
        mcp::ExitReason::Failed(message) => {
            printer.error(format_args!("cannot serve: {message}"));
            Exit::System
        }
    }
}

fn prepare(target: &Target) -> Result<Session, String> {
    let agent = target::agent(&target.agent)?;
    let project = Project::open(&target.project_dir).map_err(|error| error.to_string())?;
    let client_session = std::env::var("CLAUDE_CODE_SESSION_ID").ok().filter(|id| !id.is_empty());
    let identity =
        identify(agent, project.path(), target.given(), client_session).map_err(|error| error.to_string())?;
    Ok(Session::new(Arc::new(project), agent, identity))
}

/// The log on standard error: warnings, or what `DEVLOOP_LOG` asks for.
fn start_log() {
    use std::io::IsTerminal;

    use tracing_subscriber::EnvFilter;

    // rmcp warns of every error answer, which the client has been given anyway.
    let filter = EnvFilter::try_from_env("DEVLOOP_LOG").unwrap_or_else(|_| EnvFilter::new("warn,rmcp=error"));
    let coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // A second subscriber can only be a host's own, which then has the log already.
    let _ = log.with_ansi(coloured).with_target(false).try_init();
}
