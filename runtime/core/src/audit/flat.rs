//! Secrets that a flat text names: command lines, `.env` files, headers, forms, connection strings.
//!
//! Answers for where their values are. Leaves out what a name means ([`Named`]) and secrets without a name
//! (`crate::secrets`).
//!
//! The rule: a value stands in the element or behind the entry that has its name, and else behind `name=`, behind `name:` where a line, a quotation or an entry begins or the value is
//! quoted, behind an option or a setting, and behind the colon of `-u user:`. A quoted value ends with its quote, one of a line or of
//! a list's item with that, any other with its word; behind `=` a further `&name=` or `;name=` ends it, too, but not at
//! the beginning of a list's item, where nothing is parted by them. `pass` is a secret beside a user. Where it is not sure
//! what belongs to a value, all goes.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::names::{Named, hint_end, is_hinted, is_other_token};
use crate::secrets::{enclosing_quote, next_pair};

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Text,
    /// An item of a list, as of a command line that was taken apart: nothing else stands in it.
    Item,
}

/// How far a value goes that is not quoted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Word,
    /// A word that a comma or a bracket ends.
    Entry,
    Line,
    All,
}

/// The first byte of `：` and of `＝`.
const FIRST_OF_WIDE: u8 = 0xEF;

static PAIR: LazyLock<Regex> =
    LazyLock::new(|| compiled(r#"(?P<name>\w[\w.-]*)(?P<close>\\?["'`*\]]{0,4})[ \t]{0,16}(?P<sep>:=|=>|[:=：＝])"#));

static OPTION: LazyLock<Regex> = LazyLock::new(|| compiled(r#"(?:^|[\s"'`=(])--?(?P<name>[A-Za-z][\w.-]*)[ \t]+"#));

/// An entry of a list in YAML, of an element, of an object in code: `name: DB_PASSWORD` and, on the next line, `value: …`.
static ENTRY: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r#"(?i-u)\b(?:name|key|header|field|variable|env)["']?[ \t]*[:=][ \t]*["']?(?P<name>[a-z_][a-z0-9_.-]*)["']?[ \t]*(?:,|(?P<line>\r?\n))?\s*["']?value["']?[ \t]*[:=][ \t]*"#,
    )
});

/// `<password>…</password>`.
static ELEMENT: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"<(?P<name>[A-Za-z_][\w.:-]*)(?:\s[^<>]*)?>(?P<value>[^<]+)</"));

/// What `.netrc` says of a machine.
static NETRC: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"\b(?:machine\s+\S+|default)\s+login\s+\S+\s+(?:account\s+\S+\s+)?(?P<name>password)\s+")
});

/// A setting and its value as words: `ENV DB_PASSWORD …` of a Dockerfile, `setx NAME …`, `npm config set NAME …`.
static SETTING: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r#"(?:^|[\s"'`])(?:(?P<line>ENV)|setx|config(?:ure)?[ \t]+set)[ \t]+(?P<name>[^\s="'`-][^\s="'`]*)[ \t]+"#)
});

static USER: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r#"(?:^|[\s"'`])(?:-[uU]|--user|--proxy-user)[ \t]*=?[ \t]*(?P<quote>\\?["']?)[^\s:"'/]*:"#)
});

static BESIDE: LazyLock<Regex> =
    LazyLock::new(|| compiled(r#"(?i-u)\b(?:user|username|user[_ ]?id|uid|login|email)["']?\s*[:=]"#));

/// The values that are named in a text, in order, without overlaps. Nothing of a text without such a name costs more than
/// one search for parts of them.
pub(super) fn values(text: &str, of: Of) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let hint = hint_end(text, 0);
    if let Some(hint) = hint {
        pairs(text, of, hint, &mut found);
        apart_from_names(text, &mut found);
    }
    if has_option(text) {
        if hint.is_some() {
            options(text, &mut found);
        }
        users(text, of, &mut found);
    }
    apart(found)
}

/// As [`values`] of an item that is `user:password`, whose password is one of them.
pub(super) fn values_and_password(text: &str) -> Vec<Range<usize>> {
    let mut found = values(text, Of::Item);
    found.extend(after_user(text));
    apart(found)
}

/// In order, and those as one that touch each other.
fn apart(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for range in found {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

/// Whether a text that is JSON may name a secret, also where characters are written as their numbers.
pub(super) fn may_name_in_json(text: &str) -> bool {
    is_hinted(text) || has_user(text) || text.contains(LOGIN_OPTION) || !text.is_ascii() || text.contains(r"\u")
}

/// The part of `user:password` that is the password.
pub(super) fn after_user(text: &str) -> Option<Range<usize>> {
    let colon = text.find(':')?;
    checked(text, colon + 1..text.len(), Named::Secret)
}

/// Adds the values of pairs; the first part of a secret name ends at `hint`.
fn pairs(text: &str, of: Of, mut hint: usize, found: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    loop {
        let end = memchr::memchr(b'\n', &bytes[hint..]).map_or(text.len(), |at| hint + at);
        // Most lines name no secret before a sign of a pair: `Step 1: make the tests pass`. A pair is within one line.
        if memchr::memchr3(b':', b'=', FIRST_OF_WIDE, &bytes[hint..end]).is_some() {
            let line = &text[..end];
            let mut at = memchr::memrchr(b'\n', &bytes[..hint]).map_or(0, |at| at + 1);
            while let Some(whole) = PAIR.find_at(line, at) {
                // Groups cost more than the search.
                if whole.end() < hint {
                    at = whole.end();
                    continue;
                }
                let Some(pair) = PAIR.captures_at(line, whole.start()) else {
                    break;
                };
                let (Some(name), Some(close), Some(sep)) = (pair.name("name"), pair.name("close"), pair.name("sep"))
                else {
                    break;
                };
                // `--a=--b=c`: what is in a value may name another one that goes further.
                at = sep.end();
                found.extend(value_of_pair(text, of, name.range(), close.range(), sep.range()));
            }
        }
        match hint_end(text, end) {
            Some(next) => hint = next,
            None => break,
        }
    }
}

/// Adds the values that stand apart from their names.
fn apart_from_names(text: &str, found: &mut Vec<Range<usize>>) {
    let mut add = |form: &Regex, reach: Reach| {
        for place in form.captures_iter(text) {
            let (Some(all), Some(name)) = (place.get(0), place.name("name")) else {
                break;
            };
            let reach = if place.name("line").is_some() {
                Reach::Line
            } else {
                reach
            };
            let range = place
                .name("value")
                .map_or_else(|| value(text, all.end(), reach, Ends::Here), |whole| whole.range());
            found.extend(checked(text, range, named(name.as_str(), text)));
        }
    };
    if text.contains("alue") || text.contains("VALUE") {
        add(&ENTRY, Reach::Entry);
    }
    if text.contains("</") {
        add(&ELEMENT, Reach::Entry);
    }
    if text.contains("machine") || text.contains("default") {
        add(&NETRC, Reach::Word);
    }
    if text.contains("ENV") || text.contains("set") {
        add(&SETTING, Reach::Word);
    }
}

/// Adds the arguments of options.
fn options(text: &str, found: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while let Some(option) = OPTION.captures_at(text, at) {
        let (Some(all), Some(name)) = (option.get(0), option.name("name")) else {
            break;
        };
        let range = value(text, all.end(), Reach::Word, Ends::Here);
        found.extend(checked(text, range, named(name.as_str(), text)));
        // The blank behind it is the one before the next: `--batch --token …`.
        at = name.end();
    }
}

/// Adds the passwords of `-u user:password`.
fn users(text: &str, of: Of, found: &mut Vec<Range<usize>>) {
    if !has_user(text) {
        return;
    }
    for user in USER.captures_iter(text) {
        let (Some(user), Some(quote)) = (user.get(0), user.name("quote")) else {
            break;
        };
        let reach = if of == Of::Item && user.start() == 0 {
            Reach::All
        } else if quote.is_empty() {
            Reach::Word
        } else {
            Reach::Line
        };
        let range = unquoted(text, user.end(), reach, Ends::Here);
        if !text[range.clone()].starts_with("//") {
            found.extend(checked(text, range, Named::Secret));
        }
    }
}

/// The option for a password of a command line that logs in.
pub(super) const LOGIN_OPTION: &str = "-p";

/// What each option for a user has, in small or large letters.
pub(super) const USER_OPTION: &str = "-u";

fn has_user(text: &str) -> bool {
    text.contains(USER_OPTION) || text.contains("-U")
}

/// Whether an option may begin somewhere: a hyphen that no letter, digit or the like stands before.
fn has_option(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'-', bytes).any(|at| {
        let before = at.checked_sub(1).map(|at| bytes[at]);
        let is_begun =
            before.is_none_or(|byte| byte.is_ascii_whitespace() || !byte.is_ascii() || b"\x0b\"'`=(".contains(&byte));
        is_begun
            && bytes
                .get(at + 1)
                .is_some_and(|byte| *byte == b'-' || byte.is_ascii_alphabetic())
    })
}

/// Whether a further pair ends a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    AtNextPair,
    Here,
}

fn value_of_pair(
    text: &str,
    of: Of,
    name: Range<usize>,
    close: Range<usize>,
    sep: Range<usize>,
) -> Option<Range<usize>> {
    let begin = text[..name.start].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[begin..name.start];
    let phrase = before.trim_start_matches(|c: char| c.is_whitespace() || "-*+>#|_`\"'\\".contains(c));
    let phrase = ["export ", "set ", "env ", "ENV "]
        .iter()
        .fold(phrase, |left, word| left.strip_prefix(word).unwrap_or(left));
    let spoken = phrase.chars().all(|c| c.is_alphanumeric() || " -_/".contains(c)) && phrase.split(' ').count() <= 4;
    let at_line = phrase.is_empty();
    let is_equals = text[sep.clone()].contains(['=', '＝']);
    let named = match named(&text[name.clone()], text) {
        // `API key: …`
        Named::Open if spoken && !at_line && !is_equals => {
            Named::by(&text[name.end - name.len() - phrase.len()..name.end])
        }
        named => named,
    };
    if named == Named::Open {
        return None;
    }
    // `Unexpected token: …`, as `unexpected_token` is read.
    let before_name = before.trim_end();
    let previous = before_name
        .rfind(|c: char| !c.is_alphanumeric())
        .map_or(0, |at| at + before_name[at..].chars().next().map_or(1, char::len_utf8));
    let is_bare = ["token", "tokens"]
        .iter()
        .any(|bare| text[name.clone()].eq_ignore_ascii_case(bare));
    if is_bare && !is_equals && is_other_token(&text[begin + previous..name.end]) {
        return None;
    }
    let rest = &text[sep.end..];
    // `Token::new`, `token == other`.
    if rest.starts_with(':') || rest.starts_with('=') && text[name.end..].starts_with(' ') {
        return None;
    }
    let from = sep.end + (rest.len() - rest.trim_start_matches([' ', '\t']).len());
    // A quotation ends behind the sign, as in `find("token:")`: there is no value.
    if let Some(quote) = rest.chars().next()
        && matches!(quote, '"' | '\'' | '`')
        && rest[1..].chars().next().is_none_or(|c| ")]}\r\n".contains(c))
        && enclosing_quote(text, name.start) == Some(quote)
    {
        return None;
    }
    let quoted = text[from..].trim_start_matches('\\').starts_with(['"', '\'', '`']);
    let parted = close.is_empty() && text[name.end..sep.start].is_empty() && from == sep.end;
    let last = before.trim_end().chars().next_back();
    let in_quotes = before.ends_with(['"', '\'', '`']);
    let in_entry = last.is_some_and(|c| "\"'`{[(,&?;".contains(c));
    let at_start = begin == 0 && name.start <= before.len() && before.trim_start_matches('-').is_empty();
    let reach = if of == Of::Item && at_start {
        Reach::All
    } else if close.is_empty() && (at_line || in_quotes || spoken && !is_equals) {
        Reach::Line
    } else if is_equals && parted && last == Some(';') && before.contains('=') {
        // `Server=…;Password=two words;…`.
        Reach::Line
    } else if is_equals && parted {
        Reach::Word
    } else if quoted || in_entry || !close.is_empty() {
        Reach::Entry
    } else {
        return None;
    };
    // What stands for itself in an environment or on a command line has no further pairs.
    let alone = reach == Reach::All
        || at_line && !before.contains(['"', '\'']) && !text[name.clone()].contains(|c: char| c.is_lowercase());
    let ends = if is_equals && !alone {
        Ends::AtNextPair
    } else {
        Ends::Here
    };
    let reach = if named == Named::Digits && reach != Reach::All {
        Reach::Entry
    } else {
        reach
    };
    checked(text, value(text, from, reach, ends), named)
}

/// What a name in a text says: `pass` beside a user, too.
fn named(name: &str, text: &str) -> Named {
    match Named::by(name) {
        Named::Open if name.eq_ignore_ascii_case("pass") && BESIDE.is_match(text) => Named::Secret,
        named => named,
    }
}

fn checked(text: &str, range: Range<usize>, named: Named) -> Option<Range<usize>> {
    let value = text[range.clone()].trim_end();
    let range = range.start..range.start + value.len();
    let is_count = named == Named::Secrets && value.bytes().all(|byte| byte.is_ascii_digit());
    // Without quotes these are no texts.
    let is_flag = ["true", "false", "null", "None", "nil", "undefined"].contains(&value.trim_end_matches([',', ';']))
        && !text[..range.start].ends_with(['"', '\'', '`']);
    (named.hides_text(value) && !is_count && !is_flag).then_some(range)
}

/// The value that begins at `from`, without its quotes.
fn value(text: &str, from: usize, reach: Reach, ends: Ends) -> Range<usize> {
    let rest = &text[from..];
    let unescaped = rest.trim_start_matches('\\');
    let slashes = rest.len() - unescaped.len();
    if let Some(quote) = unescaped.chars().next().filter(|c| "\"'`".contains(*c)) {
        let start = from + slashes + quote.len_utf8();
        let close = format!("{}{quote}", "\\".repeat(slashes));
        let mut at = start;
        while let Some(found) = text[at..].find(&close) {
            let end = at + found;
            let before = text[start..end].len() - text[start..end].trim_end_matches('\\').len();
            let after = text[end + close.len()..].chars().next();
            at = end + close.len();
            if before % 2 == 1 {
                continue;
            }
            if after.is_some_and(|c| c.is_alphanumeric() || "_$".contains(c)) {
                // `"ab"cd` is one word.
                return unquoted(text, from, reach, ends);
            }
            return start..end;
        }
        return start..text.len();
    }
    unquoted(text, from, reach, ends)
}

fn unquoted(text: &str, from: usize, reach: Reach, ends: Ends) -> Range<usize> {
    let rest = &text[from..];
    let line = rest.find(['\n', '\r']).unwrap_or(rest.len());
    let mut end = match reach {
        Reach::All => rest.len(),
        Reach::Line => block(text, from, line).unwrap_or(line),
        Reach::Word => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        Reach::Entry if rest.starts_with(['[', '{']) => rest.find([']', '}']).map_or(rest.len(), |at| at + 1),
        Reach::Entry => rest
            .find(|c: char| c.is_whitespace() || ",}])".contains(c))
            .unwrap_or(rest.len()),
    };
    if let Some(quote) = enclosing_quote(text, from).filter(|_| reach != Reach::All)
        && let Some(at) = rest[..end].find(quote)
    {
        end = at;
    }
    if ends == Ends::AtNextPair
        && let Some(at) = next_pair(&rest[..end])
    {
        end = at;
    }
    from..from + end
}

/// The end of the lines that are indented below a name without a value of its own, as YAML has them.
fn block(text: &str, from: usize, line: usize) -> Option<usize> {
    let rest = &text[from..];
    if !matches!(rest[..line].trim(), "" | "|" | "|-" | "|+" | ">" | ">-" | ">+") {
        return None;
    }
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let begin = text[..from].rfind('\n').map_or(0, |at| at + 1);
    let own = indent(&text[begin..]);
    let mut end = line;
    for next in rest[line..].split_inclusive('\n').skip(1) {
        if !next.trim().is_empty() && indent(next) <= own {
            break;
        }
        end += next.len();
    }
    // The line break before the block belongs to it.
    let end = (end + 1).min(rest.len());
    rest[line..end]
        .contains(|c: char| !c.is_whitespace())
        .then(|| line + rest[line..end].trim_end().len())
}

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern that compiles")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The values of pairs when each pair of a text is asked whether its line has named a secret.
    fn pairs_one_by_one(text: &str, of: Of) -> Vec<Range<usize>> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(pair) = PAIR.captures_at(text, at) {
            let group = |name: &str| pair.name(name).unwrap().range();
            let begin = text[..group("name").start].rfind('\n').map_or(0, |at| at + 1);
            at = group("sep").end;
            if is_hinted(&text[begin..at]) {
                found.extend(value_of_pair(text, of, group("name"), group("close"), group("sep")));
            }
        }
        found
    }

    proptest! {
        #[test]
        fn lines_without_a_hint_have_no_named_value(
            text in "(password|-u|token|api key|a|: |=|=>|：|＝|--p|\\.|[ :=\"'\\\\&;{}\n\n]|\\PC){0,40}",
        ) {
            for of in [Of::Text, Of::Item] {
                let mut found = Vec::new();
                if let Some(hint) = hint_end(&text, 0) {
                    pairs(&text, of, hint, &mut found);
                }
                prop_assert_eq!(found, pairs_one_by_one(&text, of));
            }
            prop_assert!(has_option(&text) || !OPTION.is_match(&text) && !USER.is_match(&text));
            prop_assert!(has_user(&text) || !USER.is_match(&text));
        }

        #[test]
        fn any_text_is_looked_through(text in "(password|-u|token|[ :=\"'\\\\&;{}\n]|\\PC){0,40}") {
            for of in [Of::Text, Of::Item] {
                for range in values(&text, of) {
                    prop_assert!(text.get(range).is_some());
                }
            }
        }
    }
}
