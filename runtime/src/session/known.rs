//! What a host may ask a session about, and say to it later.
//!
//! Answers for the rules it judges by, what a person allowed for the rest of it, and how records name it. Leaves out what
//! rules mean (the core's `permission`) and asking (admission's).

use std::sync::PoisonError;

use devloop_core::permission::{Forgotten, List, Origin, Policy, Rule, Source};
use devloop_core::registry::Text;

use super::Session;
use crate::execution::SessionId;

impl Session {
    /// The session as the executor's [records](crate::execution::Executor::records) name it.
    pub fn record_id(&self) -> SessionId {
        self.inner.lane.session()
    }

    /// The mode and all rules, each with its origin, as calls are judged by them now.
    pub fn current_policy(&self) -> Policy {
        self.policy().clone()
    }

    /// A rule of the host more, for calls that are judged from now on, as
    /// [`SessionBuilder::rule`](super::SessionBuilder::rule) adds them before.
    pub fn add_rule(&self, list: List, rule: Rule, place: impl Into<Text>) {
        let origin = Origin::new(Source::Host, place);
        let mut policy = self.inner.policy.write().unwrap_or_else(PoisonError::into_inner);
        policy.add(list, rule, origin);
    }

    /// What a person allowed for the rest of the session, the oldest first.
    pub fn remembered(&self) -> Vec<Rule> {
        self.memory().rules().cloned().collect()
    }

    /// Takes back what a person allowed, by the [text](Rule::text) of its rule: calls that are judged from now on are asked
    /// for again.
    pub fn forget(&self, rule: &str) -> Forgotten {
        self.memory().forget(rule)
    }

    /// Takes back everything that a person allowed.
    pub fn forget_all(&self) {
        self.memory().clear();
    }
}
