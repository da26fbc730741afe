//! `devloop timeline`: what happened in a project, for people and scripts.
//!
//! Answers for showing entries, old and coming ones, also when somebody else wrote to the file: what cannot be read is
//! left out and counted, and nothing that stands in it reaches a terminal as a command. Leaves out appending.

use std::fmt::Write;
use std::path::PathBuf;

use clap::builder::styling::Style;
use devloop_core::store::journal::Record;
use serde_json::Value;

use super::Exit;
use super::journal::{Coming, Format, Since, View, shown, since, who};
use super::output::{BAD, FAINT, NAME, Printer, WARN, harmless};
use super::target::{self, existing_project};

/// Arguments of `devloop timeline`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Times are UTC. What cannot be read is left out and counted on standard error.
  devloop timeline --since 2h                     what happened in the last two hours
  devloop timeline --since 2026-11-30T10:00:00Z   what happened from then on
  devloop timeline --since 1200 --follow          from entry 1200 on, and what comes")]
pub(super) struct Args {
    /// The project directory.
    #[arg(long, value_name = "DIR", default_value = ".")]
    project_dir: PathBuf,
    /// Go on with what comes, until it is interrupted.
    #[arg(long, short)]
    follow: bool,
    /// Only what this agent appended: `pm` or `devloop-pm`.
    #[arg(long)]
    agent: Option<String>,
    /// From an entry's number on, from a time on, or since so long ago: `1200`, `2026-11-30`, `2h`.
    #[arg(long, value_name = "SEQ|TIME|DURATION", value_parser = since)]
    since: Option<Since>,
    /// How to print them.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    let found = existing_project(&args.project_dir).and_then(|project| {
        let agent = args.agent.as_deref().map(target::agent).transpose()?;
        Ok((project.timeline(), agent.map(|agent| agent.name)))
    });
    let (timeline, agent) = match found {
        Ok(found) => found,
        Err(message) => {
            printer.error(message);
            return Exit::Usage;
        }
    };
    let by =
        |record: &Record| agent.is_none_or(|agent| record.fields.get("agent").and_then(Value::as_str) == Some(agent));
    let view = View {
        since: args.since,
        format: args.format,
        wanted: &by,
        row,
        nothing: [
            "No entry of the timeline is like that.",
            "The timeline is empty. Agents append to it with the tool `timeline_append`.",
        ],
    };
    let coming = if args.follow { Coming::Follow } else { Coming::Leave };
    view.show(&timeline, coming, printer)
}

/// One line for a person. Every text of it is somebody's input.
fn row(text: &mut String, record: &Record) {
    let field = |name: &str| shown(record, name);
    let level = field("level");
    let style = match &*level {
        "error" => BAD,
        "warn" => WARN,
        "debug" => FAINT,
        _ => Style::new(),
    };
    let agent = who(record);
    let mut refs = String::new();
    for about in record
        .fields
        .get("refs")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let part = |name: &str| harmless(about.get(name).and_then(Value::as_str).unwrap_or("?"));
        let _ = write!(refs, "  {FAINT}{} {}{FAINT:#}", part("kind"), part("id"));
    }
    let _ = writeln!(
        text,
        "{FAINT}{:>6}  {:<24}{FAINT:#}  {style}{level:<5}{style:#}  {agent:<12}  {NAME}{}{NAME:#}  {}{refs}",
        record.seq,
        field("ts"),
        field("type"),
        field("summary"),
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::output::json_line;

    #[test]
    fn a_row_has_nothing_that_a_terminal_obeys() {
        let evil = "a\u{1b}[2J\u{9b}31m\nb\r\u{202e}c\u{7f}\u{0}";
        let fields = json!({
            "seq": 3, "ts": evil, "level": evil, "agent": evil, "unit_id": evil, "type": evil, "summary": evil,
            "refs": [{"kind": evil, "id": evil}, 7],
        });
        let Value::Object(fields) = fields else { unreachable!() };
        let mut text = String::new();
        row(
            &mut text,
            &Record {
                seq: 3,
                fields: fields.clone(),
            },
        );
        let plain = text
            .replace("\u{1b}[2m", "")
            .replace("\u{1b}[1m", "")
            .replace("\u{1b}[0m", "");
        let (line, end) = plain.split_at(plain.len() - 1);
        assert_eq!(end, "\n");
        assert!(!line.contains(|c: char| c.is_control() || c == '\u{202e}'), "{line:?}");
        assert!(line.contains(r"a\u{1b}[2J\u{9b}31m\nb\r\u{202e}c\u{7f}\u{0}"), "{line}");
        let line = json_line(&fields);
        assert!(!line.contains(|c: char| c.is_control() || c == '\u{202e}'), "{line:?}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), Value::Object(fields));
    }
}
