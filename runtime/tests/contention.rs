//! Many processes on one project: the real program, real locks, and what is left on disk.

#![cfg(all(feature = "cli", unix))]

mod program;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Output, Stdio};

use serde_json::{Value, json};

use program::program;

fn start(dir: &Path, agent: &str, unit: Option<&str>, input: &Value) -> Child {
    let mut command = program();
    command
        .args([
            "call",
            "write_todolist",
            "--agent",
            agent,
            "--input",
            &input.to_string(),
        ])
        .arg("--project-dir")
        .arg(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(unit) = unit {
        command.args(["--unit", unit]);
    }
    command.spawn().expect("the program starts")
}

fn end(child: Child) -> Output {
    child.wait_with_output().expect("the program ends")
}

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A list that tells who wrote it, long enough that half of it would be seen.
fn input(who: &str) -> Value {
    let items: Vec<_> = (1..=60)
        .map(|n| json!({"id": format!("step-{n:03}"), "description": format!("{who} {n} {}", "x".repeat(200))}))
        .collect();
    json!({ "items": items })
}

fn settings(dir: &Path, limits: &str) {
    fs::write(dir.join("devloop.toml"), format!("[limits]\n{limits}\n")).unwrap();
}

fn state(dir: &Path, name: &str) -> Value {
    let text = fs::read(dir.join("agent-state").join(name)).unwrap();
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{name} is not whole: {error}"))
}

/// What a list was written from.
fn written_from(list: &Value) -> Value {
    let items: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| json!({"id": item["id"], "description": item["description"]}))
        .collect();
    json!({ "items": items })
}

fn names(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// The events of a journal, which must have every number once.
fn events(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("agent-state/.events/events.ndjson")).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (event, seq) in events.iter().zip(1..) {
        assert_eq!(event["seq"], json!(seq));
    }
    events
}

#[test]
fn a_list_that_another_process_holds_is_busy_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    settings(dir.path(), "lock_wait_ms = 30");
    assert_eq!(
        end(start(dir.path(), "pm", None, &input("first"))).status.code(),
        Some(0)
    );
    let before = fs::read(dir.path().join("agent-state/pm-todo.json")).unwrap();
    let lock = File::options()
        .read(true)
        .write(true)
        .open(dir.path().join("agent-state/.locks/pm-todo.lock"))
        .unwrap();
    lock.lock().unwrap();

    let output = end(start(dir.path(), "pm", None, &input("second")));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let answer = answer(&output);
    assert_eq!((&answer["ok"], &answer["code"]), (&json!(false), &json!("busy")));
    assert!(answer["details"]["waited_ms"].as_u64().unwrap() >= 30, "{answer}");
    assert!(answer["hint"].is_string(), "{answer}");
    assert_eq!(fs::read(dir.path().join("agent-state/pm-todo.json")).unwrap(), before);
    assert_eq!(events(dir.path()).len(), 1);
    // The lock is that of one list: another agent's is free.
    let other = end(start(dir.path(), "architect", None, &input("other")));
    assert_eq!(other.status.code(), Some(0), "{other:?}");

    lock.unlock().unwrap();
    assert_eq!(
        end(start(dir.path(), "pm", None, &input("second"))).status.code(),
        Some(0)
    );
    assert_eq!(written_from(&state(dir.path(), "pm-todo.json")), input("second"));
}

#[test]
fn as_many_replaced_lists_are_kept_as_the_settings_say() {
    let dir = tempfile::tempdir().unwrap();
    settings(dir.path(), "history_kept = 3");
    // Another key's history is not counted with this one's.
    for who in ["a", "b"] {
        assert_eq!(
            end(start(dir.path(), "architect", None, &input(who))).status.code(),
            Some(0)
        );
    }
    for n in 0..7 {
        let output = end(start(dir.path(), "pm", None, &input(&format!("list {n}"))));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    let history = names(&dir.path().join("agent-state/history"));
    let of = |key: &str| -> Vec<&String> { history.iter().filter(|name| name.starts_with(key)).collect() };
    assert_eq!(
        (of("pm-todo.").len(), of("architect-todo.").len(), history.len()),
        (3, 1, 4)
    );
    for (name, n) in of("pm-todo.").into_iter().zip(3..) {
        let kept = state(dir.path(), &format!("history/{name}"));
        assert_eq!(
            written_from(&kept),
            input(&format!("list {n}")),
            "the newest are kept, in order"
        );
    }
    assert_eq!(state(dir.path(), "pm-todo.json")["version"], 7);
}

#[test]
fn of_eight_writers_of_one_list_each_has_written_it_whole() {
    let dir = tempfile::tempdir().unwrap();
    settings(dir.path(), "lock_wait_ms = 20000");
    let inputs: Vec<Value> = (0..8).map(|n| input(&format!("writer {n}"))).collect();
    let children: Vec<Child> = inputs
        .iter()
        .map(|input| start(dir.path(), "pm", None, input))
        .collect();
    for child in children {
        let output = end(child);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    let last = state(dir.path(), "pm-todo.json");
    assert_eq!(last["version"], 8, "nobody overlooked another");
    // The list and the history together are exactly what was written.
    let history = names(&dir.path().join("agent-state/history"));
    let mut left: Vec<Value> = history
        .iter()
        .map(|name| written_from(&state(dir.path(), &format!("history/{name}"))))
        .collect();
    left.push(written_from(&last));
    assert_eq!(left.len(), 8);
    assert!(inputs.iter().all(|input| left.contains(input)));
    let events = events(dir.path());
    assert_eq!(events.len(), 8);
    assert_eq!(
        written_from(&events[7]["payload"]),
        left[7],
        "events come in the order of the lists"
    );
    assert!(
        names(&dir.path().join("agent-state"))
            .iter()
            .all(|name| !name.contains("tmp")),
        "no temporary file is left"
    );
}

#[test]
fn sixteen_keys_at_once_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    settings(dir.path(), "lock_wait_ms = 20000");
    let mut keys: Vec<(&str, Option<String>)> = ["pm", "architect", "integrator", "bug-triager"]
        .map(|agent| (agent, None))
        .to_vec();
    for agent in ["coder", "tester"] {
        keys.extend((0..6).map(|n| (agent, Some(format!("unit-{n}")))));
    }
    assert_eq!(keys.len(), 16);
    let key = |(agent, unit): &(&str, Option<String>)| match unit {
        Some(unit) => format!("{agent}.{unit}"),
        None => (*agent).to_owned(),
    };
    let children: Vec<Child> = keys
        .iter()
        .map(|pair| start(dir.path(), pair.0, pair.1.as_deref(), &input(&key(pair))))
        .collect();
    for child in children {
        let output = end(child);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    for pair in &keys {
        let list = state(dir.path(), &format!("{}-todo.json", key(pair)));
        assert_eq!((&list["agent"], &list["version"]), (&json!(pair.0), &json!(1)));
        assert_eq!(written_from(&list), input(&key(pair)));
    }
    let events = events(dir.path());
    assert_eq!(events.len(), 16);
    let told: BTreeSet<String> = events
        .iter()
        .map(|event| {
            let payload = &event["payload"];
            let unit = payload["unit_id"].as_str().map(str::to_owned);
            let key = key(&(payload["agent"].as_str().unwrap(), unit));
            assert_eq!(written_from(payload), input(&key));
            key
        })
        .collect();
    assert_eq!(told.len(), 16);
}
