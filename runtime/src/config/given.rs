//! Numbers that are judged together, once every file has been read.
//!
//! Answers for which file's number counts (the last that says it) and for where it was said, so that an error names that
//! place. Leaves out what the numbers mean.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::ConfigError;

/// The numbers that files say, by their keys: `limits.artifact_files`.
#[derive(Debug, Default)]
pub(super) struct Given(BTreeMap<String, Number>);

#[derive(Debug)]
struct Number {
    value: u32,
    path: PathBuf,
    line: usize,
    column: usize,
}

impl Given {
    /// Keeps a number over one that an earlier file said.
    pub(super) fn put(&mut self, key: String, value: u32, path: &Path, (line, column): (usize, usize)) {
        let path = path.to_owned();
        let number = Number {
            value,
            path,
            line,
            column,
        };
        self.0.insert(key, number);
    }

    /// The number of a key, if some file says it.
    pub(super) fn get(&self, key: &str) -> Option<u32> {
        self.0.get(key).map(|number| number.value)
    }

    /// The number of a key that is a part of `whole`: as it was said, else its default or less where the whole is less.
    pub(super) fn part(&self, key: &str, default: u32, whole: u32) -> u32 {
        self.get(key).unwrap_or_else(|| default.min(whole))
    }

    /// An error at the place where a key was said.
    pub(super) fn wrong(&self, key: &str, found: &str, expected: &str) -> ConfigError {
        let message = format!("{key} is {found}; expected {expected}");
        match self.0.get(key) {
            Some(at) => ConfigError::new(&at.path, format!("line {}, column {}: {message}", at.line, at.column)),
            None => ConfigError::new(Path::new(super::FILE_NAME), message),
        }
    }
}
