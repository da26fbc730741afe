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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Remember(u16),
        Forget(u16),
        Clear,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            600 => (0..400_u16).prop_map(Step::Remember),
            100 => (0..400_u16).prop_map(Step::Forget),
            1 => Just(Step::Clear),
        ]
    }

    fn text(n: u16) -> String {
        format!("T({n})")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("DEVLOOP_LONG").is_some() { 1_000 } else { 16 }))]
        #[test]
        fn memory_is_the_newest_rules_in_order(steps in prop::collection::vec(step(), 1_000)) {
            let mut memory = Memory::default();
            let mut model: Vec<u16> = Vec::new();
            for step in steps {
                match step {
                    Step::Remember(n) => {
                        memory.remember(Rule::parse(&text(n)).unwrap());
                        model.retain(|known| *known != n);
                        model.push(n);
                        let many = model.len();
                        model.drain(..many.saturating_sub(MOST_REMEMBERED));
                    }
                    Step::Forget(n) => {
                        let known = memory.forget(&text(n)) == Forgotten::Known;
                        prop_assert_eq!(known, model.contains(&n));
                        model.retain(|known| *known != n);
                    }
                    Step::Clear => {
                        memory.clear();
                        model.clear();
                    }
                }
                prop_assert_eq!(memory.rules().len(), model.len());
            }
            let known: Vec<String> = memory.rules().map(Rule::to_string).collect();
            let expected: Vec<String> = model.into_iter().map(text).collect();
            prop_assert_eq!(known, expected);
        }
    }
}
