//! What a journal promises: with threads, with processes, with torn files and over rotations.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::store::tests::{LONG, Place, child, child_dir, place, rel, store_at};

const LIVE: &str = "agent-state/j.ndjson";
const TORN: &str = "agent-state/journal/j.torn.ndjson";
const INDEX: &str = "agent-state/journal/j.index.json";

fn settings(rotation: Option<Rotation>) -> Settings {
    Settings {
        rotation,
        beside: Some(rel("agent-state/journal")),
        ..Durability::Cached.into()
    }
}

fn journal(store: &Store) -> Journal {
    Journal::new(store.clone(), rel(LIVE), "j", settings(None))
}

/// One that is rotated after so many lines.
fn rotating(store: &Store, lines: u64, keep: Keep) -> Journal {
    let rotation = Rotation {
        bytes: 1 << 20,
        lines,
        keep,
    };
    Journal::new(store.clone(), rel(LIVE), "j", settings(Some(rotation)))
}

fn add(journal: &Journal, text: &str) -> u64 {
    journal.append(&json!({ "text": text }), LONG).unwrap().seq
}

fn numbers(reader: impl Iterator<Item = Result<Record, StoreError>>) -> Vec<u64> {
    reader.map(|record| record.unwrap().seq).collect()
}

fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
#[ignore = "started by another test, in a process of its own"]
fn child_appends() {
    let Some(dir) = child_dir() else { return };
    let number: usize = std::env::var("DEVLOOP_TEST_NUMBER").unwrap().parse().unwrap();
    let store = store_at(&dir);
    for index in 0..40 {
        let journal = rotating(&store, 50, Keep::All);
        journal.append(&json!({"by": number, "index": index}), LONG).unwrap();
    }
}

/// With rotations all along, and with readers that begin and follow in the middle of it.
#[test]
fn appends_of_processes_and_threads_have_no_gap_and_no_double() {
    let Place { dir, store } = place();
    let children: Vec<Child> = (0..4)
        .map(|number| child("journal::tests::child_appends", dir.path(), number))
        .collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (4..8)
            .map(|number| {
                let store = &store;
                scope.spawn(move || {
                    for index in 0..40 {
                        let journal = rotating(store, 50, Keep::All);
                        journal.append(&json!({"by": number, "index": index}), LONG).unwrap();
                    }
                })
            })
            .collect();
        for from in [1, 100] {
            let (store, done) = (&store, &done);
            scope.spawn(move || {
                let mut follower = rotating(store, 50, Keep::All).follow_from(from);
                let mut next = from;
                loop {
                    let ended = done.load(Ordering::SeqCst);
                    let batch = follower.next_batch(7).unwrap();
                    for record in &batch {
                        assert_eq!(record.seq, next, "no gap and no double");
                        next += 1;
                    }
                    if ended && batch.is_empty() {
                        break;
                    }
                }
                assert_eq!((next, follower.skipped()), (321, Skipped::default()));
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let seen = numbers(rotating(&store, 50, Keep::All).read_strictly_from(1));
                assert_eq!(seen, (1..=seen.len() as u64).collect::<Vec<_>>());
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        done.store(true, Ordering::SeqCst);
    });
    let records: Vec<Record> = journal(&store).read_from(0).map(Result::unwrap).collect();
    assert_eq!(
        records.iter().map(|record| record.seq).collect::<Vec<_>>(),
        (1..=320).collect::<Vec<_>>()
    );
    for by in 0..8 {
        let of_one = records
            .iter()
            .filter(|record| record.fields["by"] == json!(by))
            .map(|record| record.fields["index"].as_u64().unwrap());
        assert_eq!(
            of_one.collect::<Vec<_>>(),
            (0..40).collect::<Vec<_>>(),
            "each writer's order is kept"
        );
    }
    let index: Vec<Rotated> = serde_json::from_slice(&fs::read(dir.path().join(INDEX)).unwrap()).unwrap();
    assert!(index.len() >= 6);
    let mut first = 1;
    for (rotated, number) in index.iter().zip(1..) {
        assert_eq!(rotated.file, format!("j.{number:06}.ndjson"));
        // Records that were written as one are not torn apart for a full file.
        assert!(rotated.first_seq == first && (42..50).contains(&(rotated.last_seq - first)));
        first = rotated.last_seq + 1;
        let file = dir.path().join("agent-state/journal").join(&rotated.file);
        assert_eq!(fs::metadata(file).unwrap().len(), rotated.bytes);
    }
}

#[test]
fn a_tail_torn_at_any_byte_is_mended() {
    let Place { dir, store } = place();
    let file = dir.path().join(LIVE);
    let journal = journal(&store);
    for text in ["one", "two", "三 \"three\" {}"] {
        add(&journal, text);
    }
    let whole = fs::read(&file).unwrap();
    let first_two = whole
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .nth(1)
        .unwrap();
    for cut in first_two..=whole.len() {
        fs::write(&file, &whole[..cut]).unwrap();
        let _ = fs::remove_file(dir.path().join(TORN));
        let mut reader = journal.read_from(0);
        let readable = reader.by_ref().count();
        assert_eq!(reader.skipped(), Skipped::default(), "half a line is no damage");
        let kept = if cut >= whole.len() - 1 { 3 } else { 2 };
        assert_eq!(readable, kept, "cut at {cut}");
        let appended = journal.append(&json!({"text": "next"}), LONG).unwrap();
        assert_eq!(appended.seq, kept as u64 + 1, "cut at {cut}");
        let after = fs::read(&file).unwrap();
        let expected = if kept == 3 { &whole[..] } else { &whole[..first_two] };
        assert!(
            after.starts_with(expected) && after.ends_with(b"\"next\"}\n"),
            "cut at {cut}"
        );
        assert_eq!(numbers(journal.read_strictly_from(0)).len(), kept + 1);
        let torn = fs::read(dir.path().join(TORN)).unwrap_or_default();
        let lost = if kept == 3 { &[][..] } else { &whole[first_two..cut] };
        assert_eq!(
            torn.strip_suffix(b"\n").unwrap_or_default(),
            lost,
            "cut at {cut}: nothing is thrown away"
        );
        let told = (cut != first_two && cut != whole.len()).then(|| Repaired {
            bytes: lost.len() as u64,
            quarantine: (kept == 2).then(|| rel(TORN)),
        });
        assert_eq!(appended.repaired, told, "cut at {cut}");
    }
}

#[test]
fn the_last_number_is_found_behind_long_and_broken_lines() {
    let Place { dir, store } = place();
    let journal = journal(&store);
    add(&journal, &"x".repeat(200_000));
    assert_eq!(add(&journal, ""), 2);
    let file = dir.path().join(LIVE);
    let mut text = fs::read_to_string(&file).unwrap();
    text.push_str("{broken\nnot json either\n");
    text.push_str(&"y".repeat(50_000));
    fs::write(&file, text).unwrap();
    // A line that can be read no more may have had a number; it is not given again.
    assert_eq!(journal.append(&json!({"a": 1, "seq": 99}), LONG).unwrap().seq, 5);
    assert!(
        fs::read_to_string(&file).unwrap().ends_with("{\"a\":1,\"seq\":5}\n"),
        "`seq` keeps its place"
    );
    let mut reader = journal.read_from(2);
    assert_eq!(numbers(reader.by_ref()), [2, 5]);
    let skipped = Skipped {
        lines: 2,
        zeros: 0,
        numbers: 2,
    };
    assert_eq!(reader.skipped(), skipped);
    assert!(matches!(
        journal.append(&json!([]), LONG),
        Err(StoreError::Serialize(_))
    ));
    fs::write(&file, "\n").unwrap();
    assert_eq!(add(&journal, ""), 1);
}

#[test]
fn after_the_greatest_number_none_is_given() {
    let Place { dir, store } = place();
    let journal = journal(&store);
    add(&journal, "");
    let file = dir.path().join(LIVE);
    for text in [
        format!("{{\"seq\":{}}}\n", u64::MAX),
        format!("{{\"seq\":{}}}", u64::MAX),
        format!("{{\"seq\":{}}}\nbroken\nbroken\n", u64::MAX - 1),
    ] {
        fs::write(&file, &text).unwrap();
        let error = journal.append(&json!({}), LONG).unwrap_err().to_string();
        assert!(error.contains("j.ndjson") && error.contains("a person must"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        assert!(journal.read_from(u64::MAX).count() < 2);
    }
    fs::write(&file, format!("{{\"seq\":{}}}\n", u64::MAX - 1)).unwrap();
    assert_eq!(journal.append(&json!({}), LONG).unwrap().seq, u64::MAX);
}

#[test]
fn zeros_at_the_end_are_cut_off_and_told() {
    let Place { dir, store } = place();
    let journal = journal(&store);
    add(&journal, "one");
    let file = dir.path().join(LIVE);
    let whole = fs::read(&file).unwrap();
    for count in [1, 4_096, 100_000] {
        let zeros = vec![0; count];
        for (content, torn) in [
            (&whole[..], &b""[..]),
            (&whole[..whole.len() - 1], b""),
            (&whole[..], b"{\"se"),
            (&whole[..], b"\xe4\xb8"),
        ] {
            fs::write(&file, [content, torn, &zeros].concat()).unwrap();
            let _ = fs::remove_file(dir.path().join(TORN));
            assert_eq!(numbers(journal.read_from(0)), [1]);
            let appended = journal.append(&json!({}), LONG).unwrap();
            assert_eq!(appended.seq, 2);
            assert_eq!(fs::read(&file).unwrap(), [&whole[..], b"{\"seq\":2}\n"].concat());
            let repaired = appended.repaired.unwrap();
            assert_eq!(repaired.bytes, (torn.len() + count) as u64);
            let lost = [torn, &zeros[..], b"\n"].concat();
            let is_whole = content.len() == whole.len();
            assert_eq!(repaired.quarantine, is_whole.then(|| rel(TORN)));
            assert_eq!(fs::read(dir.path().join(TORN)).ok(), is_whole.then_some(lost));
        }
    }
}

#[test]
fn zeros_and_garbage_inside_are_passed_over_and_counted() {
    let Place { dir, store } = place();
    let journal = journal(&store);
    fs::create_dir_all(dir.path().join("agent-state")).unwrap();
    let long = format!("{{\"seq\":4,\"text\":\"{}\"}}", "x".repeat(5 << 20));
    let text = [
        &b"{\"seq\":1}\n"[..],
        &vec![0; 70_000],
        b"{\"seq\":2}\n\n  \r\n\0\0\n",
        b"{\"seq\":3\xff}\n",
        long.as_bytes(),
        b"\n{\"seq\":2,\"again\":true}\n{\"seq\":5}\r\n{\"torn\0\0{\"seq\":6}\n",
    ]
    .concat();
    fs::write(dir.path().join(LIVE), &text).unwrap();
    let mut reader = journal.read_from(0);
    assert_eq!(numbers(reader.by_ref()), [1, 2, 5, 6]);
    let skipped = Skipped {
        lines: 4,
        zeros: 70_004,
        numbers: 2,
    };
    assert_eq!(reader.skipped(), skipped);
    assert_eq!(reader.position(), 7);
    for seq in [1, 2, 5, 6] {
        assert_eq!(journal.record(seq).unwrap().unwrap().seq, seq);
    }
    for seq in [0, 3, 4, 7] {
        assert_eq!(journal.record(seq).unwrap(), None, "{seq}");
    }
    let mut strict = journal.read_strictly_from(1);
    assert_eq!(strict.next().unwrap().unwrap().seq, 1);
    let error = strict.next().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("`agent-state/j.ndjson` is damaged at line 2 (byte 10)"),
        "{error}"
    );
    assert!(strict.next().is_none(), "it stopped");
    let from_here = text.len() - 27;
    let mut strict = journal.read_strictly_from(6);
    let error = strict.next().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("line 10") || error.contains(&from_here.to_string()),
        "{error}"
    );
    assert_eq!(add(&journal, ""), 7);
}

#[test]
fn strict_reading_stops_at_a_gap() {
    let Place { dir, store } = place();
    let journal = journal(&store);
    add(&journal, "");
    fs::write(dir.path().join(LIVE), "{\"seq\":1}\n{\"seq\":2}\n{\"seq\":4}\n").unwrap();
    let got: Vec<_> = journal.read_strictly_from(1).collect();
    assert_eq!(got.len(), 3);
    let error = got[2].as_ref().unwrap_err().to_string();
    assert!(
        error.contains("line 3 (byte 20): record 4 comes where record 3 is expected"),
        "{error}"
    );
    assert!(journal.read_strictly_from(4).all(|record| record.is_ok()));
}

#[test]
fn a_record_that_would_be_taken_for_torn_is_refused() {
    let Place { dir, store } = place();
    let text = "x".repeat(usize::try_from(LONGEST_RECORD).unwrap());
    let error = journal(&store).append(&json!({ "text": text }), LONG).unwrap_err();
    assert!(
        matches!(error, StoreError::Common(CommonFailure::TooLarge { .. })),
        "{error}"
    );
    assert!(fs::read(dir.path().join(LIVE)).unwrap().is_empty());
    let short = Settings {
        longest: 29,
        ..settings(None)
    };
    let short = Journal::new(store.clone(), rel(LIVE), "j", short);
    assert_eq!(add(&short, "123456789"), 1);
    let error = short.append(&json!({"text": "1234567890"}), LONG).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Common(CommonFailure::TooLarge {
                bytes: 30,
                limit: 29,
                ..
            })
        ),
        "{error}"
    );
}

#[test]
fn who_appends_sees_what_comes_before_and_may_change_its_mind() {
    let Place { dir, store } = place();
    let journal = journal(&store);
    let first = journal.append_with(LONG, |next| {
        assert_eq!((next.seq, next.last, next.repaired), (1, None, None));
        Ok::<_, StoreError>(json!({"text": "one"}))
    });
    assert_eq!(first.unwrap().seq, 1);
    let file = dir.path().join(LIVE);
    let torn = [&fs::read(&file).unwrap()[..], b"{\"to"].concat();
    fs::write(&file, &torn).unwrap();
    let error = journal.append_with(LONG, |next| {
        assert_eq!(next.seq, 2);
        assert_eq!(next.last.unwrap().fields["text"], "one");
        assert_eq!(next.repaired.unwrap().bytes, 4);
        Err::<Value, _>(StoreError::Cancelled)
    });
    assert!(matches!(error, Err(StoreError::Cancelled)));
    assert_eq!(fs::read(&file).unwrap(), torn, "nothing was touched");
    let both = journal
        .append_all_with(LONG, |next| {
            Ok::<_, StoreError>(vec![json!({"mended": next.repaired.unwrap().bytes}), json!({})])
        })
        .unwrap();
    assert_eq!((both.seq, both.repaired.unwrap().bytes), (3, 4));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.ends_with("}\n{\"seq\":2,\"mended\":4}\n{\"seq\":3}\n"), "{text}");
    let none = journal.append_all_with(LONG, |_| Ok::<Vec<Value>, StoreError>(Vec::new()));
    assert_eq!(none.unwrap().seq, 3);
}

/// The most memory that this process ever had, in KiB.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore = "started by another test, in a process of its own"]
fn child_mends_a_large_end() {
    let Some(dir) = child_dir() else { return };
    let journal = journal(&store_at(&dir));
    let before = peak_memory();
    assert_eq!(numbers(journal.read_from(1)), [1]);
    assert_eq!(journal.append(&json!({}), LONG).unwrap().seq, 2);
    let grown = peak_memory() - before;
    assert!(grown < 16 * 1024, "{grown} KiB");
}

#[test]
#[cfg(target_os = "linux")]
fn a_large_end_is_read_and_mended_in_little_memory() {
    use std::os::unix::fs::MetadataExt;
    let Place { dir, store } = place();
    journal(&store).append(&json!({}), LONG).unwrap();
    let file = dir.path().join(LIVE);
    let whole = fs::read(&file).unwrap();
    let torn = "y".repeat(32 << 20);
    fs::write(&file, [&whole, torn.as_bytes()].concat()).unwrap();
    let zeros = fs::OpenOptions::new().write(true).open(&file).unwrap();
    zeros.set_len(128 << 20).unwrap();
    let mut child = child("journal::tests::child_mends_a_large_end", dir.path(), 0);
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read(&file).unwrap(), [&whole[..], b"{\"seq\":2}\n"].concat());
    let kept = fs::read(dir.path().join(TORN)).unwrap();
    assert_eq!(kept.len(), (128 << 20) - whole.len() + 1);
    assert!(kept.starts_with(torn.as_bytes()), "nothing is thrown away");
    let blocks = fs::metadata(dir.path().join(TORN)).unwrap().blocks() * 512;
    assert!(blocks < 40 << 20, "zeros take no room: {blocks}");
}

#[test]
fn old_files_go_and_a_reader_is_told_what_it_missed() {
    let Place { dir, store } = place();
    let journal = rotating(&store, 10, Keep::Newest(2));
    let mut follower = journal.follow_from(1);
    let mut slow = journal.follow_from(1);
    for number in 1..=95 {
        assert_eq!(add(&journal, ""), number);
        assert_eq!(numbers(follower.next_batch(9).unwrap().into_iter().map(Ok)), [number]);
        if number == 5 {
            assert_eq!(slow.next_batch(3).unwrap().len(), 3);
        }
    }
    assert_eq!(follower.skipped(), Skipped::default());
    assert_eq!(
        names(&dir.path().join("agent-state/journal")),
        ["j.000008.ndjson", "j.000009.ndjson", "j.index.json"]
    );
    let mut reader = journal.read_from(1);
    assert_eq!(numbers(reader.by_ref()), (71..=95).collect::<Vec<_>>());
    assert_eq!(reader.skipped().numbers, 70);
    // It still has the file that it was in, though that has no name any more.
    let rest = numbers(slow.next_batch(1_000).unwrap().into_iter().map(Ok));
    assert_eq!(rest, (4..=10).chain(71..=95).collect::<Vec<_>>());
    assert_eq!(slow.skipped().numbers, 60);
    assert!(journal.read_strictly_from(1).next().unwrap().is_err());
    for (seq, there) in [(70, false), (71, true), (90, true), (91, true), (95, true), (96, false)] {
        assert_eq!(journal.record(seq).unwrap().is_some(), there, "{seq}");
    }
    let gone = journal.prune(Keep::Newest(1), LONG).unwrap();
    assert_eq!(gone.iter().map(|gone| gone.first_seq).collect::<Vec<_>>(), [71]);
    assert_eq!(journal.rotated().unwrap().len(), 1);
    assert_eq!(journal.prune(Keep::Newest(0), LONG).unwrap().len(), 1);
    assert_eq!(add(&journal, ""), 96);
}

#[test]
fn the_next_number_is_known_without_a_live_file() {
    let Place { dir, store } = place();
    let journal = rotating(&store, 5, Keep::All);
    (1..=10).for_each(|number| assert_eq!(add(&journal, ""), number));
    let (live, beside) = (dir.path().join(LIVE), dir.path().join("agent-state/journal"));
    // As after a crash between two steps of a rotation.
    fs::rename(&live, beside.join("j.000002.ndjson")).unwrap();
    assert_eq!(numbers(journal.read_strictly_from(1)).len(), 10);
    assert_eq!(add(&journal, ""), 11);
    let index: Vec<Rotated> = serde_json::from_slice(&fs::read(dir.path().join(INDEX)).unwrap()).unwrap();
    assert_eq!(index.len(), 2, "the index was behind");
    assert_eq!(journal.prune(Keep::Newest(1), LONG).unwrap().len(), 1);
    // The newest file keeps the number while the live one has none.
    fs::write(&live, "").unwrap();
    assert!(journal.prune(Keep::Newest(0), LONG).unwrap().is_empty());
    // All files gone: the index remembers.
    fs::remove_file(beside.join("j.000002.ndjson")).unwrap();
    fs::remove_file(&live).unwrap();
    assert_eq!(add(&journal, ""), 11);
    // Garbage in the index is no reason to fail, and neither is a directory or a link with the name of a file.
    fs::write(dir.path().join(INDEX), "[{\"file\":").unwrap();
    fs::create_dir(beside.join("j.000001.ndjson")).unwrap();
    symlink("/etc/passwd", beside.join("j.000002.ndjson")).unwrap();
    (12..=16).for_each(|number| assert_eq!(add(&journal, ""), number));
    assert_eq!(numbers(journal.read_strictly_from(11)), (11..=16).collect::<Vec<_>>());
    assert!(
        names(&beside).contains(&"j.000003.ndjson".to_owned()),
        "{:?}",
        names(&beside)
    );
    let rotated = journal.rotated().unwrap();
    assert_eq!((rotated[0].first_seq, rotated[0].last_seq), (11, 15));
}

#[test]
fn a_journal_that_cannot_be_rotated_grows_on() {
    let Place { dir, store } = place();
    let journal = rotating(&store, 3, Keep::All);
    assert_eq!(add(&journal, ""), 1);
    fs::create_dir(dir.path().join("elsewhere")).unwrap();
    let _ = fs::remove_dir_all(dir.path().join("agent-state/journal"));
    symlink("../elsewhere", dir.path().join("agent-state/journal")).unwrap();
    (2..=7).for_each(|number| assert_eq!(add(&journal, ""), number));
    assert_eq!(names(&dir.path().join("elsewhere")), Vec::<String>::new());
    assert!(matches!(journal.read_from(1).next(), Some(Err(StoreError::Fs(_)))));
    // Without a record in the live file nobody can tell what comes next.
    let text = fs::read(dir.path().join(LIVE)).unwrap();
    fs::write(dir.path().join(LIVE), "").unwrap();
    assert!(matches!(journal.append(&json!({}), LONG), Err(StoreError::Fs(_))));
    fs::write(dir.path().join(LIVE), text).unwrap();
    fs::remove_file(dir.path().join("agent-state/journal")).unwrap();
    assert_eq!(add(&journal, ""), 8);
    assert_eq!(numbers(journal.read_strictly_from(1)).len(), 8);
    assert_eq!(journal.rotated().unwrap().len(), 1);
}

#[test]
fn a_synced_journal_says_the_same() {
    let Place { dir, store } = place();
    let rotation = Rotation {
        bytes: 4_000,
        lines: 1_000,
        keep: Keep::All,
    };
    let synced = Settings {
        durability: Durability::Synced,
        ..settings(Some(rotation))
    };
    let journal = Journal::new(store.clone(), rel(LIVE), "j", synced);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    add(&journal, &"x".repeat(100));
                }
            });
        }
    });
    let before = fs::read(dir.path().join(LIVE)).unwrap();
    for seq in [1, 159, 160, 161] {
        let _lock = store.lock("j", LONG).unwrap();
        journal.make_durable(seq).unwrap();
    }
    assert_eq!(
        fs::read(dir.path().join(LIVE)).unwrap(),
        before,
        "the same bytes in the same place"
    );
    assert_eq!(numbers(journal.read_strictly_from(1)), (1..=160).collect::<Vec<_>>());
    let rotated = journal.rotated().unwrap();
    assert!(
        rotated.len() >= 4 && rotated.iter().all(|rotated| rotated.bytes <= 4_000),
        "{rotated:?}"
    );
}

/// Some records are too large, some waits are called off, and some are made under the lock: each thread is told what
/// became of its own.
#[test]
fn threads_that_append_together_are_told_their_own() {
    let Place { dir, store } = place();
    let rotation = Rotation {
        bytes: 1 << 20,
        lines: 100,
        keep: Keep::All,
    };
    let short = Settings {
        longest: 100,
        ..settings(Some(rotation))
    };
    let journal = Journal::new(store.clone(), rel(LIVE), "j", short);
    let told: std::sync::Mutex<BTreeMap<u64, String>> = std::sync::Mutex::default();
    std::thread::scope(|scope| {
        for by in 0..12 {
            let (journal, told) = (&journal, &told);
            scope.spawn(move || {
                for n in 0..60 {
                    let text = format!("{by}-{n}");
                    let appended = match (by + n) % 6 {
                        0 => {
                            let large = json!({"text": "x".repeat(100)});
                            let error = journal.append(&large, LONG).unwrap_err();
                            assert!(
                                matches!(error, StoreError::Common(CommonFailure::TooLarge { .. })),
                                "{error}"
                            );
                            continue;
                        }
                        1 => {
                            let asked = std::sync::atomic::AtomicUsize::new(0);
                            let off = || asked.fetch_add(1, Ordering::SeqCst) >= n % 4;
                            match journal.append(&json!({"text": text}), Wait::at_most(LONG).unless(&off)) {
                                Ok(appended) => appended,
                                Err(StoreError::Cancelled) => continue,
                                Err(error) => panic!("{error}"),
                            }
                        }
                        2 => journal
                            .append_with(LONG, |_| Ok::<_, StoreError>(json!({"text": text})))
                            .unwrap(),
                        _ => journal.append(&json!({"text": text}), LONG).unwrap(),
                    };
                    assert_eq!(told.lock().unwrap().insert(appended.seq, text), None);
                }
            });
        }
    });
    let told = told.into_inner().unwrap();
    let read: BTreeMap<u64, String> = journal
        .read_strictly_from(1)
        .map(Result::unwrap)
        .map(|record| (record.seq, record.fields["text"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(read, told);
    // Nobody is waited for any more, and a held lock is told as ever.
    let lock = store.lock("j", LONG).unwrap();
    let error = journal.append(&json!({}), Duration::from_millis(30)).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Common(CommonFailure::Busy {
                waited_ms: 30..,
                holder: Some(_)
            })
        ),
        "{error}"
    );
    drop(lock);
    drop(dir);
}

/// Who waits for the lock on behalf of all and is called off then takes its own record back, before the next one can
/// write it.
#[test]
fn a_record_that_was_called_off_is_not_there() {
    let Place { dir: _dir, store } = place();
    let journal = Journal::new(store, rel(LIVE), "j", settings(None));
    let told = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for by in 0..6 {
            let (journal, told) = (&journal, &told);
            scope.spawn(move || {
                for n in 0..300 {
                    let asked = std::sync::atomic::AtomicUsize::new(0);
                    let off = || asked.fetch_add(1, Ordering::SeqCst) >= (by + n) % 3;
                    match journal.append(&json!({}), Wait::at_most(LONG).unless(&off)) {
                        Ok(_) => told.fetch_add(1, Ordering::SeqCst),
                        Err(StoreError::Cancelled) => continue,
                        Err(error) => panic!("{error}"),
                    };
                }
            });
        }
    });
    assert_eq!(
        journal.read_strictly_from(1).map(Result::unwrap).count(),
        told.into_inner()
    );
}

#[test]
fn a_link_or_a_second_name_is_not_appended_to() {
    let Place { dir, store } = place();
    let journal = journal(&store);
    fs::create_dir_all(dir.path().join("agent-state")).unwrap();
    fs::write(dir.path().join("victim"), "precious").unwrap();
    symlink("../victim", dir.path().join(LIVE)).unwrap();
    assert!(matches!(journal.append(&json!({}), LONG), Err(StoreError::Fs(_))));
    fs::remove_file(dir.path().join(LIVE)).unwrap();
    fs::hard_link(dir.path().join("victim"), dir.path().join(LIVE)).unwrap();
    assert!(matches!(journal.append(&json!({}), LONG), Err(StoreError::Fs(_))));
    assert_eq!(fs::read(dir.path().join("victim")).unwrap(), b"precious");
}

/// What may happen to a journal between two appends.
#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    AppendSeveral(usize),
    /// A crash in the middle of a write.
    Torn(Vec<u8>, usize),
    /// A crash that took the last line end, then a repair.
    WithoutLineEnd,
    /// A crash after the second step of a rotation, and after the third.
    Renamed,
    RenamedAndMade,
    /// The index is lost, broken, or from another time.
    Index(u8),
    Read(u64),
    Record(u64),
    Follow(usize),
    /// Another process, which knows nothing of this one.
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..300_usize).prop_map(Step::Append),
        2 => (1..5_usize).prop_map(Step::AppendSeveral),
        2 => (proptest::collection::vec(1_u8..=255, 0..40), 0..3_usize).prop_map(|(bytes, zeros)| {
            Step::Torn(bytes.into_iter().filter(|byte| *byte != b'\n').collect(), zeros * 5_000)
        }),
        1 => Just(Step::WithoutLineEnd),
        1 => Just(Step::Renamed),
        1 => Just(Step::RenamedAndMade),
        1 => any::<u8>().prop_map(Step::Index),
        2 => (0..60_u64).prop_map(Step::Read),
        2 => (0..60_u64).prop_map(Step::Record),
        3 => (1..20_usize).prop_map(Step::Follow),
        1 => Just(Step::Reopen),
    ]
}

/// The naive journal: a list that never forgets, except what is older than the files that are kept.
struct Model {
    dir: PathBuf,
    records: BTreeMap<u64, usize>,
    keep: Keep,
}

impl Model {
    fn next(&self) -> u64 {
        self.records.len() as u64 + 1
    }

    fn add(&mut self, length: usize) {
        self.records.insert(self.next(), length);
    }

    /// What a read from `from` on must give, given that it begins with `first`.
    fn check(&self, from: u64, got: &[Record], skipped: Skipped) {
        let first = got.first().map_or(self.next(), |record| record.seq);
        let from = from.max(1);
        if self.keep == Keep::All || first > self.next() {
            assert_eq!(first, from.min(self.next()));
        }
        let expected: Vec<_> = self
            .records
            .range(first..)
            .map(|(seq, length)| (*seq, *length))
            .collect();
        let got: Vec<_> = got
            .iter()
            .map(|record| (record.seq, record.fields["text"].as_str().unwrap().len()))
            .collect();
        assert_eq!(got, expected);
        assert_eq!((skipped.lines, skipped.zeros), (0, 0));
    }
}

fn run(steps: Vec<Step>, lines: u64, bytes: u64, keep: Keep) {
    let Place { dir, store } = place();
    let rotation = Rotation { bytes, lines, keep };
    let open = || Journal::new(store_at(dir.path()), rel(LIVE), "j", settings(Some(rotation)));
    drop(store);
    let mut journal = open();
    let mut model = Model {
        dir: dir.path().to_owned(),
        records: BTreeMap::new(),
        keep,
    };
    let mut follower = journal.follow_from(1);
    let mut given = 0;
    let live = model.dir.join(LIVE);
    let beside = model.dir.join("agent-state/journal");
    for step in steps {
        match step {
            Step::Append(length) => {
                assert_eq!(add(&journal, &"x".repeat(length)), model.next());
                model.add(length);
            }
            Step::AppendSeveral(count) => {
                let records: Vec<_> = (0..count).map(|length| json!({"text": "x".repeat(length)})).collect();
                (0..count).for_each(|length| model.add(length));
                let appended = journal.append_all_with(LONG, |_| Ok::<_, StoreError>(records)).unwrap();
                assert_eq!(appended.seq, model.next() - 1);
            }
            Step::Torn(torn, zeros) => {
                let Ok(mut whole) = fs::read(&live) else { continue };
                let size = whole.len();
                whole.extend(torn);
                whole.resize(whole.len() + zeros, 0);
                let bytes = (whole.len() - size) as u64;
                fs::write(&live, whole).unwrap();
                let appended = journal.append(&json!({"text": ""}), LONG).unwrap();
                assert_eq!(appended.seq, model.next());
                assert_eq!(appended.repaired.map_or(0, |repaired| repaired.bytes), bytes);
                model.add(0);
            }
            Step::WithoutLineEnd => {
                let Ok(whole) = fs::read(&live) else { continue };
                let Some(cut) = whole.strip_suffix(b"\n") else { continue };
                fs::write(&live, cut).unwrap();
                assert_eq!(journal.read_from(1).last().unwrap().unwrap().seq, model.next() - 1);
                let appended = journal.append(&json!({"text": ""}), LONG).unwrap();
                assert_eq!(appended.seq, model.next());
                assert_eq!(appended.repaired.unwrap().bytes, 0);
                model.add(0);
            }
            Step::Renamed | Step::RenamedAndMade => {
                if fs::metadata(&live).map_or(0, |found| found.len()) == 0 {
                    continue;
                }
                fs::create_dir_all(&beside).unwrap();
                let number = journal.numbered().unwrap().last().map_or(1, |newest| newest.number + 1);
                fs::rename(&live, beside.join(format!("j.{number:06}.ndjson"))).unwrap();
                if matches!(step, Step::RenamedAndMade) {
                    fs::write(&live, "").unwrap();
                }
            }
            Step::Index(kind) => {
                let index = model.dir.join(INDEX);
                let Ok(text) = fs::read(&index) else { continue };
                let entries: Vec<Rotated> = serde_json::from_slice(&text).unwrap_or_default();
                match kind % 3 {
                    // What a person may do, except to what is then nowhere else.
                    0 => fs::remove_file(&index).unwrap(),
                    1 => fs::write(&index, &text[..text.len() / 2]).unwrap(),
                    _ => fs::write(&index, serde_json::to_vec(&entries[..entries.len() / 2]).unwrap()).unwrap(),
                }
            }
            Step::Read(from) => {
                let mut reader = journal.read_from(from);
                let got: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
                model.check(from, &got, reader.skipped());
            }
            Step::Record(seq) => {
                let record = journal.record(seq).unwrap();
                assert!(record.is_none() || model.records.contains_key(&seq));
                if keep == Keep::All {
                    assert_eq!(record.is_some(), model.records.contains_key(&seq));
                }
            }
            Step::Follow(most) => {
                for record in follower.next_batch(most).unwrap() {
                    assert!(record.seq > given);
                    if keep == Keep::All {
                        assert_eq!(record.seq, given + 1);
                    }
                    assert_eq!(
                        record.fields["text"].as_str().unwrap().len(),
                        model.records[&record.seq]
                    );
                    given = record.seq;
                }
            }
            Step::Reopen => {
                rotation::forget(&journal);
                journal = open();
            }
        }
    }
    let mut reader = journal.read_from(1);
    let got: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    model.check(1, &got, reader.skipped());
    let rest = follower.next_batch(10_000).unwrap();
    assert_eq!(rest.last().map_or(given, |last| last.seq), model.next() - 1);
    assert_eq!((follower.skipped().lines, follower.skipped().zeros), (0, 0));
    rotation::forget(&journal);
    assert_eq!(add(&journal, ""), model.next());
    if keep != Keep::All {
        assert!(
            journal.rotated().unwrap().len() <= 3,
            "two, and those that a crash left"
        );
    }
    assert_eq!(
        fs::read(model.dir.join(INDEX)).map_or(Vec::<Rotated>::new(), |text| serde_json::from_slice(&text).unwrap()),
        journal.rotated().unwrap()
    );
}

fn cases() -> u32 {
    if std::env::var_os("DEVLOOP_LONG").is_some() {
        3_000
    } else {
        64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// The same as a list in memory, whatever crashes come between.
    #[test]
    fn it_is_a_list_that_never_forgets(
        steps in proptest::collection::vec(step(), 1..60),
        lines in 1..12_u64,
        bytes in 300..4_000_u64,
        keep in prop_oneof![Just(Keep::All), Just(Keep::Newest(2))],
    ) {
        run(steps, lines, bytes, keep);
    }

    /// A number is found by looking at few places, whatever stands between the records.
    #[test]
    fn a_number_is_found_where_it_is(
        lengths in proptest::collection::vec(prop_oneof![0..30_usize, 0..3_000_usize, 60_000..140_000_usize], 1..40),
        from in 0..45_u64,
    ) {
        let Place { dir, store } = place();
        let journal = journal(&store);
        add(&journal, "");
        let mut text = String::new();
        for (length, seq) in lengths.iter().zip(1..) {
            writeln!(text, "{{\"seq\":{seq},\"text\":\"{}\"}}", "x".repeat(*length)).unwrap();
            if length % 7 == 0 {
                text.push_str(&"garbage\n".repeat(length % 5));
            }
        }
        fs::write(dir.path().join(LIVE), text).unwrap();
        prop_assert_eq!(numbers(journal.read_from(from)), (from.max(1)..=lengths.len() as u64).collect::<Vec<_>>());
    }
}

/// Who has looked at a torn end reads on as if it had not been there, whatever stands in its place later.
#[test]
fn a_torn_end_that_was_seen_leaves_no_trace() {
    let torn_record = json!({"seq": 2, "text": "LOST ".repeat(40)}).to_string();
    let mut ends: Vec<Vec<u8>> = (1..torn_record.len())
        .map(|cut| torn_record.as_bytes()[..cut].to_vec())
        .collect();
    ends.extend([1, 10, 60, 213, 300, 70_000].map(|zeros| vec![0; zeros]));
    ends.extend([1, 40, 400].map(|length| b"x".repeat(length)));
    ends.push([torn_record.as_bytes(), &[0; 50]].concat());
    ends.push(b"x".repeat(usize::try_from(LONGEST_RECORD).unwrap() + 70_000));
    for end in ends {
        let Place { dir, store } = place();
        let journal = journal(&store);
        add(&journal, "first");
        let mut file = fs::File::options().append(true).open(dir.path().join(LIVE)).unwrap();
        std::io::Write::write_all(&mut file, &end).unwrap();
        let (mut reader, mut follower) = (journal.read_from(1), journal.follow_from(1));
        let mut read: Vec<Record> = reader.by_ref().map(Result::unwrap).collect();
        let mut given = follower.next_batch(10).unwrap();
        assert_eq!(given.len(), 1);
        for text in ["BBBB".repeat(30), "C".to_owned()] {
            add(&journal, &text);
            read.extend(reader.by_ref().map(Result::unwrap));
            given.extend(follower.next_batch(10).unwrap());
        }
        let afresh: Vec<Record> = journal.read_from(1).map(Result::unwrap).collect();
        let shown = String::from_utf8_lossy(&end[..end.len().min(60)]).into_owned();
        assert_eq!(
            (&read, &given),
            (&afresh, &afresh),
            "after {} bytes: {shown}",
            end.len()
        );
    }
}

/// Lines that somebody has copied or renumbered: what is appended gets a number that nobody has, and is read.
#[test]
fn a_number_that_stands_anywhere_in_the_file_is_not_given_again() {
    for (end, next) in [
        ("{\"seq\":2,\"text\":\"copied\"}\n", 6),
        ("{\"seq\":1}\n{\"seq\":2}\n{\"seq\":3}\n", 6),
        ("{\"seq\":0}\n", 6),
        ("{\"seq\":9}\n{\"seq\":4}\n", 10),
    ] {
        let Place { dir, store } = place();
        let journal = journal(&store);
        for text in ["a", "b", "c", "d", "e"] {
            add(&journal, text);
        }
        let mut file = fs::File::options().append(true).open(dir.path().join(LIVE)).unwrap();
        std::io::Write::write_all(&mut file, end.as_bytes()).unwrap();
        assert_eq!([add(&journal, "f"), add(&journal, "g")], [next, next + 1], "{end}");
        let read = numbers(journal.read_from(1));
        assert_eq!(read[read.len() - 2..], [next, next + 1], "{end}");
    }
}

/// An old live file that somebody has put back, beside files that were rotated away since.
#[test]
fn an_old_live_file_hides_nothing_and_strict_reading_stops_at_it() {
    for in_place in [false, true] {
        let Place { dir, store } = place();
        let journal = rotating(&store, 3, Keep::All);
        // Long enough for their lines to be counted.
        let text = "x".repeat(40);
        for _ in 0..3 {
            add(&journal, &text);
        }
        let live = dir.path().join(LIVE);
        let old = fs::read(&live).unwrap();
        for _ in 3..8 {
            add(&journal, &text);
        }
        if !in_place {
            fs::remove_file(&live).unwrap();
        }
        fs::write(&live, &old[..old.len() / 3]).unwrap();
        // Where the file is the same one and no smaller, nothing tells that it was touched; here it is smaller.
        let given = add(&journal, &text);
        assert!(given >= 7, "{given} was given before");
        let read = numbers(journal.read_from(1));
        let expected: Vec<u64> = (1..=6).chain([given]).collect();
        assert_eq!(read, expected);
        assert_eq!(numbers(journal.read_from(5)), [5, 6, given]);
        let strict: Result<Vec<Record>, StoreError> = journal.read_strictly_from(1).collect();
        assert!(matches!(strict, Err(StoreError::Damaged { .. })), "{strict:?}");
        let mut reader = journal.read_from(1);
        assert_eq!(reader.by_ref().count(), 7);
        assert_eq!(reader.skipped().lines, 1, "the line that was there before is counted");
    }
}

#[test]
fn a_byte_order_mark_costs_no_record() {
    let Place { dir, store } = place();
    let journal = journal(&store);
    add(&journal, "one");
    let live = dir.path().join(LIVE);
    let text = fs::read_to_string(&live).unwrap();
    fs::write(&live, format!("\u{FEFF}{text}")).unwrap();
    assert_eq!(add(&journal, "two"), 2);
    assert_eq!(numbers(journal.read_strictly_from(1)), [1, 2]);
}

/// Outside the machinery's directories a journal is no door beside the sandbox.
#[test]
fn a_journal_asks_the_sandbox_for_each_of_its_files() {
    let Place { dir, store } = place();
    let of = |store: &Store, path: &str, beside: &str| {
        let settings = Settings {
            beside: Some(rel(beside)),
            ..settings(None)
        };
        Journal::new(store.clone(), rel(path), "x", settings)
    };
    let refused = |journal: &Journal| {
        let error = journal.append(&json!({"a": 1}), LONG).unwrap_err();
        assert!(matches!(error, StoreError::Fs(FsError::Denied { .. })), "{error}");
    };
    refused(&of(&store, "units/web/evil.ndjson", "agent-state/timeline"));
    assert!(!dir.path().join("units").exists());
    // The sandbox of these tests lets `agent-state/**` be written.
    let torn = of(&store, "agent-state/mine.ndjson", "units/web");
    torn.append(&json!({"a": 1}), LONG).unwrap();
    let mut file = fs::File::options()
        .append(true)
        .open(dir.path().join("agent-state/mine.ndjson"))
        .unwrap();
    std::io::Write::write_all(&mut file, b"{\"torn").unwrap();
    refused(&torn);
    assert!(!dir.path().join("units").exists());
    fs::create_dir_all(dir.path().join(".git")).unwrap();
    fs::write(dir.path().join(".git/x.ndjson"), "{\"seq\":1}\n").unwrap();
    let secret = of(&store, ".git/x.ndjson", "agent-state/timeline");
    assert!(secret.read_from(1).next().unwrap().is_err());
}
