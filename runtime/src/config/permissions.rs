//! `[permissions]` of `devloop.toml`: the mode and the rules that a user and a project set.
//!
//! Answers for reading them and for what counts when both set something. Leaves out what rules mean and which of them wins
//! ([`devloop_core::permission`]), and the grants of agents, which are rules, too.

use std::path::Path;

use devloop_core::permission::{List, Mode, Origin, Policy, Rule, Source};

use super::reading::{Said, Table, quoted};

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
    pub(super) fn read(
        &mut self,
        table: &mut Table<'_, '_>,
        source: Source,
        file: &Path,
        line: impl Fn(usize) -> usize,
    ) {
        let place = |at: usize| format!("{}:{}", file.display(), line(at));
        if let Some(Said { at, value: word }) = table.text("mode", &known_modes()) {
            match Mode::parse(&word) {
                None => table.wrongs.push(at, unknown_mode(&word)),
                Some(mode) if source != Source::Project || mode <= self.mode => self.mode = mode,
                Some(mode) => self.notes.push(format!(
                    "{}: permissions.mode `{mode}` does not count: it is looser than `{}`, and a project can't loosen what \
                     its user set; set it in your own settings if you want it",
                    place(at),
                    self.mode
                )),
            }
        }
        for (list, key) in [(List::Allow, "allow"), (List::Ask, "ask"), (List::Deny, "deny")] {
            let expected = format!("a list of rules: {key} = [\"Tool\", \"Tool(content)\"]");
            let rule = "a rule, which is a text such as \"Tool\" or \"Tool(content)\"";
            for Said { at, value } in table
                .texts(key, &expected, rule)
                .into_iter()
                .flat_map(|said| said.value)
            {
                match Rule::parse(&value) {
                    Ok(rule) => self.rules.push((list, rule, Origin::new(source, place(at)))),
                    Err(error) => table.wrongs.push(at, format!("permissions.{key}: {error}")),
                }
            }
        }
    }
}

fn known_modes() -> String {
    Mode::ALL.map(|mode| format!("`{mode}`")).join(", ")
}

fn unknown_mode(word: &str) -> String {
    let known = known_modes();
    let meant = match word {
        "acceptEdits" | "accept_edits" | "auto-edit" | "autoEdit" => Some(Mode::AutoEdit),
        "bypassPermissions" | "bypass_permissions" => Some(Mode::Bypass),
        _ => Mode::parse(&word.to_lowercase()),
    };
    let hint = meant.map(|mode| format!("; write `{mode}`")).unwrap_or_default();
    format!("permissions.mode is {}; expected {known}{hint}", quoted(word))
}
