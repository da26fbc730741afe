//! Torn ends, zeros, garbage and copied lines: what is read, and what the next append mends.

use super::*;

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
        pruned: 0,
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
        pruned: 0,
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
    let mut child = child("journal::tests::damage::child_mends_a_large_end", dir.path(), 0);
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read(&file).unwrap(), [&whole[..], b"{\"seq\":2}\n"].concat());
    let kept = fs::read(dir.path().join(TORN)).unwrap();
    assert_eq!(kept.len(), (128 << 20) - whole.len() + 1);
    assert!(kept.starts_with(torn.as_bytes()), "nothing is thrown away");
    let blocks = fs::metadata(dir.path().join(TORN)).unwrap().blocks() * 512;
    assert!(blocks < 40 << 20, "zeros take no room: {blocks}");
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
