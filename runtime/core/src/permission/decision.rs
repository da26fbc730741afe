//! What was decided about a call, and why.
//!
//! Answers for the verdicts and how they combine, for where a decision comes from, and for the sentence that people read.
//! Leaves out deciding.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use super::Mode;
use super::call::MOST_FOLLOWED;
use super::paths::UnsafePath;
use super::rule::{List, Origin, Rule, shown};
use super::sensitive::Sensitive;

/// What becomes of a call. The greater is the stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It runs.
    Allow,
    /// A person decides; where nobody can be asked, it is denied.
    Ask,
    /// It does not run.
    Deny,
}

impl Verdict {
    /// All of them, from the mildest to the strictest.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// The stricter of two: whoever comes later can tighten, never loosen.
    #[must_use]
    pub fn tightened(self, by: Self) -> Self {
        self.max(by)
    }

    /// The word for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a decision rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Basis {
    /// A rule.
    Rule {
        /// The list that it stands in.
        list: List,
        /// As written.
        rule: Rule,
        /// Where it comes from.
        origin: Origin,
    },
    /// The mode.
    Mode {
        /// Which.
        mode: Mode,
    },
    /// A path that leads out of the project.
    Path {
        /// The path.
        path: String,
        /// Why.
        problem: UnsafePath,
    },
    /// It names so many paths that they were not followed.
    TooManyPaths,
    /// A file that holds secrets.
    Sensitive {
        /// Which, and why.
        file: Sensitive,
    },
    /// What a person allowed for the session.
    Memory {
        /// The rule that was remembered.
        rule: Rule,
    },
    /// A hook.
    Hook {
        /// Its name.
        name: Cow<'static, str>,
    },
    /// Nothing speaks of the call.
    Default,
}

/// What was decided about a call.
///
/// ```
/// use devloop_core::permission::{Call, Memory, Mode, Policy, Verdict};
/// use devloop_core::registry::ToolBuilder;
/// use serde_json::json;
///
/// let tool = ToolBuilder::new("echo").summary("Says it again.").build().unwrap();
/// let call = Call::new(&tool, &json!({}), &[]);
/// let decision = Policy::new(Mode::Default).decide(&call, &Memory::default());
/// assert_eq!(decision.verdict, Verdict::Ask);
/// assert_eq!(serde_json::to_value(&decision).unwrap()["basis"]["by"], "default");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Decision {
    /// What becomes of the call.
    pub verdict: Verdict,
    /// What that rests on.
    pub basis: Basis,
    /// The same for people, in a sentence.
    pub reason: String,
    /// What was asked for, as the rule that means this call alone; its beginning when it is long.
    pub signature: String,
    /// Sensitive files that the call names, of every level.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<Sensitive>,
    /// What may be remembered when a person allows it for the session; only of what is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remember: Option<Rule>,
}

impl Decision {
    pub(super) fn new(verdict: Verdict, basis: Basis, signature: String, sensitive: Vec<Sensitive>) -> Self {
        Self {
            reason: reason(verdict, &basis, &signature),
            verdict,
            basis,
            signature,
            sensitive,
            remember: None,
        }
    }

    /// The decision after a hook spoke: its own when it is stricter, else this one. What a hook asks or denies is not
    /// remembered.
    #[must_use]
    pub fn tightened(mut self, by: Verdict, hook: impl Into<Cow<'static, str>>, why: &str) -> Self {
        let verdict = self.verdict.tightened(by);
        let name = hook.into();
        if verdict == Verdict::Ask && self.verdict == by {
            // Both want a person to decide; the person hears both, and a yes is for this call alone.
            let said = format!("; the hook `{name}` asks, too");
            if !self.reason.contains(&said) {
                self.reason.push_str(&said);
                if !why.is_empty() {
                    self.reason = format!("{}: {}", self.reason, shown(why));
                }
            }
            self.remember = None;
            return self;
        }
        if verdict == self.verdict {
            return self;
        }
        self.reason = format!("`{}` {}: the hook `{name}` says so", self.signature, done(verdict));
        if !why.is_empty() {
            self.reason = format!("{}: {}", self.reason, shown(why));
        }
        self.verdict = verdict;
        self.basis = Basis::Hook { name };
        self.remember = None;
        self
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

const fn done(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "is allowed",
        Verdict::Ask => "needs a person's permission",
        Verdict::Deny => "is denied",
    }
}

fn reason(verdict: Verdict, basis: &Basis, signature: &str) -> String {
    let done = done(verdict);
    match basis {
        Basis::Rule { list, rule, origin } => {
            let rule = shown(rule.text());
            format!(
                "`{signature}` {done} by the {} rule `{rule}` of {origin}",
                list.as_str()
            )
        }
        Basis::Mode { mode } => format!("`{signature}` {done}: the mode is `{mode}`, {}", mode.meaning()),
        Basis::Path { path, problem } => {
            format!(
                "`{signature}` {done}: the path {:?} may lead out of the project: {problem}",
                shown(path)
            )
        }
        Basis::TooManyPaths => format!(
            "`{signature}` {done}: it names more than {MOST_FOLLOWED} paths, and which files they lead to was not looked at; \
             name fewer in one call"
        ),
        Basis::Sensitive { file } => format!("`{signature}` {done}: {file}"),
        Basis::Memory { rule } => format!(
            "`{signature}` {done}: a person allowed `{}` for this session",
            shown(rule.text())
        ),
        Basis::Hook { name } => format!("`{signature}` {done}: the hook `{name}` says so"),
        Basis::Default => format!("`{signature}` {done}: no rule speaks of it"),
    }
}
