//! The real program on a disk that is full, and beyond the limit for files.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use super::children::{on_a_small_disk, small_disk};
use super::program::program_under;
use super::{RUNTIME, TODO, state};

/// Two calls that make the files larger than they were.
fn large() -> [(&'static str, &'static str, Value); 2] {
    let items: Vec<Value> = (1..=30)
        .map(|n| json!({"id": format!("step-{n:03}"), "description": "d".repeat(400)}))
        .collect();
    [
        (TODO, "write_todolist", json!({ "items": items })),
        (
            RUNTIME,
            "update_runtime_state",
            json!({"phase": "late", "patch": {"text": "x".repeat(12_000)}}),
        ),
    ]
}

fn call(start: &[&str], dir: &Path, tool: &str, input: &Value) -> Output {
    program_under(start)
        .args([
            "call",
            tool,
            "--agent",
            "pm",
            "--session-id",
            "s",
            "--input",
            &input.to_string(),
            "--project-dir",
        ])
        .arg(dir)
        .output()
        .expect("it starts")
}

fn begin(dir: &Path) {
    let list = json!({"items": [{"id": "step-001", "description": "d"}]});
    for (tool, input) in [
        ("write_todolist", list),
        ("update_runtime_state", json!({"phase": "early"})),
    ] {
        let output = call(&[], dir, tool, &input);
        assert!(output.status.success(), "{output:?}");
    }
}

/// The names in a directory that are not the machinery's own, temporary files included.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join("agent-state")).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let mut names: Vec<String> = names
        .filter(|name| name.contains("pm-") || name.contains("tmp"))
        .collect();
    names.sort();
    names
}

fn fails_and_leaves_all_as_it_was(start: &[&str], dir: &Path, why: &str) {
    for (path, tool, input) in large() {
        let before = fs::read(dir.join(path)).expect("it is there");
        let output = call(start, dir, tool, &input);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let answer: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let said = format!("{}{}", answer["reason"], answer["details"]["chain"]);
        assert!(
            said.contains(why) && said.contains("cannot write `agent-state/"),
            "{answer}"
        );
        assert_eq!(fs::read(dir.join(path)).expect("it is there"), before);
        assert_eq!(names(dir), ["pm-runtime.json", "pm-todo.json"]);
    }
}

fn succeeds_again(dir: &Path) {
    for (path, tool, input) in large() {
        let output = call(&[], dir, tool, &input);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(state(dir, path)["version"], 2);
    }
}

#[test]
fn a_file_beyond_the_limit_is_an_error_and_no_end_of_the_program() {
    let dir = tempfile::tempdir().expect("a directory");
    begin(dir.path());
    // 8 blocks of 512 or of 1,024 bytes, as the shell counts: enough for what is there, too little for what comes.
    let limited = ["sh", "-c", "ulimit -f 8 && exec \"$0\" \"$@\""];
    fails_and_leaves_all_as_it_was(&limited, dir.path(), "RLIMIT_FSIZE");
    succeeds_again(dir.path());
}

#[test]
#[ignore = "started by another test, in a mount namespace of its own"]
fn on_a_full_disk() {
    let Some(dir) = small_disk() else { return };
    let dir = &dir;
    begin(dir);
    let filler = dir.join("filler");
    // To the last byte: what a write of it makes fail is the end of it.
    let _ = fs::write(&filler, vec![b'x'; 4 << 20]);
    let left = fs::metadata(&filler).expect("it was begun").len();
    assert!(left < 4 << 20, "the disk is not full");
    fails_and_leaves_all_as_it_was(&[], dir, "No space left");
    fs::remove_file(&filler).expect("it is there");
    succeeds_again(dir);
}

#[test]
fn a_full_disk_leaves_every_state_as_it_was() {
    on_a_small_disk("256k", "full::on_a_full_disk");
}
