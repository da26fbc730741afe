//! Inputs as the audit log keeps them: without secrets, and not too long.
//!
//! Answers for what of an excerpt goes, and for what is told instead. One walk makes what a record keeps and gathers the
//! values that go for their names, also those of parts that are not kept for their length. What is cut is told.
//!
//! What stands under a secret name goes whatever it looks like ([`Named`] has the rule): of an object, of an entry
//! `{"name": …, "value": …}` or `[name, value]`, of an option and its argument in a list ([`Place`] and [`Items`] know
//! them), in a text that is JSON, and in a flat one ([`flat`] has the rule). `pass` is a secret beside a user or in a login.
//! In all texts secrets are found by their look, too, together with the name that the text stands under. A text that was
//! cut before its secrets were looked for loses its end, too: half a secret looks like none.

use std::fmt::Write;
use std::ops::Range;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::excerpt::{Excerpt, MOST_KEPT, MOST_SEEN, SMALL, Seen, place_of};
use super::flat;
use super::hidden::{BY_ITS_NAME, Hidden};
use super::names::{Named, hints, is_other_token};
use super::place::{Items, Place, Said};
use crate::needles::Needles;
use crate::secrets::{Secret, find_secret, find_secrets, may_have_secret, narrow, needles};

/// As much of a text that was cut goes once more when secrets were looked for.
const HALF_A_SECRET: usize = 512;
/// The longest text of a record, in characters.
const LONGEST_KEPT: usize = 1_000;

/// What a record keeps of an excerpt. Adds the values that go because of the name that they stand under.
pub(super) fn kept(excerpt: Excerpt, hidden: &mut Hidden) -> Value {
    let sought = excerpt.json().map_or(Sought::ALL, Sought::of_json);
    kept_of(excerpt, sought, hidden)
}

fn kept_of(excerpt: Excerpt, sought: Sought, hidden: &mut Hidden) -> Value {
    let mut walk = Walk {
        sought,
        room: Some(MOST_KEPT),
        hidden,
    };
    walk.value(excerpt.look(), "", Named::Open, flat::Of::Text)
}

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sought {
    by_look: Search,
    by_name: Search,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    Each,
    /// It is known that there is nothing to find, or it is left to another search.
    None,
}

const A_LOOK: u64 = 1;
const A_NAME: u64 = 2;

/// What a text has that is not without any secret.
static PARTS: LazyLock<Needles> = LazyLock::new(|| {
    let names = hints()
        .into_iter()
        .chain([flat::USER_OPTION, flat::LOGIN_OPTION].map(str::to_owned));
    let names = names.map(|part| (part, A_NAME));
    Needles::new(names.chain(needles().map(|part| (part.to_owned(), A_LOOK))))
});

impl Sought {
    const ALL: Self = Self {
        by_look: Search::Each,
        by_name: Search::Each,
    };

    /// What there may be in something that is written as JSON here, where none of the parts has a character that is
    /// written in another way. Nearly always nothing, and one run says so for all of it.
    fn of_json(json: &str) -> Self {
        let narrow = narrow(json);
        let found = PARTS.marks(narrow.as_deref().unwrap_or(json));
        let search = |is_needed| if is_needed { Search::Each } else { Search::None };
        Self {
            by_look: search(found & A_LOOK != 0),
            // Names are read in their compatible form, also those in texts that are JSON with characters as numbers.
            by_name: search(found & A_NAME != 0 || !json.is_ascii() || json.contains(r"\u")),
        }
    }
}

/// The walk through an excerpt.
struct Walk<'h> {
    sought: Sought,
    /// The bytes that still find room; nothing in a part that is not kept, which is walked for its hidden values alone.
    room: Option<usize>,
    hidden: &'h mut Hidden,
}

impl Walk<'_> {
    fn value(&mut self, seen: Seen, name: &str, named: Named, of: flat::Of) -> Value {
        match seen {
            Seen::Plain(value) if named.hides_plain(&value) => {
                self.hidden.add(&value.to_string());
                self.gone(None)
            }
            Seen::Text { text, .. } if named.hides_text(&text) => {
                self.hidden.add(&text);
                self.gone(Some(&text))
            }
            Seen::Plain(value) => value,
            Seen::Nothing => Value::from("…"),
            Seen::Text { text, missing } => self.text(text, missing, name, of),
            Seen::List { items, missing } => self.list(items, missing, name, named),
            Seen::Object { entries, missing } => self.object(entries, missing, name, named),
        }
    }

    fn list(&mut self, items: Vec<Seen>, missing: usize, name: &str, named: Named) -> Value {
        let count = items.len();
        let mut list = Vec::with_capacity(count);
        let mut all = (self.sought.by_name == Search::Each).then(|| Items::of(count, name, named));
        let mut fits = true;
        for item in items {
            let said = all.as_mut().map_or(Said::By(Named::Open), |all| all.said(&item));
            fits = fits && self.take(SMALL);
            if fits {
                list.push(self.item(item, said, name, named));
            } else {
                self.hidden_only(|walk| walk.item(item, said, name, named));
            }
        }
        let missing = missing + count - list.len();
        if missing > 0 {
            list.push(Value::from(format!("… ({missing} more)")));
        }
        Value::Array(list)
    }

    fn item(&mut self, item: Seen, said: Said, name: &str, named: Named) -> Value {
        match (said, item) {
            (Said::By(named), item) => self.value(item, name, named, flat::Of::Item),
            (Said::User, Seen::Text { text, missing }) if flat::after_user(&text).is_some() => {
                let places = flat::values_and_password(&text);
                let text = self.without(text, &places);
                self.text_of(text, missing, name)
            }
            (Said::User, item) => self.value(item, name, named.within(), flat::Of::Item),
        }
    }

    fn object(&mut self, entries: Vec<(String, Seen)>, missing: usize, name: &str, named: Named) -> Value {
        let count = entries.len();
        let mut object = Map::with_capacity(count);
        let place = (self.sought.by_name == Search::Each).then(|| Place::of(&entries, name, named));
        let mut fits = true;
        for (name, value) in entries {
            let named = place.as_ref().map_or(Named::Open, |place| place.named(&name, &value));
            fits = fits && self.take(name.len() + SMALL);
            if !fits {
                self.hidden_only(|walk| walk.value(value, &name, named, flat::Of::Text));
                continue;
            }
            let value = self.value(value, &name, named, flat::Of::Text);
            let shown = match self.sought.by_look {
                Search::Each => without_secrets("", &name).unwrap_or(name),
                Search::None => name,
            };
            object.insert(shown, value);
        }
        let missing = missing + count - object.len();
        if missing > 0 {
            object.insert("…".to_owned(), Value::from(format!("{missing} more")));
        }
        Value::Object(object)
    }

    /// What is kept of a text that does not go as a whole.
    fn text(&mut self, text: String, missing: usize, name: &str, of: flat::Of) -> Value {
        let text = match self.sought.by_name {
            Search::Each => self.without_named(text, missing, of),
            Search::None => text,
        };
        self.text_of(text, missing, name)
    }

    /// What is kept of a text that is without what it names.
    fn text_of(&mut self, mut text: String, mut missing: usize, name: &str) -> Value {
        if self.room.is_none() {
            return Value::Null;
        }
        if self.sought.by_look == Search::Each
            && let Some(mended) = without_secrets(name, &text)
        {
            text = mended;
        }
        if missing > 0 {
            missing += cut(&mut text, |length| length.saturating_sub(HALF_A_SECRET));
        }
        if text.len() > LONGEST_KEPT {
            missing += cut(&mut text, |length| length.min(LONGEST_KEPT));
        }
        if !self.take(text.len()) {
            return Value::from("…");
        }
        if missing > 0 {
            let _ = write!(text, "… ({missing} characters more)");
        }
        Value::from(text)
    }

    /// A text without what it names as a secret.
    fn without_named(&mut self, text: String, missing: usize, of: flat::Of) -> String {
        let Some(value) = (missing == 0).then(|| as_json(&text)).flatten() else {
            let values = flat::values(&text, of);
            return self.without(text, &values);
        };
        let before = self.hidden.found();
        let mut within = Walk {
            sought: Sought {
                // The text as a whole is searched by its look when this is done.
                by_look: Search::None,
                by_name: Search::Each,
            },
            room: Some(MOST_SEEN),
            hidden: self.hidden,
        };
        let value = within.value(Seen::of(value), "", Named::Open, flat::Of::Text);
        if self.hidden.found() == before {
            text
        } else {
            value.to_string()
        }
    }

    /// A text without the values at `places`, which are added to the hidden ones.
    fn without(&mut self, text: String, places: &[Range<usize>]) -> String {
        for place in places {
            self.hidden.add(&text[place.clone()]);
        }
        if places.is_empty() || self.room.is_none() {
            text
        } else {
            out(&text, places)
        }
    }

    /// What is told instead of a value under a secret name: its kind, when it looks like one.
    fn gone(&mut self, text: Option<&str>) -> Value {
        if self.room.is_none() {
            return Value::Null;
        }
        let kind = text.and_then(find_secret);
        let told = kind.map_or_else(|| BY_ITS_NAME.to_owned(), |kind| format!("[redacted: {}]", kind.what));
        Value::from(if self.take(told.len()) { told } else { "…".to_owned() })
    }

    /// Walks through a part of which nothing is kept.
    fn hidden_only(&mut self, walk: impl FnOnce(&mut Self) -> Value) {
        let room = self.room.take();
        walk(self);
        self.room = room;
    }

    fn take(&mut self, bytes: usize) -> bool {
        let left = self.room.and_then(|room| room.checked_sub(bytes));
        if left.is_some() {
            self.room = left;
        }
        left.is_some()
    }
}

/// The list or the object that a text is as JSON, if something in it may be named as a secret.
fn as_json(text: &str) -> Option<Value> {
    if !text.trim_start().starts_with(['{', '[']) || !flat::may_name_in_json(text) {
        return None;
    }
    serde_json::from_str(text).ok()
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

/// A text without the secrets that it has by its look, if it has any; `name` is what it stands under.
pub(super) fn without_secrets(name: &str, text: &str) -> Option<String> {
    if !may_have_secret(text) && !may_have_secret(name) {
        return None;
    }
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
        // What was told of a part of it is not cut through.
        if let Some(told) = block.rfind("[redacted:").map(|told| secret.range.start + told)
            && whole[told..].starts_with(BY_ITS_NAME)
        {
            end = end.max(told + BY_ITS_NAME.len());
        }
        if end <= at {
            continue;
        }
        shown.push_str(&whole[at..start.max(at)]);
        let _ = write!(shown, "[redacted: {}]", secret.what);
        at = end;
    }
    if at == before.len() {
        return None;
    }
    shown.push_str(&whole[at..]);
    Some(shown)
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
    if let Some(end) = place_of(text, kept) {
        text.truncate(end);
    }
    length - kept.min(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::audit::excerpt::tests::values;

    fn record(input: Value) -> Value {
        let Value::Object(input) = input else { unreachable!() };
        kept(Excerpt::of(&input), &mut Hidden::default())
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
        let kept = record(Value::Object(wide));
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
            json!({"command": "gpg --batch --passphrase horse -c a"}),
            json!({"yaml": "env:\n  - name: DB_PASSWORD\n    value: two horse\n  - name: PORT\n    value: \"80\""}),
            json!({"xml": "<add key=\"ApiKey\" value=\"two horse\" />"}),
            json!({"js": "[{ name: 'password', value: 'horse' }]"}),
            json!({"xml": "<server><id>a</id><password>two horse</password></server>"}),
            json!({"netrc": "machine github.com\n  login bob\n  password horse\n"}),
            json!({"dockerfile": "FROM x\nENV DB_PASSWORD two horse\n"}),
            json!({"command": "npm config set //registry.npmjs.org/:_authToken horse && setx API_KEY horse"}),
            json!({"dsn": "Server=h;Password=two horse;Encrypt=True"}),
            json!({"args": ["docker", "login", "-u", "bob", "-p", "horse"]}),
            json!({"args": ["login", "-p", "horse"]}),
            json!({"text": "the next api_token: horse"}),
            json!({"env": {"GITHUB_PAT": "horse"}, "more": "GH_PAT=horse"}),
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
            (
                "- name: DB_PASSWORD\n  value: horse\n- name: PORT\n  value: 80",
                "- name: DB_PASSWORD\n  value: [-]\n- name: PORT\n  value: 80",
            ),
            (
                "<user>bob</user><password>horse</password>",
                "<user>bob</user><password>[-]</password>",
            ),
            (
                "Server=h;Password=two horse;Database=d",
                "Server=h;Password=[-];Database=d",
            ),
            (
                "gpg --batch --passphrase horse -c a",
                "gpg --batch --passphrase [-] -c a",
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
    fn what_was_told_of_a_value_is_told_whole_or_not_at_all() {
        for (text, kept) in [
            (
                json!("sshpass -p ACCOUNT_KEY:zebra77 ssh h"),
                json!("sshpass -p [redacted: a password on a command line]"),
            ),
            (
                json!(["--user", "curl -u a:zebra77x"]),
                json!(["--user", "curl -u a:[redacted: a secret by its name]"]),
            ),
        ] {
            assert_eq!(record(json!({ "sent": text }))["sent"], kept);
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
            "parser": "SyntaxError: Unexpected token: '}'; design tokens: colors",
            "workflow": "token: ${{ secrets.GITHUB_TOKEN }}",
            "yaml": "secret: true\npassword: null\ncookie: false,\n",
            "test": "expect(screen.getByLabelText(\"Password:\")).toBeVisible()",
            "html": "<label for=\"password\">Password</label><input name=\"password\" value=\"\">",
            "entries": "- name: PORT\n  value: 80\n- key: password\n  valueFrom: x",
            "prose": "The default login form has a password field; set the value of the key.",
            "commands": "kubectl config set-context --current; git config set user.name token",
        });
        assert_eq!(record(input.clone()), input);
        let text = json!({"properties": {"password": {"type": "string", "minLength": 12}}}).to_string();
        assert_eq!(record(json!({ "text": text }))["text"], text);
    }

    proptest! {
        /// Whatever is sent, what is behind a secret name at the beginning of an item is not kept.
        #[test]
        fn no_value_of_an_item_is_kept(value in "[ -~]{0,40}", name in "(--password=|DB_TOKEN=|X-Api-Key: )") {
            let kept = record(json!({ "list": [format!("{name}ZEBRA{value}ZEBRA")] })).to_string();
            prop_assert!(!kept.contains("ZEBRA"), "{}", kept);
        }

    }

    fn values_with_secrets() -> impl Strategy<Value = Value> {
        let texts = [
            "login",
            "-u",
            "bob:horse",
            "--token",
            "x\ty",
            "\u{7}bell",
            "é",
            r#"{"p\u0061ssword": "horse"}"#,
            r#"["login", "-p", "horse"]"#,
            r#"[{"ｐｉｎ": "4711"}, "-U", "a:b"]"#,
            "ｐａｓｓｗｏｒｄ＝ｈｕｎｔｅｒ２",
            "curl -U bob:horse",
            "make it pass",
            "DB_TOKEN=horse",
            "https://a:hunter2@b",
            "xoxb-aB3dE5fG7hJ9kL2",
        ];
        let text = prop::sample::select(texts.to_vec()).prop_map(Value::from);
        prop_oneof![
            3 => text.clone(),
            2 => prop::collection::vec(text.clone(), 0..4).prop_map(Value::from),
            1 => Just(json!(["login", "-p", "horse"])),
            1 => text.prop_map(|text| json!({"name": text, "value": "zebra"})),
        ]
    }

    #[test]
    fn a_name_without_a_value_hides_no_secret_behind_it() {
        let kept = record(json!({ "passwordpassword": "", "password": "A0A0a0'" }));
        assert!(kept["password"].as_str().unwrap().starts_with("[redacted"), "{kept}");
    }

    #[test]
    fn what_finds_no_room_is_walked_for_its_hidden_values() {
        let entry = json!({"name": "token", "value": "lion77"});
        let input = json!({
            "list": [vec![json!(1); 1_500], json!("--password=zebra77"), entry],
            "text": json!({"password": "monkey77"}).to_string(),
            "object": {"deep": [["--secret", "tiger77"]]},
        });
        let mut hidden = Hidden::default();
        let kept = kept(Excerpt::of(input.as_object().unwrap()), &mut hidden).to_string();
        assert!(
            !kept.contains("password") && !kept.contains("deep"),
            "they found room: {kept}"
        );
        for value in ["zebra77", "lion77", "monkey77", "tiger77"] {
            assert_eq!(hidden.out_of(value).as_deref(), Some(BY_ITS_NAME), "{value}");
        }
    }

    proptest! {
        /// One run over all of it overlooks nothing.
        #[test]
        fn one_search_overlooks_nothing(
            entries in prop::collection::vec(("(password|p\u{1}|ｐｉｎ|note|-|a|ghp_x|user|pass)", values_with_secrets()), 1..4),
        ) {
            let input: Map<String, Value> = entries.into_iter().collect();
            let (mut hidden, mut of_all) = (Hidden::default(), Hidden::default());
            let all = kept_of(Excerpt::of(&input), Sought::ALL, &mut of_all);
            prop_assert_eq!(kept(Excerpt::of(&input), &mut hidden), all);
            prop_assert_eq!(hidden.found(), of_all.found());
        }

        /// What else is sent hides no secret.
        #[test]
        fn each_text_is_searched_as_if_it_were_alone(
            texts in prop::collection::vec(("(password|token|note|a){1,2}", "[a-zA-Z0-9<>:=\"' .-]{0,40}", 0_u8..6), 1..12),
        ) {
            let texts = texts.into_iter().map(|(name, text, with)| match with {
                0 => (name, format!("{text}{}", token())),
                1 => (name, format!("{} {text}", token())),
                _ => (name, text),
            });
            let input: Map<String, Value> = texts.map(|(name, text)| (name, Value::from(text))).collect();
            let kept = record(Value::Object(input.clone()));
            for (name, text) in input {
                prop_assert_eq!(&kept[&name], &record(json!({ &name: text }))[&name]);
            }
        }

        #[test]
        fn what_is_kept_is_bounded(value in values(), times in 1_usize..40) {
            let kept = record(json!({ "value": vec![value; times] }));
            // Each text may be told to be cut, and JSON writes some characters longer.
            prop_assert!(kept.to_string().len() < 8 * MOST_KEPT);
        }
    }
}
