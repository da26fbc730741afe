//! `devloop gc` as an operator meets it.

#![cfg(all(feature = "cli", unix))]

mod program;

use std::fs;
use std::path::Path;
use std::process::Output;

use devloop_core::artifacts;
use devloop_core::sandbox::ProjectDir;
use serde_json::{Value, json};
use tempfile::TempDir;

use program::program;

const USAGE: i32 = 64;
const LEFT: &str = "agent-state/pm-todo.json.corrupt-20200101T000000000Z";

/// The program with a state directory of its own: artifacts lie outside of the project.
fn gc(project: &Path, args: &[&str]) -> Output {
    program()
        .arg("gc")
        .args(["--project-dir", project.to_str().unwrap()])
        .args(args)
        .env("XDG_STATE_HOME", project.join("state"))
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn put(project: &Path, path: &str, content: &str) {
    let file = project.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content).unwrap();
}

/// A project with one leftover and one list in use.
fn project() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), LEFT, "{");
    put(dir.path(), "agent-state/pm-todo.json", "{}");
    dir
}

#[test]
fn it_shows_first_and_removes_when_asked_to() {
    let dir = project();
    let shown = gc(dir.path(), &[]);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    let expected = format!("broken, set aside\n  1 B  {LEFT}\n1 file, 1 B may go. `--apply` removes them.\n");
    assert_eq!(text(&shown.stdout), expected);
    assert!(dir.path().join(LEFT).exists(), "nothing was asked to be removed");
    let removed = gc(dir.path(), &["--apply"]);
    assert_eq!(removed.status.code(), Some(0), "{removed:?}");
    assert_eq!(
        text(&removed.stdout),
        format!("broken, set aside\n  1 B  {LEFT}\nRemoved: 1 file, 1 B.\n")
    );
    assert!(!dir.path().join(LEFT).exists());
    assert!(dir.path().join("agent-state/pm-todo.json").exists());
    assert_eq!(text(&gc(dir.path(), &[]).stdout), "Nothing may go.\n");
    assert_eq!(text(&gc(dir.path(), &["--apply"]).stdout), "Nothing was removed.\n");
}

#[test]
fn scripts_get_json() {
    let dir = project();
    let candidates = json!([{"why": "set_aside", "path": LEFT, "bytes": 1}]);
    assert_eq!(
        json_of(&gc(dir.path(), &["--format", "json"])),
        json!({"applied": false, "bytes": 1, "candidates": candidates, "failed": null, "unseen": []})
    );
    assert_eq!(
        json_of(&gc(dir.path(), &["--format", "json", "--apply"])),
        json!({"applied": true, "bytes": 1, "candidates": candidates, "failed": [], "unseen": []})
    );
}

#[test]
fn the_settings_say_how_long_things_are_kept() {
    let dir = project();
    put(dir.path(), "devloop.toml", "[retention]\nset_aside_days = 36500\n");
    assert_eq!(text(&gc(dir.path(), &[]).stdout), "Nothing may go.\n");
    put(
        dir.path(),
        "devloop.toml",
        "[limits]\nhistory_kept = 1\n[retention]\nset_aside_days = 36501\n",
    );
    let refused = gc(dir.path(), &[]);
    assert_eq!(refused.status.code(), Some(USAGE));
    assert!(
        text(&refused.stderr).contains("retention.set_aside_days is 36501; expected 0 to 36500"),
        "{refused:?}"
    );
    put(
        dir.path(),
        "devloop.toml",
        "[limits]\nhistory_kept = 1\n[retention]\nset_aside_days = 36500\n",
    );
    for second in 0..3 {
        put(
            dir.path(),
            &format!("agent-state/history/pm-todo.2026113{second}T101500000Z.json"),
            "{}",
        );
        put(
            dir.path(),
            &format!("agent-state/history/pm-todo.20261130T10150{second}000Z.json"),
            "{}",
        );
    }
    let found = json_of(&gc(dir.path(), &["--format", "json"]));
    // Of names with a time: 31 and 32 November are none.
    assert_eq!(found["candidates"].as_array().unwrap().len(), 2, "{found}");
}

#[test]
fn artifacts_of_old_sessions_go_whole() {
    let dir = project();
    put(
        dir.path(),
        "devloop.toml",
        "[retention]\nartifact_days = 0\nset_aside_days = 36500\n",
    );
    let opened = ProjectDir::open(dir.path()).unwrap();
    let session = format!(
        "state/devloop/artifacts/{}/{}",
        artifacts::namespace(&opened),
        "a".repeat(64)
    );
    let of_another = format!("state/devloop/artifacts/another-project/{}", "a".repeat(64));
    put(dir.path(), &format!("{session}/b"), "12345");
    put(dir.path(), &format!("{of_another}/b"), "12345");
    let removed = gc(dir.path(), &["--apply"]);
    assert!(
        text(&removed.stdout).ends_with("Removed: 1 file, 5 B.\n"),
        "{removed:?}"
    );
    assert!(!dir.path().join(&session).exists());
    assert!(
        dir.path().join(&of_another).exists(),
        "another project's settings say how long it stays"
    );
}

#[test]
fn what_is_no_project_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let refused = gc(dir.path(), &["--apply"]);
    assert_eq!(refused.status.code(), Some(USAGE));
    assert!(
        text(&refused.stderr).contains("is no project yet; `devloop init DIR`"),
        "{refused:?}"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let missing = gc(Path::new("/nonexistent"), &[]);
    assert_eq!(missing.status.code(), Some(USAGE));
    assert!(text(&missing.stderr).contains("`devloop init DIR`"), "{missing:?}");
}
