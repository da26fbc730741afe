//! The shelf: what is recorded, what is refused, and what survives people and crashes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use devloop_contract::glob::Pattern;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::sandbox::{ProjectDir, Sandbox};
use crate::store::{FixedClock, Store};

struct Place {
    dir: TempDir,
    store: Store,
    shelf: Shelf,
}

fn place() -> Place {
    place_of("pm")
}

fn place_of(agent: &str) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let store = store_at(dir.path(), agent);
    Place {
        dir,
        store,
        shelf: Shelf::new(agent).unwrap(),
    }
}

fn store_at(dir: &std::path::Path, agent: &str) -> Store {
    let project = Arc::new(ProjectDir::open(dir).unwrap());
    let own = Pattern::parse(&format!("memory/devloop/{agent}/**")).unwrap();
    Store::new(
        Sandbox::new(project, agent, vec![own]),
        Arc::new(FixedClock::new(now())),
    )
}

fn now() -> Timestamp {
    "2026-11-30T10:15:00.123Z".parse().unwrap()
}

fn days(days: i64) -> Timestamp {
    now() + SignedDuration::from_hours(24 * days)
}

fn new(title: &str, content: &str) -> NewMemory {
    NewMemory {
        kind: Kind::Fact,
        title: tidy_title(title),
        content: tidy_content(content),
        tags: Vec::new(),
        importance: 3,
        evidence: Vec::new(),
        supersedes: Vec::new(),
    }
}

impl Place {
    fn record_at(&self, new: NewMemory, on_similar: OnSimilar, now: Timestamp) -> Result<Recorded, Refused> {
        let memories = self.shelf.open(&self.store).unwrap();
        let plan = memories.plan(new, on_similar, now)?;
        memories.carry_out(&self.store, &plan).unwrap();
        Ok(plan.recorded().clone())
    }

    fn record(&self, new: NewMemory) -> Result<Recorded, Refused> {
        self.record_at(new, OnSimilar::Ask, now())
    }

    fn file(&self, recorded: &Recorded) -> PathBuf {
        self.dir.path().join(recorded.path.as_str())
    }

    fn text(&self, recorded: &Recorded) -> String {
        fs::read_to_string(self.file(recorded)).unwrap()
    }

    fn index(&self) -> String {
        fs::read_to_string(self.dir.path().join("memory/devloop/pm/INDEX.md")).unwrap_or_default()
    }

    fn files(&self) -> usize {
        Kind::ALL
            .iter()
            .filter_map(|kind| fs::read_dir(self.dir.path().join("memory/devloop/pm").join(kind.as_str())).ok())
            .map(Iterator::count)
            .sum()
    }

    fn live(&self) -> Vec<String> {
        let memories = self.shelf.open(&self.store).unwrap();
        memories.live().iter().map(|memory| memory.id.clone()).collect()
    }
}

/// Contents that have next to nothing in common.
fn distinct(number: usize) -> NewMemory {
    let word = |salt: usize| {
        let mut seed = crate::digest::sha256_hex(format!("{number} {salt}"));
        seed.retain(|c| c.is_ascii_lowercase());
        format!("q{seed:.10}")
    };
    let words: Vec<String> = (1..8).map(word).collect();
    new(&format!("About {}", word(0)), &words.join(" "))
}

#[test]
fn a_new_memory_has_a_file_and_a_line_in_the_index() {
    let place = place();
    let mut memory = new(
        "The test database: is shared!",
        "Two runs at a time overwrite each other's rows.",
    );
    memory.tags = vec!["tests".into(), "数据库".into()];
    memory.importance = 4;
    memory.evidence = vec![Evidence {
        path: "a.ts".into(),
        line_start: 3,
        line_end: Some(4),
        quote: Some("x: \"y\"\n---".into()),
    }];
    let recorded = place.record(memory).unwrap();
    assert_eq!((recorded.action, recorded.hits), (Action::Created, 1));
    let digest = exact_digest(
        "The test database: is shared!",
        "Two runs at a time overwrite each other's rows.",
    );
    let short = &digest[..8];
    assert_eq!(recorded.id, format!("mem-{short}"));
    assert_eq!(
        recorded.path.as_str(),
        format!("memory/devloop/pm/fact/the-test-database-is-shared-{short}.md")
    );
    assert_eq!(
        place.text(&recorded),
        format!(
            "---\nid: mem-{short}\nkind: fact\ntitle: \"The test database: is shared!\"\n\
             created: \"2026-11-30T10:15:00.123Z\"\nupdated: \"2026-11-30T10:15:00.123Z\"\nhits: 1\nimportance: 4\n\
             tags: [tests, \"数据库\"]\nsha256: {digest}\nsupersedes: []\nsuperseded_by: null\nevidence:\n  \
             - {{\"path\": \"a.ts\", \"line_start\": 3, \"line_end\": 4, \"quote\": \"x: \\\"y\\\"\\n---\"}}\n---\n\
             Two runs at a time overwrite each other's rows.\n"
        )
    );
    assert_eq!(
        place.index(),
        format!(
            "- [The test database: is shared!](fact/the-test-database-is-shared-{short}.md) mem-{short}, fact, \
             importance 4, 2026-11-30: tests 数据库\n"
        )
    );
}

#[test]
fn the_same_text_again_is_counted_whatever_its_numbers_and_its_kind() {
    let place = place();
    let first = place.record(new("Build time", "The build took 31 s.")).unwrap();
    for on_similar in [OnSimilar::Ask, OnSimilar::Merge, OnSimilar::Ask] {
        let mut again = new("build TIME", "the build took 4.5 s");
        again.kind = Kind::Lesson;
        again.importance = 5;
        again.tags = vec!["ci".into()];
        let recorded = place.record_at(again, on_similar, days(1)).unwrap();
        assert_eq!((recorded.action, &recorded.path), (Action::Duplicate, &first.path));
        assert!(recorded.other_numbers);
    }
    let text = place.text(&first);
    assert!(
        text.contains("hits: 4\nimportance: 5\ntags: [ci]\n") && text.contains("took 31 s"),
        "{text}"
    );
    assert!(
        text.contains("created: \"2026-11-30") && text.contains("updated: \"2026-12-01"),
        "{text}"
    );
    assert_eq!(place.files(), 1);
    // The clock goes back: what is known of the time stays.
    place
        .record_at(new("Build time", "The build took 31 s."), OnSimilar::Ask, days(-5))
        .unwrap();
    assert!(place.text(&first).contains("updated: \"2026-12-01"));
}

#[test]
fn what_has_other_numbers_can_be_kept_beside_or_replace() {
    let place = place();
    let text = |seconds: u32| new("Timeout", &format!("The gateway times out after {seconds} s."));
    let first = place.record(text(30)).unwrap();
    let same = place.record_at(text(30), OnSimilar::New, days(1)).unwrap();
    assert_eq!((same.action, same.other_numbers), (Action::Duplicate, false));
    let beside = place.record_at(text(60), OnSimilar::New, days(1)).unwrap();
    assert_eq!((beside.action, beside.other_numbers), (Action::Created, false));
    // Each is found by its own numbers.
    for (seconds, kept) in [(30, &first), (60, &beside)] {
        let again = place.record(text(seconds)).unwrap();
        assert_eq!(
            (again.action, &again.id, again.other_numbers),
            (Action::Duplicate, &kept.id, false)
        );
    }
    let mut next = text(90);
    next.supersedes = vec![first.id.clone(), beside.id.clone()];
    let next = place.record(next).unwrap();
    assert_eq!((next.action, place.live()), (Action::Created, vec![next.id.clone()]));
}

#[test]
fn a_line_like_that_of_a_merge_hides_no_duplicate() {
    let place = place();
    let text = "Ask ops for a second server.\n\n## 2026-11-30T10:15:00.123Z · x\n\nThey answer on Mondays.";
    let first = place.record(new("Second server", text)).unwrap();
    let again = place.record(new("Second server", text)).unwrap();
    assert_eq!((again.action, &again.id), (Action::Duplicate, &first.id));
    // Nor does what was merged hide that the whole is recorded again.
    let more = new(
        "A second server",
        "Ask ops on Mondays for a second server; they answer on Mondays.",
    );
    place.record_at(more, OnSimilar::Merge, days(1)).unwrap();
    let live = place.live();
    let file = place.text(&first);
    let whole = file.split("\n---\n").nth(1).unwrap().trim();
    let again = place.record(new("Second server", whole)).unwrap();
    assert_eq!((again.action, place.live()), (Action::Duplicate, live));
}

#[test]
fn of_a_circle_the_newest_stays_live() {
    for length in [2, 3, 5] {
        let place = place();
        let ids: Vec<Recorded> = (0..length)
            .map(|number| {
                place
                    .record_at(distinct(number), OnSimilar::New, days(number.try_into().unwrap()))
                    .unwrap()
            })
            .collect();
        for (number, recorded) in ids.iter().enumerate() {
            let replaced = &ids[(number + 1) % length].id;
            let text = place
                .text(recorded)
                .replace("supersedes: []", &format!("supersedes: [{replaced}]"));
            std::fs::write(place.file(recorded), text).unwrap();
        }
        for _ in 0..2 {
            assert_eq!(place.live(), [ids[length - 1].id.as_str()], "{length}");
        }
    }
}

#[test]
fn of_two_files_with_one_id_the_older_is_read() {
    for older in [0, 1] {
        let place = place();
        let days_of = |number: usize| days(i64::from(number != older));
        let kept: Vec<Recorded> = (0..2)
            .map(|number| {
                place
                    .record_at(distinct(number), OnSimilar::New, days_of(number))
                    .unwrap()
            })
            .collect();
        let text = place.text(&kept[1]).replace(&kept[1].id, &kept[0].id);
        std::fs::write(place.file(&kept[1]), text).unwrap();
        let shelf = Shelf::new("pm").unwrap();
        let memories = shelf.open(&place.store).unwrap();
        let titles: Vec<_> = memories.live().iter().map(|memory| memory.title.clone()).collect();
        assert_eq!(titles, [distinct(older).title]);
        assert_eq!(memories.troubles()[0].path, kept[1 - older].path.to_string());
    }
}

#[test]
fn the_contrary_is_kept_beside_it_and_named() {
    let place = place();
    let first = place.record(new("Migrations", "Run the migrations on start.")).unwrap();
    for on_similar in [OnSimilar::Ask, OnSimilar::Merge] {
        let contrary = match on_similar {
            OnSimilar::Merge => new("Migrations", "Never run the migrations on start."),
            _ => new("Migrations", "Do not run the migrations on start."),
        };
        let recorded = place.record_at(contrary, on_similar, now()).unwrap();
        if on_similar == OnSimilar::Ask {
            assert_eq!(recorded.action, Action::Created);
        }
        assert_eq!(recorded.contrary.first().map(|similar| &similar.id), Some(&first.id));
    }
    assert!(place.text(&first).contains("hits: 1"));
    assert_eq!(place.live().len(), 2);
}

#[test]
fn what_is_similar_is_asked_about_kept_or_merged() {
    let place = place();
    let mut first = new(
        "The test database is shared",
        "Two test runs at the same time overwrite each other's rows; run them one after the other.",
    );
    first.tags = vec!["tests".into()];
    let first = place.record(first).unwrap();
    let like = || {
        let mut like = new(
            "Shared test database",
            "Running two test suites simultaneously overwrites each other's rows, so run them sequentially.",
        );
        like.tags = vec!["tests".into(), "db".into()];
        like.importance = 5;
        like
    };
    let before = place.text(&first);
    let Err(Refused::SimilarExists { similar }) = place.record(like()) else {
        panic!("refused")
    };
    assert_eq!(
        (similar.len(), &similar[0].id, similar[0].score > 0.5),
        (1, &first.id, true)
    );
    assert_eq!(place.text(&first), before);
    // Even when it seems to say nothing new, what it says is kept.
    let merged = place.record_at(like(), OnSimilar::Merge, days(1)).unwrap();
    assert_eq!((merged.action, merged.hits, &merged.id), (Action::Merged, 2, &first.id));
    assert!(place.text(&first).contains("\n## 2026-12-01T"));
    let more = new(
        "Shared test database",
        "Running two test suites simultaneously overwrites each other's rows, so run them sequentially. Ask ops for a second server.",
    );
    place.record_at(more.clone(), OnSimilar::Merge, days(2)).unwrap();
    let text = place.text(&first);
    assert!(
        text.contains("tags: [tests, db]") && text.contains("hits: 3\nimportance: 5"),
        "{text}"
    );
    assert!(
        text.contains("\n\n## 2026-12-02T10:15:00.123Z · Shared test database\n\nRunning two"),
        "{text}"
    );
    // What was merged is known word for word, and so is what was there before.
    assert_eq!(place.record(more).unwrap().action, Action::Duplicate);
    let own = new(
        "The test database is shared",
        "Two test runs at the same time overwrite each other's rows; run them one after the other.",
    );
    assert_eq!(place.record(own).unwrap().action, Action::Duplicate);
    let other = new(
        "A shared test database",
        "Test runs at the same time overwrite each other's rows; so run them one after the other.",
    );
    let beside = place.record_at(other, OnSimilar::New, days(3)).unwrap();
    assert_eq!((beside.action, beside.similar.len()), (Action::Created, 1));
    assert_eq!(place.live().len(), 2);
}

#[test]
fn what_is_replaced_stays_as_history_and_counts_no_more() {
    let place = place();
    let a = place.record(new("Package manager", "The web app uses npm.")).unwrap();
    let mut next = new("Package manager", "The web app uses pnpm.");
    next.supersedes = vec![a.id.clone()];
    let b = place.record(next.clone()).unwrap();
    let mut last = new("Package manager", "The web app uses yarn.");
    last.supersedes = vec![b.id.clone(), b.id.clone()];
    let c = place.record(last).unwrap();
    assert_eq!(place.live(), [c.id.as_str()]);
    assert!(place.text(&a).contains(&format!("superseded_by: {}\n", b.id)));
    assert!(
        place
            .text(&b)
            .contains(&format!("supersedes: [{}]\nsuperseded_by: {}\n", a.id, c.id))
    );
    assert_eq!(place.index().lines().count(), 1);
    // What is history can be recorded anew, in a file of its own.
    let again = place.record(new("Package manager", "The web app uses npm.")).unwrap();
    assert_eq!(again.action, Action::Created);
    assert_ne!((&again.id, &again.path), (&a.id, &a.path));
    // What was replaced before is not replaced twice.
    let mut late = new("Package manager", "The web app uses bun.");
    late.supersedes = vec![a.id.clone()];
    assert_eq!(
        place.record(late),
        Err(Refused::SupersededAlready {
            id: a.id.clone(),
            by: c.id.clone()
        })
    );
    let mut unknown = new("Package manager", "The web app uses bun.");
    unknown.supersedes = vec![c.id.replace("mem", "men")];
    let Err(Refused::UnknownSupersedes { nearest, .. }) = place.record(unknown) else {
        panic!("refused")
    };
    assert_eq!(nearest.first(), Some(&c.id));
}

#[test]
fn a_text_may_replace_what_it_is_similar_or_equal_to() {
    let place = place();
    let old = place.record(new("Build time", "The build took 31 s.")).unwrap();
    let mut newer = new("Build time", "The build took 45 s.");
    newer.supersedes = vec![old.id.clone()];
    let recorded = place.record(newer.clone()).unwrap();
    assert_eq!(recorded.action, Action::Created);
    assert_ne!(recorded.path, old.path);
    assert_eq!(place.live(), [recorded.id.as_str()]);
    // The same call again finds what it did.
    let again = place.record(newer).unwrap();
    assert_eq!(
        (again.action, again.hits, again.id),
        (Action::Duplicate, 2, recorded.id)
    );
}

#[test]
fn a_crash_between_any_two_steps_is_mended_by_the_next_call() {
    let place = place();
    let a = place.record(new("Package manager", "The web app uses npm.")).unwrap();
    let before = (place.text(&a), place.index());
    let mut next = new("Package manager", "The web app uses pnpm.");
    next.supersedes = vec![a.id.clone()];
    let b = place.record(next).unwrap();
    let after = (place.text(&a), place.index());
    for (text, index) in [(&before.0, &before.1), (&after.0, &before.1), (&before.0, &after.1)] {
        fs::write(place.file(&a), text).unwrap();
        fs::write(place.dir.path().join("memory/devloop/pm/INDEX.md"), index).unwrap();
        let shelf = Shelf::new("pm").unwrap();
        assert_eq!(shelf.open(&place.store).unwrap().live().len(), 1);
        assert_eq!((place.text(&a), place.index()), after);
    }
    assert!(place.index().contains(&b.id));
}

#[test]
fn the_index_is_made_again_when_it_is_not_what_it_should_be() {
    let place = place();
    place.record(new("One fact", "The API needs Redis.")).unwrap();
    let good = place.index();
    let path = place.dir.path().join("memory/devloop/pm/INDEX.md");
    for bad in ["", "nonsense\n", "- [x](y)\n\0\0", &"x".repeat(300_000)] {
        fs::write(&path, bad).unwrap();
        place.shelf.open(&place.store).unwrap();
        assert_eq!(place.index(), good);
    }
    fs::write(&path, [0xff, 0xfe]).unwrap();
    place.shelf.open(&place.store).unwrap();
    fs::remove_file(&path).unwrap();
    place.shelf.open(&place.store).unwrap();
    assert_eq!(place.index(), good);
    // A person removes a memory.
    fs::remove_dir_all(place.dir.path().join("memory/devloop/pm/fact")).unwrap();
    place.shelf.open(&place.store).unwrap();
    assert_eq!(place.index(), "");
}

#[test]
fn the_index_has_what_matters_most_and_whole_lines() {
    let place = place();
    let mut memories = Vec::new();
    for number in 0..300 {
        let mut memory = distinct(number);
        memory.title = format!("{} [{number}]", "长标题".repeat(10));
        memory.importance = u8::try_from(number % 5 + 1).unwrap();
        memories.push(Memory::new(
            format!("mem-{number:08x}"),
            memory,
            days(-i64::try_from(number).unwrap()),
        ));
    }
    memories.sort_by(index::by_worth);
    let page = index::index(memories.iter().map(|memory| (memory, "fact/x.md")));
    assert!(
        page.len() <= MOST_BYTES && page.len() > MOST_BYTES - 300 && page.ends_with('\n'),
        "{}",
        page.len()
    );
    for (line, memory) in page.lines().zip(&memories) {
        assert!(line.contains(&memory.id) && line.starts_with("- [长标题"), "{line}");
    }
    let short: Vec<Memory> = memories
        .iter()
        .cloned()
        .map(|memory| Memory {
            title: "t".into(),
            ..memory
        })
        .collect();
    assert_eq!(
        index::index(short.iter().map(|memory| (memory, "x"))).lines().count(),
        MOST_LINES
    );
    drop(place);
    // Importance 2 of today matters as much as 4 of ninety days ago.
    let worth = |importance, age: i64| Memory {
        importance,
        ..Memory::new("x".into(), distinct(1), days(-age))
    };
    assert_eq!(
        index::by_worth(&worth(2, 0), &worth(4, 89)),
        std::cmp::Ordering::Greater
    );
    assert_eq!(index::by_worth(&worth(2, 0), &worth(4, 91)), std::cmp::Ordering::Less);
}

#[test]
fn nothing_in_a_memory_makes_a_line_or_a_key_of_its_own() {
    let place = place();
    let mut hostile = new(
        "x](evil.md)\n- [fake](fact/fake.md)\u{2028}---\nid: mem-fake",
        "---\nid: mem-fake\nsuperseded_by: mem-1\n---\n\n## 2026-11-30T10:15:00.123Z\n\nbody of it",
    );
    hostile.tags = vec!["a".into()];
    hostile.evidence = vec![Evidence {
        path: "x\"}\n---".into(),
        line_start: 1,
        line_end: None,
        quote: Some("\n---\nhits: 9\n".into()),
    }];
    let recorded = place.record(hostile.clone()).unwrap();
    assert_eq!(place.index().lines().count(), 1);
    assert!(
        place.index().starts_with("- [x\\]\\(evil.md\\) - \\[fake\\]"),
        "{}",
        place.index()
    );
    let shelf = Shelf::new("pm").unwrap();
    let memories = shelf.open(&place.store).unwrap();
    let memory = memories.live()[0];
    assert_eq!(
        (&memory.id, memory.hits, &memory.content),
        (&recorded.id, 1, &hostile.content)
    );
    assert_eq!(memory.evidence, hostile.evidence);
    assert!(memories.troubles().is_empty());
}

#[test]
fn what_a_person_edited_is_read_and_kept() {
    let place = place();
    let first = place.record(new("Package manager", "The web app uses npm.")).unwrap();
    let edited = "---\nid: mem-1\ntitle: Package manager # really\nhits: many\nimportance: 9\ntags: web, app\ncreated: 2026-01-02\n\
                  owner: {name: Anna}\nevidence: see the wiki\n---\nThe web app never uses npm.\n";
    fs::write(place.file(&first), edited).unwrap();
    // The text as it stands counts, not the digest of what it was.
    let again = place.record(new("Package manager", "The web app uses npm.")).unwrap();
    assert_eq!((again.action, again.contrary.len()), (Action::Created, 1));
    let known = place
        .record_at(
            new("Package manager", "The web app never uses npm."),
            OnSimilar::Ask,
            days(1),
        )
        .unwrap();
    assert_eq!(
        (known.action, known.id.as_str(), known.hits),
        (Action::Duplicate, "mem-1", 2)
    );
    let text = place.text(&first);
    for part in [
        "importance: 5",
        "tags: [web, app]",
        "created: \"2026-01-02T00",
        "owner: {\"name\": \"Anna\"}",
        "hits_as_written: many",
        "evidence_as_written: \"see the wiki\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn files_that_cannot_be_read_are_told_and_left_alone() {
    let place = place();
    let first = place.record(new("Package manager", "The web app uses npm.")).unwrap();
    let fact = place.dir.path().join("memory/devloop/pm/fact");
    fs::write(fact.join("broken.md"), "---\nid: [\n---\n").unwrap();
    fs::write(fact.join("bare.md"), "no front matter").unwrap();
    fs::write(fact.join("bytes.md"), b"---\n\xff\n---\n").unwrap();
    fs::write(fact.join("large.md"), "x".repeat(300_000)).unwrap();
    fs::write(fact.join("twin.md"), place.text(&first)).unwrap();
    fs::create_dir(fact.join("directory.md")).unwrap();
    fs::write(place.dir.path().join("outside.md"), place.text(&first)).unwrap();
    symlink("../../../../outside.md", fact.join("link.md")).unwrap();
    fs::write(fact.join("not-a-memory.txt"), "x").unwrap();
    let before: Vec<_> = ["broken.md", "bare.md", "bytes.md", "large.md", "twin.md"]
        .map(|name| fs::read(fact.join(name)).unwrap())
        .into();
    let memories = place.shelf.open(&place.store).unwrap();
    let mut told: Vec<_> = memories
        .troubles()
        .iter()
        .map(|trouble| trouble.path.rsplit('/').next().unwrap().to_owned())
        .collect();
    told.sort();
    assert_eq!(
        told,
        [
            "bare.md",
            "broken.md",
            "bytes.md",
            "directory.md",
            "large.md",
            "link.md",
            "twin.md"
        ]
    );
    assert_eq!(memories.live().len(), 1);
    place.record(new("Package manager", "The web app uses npm.")).unwrap();
    let after: Vec<_> = ["broken.md", "bare.md", "bytes.md", "large.md", "twin.md"]
        .map(|name| fs::read(fact.join(name)).unwrap())
        .into();
    assert_eq!(before, after);
}

#[test]
fn links_in_the_way_of_directories_and_of_the_index_are_refused() {
    for name in ["fact", "INDEX.md"] {
        let place = place();
        let base = place.dir.path().join("memory/devloop/pm");
        fs::create_dir_all(&base).unwrap();
        fs::create_dir(place.dir.path().join("elsewhere")).unwrap();
        symlink(place.dir.path().join("elsewhere"), base.join(name)).unwrap();
        let opened = place.shelf.open(&place.store);
        let refused = match opened {
            Err(_) => true,
            Ok(memories) => {
                let plan = memories
                    .plan(new("One fact", "The API needs Redis."), OnSimilar::Ask, now())
                    .unwrap();
                memories.carry_out(&place.store, &plan).is_err()
            }
        };
        assert!(refused, "{name}");
        assert_eq!(fs::read_dir(place.dir.path().join("elsewhere")).unwrap().count(), 0);
    }
}

#[test]
fn a_hard_link_to_a_memory_is_not_written_through() {
    let place = place();
    let first = place.record(new("Build time", "The build took 31 s.")).unwrap();
    let outside = place.dir.path().join("outside.md");
    fs::hard_link(place.file(&first), &outside).unwrap();
    let before = fs::read_to_string(&outside).unwrap();
    place.record(new("Build time", "The build took 45 s.")).unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), before);
    assert!(place.text(&first).contains("hits: 2"));
}

#[test]
fn agents_have_directories_of_their_own() {
    let place = place();
    place.record(new("Package manager", "The web app uses npm.")).unwrap();
    let coder = Place {
        store: store_at(place.dir.path(), "coder"),
        shelf: Shelf::new("coder").unwrap(),
        dir: place.dir,
    };
    let recorded = coder.record(new("Package manager", "The web app uses npm.")).unwrap();
    assert_eq!(recorded.action, Action::Created);
    assert!(recorded.path.as_str().starts_with("memory/devloop/coder/"));
    assert!(Shelf::new("../pm").is_err());
}

/// Puts a memory there without comparing it with others.
fn put(place: &Place, number: usize, content: &str, importance: u8) -> String {
    let id = format!("mem-{number:08x}");
    let mut memory = new(&format!("Number {number}"), content);
    memory.importance = importance;
    let text = Memory::new(id.clone(), memory, days(-i64::try_from(number % 30).unwrap())).to_text();
    let dir = place.dir.path().join("memory/devloop/pm/fact");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join(format!("number-{number}.md")), text).unwrap();
    id
}

#[test]
fn a_full_shelf_names_what_matters_least() {
    let place = place();
    let mut least = BTreeSet::new();
    for number in 0..MOST_LIVE {
        let importance = if number % 50 == 49 { 1 } else { 5 };
        let id = put(&place, number, &distinct(number).content, importance);
        if importance == 1 {
            least.insert(id);
        }
    }
    let Err(Refused::Quota {
        what,
        used,
        limit,
        candidates,
    }) = place.record(distinct(1_000))
    else {
        panic!("refused")
    };
    assert_eq!((what, used, limit), ("memories", 501, 500));
    assert_eq!(
        candidates
            .iter()
            .map(|candidate| candidate.id.clone())
            .collect::<BTreeSet<_>>(),
        least
    );
    // A duplicate needs no room, and neither does what replaces another.
    assert_eq!(place.record(distinct_again(7)).unwrap().action, Action::Duplicate);
    let mut instead = distinct(1_000);
    instead.supersedes = candidates.iter().map(|candidate| candidate.id.clone()).collect();
    assert_eq!(place.record(instead).unwrap().action, Action::Created);
    assert_eq!(place.live().len(), MOST_LIVE - 9);
    place.record(distinct(1_001)).unwrap();
}

fn distinct_again(number: usize) -> NewMemory {
    new(&format!("Number {number}"), &distinct(number).content)
}

#[test]
fn a_megabyte_is_all_there_is() {
    let place = place();
    for number in 0..90 {
        put(
            &place,
            number,
            &format!("{} {}", distinct(number).content, "字".repeat(3_850)),
            3,
        );
    }
    let mut large = distinct(1_000);
    large.content.push_str(&"文".repeat(3_900));
    let Err(Refused::Quota {
        what,
        used,
        limit,
        candidates,
    }) = place.record(large)
    else {
        panic!("refused")
    };
    assert_eq!((what, limit, candidates.len()), ("bytes", MOST_LIVE_BYTES, 10));
    assert!(used > limit);
}

#[test]
fn what_was_read_is_known_until_it_changes() {
    let place = place();
    let first = place.record(new("Build time", "The build took 31 s.")).unwrap();
    // As if it lay there for long: a file that has just been written is always read.
    let old = std::time::SystemTime::now() - std::time::Duration::from_mins(1);
    let settle = |text: &str| {
        fs::write(place.file(&first), text).unwrap();
        fs::File::options()
            .write(true)
            .open(place.file(&first))
            .unwrap()
            .set_modified(old)
            .unwrap();
    };
    let text = place.text(&first);
    settle(&text);
    place.live();
    settle(&text.replace("hits: 1", "hits: 7"));
    // The same size and the same time: nobody can see it.
    assert_eq!(place.shelf.open(&place.store).unwrap().live()[0].hits, 1);
    settle(&text.replace("hits: 1", "hits: 77"));
    assert_eq!(place.shelf.open(&place.store).unwrap().live()[0].hits, 77);
    assert_eq!(
        place.record(new("Build time", "The build took 31 s.")).unwrap().hits,
        78
    );
    assert_eq!(
        place.record(new("Build time", "The build took 31 s.")).unwrap().hits,
        79
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever was recorded comes back as it was, is found again, and leaves the index in order.
    #[test]
    fn any_text_is_recorded_and_found_again(
        title in any::<String>(), content in "\\PC{0,80}(\n---\n)?\\PC{0,80}", tag in any::<String>(), quote in any::<String>(),
    ) {
        let place = place();
        let mut memory = new(&title, &content);
        prop_assume!(memory.title.len() > 2 && !memory.content.is_empty());
        memory.tags = vec![tag];
        memory.evidence = vec![Evidence { path: "a".into(), line_start: 1, line_end: None, quote: Some(quote) }];
        let recorded = place.record(memory.clone()).unwrap();
        let fresh = Shelf::new("pm").unwrap();
        let memories = fresh.open(&place.store).unwrap();
        prop_assert!(memories.troubles().is_empty(), "{:?}", memories.troubles());
        let read = memories.live()[0].clone();
        prop_assert_eq!(&read.title, &memory.title);
        prop_assert_eq!(&read.content, &memory.content);
        prop_assert_eq!(&read.evidence, &memory.evidence);
        prop_assert_eq!(&read.sha256, &exact_digest(&memory.title, &memory.content));
        prop_assert_eq!(place.record(memory).unwrap().action, Action::Duplicate);
        prop_assert_eq!(place.index().lines().count(), 1);
        prop_assert_eq!(recorded.hits, 1);
    }
}
