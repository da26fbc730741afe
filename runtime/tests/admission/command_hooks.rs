//! Hooks that are programs, on real sessions: what they read, what they may say, and that whatever is not clear denies.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use devloop_contract::tool::Kind;
use devloop_core::permission::List;
use devloop_runtime::call::{CallOutcome, CallRequest};
use devloop_runtime::hooks::{CommandHook, Event};
use devloop_runtime::session::{Session, SessionBuilder};
use rustix::process::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::alive::is_alive;
use super::waiting::{GUARD, until};
use super::{Fixture, object, rule};

/// A host whose sessions have hooks that are programs, and a place for those.
struct Scripts {
    host: Fixture,
    programs: TempDir,
}

impl Scripts {
    fn new() -> Self {
        Self {
            host: Fixture::new(),
            programs: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.programs.path().join(name)
    }

    /// A hook on every call; its program is a shell script.
    fn hook(&self, event: Event, script: &str) -> CommandHook {
        let path = self.file(&format!("hook-{}", fs::read_dir(&self.programs).unwrap().count()));
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        CommandHook {
            event,
            calls: rule("*"),
            // Not run by itself: a file that another test's child holds open for writing cannot be.
            command: vec!["sh".to_owned(), path.to_str().unwrap().to_owned()],
            directory: None,
            timeout: GUARD,
        }
    }

    fn session(&self, hooks: impl IntoIterator<Item = CommandHook>) -> Session {
        self.session_with(hooks, |builder| builder.rule(List::Allow, rule("echo"), "test"))
    }

    fn session_with(
        &self,
        hooks: impl IntoIterator<Item = CommandHook>,
        adjust: impl FnOnce(SessionBuilder) -> SessionBuilder,
    ) -> Session {
        self.host.session(Kind::ReadOnly, |builder| {
            let with = |builder: SessionBuilder, hook| builder.hook(Arc::new(hook));
            hooks.into_iter().fold(adjust(builder), with)
        })
    }

    fn call(&self, session: &Session, tool: &str, arguments: Value) -> CallOutcome {
        self.host.call(session, tool, arguments)
    }

    fn echo(&self, session: &Session) -> CallOutcome {
        self.host.echo(session, "hello")
    }

    /// What comes of a call of `echo` with one hook.
    fn with(&self, event: Event, script: &str) -> CallOutcome {
        self.echo(&self.session([self.hook(event, script)]))
    }

    /// How often it was called since this was asked last.
    fn ran(&self) -> usize {
        self.host.calls.swap(0, Ordering::SeqCst)
    }
}

/// The text of a refusal of this code.
#[track_caller]
fn refused(outcome: &CallOutcome, code: &str) -> String {
    match outcome {
        CallOutcome::Expected(body) if body.code == code => body.reason.clone(),
        other => panic!("{code} is expected, found {other:?}"),
    }
}

fn hello() -> CallOutcome {
    CallOutcome::Success(json!({ "said": "hello" }))
}

/// What a hook prints, as a script.
fn prints(text: &str) -> String {
    format!("cat > /dev/null\ncat <<'END'\n{text}\nEND\n")
}

/// Waits for a number in a file that a hook writes.
fn number_in(path: &Path) -> i32 {
    let text = until(path.display(), || {
        fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))
    });
    text.trim().parse().unwrap()
}

/// Waits until a process is no more.
fn gone(id: i32) {
    until(format_args!("the end of the process {id}"), || {
        (!is_alive(id)).then_some(())
    });
}

#[test]
fn a_hook_reads_the_call_and_says_nothing() {
    let fixture = Scripts::new();
    let (before, after) = (fixture.file("before.json"), fixture.file("after.json"));
    let session = fixture.session([
        fixture.hook(Event::Before, &format!("cat > {}", before.display())),
        fixture.hook(Event::After, &format!("pwd >&2; cat > {}", after.display())),
    ]);
    assert_eq!(fixture.echo(&session), hello());
    let read = |path: &Path| -> Value { serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap() };
    let told = read(&before);
    assert_eq!(told["hook_event_name"], "PreToolUse");
    assert_eq!(told["session_id"], "session-1");
    assert_eq!(told["cwd"], fixture.host.project.path().to_str().unwrap());
    assert_eq!((&told["agent"], &told["unit_id"]), (&json!("pm"), &Value::Null));
    assert_eq!(told["tool_name"], "mcp__devloop__echo");
    // As it was built.
    assert_eq!(told["tool_input"], json!({ "text": "hello", "times": 1 }));
    assert_eq!(told["tool_use_id"], "test:1");
    assert_eq!(told["permission"]["verdict"], "allow");
    assert_eq!(told.get("tool_response"), None);
    let told = read(&after);
    assert_eq!(told["hook_event_name"], "PostToolUse");
    assert_eq!(told["tool_response"]["said"], "hello", "{told}");
    assert_eq!(fixture.ran(), 1);
}

#[test]
fn a_hook_runs_in_the_project_directory_and_only_for_calls_that_its_rule_means() {
    let fixture = Scripts::new();
    let told = fixture.file("told");
    let mut hook = fixture.hook(Event::Before, &format!("pwd -P >> {}\nexit 2", told.display()));
    hook.calls = rule("echo(secret*)");
    let session = fixture.session([hook]);
    assert_eq!(fixture.echo(&session), hello());
    assert!(!told.exists(), "it is not even started");
    let outcome = fixture.call(&session, "echo", json!({ "text": "secrets" }));
    refused(&outcome, "permission_denied");
    let dir = fs::canonicalize(fixture.host.project.path()).unwrap();
    assert_eq!(fs::read_to_string(told).unwrap(), format!("{}\n", dir.display()));
}

#[test]
fn what_a_hook_says_before_a_call_is_heeded() {
    let fixture = Scripts::new();
    let specific = |said: Value| json!({ "hookSpecificOutput": said }).to_string();
    for nothing in [
        "{}".to_owned(),
        specific(json!({ "permissionDecision": "allow", "hookEventName": "PreToolUse" })),
        specific(json!({ "additionalContext": "for a model" })),
        json!({ "continue": true, "suppressOutput": true, "systemMessage": "x", "decision": "approve" }).to_string(),
        "\n \t".to_owned(),
    ] {
        assert_eq!(fixture.with(Event::Before, &prints(&nothing)), hello(), "{nothing}");
        assert_eq!(fixture.ran(), 1);
    }
    for (said, part) in [
        (
            specific(json!({ "permissionDecision": "deny", "permissionDecisionReason": "not on a Friday" })),
            "not on a Friday",
        ),
        (
            json!({ "decision": "block", "reason": "the old form" }).to_string(),
            "the old form",
        ),
        (
            specific(json!({ "permissionDecision": "ask", "permissionDecisionReason": "look first" })),
            "look first; there is nobody to ask",
        ),
        (
            json!({ "continue": false, "stopReason": "all must stop" }).to_string(),
            "all must stop",
        ),
        // No yes of any kind outdoes a no beside it.
        (
            json!({ "decision": "block", "reason": "both", "hookSpecificOutput": { "permissionDecision": "allow" } })
                .to_string(),
            "both",
        ),
    ] {
        let reason = refused(&fixture.with(Event::Before, &prints(&said)), "permission_denied");
        assert!(
            reason.contains("the hook `sh ") && reason.contains(part),
            "{said}: {reason}"
        );
        assert_eq!(fixture.ran(), 0, "{said}");
    }
    let changed = specific(json!({ "permissionDecision": "allow", "updatedInput": { "text": "changed" } }));
    assert_eq!(
        fixture.with(Event::Before, &prints(&changed)),
        CallOutcome::Success(json!({ "said": "changed" }))
    );
    assert_eq!(fixture.ran(), 1);
    let wrong = specific(json!({ "updatedInput": { "txet": "changed" } }));
    let reason = refused(&fixture.with(Event::Before, &prints(&wrong)), "permission_denied");
    assert!(reason.contains("the input that it gives is refused"), "{reason}");
    // What it changes is judged anew.
    let session = fixture.session_with([fixture.hook(Event::Before, &prints(&changed))], |builder| {
        builder
            .rule(List::Allow, rule("echo"), "test")
            .rule(List::Deny, rule("echo(changed)"), "test")
    });
    refused(&fixture.echo(&session), "permission_denied");
    assert_eq!(fixture.ran(), 0);
}

#[test]
fn an_allow_of_a_hook_loosens_nothing() {
    let fixture = Scripts::new();
    let allow = json!({ "hookSpecificOutput": { "permissionDecision": "allow" } }).to_string();
    let session = fixture.session_with([fixture.hook(Event::Before, &prints(&allow))], |builder| builder);
    refused(&fixture.echo(&session), "permission_denied");
    assert_eq!(fixture.ran(), 0);
}

#[test]
fn whatever_is_not_clear_denies() {
    let fixture = Scripts::new();
    let specific = |said: Value| prints(&json!({ "hookSpecificOutput": said }).to_string());
    let large = "head -c 300000 /dev/zero | tr '\\0' ' '\n";
    for (script, part) in [
        ("exit 2".to_owned(), "it says no"),
        (
            "echo '{}'; echo 'no such thing' >&2; exit 2".to_owned(),
            "no such thing",
        ),
        (
            "echo '{}'; echo broken >&2; exit 1".to_owned(),
            "it failed (exit status: 1): broken",
        ),
        ("exit 127".to_owned(), "exit status: 127"),
        ("kill -9 $$".to_owned(), "it failed (signal: 9"),
        (prints("go ahead"), "no JSON object"),
        (prints("{\"decision\":"), "cannot be read"),
        (prints("{} {}"), "cannot be read"),
        // The parser would take a list for an object without keys.
        (prints("[]"), "no JSON object"),
        (prints("null"), "no JSON object"),
        (
            prints("{\"permissionDecision\":\"deny\"}"),
            "unknown field `permissionDecision`",
        ),
        (
            prints("{\"decision\":\"block\",\"decision\":\"approve\"}"),
            "duplicate field",
        ),
        (prints("{\"decision\":\"maybe\"}"), "it decides \"maybe\""),
        (specific(json!({ "permissionDecision": "Deny" })), "it decides \"Deny\""),
        (specific(json!({ "permissionDecision": true })), "cannot be read"),
        (specific(json!({ "updatedInput": ["hello"] })), "cannot be read"),
        (
            specific(json!({ "permissionDecision": "ask", "updatedInput": { "text": "x" } })),
            "a person would not see what runs",
        ),
        (format!("echo '{{}}'\n{large}"), "more than 262144 bytes"),
        ("printf '\\377\\376'".to_owned(), "no JSON object"),
    ] {
        let outcome = fixture.with(Event::Before, &script);
        let reason = refused(&outcome, "permission_denied");
        assert!(reason.contains(part), "{script}: {reason}");
        assert_eq!(fixture.ran(), 0, "{script}");
    }
    let mut missing = fixture.hook(Event::Before, "");
    missing.command = vec!["/nonexistent/hook".to_owned()];
    let mut none = missing.clone();
    none.command.clear();
    for (hook, part) in [
        (missing, "it cannot be run: No such file"),
        (none, "it names no program"),
    ] {
        let reason = refused(&fixture.echo(&fixture.session([hook])), "permission_denied");
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(fixture.ran(), 0);
}

#[test]
fn a_hook_after_the_call_can_hold_the_answer_back_and_nothing_else() {
    let fixture = Scripts::new();
    for said in ["", "{}", "{\"decision\":\"approve\"}", "{\"systemMessage\":\"x\"}"] {
        assert_eq!(fixture.with(Event::After, &prints(said)), hello(), "{said}");
    }
    assert_eq!(fixture.ran(), 4);
    let specific = |said: Value| prints(&json!({ "hookSpecificOutput": said }).to_string());
    for (script, part) in [
        (
            prints("{\"decision\":\"block\",\"reason\":\"it names a customer\"}"),
            "it names a customer",
        ),
        ("echo 'a secret' >&2; exit 2".to_owned(), "a secret"),
        ("exit 1".to_owned(), "it failed"),
        (prints("yes"), "no JSON object"),
        (prints("{\"continue\":false}"), "all must stop"),
        (prints("{\"decision\":\"deny\"}"), "only \"block\""),
        (specific(json!({ "permissionDecision": "deny" })), "before a call"),
        (specific(json!({ "updatedInput": {} })), "before a call"),
    ] {
        let reason = refused(&fixture.with(Event::After, &script), "answer_withheld");
        assert!(reason.contains(part), "{script}: {reason}");
        assert_eq!(fixture.ran(), 1, "the call was made all the same");
    }
}

#[test]
fn a_hook_that_takes_too_long_ends_with_all_that_it_started() {
    let fixture = Scripts::new();
    for (event, code) in [(Event::Before, "permission_denied"), (Event::After, "answer_withheld")] {
        let (own, child) = (fixture.file("own"), fixture.file("child"));
        let script = format!(
            "sleep 1000 &\necho $! > {}\necho $$ > {}\ntrap '' TERM\nwait",
            child.display(),
            own.display()
        );
        let mut hook = fixture.hook(event, &script);
        hook.timeout = Duration::from_millis(500);
        let reason = refused(&fixture.echo(&fixture.session([hook])), code);
        assert!(
            reason.contains("it took longer than 500ms and was ended; let it answer sooner"),
            "{reason}"
        );
        assert!(!reason.contains("cannot be run"), "it was run: {reason}");
        for id in [number_in(&own), number_in(&child)] {
            gone(id);
        }
        fs::remove_file(own).unwrap();
        fs::remove_file(child).unwrap();
    }
}

#[test]
#[ignore = "started by the next test, in a process that is killed"]
fn a_process_that_is_killed_while_a_hook_runs() {
    let (Some(dir), Ok(first)) = (
        std::env::var_os("DEVLOOP_TEST_DIR"),
        std::env::var("DEVLOOP_TEST_FIRST"),
    ) else {
        return;
    };
    let fixture = Scripts::new();
    let dir = PathBuf::from(dir);
    let script = format!(
        "trap '' TERM\n{first}\nsleep 1000 &\necho $! > {}\necho $$ > {}\nwait",
        dir.join("child").display(),
        dir.join("own").display()
    );
    fixture.echo(&fixture.session([fixture.hook(Event::Before, &script)]));
}

/// The ids of a hook and of what it starts, in a process that has been killed; `first` is what the hook does first.
fn ids_left_by_a_process_that_is_killed(first: &str) -> [i32; 2] {
    let dir = tempfile::tempdir().unwrap();
    let mut process = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "command_hooks::a_process_that_is_killed_while_a_hook_runs",
        ])
        .env("DEVLOOP_TEST_DIR", dir.path())
        .env("DEVLOOP_TEST_FIRST", first)
        .env("TMPDIR", dir.path())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let ids = ["own", "child"].map(|name| number_in(&dir.path().join(name)));
    // It may have been killed by the hook.
    process.kill().unwrap();
    process.wait().unwrap();
    ids
}

#[test]
fn a_hook_ends_with_all_that_it_started_when_this_process_is_killed() {
    for id in ids_left_by_a_process_that_is_killed("") {
        gone(id);
    }
}

#[test]
fn a_hook_that_kills_this_process_at_once_ends_with_all_that_it_started() {
    for _ in 0..3 {
        for id in ids_left_by_a_process_that_is_killed("kill -s KILL $PPID") {
            gone(id);
        }
    }
}

// The system's files about processes are Linux's.
#[cfg(target_os = "linux")]
#[test]
fn a_hook_starts_under_the_eyes_of_the_process_that_would_end_it() {
    let fixture = Scripts::new();
    let seen = fixture.file("seen");
    // The fifth field of what the system says of a process is its group.
    let script = format!(
        "read -r _ _ _ _ group _ < /proc/$$/stat\ntr '\\0' ' ' < /proc/$group/cmdline > {}",
        seen.display()
    );
    assert_eq!(fixture.with(Event::Before, &script), hello());
    let leader = fs::read_to_string(&seen).unwrap();
    assert!(
        leader.trim_end().ends_with("devloop-guard"),
        "the group is led by {leader}"
    );
}

#[test]
fn what_a_hook_leaves_running_ends_with_it_and_its_word_counts() {
    let fixture = Scripts::new();
    let child = fixture.file("child");
    // The child holds the output open, which would not end by itself.
    let left = format!("sleep 1000 &\necho $! > {}\n", child.display());
    assert_eq!(fixture.with(Event::Before, &left), hello());
    gone(number_in(&child));
    let no = format!("{left}echo '{{\"decision\":\"block\",\"reason\":\"no\"}}'");
    refused(&fixture.with(Event::Before, &no), "permission_denied");
    // One that has left the group may go on, but what the hook says cannot be told from what it might still say.
    let daemon = fixture.file("daemon");
    let script = format!(
        "setsid sh -c 'echo $$ > {0}; exec sleep 1000' &\nwhile ! [ -s {0} ]; do sleep .01; done",
        daemon.display()
    );
    let reason = refused(&fixture.with(Event::Before, &script), "permission_denied");
    assert!(reason.contains("holds its standard output open"), "{reason}");
    let id = Pid::from_raw(number_in(&daemon)).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_hook_need_not_read_and_may_complain_at_length() {
    let fixture = Scripts::new();
    let text = "x".repeat(1 << 20);
    let session = fixture.session([
        // Its input is far more than a pipe holds.
        fixture.hook(Event::Before, "exec < /dev/null"),
        fixture.hook(Event::Before, "head -c 1000000 /dev/zero | tr '\\0' x >&2"),
    ]);
    let outcome = fixture.call(&session, "echo", json!({ "text": text }));
    assert!(matches!(outcome, CallOutcome::Success(_)), "{outcome:?}");
    let loud = "head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 2";
    let reason = refused(&fixture.with(Event::Before, loud), "permission_denied");
    assert!(reason.len() < 3_000, "{}", reason.len());
}

#[test]
fn a_cancelled_call_ends_its_hook() {
    let fixture = Scripts::new();
    let own = fixture.file("own");
    let hook = fixture.hook(Event::Before, &format!("echo $$ > {}\nexec sleep 1000", own.display()));
    let session = fixture.session([hook]);
    let cancel = CancellationToken::new();
    let mut request = CallRequest::new("echo", object(json!({ "text": "hello" })), "test:1");
    request.cancel = cancel.clone();
    let outcome = fixture.host.runtime.block_on(async {
        let call = tokio::spawn(session.submit(request));
        let path = own.clone();
        tokio::task::spawn_blocking(move || number_in(&path)).await.unwrap();
        cancel.cancel();
        call.await.unwrap()
    });
    assert_eq!(outcome, CallOutcome::Cancelled);
    gone(number_in(&own));
    assert_eq!(fixture.ran(), 0);
}

#[test]
fn a_hook_is_heard_on_a_call_of_a_thread_of_its_own() {
    let fixture = Scripts::new();
    let told = fixture.file("told");
    let list = json!({ "items": [] });
    let session = fixture.session([
        fixture.hook(Event::Before, &format!("cat > {}", told.display())),
        fixture.hook(Event::After, "exit 0"),
    ]);
    // An exclusive tool of a spec, which may block.
    let outcome = fixture.call(&session, "write_todolist", list.clone());
    assert!(matches!(outcome, CallOutcome::Success(_)), "{outcome:?}");
    let told: Value = serde_json::from_str(&fs::read_to_string(told).unwrap()).unwrap();
    assert_eq!(told["tool_name"], "mcp__devloop__write_todolist");
    assert_eq!(
        (&told["tool"], &told["permission_mode"]),
        (&json!("write_todolist"), &json!("default"))
    );
    let session = fixture.session([fixture.hook(Event::Before, "echo 'not this one' >&2; exit 2")]);
    let outcome = fixture.call(&session, "write_todolist", list);
    assert!(refused(&outcome, "permission_denied").contains("not this one"));
}
