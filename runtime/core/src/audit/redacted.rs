//! Inputs as the audit log keeps them: without secrets, and not too long.
//!
//! Answers for both. A copy for later ([`Excerpt`]) is quick and bounded, whatever is sent; secrets are looked for when the
//! record is made. What is cut is told. A copy is one piece of memory, as a rule: many small ones that another thread lets
//! go of make threads wait for the allocator.
//!
//! What stands under a secret name goes whatever it looks like ([`Named`] has the rule): of an object, of an entry
//! `{"name": …, "value": …}` or `[name, value]`, of an option and its argument in a list, in a text that is JSON, and in a
//! flat one ([`flat`] has the rule). `pass` is a secret beside a user or in a login. In all texts secrets are found by
//! their look, too, together with the name that the text stands under. A text that was cut before its secrets were looked
//! for loses its end, too: half a secret looks like none.

use std::fmt::Write;
use std::io;
use std::ops::Range;

use serde::Serialize;
use serde_json::{Map, Value};

use super::flat;
use super::names::{Named, is_other_token};
use crate::secrets::{Secret, find_secret, find_secrets};

/// The longest text of an excerpt, in characters.
const LONGEST_SEEN: usize = 4_000;
/// As much of a text that was cut goes once more when secrets were looked for.
const HALF_A_SECRET: usize = 512;
/// The longest text of a record, in characters.
const LONGEST_KEPT: usize = 1_000;
/// The most bytes of texts and names of an excerpt, about.
const MOST_SEEN: usize = 32 * 1024;
/// The most bytes of texts and names of a record's input, about.
pub(super) const MOST_KEPT: usize = 8 * 1024;

/// What stands for a value under a secret name.
const BY_ITS_NAME: &str = "[redacted: a secret by its name]";
/// As much of a value as a refusal quotes at least, in characters.
const LONGEST_QUOTED: usize = 56;
/// A shorter value is looked for elsewhere only in quotes: it would be found in many words.
const SHORTEST_HIDDEN: usize = 4;
/// A shorter one is not looked for at all.
const SHORTEST_QUOTED: usize = 2;

/// The bytes that a number, a flag or a bracket counts for.
const SMALL: usize = 8;

/// A part of an input, small enough to be kept until its call has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Excerpt(Form);

#[derive(Clone, Debug, PartialEq)]
enum Form {
    /// All of it, as JSON.
    Whole(String),
    Part(Seen),
}

#[derive(Clone, Debug, PartialEq)]
enum Seen {
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

    pub(super) fn look(self) -> Look {
        Look(match self.0 {
            // It was written from a value.
            Form::Whole(text) => seen(&serde_json::from_str(&text).unwrap_or(Value::Null), &mut { MOST_SEEN }),
            Form::Part(part) => part,
        })
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
    Form::Part(seen_object(input, &mut { MOST_SEEN }))
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

/// An excerpt that is looked at.
pub(super) struct Look(Seen);

impl Look {
    /// What a record keeps of it.
    pub(super) fn redacted(self, search: Search) -> Value {
        kept(self.0, "", Named::Open, search, &mut { MOST_KEPT })
    }

    /// Adds the values that go because of the name that they stand under.
    pub(super) fn hidden(&self, hidden: &mut Hidden) {
        hide(&self.0, "", Named::Open, flat::Of::Text, hidden);
    }
}

/// Values under secret names, for texts that repeat them: refusals quote what they refuse.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// What is looked for elsewhere.
    forms: Vec<String>,
    found: bool,
}

impl Hidden {
    /// A text without these values.
    pub(super) fn out_of(&self, text: &str) -> Option<String> {
        let mut mended = None;
        for value in &self.forms {
            let now: &str = mended.as_deref().unwrap_or(text);
            if let Some(without) = without(now, value) {
                mended = Some(without);
            }
        }
        mended
    }

    /// Takes these values out of each text of a value.
    pub(super) fn take_out_of(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(mended) = self.out_of(text) {
                    *text = mended;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.take_out_of(item)),
            Value::Object(object) => object.values_mut().for_each(|value| self.take_out_of(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.found
    }

    /// As it is, and as JSON writes it. The longest is taken out first: it may have others in it.
    fn add(&mut self, text: &str) {
        self.found = true;
        let escaped = Value::from(text).to_string();
        let escaped = &escaped[1..escaped.len() - 1];
        for form in [text, escaped] {
            if form.chars().nth(SHORTEST_QUOTED - 1).is_some() && !self.forms.iter().any(|known| known == form) {
                let at = self.forms.partition_point(|known| known.len() >= form.len());
                self.forms.insert(at, form.to_owned());
            }
        }
    }
}

/// A text without a value, also where it is quoted in part.
fn without(text: &str, value: &str) -> Option<String> {
    let seed = value
        .char_indices()
        .nth(LONGEST_QUOTED)
        .map_or(value, |(end, _)| &value[..end]);
    let is_short = value.chars().nth(SHORTEST_HIDDEN - 1).is_none();
    let mut shown = String::new();
    let mut at = 0;
    for (start, _) in text.match_indices(seed) {
        if start < at {
            continue;
        }
        let more = text[start..]
            .chars()
            .zip(value.chars())
            .take_while(|(one, other)| one == other);
        let end = start + more.map(|(c, _)| c.len_utf8()).sum::<usize>();
        let quotes = ['"', '\'', '`'];
        if is_short && !(text[..start].ends_with(quotes) && text[end..].starts_with(quotes)) {
            continue;
        }
        shown.push_str(&text[at..start]);
        shown.push_str(BY_ITS_NAME);
        at = end;
    }
    shown.push_str(&text[at..]);
    // Its beginning, where a quotation was cut.
    let mut from = 0;
    while let Some(cut) = shown[from..].find('…').map(|cut| from + cut) {
        let lengths = value.char_indices().map(|(length, _)| length).take(LONGEST_SEEN);
        let begun = lengths
            .filter(|length| shown[..cut].ends_with(&value[..*length]))
            .last();
        let begun = begun.filter(|length| value[..*length].chars().nth(SHORTEST_HIDDEN - 1).is_some());
        from = match begun {
            Some(length) => {
                shown.replace_range(cut - length..cut, BY_ITS_NAME);
                cut - length + BY_ITS_NAME.len() + '…'.len_utf8()
            }
            None => cut + '…'.len_utf8(),
        };
    }
    (shown != text).then_some(shown)
}

/// Whether secrets are looked for in each text by itself. Nearly always there are none, and one search through all texts
/// together costs a fraction of one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    Each,
    /// There are none.
    None,
}

impl Search {
    /// Looks through all texts of a record at once.
    pub(super) fn of<'a>(looks: impl IntoIterator<Item = &'a Look>, reason: Option<&str>) -> Self {
        let mut all = reason.unwrap_or_default().to_owned();
        for look in looks {
            gather(&look.0, "", &mut all);
        }
        find_secret(&all).map_or(Self::None, |_| Self::Each)
    }
}

/// Between two texts that are searched together. Where a name without a value asks for one, it finds the dot, and not the
/// name of the next text.
const BETWEEN: &str = "\n.\n";

/// Adds each text with the name that it stands under, as it is searched by itself, and each name.
fn gather(seen: &Seen, name: &str, all: &mut String) {
    match seen {
        Seen::Plain(_) | Seen::Nothing => {}
        Seen::Text { text, .. } => {
            let _ = write!(all, "{BETWEEN}{name}: {text}");
        }
        Seen::List { items, .. } => items.iter().for_each(|item| gather(item, name, all)),
        Seen::Object { entries, .. } => {
            for (name, value) in entries {
                // Before a text its name is searched with it.
                if !matches!(value, Seen::Text { .. }) {
                    let _ = write!(all, "{BETWEEN}{name}");
                }
                gather(value, name, all);
            }
        }
    }
}

fn seen(value: &Value, room: &mut usize) -> Seen {
    match value {
        Value::String(text) => {
            let end = text.char_indices().nth(LONGEST_SEEN).map_or(text.len(), |(end, _)| end);
            // Cut only where the rule for cut texts applies.
            if !take(room, end) {
                return Seen::Nothing;
            }
            Seen::Text {
                text: text[..end].to_owned(),
                missing: text[end..].chars().count(),
            }
        }
        Value::Array(items) => {
            let mut seen_items = Vec::new();
            for item in items {
                if !take(room, SMALL) {
                    break;
                }
                seen_items.push(seen(item, room));
            }
            Seen::List {
                missing: items.len() - seen_items.len(),
                items: seen_items,
            }
        }
        Value::Object(object) => seen_object(object, room),
        plain => Seen::Plain(plain.clone()),
    }
}

fn seen_object(object: &Map<String, Value>, room: &mut usize) -> Seen {
    let mut entries = Vec::new();
    for (name, value) in object {
        if !take(room, name.len() + SMALL) {
            break;
        }
        entries.push((name.clone(), seen(value, room)));
    }
    Seen::Object {
        missing: object.len() - entries.len(),
        entries,
    }
}

fn kept(seen: Seen, name: &str, named: Named, search: Search, room: &mut usize) -> Value {
    match seen {
        Seen::Plain(value) if named.hides_plain(&value) => gone(None, room),
        Seen::Text { text, .. } if named.hides_text(&text) => gone(Some(&text), room),
        Seen::Plain(value) => value,
        Seen::Nothing => Value::from("…"),
        Seen::Text { text, missing } => kept_text(text, missing, name, flat::Of::Text, search, room),
        Seen::List { items, missing } => {
            let count = items.len();
            let mut list = Vec::with_capacity(count);
            let said = said_of_items(&items, name, named);
            for (item, said) in items.into_iter().zip(said) {
                if !take(room, SMALL) {
                    break;
                }
                list.push(match (said, item) {
                    (Said::User, Seen::Text { text, missing }) => {
                        let text = flat::after_user(&text).map_or(text.clone(), |range| out(&text, &[range]));
                        kept_text(text, missing, name, flat::Of::Item, search, room)
                    }
                    (Said::By(named), Seen::Text { text, missing }) if !named.hides_text(&text) => {
                        kept_text(text, missing, name, flat::Of::Item, search, room)
                    }
                    (Said::By(named), item) => kept(item, name, named, search, room),
                    (Said::User, item) => kept(item, name, named.within(), search, room),
                });
            }
            let missing = missing + count - list.len();
            if missing > 0 {
                list.push(Value::from(format!("… ({missing} more)")));
            }
            Value::Array(list)
        }
        Seen::Object { entries, missing } => {
            let count = entries.len();
            let mut object = Map::with_capacity(count);
            let place = Place::of(&entries, name, named);
            for (name, value) in entries {
                if !take(room, name.len() + SMALL) {
                    break;
                }
                let named = place.named(&name, &value);
                let value = kept(value, &name, named, search, room);
                let shown = match search {
                    Search::Each if find_secret(&name).is_some() => redacted("", &name),
                    Search::Each | Search::None => name,
                };
                object.insert(shown, value);
            }
            let missing = missing + count - object.len();
            if missing > 0 {
                object.insert("…".to_owned(), Value::from(format!("{missing} more")));
            }
            Value::Object(object)
        }
    }
}

fn kept_text(text: String, missing: usize, name: &str, of: flat::Of, search: Search, room: &mut usize) -> Value {
    let text = if let Some(value) = (missing == 0).then(|| as_json(&text)).flatten() {
        without_named(&value).unwrap_or(text)
    } else {
        let values = flat::values(&text, of);
        if values.is_empty() { text } else { out(&text, &values) }
    };
    let (mut text, mut missing) = match search {
        Search::Each => (redacted(name, &text), missing),
        Search::None => (text, missing),
    };
    if missing > 0 {
        missing += cut(&mut text, |length| length.saturating_sub(HALF_A_SECRET));
    }
    missing += cut(&mut text, |length| length.min(LONGEST_KEPT));
    if !take(room, text.len()) {
        return Value::from("…");
    }
    if missing > 0 {
        let _ = write!(text, "… ({missing} characters more)");
    }
    Value::from(text)
}

/// What is told instead of a value under a secret name: its kind, when it looks like one.
fn gone(text: Option<&str>, room: &mut usize) -> Value {
    let kind = text.and_then(find_secret);
    let told = kind.map_or_else(|| BY_ITS_NAME.to_owned(), |kind| format!("[redacted: {}]", kind.what));
    Value::from(if take(room, told.len()) { told } else { "…".to_owned() })
}

/// The list or the object that a text is as JSON.
fn as_json(text: &str) -> Option<Value> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// A value as JSON without what stands under secret names in it; nothing when nothing does.
fn without_named(value: &Value) -> Option<String> {
    let look = seen(value, &mut { MOST_SEEN });
    let mut hidden = Hidden::default();
    hide(&look, "", Named::Open, flat::Of::Text, &mut hidden);
    (!hidden.is_empty()).then(|| kept(look, "", Named::Open, Search::None, &mut { MOST_SEEN }).to_string())
}

/// A text without what is at `places`.
fn out(text: &str, places: &[Range<usize>]) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for place in places {
        shown.push_str(&text[at..place.start]);
        match find_secret(&text[place.clone()]) {
            Some(secret) => _ = write!(shown, "[redacted: {}]", secret.what),
            None => shown.push_str(BY_ITS_NAME),
        }
        at = place.end;
    }
    shown.push_str(&text[at..]);
    shown
}

/// What the text of an entry, `{"name": "Authorization", "value": …}`, says of its value.
fn entry_of(entries: &[(String, Seen)]) -> Named {
    const NAMES: [&str; 6] = ["name", "key", "header", "field", "variable", "env"];
    let names = entries.iter().filter_map(|(name, value)| match value {
        Seen::Text { text, .. } if NAMES.contains(&name.to_lowercase().as_str()) => Some(Named::by(text)),
        _ => None,
    });
    names
        .into_iter()
        .find(|named| *named != Named::Open)
        .unwrap_or(Named::Open)
}

/// What an object says of the values in it.
struct Place {
    outer: Named,
    /// Of the value of an entry.
    entry: Named,
    /// Of `pass`.
    pass: Named,
    declares: bool,
}

impl Place {
    fn of(entries: &[(String, Seen)], name: &str, outer: Named) -> Self {
        const USERS: [&str; 7] = ["user", "username", "user_name", "userid", "user_id", "login", "email"];
        const LOGINS: [&str; 4] = ["auth", "login", "credential", "credentials"];
        const DECLARING: [&str; 4] = ["properties", "$defs", "definitions", "patternProperties"];
        let small = name.to_lowercase();
        let of_login = LOGINS.iter().any(|login| small.ends_with(login))
            || entries
                .iter()
                .any(|(name, _)| USERS.iter().any(|user| name.eq_ignore_ascii_case(user)));
        Self {
            outer,
            entry: entry_of(entries),
            pass: if of_login { Named::Secret } else { Named::Open },
            declares: DECLARING.contains(&name),
        }
    }

    fn named(&self, name: &str, value: &Seen) -> Named {
        if self.outer.within() == Named::Secret {
            return Named::Secret;
        }
        if self.outer == Named::Schema {
            return Named::by_keyword(name);
        }
        match Named::by(name) {
            Named::Open if matches!(name.to_lowercase().as_str(), "value" | "values" | "content") => self.entry,
            Named::Open if name.eq_ignore_ascii_case("pass") => self.pass,
            Named::Open => Named::Open,
            _ if self.declares && is_schema(value) => Named::Schema,
            own => own,
        }
    }
}

fn is_schema(value: &Seen) -> bool {
    let Seen::Object { entries, .. } = value else {
        return false;
    };
    entries.iter().any(|(name, value)| match value {
        Seen::Text { text, .. } if name == "type" => {
            ["string", "number", "integer", "object", "array", "boolean", "null"].contains(&text.as_str())
        }
        Seen::Text { .. } => name == "$ref",
        Seen::List { .. } => matches!(name.as_str(), "type" | "anyOf" | "oneOf" | "allOf"),
        _ => false,
    })
}

/// What a list says of an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    By(Named),
    /// That it is `user:password`.
    User,
}

/// The items of `tokens` are tokens, and so is what follows `--token`, or `token` in a pair.
fn said_of_items(items: &[Seen], name: &str, named: Named) -> Vec<Said> {
    let mut said = Vec::with_capacity(items.len());
    let mut next = Said::By(named.within());
    for item in items {
        said.push(next);
        next = match item {
            Seen::Text { text, .. } if named.within() != Named::Secret => match text.as_str() {
                "-u" | "-U" | "--user" | "--proxy-user" => Said::User,
                _ if text.starts_with('-') && !text.contains(['=', ' ']) => Said::By(Named::by(text)),
                // Names of fields, which are required, are no pair.
                _ if items.len() == 2 && text.len() <= 64 && name != "required" => Said::By(Named::by(text)),
                _ => Said::By(Named::Open),
            },
            _ => Said::By(Named::Open),
        };
        if next == Said::By(Named::Open) {
            next = Said::By(named.within());
        }
    }
    said
}

/// Adds the values that [`kept`] leaves out for their names.
fn hide(seen: &Seen, name: &str, named: Named, of: flat::Of, hidden: &mut Hidden) {
    match seen {
        Seen::Nothing => {}
        Seen::Plain(value) => {
            if named.hides_plain(value) {
                hidden.add(&value.to_string());
            }
        }
        Seen::Text { text, missing } => {
            if named.hides_text(text) {
                hidden.add(text);
            } else if let Some(value) = (*missing == 0).then(|| as_json(text)).flatten() {
                hide(
                    &self::seen(&value, &mut { MOST_SEEN }),
                    "",
                    Named::Open,
                    flat::Of::Text,
                    hidden,
                );
            } else {
                for range in flat::values(text, of) {
                    hidden.add(&text[range]);
                }
            }
        }
        Seen::List { items, .. } => {
            for (item, said) in items.iter().zip(said_of_items(items, name, named)) {
                match (said, item) {
                    (Said::User, Seen::Text { text, .. }) => match flat::after_user(text) {
                        Some(range) => hidden.add(&text[range]),
                        None => hide(item, name, named.within(), flat::Of::Item, hidden),
                    },
                    (Said::User, item) => hide(item, name, named.within(), flat::Of::Item, hidden),
                    (Said::By(named), item) => hide(item, name, named, flat::Of::Item, hidden),
                }
            }
        }
        Seen::Object { entries, .. } => {
            let place = Place::of(entries, name, named);
            for (name, value) in entries {
                hide(value, name, place.named(name, value), flat::Of::Text, hidden);
            }
        }
    }
}

/// A text without its secrets.
pub(super) fn redacted(name: &str, text: &str) -> String {
    let before = if name.is_empty() || is_other_token(name) {
        String::new()
    } else {
        format!("{name}: ")
    };
    let whole = format!("{before}{text}");
    let mut shown = String::with_capacity(text.len());
    let mut at = before.len();
    let found = find_secrets(&whole).into_iter().flat_map(|secret| {
        if !is_of_other_token(&whole[..secret.range.start]) {
            return vec![secret];
        }
        // It is none, but there may be one in it.
        let start = secret.range.start;
        let within = find_secrets(&whole[secret.range]);
        let moved = within.into_iter().map(|secret| Secret {
            range: start + secret.range.start..start + secret.range.end,
            ..secret
        });
        moved.collect()
    });
    for secret in found {
        let (start, mut end) = (secret.range.start.max(before.len()), secret.range.end);
        // A key block whose end is missing goes on to the end of the text.
        let block = &whole[secret.range.clone()];
        if block.starts_with("-----BEGIN") && !block.contains("-----END") {
            end = whole.len();
        }
        if end <= at {
            continue;
        }
        shown.push_str(&whole[at..start.max(at)]);
        let _ = write!(shown, "[redacted: {}]", secret.what);
        at = end;
    }
    shown.push_str(&whole[at..]);
    shown
}

/// Whether a text ends with `page_token=` or the like.
fn is_of_other_token(before: &str) -> bool {
    let named = before.trim_end_matches(['"', '\'', '`', ' ']);
    let Some(named) = named.strip_suffix(['=', ':']) else {
        return false;
    };
    let named = named.trim_end_matches(['"', '\'', '`', ' ']);
    let start = named
        .rfind(|c: char| !c.is_alphanumeric() && c != '_' && c != '-')
        .map_or(0, |at| at + named[at..].chars().next().map_or(1, char::len_utf8));
    is_other_token(&named[start..])
}

/// Cuts a text to the length that `keep` gives; says how many characters went.
fn cut(text: &mut String, keep: impl Fn(usize) -> usize) -> usize {
    let length = text.chars().count();
    let kept = keep(length);
    if let Some((end, _)) = text.char_indices().nth(kept) {
        text.truncate(end);
    }
    length - kept.min(length)
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
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn record(input: Value) -> Value {
        let Value::Object(input) = input else { unreachable!() };
        let excerpt = Excerpt::of(&input);
        let look = excerpt.look();
        let search = Search::of([&look], None);
        look.redacted(search)
    }

    /// Put together here, so that no scanner takes this file for a leak.
    fn token() -> String {
        format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2")
    }

    #[test]
    fn secrets_go_wherever_they_are() {
        let token = token();
        let kept = record(json!({
            "text": format!("use {token} here"),
            "list": [token, {"deep": token}],
            "password": "Tr0ub4dor&3xyz",
            token.clone(): 1,
            "note": "no secret, 7",
        }));
        let text = kept.to_string();
        assert!(!text.contains("aB3dE5") && !text.contains("Tr0ub4dor"), "{text}");
        assert_eq!(kept["text"], "use [redacted: a GitHub token] here");
        assert_eq!(kept["note"], "no secret, 7");
    }

    #[test]
    fn a_secret_at_a_cut_is_none_that_is_kept() {
        let token = token();
        for at in [900, 990, 3_960, 3_990, 3_999] {
            let text = format!("{} {token} {}", "x".repeat(at), "y".repeat(2_000));
            let kept = record(json!({ "text": text })).to_string();
            assert!(!kept.contains("aB3"), "{at}: {kept}");
        }
        // Many secrets become few characters, so that the cut comes near.
        let text = format!("{token} ").repeat(200);
        let kept = record(json!({ "text": text }))["text"]
            .as_str()
            .unwrap()
            .replace("[redacted: a GitHub token]", "");
        assert!(!kept.contains("ghp"), "{kept}");
        let key = format!(
            "-----BEGIN RSA PRIVATE {}-----\n{}",
            "KEY",
            "MIIEpAIBAAKCAQ".repeat(600)
        );
        let kept = record(json!({ "text": key })).to_string();
        assert!(!kept.contains("MIIE"), "{kept}");
    }

    #[test]
    fn what_is_cut_is_told() {
        let kept = record(json!({"text": "é".repeat(1_500), "list": vec![1; 5_000], "after": "x".repeat(500)}));
        assert_eq!(kept["text"], format!("{}… (500 characters more)", "é".repeat(1_000)));
        let list = kept["list"].as_array().unwrap();
        assert_eq!(
            list.last().unwrap(),
            &json!(format!("… ({} more)", 5_000 - (list.len() - 1)))
        );
        let wide: Map<String, Value> = (0..9_000).map(|n| (format!("key {n}"), json!(n))).collect();
        let kept = Excerpt::of(&wide).look().redacted(Search::Each);
        let kept = kept.as_object().unwrap();
        assert_eq!(kept["…"], format!("{} more", 9_000 - (kept.len() - 1)));
    }

    #[test]
    fn under_a_secret_name_everything_goes_whatever_it_looks_like() {
        for value in [
            json!("correct-horse-battery"),
            json!("12345678"),
            json!("correct horse battery"),
            json!("CORRECTHORSE"),
            json!("correcthorse"),
            json!("pass.word"),
            json!("hunter2(x)"),
            json!("abc12"),
            json!(12_345_678),
            json!(["12345678"]),
            json!({"a": "zebra77", "b": [{"c": 4_711_471}], "d": "monkey"}),
        ] {
            for name in [
                "password",
                "token",
                "api_key",
                "ssh_key",
                "credential",
                "authorization",
                "secret",
            ] {
                let kept = record(json!({ "outer": [{ name: value.clone() }] })).to_string();
                for part in [
                    "horse",
                    "HORSE",
                    "1234",
                    "pass.word",
                    "hunter",
                    "abc12",
                    "zebra",
                    "4711",
                    "monkey",
                ] {
                    assert!(!kept.contains(part), "{name}: {value} → {kept}");
                }
                assert!(kept.contains("[redacted: "), "{name}: {value} → {kept}");
            }
        }
        let secrets = record(json!({"secrets": {"a": "x1", "b": 7}, "tokens": [1, "two"], "pin": "0412"}));
        assert_eq!(
            secrets,
            json!({
                "secrets": {"a": BY_ITS_NAME, "b": BY_ITS_NAME},
                "tokens": [BY_ITS_NAME, BY_ITS_NAME],
                "pin": BY_ITS_NAME,
            })
        );
        assert_eq!(
            record(json!({ "token": token() }))["token"],
            "[redacted: a GitHub token]"
        );
    }

    #[test]
    fn what_tells_nothing_under_such_a_name_stays_and_so_do_other_names() {
        let input = json!({
            "password": true,
            "token": null,
            "secret": "${DB_SECRET}",
            "authorization": "Bearer ${TOKEN}",
            "tokens": 512,
            "max_tokens": 4_096,
            "token_count": "12",
            "secret_santa": "Ada",
            "password_policy": {"min": 8},
            "pin": "1.4.0",
            "name": "token",
            "args": ["--max-tokens", "12", "--password=${P}"],
        });
        assert_eq!(record(input.clone()), input);
    }

    #[test]
    fn a_secret_name_is_heeded_in_entries_options_and_json_texts() {
        let kept = record(json!({
            "headers": [{"name": "Authorization", "value": "9f8e7d6c"}, {"name": "Accept", "value": "text/html"}],
            "env": [{"value": "swordfish", "key": "DB_PASSWORD"}],
            "args": ["login", "--password", "swordfish", "next"],
            "body": r#"{"user": "ada", "password": "swordfish", "nested": "{\"token\": 77}"}"#,
        }));
        let text = kept.to_string();
        assert!(
            !text.contains("9f8e") && !text.contains("swordfish") && !text.contains("77"),
            "{text}"
        );
        assert_eq!(kept["headers"][1]["value"], "text/html");
        assert_eq!(kept["args"], json!(["login", "--password", BY_ITS_NAME, "next"]));
        assert!(kept["body"].as_str().unwrap().contains("ada"), "{text}");
    }

    #[test]
    fn secrets_that_flat_texts_and_lists_name_go_whole() {
        let mut leaks = Vec::new();
        for input in [
            json!({"argv": ["--password=correct-horse", "--token=correct horse", "--api-key=horse", "--password", "horse"]}),
            json!({"command": "login --password=correct-horse --now"}),
            json!({"command": "deploy --password horse --secret 'two horse' -u bob:horse"}),
            json!({"command": "curl --user 'bob:correct horse' -H 'X-Api-Key: correct horse' https://ci"}),
            json!({"env": ["DB_PASSWORD=correct-horse", "GH_TOKEN=a&horse=b;c horse", "PATH=/bin"]}),
            json!({"headers": ["Authorization: correct horse", "X-Api-Key: horse"]}),
            json!({"headers": "X-Api-Key: horse\nAuthorization: horse1\nCookie: a=horse; b=horse"}),
            json!({"dotenv": "A=1\nexport DB_PASSWORD=two horse\nGH_TOKEN=\"x \\\" horse\"\n"}),
            json!({"params": [["password", "correct-horse"]], "one": ["X-Api-Key", "horse"]}),
            json!({"args": ["-u", "bob:horse", "--user=bob:horse", "-ubob:horse"]}),
            json!({"auth": {"name": "bob", "pass": "horse"}}),
            json!({"login": {"username": "b", "pass": "horse"}}),
            json!({"any": {"User": "b", "Pass": "horse"}}),
            json!({"content": "password: \"correct horse\"\n", "c": "  - API key: horse", "d": "**Password:** horse"}),
            json!({"content": "db:\n  password: |\n    horse\n    horse\n  port: 1"}),
            json!({"content": "login({user: 'b', password: 'horse', token:horse})"}),
            json!({"content": "{\"user\": \"b\", \"password\": \"horse"}),
            json!({"body": "user=bob&pass=horse&token=horse&x=1"}),
            json!({"url": "https://h/p?token=horse&x=1"}),
            json!({"json": "[\"--password=horse\", {\"env\": [\"A_TOKEN=horse\"]}]"}),
            json!({"password": "correct-horse-battery-staple-".repeat(300)}),
            json!({"properties": {"password": "horse", "token": {"value": "horse"}}}),
            json!({"properties": {"password": {"type": "string", "default": "horse", "examples": ["horse"]}}}),
            json!({"pwd": "horse", "db_pwd": "/home/horse"}),
            json!({"url": "/x?page_token=abc123&password=horse77"}),
            json!({"next_page_token": "password=horse77"}),
        ] {
            let kept = record(input).to_string();
            if kept.contains("horse") || !kept.contains("[redacted: ") {
                leaks.push(kept);
            }
        }
        assert!(leaks.is_empty(), "{leaks:#?}");
    }

    #[test]
    fn what_is_beside_a_named_secret_stays() {
        for (text, kept) in [
            ("https://h/p?token=abc&x=1", "https://h/p?token=[-]&x=1"),
            ("https://h/p?token=abc123def&x=1", "https://h/p?token=[-]&x=1"),
            ("user=bob&password=ab&x=1", "user=bob&password=[-]&x=1"),
            (
                "Server=h;User Id=u;Password=hunter2;Database=d",
                "Server=h;User Id=u;Password=[-];Database=d",
            ),
            (
                "curl -H 'X-Api-Key: k1234567' --api-key=qqqq1234 https://h",
                "curl -H 'X-Api-Key: [-]' --api-key=[-] https://h",
            ),
            ("login -u bob:pw now", "login -u bob:[-] now"),
            ("password: \"correct horse\"\nport: 1", "password: \"[-]\"\nport: 1"),
        ] {
            let found = record(json!({ "text": text }))["text"].as_str().unwrap().to_owned();
            let found = found
                .replace(BY_ITS_NAME, "[-]")
                .replace("[redacted: the value of a password or key]", "[-]");
            assert_eq!(found, kept, "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_a_named_secret_stays() {
        let input = json!({
            "schema": {
                "properties": {
                    "password": {"type": "string", "minLength": 12, "description": "At least twelve"},
                    "access_token": {"$ref": "#/$defs/Token"},
                    "tokens": {"type": "array", "items": {"type": "string", "format": "uuid"}},
                },
                "required": ["password", "access_token"],
                "$defs": {"Token": {"type": "string"}, "Secret": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
                "patternProperties": {"password": {"type": "string"}},
            },
            "pwd": "/home/jane",
            "next_page_token": "abc123def",
            "page_token": "CAUQ8AA",
            "cursor_token": "x1y2z3w4",
            "continuation_token": "xyz123",
            "url": "https://h/p?page_token=abc123def&x=1",
            "line": "PWD=/home/jane",
            "code": "let token = next_token(); if token == other { Token::new(key) }",
            "prose": "The password is required; the pop-up asks for a token, see tokens: 512.",
            "command": "git push -u origin main && cargo test --max-tokens 12",
            "result": {"pass": 3, "fail": 0},
        });
        assert_eq!(record(input.clone()), input);
        let text = json!({"properties": {"password": {"type": "string", "minLength": 12}}}).to_string();
        assert_eq!(record(json!({ "text": text }))["text"], text);
    }

    #[test]
    fn repeats_go_where_they_are_quoted_or_long_and_also_when_they_are_cut() {
        let long = "correct-horse-battery-staple-".repeat(8);
        let mut hidden = Hidden::default();
        let input = json!({"password": "pw", "token": long, "argv": ["--secret=zebra77"], "x": "API_KEY=lion"});
        Excerpt::of(input.as_object().unwrap()).look().hidden(&mut hidden);
        let cut = |length: usize| long[..length].to_owned();
        for text in [
            "got the string \"pw\"".to_owned(),
            "`pw` is no number".to_owned(),
            format!("got {}…", cut(60)),
            format!("got {}… here", cut(30)),
            format!("got {long}"),
            "zebra77 and lion".to_owned(),
        ] {
            let shown = hidden.out_of(&text).unwrap_or_else(|| panic!("{text}"));
            let words = ["pw", "horse", "stap", "corr", "zebra", "lion"];
            assert!(!words.iter().any(|word| shown.contains(word)), "{text} → {shown}");
        }
        assert_eq!(hidden.out_of("a pwd of the upward correction"), None);
    }

    proptest! {
        /// Whatever is sent, what is behind a secret name at the beginning of an item is not kept.
        #[test]
        fn no_value_of_an_item_is_kept(value in "[ -~]{0,40}", name in "(--password=|DB_TOKEN=|X-Api-Key: )") {
            let kept = record(json!({ "list": [format!("{name}ZEBRA{value}ZEBRA")] })).to_string();
            prop_assert!(!kept.contains("ZEBRA"), "{}", kept);
        }

        #[test]
        fn any_text_is_looked_through(text in "(password|-u|token|[ :=\"'\\\\&;{}\n]|\\PC){0,40}") {
            for of in [flat::Of::Text, flat::Of::Item] {
                for range in flat::values(&text, of) {
                    prop_assert!(text.get(range).is_some());
                }
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<i32>().prop_map(Value::from), "\\PC{0,200}".prop_map(Value::from)];
        leaf.prop_recursive(5, 300, 40, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..40).prop_map(Value::from),
                prop::collection::vec(("\\PC{0,9}", inner), 0..40)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn a_name_without_a_value_hides_no_secret_behind_it() {
        let kept = record(json!({ "passwordpassword": "", "password": "A0A0a0'" }));
        assert!(kept["password"].as_str().unwrap().starts_with("[redacted"), "{kept}");
    }

    proptest! {
        /// What is found in a text by itself is found when all are searched together.
        #[test]
        fn one_search_overlooks_nothing(
            texts in prop::collection::vec(("(password|token|note|a){1,2}", "[a-zA-Z0-9<>:=\"' .-]{0,40}", 0_u8..6), 1..12),
        ) {
            let texts = texts.into_iter().map(|(name, text, with)| match with {
                0 => (name, format!("{text}{}", token())),
                1 => (name, format!("{} {text}", token())),
                _ => (name, text),
            });
            let input: Map<String, Value> = texts.map(|(name, text)| (name, Value::from(text))).collect();
            let each = Excerpt::of(&input).look().redacted(Search::Each);
            prop_assert_eq!(record(Value::Object(input)), each);
        }

        /// One that is short enough to be copied as text says what its parts say.
        #[test]
        fn both_ways_to_copy_say_the_same(value in values()) {
            let input = Map::from_iter([("value".to_owned(), value)]);
            let by_parts = Look(seen_object(&input, &mut { MOST_SEEN }));
            prop_assert_eq!(
                Excerpt::of(&input).look().redacted(Search::None),
                by_parts.redacted(Search::None)
            );
        }

        #[test]
        fn what_is_kept_is_bounded(value in values(), times in 1_usize..40) {
            let kept = record(json!({ "value": vec![value; times] }));
            // Each text may be told to be cut, and JSON writes some characters longer.
            prop_assert!(kept.to_string().len() < 8 * MOST_KEPT);
        }
    }
}
