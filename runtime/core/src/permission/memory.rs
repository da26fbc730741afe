//! What a person allowed for the rest of a session.
//!
//! Answers for remembering and forgetting, within a bound. Leaves out whom to ask, and what stands above memory: rules that
//! deny or ask, and the mode.

use std::collections::VecDeque;

use super::call::Call;
use super::rule::Rule;

/// How many rules are remembered. When there are more, the oldest is forgotten, and the person is asked again.
pub const MOST_REMEMBERED: usize = 256;

/// The memory of one session. It is never written down, and a fork of a session begins with an empty one.
#[derive(Debug, Default)]
pub struct Memory {
    rules: VecDeque<Rule>,
}

impl Memory {
    /// Remembers that what the rule means is allowed: [`Decision::remember`](super::Decision::remember) of a decision that
    /// asked.
    pub fn remember(&mut self, rule: Rule) {
        self.forget(rule.text());
        if self.rules.len() == MOST_REMEMBERED {
            self.rules.pop_front();
        }
        self.rules.push_back(rule);
    }

    /// Forgets a rule, and says whether there was one.
    pub fn forget(&mut self, rule: &str) -> Forgotten {
        let before = self.rules.len();
        self.rules.retain(|known| known.text() != rule);
        if self.rules.len() < before {
            Forgotten::Known
        } else {
            Forgotten::Unknown
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// What is remembered, the oldest first.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.rules.iter()
    }

    /// The rule that lets the call pass.
    pub fn allows(&self, call: &Call) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.loosens(call))
    }
}

/// Whether there was anything to forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// It was remembered.
    Known,
    /// It was not.
    Unknown,
}
