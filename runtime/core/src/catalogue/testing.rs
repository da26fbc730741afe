//! What the tests of the catalogue share.

use proptest::test_runner::{Config, TestRunner};

/// Runs so many cases, and many more in the long form.
pub(super) fn runner(cases: u32) -> TestRunner {
    let long = std::env::var_os("DEVLOOP_LONG").is_some();
    TestRunner::new(Config {
        cases: if long { cases * 50 } else { cases },
        failure_persistence: None,
        max_shrink_iters: 10_000,
        ..Config::default()
    })
}
