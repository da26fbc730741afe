//! `devloop call TOOL`: one call, its result as JSON on standard output.

use std::fs;
use std::io::{self, Read};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::log::{Delivery, Log};
use super::output::Printer;
use super::target::Target;
use super::{Exit, target};
use crate::call::{CallOutcome, CallRequest, ToolService};
use crate::session::Session;
use crate::{identity, json};

/// Arguments of `devloop call`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  devloop call write_todolist --agent pm --project-dir shop --input '{\"items\":[]}'
  devloop call write_todolist --agent coder --unit web --project-dir shop --input @list.json
  jq … | devloop call write_todolist --agent pm --project-dir shop --input -")]
pub(super) struct Args {
    /// The tool's name or an alias.
    tool: String,
    #[command(flatten)]
    target: Target,
    /// The input: JSON, `@FILE`, or `-` for standard input.
    #[arg(long, default_value = "{}", value_name = "JSON|@FILE|-")]
    input: String,
    /// Names this one call: a tool that creates something does it once for each name. Default: a new one.
    #[arg(long, value_name = "ID")]
    tool_use_id: Option<String>,
}

pub(super) fn run(args: Args, printer: &mut Printer) -> Exit {
    // What goes wrong beside the call, such as an event journal that cannot be written, is told nowhere else.
    let _log = Log::start(Delivery::Direct);
    match prepare(&args) {
        Ok((session, arguments)) => {
            let tool_use_id = args.tool_use_id.unwrap_or_else(|| format!("cli-{}", Uuid::now_v7()));
            let outcome = match call(&session, args.tool, arguments, tool_use_id) {
                Ok(outcome) => outcome,
                Err(error) => {
                    printer.error(format_args!("cannot start the runtime: {error}"));
                    return Exit::System;
                }
            };
            report(&outcome, printer)
        }
        Err(Unprepared::Usage(message)) => {
            printer.error(message);
            Exit::Usage
        }
        Err(Unprepared::Input(message)) => {
            let outcome = CallOutcome::Invalid(devloop_contract::ValidationError::one("", message));
            report(&outcome, printer)
        }
    }
}

enum Unprepared {
    Usage(String),
    Input(String),
}

fn prepare(args: &Args) -> Result<(Session, Map<String, Value>), Unprepared> {
    let agent = target::agent(&args.target.agent).map_err(Unprepared::Usage)?;
    let tool = target::tool(&args.tool).map_err(Unprepared::Usage)?;
    if !agent.has(tool) {
        return Err(Unprepared::Usage(format!(
            "{} is not granted to {}; its tools: {}",
            tool.name,
            agent.name,
            agent.tools.join(", ")
        )));
    }
    if let Some(id) = &args.tool_use_id {
        identity::label("--tool-use-id", id.clone()).map_err(|error| Unprepared::Usage(error.to_string()))?;
    }
    let session = args.target.session().map_err(Unprepared::Usage)?;
    let text = read_input(&args.input)?;
    // Some editors begin every file with a byte order mark.
    let text = text.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(&text);
    let parsed = json::parse(text).map_err(|error| Unprepared::Input(format!("the input is no JSON: {error}")))?;
    if let Some(duplicate) = parsed.duplicate {
        return Err(Unprepared::Input(duplicate.to_string()));
    }
    let Value::Object(arguments) = parsed.value else {
        return Err(Unprepared::Input("the input must be a JSON object".to_owned()));
    };
    Ok((session, arguments))
}

fn read_input(input: &str) -> Result<Vec<u8>, Unprepared> {
    let unreadable = |from: &str, error: io::Error| Unprepared::Usage(format!("cannot read {from}: {error}"));
    if input == "-" {
        let mut text = Vec::new();
        io::stdin()
            .read_to_end(&mut text)
            .map_err(|error| unreadable("standard input", error))?;
        Ok(text)
    } else if let Some(path) = input.strip_prefix('@') {
        fs::read(path).map_err(|error| unreadable(path, error))
    } else {
        Ok(input.as_bytes().to_vec())
    }
}

fn call(
    session: &Session,
    tool: String,
    arguments: Map<String, Value>,
    tool_use_id: String,
) -> io::Result<CallOutcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    Ok(runtime.block_on(session.call(CallRequest {
        tool,
        arguments,
        tool_use_id,
        cancel: CancellationToken::new(),
        progress: None,
        approver: None,
    })))
}

fn report(outcome: &CallOutcome, printer: &mut Printer) -> Exit {
    printer.json(&outcome.to_json());
    match outcome {
        CallOutcome::Success(_) => Exit::Ok,
        CallOutcome::Passed(answer) if answer.is_error => Exit::Expected,
        CallOutcome::Passed(_) => Exit::Ok,
        CallOutcome::Expected(_) => Exit::Expected,
        CallOutcome::Invalid(error) => {
            printer.error(error);
            Exit::Refused
        }
        CallOutcome::Sandbox { message, hint } => {
            printer.error(message);
            if let Some(hint) = hint {
                printer.complain(hint);
            }
            Exit::Refused
        }
        CallOutcome::Internal { chain, error_id, .. } => {
            // Usually the log has just said so.
            if !tracing::enabled!(target: "devloop_runtime::session", tracing::Level::ERROR) {
                printer.error(format_args!("{chain} ({error_id})"));
            }
            Exit::System
        }
        CallOutcome::Cancelled => Exit::System,
        CallOutcome::NeedsApproval(ask) => {
            printer.error(&ask.reason);
            Exit::Refused
        }
        CallOutcome::UnknownTool { .. } => Exit::Usage,
    }
}
