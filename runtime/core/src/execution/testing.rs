//! What the tests of the machines share.
//!
//! Answers for how much is tried. Leaves out the models: each machine has its own, so that one mistake does not hide
//! in two.

use proptest::test_runner::Config;

/// As many random operations as one property test makes in its long form.
pub(super) const LONG_OPERATIONS: usize = 1_000_000;

/// Settings of a property test whose cases have up to `most` operations, half of that on average.
pub(super) fn config(most: usize) -> Config {
    let cases = if std::env::var_os("DEVLOOP_LONG").is_some() {
        2 * LONG_OPERATIONS / most
    } else {
        256
    };
    Config {
        cases: cases.try_into().expect("some thousands"),
        failure_persistence: None,
        ..Config::default()
    }
}
