//! A session as a host program uses it: the path of a call on real files.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use devloop_contract::InternalError;
use devloop_core::permission::Mode;
use devloop_core::registry::ToolBuilder;
use devloop_core::sandbox::ProjectDir;
use devloop_generated::AgentId;
use devloop_runtime::call::{CallOutcome, CallRequest, ToolService};
use devloop_runtime::config::Config;
use devloop_runtime::identity::{Given, identify};
use devloop_runtime::project::{Escalation, LoopController, Project};
use devloop_runtime::session::{Runner, RunnerCall, RunnerError, Session};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

fn project(dir: &Path, lock_wait: Duration) -> Project {
    let config = Config {
        lock_wait,
        ..Config::default()
    };
    Project::new(ProjectDir::open(dir).expect("a directory"), config)
}

fn session(project: Project) -> Session {
    let agent = AgentId::Pm.agent();
    let identity = identify(agent, project.path(), Given::default(), None).expect("the PM needs nothing more");
    Session::new(Arc::new(project), agent, identity)
}

fn list(description: &str) -> Value {
    json!({ "items": [{ "id": "step-001", "description": description }] })
}

fn request(arguments: &Value, cancel: &CancellationToken) -> CallRequest {
    CallRequest {
        cancel: cancel.clone(),
        ..CallRequest::new(
            "write_todolist",
            arguments.as_object().expect("an object").clone(),
            "test:1",
        )
    }
}

async fn write(session: &Session, description: &str) -> CallOutcome {
    session
        .call(request(&list(description), &CancellationToken::new()))
        .await
}

/// Holds the lock of the PM's list as another process would: a lock belongs to the open file, not to the process.
fn hold_lock(dir: &Path) -> File {
    fs::create_dir_all(dir.join("agent-state/.locks")).unwrap();
    let path = dir.join("agent-state/.locks/pm-todo.lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .unwrap();
    file.lock().unwrap();
    file
}

fn on_disk(dir: &Path) -> String {
    fs::read_to_string(dir.join("agent-state/pm-todo.json")).unwrap_or_default()
}

#[tokio::test]
async fn a_list_that_another_process_is_writing_is_busy_after_the_wait() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(project(dir.path(), Duration::from_millis(50)));
    let held = hold_lock(dir.path());
    let CallOutcome::Expected(body) = write(&session, "x").await else {
        panic!("the list is locked")
    };
    assert_eq!(body.code, "busy");
    assert!(body.details.unwrap()["waited_ms"].as_u64().unwrap() >= 50);
    drop(held);
    assert!(matches!(write(&session, "x").await, CallOutcome::Success(_)));
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_it_waits_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(project(dir.path(), Duration::from_secs(30)));
    let held = hold_lock(dir.path());
    let cancel = CancellationToken::new();
    let waiting = tokio::spawn({
        let (session, request) = (session.clone(), request(&list("cancelled"), &cancel));
        async move { session.call(request).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    cancel.cancel();
    let outcome = tokio::time::timeout(Duration::from_secs(5), waiting).await;
    assert_eq!(
        outcome.expect("it ends while the lock is still held").unwrap(),
        CallOutcome::Cancelled
    );
    drop(held);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(on_disk(dir.path()), "");
}

#[tokio::test]
async fn a_call_that_was_cancelled_before_never_starts() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(project(dir.path(), Duration::from_secs(1)));
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert_eq!(session.call(request(&list("x"), &cancel)).await, CallOutcome::Cancelled);
    assert_eq!(on_disk(dir.path()), "");
    assert!(!dir.path().join("agent-state/.events").exists());
}

#[tokio::test]
async fn calls_at_the_same_time_are_carried_out_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(project(dir.path(), Duration::from_secs(5)));
    let events = session.project().events().subscribe(64);
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..20 {
        let session = session.clone();
        calls.spawn(async move { write(&session, &format!("list {n}")).await });
    }
    for outcome in calls.join_all().await {
        assert!(matches!(outcome, CallOutcome::Success(_)), "{outcome:?}");
    }
    let told: Vec<String> = std::iter::from_fn(|| events.try_recv())
        .map(|event| event.payload["items"][0]["description"].as_str().unwrap().to_owned())
        .collect();
    let expected: Vec<String> = (0..20).map(|n| format!("list {n}")).collect();
    assert_eq!(told, expected);
    assert!(on_disk(dir.path()).contains("list 19"));
    assert_eq!(
        fs::read_dir(dir.path().join("agent-state/history")).unwrap().count(),
        19
    );
}

#[tokio::test]
async fn the_call_that_comes_when_64_wait_is_told_that_the_session_is_busy() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(project(dir.path(), Duration::from_secs(30)));
    let held = hold_lock(dir.path());
    let never = CancellationToken::new();
    let submit = |n: usize| tokio::spawn(session.submit(request(&list(&format!("list {n}")), &never)));
    let calls: Vec<_> = (0..65).map(submit).collect();
    let CallOutcome::Expected(body) = submit(65).await.unwrap() else {
        panic!("one runs and 64 wait")
    };
    assert_eq!(body.code, "tool_busy");
    assert_eq!(body.reason, "64 calls of this session wait already; nothing was done");
    drop(held);
    for call in calls {
        assert!(matches!(call.await.unwrap(), CallOutcome::Success(_)));
    }
    assert!(on_disk(dir.path()).contains("list 64"));
}

#[tokio::test]
async fn a_call_whose_answer_is_dropped_before_it_begins_never_does() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(project(dir.path(), Duration::from_secs(30)));
    let held = hold_lock(dir.path());
    let never = CancellationToken::new();
    let first = tokio::spawn(session.submit(request(&list("first"), &never)));
    drop(session.submit(request(&list("dropped"), &never)));
    drop(held);
    assert!(matches!(first.await.unwrap(), CallOutcome::Success(_)));
    let outcome = write(&session, "first").await;
    let CallOutcome::Success(result) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(result["version"], 1, "nothing was written in between");
}

/// What writes waits for the end of the model's answer; what is wrong is said at once, in its place.
#[tokio::test]
async fn streamed_calls_are_answered_in_their_order_and_write_when_the_answer_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(project(dir.path(), Duration::from_secs(5)));
    let mut calls = session.streaming();
    let never = CancellationToken::new();
    let call = |id: &str, tool: &str, description: &str| {
        let mut request = request(&list(description), &never);
        (request.tool_use_id, request.tool) = (id.to_owned(), tool.to_owned());
        request
    };
    calls.submit(call("1", "write_todolist", "first")).unwrap();
    calls.submit(call("2", "write_todo", "")).unwrap();
    calls.submit(call("3", "write_todolist", "second")).unwrap();
    assert!(
        calls.submit(call("3", "write_todolist", "third")).is_err(),
        "the id is taken"
    );
    assert_eq!(on_disk(dir.path()), "");
    calls.end();
    let mut seen = Vec::new();
    while let Some((id, outcome)) = calls.next().await {
        seen.push((id, matches!(outcome, CallOutcome::Success(_))));
    }
    let expected = [("1", true), ("2", false), ("3", true)].map(|(id, success)| (id.to_owned(), success));
    assert_eq!(seen, expected);
    assert!(on_disk(dir.path()).contains("second"));
    let calls = session.streaming();
    calls.submit(call("1", "write_todolist", "discarded")).unwrap();
    calls.discard();
    calls.end();
    assert!(!on_disk(dir.path()).contains("discarded"));
}

#[tokio::test]
async fn a_tool_of_somebody_else_is_unknown_and_the_nearest_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(project(dir.path(), Duration::from_secs(1)));
    let mut wrong = request(&list("x"), &CancellationToken::new());
    wrong.tool = "write_todo".to_owned();
    let CallOutcome::UnknownTool { name, nearest } = session.call(wrong).await else {
        panic!("there is no such tool")
    };
    assert_eq!(
        (name.as_str(), nearest),
        ("write_todo", vec!["write_todolist".to_owned()])
    );
}

#[derive(Default)]
struct Watcher(Mutex<Vec<Escalation>>);

impl LoopController for Watcher {
    fn escalate(&self, escalation: &Escalation) {
        self.0.lock().unwrap().push(escalation.clone());
    }
}

/// A host's tool that goes on after its time: until it hears of it, or until the test lets it end.
fn slow(session: &Session, ends: Ends, leave: &Arc<Notify>) {
    let leave = Arc::clone(leave);
    let runner = Runner::of(move |call: RunnerCall| {
        let leave = Arc::clone(&leave);
        async move {
            match ends {
                Ends::WhenItHears => call.cancel.cancelled().await,
                Ends::Later | Ends::BreaksOffLater => leave.notified().await,
            }
            assert!(!matches!(ends, Ends::BreaksOffLater), "it breaks off");
            Err::<Value, _>(RunnerError::Internal(InternalError::bare("the disk is gone")))
        }
    });
    let tool = ToolBuilder::new("slow")
        .summary("Takes too long.")
        .timeout(Duration::from_millis(20))
        .build()
        .unwrap();
    session.set_mode(Mode::Bypass);
    session.catalogue().register(tool, runner).unwrap();
}

#[derive(Clone, Copy, Debug)]
enum Ends {
    /// Within the time that it has to stop.
    WhenItHears,
    /// When its caller has an answer already.
    Later,
    BreaksOffLater,
}

#[tokio::test]
async fn an_internal_error_that_comes_after_the_time_is_over_is_escalated_all_the_same() {
    let late = [Ends::WhenItHears, Ends::Later, Ends::BreaksOffLater].map(|ends| async move {
        let dir = tempfile::tempdir().unwrap();
        let watcher = Arc::new(Watcher::default());
        let project = project(dir.path(), Duration::from_secs(1)).with_controller(Arc::clone(&watcher) as _);
        let session = session(project);
        let (leave, events) = (Arc::new(Notify::new()), session.project().events().subscribe(8));
        slow(&session, ends, &leave);
        let CallOutcome::Expected(body) = session
            .call(CallRequest::new("slow", serde_json::Map::new(), "test:1"))
            .await
        else {
            panic!("its time was over")
        };
        assert_eq!(body.code, "tool_timeout");
        assert_eq!(body.reason, "slow took longer than 20ms and was told to stop");
        if !matches!(ends, Ends::WhenItHears) {
            assert_eq!(watcher.0.lock().unwrap().len(), 0, "nothing has happened yet");
        }
        leave.notify_one();
        let event = events.recv().await.expect("the project is there");
        // The loop controller is told after the subscribers.
        while watcher.0.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let escalations = watcher.0.lock().unwrap().clone();
        let [escalation] = &escalations[..] else {
            panic!("{escalations:?}")
        };
        assert_eq!(
            (event.name.as_str(), &event.payload["error_id"]),
            ("loop.escalated", &json!(escalation.error_id))
        );
        let cause = match ends {
            Ends::BreaksOffLater => "it breaks off",
            _ => "the disk is gone",
        };
        assert!(escalation.chain.contains(cause), "{}", escalation.chain);
        assert_eq!(escalation.tool, "slow");
    });
    let [hears, later, breaks_off] = late;
    tokio::join!(hears, later, breaks_off);
}

/// The project directory is removed under the session's feet: nothing that the agent did.
#[tokio::test]
async fn an_internal_error_is_told_to_the_subscribers_and_the_loop_controller() {
    let dir = tempfile::tempdir().unwrap();
    let watcher = Arc::new(Watcher::default());
    let project = project(dir.path(), Duration::from_secs(1)).with_controller(Arc::clone(&watcher) as _);
    let session = session(project);
    let events = session.project().events().subscribe(8);
    fs::remove_dir(dir.path()).unwrap();
    let CallOutcome::Internal { error_id, chain, .. } = write(&session, "x").await else {
        panic!("there is nowhere to write")
    };
    assert!(chain.contains("agent-state"), "{chain}");
    let told = watcher.0.lock().unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!(
        (&told[0].error_id, &*told[0].tool, &*told[0].agent),
        (&error_id, "write_todolist", "pm")
    );
    let event = events
        .try_recv()
        .expect("subscribers hear of it though the journal cannot be written");
    assert_eq!(
        (&*event.name, &event.payload["error_id"]),
        ("loop.escalated", &json!(error_id))
    );
}

#[tokio::test]
async fn the_instructions_name_the_role_and_its_tools() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(project(dir.path(), Duration::from_secs(1)));
    let instructions = session.instructions();
    assert!(
        instructions.contains("PM Agent") && instructions.contains("write_todolist"),
        "{instructions}"
    );
}
