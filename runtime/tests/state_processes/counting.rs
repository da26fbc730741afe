//! Many writers that compare before they write, and a reader beside writers.

use std::fs;
use std::path::Path;
use std::process::Child;

use serde_json::{Value, json};

use super::children::{all_end_well, child, scaled, started};
use super::{Caller, RUNTIME, TODO, state};

#[test]
#[ignore = "started by another test, in a process of its own"]
fn child_counts() {
    let Some(start) = started::<usize>() else { return };
    let mut caller = Caller::at(&start.dir);
    let session = caller.session("s", "call-1");
    let (mut version, mut n) = (0, 0);
    for _ in 0..start.rounds {
        loop {
            let input = json!({"patch": {"n": n + 1}, "expected_version": version});
            let answer = caller.call(&session, "update_runtime_state", &input);
            let (done, state) = match (&answer["ok"], &answer["code"]) {
                (Value::Bool(true), _) => (true, &answer["state"]),
                (_, code) if code == "version_conflict" => (false, &answer["details"]["state"]),
                _ => panic!("{answer}"),
            };
            version = state["version"].as_u64().unwrap_or(0);
            n = state["data"]["n"].as_u64().unwrap_or(0);
            if done {
                break;
            }
        }
    }
}

#[test]
fn what_many_writers_count_by_comparison_is_exact() {
    let dir = tempfile::tempdir().expect("a directory");
    let (writers, rounds) = (scaled(4, 16), scaled(30, 500));
    let children = (0..writers).map(|number| child("counting::child_counts", dir.path(), number, rounds));
    all_end_well(children.collect());
    let state = state(dir.path(), RUNTIME);
    let expected = json!(writers * rounds);
    assert_eq!(
        (&state["data"]["n"], &state["version"], &state["heartbeat_seq"]),
        (&expected, &expected, &expected)
    );
}

/// Writes both files again and again, now large and now small, until it is told to stop.
#[test]
#[ignore = "started by another test, in a process of its own"]
fn child_writes_until_told() {
    let Some(start) = started::<usize>() else { return };
    let mut caller = Caller::at(&start.dir);
    let session = caller.session("s", "call-1");
    let mut round = 0;
    while !start.dir.join("stop").exists() {
        round += 1;
        let size = (round * 7_919) % 15_000;
        let input = json!({"patch": {"text": "x".repeat(size), "end": round}});
        assert_eq!(caller.call(&session, "update_runtime_state", &input)["ok"], true);
        let (status, note) = (["todo", "blocked"][round % 2], "n".repeat(1 + size % 1_000));
        let mut input = json!({"id": "step-001", "status": status, "note": note});
        if status == "blocked" {
            input["reason"] = json!("r");
        }
        assert_eq!(caller.call(&session, "update_todo_item", &input)["ok"], true);
        if start.number == 0 && round % 8 == 0 {
            let items =
                (1..=1 + round % 90).map(|n| json!({"id": format!("step-{n:03}"), "description": "d".repeat(400)}));
            let list = json!({ "items": items.collect::<Vec<_>>() });
            assert_eq!(caller.call(&session, "write_todolist", &list)["ok"], true);
        }
    }
}

/// Whatever is read at any moment is a whole document, and never an older one than the one before.
#[test]
fn a_reader_beside_writers_never_sees_a_part() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut caller = Caller::at(dir.path());
    let session = caller.session("s", "call-1");
    let list = json!({"items": [{"id": "step-001", "description": "d"}]});
    assert_eq!(caller.call(&session, "write_todolist", &list)["ok"], true);
    assert_eq!(caller.call(&session, "update_runtime_state", &json!({}))["ok"], true);
    let writers: Vec<Child> = (0..2)
        .map(|number| child("counting::child_writes_until_told", dir.path(), number, 0))
        .collect();
    let files = [(TODO, "version"), (RUNTIME, "heartbeat_seq")];
    let mut newest = [0; 2];
    let (mut reads, mut changes) = (0, 0);
    // As many reads as are asked for, and as many as it takes to have seen the file change.
    while reads < scaled(500, 10_000) || changes < scaled(20, 200) {
        for ((path, number), newest) in files.iter().zip(&mut newest) {
            let seen = state(dir.path(), path)[*number].as_u64().expect("a number");
            assert!(seen >= *newest, "{path} goes back from {newest} to {seen}");
            changes += usize::from(seen > *newest);
            *newest = seen;
        }
        reads += 1;
    }
    fs::write(dir.path().join("stop"), "").expect("a file");
    all_end_well(writers);
    nothing_temporary_stays(dir.path());
}

fn nothing_temporary_stays(dir: &Path) {
    let names = fs::read_dir(dir.join("agent-state")).expect("a directory");
    let names = names.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let left: Vec<String> = names.filter(|name| name.starts_with(".devloop-tmp-")).collect();
    assert_eq!(left, [""; 0]);
}
