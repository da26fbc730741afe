//! Appends: by threads, by processes, called off, refused.

use super::*;

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
        .map(|number| child("journal::tests::appending::child_appends", dir.path(), number))
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
