//! `[permissions]` of `devloop.toml`: the mode and the rules that a user and a project set.
//!
//! Answers for reading them and for what counts when both set something. Leaves out what rules mean and which of them wins
//! ([`devloop_core::permission`]), and the grants of agents, which are rules, too.

use std::fmt;
use std::path::Path;

use devloop_core::permission::{List, Mode, Origin, Policy, Rule, Source};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// What the settings say about permission: the user's rules, then the project's.
///
/// All rules count, so a `deny` of either is final. A project can't loosen what its user set: its mode counts only when
/// it is the stricter one (the user's is `default` when there is none), and its `allow` rules don't outweigh the user's
/// `ask` rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    mode: Mode,
    rules: Vec<(List, Rule, Origin)>,
    notes: Vec<String>,
}

impl Permissions {
    /// The mode in force.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// All rules, the user's first.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = (List, &Rule, &Origin)> {
        self.rules.iter().map(|(list, rule, origin)| (*list, rule, origin))
    }

    /// What the project set and does not count, in sentences for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The mode and the rules, to which a session adds its grants.
    pub fn policy(&self) -> Policy {
        let mut policy = Policy::new(self.mode);
        for (list, rule, origin) in self.rules() {
            policy.add(list, rule.clone(), origin.clone());
        }
        policy
    }

    /// Joins what one file says. `line` gives the line of a byte of that file.
    ///
    /// # Errors
    /// Everything that is wrong, and at which bytes.
    pub(super) fn join(
        &mut self,
        section: Section,
        source: Source,
        file: &Path,
        line: impl Fn(usize) -> usize,
    ) -> Result<(), Vec<Wrong>> {
        let place = |at: usize| format!("{}:{}", file.display(), line(at));
        let mut wrong = Vec::new();
        if let Some(given) = section.mode {
            let (at, word) = (given.span().start, given.into_inner());
            match Mode::parse(&word) {
                None => wrong.push(Wrong {
                    at,
                    message: unknown_mode(&word),
                }),
                Some(mode) if source != Source::Project || mode <= self.mode => self.mode = mode,
                Some(mode) => self.notes.push(format!(
                    "{}: permissions.mode `{mode}` does not count: it is looser than `{}`, and a project can't loosen what \
                     its user set; set it in your own settings if you want it",
                    place(at),
                    self.mode
                )),
            }
        }
        let lists = [
            (List::Allow, section.allow),
            (List::Ask, section.ask),
            (List::Deny, section.deny),
        ];
        for (list, rules) in lists {
            for given in rules {
                let at = given.span().start;
                match Rule::parse(&given.get_ref().0) {
                    Ok(rule) => self.rules.push((list, rule, Origin::new(source, place(at)))),
                    Err(error) => wrong.push(Wrong {
                        at,
                        message: format!("permissions.{}: {error}", list.as_str()),
                    }),
                }
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}

/// The section as written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    mode: Option<Spanned<String>>,
    #[serde(default, deserialize_with = "allow_rules")]
    allow: Vec<Spanned<RuleText>>,
    #[serde(default, deserialize_with = "ask_rules")]
    ask: Vec<Spanned<RuleText>>,
    #[serde(default, deserialize_with = "deny_rules")]
    deny: Vec<Spanned<RuleText>>,
    /// See [`Hooks`](super::Hooks).
    pub(super) project_hooks: Option<Spanned<bool>>,
}

/// A rule before it is read.
struct RuleText(String);

impl<'de> Deserialize<'de> for RuleText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;
        impl Visitor<'_> for Word {
            type Value = RuleText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rule, which is a text such as \"Tool\" or \"Tool(content)\"")
            }

            fn visit_str<E>(self, text: &str) -> Result<RuleText, E> {
                Ok(RuleText(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Word)
    }
}

/// The rules of one list. What is none is told with the key: the parser shows the line alone.
struct RuleTexts(List);

impl<'de> Visitor<'de> for RuleTexts {
    type Value = Vec<Spanned<RuleText>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.0.as_str();
        write!(
            f,
            "a list of rules for permissions.{key}: {key} = [\"Tool\", \"Tool(content)\"]"
        )
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rules: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(rule) = rules.next_element()? {
            all.push(rule);
        }
        Ok(all)
    }
}

fn allow_rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Spanned<RuleText>>, D::Error> {
    deserializer.deserialize_any(RuleTexts(List::Allow))
}

fn ask_rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Spanned<RuleText>>, D::Error> {
    deserializer.deserialize_any(RuleTexts(List::Ask))
}

fn deny_rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Spanned<RuleText>>, D::Error> {
    deserializer.deserialize_any(RuleTexts(List::Deny))
}

/// What is wrong at a byte of the file.
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) message: String,
}

fn unknown_mode(word: &str) -> String {
    let known = Mode::ALL.map(|mode| format!("`{mode}`")).join(", ");
    let meant = match word {
        "acceptEdits" | "accept_edits" | "auto-edit" | "autoEdit" => Some(Mode::AutoEdit),
        "bypassPermissions" | "bypass_permissions" => Some(Mode::Bypass),
        _ => Mode::parse(&word.to_lowercase()),
    };
    let hint = meant.map(|mode| format!("; write `{mode}`")).unwrap_or_default();
    format!("permissions.mode is {word:?}; expected {known}{hint}")
}
