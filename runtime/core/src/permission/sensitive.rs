//! Files that hold secrets or much data: which they are, and how much it matters.
//!
//! Answers for the one list of them, for the sandbox and for permission. Leaves out what is done about them.
//!
//! A path is compared without regard to case, in the common form of look-alike letters (Unicode NFKC), without characters
//! that cannot be seen, and with what Windows drops at the end of a component taken off: one file system or another takes
//! all those for the same file.

use std::fmt;
use std::sync::{Arc, LazyLock};

use devloop_contract::glob::Pattern;
use serde::Serialize;
use unicode_normalization::UnicodeNormalization;

use crate::text::is_invisible;

/// How much it matters that a call touches a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Databases and dumps: the decision notes them.
    Low,
    /// Settings that often hold a password: a person is asked each time, unless everything is bypassed.
    Medium,
    /// Keys, credentials and version control: refused in every mode, for reading and for writing.
    High,
}

impl Level {
    /// The word for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Files of one kind.
#[derive(Debug)]
pub struct Class {
    /// How much they matter.
    pub level: Level,
    /// What they are: `private keys`.
    pub what: &'static str,
    /// Path patterns in lower case: `**/`, then names of which each may have one `*`, perhaps `/**`.
    pub patterns: &'static [&'static str],
    /// Names of files that look like these and are none; a `*` as above.
    pub except: &'static [&'static str],
    /// Whether the sandbox keeps tools from reading them.
    pub reading: Reading,
}

/// Whether the sandbox lets tools read a class of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Only where an agent's template says so.
    Closed,
    /// As other files.
    Open,
}

/// All that is sensitive.
pub const SENSITIVE: &[Class] = &[
    Class {
        level: Level::High,
        what: "version control, whose hooks are programs",
        patterns: &["**/.git", "**/.git/**"],
        except: &[],
        reading: Reading::Closed,
    },
    Class {
        level: Level::High,
        what: "keys and credentials of this user",
        patterns: &[
            "**/.ssh",
            "**/.ssh/**",
            "**/.gnupg",
            "**/.gnupg/**",
            "**/.aws",
            "**/.aws/**",
            "**/.azure",
            "**/.azure/**",
            "**/.kube",
            "**/.kube/**",
            "**/.config/gcloud",
            "**/.config/gcloud/**",
            "**/.config/gh",
            "**/.config/gh/**",
            "**/application_default_credentials.json",
            "**/.git-credentials",
            "**/.vault-token",
        ],
        except: &["*.pub"],
        reading: Reading::Closed,
    },
    Class {
        level: Level::High,
        what: "private keys",
        patterns: &[
            "**/id_rsa",
            "**/id_dsa",
            "**/id_ecdsa",
            "**/id_ecdsa_sk",
            "**/id_ed25519",
            "**/id_ed25519_sk",
            "**/*.pem",
            "**/*.key",
            "**/*.p8",
            "**/*.p12",
            "**/*.pfx",
            "**/*.jks",
            "**/*.keystore",
            "**/*.kdbx",
            "**/*.ppk",
        ],
        except: &[],
        reading: Reading::Closed,
    },
    Class {
        level: Level::Medium,
        what: "logins for servers",
        patterns: &[
            "**/.netrc",
            "**/_netrc",
            "**/.pgpass",
            "**/.pypirc",
            "**/.docker/config.json",
        ],
        except: &[],
        reading: Reading::Closed,
    },
    Class {
        level: Level::Medium,
        what: "settings that often hold a password",
        patterns: &["**/.env*", "**/.npmrc", "**/config.toml", "**/.dockercfg"],
        except: &["*.example", "*.sample", "*.template", ".envrc.example"],
        reading: Reading::Open,
    },
    Class {
        level: Level::Medium,
        what: "the settings that say what needs permission",
        patterns: &["**/devloop.toml"],
        except: &[],
        reading: Reading::Open,
    },
    Class {
        level: Level::Low,
        what: "databases and dumps",
        patterns: &[
            "**/*.db",
            "**/*.db3",
            "**/*.sqlite",
            "**/*.sqlite3",
            "**/*.mdb",
            "**/*.rdb",
            "**/*.sql",
            "**/*.dump",
            "**/*.dmp",
            "**/*.bson",
        ],
        except: &[],
        reading: Reading::Open,
    },
];

/// Why a path is sensitive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sensitive {
    /// The path as the call has it.
    pub path: String,
    /// The file that it leads to, where it is that file that is sensitive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<String>,
    /// How much it matters.
    pub level: Level,
    /// What it is.
    pub what: &'static str,
    /// The pattern that matches it.
    pub pattern: &'static str,
}

impl fmt::Display for Sensitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = super::rule::shown;
        let path = shown(&self.path);
        if let Some(file) = &self.leads_to {
            write!(f, "{path:?} leads to {:?}, which", shown(file))?;
        } else {
            write!(f, "{path:?}")?;
        }
        write!(
            f,
            " is sensitive ({}): `{}`, {}",
            self.level.as_str(),
            self.pattern,
            self.what
        )
    }
}

/// Why a path is sensitive, by the class that matters most; `None` when it is not. The path may be absolute, and lead
/// anywhere.
///
/// ```
/// use devloop_core::permission::{Level, sensitive};
///
/// assert_eq!(sensitive("deploy/.SSH/config").unwrap().level, Level::High);
/// assert_eq!(sensitive(".env.production").unwrap().level, Level::Medium);
/// assert_eq!(sensitive(".env.example"), None);
/// ```
pub fn sensitive(path: &str) -> Option<Sensitive> {
    let folded = folded(path);
    let components: Vec<&str> = folded.split('/').filter(|component| !component.is_empty()).collect();
    let last = *components.last()?;
    COMPILED
        .iter()
        .filter(|class| !class.except.iter().any(|name| name.matches(last)))
        .flat_map(|class| &class.patterns)
        .filter(|pattern| pattern.matches(&components))
        // Of equals the first.
        .reduce(|most, other| if other.level > most.level { other } else { most })
        .map(|found| Sensitive {
            path: path.to_owned(),
            leads_to: None,
            level: found.level,
            what: found.what,
            pattern: found.text,
        })
}

/// The same for the file that a path leads to.
pub(super) fn sensitive_behind(path: &str, file: &str) -> Option<Sensitive> {
    let found = sensitive(file)?;
    Some(Sensitive {
        path: path.to_owned(),
        leads_to: Some(found.path),
        ..found
    })
}

/// The patterns of what no tool reads unless its agent's template says otherwise. They are joined where they can be, as
/// each of them is tried for each read.
pub fn unreadable() -> Arc<[Pattern]> {
    static PATTERNS: LazyLock<Arc<[Pattern]>> = LazyLock::new(|| {
        let closed = SENSITIVE.iter().filter(|class| class.reading == Reading::Closed);
        let known = |text: String| Pattern::parse(&text).expect("the patterns of this module are tested to parse");
        closed.flat_map(|class| joined(class.patterns)).map(known).collect()
    });
    Arc::clone(&PATTERNS)
}

/// The same patterns, those that end alike and have one name in one.
fn joined(patterns: &[&str]) -> Vec<String> {
    let (mut ends, mut above, mut joined) = (Vec::new(), Vec::new(), Vec::new());
    for pattern in patterns {
        let names = pattern.strip_prefix("**/").unwrap_or(pattern);
        match names.strip_suffix("/**") {
            Some(name) if !name.contains('/') => above.push(name),
            None if !names.contains('/') => ends.push(names),
            _ => joined.push((*pattern).to_owned()),
        }
    }
    for (names, below) in [(ends, ""), (above, "/**")] {
        match names.as_slice() {
            [] => {}
            [name] => joined.push(format!("**/{name}{below}")),
            names => joined.push(format!("**/{{{}}}{below}", names.join(","))),
        }
    }
    joined
}

/// The patterns are few and simple, and a decision has no time for an automaton for each.
static COMPILED: LazyLock<Vec<CompiledClass>> = LazyLock::new(|| {
    let compiled = |class: &'static Class| CompiledClass {
        patterns: class.patterns.iter().map(|text| Compiled::new(class, text)).collect(),
        except: class.except.iter().map(|name| Name::new(name)).collect(),
    };
    SENSITIVE.iter().map(compiled).collect()
});

struct CompiledClass {
    patterns: Vec<Compiled>,
    except: Vec<Name>,
}

struct Compiled {
    text: &'static str,
    level: Level,
    what: &'static str,
    names: Vec<Name>,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The names are the end of the path.
    End,
    /// Something is below them.
    Above,
}

/// A name with at most one `*`.
enum Name {
    Exact(&'static str),
    Around(&'static str, &'static str),
}

impl Name {
    fn new(text: &'static str) -> Self {
        match text.split_once('*') {
            Some((before, after)) => Self::Around(before, after),
            None => Self::Exact(text),
        }
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(exact) => name == *exact,
            Self::Around(before, after) => {
                name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
            }
        }
    }
}

impl Compiled {
    fn new(class: &'static Class, text: &'static str) -> Self {
        let names = text.strip_prefix("**/").unwrap_or(text);
        let (names, place) = match names.strip_suffix("/**") {
            Some(names) => (names, Place::Above),
            None => (names, Place::End),
        };
        Self {
            text,
            level: class.level,
            what: class.what,
            names: names.split('/').map(Name::new).collect(),
            place,
        }
    }

    fn matches(&self, components: &[&str]) -> bool {
        let fits = |window: &[&str]| {
            self.names
                .iter()
                .zip(window)
                .all(|(name, component)| name.matches(component))
        };
        let many = self.names.len();
        match self.place {
            Place::End => components.len() >= many && fits(&components[components.len() - many..]),
            Place::Above => components[..components.len() - 1].windows(many).any(fits),
        }
    }
}

/// The path as the most generous file system sees it, with `..` worked out.
fn folded(path: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '/' | '_' | '-');
    // Dots are left to the slow way: they may be `..`, or stand at an end.
    if path.chars().all(plain) {
        return path.to_owned();
    }
    let common: String = path.nfkc().filter(|c| !is_invisible(*c)).collect();
    let lower: String = common.to_lowercase().nfkc().collect();
    let mut components: Vec<&str> = Vec::new();
    for component in lower.split(['/', '\\']) {
        // An alternate stream of a file is the file.
        let (name, _) = component.split_once(':').unwrap_or((component, ""));
        match name.trim_end_matches([' ', '.']) {
            "" if name.starts_with("..") => {
                components.pop();
            }
            "" => {}
            name => components.push(name),
        }
    }
    components.join("/")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_level_has_its_files_whatever_their_case() {
        for (level, paths) in [
            (
                Level::High,
                &[
                    ".git/hooks/pre-commit",
                    "a/.git",
                    ".ssh",
                    ".ssh/config",
                    "/root/.ssh/authorized_keys",
                    "C:\\Users\\x\\.AWS\\credentials",
                    "x/.kube/config",
                    ".config/gcloud/a/b",
                    "k/ID_RSA",
                    "tls/server.PEM",
                    "a.key",
                    "~/.ssh/id_ed25519",
                    "./a/../.ssh/x",
                    ".ssh /x",
                    ".ssh./x",
                    ".\u{17F}\u{17F}h/x",
                    ".s\u{200D}sh/x",
                    "id_rsa::$DATA",
                    "ｉｄ_ｒｓａ",
                    "to\u{212A}en.\u{212A}ey",
                    "file:///home/x/.ssh/id_rsa",
                    ".env.pem",
                ][..],
            ),
            (
                Level::Medium,
                &[
                    ".env",
                    "a/.ENV.local",
                    ".envrc",
                    ".npmrc",
                    "x/.netrc",
                    ".pypirc",
                    "config.toml",
                    ".cargo/Config.toml",
                    ".docker/config.json",
                    "a/.docker/config.json",
                    "devloop.toml",
                    ".env.example/x/.env",
                ],
            ),
            (Level::Low, &["a.sqlite", "dump.SQL", "x/prod.dump", "data.db"]),
        ] {
            for path in paths {
                assert_eq!(sensitive(path).map(|found| found.level), Some(level), "{path:?}");
            }
        }
        for path in [
            "",
            "/",
            "a.ts",
            ".env.example",
            "a/.env.sample",
            ".ENV.Example",
            "id_rsa.pub",
            ".ssh/id_rsa.pub",
            "environment",
            "a.env",
            "git/x",
            ".gitignore",
            ".github/workflows/ci.yml",
            "docker/config.json",
            "config.toml.md",
            "keys.ts",
            "monkey",
            "xid_rsa",
            "a.pemx",
            ".env/../a",
        ] {
            assert_eq!(sensitive(path), None, "{path:?}");
        }
    }

    #[test]
    fn the_patterns_are_of_the_simple_form_and_in_lower_case() {
        for class in SENSITIVE {
            for text in class.patterns {
                assert!(Pattern::parse(text).is_ok() && *text == text.to_lowercase(), "{text}");
                let names = text.strip_prefix("**/").unwrap();
                let names = names.strip_suffix("/**").unwrap_or(names);
                assert!(
                    names
                        .split('/')
                        .all(|name| name.matches('*').count() <= 1 && name != "*"),
                    "{text}"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]
        #[test]
        fn the_short_way_agrees_with_path_patterns(
            parts in prop::collection::vec(prop::sample::select(vec![
                ".ssh", ".git", ".config", "gh", "gcloud", ".docker", "config.json", "x", "id_rsa", "a.pem", ".env", ".env.x", ".pem", "b.sql",
                ".netrc", "config.toml", "é",
            ]), 1..5),
        ) {
            let path = parts.join("/");
            let components: Vec<&str> = path.split('/').collect();
            let mut closed = false;
            for (class, compiled) in SENSITIVE.iter().zip(COMPILED.iter()) {
                for pattern in &compiled.patterns {
                    let whole = Pattern::parse(pattern.text).unwrap();
                    prop_assert_eq!(pattern.matches(&components), whole.matches(&path), "{} {}", pattern.text, path);
                    closed |= class.reading == Reading::Closed && whole.matches(&path);
                }
            }
            prop_assert_eq!(unreadable().iter().any(|pattern| pattern.matches(&path)), closed, "{}", path);
        }
    }
}
