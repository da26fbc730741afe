//! A part of an input, for later: quick to copy, and bounded whatever is sent.
//!
//! Answers for how much of an input is ever looked at, and for telling what is missing. Leaves out what of it is secret
//! ([`super::redacted`]). A copy is one piece of memory, as a rule: many small ones that another thread lets go of make
//! threads wait for the allocator.

use std::borrow::Cow;
use std::io;

use serde::Serialize;
use serde_json::{Map, Value};

/// The longest text of an excerpt, in characters.
pub(super) const LONGEST_SEEN: usize = 4_000;
/// The most bytes of texts and names of an excerpt, about.
pub(super) const MOST_SEEN: usize = 32 * 1024;
/// The most bytes of texts and names of a record's input, about.
pub(super) const MOST_KEPT: usize = 8 * 1024;
/// The bytes that a number, a flag or a bracket counts for.
pub(super) const SMALL: usize = 8;

/// A part of an input, small enough to be kept until its call has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Excerpt(Form);

#[derive(Clone, Debug, PartialEq)]
enum Form {
    /// All of it, as JSON.
    Whole(String),
    Part(Seen),
}

/// What is seen of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Seen {
    /// A number, a flag or `null`.
    Plain(Value),
    Text {
        text: String,
        missing: usize,
    },
    List {
        items: Vec<Seen>,
        missing: usize,
    },
    Object {
        entries: Vec<(String, Seen)>,
        missing: usize,
    },
    /// A text that found no room.
    Nothing,
}

impl Excerpt {
    /// The beginning of an input. Costs a copy of at most some 40 KiB.
    pub fn of(input: &Map<String, Value>) -> Self {
        Self(whole(input).map_or_else(|| part(input), Form::Whole))
    }

    /// As [`of`](Self::of), of what is an object as JSON; nothing of what is none.
    pub fn of_object(value: &impl Serialize) -> Option<Self> {
        if let Some(text) = whole(value) {
            return text.starts_with('{').then_some(Self(Form::Whole(text)));
        }
        match serde_json::to_value(value) {
            Ok(Value::Object(object)) => Some(Self(part(&object))),
            _ => None,
        }
    }

    /// All of it as JSON, if that is its form.
    pub(super) fn json(&self) -> Option<&str> {
        match &self.0 {
            Form::Whole(text) => Some(text),
            Form::Part(_) => None,
        }
    }

    /// What there is to see in it.
    pub(super) fn look(self) -> Seen {
        match self.0 {
            // It was written from a value.
            Form::Whole(text) => Seen::of(serde_json::from_str(&text).unwrap_or(Value::Null)),
            Form::Part(part) => part,
        }
    }
}

impl Seen {
    /// What is seen of a whole value.
    pub(super) fn of(value: Value) -> Self {
        seen(Cow::Owned(value), &mut { MOST_SEEN })
    }
}

/// An input as JSON, if a record keeps about as much.
fn whole(input: &impl Serialize) -> Option<String> {
    let mut text = Bounded(Vec::with_capacity(512));
    serde_json::to_writer(&mut text, input).ok()?;
    // JSON is UTF-8.
    String::from_utf8(text.0).ok()
}

fn part(input: &Map<String, Value>) -> Form {
    Form::Part(seen_object(input.len(), borrowed(input), &mut { MOST_SEEN }))
}

/// Takes as many bytes as a record keeps, and then no more.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_KEPT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn seen(value: Cow<'_, Value>, room: &mut usize) -> Seen {
    match value {
        Cow::Owned(Value::String(text)) => seen_text(Cow::Owned(text), room),
        Cow::Borrowed(Value::String(text)) => seen_text(Cow::Borrowed(text), room),
        Cow::Owned(Value::Array(items)) => seen_list(items.len(), items.into_iter().map(Cow::Owned), room),
        Cow::Borrowed(Value::Array(items)) => seen_list(items.len(), items.iter().map(Cow::Borrowed), room),
        Cow::Owned(Value::Object(object)) => {
            let entries = object.into_iter();
            let entries = entries.map(|(name, value)| (Cow::Owned(name), Cow::Owned(value)));
            seen_object(entries.len(), entries, room)
        }
        Cow::Borrowed(Value::Object(object)) => seen_object(object.len(), borrowed(object), room),
        plain => Seen::Plain(plain.into_owned()),
    }
}

fn borrowed(object: &Map<String, Value>) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, Value>)> {
    let entries = object.iter();
    entries.map(|(name, value)| (Cow::Borrowed(name.as_str()), Cow::Borrowed(value)))
}

fn seen_text(text: Cow<'_, str>, room: &mut usize) -> Seen {
    let end = place_of(&text, LONGEST_SEEN).unwrap_or(text.len());
    // Cut only where the rule for cut texts applies.
    if !take(room, end) {
        return Seen::Nothing;
    }
    let missing = text[end..].chars().count();
    let text = match text {
        Cow::Owned(mut text) => {
            text.truncate(end);
            text
        }
        Cow::Borrowed(text) => text[..end].to_owned(),
    };
    Seen::Text { text, missing }
}

fn seen_list<'v>(count: usize, items: impl Iterator<Item = Cow<'v, Value>>, room: &mut usize) -> Seen {
    let mut seen_items = Vec::with_capacity(count.min(*room / SMALL));
    for item in items {
        if !take(room, SMALL) {
            break;
        }
        seen_items.push(seen(item, room));
    }
    Seen::List {
        missing: count - seen_items.len(),
        items: seen_items,
    }
}

fn seen_object<'v>(count: usize, all: impl Iterator<Item = (Cow<'v, str>, Cow<'v, Value>)>, room: &mut usize) -> Seen {
    let mut entries = Vec::with_capacity(count.min(*room / SMALL));
    for (name, value) in all {
        if !take(room, name.len() + SMALL) {
            break;
        }
        entries.push((name.into_owned(), seen(value, room)));
    }
    Seen::Object {
        missing: count - entries.len(),
        entries,
    }
}

/// Where in a text a character is, if it has so many.
pub(super) fn place_of(text: &str, characters: usize) -> Option<usize> {
    // Each has at least one byte.
    if text.len() <= characters {
        return None;
    }
    text.char_indices().nth(characters).map(|(at, _)| at)
}

fn take(room: &mut usize, bytes: usize) -> bool {
    match room.checked_sub(bytes) {
        Some(left) => {
            *room = left;
            true
        }
        None => false,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in crate::audit) fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<i32>().prop_map(Value::from), "\\PC{0,200}".prop_map(Value::from)];
        leaf.prop_recursive(5, 300, 40, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..40).prop_map(Value::from),
                prop::collection::vec(("\\PC{0,9}", inner), 0..40)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// One that is short enough to be copied as text says what its parts say.
        #[test]
        fn both_ways_to_copy_say_the_same(value in values()) {
            let input = Map::from_iter([("value".to_owned(), value)]);
            let Form::Part(by_parts) = part(&input) else { unreachable!() };
            prop_assert_eq!(Excerpt::of(&input).look(), by_parts);
        }
    }
}
