//! The time, as it can be replaced in a test, and the two ways in which it is written.
//!
//! Answers for the clock and its formats. Leaves out durations and deadlines, which use the monotonic clock.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Tells the time.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that stands still until it is moved; for tests.
#[derive(Debug)]
pub struct FixedClock(Mutex<Timestamp>);

impl FixedClock {
    /// A clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        Self(Mutex::new(now))
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *now = now.checked_add(by).unwrap_or(Timestamp::MAX);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// UTC with milliseconds, as in files and events: `2026-11-30T10:15:00.123Z`.
pub fn iso(time: Timestamp) -> String {
    let t = TimeZone::UTC.to_datetime(time);
    let date = format!("{:04}-{:02}-{:02}", t.year(), t.month(), t.day());
    format!(
        "{date}T{:02}:{:02}:{:02}.{:03}Z",
        t.hour(),
        t.minute(),
        t.second(),
        t.millisecond()
    )
}

/// The same for file names, without a colon: `20261130T101500123Z`.
pub fn stamp(time: Timestamp) -> String {
    iso(time).chars().filter(|c| !matches!(c, '-' | ':' | '.')).collect()
}

/// The time of which a text is the [`stamp`]; `None` for any other text.
pub fn time_of_stamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let has_form = bytes.len() == 19
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 => *byte == b'T',
            18 => *byte == b'Z',
            _ => byte.is_ascii_digit(),
        });
    if !has_form {
        return None;
    }
    let number = |range: std::ops::Range<usize>| text[range].parse::<i16>().ok();
    let small = |range| number(range).and_then(|number| i8::try_from(number).ok());
    let date = jiff::civil::Date::new(number(0..4)?, small(4..6)?, small(6..8)?).ok()?;
    let nanoseconds = i32::from(number(15..18)?) * 1_000_000;
    let time = jiff::civil::Time::new(small(9..11)?, small(11..13)?, small(13..15)?, nanoseconds).ok()?;
    TimeZone::UTC.to_timestamp(date.to_datetime(time)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_keep_milliseconds() {
        let time: Timestamp = "2026-11-30T10:15:00.0239Z".parse().unwrap();
        assert_eq!(iso(time), "2026-11-30T10:15:00.023Z");
        assert_eq!(stamp(time), "20261130T101500023Z");
        assert_eq!(time_of_stamp("20261130T101500023Z").map(iso), Some(iso(time)));
        for text in [
            "20261130T101500023",
            "20261330T101500023Z",
            "20261130T101500é23Z",
            "2026-1130T10150023Z",
            "",
        ] {
            assert_eq!(time_of_stamp(text), None, "{text}");
        }
        assert_eq!(
            iso("1999-01-02T03:04:05+02:00".parse().unwrap()),
            "1999-01-02T01:04:05.000Z"
        );
    }

    #[test]
    fn a_fixed_clock_moves_only_when_told() {
        let clock = FixedClock::new(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), clock.now());
        clock.advance(Duration::from_millis(1_500));
        assert_eq!(iso(clock.now()), "1970-01-01T00:00:01.500Z");
    }
}
