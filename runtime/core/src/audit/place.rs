//! What an object or a list says of the values in it.
//!
//! Answers for names that stand beside their values: entries `{"name": …, "value": …}`, pairs `[name, value]`, options
//! and their arguments, `pass` beside a user, and the properties of a schema. Leaves out what a name means ([`Named`]).

use std::borrow::Cow;

use super::excerpt::Seen;
use super::flat::LOGIN_OPTION;
use super::names::Named;

/// What an object says of the values in it.
pub(super) struct Place {
    outer: Named,
    /// Of the value of an entry.
    entry: Named,
    /// Of `pass`.
    pass: Named,
    declares: bool,
}

impl Place {
    /// `name` is the object's own, of which `outer` is said.
    pub(super) fn of(entries: &[(String, Seen)], name: &str, outer: Named) -> Self {
        const USERS: [&str; 7] = ["user", "username", "user_name", "userid", "user_id", "login", "email"];
        const LOGINS: [&str; 4] = ["auth", "login", "credential", "credentials"];
        const DECLARING: [&str; 4] = ["properties", "$defs", "definitions", "patternProperties"];
        let small = lowercase(name);
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

    /// What is said of the value under `name`.
    pub(super) fn named(&self, name: &str, value: &Seen) -> Named {
        if self.outer.within() == Named::Secret {
            return Named::Secret;
        }
        if self.outer == Named::Schema {
            return Named::by_keyword(name);
        }
        match Named::by(name) {
            Named::Open if matches!(&*lowercase(name), "value" | "values" | "content") => self.entry,
            Named::Open if name.eq_ignore_ascii_case("pass") => self.pass,
            Named::Open => Named::Open,
            _ if self.declares && is_schema(value) => Named::Schema,
            own => own,
        }
    }
}

/// What a list says of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    By(Named),
    /// That it is `user:password`.
    User,
}

/// What a list says of its items, one after the other: the items of `tokens` are tokens, and so is what follows `--token`,
/// or `token` in a pair.
pub(super) struct Items {
    /// What is said of each.
    all: Named,
    next: Said,
    /// It is a command line that logs in, where `-p` is the password.
    logs_in: bool,
    /// A first item may be the name of a second one.
    is_pair: bool,
}

impl Items {
    /// Of a list of so many under `name`, of which `named` is said.
    pub(super) fn of(count: usize, name: &str, named: Named) -> Self {
        Self {
            all: named.within(),
            next: Said::By(named.within()),
            logs_in: false,
            // Names of fields, which are required, are no pair.
            is_pair: count == 2 && name != "required",
        }
    }

    /// What is said of the next item.
    pub(super) fn said(&mut self, item: &Seen) -> Said {
        let said = self.next;
        if let Seen::Text { text, .. } = item {
            self.logs_in |= text == "login";
        }
        let of_next = match item {
            Seen::Text { text, .. } if self.all != Named::Secret => match text.as_str() {
                "-u" | "-U" | "--user" | "--proxy-user" => Said::User,
                LOGIN_OPTION if self.logs_in => Said::By(Named::Secret),
                _ if text.starts_with('-') && !text.contains(['=', ' ']) => Said::By(Named::by(text)),
                _ if self.is_pair && text.len() <= 64 => Said::By(Named::by(text)),
                _ => Said::By(Named::Open),
            },
            _ => Said::By(Named::Open),
        };
        self.next = match of_next {
            Said::By(Named::Open) => Said::By(self.all),
            own => own,
        };
        said
    }
}

/// What the text of an entry, `{"name": "Authorization", "value": …}`, says of its value.
fn entry_of(entries: &[(String, Seen)]) -> Named {
    const NAMES: [&str; 6] = ["name", "key", "header", "field", "variable", "env"];
    let names = entries.iter().filter_map(|(name, value)| match value {
        Seen::Text { text, .. } if NAMES.contains(&&*lowercase(name)) => Some(Named::by(text)),
        _ => None,
    });
    names
        .into_iter()
        .find(|named| *named != Named::Open)
        .unwrap_or(Named::Open)
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

/// A name in small letters, as most are.
fn lowercase(name: &str) -> Cow<'_, str> {
    if name.is_ascii() && !name.contains(|c: char| c.is_ascii_uppercase()) {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(name.to_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(list: Value, name: &str) -> Vec<Said> {
        let Seen::List { items, .. } = Seen::of(list) else {
            unreachable!()
        };
        let mut all = Items::of(items.len(), name, Named::by(name));
        items.iter().map(|item| all.said(item)).collect()
    }

    fn named(object: Value, name: &str) -> Vec<Named> {
        let Seen::Object { entries, .. } = Seen::of(object) else {
            unreachable!()
        };
        let place = Place::of(&entries, name, Named::by(name));
        let all = entries.iter().map(|(name, value)| place.named(name, value));
        all.collect()
    }

    #[test]
    fn what_follows_an_option_is_its_argument() {
        use Said::{By, User};
        let (open, secret) = (By(Named::Open), By(Named::Secret));
        assert_eq!(
            said(json!(["login", "--password", "x", "y"]), ""),
            [open, open, secret, open]
        );
        assert_eq!(said(json!(["-u", "bob:x", "y"]), "args"), [open, User, open]);
        assert_eq!(
            said(json!(["docker", "login", "-p", "x"]), ""),
            [open, open, open, secret]
        );
        assert_eq!(said(json!(["ssh", "-p", "22"]), ""), [open, open, open]);
        assert_eq!(said(json!(["X-Api-Key", "x"]), ""), [open, secret]);
        assert_eq!(said(json!(["password", "token"]), "required"), [open, open]);
        assert_eq!(said(json!(["password", "x", "y"]), ""), [open, open, open]);
        assert_eq!(said(json!(["x", "-u", 1]), "tokens"), [secret, secret, secret]);
    }

    #[test]
    fn entries_and_logins_say_what_their_values_are() {
        use Named::{Open, Schema, Secret};
        assert_eq!(
            named(json!({"Name": "Authorization", "VALUE": "x"}), ""),
            [Open, Secret]
        );
        assert_eq!(named(json!({"name": "Accept", "value": "x"}), ""), [Open, Open]);
        assert_eq!(named(json!({"user": "bob", "pass": "x"}), ""), [Open, Secret]);
        assert_eq!(named(json!({"pass": "x"}), "httpAuth"), [Secret]);
        assert_eq!(named(json!({"pass": 3, "fail": 0}), "result"), [Open, Open]);
        let declared = json!({"password": {"type": "string"}, "token": "x"});
        assert_eq!(named(declared.clone(), "properties"), [Schema, Secret]);
        assert_eq!(named(declared, "body"), [Secret, Secret]);
    }
}
