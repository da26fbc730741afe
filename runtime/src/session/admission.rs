//! What stands between a built call and its turn: permission, hooks, a person's consent.
//!
//! Answers for the order of the three and for building changed input anew. Leaves out what rules say (the core's
//! `permission`), what hooks do, and how a person is asked.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use devloop_contract::failure::{ErasedRefusal, FailureBody};
use devloop_contract::{ExpectedFailure, Tool};
use devloop_core::catalogue::Entry;
use devloop_core::permission::{Call, Decision, Rule, Verdict};
use devloop_core::registry::{Definition, Invocation};
use serde_json::{Value, json};

use super::work::{Stop, build};
use super::{Runner, Session};
use crate::call::{Approval, Approver, Ask};
use crate::execution::real_path;
use crate::hooks::{Before, HookCall, name_of};

/// How often hooks may change the input of one call.
const MOST_CHANGES: usize = 4;

/// Where a call stands that is judged.
pub(super) struct Judged {
    pub(super) invocation: Invocation,
    pub(super) decision: Decision,
    /// Whether a hook gave other input than the caller.
    pub(super) changed: bool,
}

impl Judged {
    pub(super) fn new(invocation: Invocation, decision: Decision) -> Self {
        Self {
            invocation,
            decision,
            changed: false,
        }
    }
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
        self.decide_on(&self.as_asked_for(invocation.definition(), invocation.input(), invocation.affected_paths()))
    }

    fn decide_on(&self, call: &Call) -> Decision {
        let policy = self.policy();
        policy.decide(call, &self.memory())
    }

    /// The call as rules know it.
    pub(super) fn as_asked_for(&self, tool: &Definition, input: &Value, affected: &[String]) -> Call {
        let call = Call::new(tool, input, affected).served_by(&self.inner.project.config.server_name);
        match tool.built_in() {
            // Handlers follow no link below a project.
            Some(_) => call,
            None => call.followed(|path| real_name(self.inner.project.dir.path(), path)),
        }
    }

    /// Whether a rule denies that `tool`, one of the registry's own, goes on to an upstream server, which is then not even
    /// asked what it has.
    pub(crate) fn denies_server(&self, tool: &'static Tool, server: &str) -> bool {
        let call = self.as_asked_for(&Definition::from(tool), &json!({ "server": server }), &[]);
        self.decide_on(&call).verdict == Verdict::Deny
    }

    /// Judges a call: permission, then the hooks one after the other; input that a hook changed is built anew, judged again
    /// and heard by all hooks again. Input of a hook that is not valid denies. Asks nobody.
    pub(super) async fn judge(&self, entry: &Entry<Runner>, invocation: Invocation, tool_use_id: &str) -> Judged {
        let decision = self.decide(&invocation);
        let mut judged = Judged::new(invocation, decision);
        let mut objections: Vec<Objection> = Vec::new();
        let (mut changes, mut next) = (0, 0);
        while let Some(hook) = self.hooks().get(next) {
            if judged.decision.verdict == Verdict::Deny {
                break;
            }
            next += 1;
            let said = hook.before(self.hook_call(&judged, tool_use_id)).await;
            let object = |verdict, why| Objection {
                verdict,
                hook: name_of(&**hook),
                why,
            };
            match said {
                Before::Pass => continue,
                Before::Ask(why) => objections.push(object(Verdict::Ask, why)),
                Before::Deny(why) => objections.push(object(Verdict::Deny, why)),
                Before::Change(arguments) => match build(entry, arguments) {
                    Ok(invocation) if invocation.input() == judged.invocation.input() => continue,
                    Ok(invocation) => {
                        changes += 1;
                        if changes > MOST_CHANGES {
                            let why = "the hooks change each other's input again and again".to_owned();
                            objections.push(object(Verdict::Deny, why));
                        } else {
                            judged.decision = self.decide(&invocation);
                            judged.invocation = invocation;
                            judged.changed = true;
                            // All of them hear what would run, those too that were heard before.
                            next = 0;
                        }
                    }
                    Err(refusal) => {
                        let why = format!("the input that it gives is refused: {}", told(&refusal));
                        objections.push(object(Verdict::Deny, why));
                    }
                },
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
            Verdict::Deny => return Err(denied(decision, Asked::No, None)),
            Verdict::Ask => {}
        }
        let Some(approver) = approver.or(self.inner.approver.as_ref()) else {
            return Err(denied(decision, Asked::No, Some("there is nobody to ask")));
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
                Err(denied(decision, Asked::Yes, Some(&said)))
            }
            Approval::Nobody { reason } => Err(denied(decision, Asked::No, Some(&reason))),
        }
    }

    /// Whether a call that a person said yes to is not denied meanwhile.
    ///
    /// # Errors
    /// It is.
    pub(super) fn still_allowed(&self, judged: &Judged) -> Result<(), Stop> {
        let now = self.decide(&judged.invocation);
        match now.verdict {
            Verdict::Deny => Err(denied(&now, Asked::No, None)),
            Verdict::Allow | Verdict::Ask => Ok(()),
        }
    }

    pub(super) fn hook_call<'a>(&'a self, judged: &'a Judged, tool_use_id: &'a str) -> HookCall<'a> {
        HookCall {
            identity: &self.inner.identity,
            tool: judged.invocation.definition(),
            tool_use_id,
            input: judged.invocation.input(),
            decision: &judged.decision,
            mode: self.mode(),
            server_name: &self.inner.project.config.server_name,
            project_dir: self.inner.project.path(),
        }
    }
}

/// Under which other name a path leads to a file: from this directory down, or absolute when the file lies elsewhere.
/// Nothing when it is no other. Blocks.
pub(crate) fn real_name(directory: &Path, path: &str) -> Option<String> {
    /// As many links in a row as systems follow.
    const MOST_LINKS: usize = 40;
    let mut real = real_path(&directory.join(path)).ok()?;
    // A link to what is not there yet is a way to make it.
    for _ in 0..MOST_LINKS {
        let link = real.ancestors().find_map(|part| match part.read_link() {
            Ok(target) => Some(Some((part.to_owned(), target))),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(_) => Some(None),
        });
        let Some((link, target)) = link.flatten() else {
            break;
        };
        let rest = real.strip_prefix(&link).unwrap_or(Path::new(""));
        let target = link.parent().unwrap_or(directory).join(target);
        // Nothing joined on would put a `/` behind the name of a file.
        let next = if rest.as_os_str().is_empty() {
            target
        } else {
            target.join(rest)
        };
        real = real_path(&next).ok()?;
    }
    let name = real.strip_prefix(directory).unwrap_or(&real).to_string_lossy();
    (name != path).then(|| name.into_owned())
}

/// Whether a person was asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Yes,
    No,
}

/// A refusal that the agent understands and an operator can act on.
fn denied(decision: &Decision, asked: Asked, beside: Option<&str>) -> Stop {
    let reason = match beside {
        Some(beside) => format!("{}; {beside}. Nothing was done.", decision.reason),
        None => format!("{}. Nothing was done.", decision.reason),
    };
    let hint = match (decision.verdict, &decision.remember) {
        // Who was asked has spoken.
        (Verdict::Ask, _) if asked == Asked::Yes => "Go on without it.".to_owned(),
        (Verdict::Ask, Some(rule)) => format!(
            "Go on without it, or have a person allow it: the rule \"{rule}\" under `allow` of [permissions] in devloop.toml, \
             `--allow '{rule}'` on devloop's command line, or a rule of the program that embeds it."
        ),
        (Verdict::Ask, None) => "Go on without it, or have a person make this call.".to_owned(),
        _ => "Go on without it.".to_owned(),
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
