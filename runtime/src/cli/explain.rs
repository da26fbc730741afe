//! `devloop explain TOOL`: what would become of a call, and why. Nothing runs, no hook and no tool.
//!
//! Answers for printing an [`Explanation`]. Leaves out deciding: the session says what it would say of a call.

use std::time::Duration;

use clap::ValueEnum;
use devloop_core::permission::{List, Verdict};
use serde_json::json;

use super::call::{Unprepared, arguments, read_input, report};
use super::output::{BAD, FAINT, GOOD, NAME, Printer, WARN};
use super::target::Target;
use super::{Exit, target};
use crate::call::CallOutcome;
use crate::session::Explanation;

/// Arguments of `devloop explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  devloop explain write_todolist --agent pm --project-dir shop --input '{\"items\":[]}'
  devloop explain write_todolist --agent pm --project-dir shop --mode plan --format json

The exit code is 0 when the call would run, 1 when somebody would be asked, 2 when it would be denied or its input is wrong.")]
pub(super) struct Args {
    /// The tool's name or an alias.
    tool: String,
    #[command(flatten)]
    target: Target,
    /// The input: JSON, `@FILE`, or `-` for standard input. Default: the first example of the tool.
    #[arg(long, value_name = "JSON|@FILE|-")]
    input: Option<String>,
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
    let tool = match target::tool(&args.tool) {
        Ok(tool) => tool,
        Err(message) => {
            printer.error(message);
            return Exit::Usage;
        }
    };
    let session = match args.target.session() {
        Ok(session) => session,
        Err(message) => {
            printer.error(message);
            return Exit::Usage;
        }
    };
    let example = tool.examples.first().map_or("{}", |example| example.input);
    let input = read_input(args.input.as_deref().unwrap_or(example)).and_then(|text| arguments(&text));
    let input = match input {
        Ok(input) => input,
        Err(Unprepared::Input(message)) => {
            let invalid = devloop_contract::ValidationError::one("", message);
            return report(&CallOutcome::Invalid(invalid), printer);
        }
        Err(Unprepared::Usage(message)) => {
            printer.error(message);
            return Exit::Usage;
        }
        Err(Unprepared::System(message)) => {
            printer.error(message);
            return Exit::System;
        }
    };
    match session.explain(&args.tool, input) {
        Ok(explanation) => {
            match args.format {
                Format::Text => print(&explanation, printer),
                Format::Json => printer.pretty(&json!(explanation)),
            }
            match explanation.decision.verdict {
                Verdict::Allow => Exit::Ok,
                Verdict::Ask => Exit::Expected,
                Verdict::Deny => Exit::Refused,
            }
        }
        Err(outcome) => report(&outcome, printer),
    }
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
            "  allowed by `--{} '{rule}'`, or by a person for the session",
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
            for (path, may) in &touches.paths {
                let word = if *may { "may be written" } else { "may not be written" };
                printer.line(format_args!("  {path}: {word}"));
            }
        }
        None => printer.line(format_args!("{FAINT}no sandbox of ours: it runs elsewhere{FAINT:#}")),
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
