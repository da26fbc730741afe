//! Permission: whether a call may run, must be asked for, or is denied, and why.
//!
//! Answers for modes, rules, the order in which they count, remembered answers, safe paths and sensitive files: a function
//! of what is known about a call, without I/O. Leaves out asking a person, hooks, and the sandbox, which guards each file
//! whatever is decided here.
//!
//! The first of these that speaks decides:
//!
//! | | | verdict |
//! |---|---|---|
//! | 1 | a `deny` rule, in every mode | deny |
//! | 2 | an affected path that leads out of the project ([`path_safety`]), in every mode | deny |
//! | 3 | a file of the level [high](Level::High), in every mode, read or written, also [through a link](Call::followed) | deny |
//! | 4 | the mode: see [`Mode`] | allow, deny |
//! | 5 | an `allow` rule; grants are such rules | allow |
//! | 6 | an `ask` rule | ask |
//! | 7 | what a person [allowed](Memory) for this session | allow |
//! | 8 | nothing | ask |
//!
//! Then a file of the level [medium](Level::Medium) makes `ask` of `allow`, each time anew, unless the mode is
//! [bypass](Mode::Bypass); one of the level [low](Level::Low) is noted in the decision. An `allow` rule of a project's
//! settings does not count where an `ask` rule of another source speaks: what comes with a project can't loosen what its
//! user wants to be asked. Hooks come last, and can [tighten](Decision::tightened) only.
//!
//! A rule on the text of a command is a help against mistakes and no wall: there are many ways to write a command. What a
//! tool must not touch is for the sandbox.

mod address;
mod call;
mod decision;
mod glob;
mod memory;
mod names;
mod paths;
mod rule;
pub mod sensitive;
mod signature;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use devloop_contract::tool::Kind;
use serde::Serialize;
use serde_json::Value;

pub use call::Call;
use call::Heed;
pub use decision::{Basis, Decision, Verdict};
pub use memory::{Forgotten, MOST_REMEMBERED, Memory};
pub use paths::{UnsafePath, path_safety};
pub use rule::{LONGEST_RULE, List, Origin, Rule, RuleError, Source};
pub use sensitive::{Level, Sensitive, sensitive};
pub use signature::{Signature, TemplateError, check as check_naming, rule_of};

use rule::shown;
use sensitive::sensitive_behind;

use crate::registry::{Definition, Trust};
use crate::text::nearest;

/// How much runs without being asked for. From the strictest to the loosest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// What is not `read_only` is denied; the rest is as in the default mode.
    Plan,
    /// Rules and answers decide.
    #[default]
    Default,
    /// What is not `execute` runs, when its author can be trusted: an upstream server's word that a tool only reads is
    /// not enough.
    AutoEdit,
    /// Everything runs that is not denied above.
    Bypass,
}

impl Mode {
    /// All of them, from the strictest to the loosest.
    pub const ALL: [Self; 4] = [Self::Plan, Self::Default, Self::AutoEdit, Self::Bypass];

    /// The word that settings use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Default => "default",
            Self::AutoEdit => "auto_edit",
            Self::Bypass => "bypass",
        }
    }

    /// The mode of a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }

    /// The stricter of two.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        self.min(other)
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::Plan => "in which nothing is changed",
            Self::Default => "in which rules decide",
            Self::AutoEdit => "in which files are read and edited without asking",
            Self::Bypass => "in which nothing is asked",
        }
    }

    /// What the mode alone says of a call.
    fn verdict(self, kind: Kind, trust: Trust) -> Option<Verdict> {
        match (self, kind) {
            (Self::Plan, Kind::Write | Kind::Execute) => Some(Verdict::Deny),
            (Self::AutoEdit, Kind::ReadOnly | Kind::Write) if trust == Trust::Trusted => Some(Verdict::Allow),
            (Self::Bypass, _) => Some(Verdict::Allow),
            (Self::Plan | Self::Default | Self::AutoEdit, _) => None,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The mode and the rules of a session.
///
/// ```
/// use devloop_core::permission::{Call, List, Memory, Mode, Origin, Policy, Rule, Source, Verdict};
/// use devloop_core::registry::ToolBuilder;
/// use serde_json::json;
///
/// let origin = || Origin::new(Source::User, "devloop.toml:3");
/// let policy = Policy::new(Mode::Bypass)
///     .with(List::Deny, Rule::parse("echo").unwrap(), origin())
///     .with(List::Allow, Rule::parse("*").unwrap(), origin());
/// let tool = ToolBuilder::new("echo").summary("Says it again.").build().unwrap();
/// let decision = policy.decide(&Call::new(&tool, &json!({}), &[]), &Memory::default());
/// assert_eq!(decision.verdict, Verdict::Deny);
/// assert_eq!(decision.to_string(), "`echo` is denied by the deny rule `echo` of your settings (devloop.toml:3)");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    mode: Mode,
    allow: Rules,
    ask: Rules,
    deny: Rules,
}

impl Policy {
    /// A mode without rules.
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }

    /// With one more rule.
    #[must_use]
    pub fn with(mut self, list: List, rule: Rule, origin: Origin) -> Self {
        self.add(list, rule, origin);
        self
    }

    /// Adds a rule. Of several that mean a call, the one that came first is named.
    pub fn add(&mut self, list: List, rule: Rule, origin: Origin) {
        match list {
            List::Allow => &mut self.allow,
            List::Ask => &mut self.ask,
            List::Deny => &mut self.deny,
        }
        .add(rule, origin);
    }

    /// Adds the grants of an agent's template: the tools run without being asked for.
    pub fn grant<'a>(&mut self, agent: &str, tools: impl IntoIterator<Item = &'a str>) {
        for tool in tools {
            let origin = Origin::new(Source::Template, agent.to_owned());
            self.add(List::Allow, Rule::tool(tool), origin);
        }
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Sets the mode.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// The rules of a list in order.
    pub fn rules(&self, list: List) -> impl ExactSizeIterator<Item = (&Rule, &Origin)> {
        let rules = match list {
            List::Allow => &self.allow,
            List::Ask => &self.ask,
            List::Deny => &self.deny,
        };
        rules.all.iter().map(|(rule, origin)| (rule, origin))
    }

    /// Rules that mean no call of any of the tools, for a person to look at: a name that is written otherwise, a server
    /// that is not there.
    pub fn idle<'t>(
        &self,
        tools: impl IntoIterator<Item = &'t Definition>,
    ) -> impl Iterator<Item = (List, &Rule, &Origin)> {
        let calls: Vec<Call> = tools
            .into_iter()
            .map(|tool| Call::new(tool, &Value::Null, &[]))
            .collect();
        let lists = [List::Allow, List::Ask, List::Deny].into_iter();
        let all = lists.flat_map(|list| self.rules(list).map(move |(rule, origin)| (list, rule, origin)));
        all.filter(move |(list, rule, _)| {
            let known = |call: &Call| match list {
                List::Allow => rule.names_one_of(call.names()),
                List::Ask | List::Deny => rule.names_one_of(call.all_names()),
            };
            !calls.iter().any(known)
        })
    }

    /// What a rule of a list that means no tool could have meant: a name that it would mean the tool by. Nothing when the
    /// rule has a `*` that no other case of its letters would mend, or no name is near.
    pub fn meant<'t>(list: List, rule: &Rule, tools: impl IntoIterator<Item = &'t Definition>) -> Option<String> {
        let calls: Vec<Call> = tools
            .into_iter()
            .map(|tool| Call::new(tool, &Value::Null, &[]))
            .collect();
        let names = calls.iter().flat_map(|call| {
            let (sure, all) = match list {
                List::Allow => (Some(call.names()), None),
                List::Ask | List::Deny => (None, Some(call.all_names())),
            };
            sure.into_iter().flatten().chain(all.into_iter().flatten())
        });
        let Ok(name) = rule.name.as_deref() else {
            let text = rule.text();
            let (name, content) = text.split_at(text.find('(').unwrap_or(text.len()));
            let small = Rule::parse(&format!("{}{content}", name.to_lowercase())).ok()?;
            let mut names = names;
            return (small != *rule && small.names_one_of(&mut names)).then(|| small.text().to_owned());
        };
        let names: Vec<&str> = names.collect();
        let same = names.iter().find(|known| known.eq_ignore_ascii_case(name)).copied();
        // Of a tool that clients know by a longer name people write either.
        let short = name.rsplit("__").next().unwrap_or(name);
        let near = |name| nearest(name, names.iter().copied(), 1).into_iter().next();
        same.or_else(|| near(name)).or_else(|| near(short)).map(str::to_owned)
    }

    /// Decides about a call.
    pub fn decide(&self, call: &Call, memory: &Memory) -> Decision {
        let suspected = call.suspected_paths().iter();
        let sensitive: Vec<Sensitive> = call
            .affected_paths()
            .iter()
            .chain(suspected)
            .filter_map(|path| sensitive(path))
            .chain(
                call.links()
                    .iter()
                    .filter_map(|(path, file)| sensitive_behind(path, file)),
            )
            .collect();
        let (mut verdict, mut basis) = self.judge(call, memory, &sensitive);
        if verdict == Verdict::Allow
            && self.mode != Mode::Bypass
            && let Some(file) = sensitive.iter().find(|file| file.level == Level::Medium)
        {
            verdict = Verdict::Ask;
            basis = Basis::Sensitive { file: file.clone() };
        }
        // What is asked for each time would be remembered in vain.
        let remember = match (verdict, &basis) {
            (Verdict::Ask, Basis::Default) if sensitive.iter().all(|file| file.level == Level::Low) => call.remember(),
            _ => None,
        };
        let remember = remember.cloned();
        let note = self.note(call, &basis);
        let mut decision = Decision::new(verdict, basis, call.signature().excerpt(), sensitive);
        decision.reason.push_str(&note);
        decision.remember = remember;
        decision
    }

    /// What is to be said of rules whose content means more, or less, than it seems to.
    fn note(&self, call: &Call, basis: &Basis) -> String {
        match basis {
            Basis::Rule { list, rule, .. } if *list != List::Allow => match rule.heeds_content(call) {
                Heed::Content => String::new(),
                Heed::EachCall => {
                    let list = list.as_str();
                    format!(
                        "; rules are not told what its calls are about, so that {list} rules with a content mean each of them"
                    )
                }
                Heed::EachCallToServer => {
                    let list = list.as_str();
                    format!(
                        "; rules are not told what calls of a server's tools are about, so that {list} rules with a content mean each of them"
                    )
                }
            },
            Basis::Default => {
                let idle = self.allow.first(call.names(), |rule, _| rule.would_loosen(call));
                let Some((rule, origin)) = idle else {
                    return String::new();
                };
                let rule = shown(rule.text());
                let why = if call.content().is_none() {
                    "rules are not told what its calls are about, so that one with a content allows none"
                } else {
                    "a `*` does not cover an address with `..`"
                };
                format!("; the allow rule `{rule}` of {origin} does not count: {why}")
            }
            _ => String::new(),
        }
    }

    fn judge(&self, call: &Call, memory: &Memory, sensitive: &[Sensitive]) -> (Verdict, Basis) {
        let by_rule = |list: List, (rule, origin): (&Rule, &Origin)| Basis::Rule {
            list,
            rule: rule.clone(),
            origin: origin.clone(),
        };
        if let Some(found) = self.deny.find_tightening(call, |_| true) {
            return (Verdict::Deny, by_rule(List::Deny, found));
        }
        if call.names_too_many() {
            return (Verdict::Deny, Basis::TooManyPaths);
        }
        for path in call.affected_paths() {
            if let Some(problem) = path_safety(path) {
                let path = path.clone();
                return (Verdict::Deny, Basis::Path { path, problem });
            }
        }
        if let Some(file) = sensitive.iter().find(|file| file.level == Level::High) {
            return (Verdict::Deny, Basis::Sensitive { file: file.clone() });
        }
        if let Some(verdict) = self.mode.verdict(call.kind(), call.trust()) {
            return (verdict, Basis::Mode { mode: self.mode });
        }
        // The rules of others first, then the project's own.
        for is_projects in [false, true] {
            let of = |source: Source| (source == Source::Project) == is_projects;
            if let Some(found) = self.allow.find_loosening(call, of) {
                return (Verdict::Allow, by_rule(List::Allow, found));
            }
            if let Some(found) = self.ask.find_tightening(call, of) {
                return (Verdict::Ask, by_rule(List::Ask, found));
            }
        }
        match memory.allows(call) {
            Some(rule) => (Verdict::Allow, Basis::Memory { rule: rule.clone() }),
            None => (Verdict::Ask, Basis::Default),
        }
    }
}

/// Rules of one list, to be found by name.
#[derive(Clone, Debug, Default)]
struct Rules {
    all: Vec<(Rule, Origin)>,
    by_name: HashMap<String, Vec<usize>>,
    /// Those with a `*` in their name.
    by_pattern: Vec<usize>,
}

impl Rules {
    fn add(&mut self, rule: Rule, origin: Origin) {
        let place = self.all.len();
        match rule.literal_name() {
            Some(name) => self.by_name.entry(name.to_owned()).or_default().push(place),
            None => self.by_pattern.push(place),
        }
        self.all.push((rule, origin));
    }

    fn find_loosening(&self, call: &Call, from: impl Fn(Source) -> bool) -> Option<(&Rule, &Origin)> {
        self.first(call.names(), |rule, origin| from(origin.source) && rule.loosens(call))
    }

    fn find_tightening(&self, call: &Call, from: impl Fn(Source) -> bool) -> Option<(&Rule, &Origin)> {
        self.first(call.all_names(), |rule, origin| {
            from(origin.source) && rule.tightens(call)
        })
    }

    /// The first in order that fits, among those that may have one of the names.
    fn first<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
        fits: impl Fn(&Rule, &Origin) -> bool,
    ) -> Option<(&Rule, &Origin)> {
        let in_order = |places: &[usize]| {
            let fits = |place: &&usize| self.all.get(**place).is_some_and(|(rule, origin)| fits(rule, origin));
            places.iter().find(fits).copied()
        };
        let literal = names.filter_map(|name| in_order(self.by_name.get(name)?));
        let place = literal.chain(in_order(&self.by_pattern)).min()?;
        self.all.get(place).map(|(rule, origin)| (rule, origin))
    }
}
