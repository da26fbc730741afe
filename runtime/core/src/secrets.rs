//! Secrets in texts: keys, tokens and passwords that should not be written down again.
//!
//! Answers for finding them with their place. Leaves out what is done about them: one tool refuses a text, another one
//! redacts it. What only has the shape of a secret (`<token>`, `${TOKEN}`, `***`, `password: required`) is none.
//!
//! The shapes are those that the issuers document. Values after a name such as `password` are judged by their look, as
//! prose has such names, too: they need letters and digits, or letters of both cases, or signs.
//!
//! Nearly no text has any. So each shape has needles, of which every match has one, and one run over a text looks for all
//! of them: a pattern is asked only where one of its needles is.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use regex::Regex;

use crate::needles::Needles;

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

/// Whether a text may have a secret, which one run over it says: `false` is sure, and nearly always the answer. A text is
/// answered for by its parts, if they are parted by a colon and a space.
pub(crate) fn may_have_secret(text: &str) -> bool {
    let narrow = narrow(text);
    SHAPES.needles.marks(narrow.as_deref().unwrap_or(text)) != 0
}

/// Literals of which every text with a secret has one, with full-width characters as plain ones ([`narrow`]).
pub(crate) fn needles() -> impl Iterator<Item = &'static str> {
    let needles = SHAPES.shapes.iter().flat_map(|shape| &shape.needles);
    needles.map(String::as_str)
}

/// The secrets of a text in order, without overlaps. Linear in its length for each shape.
pub fn find_secrets(text: &str) -> Vec<Secret> {
    let narrow = narrow(text);
    let searched = narrow.as_deref().unwrap_or(text);
    let found: Vec<Secret> = SHAPES
        .possible(searched)
        .flat_map(|shape| shape.find_all(searched))
        .collect();
    if found.is_empty() {
        found
    } else {
        apart(found, searched, text)
    }
}

/// What was found in `searched`, in order and without overlaps, with its places in `text`, of which that is another way to
/// write the same characters.
fn apart(mut found: Vec<Secret>, searched: &str, text: &str) -> Vec<Secret> {
    if searched.len() != text.len() {
        for secret in &mut found {
            secret.range = same_characters(searched, &secret.range, text);
        }
    }
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

/// A text with its full-width letters, digits and signs as plain ones, character for character; `None` when it has none.
pub(crate) fn narrow(text: &str) -> Option<String> {
    // The first byte of each.
    memchr::memchr(0xEF, text.as_bytes())?;
    let wide = |c: char| matches!(c, '\u{FF01}'..='\u{FF5E}');
    let plain = |c: char| {
        let code = if wide(c) { u32::from(c) - 0xFEE0 } else { u32::from(c) };
        char::from_u32(code).unwrap_or(c)
    };
    text.contains(wide).then(|| text.chars().map(plain).collect())
}

/// The bytes of `to` that its characters have that are at `range` in `from`.
fn same_characters(from: &str, range: &Range<usize>, to: &str) -> Range<usize> {
    let at = |bytes: usize| {
        let characters = from[..bytes].chars().count();
        to.char_indices().nth(characters).map_or(to.len(), |(at, _)| at)
    };
    at(range.start)..at(range.end)
}

/// What a kind of secret looks like. The group `s` is the secret, else the whole match is.
struct Shape {
    what: &'static str,
    judge: Judge,
    /// Each match has one of them.
    needles: Vec<String>,
    source: String,
    /// Made when it is asked for the first time: most never are.
    pattern: OnceLock<Regex>,
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
    /// Anything but a placeholder, and none that is the user's name again, as examples for a local machine have it.
    InUrl,
    /// As `Strong`, or a word after `=`, where prose has none.
    Assigned,
}

impl Shape {
    fn pattern(&self) -> &Regex {
        self.pattern
            .get_or_init(|| Regex::new(&self.source).expect("the patterns of this module are tested to compile"))
    }

    fn find_all<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Secret> + 't {
        // Nearly no text has any: to ask that first spares the room for groups.
        let mut at = self.pattern().is_match(text).then_some(0);
        let places = std::iter::from_fn(move || {
            let captures = self.pattern().captures_at(text, at?)?;
            let (whole, group) = (captures.get(0)?, captures.name("s"));
            let place = group.unwrap_or(whole).range();
            let ended = match self.judge {
                Judge::Strong | Judge::Assigned if group.is_some() => value_end(text, &place),
                _ => place.end,
            };
            // What stands behind the end of a value is searched, too.
            at = Some(if ended < place.end { ended } else { whole.end() }.max(place.start + 1));
            Some(place.start..ended)
        });
        places.filter_map(move |found| {
            let value = &text[found.clone()];
            let is_secret = match self.judge {
                Judge::Sure => true,
                Judge::NoPlaceholder => !is_placeholder(value),
                Judge::InUrl => {
                    !is_placeholder(value) && !is_of_local_example(&text[..found.start], value, &text[found.end..])
                }
                Judge::Strong => !is_placeholder(value) && !is_description(value) && is_strong(value),
                Judge::Assigned => {
                    !is_placeholder(value) && !is_description(value) && (is_strong(value) || is_odd_word(value))
                }
            };
            is_secret.then_some(Secret {
                what: self.what,
                range: found,
            })
        })
    }
}

/// The quotation mark that is open at a place of a line.
pub(crate) fn enclosing_quote(text: &str, at: usize) -> Option<char> {
    const FARTHEST: usize = 512;
    let before = &text.as_bytes()[at.saturating_sub(FARTHEST)..at];
    let begin = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut open = None;
    for (n, &byte) in before.iter().enumerate().skip(begin) {
        // The apostrophe of a word opens nothing.
        let in_word = n > begin && before[n - 1].is_ascii_alphanumeric();
        match open {
            None if matches!(byte, b'"' | b'\'' | b'`') && !in_word => open = Some(byte),
            Some(quote) if byte == quote => open = None,
            _ => {}
        }
    }
    open.map(char::from)
}

/// Where a value ends because another pair begins: `&name=` of a form, `;name=` of a connection string.
pub(crate) fn next_pair(value: &str) -> Option<usize> {
    value.match_indices(['&', ';']).map(|(at, _)| at).find(|&at| {
        let rest = value[at + 1..].trim_start();
        let name = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_.-%[] ".contains(c));
        rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.starts_with('=')
            || value[at..].starts_with(';') && rest.is_empty()
    })
}

/// Where the value at `place` ends: with its quotation, or before the next pair.
fn value_end(text: &str, place: &Range<usize>) -> usize {
    let value = &text[place.clone()];
    let quote = enclosing_quote(text, place.start).and_then(|quote| value.find(quote));
    let end = quote.unwrap_or(value.len());
    let is_quoted = text[..place.start].ends_with(['"', '\'', '`']);
    let pair = if is_quoted { None } else { next_pair(&value[..end]) };
    place.start + pair.unwrap_or(end)
}

/// Names that are followed by what must not be told.
const NAMES: &str = r"(?:pass(?:word|wd|phrase)|pwd|secret(?:[_-]?key(?:[_-]?base)?)?|api[_-]?key|account[_-]?key|shared[_-]?access[_-]?key|(?:encryption|signing|master|storage)[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|client[_-]?secret|(?:db|pg|mysql|redis|root|admin|user|smtp)[_-]?pass|(?:auth|access|refresh|session|bearer)?[_-]?token)";

/// Needles of [`NAMES`].
static NAMED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let keys = [
        "api",
        "account",
        "access",
        "encryption",
        "signing",
        "master",
        "storage",
        "private",
    ];
    let passes = ["db", "pg", "mysql", "redis", "root", "admin", "user", "smtp"];
    let keys = keys.iter().map(|word| (word, "key"));
    let ends = keys.chain(passes.iter().map(|word| (word, "pass")));
    let words = ["password", "passwd", "passphrase", "pwd", "secret", "token"];
    let joined = ends.flat_map(|(word, end)| ["", "_", "-"].map(|between| format!("{word}{between}{end}")));
    joined.chain(words.map(str::to_owned)).collect()
});

/// All shapes, and what tells which of them a text may have.
struct Shapes {
    shapes: Vec<Shape>,
    /// Their marks are one bit for each shape.
    needles: Needles,
}

impl Shapes {
    fn new(shapes: Vec<Shape>) -> Self {
        assert!(shapes.len() <= 64, "there is one bit for each");
        let all = shapes.iter().enumerate();
        let needles = all.flat_map(|(at, shape)| shape.needles.iter().map(move |needle| (needle, 1_u64 << at)));
        Self {
            needles: Needles::new(needles),
            shapes,
        }
    }

    /// Those of which the text has a needle.
    fn possible(&self, text: &str) -> impl Iterator<Item = &Shape> {
        let found = self.needles.marks(text);
        let shapes = self.shapes.iter().enumerate();
        shapes.filter_map(move |(at, shape)| (found >> at & 1 == 1).then_some(shape))
    }
}

static SHAPES: LazyLock<Shapes> = LazyLock::new(|| {
    use Judge::{Assigned, InUrl, NoPlaceholder, Strong, Sure};
    let of = |what, judge, needles, source| Shape {
        what,
        judge,
        needles,
        source,
        pattern: OnceLock::new(),
    };
    let shape = |what, judge, needles: &[&str], source: &str| {
        let needles = needles.iter().map(|&needle| needle.to_owned()).collect();
        of(what, judge, needles, source.to_owned())
    };
    let named = |judge, source| of("the value of a password or key", judge, NAMED.clone(), source);
    let command = "a password on a command line";
    Shapes::new(vec![
        shape(
            "a private key",
            Sure,
            &["PRIVATE KEY"],
            r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:[\s\S]*?-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----)?",
        ),
        shape(
            "an AWS access key",
            Sure,
            &["AKIA", "ASIA", "ABIA", "ACCA"],
            r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
        ),
        shape(
            "a GitHub token",
            NoPlaceholder,
            &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
            r"\b(?:gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_[A-Za-z0-9_]{20,255})",
        ),
        shape(
            "a GitLab token",
            NoPlaceholder,
            &["glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-"],
            r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_-]{16,}",
        ),
        shape(
            "a Slack token",
            NoPlaceholder,
            &["xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"],
            r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-[0-9]-[A-Za-z0-9-]{10,}",
        ),
        shape(
            "a Slack webhook",
            Sure,
            &["hooks.slack.com/"],
            r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/]{20,}",
        ),
        shape(
            "an Anthropic API key",
            NoPlaceholder,
            &["sk-ant-"],
            r"\bsk-ant-[A-Za-z0-9_-]{16,}",
        ),
        shape(
            "an OpenAI API key",
            NoPlaceholder,
            &["sk-"],
            r"\bsk-(?:proj-|svcacct-|admin-|None-)[A-Za-z0-9_-]{16,}|\bsk-[A-Za-z0-9]{20,}",
        ),
        shape(
            "a Stripe key",
            NoPlaceholder,
            &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"],
            r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/]{24,}",
        ),
        shape(
            "a Google API key",
            NoPlaceholder,
            &["AIza", "GOCSPX-"],
            r"\bAIza[0-9A-Za-z_-]{35}\b|\bGOCSPX-[A-Za-z0-9_-]{20,}",
        ),
        shape(
            "a package registry token",
            NoPlaceholder,
            &["npm_", "pypi-", "dckr_pat_"],
            r"\bnpm_[A-Za-z0-9]{36}\b|\bpypi-[A-Za-z0-9_-]{50,}|\bdckr_pat_[A-Za-z0-9_-]{20,}",
        ),
        shape(
            "a Hugging Face token",
            NoPlaceholder,
            &["hf_"],
            r"\bhf_[A-Za-z0-9]{30,}",
        ),
        shape(
            "an age key",
            NoPlaceholder,
            &["AGE-SECRET-KEY-1"],
            r"\bAGE-SECRET-KEY-1[A-Z0-9]{20,}",
        ),
        shape(
            "a Google access token",
            NoPlaceholder,
            &["ya29."],
            r"\bya29\.[A-Za-z0-9_-]{20,}",
        ),
        shape(
            "a DigitalOcean token",
            NoPlaceholder,
            &["dop_v1_", "doo_v1_", "dor_v1_"],
            r"\bdo[por]_v1_[a-f0-9]{32,}",
        ),
        shape(
            "a Shopify token",
            NoPlaceholder,
            &["shpat_", "shpca_", "shppa_", "shpss_"],
            r"\bshp(?:at|ca|pa|ss)_[A-Fa-f0-9]{24,}",
        ),
        shape(
            "a Telegram bot token",
            NoPlaceholder,
            &[":AA"],
            r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b",
        ),
        shape(
            "a SendGrid key",
            NoPlaceholder,
            &["SG."],
            r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        ),
        shape(
            "a JSON Web Token",
            Sure,
            &["eyJ"],
            r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}",
        ),
        shape(
            "an Authorization header",
            NoPlaceholder,
            &["authorization"],
            r#"(?i-u)\bauthorization["']?\s*[:=]\s*["']?(?:bearer|basic|token|digest|apikey)\s+(?P<s>[A-Za-z0-9._~+/=-]{8,})"#,
        ),
        shape(
            "a bearer token",
            Strong,
            &["bearer"],
            r"(?i-u)\bbearer\s+(?P<s>[A-Za-z0-9._~+/=-]{12,})",
        ),
        shape(
            "a cookie",
            Strong,
            &["cookie", "coo\u{212A}ie"],
            r#"(?i)\b(?:set-)?cookie["']?\s*:\s*["']?[\w.-]+=(?P<s>[^\s;"',]{8,})"#,
        ),
        shape(
            "a password in a URL",
            InUrl,
            &["://"],
            r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@?#]*:(?P<s>[^\s/@?#]+)@",
        ),
        named(
            Assigned,
            format!(
                r#"(?i-u)\b_{{0,2}}(?:[a-z0-9]+[_-]{{1,2}})*?(?:[a-z0-9]{{0,24}}?){NAMES}["'`]?\]?\s*:?=>?\s*["'`]?(?P<s>[!-~]{{6,}})"#
            ),
        ),
        named(
            Strong,
            format!(
                r#"(?i-u)\b_{{0,2}}(?:[a-z0-9]+[_-]{{1,2}})*?(?:[a-z0-9]{{0,24}}?){NAMES}["'`]?\s*:\s*["'`]?(?P<s>[!-~]{{6,}})"#
            ),
        ),
        named(
            Strong,
            format!(
                r#"(?i-u)\b{NAMES}\s+(?:(?:for|of|to|on|in)\s+(?:[!-~]+\s+){{1,4}}?)?(?:is|was|=)\s+(?:now\s+|still\s+)?["'`]?(?P<s>[!-~]{{6,}})"#
            ),
        ),
        shape(
            "the value of a password or key",
            Strong,
            &["密码", "口令", "密钥", "令牌", "秘钥"],
            r#"(?:密码|口令|密钥|令牌|秘钥)\s*(?:是|为|改为|改成|设为|[:：=＝])?\s*["'`“「]?(?P<s>[!-~]{6,})"#,
        ),
        named(
            Strong,
            format!(
                r#"(?i-u)\b_{{0,2}}(?:[a-z0-9]+[_-]{{1,2}})*?(?:[a-z0-9]{{0,24}}?){NAMES}\??\s*:\s*&?(?:'static\s+)?[a-z][a-z0-9_.<>]*\s*=\s*["'](?P<s>[!-~]{{6,}})"#
            ),
        ),
        named(
            Strong,
            format!(r#"(?i-u)\b{NAMES}\s+(?:for|of)\s+(?:[!-~]+\s+){{0,3}}?[a-z0-9_.@-]+:\s+["'`]?(?P<s>[!-~]{{6,}})"#),
        ),
        shape(
            "the value of a password or key",
            Strong,
            &["_auth"],
            r#"\b_auth\s*=\s*["']?(?P<s>[!-~]{6,})"#,
        ),
        shape(
            "a password in SQL",
            Assigned,
            &["identified"],
            r#"(?i-u)\bidentified\s+(?:with\s+[!-~]+\s+)?by\s+["'](?P<s>[!-~]{6,})"#,
        ),
        shape(
            "a password in SQL",
            Assigned,
            &["password"],
            r#"(?i-u)\b(?:with|set|encrypted)\s+password\s+["'](?P<s>[!-~]{6,})"#,
        ),
        shape(
            command,
            Assigned,
            &["-p"],
            r#"\b(?:docker|podman|nerdctl|buildah|skopeo|helm|crane|az|oc|cf)\b[^\n|;&]*?\slogin\b[^\n|;&]*?\s-p[\s=]+["']?(?P<s>[!-~]{6,})"#,
        ),
        shape(
            command,
            Assigned,
            &["redis-cli"],
            r#"\bredis-cli\b[^\n|;]*?\s(?:-a|--pass)[\s=]+["']?(?P<s>[!-~]{6,})"#,
        ),
        shape(
            command,
            Assigned,
            &["pass:"],
            r#"\s-pass(?:in|out)?\s+["']?pass:(?P<s>[!-~]{6,})"#,
        ),
        shape(
            command,
            Assigned,
            &["mysql", "mariadb"],
            r#"\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;]*?\s-p["']?(?P<s>[!-~]{6,})"#,
        ),
        shape(
            command,
            Assigned,
            &["sshpass"],
            r#"\bsshpass\s+-p\s*["']?(?P<s>[!-~]{6,})"#,
        ),
        shape(
            command,
            Assigned,
            &["curl"],
            r#"\bcurl\b[^\n|;]*?\s(?:-u|--user)[\s=]*["']?[^\s:"']+:(?P<s>[!-~]{6,})"#,
        ),
        shape(
            command,
            Assigned,
            &["-password", "-passwd", "-token", "-secret", "-api-key"],
            r#"(?im-u)(?:^|\s)--?(?:password|passwd|token|secret|api-key)\s+["']?(?P<s>[!-~]{6,})"#,
        ),
    ])
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

/// Whether a password is the user's name or a default, at this machine: `postgres:postgres@localhost`.
fn is_of_local_example(before: &str, password: &str, after: &str) -> bool {
    let user = before.trim_end_matches(':').rsplit('/').next().unwrap_or_default();
    let host = after.trim_start_matches('@');
    let local = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0", "host.docker.internal"];
    let default = [
        "postgres", "root", "admin", "guest", "test", "dev", "user", "mysql", "redis",
    ];
    local.iter().any(|name| host.starts_with(name)) && (user == password || default.contains(&password))
}

/// Whether a value names a way to make or to keep values, or says in what state one is.
fn is_description(value: &str) -> bool {
    let value = bare(value).to_ascii_lowercase();
    let starts = [
        "argon2", "bcrypt", "scrypt", "pbkdf2", "sha1", "sha2", "sha3", "sha5", "sha-", "md5", "hmac", "base64",
        "base32", "base58", "rs256", "rs384", "rs512", "hs256", "hs384", "hs512", "es256", "es384", "ps256", "eddsa",
        "ed25519", "rsa", "aes", "ecdsa", "x25519", "secp256", "chacha20", "blake", "uuid", "jwt", "k8s", "oauth2",
        "totp", "utf8", "utf-8",
    ];
    let states = [
        "expired",
        "invalid",
        "revoked",
        "rotated",
        "refreshed",
        "valid",
        "disabled",
        "enabled",
        "default",
        "optional",
        "generated",
        "encrypted",
        "hashed",
        "signed",
        "stored",
        "cached",
        "deprecated",
        "rejected",
        "accepted",
        "present",
        "absent",
    ];
    let limit = [
        "minlength",
        "maxlength",
        "min-length",
        "max-length",
        "min_length",
        "max_length",
        "length",
        "min",
        "max",
        "ttl",
    ];
    // What follows an algorithm is another word or a number, not a salt: `sha256-hashed`, `rsa2048`, `aes-256-gcm`.
    let is_algorithm = starts.iter().any(|start| value.starts_with(start))
        && value.len() <= 24
        && value.split(['-', '_', '/', ':', '.', '+']).all(|part| {
            let letters = part.trim_matches(|c: char| c.is_ascii_digit());
            letters.chars().all(|c| c.is_ascii_lowercase()) || starts.iter().any(|start| part.starts_with(start))
        });
    let is_path = value.contains('/')
        && value.split('/').all(|part| {
            part.len() <= 16
                && part
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c))
                && part.chars().filter(char::is_ascii_digit).count() <= 2
        });
    is_algorithm
        || is_path
        || states.contains(&value.as_str())
        || limit.iter().any(|word| {
            value.strip_prefix(word).is_some_and(|rest| {
                rest.trim_start_matches(['=', ':'])
                    .bytes()
                    .all(|byte| byte.is_ascii_digit())
            })
        })
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
            (&made("ya29.", 40), "Google"),
            (
                &format!("AGE-SECRET-KEY-{}", "1QL3Z7HJY54PW3HYWW5AYYFG7ZQGVC7W3J"),
                "age",
            ),
            (&format!("dop_v1_{}", "0123456789abcdef".repeat(4)), "DigitalOcean"),
            (&format!("shpat_{}", "0123456789abcdef".repeat(2)), "Shopify"),
            (&format!("123456789:{}", made("AA", 33)), "Telegram"),
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
            ("密码:Adm1n2024", "Adm1n2024"),
            ("测试账号的密码 Adm1n2024", "Adm1n2024"),
            ("密码改为 Adm1n2024", "Adm1n2024"),
            ("密码\u{FF1A}Ａｄｍ１ｎ２０２４", "Ａｄｍ１ｎ２０２４"),
            ("ｐａｓｓｗｏｒｄ＝ｈｕｎｔｅｒ２", "ｈｕｎｔｅｒ２"),
            ("PGPASSWORD=hunter2x psql", "hunter2x"),
            ("dbPassword: hunter2x", "hunter2x"),
            ("dbPassword=swordfish", "swordfish"),
            ("DB_PASS=swordfish7", "swordfish7"),
            ("SECRET_KEY_BASE=9f8e7d6c5b4a39281706", "9f8e7d6c5b4a39281706"),
            ("ENCRYPTION_KEY: 9f8e7d6c5b4a39281706", "9f8e7d6c5b4a39281706"),
            (
                "AccountName=shop;AccountKey=Zx81kk29pq77Zx81kk29pq77==",
                "Zx81kk29pq77Zx81kk29pq77==",
            ),
            ("SharedAccessKey=Zx81kk29pq77Zx81kk29pq77=", "Zx81kk29pq77Zx81kk29pq77="),
            ("mysql -u root -phunter2x shop", "hunter2x"),
            ("curl -u admin:hunter2x https://ci.internal", "hunter2x"),
            ("sshpass -p hunter2x ssh box", "hunter2x"),
            ("--password hunter22", "hunter22"),
            (
                "//registry.npmjs.org/:_authToken=9f8e7d6c-5b4a-3928",
                "9f8e7d6c-5b4a-3928",
            ),
            ("//registry.npmjs.org/:_password=aHVudGVyMg==", "aHVudGVyMg=="),
            ("_auth=aHVudGVyMjEyMw==", "aHVudGVyMjEyMw=="),
            ("VITE__API_KEY=hunter2x", "hunter2x"),
            ("os.environ[\"DB_PASSWORD\"] = \"hunter2x\"", "hunter2x"),
            ("let password: &str = \"hunter2x\";", "hunter2x"),
            ("const token: string = 'hunter2x'", "hunter2x"),
            ("Password for admin: hunter2x", "hunter2x"),
            ("CREATE USER bob IDENTIFIED BY 'hunter2x'", "hunter2x"),
            ("ALTER ROLE bob WITH PASSWORD 'swordfish'", "swordfish"),
            ("docker login -u bob -p hunter2x registry", "hunter2x"),
            ("az login --service-principal -u app -p hunter2x", "hunter2x"),
            ("redis-cli -h cache -a hunter2x ping", "hunter2x"),
            ("openssl rsa -in a.pem -passin pass:hunter2x", "hunter2x"),
            ("the password for staging is Hunter2024", "Hunter2024"),
            ("password for the admin user is hunter2x", "hunter2x"),
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
            "password: argon2id with 64 MB",
            "Passwords are stored as password=argon2id",
            "the password is sha256-hashed before it is sent",
            "the token is base64 of the user id",
            "the token is RS256-signed",
            "token: HS256",
            "secret: k8s/prod/db",
            "the secret is k8s/prod/db",
            "token=expired",
            "the redirect has ?token=invalid then",
            "password: minLength8",
            "private key: RSA2048",
            "postgres://postgres:postgres@localhost:5432/shop",
            "amqp://guest:guest@localhost:5672",
            "mysql -u root -p shop",
            "curl -u \"$USER:$TOKEN\" https://ci.internal",
            "the password for staging is in the vault",
            "密码 argon2id 加密",
            "tokenizer: bert2024base",
            "mkdir -p packages/shared",
            "ssh -l login -p 22022 host",
            "docker compose -p project up && npm login",
            "let token: Token = lexer.next_token()?;",
            "password: str = Field(min_length=8)",
            "the token for step 2: use the one of the vault",
            "The secret of the page: see docs/secrets.md",
            "a form with password 'field' and a button",
            "openssl rsa -passin pass:$PASS",
            "_author=somebody",
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

    /// What [`find_secrets`] finds when every pattern is asked.
    fn found_by_all(text: &str) -> Vec<Secret> {
        let narrow = narrow(text);
        let searched = narrow.as_deref().unwrap_or(text);
        let found = SHAPES
            .shapes
            .iter()
            .flat_map(|shape| shape.find_all(searched))
            .collect();
        apart(found, searched, text)
    }

    /// Texts of parts of secrets, in all the ways in which letters are written that some pattern takes for the same.
    fn texts() -> impl Strategy<Value = String> {
        const PARTS: &str = "-----BEGIN RSA PRIVATE KEY-----|-----END RSA PRIVATE KEY-----|AKIA|IOSFODNN7EXAMPLE|ghp_|github_pat_|glpat-|\
            xoxb-|xapp-1-|https://hooks.slack.com/services/|sk-ant-|sk-|sk-proj-|sk_live_|whsec_|AIza|GOCSPX-|npm_|pypi-|dckr_pat_|\
            hf_|AGE-SECRET-KEY-1|ya29.|dop_v1_|shpat_|123456789:AA|SG.|eyJ|.eyJ|Authorization: |Bearer |basic |set-cookie: |\
            cookie\": \"a=|postgres://admin:|@db|@localhost|password|pass|pwd|secret_key|api-key|account_key|signing key|db_pass|\
            token|access|refresh_|密码|令牌|是|=|:|: |=>| is | for the |mysql -u root -p|sshpass -p |curl -u a:| --user |--token |\
            -p|hunter2x|swordfish|Tr0ub4dor&3xyz|9f8e7d6c5b4a39281706|argon2id|&x=|; | |\"|'|\n|aB3dE5fG7hJ9kL2mN4pQ6rS8tU1vW3xY5z";
        let parts: Vec<&str> = PARTS.split('|').collect();
        let part = prop_oneof![
            8 => prop::sample::select(parts).prop_map(str::to_owned),
            1 => "[A-Za-z0-9_-]{0,40}",
            1 => "\\PC{0,4}",
        ];
        let written = |part: String, how: u8| -> String {
            let each = |c: char| match (how, c) {
                (8, 's' | 'S') => 'ſ',
                (8, 'k' | 'K') => '\u{212A}',
                (9, '!'..='~') => char::from_u32(u32::from(c) + 0xFEE0).unwrap_or(c),
                (10, c) => c.to_ascii_uppercase(),
                (11, c) if u32::from(c) % 2 == 0 => c.to_ascii_uppercase(),
                (12, c) => c.to_ascii_lowercase(),
                _ => c,
            };
            part.chars().map(each).collect()
        };
        let written = (part, 0_u8..16).prop_map(move |(part, how)| written(part, how));
        prop::collection::vec(written, 0..14).prop_map(|parts| parts.concat())
    }

    #[test]
    fn every_match_of_a_pattern_has_one_of_its_needles() {
        for (at, shape) in SHAPES.shapes.iter().enumerate() {
            // One counts its cases over all that it runs.
            let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(96));
            // A strategy knows no place between characters.
            let source = shape.source.replace(r"\b", "").replace(r"(?:^|\s)", r"\s");
            let matches = proptest::string::string_regex(&source).unwrap();
            let found = runner.run(&matches, |text| {
                prop_assert!(SHAPES.possible(&text).any(|possible| possible.source == shape.source));
                Ok(())
            });
            found.unwrap_or_else(|error| panic!("{at}, {}: {error}", shape.what));
        }
    }

    #[test]
    fn most_texts_are_done_with_after_one_run() {
        let text = "Step 1: write the failing test and make it pass";
        assert_eq!(SHAPES.possible(text).count(), 0);
        let possible: Vec<&str> = SHAPES.possible("hooks.slack.com/").map(|shape| shape.what).collect();
        assert_eq!(possible, ["a Slack webhook"]);
    }

    proptest! {
        #[test]
        fn needles_overlook_nothing(text in texts()) {
            let found = find_secrets(&text);
            prop_assert_eq!(&found, &found_by_all(&text));
            prop_assert!(found.is_empty() || may_have_secret(&text));
        }

        #[test]
        fn the_parts_of_a_text_answer_for_it(name in texts(), text in texts()) {
            let found = find_secret(&format!("{name}: {text}"));
            prop_assert!(found.is_none() || may_have_secret(&name) || may_have_secret(&text));
        }

        #[test]
        fn any_text_can_be_searched(text in any::<String>()) {
            for secret in find_secrets(&text) {
                prop_assert!(text.get(secret.range.clone()).is_some());
                prop_assert!(secret.characters(&text).end <= text.chars().count());
            }
        }
    }
}
