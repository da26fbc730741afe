//! A settings file as it is read: table by table, each value by its kind and its range.
//!
//! Answers for telling all that is wrong with a file at once, in the order of the file and each with its place, and for
//! the known key that is nearest to one that nobody knows. Leaves out which keys there are.

use std::borrow::Cow;
use std::fmt::Write;
use std::mem;

use devloop_core::text::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// So many of the things that are wrong with a file are told; how many more there are is told as a number.
const MOST_TOLD: usize = 20;

/// As many characters of a key or a value are repeated.
const SHOWN_CHARS: usize = 40;

/// Line and column, both from 1.
pub(super) type Place = (usize, usize);

/// The text of a file, with places for its bytes.
pub(super) struct Text<'t> {
    text: &'t str,
    /// Where lines begin.
    lines: Vec<usize>,
}

impl<'t> Text<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            lines: [0].into_iter().chain(ends).collect(),
        }
    }

    /// The place of a byte.
    pub(super) fn place(&self, at: usize) -> Place {
        let line = self.lines.partition_point(|start| *start <= at);
        let start = self.lines.get(line.wrapping_sub(1)).copied().unwrap_or_default();
        let before = self.text.get(start..at).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

/// A value, and the byte at which it was said.
pub(super) struct Said<T> {
    pub(super) at: usize,
    pub(super) value: T,
}

/// What is wrong with a file so far.
#[derive(Default)]
pub(super) struct Wrongs {
    all: Vec<Wrong>,
    /// The keys of tables, as far as they were asked for.
    known: Vec<(String, Vec<&'static str>)>,
}

struct Wrong {
    at: usize,
    what: What,
}

enum What {
    Said(String),
    /// Which keys there are is known when all have been asked for.
    Unknown {
        table: String,
        key: String,
    },
}

/// What is told of a file, in its order.
pub(super) struct Told {
    pub(super) messages: Vec<(Place, String)>,
    /// So many more things are wrong.
    pub(super) more: usize,
}

impl Wrongs {
    pub(super) fn push(&mut self, at: usize, message: impl Into<String>) {
        let what = What::Said(message.into());
        self.all.push(Wrong { at, what });
    }

    /// What is told of it.
    pub(super) fn tell(mut self, text: &Text<'_>) -> Told {
        self.all.sort_by_key(|wrong| wrong.at);
        let more = self.all.len().saturating_sub(MOST_TOLD);
        self.all.truncate(MOST_TOLD);
        let all = mem::take(&mut self.all);
        let messages = all.into_iter().map(|wrong| {
            let message = match wrong.what {
                What::Said(message) => message,
                What::Unknown { table, key } => self.unknown(&table, &key),
            };
            (text.place(wrong.at), message)
        });
        Told {
            messages: messages.collect(),
            more,
        }
    }

    fn unknown(&self, table: &str, key: &str) -> String {
        let known = |(name, _): &&(String, Vec<&str>)| name == table;
        let known = self
            .known
            .iter()
            .find(known)
            .map(|(_, keys)| &**keys)
            .unwrap_or_default();
        let mut message = format!("{} is no setting; expected {}", joined(table, key), known.join(", "));
        // One of a list of tables has no header of its own.
        let elsewhere = |(name, keys): &&(String, Vec<&str>)| keys.contains(&key) && !name.ends_with(']');
        let elsewhere = self.known.iter().find(elsewhere);
        let hint = match elsewhere {
            Some((name, _)) if name.is_empty() => Some(format!("; write [{key}]")),
            Some((name, _)) => Some(format!("; `{key}` stands under [{name}]")),
            None => nearest(key, known.iter().copied(), 1)
                .first()
                .map(|near| format!("; did you mean `{near}`?")),
        };
        message.push_str(&hint.unwrap_or_default());
        message
    }
}

/// A table that is being read. A key that was not asked for when it has been read is wrong.
pub(super) struct Table<'w, 't> {
    /// Where it stands: `execution.in_flight`, and nothing for the file itself.
    name: String,
    /// Its first byte.
    pub(super) at: usize,
    entries: DeTable<'t>,
    asked: Vec<&'static str>,
    pub(super) wrongs: &'w mut Wrongs,
}

impl<'w, 't> Table<'w, 't> {
    /// Reads a file. What is no TOML is told alone: nobody knows what the rest of it would have been.
    pub(super) fn read(text: &'t str, wrongs: &'w mut Wrongs, read: impl FnOnce(&mut Table<'_, 't>)) -> Syntax {
        let (entries, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let at = error.span().map_or(text.len(), |span| span.start);
            wrongs.push(at, format!("it is no TOML: {}", error.message().trim_end()));
        }
        if !errors.is_empty() {
            return Syntax::Broken;
        }
        Self::of(String::new(), 0, entries.into_inner(), wrongs).complete(read);
        Syntax::Sound
    }

    fn of(name: String, at: usize, entries: DeTable<'t>, wrongs: &'w mut Wrongs) -> Self {
        Self {
            name,
            at,
            entries,
            asked: Vec::new(),
            wrongs,
        }
    }

    fn complete<R>(mut self, read: impl FnOnce(&mut Table<'_, 't>) -> R) -> R {
        let done = read(&mut self);
        let unknown = self.entries.into_iter().map(|(key, _)| Wrong {
            at: key.span().start,
            what: What::Unknown {
                table: self.name.clone(),
                key: key.into_inner().into_owned(),
            },
        });
        self.wrongs.all.extend(unknown);
        self.wrongs.known.push((self.name, self.asked));
        done
    }

    /// The whole name of a key in it.
    pub(super) fn key(&self, key: &str) -> String {
        joined(&self.name, key)
    }

    /// Tells of a key that must be there and is not.
    pub(super) fn needs(&mut self, key: &'static str, expected: &str) {
        if !self.entries.contains_key(key) {
            let message = format!("{} is missing; expected {expected}", self.key(key));
            self.wrongs.push(self.at, message);
        }
    }

    fn take(&mut self, key: &'static str) -> Option<Spanned<DeValue<'t>>> {
        self.asked.push(key);
        self.entries.remove(key)
    }

    /// Tells of a value that is not what it should be.
    fn mistaken(&mut self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) {
        let message = format!("{key} is {}; expected {expected}", shown(value.get_ref()));
        self.wrongs.push(value.span().start, message);
    }

    /// Reads a table in it, which is an empty one when there is none or it is something else.
    pub(super) fn within<R>(&mut self, key: &'static str, read: impl FnOnce(&mut Table<'_, 't>) -> R) -> R {
        let name = self.key(key);
        let (at, entries) = match self.take(key) {
            None => (self.at, DeTable::new()),
            Some(value) => {
                let at = value.span().start;
                match value.into_inner() {
                    DeValue::Table(entries) => (at, entries),
                    other => {
                        self.mistaken(&name, &Spanned::new(at..at, other), &format!("a table, [{name}]"));
                        (at, DeTable::new())
                    }
                }
            }
        };
        Table::of(name, at, entries, self.wrongs).complete(read)
    }

    /// Reads each table of a list of them.
    pub(super) fn each(&mut self, key: &'static str, mut read: impl FnMut(&mut Table<'_, 't>)) {
        let name = self.key(key);
        let expected = format!("tables, each of which begins with [[{name}]]");
        let Some(value) = self.take(key) else { return };
        let at = value.span().start;
        let all = match value.into_inner() {
            DeValue::Array(all) => all,
            other => return self.mistaken(&name, &Spanned::new(at..at, other), &expected),
        };
        for (index, value) in all.into_iter().enumerate() {
            let (name, at) = (format!("{name}[{index}]"), value.span().start);
            match value.into_inner() {
                DeValue::Table(entries) => Table::of(name, at, entries, self.wrongs).complete(&mut read),
                other => self.mistaken(&name, &Spanned::new(at..at, other), &expected),
            }
        }
    }

    /// A whole number from `least` to `most`.
    pub(super) fn number(&mut self, key: &'static str, least: u32, most: u32) -> Number {
        match self.take(key) {
            None => Number::Unsaid,
            Some(value) => self.between(&self.key(key), &value, least, most),
        }
    }

    /// Whole numbers from `least` to `most` under names of the file's own.
    pub(super) fn numbers(&mut self, least: u32, most: u32) -> Vec<(String, Number)> {
        let entries = mem::take(&mut self.entries);
        let mut numbers = Vec::new();
        for (name, value) in entries {
            let name = name.into_inner();
            let number = self.between(&self.key(&name), &value, least, most);
            numbers.push((name.into_owned(), number));
        }
        numbers
    }

    fn between(&mut self, key: &str, value: &Spanned<DeValue<'_>>, least: u32, most: u32) -> Number {
        let at = value.span().start;
        let range = format!("{least} to {most}");
        let DeValue::Integer(said) = value.get_ref() else {
            self.mistaken(key, value, &format!("a whole number, {range}"));
            return Number::Wrong(at);
        };
        let number = i64::from_str_radix(said.as_str(), said.radix());
        match number.map(u32::try_from) {
            Ok(Ok(value)) if (least..=most).contains(&value) => Number::Said(Said { at, value }),
            _ => {
                self.mistaken(key, value, &range);
                Number::Wrong(at)
            }
        }
    }

    /// A text, which is such as `expected` says.
    pub(super) fn text(&mut self, key: &'static str, expected: &str) -> Option<Said<String>> {
        let value = self.take(key)?;
        let at = value.span().start;
        let DeValue::String(text) = value.get_ref() else {
            self.mistaken(&self.key(key), &value, expected);
            return None;
        };
        let value = text.clone().into_owned();
        Some(Said { at, value })
    }

    /// `true` or `false`.
    pub(super) fn truth(&mut self, key: &'static str) -> Option<Said<bool>> {
        let value = self.take(key)?;
        let at = value.span().start;
        let DeValue::Boolean(truth) = value.get_ref() else {
            self.mistaken(&self.key(key), &value, "`true` or `false`");
            return None;
        };
        Some(Said { at, value: *truth })
    }

    /// A list of texts; what is no text in it is told, with what such a text is, and left out.
    pub(super) fn texts(&mut self, key: &'static str, list: &str, text: &str) -> Option<Said<Vec<Said<String>>>> {
        let said = self.list(key, list)?;
        let mut texts = Vec::new();
        for (name, value) in said.value {
            match value.get_ref() {
                DeValue::String(text) => texts.push(Said {
                    at: value.span().start,
                    value: text.clone().into_owned(),
                }),
                _ => self.mistaken(&name, &value, text),
            }
        }
        Some(Said {
            at: said.at,
            value: texts,
        })
    }

    /// A list of whole numbers from `least` to `most`; what is none in it is told and left out.
    pub(super) fn number_list(&mut self, key: &'static str, least: u32, most: u32) -> Option<Said<Vec<u32>>> {
        let said = self.list(key, &format!("a list of whole numbers, {least} to {most} each"))?;
        let mut numbers = Vec::new();
        for (name, value) in said.value {
            if let Number::Said(number) = self.between(&name, &value, least, most) {
                numbers.push(number.value);
            }
        }
        Some(Said {
            at: said.at,
            value: numbers,
        })
    }

    #[expect(clippy::type_complexity, reason = "each value with its name, once")]
    fn list(&mut self, key: &'static str, expected: &str) -> Option<Said<Vec<(String, Spanned<DeValue<'t>>)>>> {
        let name = self.key(key);
        let value = self.take(key)?;
        let at = value.span().start;
        let all = match value.into_inner() {
            DeValue::Array(all) => all,
            other => {
                self.mistaken(&name, &Spanned::new(at..at, other), expected);
                return None;
            }
        };
        let named = all
            .into_iter()
            .enumerate()
            .map(|(index, value)| (format!("{name}[{index}]"), value));
        Some(Said {
            at,
            value: named.collect(),
        })
    }
}

/// Whether a file is TOML at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    Sound,
    Broken,
}

/// A number of a file.
pub(super) enum Number {
    Unsaid,
    /// It was told what is wrong with what stands at this byte.
    Wrong(usize),
    Said(Said<u32>),
}

impl Number {
    /// The number, when there is one that may be.
    pub(super) fn value(self) -> Option<u32> {
        match self {
            Self::Said(said) => Some(said.value),
            Self::Unsaid | Self::Wrong(_) => None,
        }
    }
}

/// A key in a table as it is written: what is no bare key stands in quotes.
fn joined(table: &str, key: &str) -> String {
    let dot = if table.is_empty() { "" } else { "." };
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !key.is_empty() && key.len() <= SHOWN_CHARS && key.chars().all(is_bare) {
        format!("{table}{dot}{key}")
    } else {
        format!("{table}{dot}{}", quoted(key))
    }
}

/// The beginning of a text that may be anything.
pub(super) fn quoted(text: &str) -> String {
    let beginning = match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    };
    format!("{beginning:?}")
}

/// A value as an error says it.
fn shown(value: &DeValue<'_>) -> String {
    let mut shown = String::new();
    let written = match value {
        DeValue::String(text) => return quoted(text),
        DeValue::Array(_) => return "a list".to_owned(),
        DeValue::Table(_) => return "a table".to_owned(),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => write!(shown, "{number}"),
            Err(_) => write!(shown, "{number}"),
        },
        DeValue::Float(number) => write!(shown, "{number}"),
        DeValue::Boolean(truth) => write!(shown, "{truth}"),
        DeValue::Datetime(time) => write!(shown, "{time}"),
    };
    written.expect("a String takes what is written to it");
    match shown.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}
