//! Whether a call that failed is tried again.
//!
//! Answers for what counts as a cause that passes by itself, how often a call is tried again and after which pauses.
//! Leaves out the waiting. A tool that does not say that it may be repeated never is: that cannot be told from outside.
//!
//! Cost: a walk along the error's chain of causes, only for a call that failed and may be repeated.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use rustix::io::Errno;

/// As many causes of an error are looked at: a chain may lead back to itself.
const DEEPEST: usize = 64;

/// A cause that passes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transient {
    /// `EBUSY`: somebody else has it in use.
    Busy,
    /// `EAGAIN`: a resource is short for a moment, or would have to be waited for.
    Again,
    /// `EMFILE`: this process has too many files open.
    ProcessFiles,
    /// `ENFILE`: the machine has too many files open.
    SystemFiles,
}

impl Transient {
    /// The system's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Busy => "EBUSY",
            Self::Again => "EAGAIN",
            Self::ProcessFiles => "EMFILE",
            Self::SystemFiles => "ENFILE",
        }
    }

    /// What an error number stands for, if that passes by itself.
    pub fn of_number(number: i32) -> Option<Self> {
        match Errno::from_raw_os_error(number) {
            Errno::BUSY => Some(Self::Busy),
            Errno::AGAIN => Some(Self::Again),
            Errno::MFILE => Some(Self::ProcessFiles),
            Errno::NFILE => Some(Self::SystemFiles),
            _ => None,
        }
    }

    /// The first cause in the error's chain that passes by itself; also behind an [`io::Error`] that wraps another.
    ///
    /// ```
    /// use std::io;
    ///
    /// use devloop_contract::InternalError;
    /// use devloop_core::execution::retry::Transient;
    ///
    /// let busy = io::Error::from_raw_os_error(16);
    /// let error = InternalError::new("saving the list", InternalError::new("cannot rename", busy));
    /// assert_eq!(Transient::cause_of(&error), Some(Transient::Busy));
    /// assert_eq!(Transient::cause_of(&InternalError::bare("a bug")), None);
    /// ```
    pub fn cause_of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        for _ in 0..DEEPEST {
            let error = next?;
            if let Some(transient) = Self::of_one(error) {
                return Some(transient);
            }
            // What an I/O error wraps is not among its causes, only what caused that is.
            let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            next = match wrapped {
                Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
                None => error.source(),
            };
        }
        None
    }

    fn of_one(error: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(number) = error.downcast_ref::<Errno>() {
            return Self::of_number(number.raw_os_error());
        }
        let error = error.downcast_ref::<io::Error>()?;
        match error.raw_os_error() {
            Some(number) => Self::of_number(number),
            // Some libraries say it without a number.
            None => match error.kind() {
                io::ErrorKind::ResourceBusy => Some(Self::Busy),
                io::ErrorKind::WouldBlock => Some(Self::Again),
                _ => None,
            },
        }
    }
}

impl fmt::Display for Transient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a call may be carried out more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Its tool says so.
    Safe,
    /// Its tool does not.
    Never,
}

/// The pauses before the second, the third, … try.
pub const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(400)];

/// What comes after a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another try, after a pause.
    After(Duration),
    /// Nothing: the answer is the call's.
    Answer,
}

/// The tries of one call.
///
/// ```
/// use std::time::Duration;
///
/// use devloop_core::execution::retry::{Next, PAUSES, Replay, Retries, Transient};
///
/// let mut retries = Retries::new(Replay::Safe, &PAUSES);
/// let left = Duration::from_secs(30);
/// assert_eq!(retries.after(Some(Transient::Busy), left), Next::After(Duration::from_millis(200)));
/// assert_eq!(retries.after(Some(Transient::Busy), left), Next::After(Duration::from_millis(400)));
/// assert_eq!(retries.after(Some(Transient::Busy), left), Next::Answer);
/// assert_eq!(retries.made(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Retries<'a> {
    pauses: &'a [Duration],
    made: usize,
}

impl<'a> Retries<'a> {
    /// The tries of a call: as many more as there are pauses, none when it may not be repeated.
    pub fn new(replay: Replay, pauses: &'a [Duration]) -> Self {
        Self {
            pauses: match replay {
                Replay::Safe => pauses,
                Replay::Never => &[],
            },
            made: 0,
        }
    }

    /// A try has ended, in a failure of this cause or otherwise; `left` is the time that the call still has. A pause
    /// that would use it up is not begun: the failure says more than a time-out does.
    pub fn after(&mut self, cause: Option<Transient>, left: Duration) -> Next {
        match self.pauses.get(self.made) {
            Some(&pause) if cause.is_some() && pause < left => {
                self.made += 1;
                Next::After(pause)
            }
            _ => Next::Answer,
        }
    }

    /// How many tries there were beside the first, the one included that was answered last.
    pub fn made(&self) -> usize {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use devloop_contract::{InternalError, Refusal, ToolError};
    use proptest::prelude::*;

    use super::*;
    use crate::execution::testing::config;
    use crate::sandbox::FsError;
    use crate::store::StoreError;

    const TRANSIENT: [(Errno, Transient); 4] = [
        (Errno::BUSY, Transient::Busy),
        (Errno::AGAIN, Transient::Again),
        (Errno::MFILE, Transient::ProcessFiles),
        (Errno::NFILE, Transient::SystemFiles),
    ];

    fn fs_error(errno: Errno) -> FsError {
        FsError::Io {
            op: "rename",
            path: "agent-state/pm-todo.json".into(),
            source: errno.into(),
        }
    }

    #[derive(Debug)]
    struct Circle;

    impl fmt::Display for Circle {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("again and again")
        }
    }

    impl Error for Circle {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(self)
        }
    }

    #[test]
    fn retry_finds_the_cause_through_every_error_of_ours() {
        for (errno, transient) in TRANSIENT {
            let found: [Option<Transient>; 8] = [
                Transient::cause_of(&errno),
                Transient::cause_of(&io::Error::from(errno)),
                Transient::cause_of(&io::Error::other(io::Error::from(errno))),
                Transient::cause_of(&io::Error::other(InternalError::new("x", errno))),
                Transient::cause_of(&fs_error(errno)),
                Transient::cause_of(&StoreError::Fs(fs_error(errno))),
                Transient::cause_of(&ToolError::from(fs_error(errno))),
                Transient::cause_of(&InternalError::new("x", StoreError::Fs(fs_error(errno)))),
            ];
            assert_eq!(found, [Some(transient); 8]);
            let Refusal::<devloop_contract::failure::NoFailure>::Tool(error) = StoreError::Fs(fs_error(errno)).into()
            else {
                panic!("internal")
            };
            assert_eq!(
                Transient::cause_of(&error),
                Some(transient),
                "as a handler passes it on"
            );
        }
        assert_eq!(
            Transient::cause_of(&io::Error::from(io::ErrorKind::WouldBlock)),
            Some(Transient::Again)
        );
        assert_eq!(
            Transient::cause_of(&io::Error::from(io::ErrorKind::ResourceBusy)),
            Some(Transient::Busy)
        );
    }

    #[test]
    fn retry_looks_at_64_errors_of_a_chain() {
        let chain = |errors: usize| {
            let busy = InternalError::new("saving", io::Error::from_raw_os_error(16));
            (2..errors).fold(busy, |error, _| InternalError::new("trying", error))
        };
        assert_eq!(Transient::cause_of(&chain(64)), Some(Transient::Busy));
        assert_eq!(Transient::cause_of(&chain(65)), None);
    }

    #[test]
    fn retry_takes_nothing_else_for_transient() {
        for errno in [
            Errno::NOENT,
            Errno::NOSPC,
            Errno::ACCESS,
            Errno::IO,
            Errno::INTR,
            Errno::NOMEM,
            Errno::TXTBSY,
        ] {
            assert_eq!(
                Transient::cause_of(&InternalError::new("x", fs_error(errno))),
                None,
                "{errno}"
            );
        }
        assert_eq!(
            Transient::cause_of(&InternalError::bare("EBUSY")),
            None,
            "words are no cause"
        );
        assert_eq!(Transient::cause_of(&ToolError::Cancelled), None);
        assert_eq!(
            Transient::cause_of(&Circle),
            None,
            "a chain without an end has one here"
        );
    }

    #[test]
    fn retry_only_what_is_safe_transient_and_has_time_left_twice_at_200_and_400_ms() {
        let long = Duration::from_secs(30);
        let mut unsafe_tool = Retries::new(Replay::Never, &PAUSES);
        assert_eq!(unsafe_tool.after(Some(Transient::Busy), long), Next::Answer);
        let mut other_cause = Retries::new(Replay::Safe, &PAUSES);
        assert_eq!(other_cause.after(None, long), Next::Answer);
        let mut late = Retries::new(Replay::Safe, &PAUSES);
        assert_eq!(late.after(Some(Transient::Busy), PAUSES[0]), Next::Answer);
        assert_eq!((unsafe_tool.made(), other_cause.made(), late.made()), (0, 0, 0));
        let mut twice = Retries::new(Replay::Safe, &PAUSES);
        let pauses: Vec<_> = std::iter::repeat_with(|| twice.after(Some(Transient::Again), long))
            .take(4)
            .collect();
        let after = |ms| Next::After(Duration::from_millis(ms));
        assert_eq!(pauses, [after(200), after(400), Next::Answer, Next::Answer]);
        assert_eq!(twice.made(), 2);
    }

    /// The model: as long as all that went before was transient and in time, the n-th pause is the n-th of the list.
    #[test]
    fn retry_random_tries_do_what_the_model_does() {
        let cause = prop::option::of(prop::sample::select(TRANSIENT.map(|(_, transient)| transient).to_vec()));
        let tries = prop::collection::vec((cause, 0_u64..6), 1..20);
        let pauses = prop::collection::vec(0_u64..5, 0..4);
        proptest!(config(20), |(safe: bool, pauses in pauses, tries in tries)| {
            let pauses: Vec<_> = pauses.into_iter().map(Duration::from_millis).collect();
            let mut retries = Retries::new(if safe { Replay::Safe } else { Replay::Never }, &pauses);
            let mut made = 0;
            for (cause, left) in tries {
                let left = Duration::from_millis(left);
                let again = safe && cause.is_some() && made < pauses.len() && pauses[made] < left;
                let expected = if again { Next::After(pauses[made]) } else { Next::Answer };
                made += usize::from(again);
                prop_assert_eq!(retries.after(cause, left), expected);
                prop_assert_eq!(retries.made(), made);
            }
        });
    }
}
