//! The real program on a disk that is full, and beyond the limit for files.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use super::children::{on_a_small_disk, small_disk};
use super::program::program_under;
use super::{FILE, entries};

fn append(start: &[&str], dir: &Path, length: usize) -> Output {
    let input = json!({"type": "test", "summary": "s", "data": {"text": "x".repeat(length)}});
    program_under(start)
        .args([
            "call",
            "timeline_append",
            "--agent",
            "pm",
            "--input",
            &input.to_string(),
        ])
        .arg("--project-dir")
        .arg(dir)
        .output()
        .expect("it starts")
}

fn succeeds(dir: &Path, seq: u64) {
    let output = append(&[], dir, 2_000);
    assert!(output.status.success(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&answer["seq"], answer.get("repaired")), (&json!(seq), None));
}

fn fails_and_leaves_the_file_as_it_was(start: &[&str], dir: &Path, why: &str) {
    let before = fs::read(dir.join(FILE)).expect("it is there");
    let output = append(start, dir, 20_000);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let said = format!("{}{}", answer["reason"], answer["details"]["chain"]);
    assert!(said.contains(why), "{answer}");
    assert_eq!(
        fs::read(dir.join(FILE)).expect("it is there"),
        before,
        "what did not fit was taken back"
    );
}

#[test]
fn a_file_beyond_the_limit_is_an_error_and_no_end_of_the_program() {
    let dir = tempfile::tempdir().expect("a directory");
    succeeds(dir.path(), 1);
    for _ in 0..2 {
        // 16 blocks of 512 or of 1,024 bytes, as the shell counts.
        let limited = ["sh", "-c", "ulimit -f 16 && exec \"$0\" \"$@\""];
        fails_and_leaves_the_file_as_it_was(&limited, dir.path(), "RLIMIT_FSIZE");
    }
    succeeds(dir.path(), 2);
    // Not even its own notes can be written.
    let output = append(&["sh", "-c", "ulimit -f 0 && exec \"$0\" \"$@\""], dir.path(), 10);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    succeeds(dir.path(), 3);
    assert_eq!(entries(dir.path()).len(), 3);
}

#[test]
#[ignore = "started by the next test, in a mount namespace of its own"]
fn on_a_full_disk() {
    let Some(dir) = small_disk() else { return };
    let dir = &dir;
    succeeds(dir, 1);
    let filler = dir.join("filler");
    // To the last byte: what a write of it makes fail is the end of it.
    let _ = fs::write(&filler, vec![b'x'; 4 << 20]);
    let left = fs::metadata(&filler).expect("it was begun").len();
    assert!(left < 4 << 20, "the disk is not full");
    fails_and_leaves_the_file_as_it_was(&[], dir, "No space left");
    // Room for a part of the entry, and for the notes that are written before it.
    fs::File::options()
        .write(true)
        .open(&filler)
        .expect("it is there")
        .set_len(left - 16 * 1024)
        .expect("smaller");
    fails_and_leaves_the_file_as_it_was(&[], dir, "No space left");
    fs::remove_file(&filler).expect("it is there");
    succeeds(dir, 2);
    assert_eq!(entries(dir).len(), 2);
}

#[test]
fn a_full_disk_takes_nothing_back_but_what_did_not_fit() {
    on_a_small_disk("512k", "full::on_a_full_disk");
}
