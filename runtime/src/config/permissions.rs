//! `[permissions]` of `devloop.toml`: the mode and the rules that a user and a project set.
//!
//! Answers for reading them and for what counts when both set something. Leaves out what rules mean and which of them wins
//! ([`devloop_core::permission`]), and the grants of agents, which are rules, too.

use std::path::Path;

use devloop_core::permission::{List, Mode, Origin, Policy, Rule, Source};
use serde::Deserialize;
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
    /// What is wrong, and at which byte.
    pub(super) fn join(
        &mut self,
        section: Section,
        source: Source,
        file: &Path,
        line: impl Fn(usize) -> usize,
    ) -> Result<(), Wrong> {
        let place = |at: usize| format!("{}:{}", file.display(), line(at));
        if let Some(given) = section.mode {
            let (at, word) = (given.span().start, given.into_inner());
            let mode = Mode::parse(&word).ok_or_else(|| Wrong {
                at,
                message: unknown_mode(&word),
            })?;
            if source != Source::Project || mode <= self.mode {
                self.mode = mode;
            } else {
                self.notes.push(format!(
                    "{}: permissions.mode `{mode}` does not count: it is looser than `{}`, and a project can't loosen what \
                     its user set; set it in your own settings if you want it",
                    place(at),
                    self.mode
                ));
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
                let rule = Rule::parse(given.get_ref()).map_err(|error| Wrong {
                    at,
                    message: format!("permissions.{}: {error}", list.as_str()),
                })?;
                self.rules.push((list, rule, Origin::new(source, place(at))));
            }
        }
        Ok(())
    }
}

/// The section as written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    mode: Option<Spanned<String>>,
    #[serde(default)]
    allow: Vec<Spanned<String>>,
    #[serde(default)]
    ask: Vec<Spanned<String>>,
    #[serde(default)]
    deny: Vec<Spanned<String>>,
    /// See [`Hooks`](super::Hooks).
    pub(super) project_hooks: Option<Spanned<bool>>,
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
