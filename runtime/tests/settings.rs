//! What `devloop.toml` limits: each setting as it holds for a call of the real program, or of a host.

#![cfg(all(feature = "cli", unix))]

mod program;

use std::fs::{self, File};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use devloop_contract::tool::Kind;
use devloop_core::permission::Mode;
use devloop_core::registry::ToolBuilder;
use devloop_core::sandbox::ProjectDir;
use devloop_generated::AgentId;
use devloop_runtime::call::{Boxed, CallOutcome, CallRequest};
use devloop_runtime::config::Config;
use devloop_runtime::identity::{Given, identify};
use devloop_runtime::project::Project;
use devloop_runtime::session::{Answer, Runner, RunnerCall, RunnerError, Session, ToolRunner};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;

use program::program;

/// A project with these settings, its user's beside it.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new(settings: &str) -> Self {
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        fs::create_dir_all(place.project().join("agent-state")).unwrap();
        place.set(settings);
        place
    }

    fn project(&self) -> std::path::PathBuf {
        self.dir.path().join("project")
    }

    fn set(&self, settings: &str) {
        fs::write(self.project().join("devloop.toml"), settings).unwrap();
    }

    fn set_users(&self, settings: &str) {
        fs::create_dir_all(self.dir.path().join("config/devloop")).unwrap();
        fs::write(self.dir.path().join("config/devloop/devloop.toml"), settings).unwrap();
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = program();
        command.args(args).arg("--project-dir").arg(self.project());
        command
            .env("CLAUDE_CODE_SESSION_ID", "session-1")
            .env("XDG_CONFIG_HOME", self.dir.path().join("config"))
            .env("XDG_STATE_HOME", self.dir.path().join("state"));
        command.output().expect("the program starts")
    }

    fn call(&self, tool: &str, input: &Value) -> Value {
        let output = self.run(&["call", tool, "--agent", "pm", "--input", &input.to_string()]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    /// A result with `length` letters and some hundred characters more.
    fn call_long(&self, letter: &str, length: usize) -> Value {
        let patch = json!({"patch": {"text": letter.repeat(length)}});
        self.call("update_runtime_state", &patch)
    }
}

fn characters(value: &Value) -> usize {
    value.to_string().chars().count()
}

#[test]
fn how_long_a_result_may_be_is_a_setting_and_its_parts_keep_to_it() {
    let place = Place::new("[limits]\nresult_chars = 4000\n");
    let cut = place.call_long("é", 6_000);
    assert!(characters(&cut) <= 4_000, "{}", characters(&cut));
    let id = cut["oversized"]["whole"]["id"].as_str().expect("it was kept");
    let (mut text, mut offset) = (String::new(), json!(0));
    for _ in 0..20 {
        let part = place.call("read_artifact", &json!({"id": id, "offset": offset}));
        assert!(characters(&part) <= 4_000, "{}", characters(&part));
        text.push_str(part["text"].as_str().unwrap());
        offset = part["next_offset"].clone();
        if offset.is_null() {
            break;
        }
    }
    let whole: Value = serde_json::from_str(&text).expect("all of it was read");
    assert_eq!(whole["state"]["data"]["text"], "é".repeat(6_000));
    // The same is shown whole where more may be shown.
    place.set("");
    let shown = place.call_long("é", 6_000);
    assert_eq!(shown.get("oversized"), None);
    assert_eq!(shown["state"]["data"]["text"], "é".repeat(6_000));
    // What no part of fits is told with the length that holds.
    place.set("[limits]\nresult_chars = 4000\n");
    let keys: serde_json::Map<String, Value> = (0..900).map(|n| (format!("key-{n:04}"), json!(n))).collect();
    let none = place.call("update_runtime_state", &json!({ "patch": keys }));
    assert_eq!(none["code"], "result_too_large", "{none}");
    let reason = none["reason"].as_str().unwrap();
    assert!(reason.contains("no part of it with at most 10000"), "{reason}");
}

#[test]
fn artifact_quotas_are_settings_and_the_result_tells_the_one_that_holds() {
    let small = |more: &str| format!("[limits]\nresult_chars = 4000\n{more}\n");
    let place = Place::new("");
    let not_kept = |settings: &str, letter: &str, length: usize| -> String {
        place.set(&small(settings));
        let result = place.call_long(letter, length);
        let whole = &result["oversized"]["whole"];
        whole["not_kept"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(not_kept("artifact_files = 1", "a", 5_000), "");
    let full = not_kept("artifact_files = 1", "b", 5_000);
    assert!(full.contains("would be 2 files, and may be 1;"), "{full}");
    assert_eq!(not_kept("artifact_files = 2", "c", 5_000), "");
    let large = not_kept("artifact_file_kib = 5", "d", 6_000);
    assert!(large.contains("too large: one may have 5120"), "{large}");
    let full = not_kept("artifact_session_kib = 12", "e", 5_000);
    assert!(full.contains("bytes, and may be 12288;"), "{full}");
    // One that is larger than all may be together is told by its own limit.
    let large = not_kept("artifact_session_kib = 5", "f", 6_000);
    assert!(large.contains("too large: one may have 5120"), "{large}");
    // What was kept under other settings can be read under these.
    place.set(&small(""));
    let kept = place.call_long("g", 9_000);
    let id = kept["oversized"]["whole"]["id"].as_str().unwrap();
    place.set(&small("artifact_session_kib = 1"));
    assert_eq!(place.call("read_artifact", &json!({"id": id}))["offset"], 0);
}

#[test]
fn how_long_a_tool_may_take_is_a_setting() {
    let place =
        Place::new("[limits]\nlock_wait_ms = 60000\n[timeouts_ms]\n\"write_*\" = 86400000\nwrite_todolist = 100\n");
    let list = json!({"items": [{"id": "step-001", "description": "x"}]});
    assert_eq!(place.call("write_todolist", &list)["ok"], true);
    let lock = place.project().join("agent-state/.locks/pm-todo.lock");
    let lock = File::options().read(true).write(true).open(lock).unwrap();
    lock.lock().unwrap();
    // It stops waiting for the lock before its time is over, not after the tool's own 5 s.
    let other = json!({"items": [{"id": "step-001", "description": "y"}]});
    let busy = place.call("write_todolist", &other);
    assert_eq!(busy["code"], "busy", "{busy}");
    let waited = busy["details"]["waited_ms"].as_u64().unwrap();
    assert!((80..4_000).contains(&waited), "{busy}");
    let explained = place.run(&["explain", "write_todolist", "--agent", "pm", "--format", "json"]);
    let explained: Value = serde_json::from_slice(&explained.stdout).unwrap();
    assert_eq!(explained["turn"]["timeout_ms"], 100);
}

#[test]
fn a_number_out_of_its_range_stops_the_program_and_names_the_range() {
    let place = Place::new("");
    let told = |settings: &str| {
        place.set(settings);
        let output = place.run(&["call", "write_todolist", "--agent", "pm", "--input", r#"{"items":[]}"#]);
        let told = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), told)
    };
    for (section, key, below, above, range) in [
        ("limits", "result_chars", 3_999_u64, 1_000_001_u64, "4000 to 1000000"),
        ("limits", "result_binary_kib", 0, 65_537, "1 to 65536"),
        ("limits", "artifact_file_kib", 0, 262_145, "1 to 262144"),
        ("limits", "artifact_session_kib", 0, 67_108_865, "1 to 67108864"),
        ("limits", "artifact_files", 0, 10_001, "1 to 10000"),
        ("execution", "turn_wait_ms", 0, 604_800_001, "1 to 604800000"),
        ("execution", "pending", 0, 100_001, "1 to 100000"),
        ("execution", "waiting", 0, 100_001, "1 to 100000"),
        ("execution", "waiting_per_session", 0, 100_001, "1 to 100000"),
        ("execution", "in_flight.total", 0, 100_001, "1 to 100000"),
        ("execution", "per_session.execute", 0, 100_001, "1 to 100000"),
        ("timeouts_ms", "write_todolist", 0, 86_400_001, "1 to 86400000"),
    ] {
        for value in [below, above] {
            let (code, error) = told(&format!("[{section}]\n{key} = {value}\n"));
            assert_eq!(code, Some(64), "{key}: {error}");
            let expected = format!("{section}.{key} is {value}; expected {range}");
            assert!(
                error.contains(&expected) && error.contains("line 2, column "),
                "{error}"
            );
        }
        for value in [below + 1, above - 1] {
            // Beside what it is a part of, where there is such a thing.
            let more = match key {
                "artifact_file_kib" => "artifact_session_kib = 262144\n",
                "waiting_per_session" => "waiting = 100000\n",
                "per_session.execute" => {
                    "per_session.total = 100000\nin_flight = { total = 100000, execute = 100000 }\n"
                }
                _ => "",
            };
            let (code, error) = told(&format!("[{section}]\n{more}{key} = {value}\n"));
            assert_eq!(code, Some(0), "{key} = {value}: {error}");
        }
    }
    for (settings, expected) in [
        (
            "[execution]\nretry_pauses_ms = [1, 60001]\n",
            "line 2, column 23: execution.retry_pauses_ms[1] is 60001; expected 0 to 60000",
        ),
        (
            "[execution]\nretry_pauses_ms = [1,2,3,4,5,6,7,8,9,10,11]\n",
            "line 2, column 19: execution.retry_pauses_ms has 11 pauses; expected at most 10",
        ),
        (
            "[timeouts_ms]\n\"a b\" = 1\n",
            "line 2, column 9: timeouts_ms has \"a b\", which names no tool",
        ),
        ("[timeouts_ms]\n\"a*b\" = 1\n", "names no tool"),
        (
            "[execution]\nin_flight = { reads = 1 }\n",
            "execution.in_flight.reads is no setting; expected total, ",
        ),
        (
            "[execution]\nlimits = 1\n",
            "execution.limits is no setting; expected turn_wait_ms, ",
        ),
        (
            "[limits]\nartifact_kib = 1\n",
            "limits.artifact_kib is no setting; expected lock_wait_ms, ",
        ),
    ] {
        let (code, error) = told(settings);
        assert_eq!(code, Some(64), "{error}");
        assert!(error.contains(expected) && error.contains("line 2, column "), "{error}");
    }
}

#[test]
fn everything_wrong_with_the_settings_is_told_at_once_and_nothing_starts() {
    let place = Place::new(
        "[limit]\nhistory_kept = 1\n[execution]\npending = 0\n[timeouts_ms]\necho = 'x'\n[permissions]\nmode = 'all'\n",
    );
    place.set_users("[server]\nname = 7\n[[hooks]]\nevent = 'never'\n");
    let input = r#"{"items":[]}"#;
    let agent = ["--agent", "pm"];
    let told: Vec<String> = [
        &["call", "write_todolist", "--input", input][..],
        &["explain", "write_todolist"],
        &["serve"],
    ]
    .into_iter()
    .map(|command| {
        let output = place.run(&[command, &agent].concat());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(64), 0), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    })
    .collect();
    assert!(told.iter().all(|other| *other == told[0]), "{told:?}");
    let beginnings = [
        "config/devloop/devloop.toml: line 2, column 8: server.name is 7; expected 1 to 20 letters",
        "config/devloop/devloop.toml: line 3, column 1: hooks[0].command is missing; expected a program",
        "config/devloop/devloop.toml: line 4, column 9: hooks[0].event is \"never\"; expected `pre_tool_use`",
        "project/devloop.toml: line 1, column 2: limit is no setting; expected server, limits, ",
        "project/devloop.toml: line 4, column 11: execution.pending is 0; expected 1 to 100000",
        "project/devloop.toml: line 6, column 8: timeouts_ms.echo is \"x\"; expected a whole number",
        "project/devloop.toml: line 8, column 8: permissions.mode is \"all\"; expected `plan`",
    ];
    assert_eq!(told[0].lines().count(), beginnings.len(), "{}", told[0]);
    for (line, beginning) in told[0].lines().zip(beginnings) {
        assert!(line.contains(beginning), "{line}");
    }
    assert!(!place.project().join("agent-state/pm-todo.json").exists());
    // `doctor` tells the same, and looks at the rest.
    let doctor = place.run(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert!(beginnings.iter().all(|beginning| said.contains(beginning)), "{said}");
    assert!(said.contains("✓ locks"), "{said}");
}

#[test]
fn what_is_no_settings_file_stops_the_program_and_says_why() {
    let place = Place::new("");
    let file = place.project().join("devloop.toml");
    let told = |expected: &str| {
        let output = place.run(&["call", "write_todolist", "--agent", "pm", "--input", r#"{"items":[]}"#]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{error}");
        assert!(
            error.contains("project/devloop.toml: ") && error.contains(expected),
            "{error}"
        );
        assert!(error.len() < 1_000, "{}", error.len());
    };
    fs::write(&file, b"[limits]\nhistory_kept = 1 # \xE9\n").unwrap();
    told("it is not UTF-8 from byte 28 on");
    fs::write(&file, "#".repeat(10 << 20)).unwrap();
    told("bytes or more; settings have at most 65536");
    fs::write(&file, "[limits]\nhistory_kept 1\n").unwrap();
    told("line 2, column 14: it is no TOML: key with no value, expected `=`");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    told("it must be a regular file");
}

#[test]
fn numbers_that_do_not_go_together_are_told_where_they_were_said() {
    let place = Place::new("");
    let told = |users: &str, settings: &str| {
        place.set_users(users);
        place.set(settings);
        let output = place.run(&["call", "write_todolist", "--agent", "pm", "--input", r#"{"items":[]}"#]);
        String::from_utf8(output.stderr).unwrap()
    };
    for (users, projects, file, expected) in [
        (
            "",
            "[limits]\nartifact_file_kib = 65537\n",
            "project/devloop.toml",
            "line 2, column 21: limits.artifact_file_kib is 65537; expected 1 to 65536 (`limits.artifact_session_kib`)",
        ),
        // The user's own number no longer fits a project that has less.
        (
            "[execution]\nper_session = { total = 9 }\n",
            "[execution]\nin_flight = { total = 8 }\n",
            "config/devloop/devloop.toml",
            "line 2, column 25: execution.per_session.total is 9; expected 1 to 8 (`execution.in_flight.total`)",
        ),
        (
            "",
            "[execution]\nin_flight.write = 33\n",
            "project/devloop.toml",
            "execution.in_flight.write is 33; expected 1 to 32 (`execution.in_flight.total`)",
        ),
        (
            "[execution]\nwaiting = 9\n",
            "[execution]\nwaiting_per_session = 10\n",
            "project/devloop.toml",
            "execution.waiting_per_session is 10; expected 1 to 9 (`execution.waiting`)",
        ),
    ] {
        let error = told(users, projects);
        assert!(error.contains(expected) && error.contains(file), "{error}");
    }
    // What is not said follows.
    assert_eq!(told("[execution]\nin_flight = { total = 1 }\nwaiting = 1\n", ""), "");
    assert_eq!(told("[limits]\nartifact_session_kib = 1\n", ""), "");
    // The project's number counts, not the user's, which alone would not do.
    let users = "[limits]\nartifact_file_kib = 65537\n";
    assert_eq!(told(users, "[limits]\nartifact_file_kib = 1\n"), "");
}

#[test]
fn doctor_tells_the_limits_and_times_that_mean_no_tool() {
    let place =
        Place::new("[limits]\nartifact_files = 7\n[timeouts_ms]\nwrite_todos = 5\n\"write_*\" = 5\n\"docs__*\" = 5\n");
    let output = place.run(&["doctor"]);
    let told = String::from_utf8(output.stdout).unwrap();
    let expected = "limits · results of 16000 characters; artifacts of 16384 KiB, 7 of them or 65536 KiB a session; 32 calls at \
                    once, 10 of a session\n! limits · no tool of devloop is meant by timeouts_ms.\"write_todos\"; did you \
                    mean `write_todolist`?\n";
    assert!(told.contains(expected), "{told}");
}

/// A host's tool whose calls run until the test lets them end.
struct Held {
    now: AtomicUsize,
    most: AtomicUsize,
    tries: AtomicUsize,
    leave: Semaphore,
}

impl ToolRunner for Held {
    fn run(&self, call: RunnerCall) -> Boxed<'_, Result<Answer, RunnerError>> {
        Box::pin(async move {
            self.tries.fetch_add(1, Ordering::AcqRel);
            if call.input.get("transient").is_some() {
                let busy = std::io::Error::from(std::io::ErrorKind::ResourceBusy);
                return Err(RunnerError::Internal(devloop_contract::InternalError::new(
                    "it is busy",
                    busy,
                )));
            }
            let now = self.now.fetch_add(1, Ordering::AcqRel) + 1;
            self.most.fetch_max(now, Ordering::AcqRel);
            tokio::select! {
                leave = self.leave.acquire() => leave.unwrap().forget(),
                () = call.cancel.cancelled() => {}
            }
            self.now.fetch_sub(1, Ordering::AcqRel);
            let ms = u64::try_from(call.tool.timeout.as_millis()).unwrap();
            Ok(Answer::Json(json!({ "timeout_ms": ms })))
        })
    }
}

/// A tool that never ends.
struct Deaf;

impl ToolRunner for Deaf {
    fn run(&self, _: RunnerCall) -> Boxed<'_, Result<Answer, RunnerError>> {
        Box::pin(std::future::pending())
    }
}

/// A session under these settings, with the tools `held` and `held_alone`.
fn host(dir: &Path, settings: &str) -> (Session, Arc<Held>) {
    fs::write(dir.join("devloop.toml"), settings).unwrap();
    let dir = ProjectDir::open(dir).unwrap();
    let config = Config::load(&dir, None).unwrap_or_else(|error| panic!("{error}"));
    let project = Project::new(dir, config);
    let agent = AgentId::Pm.agent();
    let identity = identify(agent, project.path(), Given::default(), None).unwrap();
    let session = Session::new(Arc::new(project), agent, identity);
    session.set_mode(Mode::Bypass);
    let held = Arc::new(Held {
        now: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        tries: AtomicUsize::new(0),
        leave: Semaphore::new(0),
    });
    let tool = |name: &'static str| {
        ToolBuilder::new(name)
            .summary("Waits until it may end.")
            .kind(Kind::ReadOnly)
            .input_schema(json!({"type": "object", "additionalProperties": false, "properties": {
                "transient": {"type": "boolean", "description": "Fails for once."},
            }}))
            .example("Nothing", json!({}))
    };
    let shared = tool("held").concurrency_safe().retry_safe().build().unwrap();
    let runner = || Runner::Service(Arc::clone(&held) as Arc<dyn ToolRunner>);
    session.catalogue().register(shared, runner()).unwrap();
    session
        .catalogue()
        .register(tool("held_alone").build().unwrap(), runner())
        .unwrap();
    (session, held)
}

fn request(tool: &str, input: Value) -> CallRequest {
    CallRequest::new(tool, serde_json::from_value(input).unwrap(), "test:1")
}

fn body(outcome: CallOutcome) -> (String, String) {
    match outcome {
        CallOutcome::Expected(body) => (body.code, body.reason),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn as_many_calls_run_and_wait_at_once_as_the_settings_say() {
    let dir = tempfile::tempdir().unwrap();
    let settings = "[execution]\nper_session = { total = 2 }\nwaiting_per_session = 3\n";
    let (session, held) = host(dir.path(), settings);
    let submit = |_| tokio::spawn(session.submit(request("held", json!({}))));
    let mut calls: Vec<_> = (0..2).map(submit).collect();
    while held.now.load(Ordering::Acquire) < 2 {
        tokio::task::yield_now().await;
    }
    calls.extend((0..4).map(submit));
    while !calls.iter().any(tokio::task::JoinHandle::is_finished) {
        tokio::task::yield_now().await;
    }
    held.leave.add_permits(6);
    let mut refused = Vec::new();
    for call in calls {
        match call.await.unwrap() {
            CallOutcome::Success(_) | CallOutcome::Passed(_) => {}
            other => refused.push(body(other)),
        }
    }
    let reason = "3 calls of this session wait already to run; nothing was done";
    assert_eq!(refused, [("tool_busy".to_owned(), reason.to_owned())]);
    assert_eq!(held.most.load(Ordering::Acquire), 2);
    // The settings of one project are not those of another.
    let (other, held) = host(tempfile::tempdir().unwrap().path(), "");
    let calls: Vec<_> = (0..6)
        .map(|_| tokio::spawn(other.submit(request("held", json!({})))))
        .collect();
    while held.now.load(Ordering::Acquire) < 6 {
        tokio::task::yield_now().await;
    }
    held.leave.add_permits(6);
    for call in calls {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn the_wait_for_a_turn_and_how_many_wait_are_settings() {
    let dir = tempfile::tempdir().unwrap();
    let (session, held) = host(dir.path(), "[execution]\nturn_wait_ms = 40\npending = 1\n");
    let first = tokio::spawn(session.submit(request("held_alone", json!({}))));
    let second = tokio::spawn(session.submit(request("held_alone", json!({}))));
    let third = session.submit(request("held_alone", json!({}))).await;
    let (code, reason) = body(third);
    assert_eq!(
        (&*code, &*reason),
        ("tool_busy", "1 calls of this session wait already; nothing was done")
    );
    let (code, reason) = body(second.await.unwrap());
    let expected = "earlier calls of this session did not end in time, and a call waits at most 40ms; nothing was done";
    assert_eq!((&*code, &*reason), ("tool_busy", expected));
    held.leave.add_permits(1);
    assert!(matches!(
        first.await.unwrap(),
        CallOutcome::Success(_) | CallOutcome::Passed(_)
    ));
}

#[tokio::test]
async fn time_and_pauses_of_a_hosts_tool_are_settings_too() {
    let dir = tempfile::tempdir().unwrap();
    let settings = "[execution]\nretry_pauses_ms = [0, 0, 0, 0]\n[timeouts_ms]\n\"held*\" = 60\nheld_alone = 7000\n";
    let (session, held) = host(dir.path(), settings);
    held.leave.add_permits(1);
    let CallOutcome::Success(answer) = session.submit(request("held_alone", json!({}))).await else {
        panic!("it was let go")
    };
    assert_eq!(answer["timeout_ms"], 7_000, "the runner is told");
    let carried = session.carry_out(request("held", json!({"transient": true}))).await;
    assert_eq!(carried.retries, 4);
    assert_eq!(
        session.explain("held", serde_json::Map::new()).unwrap().turn.timeout_ms,
        60
    );
    // What a tool answers when it is told to stop counts, so this one says nothing.
    let deaf = ToolBuilder::new("held_deaf")
        .summary("Never ends.")
        .kind(Kind::ReadOnly)
        .build()
        .unwrap();
    session.catalogue().register(deaf, Runner::new(Deaf)).unwrap();
    let (code, reason) = body(session.submit(request("held_deaf", json!({}))).await);
    assert_eq!(
        (&*code, &*reason),
        ("tool_timeout", "held_deaf took longer than 60ms and was told to stop")
    );
}
