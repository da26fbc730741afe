//! A journal against a naive one: a list that never forgets.

use super::*;

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
        assert_eq!((skipped.lines, skipped.zeros, skipped.numbers), (0, 0, 0));
        assert_eq!(skipped.pruned, first.saturating_sub(from));
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
