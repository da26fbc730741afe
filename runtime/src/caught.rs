//! Panics of what others wrote, caught.
//!
//! Answers for turning a panic into an error that says what it said. Leaves out what a caller is told of it.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt as _;

/// A panic that was caught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panic {
    message: String,
}

impl Panic {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }

    fn of(said: &(dyn Any + Send)) -> Self {
        let text = said.downcast_ref::<&str>().copied();
        let text = text.or_else(|| said.downcast_ref::<String>().map(String::as_str));
        Self::new(format!("it panicked: {}", text.unwrap_or("without a word")))
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Panic {}

/// Calls a function, and turns a panic into an error.
pub(crate) fn caught_now<T>(function: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|said| Panic::of(&*said))
}

/// Polls a future, and turns a panic into an error.
pub(crate) fn caught<T>(future: impl Future<Output = T>) -> impl Future<Output = Result<T, Panic>> {
    let caught = AssertUnwindSafe(future).catch_unwind();
    caught.map(|result| result.map_err(|said| Panic::of(&*said)))
}
