//! Numbers that are judged together, once every file has been read.
//!
//! Answers for which file's number counts (the last that says it) and for where it was said, so that an error names that
//! place. Leaves out what the numbers mean.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::reading::{Number, Place};
use super::{FILE_NAME, Problem};

/// The numbers that files say, by their keys: `limits.artifact_files`.
#[derive(Debug, Default)]
pub(super) struct Given {
    numbers: BTreeMap<String, At>,
    /// The keys of which a file says something else than a number that may be.
    wrong: BTreeSet<String>,
}

#[derive(Debug)]
struct At {
    value: u32,
    path: PathBuf,
    place: Place,
}

impl Given {
    /// Keeps a number over one that an earlier file said.
    pub(super) fn put(&mut self, key: String, number: Number, path: &Path, place: impl Fn(usize) -> Place) {
        match number {
            Number::Unsaid => {}
            Number::Wrong(_) => {
                self.wrong.insert(key);
            }
            Number::Said(said) => {
                let at = At {
                    value: said.value,
                    path: path.to_owned(),
                    place: place(said.at),
                };
                self.numbers.insert(key, at);
            }
        }
    }

    /// The number of a key, if some file says it.
    pub(super) fn get(&self, key: &str) -> Option<u32> {
        self.numbers.get(key).map(|number| number.value)
    }

    /// The number of a key that is a part of each whole, a key and its number: as it was said, else its default or less
    /// where a whole is less. One above a whole is told, unless it is not known what the whole should be.
    pub(super) fn part(&self, key: &str, default: u32, wholes: &[(&str, u32)], wrong: &mut Vec<Problem>) -> u32 {
        let most = wholes.iter().map(|(_, whole)| *whole).min().unwrap_or(u32::MAX);
        let Some(said) = self.get(key) else {
            return default.min(most);
        };
        let above = wholes
            .iter()
            .find(|(whole, number)| said > *number && !self.wrong.contains(*whole));
        if let Some((whole, number)) = above {
            wrong.push(self.wrong(key, &said.to_string(), &format!("1 to {number} (`{whole}`)")));
        }
        said.min(most)
    }

    /// An error at the place where a key was said.
    pub(super) fn wrong(&self, key: &str, found: &str, expected: &str) -> Problem {
        let message = format!("{key} is {found}; expected {expected}");
        match self.numbers.get(key) {
            Some(at) => Problem::new(&at.path, Some(at.place), message),
            None => Problem::new(Path::new(FILE_NAME), None, message),
        }
    }
}
