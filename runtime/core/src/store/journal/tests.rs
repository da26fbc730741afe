//! What a journal promises: with threads, with processes, with torn files and over rotations.

mod appending;
mod damage;
mod model;
mod rotations;

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
