//! Which tools a session has at all.
//!
//! Answers for the two lists that a host gives. What they leave out is not shown and not called, whatever the rules say.
//! Leaves out permission.

use devloop_contract::FailureBody;
use devloop_core::permission::{Call, Rule};
use devloop_core::registry::Definition;
use serde_json::Value;

/// The lists; empty ones leave nothing out.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) only: Option<Vec<Rule>>,
    pub(super) without: Vec<Rule>,
}

impl Lists {
    /// Whether they leave nothing out.
    pub(super) fn is_empty(&self) -> bool {
        self.only.is_none() && self.without.is_empty()
    }

    /// The refusal of a tool that is left out.
    pub(super) fn left_out(&self, tool: &Definition) -> Option<FailureBody> {
        if self.is_empty() {
            return None;
        }
        // Rules for lists name tools; what a call is about makes no difference.
        let call = Call::new(tool, &Value::Null, &[]);
        let reason = if let Some(rule) = self.without.iter().find(|rule| rule.tightens(&call)) {
            format!("this session is without `{rule}`")
        } else if self
            .only
            .as_ref()
            .is_some_and(|only| !only.iter().any(|rule| rule.loosens(&call)))
        {
            "it is not among the tools of this session".to_owned()
        } else {
            return None;
        };
        let reason = format!("`{}` cannot be called: {reason}", tool.name);
        Some(FailureBody::of_path(
            "tool_left_out",
            reason,
            "Go on without it.".to_owned(),
        ))
    }
}
