//! `devloop calls`: every call of a tool in a project, for people and scripts.
//!
//! Answers for choosing among the records of the audit log and for one line of each. Leaves out how a journal is shown
//! (`journal`) and what a record says (the core's `audit`).

use std::fmt::Write;
use std::path::PathBuf;

use devloop_core::audit::OK;
use devloop_core::store::journal::Record;
use devloop_generated as generated;
use serde_json::Value;

use super::Exit;
use super::journal::{Coming, Format, Since, View, shown, since, who};
use super::output::{BAD, FAINT, GOOD, NAME, Printer, harmless};
use super::target::{self, existing_project};

/// The longest input or reason in a line for a person, in characters.
const LONGEST: usize = 100;

/// Arguments of `devloop calls`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Times are UTC. Secrets were redacted and long inputs cut before a call was recorded; the newest some 70 MiB are kept.
A record is made when its call ends: one whose process was killed between its effect and that has none. `devloop
timeline` shows what it appended all the same.
  devloop calls --failed --since 2h               what went wrong in the last two hours
  devloop calls --tool write_todolist --follow    the calls of one tool, and those that come
  devloop calls --format json | jq .decision      what was decided about each, and by which rule")]
pub(super) struct Args {
    /// The project directory.
    #[arg(long, value_name = "DIR", default_value = ".")]
    project_dir: PathBuf,
    /// Go on with what comes, until it is interrupted.
    #[arg(long, short)]
    follow: bool,
    /// Only calls that did not end well.
    #[arg(long)]
    failed: bool,
    /// Only calls of this agent: `pm` or `devloop-pm`.
    #[arg(long)]
    agent: Option<String>,
    /// Only calls of this tool, by its name or an alias.
    #[arg(long)]
    tool: Option<String>,
    /// From a call's number on, from a time on, or since so long ago: `1200`, `2026-11-30`, `2h`.
    #[arg(long, value_name = "SEQ|TIME|DURATION", value_parser = since)]
    since: Option<Since>,
    /// How to print them.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    let found = existing_project(&args.project_dir).and_then(|project| {
        let agent = args.agent.as_deref().map(target::agent).transpose()?;
        Ok((project.audit(), agent.map(|agent| agent.name)))
    });
    let (log, agent) = match found {
        Ok(found) => found,
        Err(message) => {
            printer.error(message);
            return Exit::Usage;
        }
    };
    // Tools of servers and host programs have no spec.
    let tool = args.tool.as_deref();
    let tool = tool.map(|name| generated::tool(name).map_or(name, |tool| tool.name));
    let wanted = |record: &Record| {
        let field = |name: &str| record.fields.get(name).and_then(Value::as_str);
        agent.is_none_or(|agent| field("agent") == Some(agent))
            && tool.is_none_or(|tool| field("tool") == Some(tool))
            && !(args.failed && code(record) == Some(OK))
    };
    let view = View {
        since: args.since,
        format: args.format,
        wanted: &wanted,
        row,
        nothing: ["No call is like that.", "No tool has been called in this project."],
    };
    let coming = if args.follow { Coming::Follow } else { Coming::Leave };
    view.show(&log, coming, printer)
}

fn code(record: &Record) -> Option<&str> {
    record.fields.get("outcome")?.get("code")?.as_str()
}

/// One line for a person. Every text of it is somebody's input.
fn row(text: &mut String, record: &Record) {
    let field = |name: &str| shown(record, name);
    let agent = who(record);
    let code = harmless(code(record).unwrap_or("?"));
    let style = if code == OK { GOOD } else { BAD };
    let outcome = record.fields.get("outcome");
    let reason = outcome.and_then(|outcome| outcome.get("reason")?.as_str());
    let what = match reason {
        Some(reason) => shortened(&harmless(reason)),
        None => shortened(&field("input")),
    };
    let took = record.fields.get("ms").and_then(Value::as_f64).unwrap_or_default();
    let _ = writeln!(
        text,
        "{FAINT}{:>6}  {:<24}{FAINT:#}  {agent:<12}  {NAME}{:<22}{NAME:#}  {style}{code:<17}{style:#}  {took:>8.1} ms  {what}",
        record.seq,
        field("ts"),
        field("tool"),
    );
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_has_nothing_that_a_terminal_obeys() {
        let evil = "a\u{1b}[2J\u{9b}31m\nb\r\u{202e}c\u{7f}\u{0}\u{200b}d\u{feff}e\u{2060}";
        let fields = json!({
            "seq": 3, "ts": evil, "agent": evil, "unit_id": evil, "tool": evil, "input": { evil: evil },
            "outcome": { "code": evil, "reason": evil }, "ms": 1.5,
        });
        let Value::Object(mut fields) = fields else {
            unreachable!()
        };
        for outcome in [fields["outcome"].clone(), json!(7)] {
            fields.insert("outcome".into(), outcome);
            let record = Record {
                seq: 3,
                fields: fields.clone(),
            };
            let mut text = String::new();
            row(&mut text, &record);
            let mut plain = text.clone();
            for style in [FAINT, NAME, BAD, GOOD] {
                plain = plain
                    .replace(&format!("{style}"), "")
                    .replace(&format!("{style:#}"), "");
            }
            let (line, end) = plain.split_at(plain.len() - 1);
            assert_eq!(end, "\n");
            assert!(
                !line.contains(|c: char| c.is_control() || devloop_core::text::is_invisible(c)),
                "{line:?}"
            );
            assert!(line.contains(r"\u{200b}d\u{feff}e\u{2060}"), "{line:?}");
        }
    }
}
