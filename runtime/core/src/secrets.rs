//! Secrets in texts: keys, tokens and passwords that should not be written down again.
//!
//! Answers for finding them with their place. Leaves out what is done about them: one tool refuses a text, another one
//! redacts it. What only has the shape of a secret (`<token>`, `${TOKEN}`, `***`, `password: required`) is none.
//!
//! The shapes are those that the issuers document. Values after a name such as `password` are judged by their look, as
//! prose has such names, too: they need letters and digits, or letters of both cases, or signs.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// What it looks like: `a GitHub token`.
    pub what: &'static str,
    /// Where it is, in bytes.
    pub range: Range<usize>,
}

impl Secret {
    /// Where it is in `text`, in characters.
    pub fn characters(&self, text: &str) -> Range<usize> {
        let count = |bytes: usize| text[..bytes].chars().count();
        count(self.range.start)..count(self.range.end)
    }
}

/// The first secret of a text. Linear in its length.
pub fn find_secret(text: &str) -> Option<Secret> {
    find_secrets(text).into_iter().next()
}

/// The secrets of a text in order, without overlaps. Linear in its length for each shape.
pub fn find_secrets(text: &str) -> Vec<Secret> {
    let mut found: Vec<Secret> = SHAPES.iter().flat_map(|shape| shape.find_all(text)).collect();
    // Of two at one place the longer one says more; of two equal ones the shape that stands first.
    found.sort_by_key(|secret| (secret.range.start, std::cmp::Reverse(secret.range.end)));
    let mut end = 0;
    found.retain(|secret| {
        let apart = secret.range.start >= end;
        end = end.max(secret.range.end);
        apart
    });
    found
}

/// What a kind of secret looks like. The group `s` is the secret, else the whole match is.
struct Shape {
    what: &'static str,
    pattern: Regex,
    judge: Judge,
}

/// What a match must also be.
#[derive(Clone, Copy)]
enum Judge {
    /// Nothing more: the shape is unmistakable.
    Sure,
    /// Anything but a placeholder.
    NoPlaceholder,
    /// A value that no prose would have there.
    Strong,
    /// As `Strong`, or a word after `=`, where prose has none.
    Assigned,
}

impl Shape {
    fn find_all<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Secret> + 't {
        self.pattern.captures_iter(text).filter_map(move |captures| {
            let found = captures.name("s").or_else(|| captures.get(0))?;
            let value = found.as_str();
            let is_secret = match self.judge {
                Judge::Sure => true,
                Judge::NoPlaceholder => !is_placeholder(value),
                Judge::Strong => !is_placeholder(value) && is_strong(value),
                Judge::Assigned => !is_placeholder(value) && (is_strong(value) || is_odd_word(value)),
            };
            is_secret.then(|| Secret {
                what: self.what,
                range: found.range(),
            })
        })
    }
}

/// Names that are followed by what must not be told.
const NAMES: &str = r"(?:pass(?:word|wd|phrase)|pwd|secret(?:[_-]?key)?|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|client[_-]?secret|(?:auth|access|refresh|session|bearer)?[_-]?token)";

static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    use Judge::{Assigned, NoPlaceholder, Strong, Sure};
    let shapes: Vec<(&'static str, Judge, String)> = vec![
        (
            "a private key",
            Sure,
            r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:[\s\S]*?-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----)?".into(),
        ),
        ("an AWS access key", Sure, r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b".into()),
        ("a GitHub token", NoPlaceholder, r"\b(?:gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_[A-Za-z0-9_]{20,255})".into()),
        ("a GitLab token", NoPlaceholder, r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_-]{16,}".into()),
        ("a Slack token", NoPlaceholder, r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-[0-9]-[A-Za-z0-9-]{10,}".into()),
        ("a Slack webhook", Sure, r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/]{20,}".into()),
        ("an Anthropic API key", NoPlaceholder, r"\bsk-ant-[A-Za-z0-9_-]{16,}".into()),
        ("an OpenAI API key", NoPlaceholder, r"\bsk-(?:proj-|svcacct-|admin-|None-)[A-Za-z0-9_-]{16,}|\bsk-[A-Za-z0-9]{20,}".into()),
        ("a Stripe key", NoPlaceholder, r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/]{24,}".into()),
        ("a Google API key", NoPlaceholder, r"\bAIza[0-9A-Za-z_-]{35}\b|\bGOCSPX-[A-Za-z0-9_-]{20,}".into()),
        ("a package registry token", NoPlaceholder, r"\bnpm_[A-Za-z0-9]{36}\b|\bpypi-[A-Za-z0-9_-]{50,}|\bdckr_pat_[A-Za-z0-9_-]{20,}".into()),
        ("a Hugging Face token", NoPlaceholder, r"\bhf_[A-Za-z0-9]{30,}".into()),
        ("a SendGrid key", NoPlaceholder, r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}".into()),
        ("a JSON Web Token", Sure, r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}".into()),
        (
            "an Authorization header",
            NoPlaceholder,
            r#"(?i-u)\bauthorization["']?\s*[:=]\s*["']?(?:bearer|basic|token|digest|apikey)\s+(?P<s>[A-Za-z0-9._~+/=-]{8,})"#.into(),
        ),
        ("a bearer token", Strong, r"(?i-u)\bbearer\s+(?P<s>[A-Za-z0-9._~+/=-]{12,})".into()),
        ("a cookie", Strong, r#"(?i)\b(?:set-)?cookie["']?\s*:\s*["']?[\w.-]+=(?P<s>[^\s;"',]{8,})"#.into()),
        ("a password in a URL", NoPlaceholder, r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@?#]*:(?P<s>[^\s/@?#]+)@".into()),
        ("the value of a password or key", Assigned, format!(r#"(?i-u)(?:\b|_){NAMES}["'`]?\s*:?=>?\s*["'`]?(?P<s>[!-~]{{6,}})"#)),
        ("the value of a password or key", Strong, format!(r#"(?i-u)(?:\b|_){NAMES}["'`]?\s*:\s*["'`]?(?P<s>[!-~]{{6,}})"#)),
        ("the value of a password or key", Strong, format!(r#"(?i-u)\b{NAMES}\s+(?:is|was|=)\s+["'`]?(?P<s>[!-~]{{6,}})"#)),
        ("the value of a password or key", Strong, r#"(?:密码|口令|密钥|令牌|秘钥)\s*(?:是|为|[::==])\s*["'`“「]?(?P<s>[!-~]{6,})"#.into()),
    ];
    let shapes = shapes.into_iter();
    shapes
        .map(|(what, judge, pattern)| Shape {
            what,
            pattern: Regex::new(&pattern).expect("the patterns of this module are tested to compile"),
            judge,
        })
        .collect()
});

/// Whether a value stands for another one, or is code that gets it from somewhere.
fn is_placeholder(value: &str) -> bool {
    let small = bare(value).to_ascii_lowercase();
    let starts = [
        "<", "$", "{", "[", "%", "(", "*", "…", "...", "your", "my-", "my_", "example", "env.", "process.", "os.",
        "config.", "secrets.", "vault:", "kv/", "op://", "xxx", "http://", "https://", "--", "/", "./",
    ];
    let words = [
        "true",
        "false",
        "null",
        "none",
        "nil",
        "undefined",
        "string",
        "str",
        "number",
        "boolean",
        "required",
        "optional",
        "empty",
        "redacted",
        "hidden",
        "masked",
        "placeholder",
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "changeme",
        "change-me",
        "change_me",
        "unset",
        "missing",
        "unknown",
        "bearer",
        "basic",
        "pass",
        "pwd",
    ];
    small.is_empty()
        || starts.iter().any(|start| small.starts_with(start))
        || words.contains(&small.as_str())
        || small.contains(['<', '(', '{', '*', '…'])
        || small.contains("...")
        || small.contains("env[")
        || small.contains("://")
        || small.contains("example") && !small.contains(|c: char| c.is_ascii_digit())
        || small
            .rsplit(['-', '_'])
            .next()
            .is_some_and(|last| last.bytes().all(|byte| matches!(byte, b'x' | b'.')))
}

/// Whether a value has the look of one that was made up to be guessed by nobody.
fn is_strong(value: &str) -> bool {
    let value = bare(value);
    let has = |test: fn(char) -> bool| value.contains(test);
    let (small, large, digit) = (
        has(|c| c.is_ascii_lowercase()),
        has(|c| c.is_ascii_uppercase()),
        has(|c| c.is_ascii_digit()),
    );
    let sign = has(|c| "!@#$%^&+=~?".contains(c));
    let inner_capital = value.chars().skip(1).any(|c| c.is_ascii_uppercase());
    let length = value.chars().count();
    // Names of files, fields and versions: `session_id_v2`, `base64-encoded`, `src/auth.ts`.
    let is_name = value.split(['-', '_', '.', '/', ':']).all(|part| {
        let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
        part.len() - letters.len() <= 2 && letters.chars().all(|c| c.is_ascii_lowercase()) && letters.len() <= 16
    }) && value.contains(['-', '_', '.', '/', ':']);
    let is_identifier = !digit && !sign && small && large && length < 20;
    length >= 6
        && !is_name
        && !is_identifier
        && (digit && (small || large)
            || sign && (small || large || digit)
            || small && inner_capital
            || length >= 24 && (small || large))
        && !value.contains(['(', ')'])
}

/// A word in small letters: no prose has one without a space after `password=`.
fn is_odd_word(value: &str) -> bool {
    let value = bare(value);
    value.len() >= 6 && value.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// A value without the quotes and the punctuation of the sentence around it.
fn bare(value: &str) -> &str {
    let end = value.find(['"', '\'', '`', ',', ';', '|']).unwrap_or(value.len());
    value[..end].trim_end_matches(['.', ')', ']', '}', ':', '!', '?'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Put together here, so that no scanner takes this file for a leak.
    fn made(start: &str, length: usize) -> String {
        let tail = "aB3dE5fG7hJ9kL2mN4pQ6rS8tU1vW3xY5z".chars().cycle().take(length);
        start.chars().chain(tail).collect()
    }

    #[test]
    fn each_kind_is_found_where_it_is() {
        let aws = format!("AKIA{}", "IOSFODNN7EXAMPLE");
        let pem = [
            "-----BEGIN RSA PRIVATE ",
            "KEY-----\nMIIE\n-----END RSA PRIVATE ",
            "KEY-----",
        ]
        .concat();
        for (secret, what) in [
            (pem.as_str(), "private key"),
            ("-----BEGIN OPENSSH PRIVATE KEY-----", "private key"),
            ("-----BEGIN PGP PRIVATE KEY BLOCK-----", "private key"),
            (&aws, "AWS"),
            (&made("ghp_", 36), "GitHub"),
            (&made("gho_", 36), "GitHub"),
            (&made("github_pat_", 60), "GitHub"),
            (&made("glpat-", 20), "GitLab"),
            (&made("xoxb-", 40), "Slack"),
            (&made("https://hooks.slack.com/services/", 40), "Slack"),
            (&made("sk-ant-api03-", 80), "Anthropic"),
            (&made("sk-", 48), "OpenAI"),
            (&made("sk-proj-", 48), "OpenAI"),
            (&made("sk_live_", 24), "Stripe"),
            (&made("AIza", 35), "Google"),
            (&made("npm_", 36), "registry"),
            (&made("hf_", 34), "Hugging"),
            (
                &[made("eyJ", 20), made("eyJ", 40), made("", 30)].join("."),
                "JSON Web Token",
            ),
        ] {
            let text = format!("用这个 {secret} 部署");
            let found = find_secret(&text).unwrap_or_else(|| panic!("{secret}"));
            assert!(found.what.contains(what), "{secret}: {}", found.what);
            assert_eq!(&text[found.range.clone()], secret);
            assert_eq!(found.characters(&text), 4..4 + secret.chars().count(), "{secret}");
        }
    }

    #[test]
    fn values_are_found_after_their_names() {
        let basic = made("", 24);
        for (text, secret) in [
            ("Authorization: Bearer abcdef123456XYZ", "abcdef123456XYZ"),
            (&format!("curl -H 'authorization: Basic {basic}'"), basic.as_str()),
            ("send bearer 9f8e7d6c5b4a39281706 with it", "9f8e7d6c5b4a39281706"),
            ("Cookie: session=9f8e7d6c5b4a3928; path=/", "9f8e7d6c5b4a3928"),
            ("postgres://admin:s3cr3t@db.internal/app", "s3cr3t"),
            ("redis://:hunter2@cache:6379/0", "hunter2"),
            ("password=hunter2", "hunter2"),
            ("PASSWORD = \"correct-Horse7\"", "correct-Horse7"),
            ("export DB_PASSWORD=swordfish", "swordfish"),
            ("{\"password\": \"hunter2!\"}", "hunter2!"),
            ("password: hunter2", "hunter2"),
            ("the password is Hunter2024", "Hunter2024"),
            ("api_key: 9a8b7c6d5e4f", "9a8b7c6d5e4f"),
            ("API-KEY=9a8b7c6d5e4f", "9a8b7c6d5e4f"),
            (
                "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            ),
            ("client_secret='Zx81-kk29-pq77'", "Zx81-kk29-pq77"),
            ("?access_token=9f8e7d6c5b", "9f8e7d6c5b"),
            ("管理员密码是 Adm1n#2024", "Adm1n#2024"),
            ("密码:Adm1n2024", "Adm1n2024"),
        ] {
            let found = find_secret(text).unwrap_or_else(|| panic!("{text}"));
            assert!(
                text[found.range.clone()].starts_with(secret),
                "{text}: {}",
                &text[found.range]
            );
        }
    }

    #[test]
    fn what_only_speaks_of_secrets_is_none() {
        for text in [
            "The password is kept in vault under kv/staging.",
            "password: required, at least 8 characters",
            "Set the token in the environment variable GITHUB_TOKEN.",
            "password=<password>",
            "PASSWORD=${DB_PASSWORD}",
            "token: $TOKEN",
            "token=***",
            "api_key=your-api-key",
            "api_key = os.environ['API_KEY']",
            "const token = getToken();",
            "token: string; secret: boolean",
            "interface Login { password: string }",
            "Authorization: Bearer <token>",
            "Authorization: Bearer ${TOKEN}",
            "Use bearer authentication for the internal API.",
            "The token goes in the X-Auth-Token header, not in Authorization.",
            "postgres://user:password@localhost/db",
            "postgres://${USER}:${PASS}@host/db",
            "see https://example.com:8080/path and http://localhost:3000",
            "git@github.com:acme/shop.git",
            "sk-learn is a package, and so is task-runner-for-everything-else",
            "The design tokens are in tokens.css",
            "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "-----BEGIN PUBLIC KEY-----",
            "-----BEGIN CERTIFICATE-----",
            "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 broke it",
            "sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "id 550e8400-e29b-41d4-a716-446655440000",
            "登录令牌 30 分钟后过期",
            "密码是必填项,长度至少 8 位",
            "密码:见保险库",
            "the secret is that it works",
            "password: see 1Password",
            "token = await auth.refresh(token)",
            "Password fields need autocomplete=new-password",
            "secret: kv/staging/db",
            "the refresh token: rotated every 30 minutes",
            "access_key_id is read from ~/.aws",
            "grant_type=password&scope=read",
        ] {
            assert_eq!(
                find_secret(text),
                None,
                "{text}: {:?}",
                find_secret(text).map(|found| text[found.range].to_owned())
            );
        }
    }

    #[test]
    fn several_are_found_in_order_without_overlaps() {
        let key = made("ghp_", 36);
        let text = format!("token={key} and password=hunter2 and Authorization: Bearer {key}");
        let found = find_secrets(&text);
        assert_eq!(found.len(), 3);
        assert!(found.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
    }

    proptest! {
        #[test]
        fn any_text_can_be_searched(text in any::<String>()) {
            for secret in find_secrets(&text) {
                prop_assert!(text.get(secret.range.clone()).is_some());
                prop_assert!(secret.characters(&text).end <= text.chars().count());
            }
        }
    }
}
