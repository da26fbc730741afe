//! `devloop timeline`: what happened in a project, for people and scripts.
//!
//! Answers for showing entries, old and coming ones, also when somebody else wrote to the file: what cannot be read is
//! left out and counted, and nothing that stands in it reaches a terminal as a command. Leaves out appending.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::styling::Style;
use devloop_core::store::StoreError;
use devloop_core::store::journal::{Record, Skipped};
use devloop_core::timeline::Timeline;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::Exit;
use super::output::{BAD, FAINT, NAME, Printer, WARN, counted, harmless, json_line};
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// One entry as JSON on each line.
    Json,
}

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Number(u64),
    Time(Timestamp),
}

/// As many are read at once while following; a foreign line may be long.
const BATCH: usize = 64;

/// As much text is printed at once, about.
const PIECE: usize = 64 * 1024;

/// How long a follower waits before it looks whether anybody still reads.
const PATIENCE: Duration = Duration::from_millis(500);

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
    let mut shown = Shown {
        agent,
        since: args.since,
        format: args.format,
        text: String::new(),
        told: Skipped::default(),
        count: 0,
    };
    let done = if args.follow {
        shown.follow(&timeline, printer)
    } else {
        shown.all(&timeline, printer)
    };
    match done {
        Ok(()) => Exit::Ok,
        Err(error) => {
            printer.error(error);
            Exit::System
        }
    }
}

/// What is shown, and what was.
struct Shown {
    agent: Option<&'static str>,
    since: Option<Since>,
    format: Format,
    /// Printed together: a write for each line costs more than all the rest.
    text: String,
    told: Skipped,
    count: u64,
}

impl Shown {
    fn all(&mut self, timeline: &Timeline, printer: &mut Printer) -> Result<(), StoreError> {
        let mut reader = timeline.read_from(self.first(timeline)?);
        let mut read = false;
        while let Some(record) = reader.next().transpose()? {
            read = true;
            self.show(&record);
            if self.text.len() >= PIECE {
                self.print(printer);
                if !printer.is_open() {
                    break;
                }
            }
        }
        self.print(printer);
        self.tell_of_skipped(reader.skipped(), printer);
        if self.count == 0 && printer.is_open() {
            printer.complain(if read || reader.position() > 1 || self.told != Skipped::default() {
                "No entry of the timeline is like that."
            } else {
                "The timeline is empty. Agents append to it with the tool `timeline_append`."
            });
        }
        Ok(())
    }

    fn follow(&mut self, timeline: &Timeline, printer: &mut Printer) -> Result<(), StoreError> {
        let stopped = stop_flag();
        let stop = || stopped.load(Ordering::Relaxed);
        let mut follower = timeline.follow_from(self.first(timeline)?);
        while printer.is_open() && !stop() {
            let batch = follower.wait_batch(BATCH, PATIENCE, &stop)?;
            for record in &batch {
                self.show(record);
            }
            self.print(printer);
            self.tell_of_skipped(follower.skipped(), printer);
        }
        Ok(())
    }

    /// The number to begin at.
    fn first(&self, timeline: &Timeline) -> Result<u64, StoreError> {
        match self.since {
            None => Ok(1),
            Some(Since::Number(number)) => Ok(number),
            Some(Since::Time(time)) => timeline.first_since(time),
        }
    }

    fn show(&mut self, record: &Record) {
        if !self.is_wanted(record) {
            return;
        }
        self.count += 1;
        match self.format {
            Format::Json => {
                self.text.push_str(&json_line(&record.fields));
                self.text.push('\n');
            }
            Format::Table => row(&mut self.text, record),
        }
    }

    fn print(&mut self, printer: &mut Printer) {
        printer.raw(self.text.as_bytes());
        self.text.clear();
    }

    fn is_wanted(&self, record: &Record) -> bool {
        let by = self
            .agent
            .is_none_or(|agent| record.fields.get("agent").and_then(Value::as_str) == Some(agent));
        let late_enough = match self.since {
            Some(Since::Time(since)) => record.time().is_some_and(|time| time >= since),
            _ => true,
        };
        by && late_enough
    }

    /// Tells what was passed over since the last time.
    fn tell_of_skipped(&mut self, now: Skipped, printer: &Printer) {
        let then = std::mem::replace(&mut self.told, now);
        let mut parts = Vec::new();
        if now.lines > then.lines {
            parts.push(format!("{} that cannot be read", many(now.lines - then.lines, "line")));
        }
        if now.zeros > then.zeros {
            parts.push(many(now.zeros - then.zeros, "zero byte"));
        }
        // Each line that cannot be read may have had one of the numbers.
        let numbers = now.numbers - then.numbers;
        if numbers > now.lines - then.lines {
            parts.push(format!("{} that no entry has", many(numbers, "number")));
        }
        if !parts.is_empty() {
            printer.complain(format_args!("Left out: {}.", parts.join(", ")));
        }
    }
}

fn many(count: u64, thing: &str) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), thing)
}

/// One line for a person. Every text of it is somebody's input.
fn row(text: &mut String, record: &Record) {
    let field = |name: &str| match record.fields.get(name) {
        Some(Value::String(text)) => harmless(text),
        Some(Value::Null) | None => String::new(),
        Some(other) => harmless(&other.to_string()),
    };
    let level = field("level");
    let style = match &*level {
        "error" => BAD,
        "warn" => WARN,
        "debug" => FAINT,
        _ => Style::new(),
    };
    let agent = match &*field("unit_id") {
        "" => field("agent"),
        unit => format!("{}/{unit}", field("agent")),
    };
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

/// Set when the process is told to stop.
fn stop_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let (ready, listening) = std::sync::mpsc::channel();
    let listen = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
            let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
                return;
            };
            let _ = ready.send(());
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            set.store(true, Ordering::Relaxed);
        });
    };
    // Without a thread the signals end the process as ever.
    if std::thread::Builder::new().name("signals".into()).spawn(listen).is_ok() {
        let _ = listening.recv();
    }
    flag
}

/// A number, a time or a duration before now.
fn since(text: &str) -> Result<Since, String> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text
            .parse()
            .map(Since::Number)
            .map_err(|_| format!("no entry has a number greater than {}", u64::MAX));
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(Since::Time(time));
    }
    let civil = text
        .parse::<DateTime>()
        .or_else(|_| text.parse::<Date>().map(DateTime::from));
    if let Ok(time) = civil.and_then(|time| TimeZone::UTC.to_timestamp(time)) {
        return Ok(Since::Time(time));
    }
    let ago = text
        .parse::<Span>()
        .ok()
        .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok())
        .filter(|ago| !ago.is_negative());
    match ago {
        Some(ago) => Ok(Since::Time(Timestamp::now().checked_sub(ago).unwrap_or(Timestamp::MIN))),
        None => Err(
            "expected the number of an entry (1200), a time (2026-11-30, 2026-11-30T10:00:00Z; UTC) or a duration \
             (90s, 2h, 3d)"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn time(text: &str) -> Since {
        Since::Time(text.parse().unwrap())
    }

    #[test]
    fn since_is_a_number_a_time_or_a_duration() {
        assert_eq!(since("0").unwrap(), Since::Number(0));
        assert_eq!(since(" 1200 ").unwrap(), Since::Number(1200));
        assert_eq!(since("2026-11-30").unwrap(), time("2026-11-30T00:00:00Z"));
        assert_eq!(since("2026-11-30T10:15").unwrap(), time("2026-11-30T10:15:00Z"));
        assert_eq!(
            since("2026-11-30T10:15:00.5+02:00").unwrap(),
            time("2026-11-30T08:15:00.5Z")
        );
        let now = Timestamp::now();
        for (text, seconds) in [
            ("90s", 90),
            ("2h", 7_200),
            ("1h30m", 5_400),
            ("3d", 259_200),
            ("1w", 604_800),
        ] {
            let Since::Time(then) = since(text).unwrap() else {
                panic!("{text}")
            };
            let ago = now.duration_since(then).as_secs();
            assert!((seconds - 5..=seconds).contains(&ago), "{text}: {ago}");
        }
        for bad in [
            "",
            "yesterday",
            "-2h",
            "1.2.3",
            "2026-13-01",
            "99999999999999999999",
            "2 parsecs",
        ] {
            assert!(since(bad).is_err(), "{bad}");
        }
    }

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
