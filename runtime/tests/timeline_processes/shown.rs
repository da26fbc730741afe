//! `devloop timeline`: full files, foreign lines, following, and its two ends.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use devloop_contract::glob::Pattern;
use devloop_core::sandbox::{Durability, ProjectDir, Sandbox};
use devloop_core::store::journal::{Keep, Rotation};
use devloop_core::store::{Store, StoreError, SystemClock};
use devloop_core::timeline::{Author, Call, Level, News, Timeline};
use serde_json::{Value, json};

use super::FILE;
use super::program::program;

/// A timeline that is rotated after so many entries.
fn timeline(dir: &Path, lines: u64) -> Timeline {
    fs::create_dir_all(dir.join("agent-state")).expect("a directory");
    let project = Arc::new(ProjectDir::open(dir).expect("a project"));
    let write = vec![Pattern::parse(FILE).expect("a pattern")];
    let sandbox = Sandbox::new(project, "pm", write).with_durability(Durability::Cached);
    let rotation = Rotation {
        bytes: 1 << 20,
        lines,
        keep: Keep::All,
    };
    Timeline::with_rotation(Store::new(sandbox, Arc::new(SystemClock)), rotation)
}

fn add(timeline: &Timeline, agent: &str, summary: &str) -> u64 {
    let author = Author {
        pid: "p".into(),
        agent: agent.into(),
        unit_id: None,
        call_id: "c".into(),
        session_id: "s".into(),
    };
    let news = News {
        kind: "test".into(),
        level: Level::Info,
        summary: summary.into(),
        data: None,
        refs: Vec::new(),
    };
    let call = Call {
        tool_use_id: "u".into(),
        idempotency_key: None,
    };
    let wait = Duration::from_mins(1);
    let appended = timeline.append(&author, news, &call, wait, |_| Ok::<_, StoreError>(()));
    appended.expect("it is appended").entry.seq
}

fn show(dir: &Path, args: &[&str]) -> Output {
    program()
        .args(["timeline", "--project-dir"])
        .arg(dir)
        .args(args)
        .output()
        .expect("the program starts")
}

fn numbers(output: &Output) -> Vec<u64> {
    let text = std::str::from_utf8(&output.stdout).expect("UTF-8");
    text.lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("JSON")["seq"]
                .as_u64()
                .expect("a number")
        })
        .collect()
}

#[test]
fn full_files_are_shown_too_and_entries_can_be_chosen() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path();
    let timeline = timeline(dir, 10);
    for n in 1..=25 {
        add(
            &timeline,
            if n % 5 == 0 { "coder" } else { "pm" },
            &format!("entry {n}"),
        );
    }
    let json = |args: &[&str]| {
        let output = show(dir, &[&["--format", "json"], args].concat());
        assert!(output.status.success(), "{output:?}");
        (numbers(&output), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    assert_eq!(json(&[]), ((1..=25).collect(), String::new()));
    assert_eq!(json(&["--since", "19"]).0, (19..=25).collect::<Vec<_>>());
    assert_eq!(json(&["--agent", "devloop-coder"]).0, [5, 10, 15, 20, 25]);
    assert_eq!(json(&["--since", "1h", "--agent", "coder"]).0, [5, 10, 15, 20, 25]);
    assert_eq!(json(&["--since", "2000-01-01"]).0.len(), 25);
    for args in [
        &["--since", "2999-01-01"][..],
        &["--agent", "tester"],
        &["--since", "26"],
    ] {
        assert_eq!(
            json(args),
            (Vec::new(), "No entry of the timeline is like that.\n".to_owned())
        );
    }
    let table = show(dir, &["--since", "24"]);
    let table = String::from_utf8(table.stdout).expect("UTF-8");
    assert_eq!(table.lines().count(), 2);
    assert!(
        table
            .lines()
            .last()
            .expect("a line")
            .ends_with("  info   coder         test  entry 25"),
        "{table}"
    );
}

#[test]
fn times_choose_entries_over_files() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path();
    let timeline = timeline(dir, 10);
    add(&timeline, "pm", "x");
    let line = |seq: u64, ts: &str| json!({"v": 1, "seq": seq, "ts": ts, "type": "t"}).to_string() + "\n";
    let beside = dir.join("agent-state/timeline");
    fs::create_dir_all(&beside).expect("a directory");
    for (number, hour) in [(1, 10), (2, 11), (3, 12)] {
        let text: String = (0..10)
            .map(|n| {
                line(
                    (number - 1) * 10 + n + 1,
                    &format!("2026-11-30T{hour}:{:02}:00.000Z", n * 6),
                )
            })
            .collect();
        fs::write(beside.join(format!("timeline.{number:06}.ndjson")), text).expect("a file");
    }
    // The clock was put back before this one.
    fs::write(
        dir.join(FILE),
        line(31, "2026-11-30T11:30:00.000Z") + &line(32, "2026-11-30T13:00:00.000Z"),
    )
    .expect("a file");
    let output = show(dir, &["--format", "json", "--since", "2026-11-30T12:30:00Z"]);
    assert_eq!(numbers(&output), [26, 27, 28, 29, 30, 32]);
    fs::write(dir.join(FILE), line(31, "2026-11-30T13:00:00.000Z")).expect("a file");
    for (since, first) in [
        ("2026-11-30", 1),
        ("2026-11-30T10:54:00Z", 10),
        ("2026-11-30T10:54:00.001Z", 11),
        ("2026-11-30T11:00", 11),
        ("2026-11-30T12:30:00Z", 26),
        ("2026-11-30T12:59:00Z", 31),
    ] {
        let output = show(dir, &["--format", "json", "--since", since]);
        assert_eq!(numbers(&output), (first..=31).collect::<Vec<_>>(), "{since}");
    }
}

#[test]
fn foreign_lines_are_left_out_and_counted_and_nothing_reaches_the_terminal() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path();
    let timeline = timeline(dir, 1_000);
    add(&timeline, "pm", "\u{1b}]0;owned\u{7} one\n\u{202e}two\u{9b}2J");
    let mut text = fs::read(dir.join(FILE)).expect("it is there");
    text.extend(b"{broken \x1b[2J\n\0\0\0\0not json\n\xff\xfe\n");
    text.extend(
        json!({"seq": 5, "ts": 7, "agent": ["\u{9b}"], "refs": "\u{1b}"})
            .to_string()
            .into_bytes(),
    );
    text.extend(b"\n{\"seq\":6,\"half");
    fs::write(dir.join(FILE), text).expect("a file");
    for format in ["table", "json"] {
        let output = show(dir, &["--format", format]);
        assert!(output.status.success(), "{output:?}");
        let told = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(told, "Left out: 3 lines that cannot be read, 4 zero bytes.\n");
        let shown = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!(shown.lines().count(), 2);
        assert!(
            !shown.contains(|c: char| c != '\n' && c.is_control() || c == '\u{202e}'),
            "{shown:?}"
        );
    }
}

#[test]
fn without_a_project_or_an_entry_there_is_help() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path();
    let output = show(dir, &[]);
    assert_eq!(output.status.code(), Some(64));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("devloop init"),
        "{output:?}"
    );
    fs::create_dir(dir.join("agent-state")).expect("a directory");
    let output = show(dir, &["--format", "json"]);
    assert!(output.status.success() && output.stdout.is_empty());
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("`timeline_append`"),
        "{output:?}"
    );
    let output = show(dir, &["--agent", "codr"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("did you mean `coder`"),
        "{output:?}"
    );
    let output = show(dir, &["--since", "yesterday"]);
    assert_eq!(output.status.code(), Some(64));
    std::os::unix::fs::symlink("/etc/passwd", dir.join(FILE)).expect("a link");
    let output = show(dir, &[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        output.stdout.is_empty() && String::from_utf8_lossy(&output.stderr).contains("symbolic link"),
        "{output:?}"
    );
}

fn follow(dir: &Path, args: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = program()
        .args(["timeline", "--follow", "--format", "json", "--project-dir"])
        .arg(dir)
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    (child, output)
}

fn next(output: &mut impl BufRead) -> u64 {
    let mut line = String::new();
    output.read_line(&mut line).expect("it can be read");
    serde_json::from_str::<Value>(&line).expect("JSON")["seq"]
        .as_u64()
        .expect("a number")
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).expect("a process")).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is there");
}

#[test]
fn a_follower_misses_nothing_over_rotations_and_ends_when_it_is_interrupted() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path();
    let timeline = timeline(dir, 5);
    // Before there is anything.
    let (mut child, mut output) = follow(dir, &[]);
    for n in 1..=40 {
        add(&timeline, "pm", "x");
        // Now and then it lags behind, over more than one file.
        if n % 13 == 0 {
            (n - 12..=n).for_each(|n| assert_eq!(next(&mut output), n));
        }
    }
    assert_eq!(next(&mut output), 40);
    interrupt(&child);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("it can be read");
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut rest)
        .expect("it can be read");
    assert_eq!(rest, "");
}

#[test]
fn a_follower_ends_when_nobody_reads_it_any_more() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path();
    let timeline = timeline(dir, 5);
    add(&timeline, "pm", "x");
    let (mut child, mut output) = follow(dir, &["--since", "1"]);
    assert_eq!(next(&mut output), 1);
    drop(output);
    // Nothing more is appended: it finds out by itself.
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}
