//! What the commands that show a journal have in common.
//!
//! Answers for reading it from a number or a time on, for going on with what comes, for telling what cannot be read, also
//! when somebody else wrote to the file, and for fields that a terminal may show. That old entries go, where they do, is
//! told only to whoever asks for them, or misses them while following. Leaves out which journal it is, and what the line of
//! an entry is made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use devloop_core::audit::AuditLog;
use devloop_core::store::StoreError;
use devloop_core::store::journal::{Follower, Reader, Record, Skipped};
use devloop_core::timeline::Timeline;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp};
use serde_json::Value;

use super::output::{Printer, counted, harmless, json_line};
use super::{Exit, signals};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Table,
    /// One entry as JSON on each line.
    Json,
}

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    Number(u64),
    Time(Timestamp),
}

/// As many are read at once while following; a foreign line may be long.
const BATCH: usize = 64;

/// As much text is printed at once, about.
const PIECE: usize = 64 * 1024;

/// How long a follower waits before it looks whether anybody still reads.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether what comes is shown, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coming {
    /// Until it is interrupted.
    Follow,
    /// What is there.
    Leave,
}

/// A journal that can be shown.
pub(super) trait Source {
    fn read_from(&self, from: u64) -> Reader;
    fn follow_from(&self, from: u64) -> Follower;
    fn first_since(&self, time: Timestamp) -> Result<u64, StoreError>;
}

impl Source for Timeline {
    fn read_from(&self, from: u64) -> Reader {
        self.read_from(from)
    }

    fn follow_from(&self, from: u64) -> Follower {
        self.follow_from(from)
    }

    fn first_since(&self, time: Timestamp) -> Result<u64, StoreError> {
        self.first_since(time)
    }
}

impl Source for AuditLog {
    fn read_from(&self, from: u64) -> Reader {
        self.read_from(from)
    }

    fn follow_from(&self, from: u64) -> Follower {
        self.follow_from(from)
    }

    fn first_since(&self, time: Timestamp) -> Result<u64, StoreError> {
        self.first_since(time)
    }
}

/// What a command shows of a journal.
pub(super) struct View<'a> {
    pub(super) since: Option<Since>,
    pub(super) format: Format,
    pub(super) wanted: &'a dyn Fn(&Record) -> bool,
    /// Adds one line for a person. Every text of the record is somebody's input.
    pub(super) row: fn(&mut String, &Record),
    /// What is said when no entry is wanted, and when there is none.
    pub(super) nothing: [&'static str; 2],
}

impl View<'_> {
    /// Shows it.
    pub(super) fn show(self, source: &impl Source, coming: Coming, printer: &mut Printer) -> Exit {
        let mut shown = Shown {
            view: self,
            text: String::new(),
            told: Skipped::default(),
            older: None,
            count: 0,
        };
        let done = match coming {
            Coming::Follow => shown.follow(source, printer),
            Coming::Leave => shown.all(source, printer),
        };
        match done {
            Ok(()) => Exit::Ok,
            Err(error) => {
                printer.error(error);
                Exit::System
            }
        }
    }
}

/// What is shown, and what was.
struct Shown<'a> {
    view: View<'a>,
    /// Printed together: a write for each line costs more than all the rest.
    text: String,
    told: Skipped,
    /// How many numbers were gone before the first entry was read.
    older: Option<u64>,
    count: u64,
}

impl Shown<'_> {
    fn all(&mut self, source: &impl Source, printer: &mut Printer) -> Result<(), StoreError> {
        self.tell_of_older(source, printer)?;
        let from = self.first(source)?;
        let mut reader = source.read_from(from);
        while let Some(record) = reader.next().transpose()? {
            self.begin(from, &record);
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
            printer.complain(
                if self.older.is_some() || reader.position() > 1 || self.told != Skipped::default() {
                    self.view.nothing[0]
                } else {
                    self.view.nothing[1]
                },
            );
        }
        Ok(())
    }

    fn follow(&mut self, source: &impl Source, printer: &mut Printer) -> Result<(), StoreError> {
        let stopped = stop_flag();
        let stop = || stopped.load(Ordering::Relaxed);
        self.tell_of_older(source, printer)?;
        let from = self.first(source)?;
        let mut follower = source.follow_from(from);
        while printer.is_open() && !stop() {
            let batch = follower.wait_batch(BATCH, PATIENCE, &stop)?;
            for record in &batch {
                self.begin(from, record);
                self.show(record);
            }
            self.print(printer);
            self.tell_of_skipped(follower.skipped(), printer);
        }
        Ok(())
    }

    /// The number to begin at.
    fn first(&self, source: &impl Source) -> Result<u64, StoreError> {
        match self.view.since {
            None => Ok(1),
            Some(Since::Number(number)) => Ok(number),
            Some(Since::Time(time)) => source.first_since(time),
        }
    }

    /// Whoever asks for what was pruned is told so.
    fn tell_of_older(&self, source: &impl Source, printer: &Printer) -> Result<(), StoreError> {
        let Some(since) = self.view.since else { return Ok(()) };
        let mut reader = source.read_from(1);
        let Some(oldest) = reader.next().transpose()? else {
            return Ok(());
        };
        let is_asked_for = match since {
            Since::Number(number) => number < oldest.seq,
            Since::Time(time) => oldest.time().is_some_and(|oldest| oldest > time),
        };
        if is_asked_for && reader.skipped().pruned > 0 {
            printer.complain(format_args!(
                "Older entries were pruned: the oldest one that is kept has number {}.",
                oldest.seq
            ));
        }
        Ok(())
    }

    /// Notes with the first record, reading from `from` on, what was gone before.
    fn begin(&mut self, from: u64, record: &Record) {
        self.older.get_or_insert(record.seq.saturating_sub(from.max(1)));
    }

    fn show(&mut self, record: &Record) {
        if !self.is_wanted(record) {
            return;
        }
        self.count += 1;
        match self.view.format {
            Format::Json => {
                self.text.push_str(&json_line(&record.fields));
                self.text.push('\n');
            }
            Format::Table => (self.view.row)(&mut self.text, record),
        }
    }

    fn print(&mut self, printer: &mut Printer) {
        printer.raw(self.text.as_bytes());
        self.text.clear();
    }

    fn is_wanted(&self, record: &Record) -> bool {
        let late_enough = match self.view.since {
            Some(Since::Time(since)) => record.time().is_some_and(|time| time >= since),
            _ => true,
        };
        late_enough && (self.view.wanted)(record)
    }

    /// Tells what was passed over since the last time.
    fn tell_of_skipped(&mut self, now: Skipped, printer: &Printer) {
        let parts = self.left_out(now);
        if !parts.is_empty() {
            printer.complain(format_args!("Left out: {}.", parts.join(", ")));
        }
    }

    fn left_out(&mut self, now: Skipped) -> Vec<String> {
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
        // What was gone before is no news.
        let missed = |skipped: Skipped| skipped.pruned.saturating_sub(self.older.unwrap_or(skipped.pruned));
        if missed(now) > missed(then) {
            let count = missed(now) - missed(then);
            parts.push(match count {
                1 => "1 entry that went before it could be shown".to_owned(),
                count => format!("{count} entries that went before they could be shown"),
            });
        }
        parts
    }
}

fn many(count: u64, thing: &str) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), thing)
}

/// Set when the process is told to stop.
fn stop_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    signals::listen(async move |mut signals| {
        signals.next().await;
        set.store(true, Ordering::Relaxed);
    });
    flag
}

/// A field of a record for a terminal: every text of it is somebody's input.
pub(super) fn shown(record: &Record, field: &str) -> String {
    match record.fields.get(field) {
        Some(Value::String(text)) => harmless(text),
        Some(Value::Null) | None => String::new(),
        Some(other) => harmless(&other.to_string()),
    }
}

/// Whose a record is: the agent, with its unit.
pub(super) fn who(record: &Record) -> String {
    let agent = shown(record, "agent");
    match &*shown(record, "unit_id") {
        "" => agent,
        unit => format!("{agent}/{unit}"),
    }
}

/// A number, a time or a duration before now.
pub(super) fn since(text: &str) -> Result<Since, String> {
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
    use super::*;

    #[test]
    fn what_went_before_the_first_entry_is_no_news_and_what_goes_later_is() {
        let mut shown = Shown {
            view: View {
                since: None,
                format: Format::Table,
                wanted: &|_| true,
                row: |_, _| {},
                nothing: [""; 2],
            },
            text: String::new(),
            told: Skipped::default(),
            older: None,
            count: 0,
        };
        let pruned = |pruned, lines, numbers| Skipped {
            pruned,
            lines,
            numbers,
            ..Skipped::default()
        };
        let record = |seq| Record {
            seq,
            fields: serde_json::Map::default(),
        };
        assert_eq!(shown.left_out(pruned(0, 0, 0)), [""; 0]);
        shown.begin(1, &record(71));
        assert_eq!(shown.left_out(pruned(70, 0, 0)), [""; 0]);
        shown.begin(1, &record(72));
        assert_eq!(
            shown.left_out(pruned(71, 1, 2)),
            [
                "1 line that cannot be read",
                "2 numbers that no entry has",
                "1 entry that went before it could be shown"
            ]
        );
        assert_eq!(
            shown.left_out(pruned(80, 1, 2)),
            ["9 entries that went before they could be shown"]
        );
    }

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
}
