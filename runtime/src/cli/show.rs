//! `devloop show TOOL`: everything about one tool, for people.

use devloop_contract::CommonFailure;
use devloop_generated as generated;

use super::output::{FAINT, NAME, Printer};
use super::{Exit, target};
use crate::projection;

/// Arguments of `devloop show`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The tool's name or an alias.
    tool: String,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    let tool = match target::tool(&args.tool) {
        Ok(tool) => tool,
        Err(message) => {
            printer.error(message);
            return Exit::Usage;
        }
    };
    let heading = |printer: &mut Printer, text: &str| printer.line(format_args!("\n{NAME}{text}{NAME:#}"));
    printer.line(format_args!("{NAME}{}{NAME:#}  {}", tool.name, tool.title));
    if !tool.aliases.is_empty() {
        printer.line(format_args!("also called {}", tool.aliases.join(", ")));
    }
    printer.line("");
    printer.line(tool.description);

    heading(printer, "Behaviour");
    let words = [
        Some(tool.kind.as_str()),
        tool.read_only_hint().then_some("read-only hint"),
        tool.idempotent.then_some("idempotent"),
        tool.destructive.then_some("destructive"),
        tool.open_world.then_some("open world"),
        Some(tool.parallelism.as_str()),
        tool.retry_safe.then_some("retry-safe"),
        (tool.exposure == devloop_contract::tool::Exposure::Deferred).then_some("deferred"),
    ];
    printer.line(format_args!(
        "  {}",
        words.into_iter().flatten().collect::<Vec<_>>().join(", ")
    ));
    printer.line(format_args!("  at most {:?}, version {}", tool.timeout, tool.version));

    heading(printer, "Input");
    printer.line(indented(&projection::pretty_schema(tool.input_schema)));
    heading(printer, "Output");
    printer.line(indented(&projection::pretty_schema(tool.output_schema)));

    if !(tool.failures.is_empty() && tool.common_failures.is_empty()) {
        heading(printer, "Expected failures");
        for failure in tool.failures {
            printer.line(format_args!("  {NAME}{}{NAME:#}  {}", failure.code, failure.summary));
        }
        for code in tool.common_failures {
            let summary = CommonFailure::summary_of(code).unwrap_or_default();
            printer.line(format_args!("  {NAME}{code}{NAME:#}  {summary}"));
        }
    }

    heading(printer, "Effects");
    for path in tool.effects.reads {
        printer.line(format_args!("  reads   {path}"));
    }
    for write in tool.effects.writes {
        let only = if write.only.is_empty() {
            String::new()
        } else {
            format!("  only {}", write.only.join(", "))
        };
        let when = if write.when.is_empty() {
            String::new()
        } else {
            format!("  {FAINT}{}{FAINT:#}", write.when)
        };
        printer.line(format_args!("  writes  {}{only}{when}", write.path));
    }
    for event in tool.effects.events {
        printer.line(format_args!("  emits   {event}"));
    }
    for host in tool.effects.host {
        printer.line(format_args!("  host    {host}"));
    }
    let effects = &tool.effects;
    if effects.reads.is_empty() && effects.writes.is_empty() && effects.events.is_empty() && effects.host.is_empty() {
        printer.line("  none in the project");
    }

    heading(printer, "Granted to");
    let granted: Vec<&str> = generated::AGENTS
        .iter()
        .filter(|agent| agent.tools.contains(&tool.name))
        .map(|agent| agent.name)
        .collect();
    printer.line(format_args!(
        "  {}",
        if tool.is_of_catalog() {
            "nobody: every agent has it".to_owned()
        } else if granted.is_empty() {
            "nobody".to_owned()
        } else {
            granted.join(", ")
        }
    ));

    for example in tool.examples {
        heading(printer, &format!("Example: {}", example.title));
        printer.line(indented(&projection::pretty_schema(example.input)));
        if !example.output.is_empty() {
            printer.line("  gives");
            printer.line(indented(&projection::pretty_schema(example.output)));
        }
    }
    printer.line(format_args!("\n{FAINT}declared in {}{FAINT:#}", tool.spec));
    Exit::Ok
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
