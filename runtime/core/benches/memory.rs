//! What it costs to record one more memory beside 500: by a process that has read them, and by one that has not.
//!
//! `cargo bench -p devloop-core --bench memory`. With its fsyncs, on the disk that holds the temporary directory; the bare
//! peer writes one file of that size and syncs it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use devloop_contract::glob::Pattern;
use devloop_core::memory::{Kind, Memory, NewMemory, OnSimilar, Shelf};
use devloop_core::sandbox::{ProjectDir, RelPath, Sandbox};
use devloop_core::store::{Store, SystemClock};
use divan::Bencher;
use jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;

/// One less than there is room for.
const KEPT: usize = 499;

fn main() {
    divan::main();
}

/// Texts of the labelled pairs, each joined from so many.
fn texts(joined: usize) -> Vec<(String, String)> {
    let pairs = include_str!("../tests/memory_pairs.jsonl").lines();
    let all: Vec<(String, String)> = pairs
        .flat_map(|line| {
            let pair: Value = serde_json::from_str(line).expect("the pairs are JSON");
            ["one", "other"].map(|side| serde_json::from_value(pair[side].clone()).expect("a title and a content"))
        })
        .collect();
    let content = |at: usize| -> String {
        (0..joined)
            .map(|more| all[(at * 7 + more * 131) % all.len()].1.clone())
            .collect::<Vec<_>>()
            .join(" ")
    };
    (0..=KEPT)
        .map(|at| (format!("{} {at}", all[at].0), content(at)))
        .collect()
}

fn new((title, content): (String, String)) -> NewMemory {
    NewMemory {
        kind: Kind::Fact,
        title,
        content,
        tags: vec!["tests".to_owned()],
        importance: 3,
        evidence: Vec::new(),
        supersedes: Vec::new(),
    }
}

struct Place {
    _dir: TempDir,
    store: Store,
    next: NewMemory,
}

fn place(joined: usize) -> Place {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut texts = texts(joined);
    let next = new(texts.pop().expect("there are texts"));
    let kept = dir.path().join("memory/devloop/pm/fact");
    fs::create_dir_all(&kept).expect("directories");
    for (number, text) in texts.into_iter().enumerate() {
        let memory = Memory::new(format!("mem-{number:08x}"), new(text), Timestamp::UNIX_EPOCH);
        let path = kept.join(format!("n-{number}.md"));
        fs::write(&path, memory.to_text()).expect("a file");
        settle(&path);
    }
    let project = Arc::new(ProjectDir::open(dir.path()).expect("a project"));
    let own = Pattern::parse("memory/devloop/pm/**").expect("a pattern");
    let store = Store::new(Sandbox::new(project, "pm", vec![own]), Arc::new(SystemClock));
    Place { _dir: dir, store, next }
}

/// As a file that lies there for longer.
fn settle(path: &Path) {
    let old = std::time::SystemTime::now() - std::time::Duration::from_mins(1);
    let file = fs::File::options().write(true).open(path).expect("the file");
    file.set_modified(old).expect("its time");
}

/// Records and takes back, so that each round finds the same.
fn record(place: &Place, shelf: &Shelf) {
    let memories = shelf.open(&place.store).expect("the memories");
    let plan = memories
        .plan(place.next.clone(), OnSimilar::New, Timestamp::now())
        .expect("a plan");
    memories.carry_out(&place.store, &plan).expect("the file");
    place
        .store
        .sandbox()
        .remove_file(&plan.recorded().path)
        .expect("it is there");
}

/// About 130 bytes of content each, and about 1 MiB in all.
const JOINED: [usize; 2] = [1, 16];

#[divan::bench(args = JOINED, sample_count = 20, sample_size = 1)]
fn known(bencher: Bencher<'_, '_>, joined: usize) {
    let (place, shelf) = (place(joined), Shelf::new("pm").expect("a name"));
    shelf.open(&place.store).expect("the memories");
    record(&place, &shelf);
    bencher.bench_local(|| record(&place, &shelf));
}

#[divan::bench(args = JOINED, sample_count = 20, sample_size = 1)]
fn unknown(bencher: Bencher<'_, '_>, joined: usize) {
    let place = place(joined);
    bencher.bench_local(|| record(&place, &Shelf::new("pm").expect("a name")));
}

#[divan::bench(args = JOINED, sample_count = 20, sample_size = 1)]
fn bare_file(bencher: Bencher<'_, '_>, joined: usize) {
    let place = place(joined);
    let path = RelPath::parse("memory/devloop/pm/fact/bare.md").expect("a path");
    bencher.bench_local(|| {
        place
            .store
            .sandbox()
            .create_new(&path, place.next.content.as_bytes())
            .expect("a file");
        place.store.sandbox().remove_file(&path).expect("it is there");
    });
}
