//! Processes that tests start: this program again as another of its tests, and the program on a full disk.
//!
//! Answers for starting them and for what they are told. Leaves out what they do.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

/// The short or the long form of a test.
pub(crate) fn scaled<N>(short: N, long: N) -> N {
    if std::env::var_os("DEVLOOP_LONG").is_some() {
        long
    } else {
        short
    }
}

/// Starts an ignored test of this program as a process of its own.
pub(crate) fn child(test: &str, dir: &Path, number: impl Display, rounds: impl Display) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "--nocapture", test])
        .env("DEVLOOP_TEST_DIR", dir)
        .env("DEVLOOP_TEST_NUMBER", number.to_string())
        .env("DEVLOOP_TEST_ROUNDS", rounds.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts")
}

/// What a child was started with.
pub(crate) struct Started<N> {
    pub(crate) dir: PathBuf,
    pub(crate) number: N,
    pub(crate) rounds: N,
}

/// `None` when a person runs the ignored tests.
pub(crate) fn started<N: FromStr>() -> Option<Started<N>> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    Some(Started {
        dir: std::env::var_os("DEVLOOP_TEST_DIR")?.into(),
        number: number("DEVLOOP_TEST_NUMBER")?,
        rounds: number("DEVLOOP_TEST_ROUNDS")?,
    })
}

pub(crate) fn all_end_well(children: Vec<Child>) {
    for mut child in children {
        assert!(child.wait().expect("it was started").success());
    }
}

/// The directory on a small disk of its own, in an ignored test that [`on_a_small_disk`] has started.
pub(crate) fn small_disk() -> Option<PathBuf> {
    std::env::var_os("DEVLOOP_TEST_FULL_DISK").map(PathBuf::from)
}

/// Runs an ignored test in a mount namespace in which [`small_disk`] is a file system of this size.
pub(crate) fn on_a_small_disk(size: &str, test: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let script = format!(
        "mount -t tmpfs -o size={size} none \"$DEVLOOP_TEST_FULL_DISK\" || exit 77; exec \"$0\" --ignored --exact {test}"
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .arg(std::env::current_exe().expect("this program"))
        .env("DEVLOOP_TEST_FULL_DISK", dir.path())
        .output();
    let Ok(output) = output else {
        return skip("there is no `unshare`");
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || said.contains("unshare:") {
        return skip("a mount namespace is not allowed");
    }
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[expect(clippy::print_stderr, reason = "a skipped test has to be seen")]
fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
}
