//! What stands between a built call and its turn: permission, hooks, a person's consent.
//!
//! Answers for the order of the three and for building changed input anew. Leaves out what rules say (the core's
//! `permission`), what hooks do, and how a person is asked.

use std::borrow::Cow;
use std::sync::Arc;

use devloop_contract::ExpectedFailure;
use devloop_contract::failure::{ErasedRefusal, FailureBody};
use devloop_core::catalogue::Entry;
use devloop_core::permission::{Call, Decision, Rule, Verdict};
use devloop_core::registry::Invocation;
use serde_json::json;

use super::work::{Stop, build};
use super::{Runner, Session};
use crate::call::{Approval, Approver, Ask};
use crate::hooks::{Before, HookCall};

/// Where a call stands that is judged.
pub(super) struct Judged {
    pub(super) invocation: Invocation,
    pub(super) decision: Decision,
    /// Whether a hook gave other input than the caller.
    pub(super) changed: bool,
}

/// What a hook said against a call. It holds whatever input comes after.
struct Objection {
    verdict: Verdict,
    hook: Cow<'static, str>,
    why: String,
}

impl Session {
    /// What rules, mode and memory say of a call.
    pub(super) fn decide(&self, invocation: &Invocation) -> Decision {
        let call = Call::of(invocation);
        let policy = self.policy();
        policy.decide(&call, &self.memory())
    }

    /// Judges a call: permission, then the hooks one after the other; input that a hook changed is built anew and judged
    /// again. Input of a hook that is not valid denies. Asks nobody.
    pub(super) async fn judge(&self, entry: &Entry<Runner>, invocation: Invocation, tool_use_id: &str) -> Judged {
        let mut judged = Judged {
            decision: self.decide(&invocation),
            invocation,
            changed: false,
        };
        let mut objections: Vec<Objection> = Vec::new();
        for hook in self.hooks() {
            if judged.decision.verdict == Verdict::Deny {
                break;
            }
            let said = hook.before(self.hook_call(&judged, tool_use_id)).await;
            let object = |verdict, why| Objection {
                verdict,
                hook: hook.name(),
                why,
            };
            match said {
                Before::Pass => continue,
                Before::Ask(why) => objections.push(object(Verdict::Ask, why)),
                Before::Deny(why) => objections.push(object(Verdict::Deny, why)),
                Before::Change(arguments) => {
                    judged.invocation = match build(entry, arguments) {
                        Ok(invocation) => invocation,
                        Err(refusal) => {
                            let why = format!("the input that it gives is refused: {}", told(&refusal));
                            judged.decision = judged.decision.tightened(Verdict::Deny, hook.name(), &why);
                            return judged;
                        }
                    };
                    judged.changed = true;
                    judged.decision = self.decide(&judged.invocation);
                }
            }
            for objection in &objections {
                let (verdict, hook) = (objection.verdict, objection.hook.clone());
                judged.decision = judged.decision.tightened(verdict, hook, &objection.why);
            }
        }
        judged
    }

    /// Carries the decision out: asks a person where it wants that. A yes for the session is remembered.
    ///
    /// # Errors
    /// It is denied, the person says no, there is nobody, or the caller must ask.
    pub(super) async fn consent(&self, judged: &Judged, approver: Option<&Arc<dyn Approver>>) -> Result<(), Stop> {
        let decision = &judged.decision;
        match decision.verdict {
            Verdict::Allow => return Ok(()),
            Verdict::Deny => return Err(denied(decision, None)),
            Verdict::Ask => {}
        }
        let Some(approver) = approver.or(self.inner.approver.as_ref()) else {
            return Err(denied(decision, Some("there is nobody to ask")));
        };
        let tool = judged.invocation.definition();
        let ask = Ask {
            tool: tool.name.to_string(),
            title: tool.title.to_string(),
            signature: decision.signature.clone(),
            rule: decision.remember.as_ref().map(Rule::to_string),
            reason: decision.reason.clone(),
            input: judged.invocation.input().clone(),
        };
        match approver.approve(ask.clone()).await {
            Approval::Once => Ok(()),
            Approval::Session => {
                if let Some(rule) = &decision.remember {
                    self.memory().remember(rule.clone());
                }
                Ok(())
            }
            Approval::Later => Err(Stop::Asks(Box::new(ask))),
            Approval::Denied { reason } => {
                let said = reason.map_or_else(
                    || "a person said no".to_owned(),
                    |why| format!("a person said no: {why}"),
                );
                Err(denied(decision, Some(&said)))
            }
            Approval::Nobody { reason } => Err(denied(decision, Some(&reason))),
        }
    }

    pub(super) fn hook_call<'a>(&'a self, judged: &'a Judged, tool_use_id: &'a str) -> HookCall<'a> {
        HookCall {
            identity: &self.inner.identity,
            tool: judged.invocation.definition(),
            tool_use_id,
            input: judged.invocation.input(),
            decision: &judged.decision,
            project_dir: self.inner.project.path(),
        }
    }
}

/// A refusal that the agent understands and an operator can act on.
fn denied(decision: &Decision, beside: Option<&str>) -> Stop {
    let reason = match beside {
        Some(beside) => format!("{}; {beside}. Nothing was done.", decision.reason),
        None => format!("{}. Nothing was done.", decision.reason),
    };
    let hint = match (decision.verdict, &decision.remember) {
        (Verdict::Ask, Some(rule)) => format!(
            "Go on without it, or have a person start devloop with `--allow '{rule}'` or put \"{rule}\" into `allow` of \
             [permissions] in devloop.toml."
        ),
        (Verdict::Ask, None) => "Go on without it, or have a person make this call.".to_owned(),
        _ => "Go on without it; `devloop explain` says why to a person.".to_owned(),
    };
    Stop::Refused(ErasedRefusal::Expected(Box::new(FailureBody {
        ok: false,
        code: "permission_denied".to_owned(),
        reason,
        hint: Some(hint),
        details: Some(json!({ "decision": decision })),
    })))
}

fn told(refusal: &ErasedRefusal) -> String {
    match refusal {
        ErasedRefusal::Expected(body) => body.reason.clone(),
        ErasedRefusal::Common(failure) => failure.code().to_owned(),
        ErasedRefusal::Tool(error) => error.to_string(),
    }
}
