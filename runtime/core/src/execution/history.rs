//! What was run, how long it took and how often it failed.
//!
//! Answers for the newest calls and for figures about each tool. The figures are of the calls that are kept, so that
//! they tell of now, and tools that come and go leave nothing behind; only the totals count on. Leaves out what was
//! asked and answered: that is the audit's.
//!
//! Cost: to record is to write into a ring; the figures sort the durations of what is kept, and are for people.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::{CallId, SessionId};

/// As many calls are kept.
pub const KEPT: usize = 1_000;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It did what it was asked for.
    Succeeded,
    /// It answered with a failure.
    Failed,
    /// It broke off in a panic.
    Panicked,
    /// It took too long and was told to stop.
    TimedOut,
    /// It was not taken, or its turn did not come: nothing was done.
    Refused,
    /// It was cancelled before it began: nothing was done.
    Cancelled,
}

impl Ending {
    /// Whether it counts as a failure. That a caller changed its mind does not.
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Succeeded | Self::Cancelled)
    }
}

/// One call that has ended. `Carried::call` and `Session::record_id` of the runtime say which call and session these are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: Arc<str>,
    /// The session.
    pub session: SessionId,
    /// When it was submitted, since the moment that its machine counts from: `Executor::began` of the runtime.
    pub submitted: Duration,
    /// How long it waited, for its turn and for what prepares it.
    pub waited: Duration,
    /// How long it ran, with its pauses; nothing when it did not begin.
    pub ran: Option<Duration>,
    /// How many tries there were beside the first.
    pub retries: usize,
    /// How it ended.
    pub ending: Ending,
}

/// Figures about the calls of one tool that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How many there are.
    pub calls: usize,
    /// How many of them failed.
    pub failures: usize,
    /// How many tries there were beside the first ones.
    pub retries: usize,
    /// Half of those that began ran no longer than that; nothing when none began.
    pub p50: Option<Duration>,
    /// 99 of 100 that began ran no longer than that.
    pub p99: Option<Duration>,
}

/// The newest calls.
///
/// ```
/// use std::time::Duration;
///
/// use devloop_core::execution::{CallId, SessionId};
/// use devloop_core::execution::history::{Ending, History, Record};
///
/// let mut history = History::default();
/// history.record(Record {
///     call: CallId(1),
///     tool: "write_todolist".into(),
///     session: SessionId(1),
///     submitted: Duration::ZERO,
///     waited: Duration::ZERO,
///     ran: Some(Duration::from_millis(3)),
///     retries: 0,
///     ending: Ending::Succeeded,
/// });
/// assert_eq!(history.figures()["write_todolist"].p99, Some(Duration::from_millis(3)));
/// ```
#[derive(Clone, Debug)]
pub struct History {
    kept: usize,
    records: VecDeque<Record>,
    calls: u64,
    failures: u64,
}

impl Default for History {
    fn default() -> Self {
        Self::keeping(KEPT)
    }
}

impl History {
    /// A history that keeps the newest `kept` calls.
    pub fn keeping(kept: usize) -> Self {
        Self {
            kept,
            records: VecDeque::new(),
            calls: 0,
            failures: 0,
        }
    }

    /// A call has ended. The oldest goes when as many are kept as may.
    pub fn record(&mut self, record: Record) {
        self.calls += 1;
        self.failures += u64::from(record.ending.is_failure());
        if self.kept == 0 {
            return;
        }
        if self.records.len() == self.kept {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    /// The calls that are kept, the oldest first.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &Record> + ExactSizeIterator {
        self.records.iter()
    }

    /// How many calls there ever were.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// How many of them failed.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Figures about each tool, sorted by name.
    pub fn figures(&self) -> BTreeMap<Arc<str>, Figures> {
        let mut tools = BTreeMap::<Arc<str>, (Figures, Vec<Duration>)>::new();
        for record in &self.records {
            let (figures, ran) = tools.entry(Arc::clone(&record.tool)).or_default();
            figures.calls += 1;
            figures.failures += usize::from(record.ending.is_failure());
            figures.retries += record.retries;
            ran.extend(record.ran);
        }
        tools
            .into_iter()
            .map(|(tool, (figures, mut ran))| {
                ran.sort_unstable();
                let (p50, p99) = (percentile(&ran, 50), percentile(&ran, 99));
                (tool, Figures { p50, p99, ..figures })
            })
            .collect()
    }
}

/// The smallest value that `percent` of the values are not above, as one of them.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::execution::testing::config;

    const ENDINGS: [Ending; 6] = [
        Ending::Succeeded,
        Ending::Failed,
        Ending::Panicked,
        Ending::TimedOut,
        Ending::Refused,
        Ending::Cancelled,
    ];

    fn record(tool: &str, ran: Option<u64>, ending: Ending) -> Record {
        Record {
            call: CallId(0),
            tool: tool.into(),
            session: SessionId(0),
            submitted: Duration::ZERO,
            waited: Duration::ZERO,
            ran: ran.map(Duration::from_millis),
            retries: 1,
            ending,
        }
    }

    #[test]
    fn history_keeps_the_newest_thousand_and_counts_all() {
        let mut history = History::default();
        for n in 0..1_500 {
            history.record(record("a", Some(n), Ending::Failed));
        }
        let kept: Vec<_> = history
            .records()
            .map(|record| record.ran.unwrap().as_millis())
            .collect();
        assert_eq!((kept.len(), kept[0], kept[999]), (1_000, 500, 1_499));
        assert_eq!((history.calls(), history.failures()), (1_500, 1_500));
        assert_eq!(history.figures()["a"].calls, 1_000);
        let mut nothing = History::keeping(0);
        nothing.record(record("a", None, Ending::Refused));
        assert_eq!((nothing.records().len(), nothing.calls()), (0, 1));
    }

    #[test]
    fn history_figures_are_of_each_tool() {
        let mut history = History::default();
        for n in (1..=100).rev() {
            history.record(record("slow", Some(n), Ending::Succeeded));
        }
        for ending in ENDINGS {
            history.record(record("odd", None, ending));
        }
        let figures = history.figures();
        let ms = |n| Some(Duration::from_millis(n));
        assert_eq!(
            figures["slow"],
            Figures {
                calls: 100,
                failures: 0,
                retries: 100,
                p50: ms(50),
                p99: ms(99)
            }
        );
        assert_eq!(
            figures["odd"],
            Figures {
                calls: 6,
                failures: 4,
                retries: 6,
                p50: None,
                p99: None
            }
        );
        assert_eq!(figures.keys().map(|tool| &**tool).collect::<Vec<_>>(), ["odd", "slow"]);
    }

    /// The model: all records ever made, and a percentile found by counting.
    #[test]
    fn history_random_records_do_what_the_model_does() {
        let one = (
            0..3_usize,
            prop::option::of(0_u64..50),
            prop::sample::select(ENDINGS.to_vec()),
        );
        proptest!(config(60), |(kept in 0_usize..20, all in prop::collection::vec(one, 1..60))| {
            let mut history = History::keeping(kept);
            let all: Vec<_> = all.into_iter().map(|(tool, ran, ending)| record(["a", "b", "c"][tool], ran, ending)).collect();
            for record in &all {
                history.record(record.clone());
            }
            let last = &all[all.len().saturating_sub(kept)..];
            prop_assert_eq!(history.records().cloned().collect::<Vec<_>>(), last);
            let failed = |records: &[Record]| records.iter().filter(|record| record.ending.is_failure()).count();
            prop_assert_eq!((history.calls(), history.failures()), (all.len() as u64, failed(&all) as u64));
            let figures = history.figures();
            for tool in ["a", "b", "c"] {
                let own: Vec<_> = last.iter().filter(|record| &*record.tool == tool).cloned().collect();
                let ran: Vec<_> = own.iter().filter_map(|record| record.ran).collect();
                let not_above = |value| ran.iter().filter(|other| **other <= value).count();
                let percentile = |percent: usize| {
                    ran.iter().copied().filter(|value| 100 * not_above(*value) >= percent * ran.len()).min()
                };
                let expected = (!own.is_empty()).then(|| Figures {
                    calls: own.len(),
                    failures: failed(&own),
                    retries: own.len(),
                    p50: percentile(50),
                    p99: percentile(99),
                });
                prop_assert_eq!(figures.get(tool).copied(), expected);
            }
        });
    }
}
