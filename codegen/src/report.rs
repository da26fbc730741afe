//! Where errors go while a folder of specs is read and judged.
//!
//! Answers for the place of an error, and for telling one mistake once: it knows what could not be read or was replaced,
//! so that nothing is said about the consequences. Leaves out the finding of errors, and their form (`diagnostic`).

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostic::Diagnostic;
use crate::pointer::ancestors;
use crate::specs::Doc;
use crate::suggest::nearest;
use crate::yaml::{Node, Place};

/// Where errors go. It knows what could not be read, so that nothing is said about the consequences.
#[derive(Default)]
pub(crate) struct Report {
    errors: Vec<Diagnostic>,
    doubts: Vec<Diagnostic>,
    /// The text of each file, by path.
    texts: BTreeMap<String, String>,
    /// By file: JSON Pointers of what was replaced because it could not be read; nothing is said about it.
    replaced: BTreeMap<String, BTreeSet<String>>,
    /// By file: JSON Pointers of what has an error, or was replaced.
    wrong: BTreeMap<String, BTreeSet<String>>,
    /// Files that could not be read at all: their texts, or nothing when there is none.
    unread: Vec<(String, Option<String>)>,
    /// Names that a mistake hides, such as the stem of a file whose handler is called otherwise.
    suspects: BTreeSet<String>,
    /// Names that have a form that they may not have.
    misshapen: Vec<String>,
}

impl Report {
    /// Reports an error at the key of a JSON Pointer, or at the item of a list.
    pub(crate) fn key(
        &mut self,
        doc: Doc<'_>,
        pointer: &str,
        message: impl Into<String>,
        help: impl Into<Option<String>>,
    ) {
        self.at(doc, pointer, doc.tree.key_place(pointer), message, help);
    }

    /// Reports an error at the value of a JSON Pointer.
    pub(crate) fn value(
        &mut self,
        doc: Doc<'_>,
        pointer: &str,
        message: impl Into<String>,
        help: impl Into<Option<String>>,
    ) {
        self.at(doc, pointer, doc.tree.value_place(pointer), message, help);
    }

    /// Reports an error inside the text at a JSON Pointer, at a byte of it.
    pub(crate) fn inside(
        &mut self,
        doc: Doc<'_>,
        pointer: &str,
        offset: usize,
        message: impl Into<String>,
        help: impl Into<Option<String>>,
    ) {
        let mut place = doc.tree.value_place(pointer);
        if let Some(text) = doc.tree.pointer(pointer).and_then(Node::as_str)
            && let Some(before) = text.get(..offset)
            && let Some(quotes) = self.written_at(doc.path, place, text)
        {
            place.column += quotes + before.chars().count() as u64;
        }
        self.at(doc, pointer, place, message, help);
    }

    /// Reports an error at a place that stands for a JSON Pointer.
    pub(crate) fn at(
        &mut self,
        doc: Doc<'_>,
        pointer: &str,
        place: Place,
        message: impl Into<String>,
        help: impl Into<Option<String>>,
    ) {
        let replaced = self.replaced.get(doc.path);
        if replaced.is_some_and(|replaced| ancestors(pointer).any(|above| replaced.contains(above))) {
            return;
        }
        self.mark(doc.path, pointer);
        self.errors.push(Diagnostic {
            path: doc.path.to_owned(),
            line: place.line,
            column: place.column,
            message: message.into(),
            help: help.into(),
        });
    }

    /// Reports an error about a file as a whole.
    pub(crate) fn file(&mut self, path: &str, message: impl Into<String>, help: impl Into<Option<String>>) {
        self.errors.push(Diagnostic {
            path: path.to_owned(),
            line: 0,
            column: 0,
            message: message.into(),
            help: help.into(),
        });
    }

    /// Reports an error that has its place already.
    pub(crate) fn raw(&mut self, error: Diagnostic) {
        self.errors.push(error);
    }

    /// Says that what stands at a JSON Pointer is a stand-in.
    pub(crate) fn replace(&mut self, path: &str, pointer: &str) {
        self.replaced
            .entry(path.to_owned())
            .or_default()
            .insert(pointer.to_owned());
        self.mark(path, pointer);
    }

    /// Remembers the text of a file.
    pub(crate) fn text(&mut self, path: &str, text: String) {
        self.texts.insert(path.to_owned(), text);
    }

    /// Says that a file could not be read; what its text mentions may be declared in it.
    pub(crate) fn unread(&mut self, path: &str, text: Option<String>) {
        self.unread.push((path.to_owned(), text));
    }

    /// Says that a name may be meant although nothing is called so.
    pub(crate) fn suspect(&mut self, name: &str) {
        self.suspects.insert(name.to_owned());
    }

    /// Says that a name has a form that it may not have; whoever names something like it most likely means it.
    pub(crate) fn suspect_form(&mut self, name: &str) {
        self.suspect(name);
        self.misshapen.push(name.to_owned());
    }

    /// Says that an agent's short name is in doubt; it is probably a part of the file's name.
    pub(crate) fn suspect_agent(&mut self, stem: &str) {
        self.suspect(stem);
        for (cut, _) in stem.match_indices('-') {
            self.suspect(&stem[cut + 1..]);
        }
    }

    /// Whether nothing at, above or under a JSON Pointer is wrong.
    pub(crate) fn is_sound(&self, doc: Doc<'_>, pointer: &str) -> bool {
        self.wrong.get(doc.path).is_none_or(|wrong| {
            let under = format!("{pointer}/");
            !ancestors(pointer).any(|above| wrong.contains(above))
                && wrong
                    .range(under.clone()..)
                    .next()
                    .is_none_or(|next| !next.starts_with(&under))
        })
    }

    /// Whether an unknown name may be declared in a file of the kind that could not be read. `prefix` is the beginning of
    /// the paths of that kind.
    pub(crate) fn may_exist(&self, prefix: &str, name: &str) -> bool {
        let declares = |(path, text): &(String, Option<String>)| {
            path.starts_with(prefix)
                && text.as_ref().is_none_or(|text| {
                    let stem = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".yaml");
                    stem == name || stem.ends_with(&format!("-{name}")) || has_word(text, name)
                })
        };
        let squashed = squash(name);
        let is_meant = |other: &String| squash(other) == squashed || nearest(name, [other.as_str()]).is_some();
        self.suspects.contains(name) || self.misshapen.iter().any(is_meant) || self.unread.iter().any(declares)
    }

    /// Reports what counts only when nothing else is wrong: most often something else is, in the same place.
    pub(crate) fn doubt(&mut self, error: Diagnostic) {
        self.doubts.push(error);
    }

    /// Everything that was reported.
    pub(crate) fn into_errors(self) -> Vec<Diagnostic> {
        if self.errors.is_empty() {
            self.doubts
        } else {
            self.errors
        }
    }

    fn mark(&mut self, path: &str, pointer: &str) {
        match self.wrong.get_mut(path) {
            Some(wrong) => _ = wrong.insert(pointer.to_owned()),
            None => _ = self.wrong.insert(path.to_owned(), BTreeSet::from([pointer.to_owned()])),
        }
    }

    /// The number of quotes before a text that stands at a place as it is; `None` when it is written some other way.
    fn written_at(&self, path: &str, place: Place, text: &str) -> Option<u64> {
        let line = self
            .texts
            .get(path)?
            .lines()
            .nth(usize::try_from(place.line).ok()?.checked_sub(1)?)?;
        let column = usize::try_from(place.column).ok()?.checked_sub(1)?;
        let rest = &line[line.char_indices().nth(column)?.0..];
        let quotes = usize::from(rest.starts_with(['\'', '"']));
        rest[quotes..].starts_with(text).then_some(quotes as u64)
    }
}

/// `path:line:col`.
pub(crate) fn spot(path: &str, place: Place) -> String {
    format!("{path}:{}:{}", place.line, place.column)
}

/// A name without what forms of names differ in.
fn squash(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '-')))
        .any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_replaced_is_not_talked_about_and_what_contains_it_is_not_sound() {
        let tree = crate::yaml::parse("specs/x.yaml", "a: {b: 1}\nc: 1\n").unwrap();
        let doc = Doc {
            path: "specs/x.yaml",
            tree: &tree,
        };
        let mut report = Report::default();
        report.replace(doc.path, "/a/b");
        report.value(doc, "/a/b/c", "consequence", None);
        assert!(report.errors.is_empty());
        assert!(!report.is_sound(doc, "/a"));
        assert!(!report.is_sound(doc, "/a/b/c/d"));
        assert!(report.is_sound(doc, "/a/bb"));
        report.value(doc, "/c", "own", None);
        assert_eq!(report.errors.len(), 1);
        assert!(!report.is_sound(doc, "/c"));
    }
}
