//! What stands between a call and its handler: lists, permission, hooks, a person's consent; for tools of a host and of
//! specs alike.

#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "tests")]

#[cfg(unix)]
#[path = "../alive/mod.rs"]
mod alive;
#[cfg(unix)]
mod command_hooks;
mod consent;
mod hooks;
mod lists;
mod rules;
mod running;
#[cfg(unix)]
#[path = "../waiting/mod.rs"]
mod waiting;

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use devloop_contract::tool::{Exposure, Kind};
use devloop_core::permission::{List, Mode, Rule, Verdict};
use devloop_core::registry::{Naming, ToolBuilder};
use devloop_runtime::AgentId;
use devloop_runtime::call::{Approval, Approver, Ask, Boxed, CallOutcome, CallRequest, Listing, ToolService};
use devloop_runtime::hooks::{After, Before, Hook, HookCall};
use devloop_runtime::identity::{Given, identify};
use devloop_runtime::session::{Runner, RunnerCall, RunnerError, Session, SessionBuilder, empty_catalogue};
use devloop_runtime::testing::TestProject;
use serde_json::{Map, Value, json};

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

fn builder(project: &TestProject) -> SessionBuilder {
    project.builder(AgentId::Pm)
}

/// A host's tool that says what it was given, and counts.
fn echo(kind: Kind, calls: &Arc<AtomicUsize>) -> (ToolBuilder, Runner) {
    let calls = Arc::clone(calls);
    let runner = Runner::of(move |call: RunnerCall| {
        calls.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, RunnerError>(json!({ "said": call.input["text"] })) }
    });
    let tool = ToolBuilder::new("echo")
        .summary("Says it again.")
        .kind(kind)
        .permission(Naming {
            signature: "echo({text})".into(),
            rule: "echo({text})".into(),
        })
        .input_schema(json!({
            "type": "object",
            "properties": { "text": { "type": "string" }, "times": { "type": "integer", "default": 1 } },
            "required": ["text"],
            "additionalProperties": false,
        }));
    (tool, runner)
}

struct Fixture {
    project: TestProject,
    calls: Arc<AtomicUsize>,
    runtime: tokio::runtime::Runtime,
}

impl Fixture {
    fn new() -> Self {
        Self {
            project: TestProject::new(),
            calls: Arc::default(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
        }
    }

    fn session(&self, kind: Kind, adjust: impl FnOnce(SessionBuilder) -> SessionBuilder) -> Session {
        let catalogue = empty_catalogue();
        let (tool, runner) = echo(kind, &self.calls);
        catalogue.register(tool.build().unwrap(), runner).unwrap();
        adjust(builder(&self.project).tools(&catalogue)).build().unwrap()
    }

    fn call(&self, session: &Session, tool: &str, arguments: Value) -> CallOutcome {
        self.runtime
            .block_on(session.call(CallRequest::new(tool, object(arguments), "test:1")))
    }

    fn echo(&self, session: &Session, text: &str) -> CallOutcome {
        self.call(session, "echo", json!({ "text": text }))
    }

    fn ran(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

fn rule(text: &str) -> Rule {
    Rule::parse(text).unwrap()
}

#[track_caller]
fn code(outcome: &CallOutcome) -> &str {
    match outcome {
        CallOutcome::Expected(body) => &body.code,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn reason(outcome: &CallOutcome) -> &str {
    match outcome {
        CallOutcome::Expected(body) => &body.reason,
        other => panic!("{other:?}"),
    }
}

/// Says what it is told to, and remembers what it was asked.
#[derive(Debug)]
struct Person {
    says: Approval,
    asked: Mutex<Vec<Ask>>,
}

impl Person {
    fn new(says: Approval) -> Arc<Self> {
        Arc::new(Self {
            says,
            asked: Mutex::default(),
        })
    }

    fn asked(&self) -> Vec<Ask> {
        self.asked.lock().unwrap().clone()
    }
}

impl Approver for Person {
    fn approve(&self, ask: Ask) -> Boxed<'_, Approval> {
        self.asked.lock().unwrap().push(ask);
        let says = self.says.clone();
        Box::pin(async move { says })
    }
}

/// Says what it is told to, before and after.
#[derive(Debug)]
struct Says {
    name: &'static str,
    before: Before,
    after: After,
    heard: Mutex<Vec<(Value, Verdict)>>,
}

impl Says {
    fn before(name: &'static str, before: Before) -> Arc<Self> {
        Arc::new(Self {
            name,
            before,
            after: After::Pass,
            heard: Mutex::default(),
        })
    }
}

impl Hook for Says {
    fn name(&self) -> Cow<'static, str> {
        self.name.into()
    }

    fn before<'a>(&'a self, call: HookCall<'a>) -> Boxed<'a, Before> {
        let heard = (call.input.clone(), call.decision.verdict);
        self.heard.lock().unwrap().push(heard);
        Box::pin(async { self.before.clone() })
    }

    fn after<'a>(&'a self, _call: HookCall<'a>, _outcome: &'a CallOutcome) -> Boxed<'a, After> {
        Box::pin(async { self.after.clone() })
    }
}
