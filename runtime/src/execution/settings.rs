//! The settings of an executor.
//!
//! Answers for their bounds. Leaves out what they mean to the machine ([`devloop_core::execution::scheduler`]).

use std::time::Duration;

use devloop_core::execution::retry::PAUSES;
use devloop_core::execution::scheduler::{Limits, LimitsError};
use devloop_core::execution::{gate, history};

/// The most pauses between tries, and the longest of them, that may be set.
pub(crate) const MOST_PAUSES: usize = 10;
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The most that a number of calls may be set to.
pub(crate) const MOST_CALLS: usize = 100_000;

/// The settings of an executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many calls run and wait at once.
    pub limits: Limits,
    /// How many calls of a session may wait for their turn in it. Default: 64.
    pub pending: usize,
    /// The pauses before each further try of a call that may be repeated. Default: 200 and 400 ms.
    pub pauses: Vec<Duration>,
    /// How many calls the history keeps. Default: 1,000.
    pub history: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            pending: gate::PENDING,
            pauses: PAUSES.to_vec(),
            history: history::KEPT,
        }
    }
}

impl Settings {
    /// Judges the settings.
    ///
    /// # Errors
    /// The first that makes no sense.
    pub fn check(&self) -> Result<(), LimitsError> {
        self.limits.check()?;
        let wrong = |setting: &str, found: String, expected: String| {
            Err(LimitsError {
                setting: setting.to_owned(),
                found,
                expected,
            })
        };
        if !(1..=MOST_CALLS).contains(&self.pending) {
            return wrong("pending", self.pending.to_string(), format!("1 to {MOST_CALLS}"));
        }
        if self.history > MOST_CALLS {
            return wrong("history", self.history.to_string(), format!("0 to {MOST_CALLS}"));
        }
        if self.pauses.len() > MOST_PAUSES {
            let found = format!("{} pauses", self.pauses.len());
            return wrong("pauses", found, format!("at most {MOST_PAUSES}"));
        }
        if let Some(pause) = self.pauses.iter().find(|pause| **pause > LONGEST_PAUSE) {
            return wrong(
                "pauses",
                format!("{pause:?}"),
                format!("at most {LONGEST_PAUSE:?} each"),
            );
        }
        Ok(())
    }
}
