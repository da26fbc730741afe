//! `devloop explain TOOL`: what would become of a call, and why. Nothing runs, no hook and no tool.
//!
//! Answers for printing an [`Explanation`]. Leaves out deciding: the session says what it would say of a call.

use std::time::Duration;

use clap::ValueEnum;
use devloop_core::permission::{List, Verdict};
use serde_json::{Map, json};

use super::call::{Unprepared, arguments, exit_of_verdict, read_input, report, servers_that_have};
use super::log::{Delivery, Log};
use super::output::{BAD, FAINT, GOOD, NAME, Printer, WARN};
use super::target::Target;
use super::upstream::{Reached, Servers};
use super::{Exit, target};
use crate::call::CallOutcome;
use crate::session::{Explanation, Session};

/// Arguments of `devloop explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  devloop explain write_todolist --agent pm --project-dir shop --input '{\"items\":[]}'
  devloop explain write_todolist --agent pm --project-dir shop --mode plan --format json

The exit code is that of `devloop call --dry-run`: 0 when the call would run, 1 when somebody would be asked, 2 when it would
be denied or its input is wrong.")]
pub(super) struct Args {
    /// The tool's name or an alias.
    tool: String,
    #[command(flatten)]
    target: Target,
    /// The input: JSON, `@FILE`, or `-` for standard input. Default: the first example of the tool, else one
    /// that its schema allows.
    #[arg(long, value_name = "JSON|@FILE|-")]
    input: Option<String>,
    #[command(flatten)]
    servers: Servers,
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// Everything, as JSON.
    Json,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    let _log = Log::start(Delivery::Direct);
    match explain(args, printer) {
        Ok(Ok(explanation)) => {
            match args.format {
                Format::Text => print(&explanation, printer),
                Format::Json => printer.pretty(&json!(explanation)),
            }
            exit_of_verdict(explanation.decision.verdict)
        }
        Ok(Err(outcome)) => report(&outcome, printer),
        Err(Unprepared::Input(message)) => {
            let invalid = devloop_contract::ValidationError::one("", message);
            report(&CallOutcome::Invalid(invalid), printer)
        }
        Err(Unprepared::Usage(message)) => {
            printer.error(message);
            Exit::Usage
        }
        Err(Unprepared::System(message)) => {
            printer.error(message);
            Exit::System
        }
    }
}

fn explain(args: &Args, printer: &Printer) -> Result<Result<Explanation, Box<CallOutcome>>, Unprepared> {
    let config = match target::tool(&args.tool) {
        Ok(_) => None,
        Err(message) => servers_that_have(&args.servers, &args.tool, message)?,
    };
    let session = args.target.session().map_err(Unprepared::Usage)?;
    let reached = Reached::new(session, config, args.servers.wait());
    let reached = reached.map_err(|error| Unprepared::System(error.to_string()))?;
    reached.settle(&args.tool, &Map::new());
    reached.complain(&args.tool, printer);
    ask(&reached.session, args)
}

/// Asks the session, with the input that was given or else an example.
fn ask(session: &Session, args: &Args) -> Result<Result<Explanation, Box<CallOutcome>>, Unprepared> {
    let entry = session.catalogue().get(&args.tool);
    let example = || entry.and_then(|entry| entry.compiled().example());
    let input = match &args.input {
        Some(input) => arguments(&read_input(input)?)?,
        None => arguments(example().as_deref().unwrap_or("{}").as_bytes())?,
    };
    Ok(session.explain(&args.tool, input))
}

fn print(explanation: &Explanation, printer: &mut Printer) {
    let decision = &explanation.decision;
    let colour = match decision.verdict {
        Verdict::Allow => GOOD,
        Verdict::Ask => WARN,
        Verdict::Deny => BAD,
    };
    printer.line(format_args!(
        "{NAME}{}{NAME:#}  {}",
        decision.signature, explanation.owner
    ));
    printer.line(format_args!(
        "{colour}{}{colour:#}: {}",
        decision.verdict, decision.reason
    ));
    if let Some(rule) = &decision.remember {
        printer.line(format_args!(
            "  allowed by `--{} '{rule}'`, by that rule in devloop.toml, or by a person for the session",
            List::Allow.as_str()
        ));
    }
    for file in &decision.sensitive {
        printer.line(format_args!("  {file}"));
    }
    if !explanation.hooks.is_empty() {
        printer.line(format_args!("{NAME}Hooks{NAME:#}, which may still ask or deny"));
        for hook in &explanation.hooks {
            printer.line(format_args!("  {hook}"));
        }
    }
    match &explanation.sandbox {
        Some(touches) if touches.reads.is_empty() && touches.writes.is_empty() && touches.paths.is_empty() => {
            printer.line(format_args!("{NAME}Sandbox{NAME:#}"));
            printer.line("  no file of the project");
        }
        Some(touches) => {
            printer.line(format_args!("{NAME}Sandbox{NAME:#}"));
            for (word, paths) in [
                ("reads", &touches.reads),
                ("writes", &touches.writes),
                ("template allows", &touches.write_allow),
            ] {
                if !paths.is_empty() {
                    printer.line(format_args!("  {word:<15} {}", paths.join(", ")));
                }
            }
            for named in &touches.paths {
                let word = match (named.may_read, named.may_write) {
                    (true, true) => "may be read and written",
                    (true, false) => "may be read and not written",
                    (false, true) => "may be written and not read",
                    (false, false) => "may not be read or written",
                };
                let by =
                    |pattern: &Option<String>| pattern.as_deref().map_or("none".to_owned(), |text| format!("`{text}`"));
                printer.line(format_args!(
                    "  {}: {word}; pattern of the template: {}, of the spec: {}",
                    named.path,
                    by(&named.template),
                    by(&named.spec)
                ));
            }
        }
        None => {
            printer.line(format_args!("{FAINT}no sandbox of ours: it runs elsewhere{FAINT:#}"));
            if !explanation.affected.is_empty() {
                printer.line(format_args!("  acts on {}", explanation.affected.join(", ")));
            }
        }
    }
    let turn = &explanation.turn;
    printer.line(format_args!("{NAME}Turn{NAME:#}"));
    printer.line(format_args!(
        "  {}, {}, at most {:?}, {}",
        turn.kind,
        turn.parallelism,
        Duration::from_millis(turn.timeout_ms),
        if turn.retried {
            "tried again after a failure that passes"
        } else {
            "never tried again by itself"
        }
    ));
    for path in &turn.locks {
        printer.line(format_args!("  locks {path}"));
    }
}
