//! `write_todolist` through a session: cancelled calls, and files that somebody else has had in hand.

#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use devloop_core::sandbox::ProjectDir;
use devloop_core::store::Clock;
use devloop_core::store::state::LARGEST_STATE;
use devloop_generated::AGENTS;
use devloop_runtime::call::{CallOutcome, CallRequest, ToolService};
use devloop_runtime::config::Config;
use devloop_runtime::identity::Identity;
use devloop_runtime::project::Project;
use devloop_runtime::session::Session;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A clock that counts who looks at it, and cancels a call at one of the looks.
#[derive(Debug)]
struct Cancelling {
    looks: AtomicUsize,
    cancel_at: usize,
    token: CancellationToken,
}

impl Cancelling {
    fn at(look: usize) -> Arc<Self> {
        Arc::new(Self {
            looks: AtomicUsize::new(0),
            cancel_at: look,
            token: CancellationToken::new(),
        })
    }
}

impl Clock for Cancelling {
    fn now(&self) -> Timestamp {
        if self.looks.fetch_add(1, Ordering::SeqCst) + 1 == self.cancel_at {
            self.token.cancel();
        }
        "2026-11-30T10:15:00.123Z".parse().expect("a time")
    }
}

fn session(dir: &Path, clock: &Arc<Cancelling>) -> Session {
    let project = Project::new(ProjectDir::open(dir).unwrap(), Config::default()).with_clock(clock.clone());
    let agent = AGENTS.iter().find(|agent| agent.name == "pm").expect("there is a PM");
    let identity = Identity {
        company: "local".into(),
        project: "p".into(),
        agent: agent.name,
        unit_id: None,
        call_id: "call-1".into(),
        session_id: "s".into(),
    };
    Session::new(Arc::new(project), agent, identity)
}

async fn write(session: &Session, text: &str, cancel: CancellationToken) -> CallOutcome {
    let Value::Object(arguments) = json!({"items": [{"id": "step-001", "description": text}]}) else {
        unreachable!()
    };
    let request = CallRequest {
        cancel,
        ..CallRequest::new("write_todolist", arguments, "t")
    };
    session.call(request).await
}

fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_call_that_waits_for_a_lock_ends_when_it_is_cancelled() {
    let dir = TempDir::new().unwrap();
    let state = dir.path().join("agent-state");
    fs::create_dir_all(state.join(".locks")).unwrap();
    let held = fs::File::create(state.join(".locks/pm-todo.lock")).unwrap();
    held.lock().unwrap();
    // The lock is dated before it is waited for.
    let clock = Cancelling::at(1);
    let outcome = write(&session(dir.path(), &clock), "x", clock.token.clone()).await;
    assert_eq!(outcome, CallOutcome::Cancelled);
    drop(held);
    assert_eq!(names_in(&state), [".calls", ".locks"]);
}

#[tokio::test]
async fn a_call_that_is_cancelled_under_its_lock_writes_nothing() {
    let dir = TempDir::new().unwrap();
    let clock = Cancelling::at(0);
    let first = write(&session(dir.path(), &clock), "first", clock.token.clone()).await;
    assert!(matches!(first, CallOutcome::Success(_)), "{first:?}");
    let state = dir.path().join("agent-state");
    let before = (names_in(&state), fs::read(state.join("pm-todo.json")).unwrap());
    // The lock is dated, then the list.
    let clock = Cancelling::at(2);
    let outcome = write(&session(dir.path(), &clock), "second", clock.token.clone()).await;
    assert!(clock.looks.load(Ordering::SeqCst) >= 2);
    assert_eq!(outcome, CallOutcome::Cancelled);
    let after = (names_in(&state), fs::read(state.join("pm-todo.json")).unwrap());
    assert_eq!(after, before);
}

#[tokio::test]
async fn a_list_without_a_readable_time_is_replaced_and_kept() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("agent-state/pm-todo.json");
    fs::create_dir(dir.path().join("agent-state")).unwrap();
    for created_at in ["9".repeat(400), "../../x".to_owned(), String::new()] {
        let old = json!({"agent": "pm", "call_id": "c", "created_at": created_at, "items": [], "current": null,
            "progress_pct": 0});
        fs::write(&file, old.to_string()).unwrap();
        let clock = Cancelling::at(0);
        let outcome = write(&session(dir.path(), &clock), "x", clock.token.clone()).await;
        assert!(matches!(outcome, CallOutcome::Success(_)), "{outcome:?}");
        let history = dir.path().join("agent-state/history");
        assert_eq!(names_in(&history), ["pm-todo.20261130T101500123Z.json"]);
        let kept = fs::read_to_string(history.join("pm-todo.20261130T101500123Z.json")).unwrap();
        assert_eq!(kept, old.to_string());
    }
}

#[tokio::test]
async fn a_list_that_is_too_large_is_set_aside_once() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("agent-state")).unwrap();
    let file = fs::File::create(dir.path().join("agent-state/pm-todo.json")).unwrap();
    file.set_len(LARGEST_STATE + 1).unwrap();
    let clock = Cancelling::at(0);
    let session = session(dir.path(), &clock);
    let CallOutcome::Expected(body) = write(&session, "x", clock.token.clone()).await else {
        panic!("not expected")
    };
    assert_eq!(body.code, "state_corrupt");
    let outcome = write(&session, "x", clock.token.clone()).await;
    assert!(matches!(outcome, CallOutcome::Success(_)), "{outcome:?}");
}
