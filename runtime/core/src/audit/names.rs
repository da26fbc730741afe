//! Names under which secrets stand, for the audit log.
//!
//! Answers for telling by a name alone that what stands under it is not to be kept, whatever it looks like, and for which
//! values tell nothing all the same. Leaves out where names stand in texts ([`super::flat`]).
//!
//! The rule: a name is read by its words, and what it names is its last one. `db_password`, `accessToken` and
//! `X-API-Key` are secrets; `password_policy`, `token_count` and `secret_santa` are not. Words that say which value it is
//! (`password_new`, `token_value`, `password2`) are read over. `key` and `pass` are secrets only with a word such as `api`
//! or `db` before them, `pat` only of GitHub and the like, and `tokens` that are counted or designed are none. Under a secret name every text and every number
//! goes, however deep, but not a flag, `null`, an empty text, a reference such as `${TOKEN}`, or a mask. A number right
//! under a plural (`tokens: 512`) is a count; of `pin` only digits are one, and an absolute path is a folder under `pwd`.
//! Under a name that a JSON Schema declares stays what describes a value, and its `default` or `examples` go.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

use crate::needles::Needles;

/// What a name says of what stands under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// Nothing.
    Open,
    /// It is a secret.
    Secret,
    /// They are secrets, or a number is how many.
    Secrets,
    /// It is a secret when it is made of digits.
    Digits,
    /// It is a secret unless it is an absolute path.
    Pwd,
    /// It is the schema of a secret.
    Schema,
}

/// Words of which each secret name has one, for one run over a text: most names and texts are done with after it.
static HINTS: LazyLock<Needles> = LazyLock::new(|| Needles::new(hints().into_iter().map(|hint| (hint, 1))));

/// The words of [`HINTS`], in all ways to write their letters.
pub(super) fn hints() -> Vec<String> {
    let words = [
        "pass",
        "pwd",
        "secret",
        "token",
        "key",
        "cred",
        "authorization",
        "cookie",
        "bearer",
        "pin",
        "otp",
        "cvv",
        "cvc",
        "密码",
        "口令",
        "密钥",
        "令牌",
        "秘钥",
    ];
    let pats = HOSTS.map(|host| ["", "_", "-", "."].map(|between| format!("{host}{between}pat")));
    let words = words.map(str::to_owned).into_iter().chain(pats.into_iter().flatten());
    // These are no letters of ASCII, but small and large letters of the same.
    let alike = [('s', 'ſ'), ('k', '\u{212A}')];
    let mut forms: Vec<String> = vec![String::new()];
    let mut hints = Vec::new();
    for word in words {
        for c in word.chars() {
            let other = alike.iter().find(|(one, _)| *one == c).map(|(_, other)| *other);
            let longer = |c: char| forms.iter().map(move |form| format!("{form}{c}"));
            forms = longer(c).chain(other.into_iter().flat_map(longer)).collect();
        }
        hints.append(&mut forms);
        forms.push(String::new());
    }
    hints
}

/// What stands for a value that is somewhere else, or hides it: `${TOKEN}`, `Bearer ${TOKEN}`, `{{ token }}`, `****`.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let forms = r"^(?:(?i:bearer|basic|token)\s+)?(?:\$\{[A-Za-z_][A-Za-z0-9_.]*\}|\$?\{\{\s*[A-Za-z_][A-Za-z0-9_.]*\s*\}\}|[*•]+|\[redacted[^\]]*\])?$";
    Regex::new(forms).expect("a constant pattern that compiles")
});

/// An absolute path; one with a single part has only small letters.
static PATH: LazyLock<Regex> = LazyLock::new(|| {
    let forms = r"^(?:/|/[a-z]{1,12}/?|(?:/[\w. -]+){2,}/?|[A-Za-z]:[\\/][\w. \\/-]*)$";
    Regex::new(forms).expect("a constant pattern that compiles")
});

/// Names without a Latin letter end with one of these.
const CHINESE: [&str; 5] = ["密码", "口令", "密钥", "令牌", "秘钥"];

/// Last words of secret names.
const SECRETS: [&str; 17] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "token",
    "credential",
    "cred",
    "authorization",
    "cookie",
    "bearer",
    "otp",
    "totp",
    "cvv",
    "cvc",
    "apitoken",
];

/// Ends of last words that were written as one: `PGPASSWORD`, `apikey`.
const ENDS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "sshkey",
    "authtoken",
    "accesstoken",
    "refreshtoken",
    "clientsecret",
];

/// Keys that open something. `public`, `primary` or `cache` are none.
const KEYS: [&str; 22] = [
    "access",
    "account",
    "api",
    "auth",
    "client",
    "deploy",
    "encryption",
    "gpg",
    "hmac",
    "host",
    "license",
    "master",
    "pgp",
    "private",
    "rsa",
    "secret",
    "session",
    "shared",
    "signing",
    "ssh",
    "storage",
    "webhook",
];

/// Whose `pass` it is: alone the word says that a test has passed.
const OWNERS: [&str; 13] = [
    "admin", "app", "db", "ftp", "login", "mail", "mysql", "pg", "redis", "root", "smtp", "ssh", "user",
];

/// Whose personal access token a `pat` is: alone it is the beginning of a word.
const HOSTS: [&str; 4] = ["azure", "gh", "github", "gitlab"];

/// Words before `token` by which it opens nothing: counts, marks of a text, places in a list, and those of a design.
const OTHER_TOKENS: [&str; 38] = [
    "bos",
    "budget",
    "cached",
    "color",
    "colour",
    "completion",
    "continuation",
    "count",
    "css",
    "cursor",
    "design",
    "eos",
    "generated",
    "input",
    "limit",
    "mask",
    "max",
    "maximum",
    "min",
    "n",
    "next",
    "num",
    "of",
    "output",
    "pad",
    "page",
    "progress",
    "prompt",
    "reasoning",
    "remaining",
    "stop",
    "style",
    "syntax",
    "theme",
    "thinking",
    "total",
    "unexpected",
    "used",
];

/// Last words that say which of several values it is, or how it is written.
const WHICH: [&str; 25] = [
    "again",
    "b64",
    "base",
    "base64",
    "confirm",
    "confirmation",
    "current",
    "data",
    "digest",
    "hash",
    "header",
    "headers",
    "hex",
    "new",
    "old",
    "plain",
    "plaintext",
    "raw",
    "repeat",
    "repeated",
    "str",
    "string",
    "text",
    "value",
    "values",
];

/// What describes a value in a schema and is none.
const DESCRIBING: [&str; 22] = [
    "$comment",
    "$ref",
    "deprecated",
    "description",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
    "uniqueItems",
];

/// What holds schemas of the same value or of its parts.
const SCHEMAS: [&str; 10] = [
    "additionalProperties",
    "allOf",
    "anyOf",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "then",
];

/// Whether a text has a part of a secret name: most are done with after this.
pub(super) fn is_hinted(text: &str) -> bool {
    HINTS.first_end(text, 0).is_some()
}

/// Where the part of a secret name ends that ends first of those behind `from`.
pub(super) fn hint_end(text: &str, from: usize) -> Option<usize> {
    HINTS.first_end(text, from)
}

/// Whether a name is that of a token that opens nothing, such as a place in a list.
pub(super) fn is_other_token(name: &str) -> bool {
    if !is_hinted(name) {
        return false;
    }
    let words = words(name);
    words.last().is_some_and(|last| last == "token" || last == "tokens")
        && words.iter().any(|word| OTHER_TOKENS.contains(&word.as_str()))
}

impl Named {
    /// What `name` says.
    pub(super) fn by(name: &str) -> Self {
        if !name.is_ascii() {
            let plain: String = name.nfkc().collect();
            if CHINESE.iter().any(|word| plain.trim_end().ends_with(word)) {
                return Self::Secret;
            }
            return Self::by_words(&plain);
        }
        Self::by_words(name)
    }

    fn by_words(name: &str) -> Self {
        if !is_hinted(name) {
            return Self::Open;
        }
        let words = words(name);
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        while words.len() > 1 && words.last().is_some_and(|last| WHICH.contains(last)) {
            words.pop();
        }
        let Some((last, before)) = words.split_last() else {
            return Self::Open;
        };
        if *last == "pwd" && before.is_empty() {
            return Self::Pwd;
        }
        let one = last.strip_suffix('s').filter(|one| !one.ends_with('s'));
        if Self::is_secret(last, before) {
            Self::Secret
        } else if one.is_some_and(|one| Self::is_secret(one, before)) {
            Self::Secrets
        } else if *last == "pin" || *last == "code" && before.last() == Some(&"pin") {
            Self::Digits
        } else {
            Self::Open
        }
    }

    fn is_secret(last: &str, before: &[&str]) -> bool {
        let previous = before.last().copied().unwrap_or_default();
        match last {
            "token" => !before.iter().any(|word| OTHER_TOKENS.contains(word)),
            "pat" => HOSTS.contains(&previous),
            "key" => KEYS.contains(&previous),
            "pass" => OWNERS.contains(&previous),
            "word" | "phrase" | "code" => previous == "pass",
            last => SECRETS.contains(&last) || ENDS.iter().any(|end| last.ends_with(end)),
        }
    }

    /// What is said of values within the one that stands under the name.
    pub(super) fn within(self) -> Self {
        match self {
            Self::Secrets | Self::Pwd => Self::Secret,
            named => named,
        }
    }

    /// What is said of the value under a keyword of a schema of something so named.
    pub(super) fn by_keyword(keyword: &str) -> Self {
        if DESCRIBING.contains(&keyword) {
            Self::Open
        } else if SCHEMAS.contains(&keyword) {
            Self::Schema
        } else {
            Self::Secret
        }
    }

    /// Whether a text is one of the secrets.
    pub(super) fn hides_text(self, text: &str) -> bool {
        match self {
            Self::Open => false,
            Self::Digits => is_digits(text),
            Self::Secret | Self::Secrets | Self::Schema => !REFERENCE.is_match(text.trim()),
            Self::Pwd => !PATH.is_match(text) && !REFERENCE.is_match(text.trim()),
        }
    }

    /// Whether something that is neither text, list nor object is one of the secrets.
    pub(super) fn hides_plain(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Secret | Self::Pwd | Self::Schema, Value::Number(_)) => true,
            (Self::Digits, Value::Number(number)) => is_digits(&number.to_string()),
            _ => false,
        }
    }
}

/// Whether it is a PIN, and not a version or the number of a pin on a board.
fn is_digits(text: &str) -> bool {
    (4..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The words of a name in small letters, without digits at their ends: `APIKey2` is `api`, `key`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let characters: Vec<char> = name.chars().collect();
    for (at, &c) in characters.iter().enumerate() {
        let previous = at.checked_sub(1).map(|at| characters[at]);
        let next = characters.get(at + 1);
        let begins = c.is_uppercase()
            && previous.is_some_and(|previous| {
                previous.is_lowercase()
                    || previous.is_ascii_digit()
                    || previous.is_uppercase() && next.is_some_and(|next| next.is_lowercase())
            });
        if begins || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    for word in &mut words {
        // `b64` says how it is written.
        if word != "b64" && word != "base64" {
            word.truncate(word.trim_end_matches(|c: char| c.is_ascii_digit()).len());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_names_are_known_by_their_words() {
        for name in [
            "password",
            "Password",
            "PASSWORD",
            "passwd",
            "passphrase",
            "pass_phrase",
            "pass_word",
            "passcode",
            "db_pwd",
            "db_password",
            "dbPassword",
            "DB_PASS",
            "PGPASSWORD",
            "user.password",
            "password2",
            "new_password",
            "passwordNew",
            "password_confirmation",
            "password_hash",
            "secret",
            "client_secret",
            "clientSecret",
            "SECRET_KEY_BASE",
            "token",
            "accessToken",
            "access_token",
            "auth-token",
            "GITHUB_TOKEN",
            "token_value",
            "api_key",
            "apiKey",
            "APIKey",
            "apikey",
            "X-API-Key",
            "access_key",
            "aws_secret_access_key",
            "private_key",
            "privateKey",
            "ssh_key",
            "sshKey",
            "credential",
            "authorization",
            "Authorization",
            "Proxy-Authorization",
            "authorization_header",
            "cookie",
            "Set-Cookie",
            "bearer",
            "otp",
            "totp",
            "cvv",
            "ｐａｓｓｗｏｒｄ",
            "管理员密码",
            "令牌",
            "GITHUB_PAT",
            "ghPat",
        ] {
            assert_eq!(Named::by(name), Named::Secret, "{name}");
        }
        for name in [
            "secrets",
            "tokens",
            "api_keys",
            "credentials",
            "creds",
            "cookies",
            "passwords",
            "accessTokens",
        ] {
            assert_eq!(Named::by(name), Named::Secrets, "{name}");
        }
        assert_eq!(Named::by("pwd"), Named::Pwd);
        for name in ["pin", "PIN", "pin_code", "userPin"] {
            assert_eq!(Named::by(name), Named::Digits, "{name}");
        }
    }

    #[test]
    fn names_that_only_have_such_a_word_are_none() {
        for name in [
            "",
            "name",
            "max_tokens",
            "maxTokens",
            "token_count",
            "tokenCount",
            "total_tokens",
            "input_tokens",
            "num_tokens",
            "design_tokens",
            "next_page_token",
            "progressToken",
            "secret_santa",
            "password_policy",
            "password_field",
            "passwordless",
            "token_type",
            "token_url",
            "tokenizer",
            "cookie_name",
            "cookie_consent",
            "secret_name",
            "key",
            "keys",
            "primary_key",
            "public_key",
            "cache_key",
            "idempotency_key",
            "keyboard",
            "pass",
            "passed",
            "passes",
            "pins",
            "spin",
            "pinned",
            "opinion",
            "author",
            "authors",
            "credit",
            "session_id",
            "looks_secret_too",
            "compass",
            "bypass",
            "hotpath",
            "github_path",
            "pat",
            "passing_tests",
            "error_code",
        ] {
            assert_eq!(Named::by(name), Named::Open, "{name}");
        }
    }

    #[test]
    fn hints_are_found_in_all_ways_to_write_their_letters() {
        for text in [
            "PaſſWord",
            "to\u{212A}en",
            "\u{212A}EY",
            "x密码",
            "mapping",
            "ſecret",
            "coo\u{212A}ie",
        ] {
            assert!(is_hinted(text), "{text}");
        }
        assert!(!is_hinted("Step 1: write the failing test"));
        assert_eq!(hint_end("a token, a key", 0), Some(7));
        assert_eq!(hint_end("a token, a key", 7), Some(14));
        assert_eq!(hint_end("a token, a key", 14), None);
    }

    #[test]
    fn what_tells_nothing_may_stay() {
        for text in [
            "",
            " ",
            "${TOKEN}",
            "Bearer ${TOKEN}",
            "{{ token }}",
            "${{ secrets.TOKEN }}",
            "****",
            "[redacted: a GitHub token]",
        ] {
            assert!(!Named::Secret.hides_text(text), "{text}");
        }
        for text in [
            "x",
            "correct horse",
            "${TOKEN:-hunter2}",
            "pass.word",
            "true",
            "hunter2(x)",
            "$x",
            "${A}b",
            "${{ a || 'b' }}",
        ] {
            assert!(Named::Secret.hides_text(text), "{text}");
        }
        for plain in [json!(true), json!(false), json!(null)] {
            assert!(!Named::Secret.hides_plain(&plain), "{plain}");
        }
        assert!(Named::Secret.hides_plain(&json!(7)) && Named::Secret.hides_plain(&json!(1.5)));
        assert!(!Named::Secrets.hides_plain(&json!(7)) && Named::Secrets.within().hides_plain(&json!(7)));
        assert!(Named::Digits.hides_text("0412") && Named::Digits.hides_plain(&json!(4_711)));
        assert!(!Named::Digits.hides_text("0.4.2") && !Named::Digits.hides_plain(&json!(13)));
    }
}
