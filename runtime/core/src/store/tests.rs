//! What the store promises, with threads, with processes and with broken files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use devloop_contract::CommonFailure;
use devloop_contract::glob::Pattern;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::*;
use crate::sandbox::Durability;

/// A store and the directory that goes when this is dropped: bind both.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    pub(crate) store: Store,
}

pub(crate) fn place() -> Place {
    let dir = TempDir::new().unwrap();
    let store = store_at(dir.path());
    Place { dir, store }
}

pub(crate) fn store_at(dir: &Path) -> Store {
    let project = Arc::new(ProjectDir::open(dir).unwrap());
    let write = ["agent-state/**", "timeline.ndjson"]
        .map(|text| Pattern::parse(text).unwrap())
        .to_vec();
    let sandbox = Sandbox::new(project, "pm", write).with_durability(Durability::Cached);
    let now = "2026-11-30T10:15:00.123Z".parse().unwrap();
    Store::new(sandbox, Arc::new(FixedClock::new(now)))
}

pub(crate) fn rel(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

pub(crate) const LONG: Duration = Duration::from_mins(1);

/// Any object will do.
impl StateFile for Value {}

/// Runs one ignored test, named from this crate's root, in another process.
pub(crate) fn child(test: &str, dir: &Path, number: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", &format!("store::{test}")])
        .env("DEVLOOP_TEST_DIR", dir)
        .env("DEVLOOP_TEST_NUMBER", number.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

pub(crate) fn child_dir() -> Option<std::path::PathBuf> {
    std::env::var_os("DEVLOOP_TEST_DIR").map(Into::into)
}

fn busy(error: StoreError) -> Option<String> {
    match error {
        StoreError::Common(CommonFailure::Busy { holder, .. }) => holder,
        other => panic!("not busy: {other}"),
    }
}

#[test]
#[ignore = "started by another test, in a process of its own"]
fn child_holds_a_lock() {
    let Some(dir) = child_dir() else { return };
    let _lock = store_at(&dir).lock("todo", LONG).unwrap();
    fs::write(dir.join("held"), "").unwrap();
    // Until the other side closes the pipe or ends this process.
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn a_waiter_is_told_who_holds_the_lock_and_gets_it_when_the_holder_dies() {
    let Place { dir, store } = place();
    let mut holder = child("tests::child_holds_a_lock", dir.path(), 0);
    while !dir.path().join("held").exists() {
        assert!(holder.try_wait().unwrap().is_none(), "the holder ended early");
        std::thread::sleep(Duration::from_millis(5));
    }
    let name = busy(store.lock("todo", Duration::from_millis(30)).unwrap_err()).unwrap();
    assert_eq!(
        name,
        format!("pm (process {}) since 2026-11-30T10:15:00.123Z", holder.id())
    );
    store.lock("other", Duration::ZERO).unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    let lock = store.lock("todo", LONG).unwrap();
    let name = busy(store_at(dir.path()).lock("todo", Duration::from_millis(5)).unwrap_err()).unwrap();
    assert!(
        name.contains(&format!("process {}", std::process::id())),
        "another store of this process waits too"
    );
    drop(lock);
    assert!(
        dir.path().join("agent-state/.locks/todo.lock").exists(),
        "the file stays"
    );
}

/// Holds a lock as a process would that has not noted itself yet, or cannot; with a note of somebody else's.
fn hold_with_note(dir: &Path, note: &str) -> fs::File {
    let locks = dir.join("agent-state/.locks");
    fs::create_dir_all(&locks).unwrap();
    fs::write(locks.join("todo.lock"), note).unwrap();
    let file = fs::File::open(locks.join("todo.lock")).unwrap();
    file.lock().unwrap();
    file
}

#[test]
fn only_a_holder_that_is_there_is_named() {
    let Place { dir, store } = place();
    let waiter = || busy(store.lock("todo", Duration::from_millis(2)).unwrap_err());
    let note = |pid: u32, began: Value| json!({"pid": pid, "began": began, "agent": "pm", "since": "then"}).to_string();
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let me = std::process::id();
    // Ended; never a process; the number of this one, given to another before; no note at all.
    for text in [
        note(ended.id(), Value::Null),
        note(u32::MAX, Value::Null),
        note(me, json!(1)),
        "{\"pid\":".to_owned(),
        String::new(),
    ] {
        let _file = hold_with_note(dir.path(), &text);
        assert_eq!(waiter(), None, "{text}");
    }
    let _file = hold_with_note(dir.path(), &note(me, Value::Null));
    assert_eq!(waiter(), Some(format!("pm (process {me}) since then")));
}

#[test]
fn who_let_go_of_a_lock_is_not_named() {
    let Place { dir, store } = place();
    drop(store.lock("todo", LONG).unwrap());
    let file = fs::File::open(dir.path().join("agent-state/.locks/todo.lock")).unwrap();
    file.lock().unwrap();
    assert_eq!(busy(store.lock("todo", Duration::ZERO).unwrap_err()), None);
}

#[test]
fn a_wait_ends_when_it_is_called_off() {
    let Place { dir, store } = place();
    let off = AtomicBool::new(false);
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let cancelled = || {
        asked.fetch_add(1, Ordering::SeqCst);
        off.load(Ordering::SeqCst)
    };
    let take = || store.lock("todo", Wait::at_most(Duration::from_hours(1)).unless(&cancelled));
    let call_off_a_waiter = || {
        off.store(false, Ordering::SeqCst);
        asked.store(0, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(take);
            while asked.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            off.store(true, Ordering::SeqCst);
            assert!(matches!(waiter.join().unwrap(), Err(StoreError::Cancelled)));
        });
    };
    // Behind another of this process, and behind another process.
    let lock = store.lock("todo", LONG).unwrap();
    call_off_a_waiter();
    drop(lock);
    let file = hold_with_note(dir.path(), "");
    call_off_a_waiter();
    drop(file);
    // Nor is a free lock taken for somebody who called it off, or kept.
    assert!(matches!(take(), Err(StoreError::Cancelled)));
    store.lock("todo", Duration::ZERO).unwrap();
}

#[test]
fn a_lock_excludes_and_turns_are_taken_in_order() {
    let Place { store, dir: _dir } = place();
    let inside = AtomicBool::new(false);
    let first = store.lock("x", LONG).unwrap();
    let order = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (store, inside, order) = (&store, &inside, &order);
            scope.spawn(move || {
                let _lock = store.lock("x", LONG).unwrap();
                assert!(!inside.swap(true, Ordering::SeqCst), "two at once");
                order.lock().unwrap().push(number);
                inside.store(false, Ordering::SeqCst);
            });
            // The next one comes once this one waits.
            while lock::waiting(&store.project().path().join("x")) < number + 2 {
                std::thread::yield_now();
            }
        }
        drop(first);
    });
    assert_eq!(order.into_inner().unwrap(), (0..8).collect::<Vec<_>>());
}

#[test]
fn a_lock_file_that_is_a_link_is_refused() {
    let Place { dir, store } = place();
    fs::create_dir_all(dir.path().join("agent-state/.locks")).unwrap();
    fs::write(dir.path().join("victim"), "precious").unwrap();
    symlink("../../victim", dir.path().join("agent-state/.locks/todo.lock")).unwrap();
    fs::hard_link(
        dir.path().join("victim"),
        dir.path().join("agent-state/.locks/hard.lock"),
    )
    .unwrap();
    for name in ["todo", "hard", "../x"] {
        assert!(
            matches!(store.lock(name, Duration::ZERO), Err(StoreError::Fs(_))),
            "{name}"
        );
    }
    assert_eq!(fs::read(dir.path().join("victim")).unwrap(), b"precious");
}

#[test]
fn state_is_pretty_and_comes_back() {
    let Place { dir, store } = place();
    let path = rel("agent-state/pm-todo.json");
    assert_eq!(store.read_state::<Value>(&path).unwrap(), None);
    let value = json!({"b": [1], "a": "文"});
    store.write_state(&path, &value).unwrap();
    let file = dir.path().join(path.as_str());
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, "{\n  \"b\": [\n    1\n  ],\n  \"a\": \"文\"\n}\n");
    fs::write(&file, format!("\u{FEFF}{text}")).unwrap();
    assert_eq!(store.read_state::<Value>(&path).unwrap(), Some(value));
    assert!(matches!(
        store.write_state(&rel("prd/x.json"), &json!({})),
        Err(StoreError::Fs(FsError::Denied { .. }))
    ));
}

/// A document with a field that it must have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Plain {
    n: u64,
}

impl StateFile for Plain {}

/// The same after two changes of its form: `n` became `count`, then `counts`; what others keep is carried along.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Third {
    counts: Vec<u64>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl StateFile for Third {
    const FORMAT: u32 = 3;

    fn migrate(from: u32, mut state: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let mut take = |key: &str| state.shift_remove(key).ok_or_else(|| format!("it has no `{key}`"));
        let (key, value) = match from {
            1 => ("count", take("n")?),
            2 => ("counts", json!([take("count")?])),
            _ => return Err("never asked for".into()),
        };
        state.insert(key.to_owned(), value);
        Ok(state)
    }
}

#[test]
fn an_older_format_is_read_as_todays_and_written_so_with_the_next_write() {
    let Place { dir, store } = place();
    let path = rel("agent-state/x.json");
    store.write_state(&path, &Plain { n: 7 }).unwrap();
    let file = dir.path().join(path.as_str());
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        "{\n  \"n\": 7\n}\n",
        "format 1 says none"
    );
    let more = |text: &str| -> Map<String, Value> { serde_json::from_str(text).unwrap() };
    for (text, kept) in [
        (r#"{"n": 7}"#, "{}"),
        (r#"{"n": 7, "format": 1}"#, "{}"),
        (
            r#"{"format": 2, "of": "a person", "count": 7, "x": null}"#,
            r#"{"of": "a person", "x": null}"#,
        ),
        (r#"{"counts": [7], "format": 3.0}"#, "{}"),
    ] {
        fs::write(&file, text).unwrap();
        let third = Third {
            counts: vec![7],
            more: more(kept),
        };
        let found = store.read_state_kept::<Third>(&path).unwrap().unwrap();
        assert_eq!((&found.value, &*found.bytes), (&third, text.as_bytes()), "{text}");
        assert_eq!(store.peek_state::<Third>(&path).unwrap().unwrap(), third);
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "reading changes nothing");
        store.write_state(&path, &third).unwrap();
        let written = fs::read_to_string(&file).unwrap();
        assert!(written.starts_with("{\n  \"format\": 3,\n  \"counts\": ["), "{written}");
        assert_eq!(store.read_state::<Third>(&path).unwrap().unwrap(), third);
        store.restore_state(&path, Some(&found.bytes)).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        store.restore_state(&path, None).unwrap();
        assert_eq!(store.read_state::<Third>(&path).unwrap(), None);
    }
    // A file of format 1 that says so loses only that.
    fs::write(&file, r#"{"format": 1, "n": 7}"#).unwrap();
    assert_eq!(store.read_state::<Value>(&path).unwrap().unwrap(), json!({"n": 7}));
}

#[test]
fn a_newer_format_is_refused_and_left_as_it_is() {
    let Place { dir, store } = place();
    let path = rel("agent-state/x.json");
    fs::create_dir_all(dir.path().join("agent-state")).unwrap();
    for format in ["2", "2.0", "99999999999999999999", "1e300"] {
        // Whatever else is in it: its form is not known here.
        let text = format!("{{\"format\": {format}, \"n\": \"seven\"}}");
        fs::write(dir.path().join(path.as_str()), &text).unwrap();
        for error in [
            store.read_state::<Plain>(&path).unwrap_err(),
            store.peek_state::<Plain>(&path).unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Newer { known: 1, .. }), "{error}");
            let said = error.to_string();
            assert!(
                said.contains("formats up to 1") && said.contains("use that devloop"),
                "{said}"
            );
        }
        assert_eq!(fs::read_to_string(dir.path().join(path.as_str())).unwrap(), text);
    }
    assert_eq!(store.sandbox().list(&rel("agent-state")).unwrap().unwrap().len(), 1);
}

#[test]
fn a_format_that_is_none_and_a_migration_that_fails_are_corrupt() {
    let Place { dir, store } = place();
    let path = rel("agent-state/x.json");
    fs::create_dir_all(dir.path().join("agent-state")).unwrap();
    for (text, why) in [
        (r#"{"format": 0, "n": 7}"#, "`format` is 0"),
        (r#"{"format": -1, "n": 7}"#, "`format` is -1"),
        (r#"{"format": 1.5, "n": 7}"#, "`format` is 1.5"),
        (r#"{"format": "2", "n": 7}"#, "`format` is \"2\""),
        (r#"{"format": null, "n": 7}"#, "`format` is null"),
        (r#"{"format": 1, "format": 2, "n": 7}"#, "duplicate field"),
        (r#"{"m": 7}"#, "format 1 to the next: it has no `n`"),
        (r#"{"format": 2, "n": 7}"#, "format 2 to the next: it has no `count`"),
        (r#"{"n": "seven"}"#, "after it was brought from format 1 to 3"),
    ] {
        fs::write(dir.path().join(path.as_str()), text).unwrap();
        let looked = store.peek_state::<Third>(&path).unwrap_err();
        assert!(matches!(looked, StoreError::Unreadable { .. }), "{looked}");
        let error = store.read_state::<Third>(&path).unwrap_err();
        let StoreError::Common(CommonFailure::StateCorrupt { kept_as, problem, .. }) = error else {
            panic!("{text}: {error}")
        };
        assert!(problem.contains(why), "{text}: {problem}");
        assert_eq!(fs::read_to_string(dir.path().join(kept_as)).unwrap(), text);
    }
}

/// What a process that was killed has not renamed yet: a whole document, and newer than the one that counts.
#[test]
fn the_temporary_file_of_a_killed_process_is_never_taken_for_state() {
    let Place { dir, store } = place();
    let path = rel("agent-state/x.json");
    store.write_state(&path, &Plain { n: 1 }).unwrap();
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let left = dir.path().join(format!("agent-state/.devloop-tmp-{}-0", ended.id()));
    fs::write(&left, "{\n  \"n\": 2\n}\n").unwrap();
    let old = std::time::SystemTime::now() - Duration::from_mins(2);
    fs::File::options()
        .write(true)
        .open(&left)
        .unwrap()
        .set_modified(old)
        .unwrap();
    assert_eq!(store.read_state::<Plain>(&path).unwrap(), Some(Plain { n: 1 }));
    assert_eq!(store.sandbox().list(&rel("agent-state")).unwrap().unwrap().len(), 1);
    // The next process that writes there removes it.
    let next = store_at(dir.path());
    next.write_state(&path, &Plain { n: 3 }).unwrap();
    assert!(!left.exists());
    assert_eq!(next.read_state::<Plain>(&path).unwrap(), Some(Plain { n: 3 }));
    // Nor is one that was written under a name of its own for a file that is not there.
    fs::write(&left, "{\"n\": 2}").unwrap();
    store.restore_state(&path, None).unwrap();
    assert_eq!(store.read_state::<Plain>(&path).unwrap(), None);
}

#[test]
fn a_corrupt_state_file_is_set_aside_and_never_lost() {
    let Place { dir, store } = place();
    let path = rel("agent-state/pm-todo.json");
    store.write_state(&path, &json!({})).unwrap();
    for (round, bytes) in [
        &b"{\"a\": tru"[..],
        b"",
        b"\xff\xfe",
        b"{\"a\": 1}",
        b"[1]",
        b"7",
        b"\0\0\0\0",
        b"{\"a\": 1} x",
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(dir.path().join(path.as_str()), bytes).unwrap();
        let error = store.read_state::<Plain>(&path).unwrap_err();
        let StoreError::Common(CommonFailure::StateCorrupt {
            path: named,
            kept_as,
            problem,
        }) = error
        else {
            panic!("{error}")
        };
        let suffix = if round == 0 {
            String::new()
        } else {
            format!("-{}", round + 1)
        };
        assert_eq!(named, path.as_str());
        assert_eq!(
            kept_as,
            format!("agent-state/pm-todo.json.corrupt-20261130T101500123Z{suffix}")
        );
        assert!(!problem.is_empty());
        assert_eq!(fs::read(dir.path().join(kept_as)).unwrap(), bytes);
        assert_eq!(store.read_state::<Plain>(&path).unwrap(), None);
    }
}

#[test]
fn a_state_file_that_is_too_large_is_set_aside_too() {
    let Place { dir, store } = place();
    let path = rel("agent-state/pm-todo.json");
    store.write_state(&path, &json!({})).unwrap();
    let file = fs::OpenOptions::new()
        .write(true)
        .open(dir.path().join(path.as_str()))
        .unwrap();
    file.set_len(state::LARGEST_STATE + 1).unwrap();
    let error = store.read_state::<Value>(&path).unwrap_err();
    let StoreError::Common(CommonFailure::StateCorrupt { kept_as, problem, .. }) = error else {
        panic!("{error}")
    };
    assert!(problem.contains("16777217 bytes"), "{problem}");
    let kept = fs::metadata(dir.path().join(kept_as)).unwrap();
    assert_eq!(kept.len(), state::LARGEST_STATE + 1);
    assert_eq!(store.read_state::<Value>(&path).unwrap(), None);
}

#[test]
fn the_history_keeps_the_newest() {
    let Place { dir, store } = place();
    assert_eq!(store.prune_history("pm-todo.", 2).unwrap(), 0);
    for number in [3, 1, 5, 2, 4] {
        store
            .keep_in_history(&format!("pm-todo.20261130T10150000{number}Z.json"), b"{}")
            .unwrap();
    }
    store.keep_in_history("pm-todo2.x.json", b"").unwrap();
    assert_eq!(store.prune_history("pm-todo.", 2).unwrap(), 3);
    let mut left: Vec<_> = fs::read_dir(dir.path().join("agent-state/history"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(
        left,
        [
            "pm-todo.20261130T101500004Z.json",
            "pm-todo.20261130T101500005Z.json",
            "pm-todo2.x.json"
        ]
    );
    assert!(store.keep_in_history("../x", b"").is_err());
}

#[test]
fn a_reader_never_sees_a_part_of_a_state_file() {
    let Place { store, dir: _dir } = place();
    let path = rel("agent-state/shared.json");
    let document = |number: usize| json!({"by": number, "text": "x".repeat(number * 700), "end": number});
    store.write_state(&path, &document(0)).unwrap();
    let writing = std::sync::atomic::AtomicUsize::new(16);
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (store, path, writing) = (&store, &path, &writing);
            scope.spawn(move || {
                for _ in 0..25 {
                    store.write_state(path, &document(number)).unwrap();
                }
                writing.fetch_sub(1, Ordering::SeqCst);
            });
        }
        while writing.load(Ordering::SeqCst) > 0 {
            let value: Value = store.read_state(&path).unwrap().expect("it is always there");
            assert_eq!(value["by"], value["end"]);
        }
    });
    let names = store.sandbox().list(&rel("agent-state")).unwrap().unwrap();
    assert_eq!(names.len(), 1, "no temporary file stays");
}

#[test]
fn who_waited_for_a_lock_file_that_was_removed_takes_the_new_one() {
    let Place { dir, store } = place();
    let file = dir.path().join("agent-state/.locks/x.lock");
    let first = store.lock("x", LONG).unwrap();
    let other = fs::File::open(&file).unwrap();
    fs::remove_file(&file).unwrap();
    drop(first);
    // As another process does that still has the old file open.
    other.lock().unwrap();
    let _second = store.lock("x", LONG).unwrap();
    assert!(
        fs::File::open(&file).unwrap().try_lock().is_err(),
        "the file that is there is the locked one"
    );
}

#[test]
fn a_lock_file_that_goes_while_it_is_waited_for_is_not_the_one_that_is_taken() {
    let Place { dir, store } = place();
    let path = dir.path().join("agent-state/.locks/x.lock");
    drop(store.lock("x", LONG).unwrap());
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.lock("x", LONG).unwrap());
        // Long enough to be waiting, most probably; if not, the test shows less and nothing wrong.
        std::thread::sleep(Duration::from_millis(30));
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        drop(held);
        let _taken = waiting.join().unwrap();
        assert!(fs::File::open(&path).unwrap().try_lock().is_err());
    });
}
