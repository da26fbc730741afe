//! The example for hosts does what its own documentation shows.

#![allow(clippy::unwrap_used, reason = "tests")]

#[expect(dead_code, reason = "an example, whose `main` nobody calls here")]
#[path = "../examples/host.rs"]
mod host;

use std::fmt::Write;

use devloop_core::sandbox::ProjectDir;
use devloop_runtime::config::Config;
use devloop_runtime::project::Project;

#[test]
fn the_example_prints_what_it_says_that_it_prints() {
    let dir = tempfile::tempdir().unwrap();
    // Without the settings of whoever runs the test.
    let project = Project::new(ProjectDir::open(dir.path()).unwrap(), Config::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut printed = Vec::new();
    runtime.block_on(host::run(project, &mut printed)).unwrap();
    let source = include_str!("../examples/host.rs");
    let mut told = String::new();
    for line in source.lines().skip_while(|line| *line != "//! ```text").skip(1) {
        if line == "//! ```" {
            break;
        }
        writeln!(told, "{}", line.trim_start_matches("//! ")).unwrap();
    }
    assert_eq!(String::from_utf8(printed).unwrap(), told);
}
