//! What a host can count on and ask for: where its tools run, what it is told of its calls, what it can look up and take
//! back.

#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use devloop_core::sandbox::ProjectDir;
use devloop_runtime::AgentId;
use devloop_runtime::call::{Approval, Approver, Ask, Boxed, CallOutcome, CallRequest, ToolService};
use devloop_runtime::catalogue::Catalogue;
use devloop_runtime::config::Config;
use devloop_runtime::contract::tool::Kind;
use devloop_runtime::execution::{Executor, Settings};
use devloop_runtime::identity::{Given, identify};
use devloop_runtime::permission::{List, Mode, Rule, Source, Verdict};
use devloop_runtime::project::Project;
use devloop_runtime::registry::{Naming, ToolBuilder};
use devloop_runtime::session::{Runner, RunnerCall, RunnerError, Session, SessionBuilder, empty_catalogue};
use serde_json::{Value, json};

struct Host {
    _dir: tempfile::TempDir,
    project: Arc<Project>,
    executor: Executor,
    tools: Catalogue<Runner>,
}

impl Host {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings {
            pauses: vec![Duration::from_millis(1); 2],
            ..Settings::default()
        };
        let executor = Executor::new(settings).unwrap();
        let project = Project::new(ProjectDir::open(dir.path()).unwrap(), Config::default());
        Self {
            _dir: dir,
            project: Arc::new(project.with_executor(executor.clone())),
            executor,
            tools: empty_catalogue(),
        }
    }

    fn tool<R>(&self, tool: ToolBuilder, run: impl Fn(RunnerCall) -> R + Send + Sync + 'static)
    where
        R: Future<Output = Result<Value, RunnerError>> + Send + 'static,
    {
        self.tools.register(tool.build().unwrap(), Runner::of(run)).unwrap();
    }

    fn session(&self, adjust: impl FnOnce(SessionBuilder) -> SessionBuilder) -> Session {
        let agent = AgentId::Pm.agent();
        let identity = identify(agent, self.project.path(), Given::default(), None).unwrap();
        let builder = Session::builder(Arc::clone(&self.project), agent, identity);
        adjust(builder.tools(&self.tools)).build().unwrap()
    }
}

fn named(name: &'static str) -> ToolBuilder {
    ToolBuilder::new(name).summary("Does what a test needs.")
}

fn request(tool: &str, arguments: Value) -> CallRequest {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let id = format!("test:{}", CALLS.fetch_add(1, Ordering::Relaxed));
    CallRequest::new(tool, serde_json::from_value(arguments).unwrap(), id)
}

fn thread() -> Value {
    json!({ "thread": std::thread::current().name() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_exclusive_tool_has_a_thread_that_it_may_block_and_a_shared_one_runs_among_the_tasks_of_its_caller() {
    let host = Host::new();
    host.tool(named("alone"), |_| async {
        std::thread::sleep(Duration::from_millis(1));
        Ok(thread())
    });
    host.tool(named("beside").concurrency_safe(), |_| async {
        Ok(tokio::task::block_in_place(thread))
    });
    host.tool(named("wrong"), |_| async { Ok(tokio::task::block_in_place(thread)) });
    let session = host.session(|builder| builder.mode(Mode::Bypass));
    let alone = session.call(request("alone", json!({}))).await;
    assert_eq!(alone, CallOutcome::Success(json!({ "thread": "devloop-desk" })));
    let CallOutcome::Success(beside) = session.call(request("beside", json!({}))).await else {
        panic!("a runtime of several threads may hand over its tasks")
    };
    assert_ne!(beside["thread"], "devloop-desk");
    let wrong = session.call(request("wrong", json!({}))).await;
    assert!(matches!(wrong, CallOutcome::Internal { .. }), "{wrong:?}");
}

#[tokio::test]
async fn a_record_is_known_by_its_call_and_its_session_and_says_when_it_was() {
    let host = Host::new();
    host.tool(named("one").concurrency_safe(), |_| async { Ok(json!({})) });
    let session = host.session(|builder| builder.mode(Mode::Bypass));
    let other = host.session(|builder| builder.mode(Mode::Bypass));
    assert_ne!(session.record_id(), other.record_id());
    let before = Instant::now();
    let first = session.carry_out(request("one", json!({}))).await;
    let second = other.carry_out(request("one", json!({}))).await;
    let after = Instant::now();
    let records = host.executor.records();
    let known: Vec<_> = records
        .iter()
        .map(|record| (record.session, Some(record.call)))
        .collect();
    assert_eq!(
        known,
        [(session.record_id(), first.call), (other.record_id(), second.call)]
    );
    for record in records {
        let submitted = host.executor.began() + record.submitted;
        assert!(before <= submitted && submitted <= after);
    }
    let unknown = session.carry_out(request("two", json!({}))).await;
    assert_eq!(unknown.call, None, "it was refused before it came to the executor");
}

/// Allows everything for the rest of the session.
#[derive(Debug, Default)]
struct Person(Mutex<Vec<String>>);

impl Approver for Person {
    fn approve(&self, ask: Ask) -> Boxed<'_, Approval> {
        self.0.lock().unwrap().push(ask.signature);
        Box::pin(async { Approval::Session })
    }
}

#[tokio::test]
async fn what_a_person_allowed_is_told_and_taken_back() {
    let host = Host::new();
    let item = json!({ "type": "object", "properties": { "item": { "type": "string" } }, "required": ["item"] });
    let naming = Naming {
        signature: "order({item})".into(),
        rule: "order({item})".into(),
    };
    host.tool(named("order").input_schema(item).permission(naming), |_| async {
        Ok(json!({}))
    });
    let person = Arc::new(Person::default());
    let session = host.session(|builder| builder.approver(Arc::clone(&person) as Arc<dyn Approver>));
    let order = async |item: &str| {
        let outcome = session.call(request("order", json!({ "item": item }))).await;
        assert!(matches!(outcome, CallOutcome::Success(_)), "{outcome:?}");
        person.0.lock().unwrap().len()
    };
    let remembered = || -> Vec<String> {
        let rules = session.remembered();
        rules.iter().map(|rule| rule.text().to_owned()).collect()
    };
    assert!(remembered().is_empty());
    assert_eq!((order("tea").await, order("tea").await, order("milk").await), (1, 1, 2));
    assert_eq!(remembered(), ["order(tea)", "order(milk)"]);
    session.forget("order(tea)");
    assert_eq!(remembered(), ["order(milk)"]);
    assert_eq!((order("milk").await, order("tea").await), (2, 3));
    session.forget_all();
    assert!(remembered().is_empty());
    assert_eq!(order("milk").await, 4);
}

#[tokio::test]
async fn rules_are_read_and_added_while_a_session_goes_on() {
    let host = Host::new();
    host.tool(named("order"), |_| async { Ok(json!({})) });
    let session = host.session(|builder| builder.mode(Mode::Bypass));
    let rule = Rule::parse("order").unwrap();
    assert!(
        session
            .current_policy()
            .rules(List::Deny)
            .all(|(known, _)| *known != rule)
    );
    let verdict = async || {
        let carried = session.carry_out(request("order", json!({}))).await;
        carried.decision.unwrap().verdict
    };
    assert_eq!(verdict().await, Verdict::Allow);
    session.add_rule(List::Deny, rule.clone(), "the shop is closed");
    assert_eq!(verdict().await, Verdict::Deny);
    let policy = session.current_policy();
    let (_, origin) = policy.rules(List::Deny).find(|(known, _)| **known == rule).unwrap();
    assert_eq!(origin.source, Source::Host);
}

#[tokio::test]
async fn a_streamed_call_tells_how_it_was_judged_and_how_often_it_was_tried() {
    let host = Host::new();
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    host.tool(
        named("busy").kind(Kind::ReadOnly).concurrency_safe().retry_safe(),
        move |_| {
            let is_first = counted.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                if is_first {
                    // EBUSY, as the system would say it.
                    Err(io::Error::from_raw_os_error(16))?;
                }
                Ok(json!({ "done": true }))
            }
        },
    );
    let session = host.session(|builder| builder.mode(Mode::Bypass));
    let mut calls = session.streaming();
    calls.submit(request("busy", json!({}))).unwrap();
    calls.submit(request("nothing", json!({}))).unwrap();
    // Who stops waiting loses nothing.
    assert!(
        pin!(calls.next())
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    calls.end();
    let (_, carried) = calls.next_carried().await.unwrap();
    assert_eq!(carried.outcome, CallOutcome::Success(json!({ "done": true })));
    assert_eq!((carried.retries, tries.load(Ordering::SeqCst)), (1, 2));
    assert_eq!(carried.decision.unwrap().verdict, Verdict::Allow);
    assert_eq!(carried.call, Some(host.executor.records()[0].call));
    let (_, unknown) = calls.next().await.unwrap();
    assert!(matches!(unknown, CallOutcome::UnknownTool { .. }));
    assert_eq!(calls.next_carried().await, None);
}

#[cfg(feature = "schemars")]
#[tokio::test]
async fn a_tools_schemas_come_from_rust_types() {
    use devloop_runtime::schemars;
    use serde::{Deserialize, Serialize};

    /// What is asked for.
    #[derive(Deserialize, schemars::JsonSchema)]
    #[schemars(crate = "devloop_runtime::schemars")]
    struct Item {
        item: String,
        count: Option<u32>,
    }

    #[derive(Serialize, schemars::JsonSchema)]
    #[schemars(crate = "devloop_runtime::schemars")]
    struct Price {
        cents: u32,
    }

    let host = Host::new();
    let tool = named("price").input::<Item>().output::<Price>();
    host.tool(tool, |call| async move {
        let asked: Item =
            serde_json::from_value(call.input).map_err(|error| RunnerError::internal("reading", error))?;
        let cents = if asked.item == "tea" { 420 } else { 0 };
        Ok(json!(Price {
            cents: cents * asked.count.unwrap_or(1)
        }))
    });
    let session = host.session(|builder| builder.mode(Mode::Bypass));
    let outcome = session
        .call(request("price", json!({ "item": "tea", "count": null })))
        .await;
    assert_eq!(outcome, CallOutcome::Success(json!({ "cents": 420 })));
    let outcome = session
        .call(request("price", json!({ "item": "tea", "count": -1 })))
        .await;
    assert!(matches!(outcome, CallOutcome::Invalid(_)), "{outcome:?}");
}
