//! Waiting for what should happen, and not for ever.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Long enough for everything that should happen, on a machine with other things to do.
pub(crate) const GUARD: Duration = Duration::from_mins(1);

/// Waits until something is so.
#[track_caller]
pub(crate) fn until<T>(what: impl Display, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < GUARD, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
