//! What a host's code may do to the calls of its sessions: share a token, hang, call back, panic.

#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use devloop_contract::tool::{Kind, Parallelism};
use devloop_core::execution::history::Ending;
use devloop_core::permission::Mode;
use devloop_core::registry::ToolBuilder;
use devloop_core::store::Clock;
use devloop_runtime::AgentId;
use devloop_runtime::call::{Boxed, CallOutcome, CallRequest, Passed};
use devloop_runtime::config::Config;
use devloop_runtime::execution::{Executor, Settings};
use devloop_runtime::hooks::{After, Hook, HookCall};
use devloop_runtime::ids::Ids;
use devloop_runtime::session::{
    Answer, Runner, RunnerCall, RunnerError, Session, SessionBuilder, ToolRunner, empty_catalogue,
};
use devloop_runtime::testing::TestProject;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

fn tool(name: &str) -> ToolBuilder {
    ToolBuilder::new(name.to_owned())
        .summary("Does as the test says.")
        .kind(Kind::ReadOnly)
        .timeout(Duration::from_mins(1))
        .input_schema(json!({"type": "object", "properties": {}, "additionalProperties": false}))
}

fn hasty(name: &str) -> ToolBuilder {
    tool(name).timeout(Duration::from_millis(200))
}

fn session(
    project: &TestProject,
    tools: impl IntoIterator<Item = (ToolBuilder, Runner)>,
    adjust: impl FnOnce(SessionBuilder) -> SessionBuilder,
) -> Session {
    let catalogue = empty_catalogue();
    for (tool, runner) in tools {
        catalogue.register(tool.build().unwrap(), runner).unwrap();
    }
    let builder = project.builder(AgentId::Pm);
    adjust(builder.tools(&catalogue).mode(Mode::Bypass)).build().unwrap()
}

fn request(tool: &str) -> CallRequest {
    CallRequest::new(tool, Map::new(), format!("test:{tool}"))
}

fn code(outcome: &CallOutcome) -> String {
    match outcome {
        CallOutcome::Success(_) => "ok".to_owned(),
        other => other.to_json()["code"].as_str().unwrap_or_default().to_owned(),
    }
}

fn well() -> Runner {
    Runner::of(|_| async { Ok(json!({})) })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(future)
}

#[test]
fn a_time_out_ends_its_own_call_and_not_its_callers_token() {
    let project = TestProject::new();
    let stops = Runner::of(|call: RunnerCall| async move {
        call.cancel.cancelled().await;
        Err::<Value, _>(RunnerError::Cancelled)
    });
    let session = session(&project, [(hasty("stops"), stops), (tool("well"), well())], |builder| {
        builder
    });
    let token = CancellationToken::new();
    let with = |tool: &str| CallRequest {
        cancel: token.clone(),
        ..request(tool)
    };
    block_on(async {
        assert_eq!(code(&session.submit(with("stops")).await), "tool_timeout");
        assert!(!token.is_cancelled());
        assert_eq!(code(&session.submit(with("well")).await), "ok");
        token.cancel();
        assert!(matches!(session.submit(with("well")).await, CallOutcome::Cancelled));
    });
}

#[test]
fn what_may_be_dropped_gives_its_turn_back() {
    let project = TestProject::new();
    let forever = Runner::of_droppable(|_| async {
        std::future::pending::<()>().await;
        Ok(Value::Null)
    });
    let session = session(
        &project,
        [(hasty("forever"), forever), (tool("well"), well())],
        |builder| builder,
    );
    block_on(async {
        assert_eq!(code(&session.submit(request("forever")).await), "tool_timeout");
        assert_eq!(code(&session.submit(request("well")).await), "ok");
    });
}

#[test]
fn a_call_within_a_call_that_it_would_wait_for_is_refused_at_once() {
    let project = TestProject::new();
    let inner: Arc<std::sync::OnceLock<Session>> = Arc::default();
    let calls = |name: &'static str| {
        let inner = Arc::clone(&inner);
        Runner::of(move |_| {
            let session = inner.get().unwrap().clone();
            async move { Ok(session.submit(request(name)).await.to_json()) }
        })
    };
    let shared = |name: &str| tool(name).concurrency_safe().parallelism(Parallelism::Shared);
    let tools = [
        (tool("alone_to_alone"), calls("alone")),
        (tool("alone_to_shared"), calls("shared")),
        (shared("shared_to_alone"), calls("alone")),
        (shared("shared_to_shared"), calls("shared")),
        (tool("alone_to_other"), calls("other")),
        (tool("alone"), well()),
        (shared("shared"), well()),
    ];
    let session_of_all = session(&project, tools, |builder| builder);
    inner.set(session_of_all.clone()).unwrap();
    // Another session leads back.
    let other = session(&project, [(tool("back"), calls("alone"))], |builder| builder);
    let leads_back = Runner::of(move |_| {
        let other = other.clone();
        async move { Ok(other.submit(request("back")).await.to_json()) }
    });
    let catalogue = session_of_all.catalogue();
    catalogue.register(tool("other").build().unwrap(), well()).unwrap();
    catalogue.register(tool("round").build().unwrap(), leads_back).unwrap();
    block_on(async {
        for name in [
            "alone_to_alone",
            "alone_to_shared",
            "shared_to_alone",
            "alone_to_other",
            "round",
        ] {
            let outcome = session_of_all.submit(request(name)).await;
            let CallOutcome::Success(said) = outcome else {
                panic!("{name}: {outcome:?}")
            };
            assert_eq!(said["code"], "would_deadlock", "{name}: {said}");
        }
        let outcome = session_of_all.submit(request("shared_to_shared")).await;
        assert_eq!(outcome, CallOutcome::Success(json!({})));
    });
}

/// Withholds every answer, and has no name to say so.
#[derive(Debug)]
struct Nameless;

impl Hook for Nameless {
    fn name(&self) -> Cow<'static, str> {
        panic!("no name")
    }
    fn hears(&self, _call: HookCall<'_>) -> bool {
        panic!("no ears")
    }
    fn after<'a>(&'a self, _call: HookCall<'a>, _outcome: &'a CallOutcome) -> Boxed<'a, After> {
        Box::pin(async { After::Withhold("not yours".to_owned()) })
    }
}

#[test]
fn a_hook_that_panics_wherever_it_can_is_answered_for() {
    let project = TestProject::new();
    let session = session(&project, [(tool("well"), well())], |builder| {
        builder.hook(Arc::new(Nameless))
    });
    let told = session.explain("well", Map::new()).unwrap();
    assert_eq!(told.hooks, ["a hook whose name panics"]);
    let outcome = block_on(session.submit(request("well")));
    assert_eq!(code(&outcome), "answer_withheld");
}

#[derive(Debug)]
struct Broken;

impl Clock for Broken {
    fn now(&self) -> jiff::Timestamp {
        panic!("no time")
    }
}

impl Ids for Broken {
    fn next(&self) -> uuid::Uuid {
        panic!("no ids")
    }
}

#[test]
fn a_clock_and_ids_that_panic_cost_their_call_and_no_more() {
    let broken = Runner::of(|_| async { Err::<Value, _>(devloop_contract::InternalError::bare("it broke").into()) });
    let project = TestProject::with(Config::default(), |project| {
        project.with_clock(Arc::new(Broken)).with_ids(Arc::new(Broken))
    });
    let session = session(
        &project,
        [(tool("broken"), broken), (tool("well"), well())],
        |builder| builder,
    );
    block_on(async {
        assert!(matches!(
            session.submit(request("broken")).await,
            CallOutcome::Internal { .. }
        ));
        assert_eq!(code(&session.submit(request("well")).await), "ok");
        drop(session.submit(request("well")));
    });
}

/// An answer as upstream servers give it.
struct Fails;

impl ToolRunner for Fails {
    fn run(&self, _call: RunnerCall) -> Boxed<'_, Result<Answer, RunnerError>> {
        Box::pin(async {
            Ok(Answer::Passed(Passed {
                is_error: true,
                content: vec![json!({"type": "text", "text": "no"})],
                structured_content: None,
                meta: None,
            }))
        })
    }
}

#[test]
fn the_history_says_what_the_caller_was_told() {
    let executor = Executor::new(Settings::default()).unwrap();
    let of_project = executor.clone();
    let project = TestProject::with(Config::default(), move |project| project.with_executor(of_project));
    let wrong = Runner::of(|_| async { Ok(json!({"n": "one"})) });
    let numbered = tool("wrong").output_schema(json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
    let tools = [
        (tool("well"), well()),
        (tool("fails"), Runner::new(Fails)),
        (numbered, wrong),
    ];
    let session = session(&project, tools, |builder| builder);
    block_on(async {
        for (name, ending) in [
            ("well", Ending::Succeeded),
            ("fails", Ending::Failed),
            ("wrong", Ending::Failed),
        ] {
            session.submit(request(name)).await;
            assert_eq!(executor.records().last().unwrap().ending, ending, "{name}");
        }
    });
}
