//! Full files: when they go, and what a reader is told.

use super::*;

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
    let pruned = |pruned| Skipped {
        pruned,
        ..Skipped::default()
    };
    assert_eq!(reader.skipped(), pruned(70), "what was pruned is no damage");
    // It still has the file that it was in, though that has no name any more.
    let rest = numbers(slow.next_batch(1_000).unwrap().into_iter().map(Ok));
    assert_eq!(rest, (4..=10).chain(71..=95).collect::<Vec<_>>());
    assert_eq!(slow.skipped(), pruned(60));
    for (from, gone) in [(50, 21), (71, 0), (75, 0), (95, 0)] {
        let mut reader = journal.read_from(from);
        assert_eq!(reader.by_ref().count() as u64, 95 - from.max(71) + 1);
        assert_eq!(reader.skipped(), pruned(gone), "{from}");
    }
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
fn a_gap_among_kept_files_or_before_files_that_were_never_removed_is_told_as_one() {
    let Place { dir, store } = place();
    let journal = rotating(&store, 10, Keep::Newest(3));
    (1..=55).for_each(|number| assert_eq!(add(&journal, ""), number));
    let beside = dir.path().join("agent-state/journal");
    assert_eq!(
        names(&beside),
        ["j.000003.ndjson", "j.000004.ndjson", "j.000005.ndjson", "j.index.json"]
    );
    let skipped = || {
        let mut reader = journal.read_from(1);
        reader.by_ref().for_each(|record| drop(record.unwrap()));
        reader.skipped()
    };
    let told = |lines, numbers, pruned| Skipped {
        lines,
        zeros: 0,
        numbers,
        pruned,
    };
    assert_eq!(skipped(), told(0, 0, 20));
    // The first line of the oldest one had a number, too.
    let oldest = beside.join("j.000003.ndjson");
    let text = fs::read_to_string(&oldest).unwrap();
    let rest = text.split_once('\n').unwrap().1;
    fs::write(&oldest, format!("garbage\n{rest}")).unwrap();
    assert_eq!(skipped(), told(1, 1, 20));
    fs::write(&oldest, &text).unwrap();
    fs::remove_file(beside.join("j.000004.ndjson")).unwrap();
    assert_eq!(skipped(), told(0, 10, 20));
    for name in ["j.000003.ndjson", "j.000005.ndjson"] {
        fs::remove_file(beside.join(name)).unwrap();
    }
    assert_eq!(skipped(), told(0, 0, 50), "the index knows of them");
    fs::remove_file(beside.join("j.index.json")).unwrap();
    assert_eq!(skipped(), told(0, 50, 0), "nothing says that they were there");
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
