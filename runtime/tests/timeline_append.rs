//! `timeline_append`: answers, lines, repeated calls, torn ends, and what is refused.

#![cfg(unix)]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::time::Duration;

use devloop_generated::AgentId;
use devloop_generated::events::TimelineEntry;
use devloop_runtime::call::{CallOutcome, CallRequest, ToolService};
use devloop_runtime::config::Config;
use devloop_runtime::events::Told;
use devloop_runtime::identity::Given;
use devloop_runtime::testing::{START, TestProject, TestSession};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const TOOL: &str = "timeline_append";
const FILE: &str = "timeline.ndjson";
const TORN: &str = "agent-state/timeline/timeline.torn.ndjson";
const REPLAY: &str = "agent-state/.replay/pm.ndjson";

fn lines(project: &TestProject) -> Vec<Value> {
    let text = project.text(FILE).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn entry(summary: &str) -> Value {
    json!({"type": "decision", "summary": summary})
}

fn add(session: &TestSession, summary: &str) -> u64 {
    session.call(TOOL, entry(summary)).success()["seq"].as_u64().unwrap()
}

#[test]
fn an_entry_is_one_line_in_the_order_of_its_fields() {
    let project = TestProject::new();
    let given = Given {
        company: None,
        project: Some("p-test001".to_owned()),
        unit: Some("todo-be".to_owned()),
        call_id: Some("call-1".to_owned()),
        session_id: Some("sess-1".to_owned()),
    };
    let session = project.session_as(AgentId::Coder.agent(), given);
    let input = json!({
        "type": "test.run", "summary": "三个测试失败 🙂\nsee below", "level": "warn",
        "data": {"z": 1, "a": [1.5, null, "\u{0}"]},
        "refs": [{"kind": "file", "id": "units/todo-be/out.json"}, {"kind": "bug", "id": "BUG-0001"}],
        "idempotency_key": "run-8",
    });
    let seen = session.call_again(TOOL, input, "use-1");
    assert_eq!(seen.success(), &json!({"ok": true, "seq": 1, "ts": START}));
    assert_eq!(seen.effects.changed(), [FILE]);
    let line = json!({
        "v": 1, "seq": 1, "ts": START, "pid": "p-test001", "agent": "coder", "unit_id": "todo-be", "call_id": "call-1",
        "session_id": "sess-1", "type": "test.run", "level": "warn", "summary": "三个测试失败 🙂\nsee below",
        "data": {"z": 1, "a": [1.5, null, "\u{0}"]},
        "refs": [{"kind": "file", "id": "units/todo-be/out.json"}, {"kind": "bug", "id": "BUG-0001"}],
        "tool_use_id": "use-1", "idempotency_key": "run-8",
    });
    // As text, so that the order counts.
    assert_eq!(project.text(FILE).unwrap(), format!("{line}\n"));
    assert_eq!(seen.effects.events(), ["timeline.entry"]);
    let event = seen.effects.event("timeline.entry").unwrap();
    assert_eq!(
        (&event["agent"], &event["unit_id"], &event["seq"]),
        (&json!("coder"), &json!("todo-be"), &json!(1))
    );
    assert_eq!((&event["refs"][1]["id"], event.get("data")), (&json!("BUG-0001"), None));

    let seen = session.call(TOOL, entry("x"));
    assert_eq!(seen.success()["seq"], 2);
    let line = &lines(&project)[1];
    assert_eq!(line["level"], "info");
    assert!(line.get("data").is_none() && line.get("refs").is_none() && line.get("idempotency_key").is_none());
    let told: Vec<Told> = project.project().events_from(1).next_batch(10).unwrap();
    let second = TimelineEntry {
        seq: 2,
        type_: "decision".to_owned(),
        level: devloop_generated::types::TimelineLevel::Info,
        summary: "x".to_owned(),
        refs: None,
    };
    assert_eq!(told[1].known(), Some(&second.into()));
}

#[test]
fn all_agents_share_the_numbers() {
    let project = TestProject::new();
    for (agent, seq) in [
        AgentId::Pm,
        AgentId::Architect,
        AgentId::Coder,
        AgentId::Tester,
        AgentId::Integrator,
        AgentId::BugTriager,
    ]
    .into_iter()
    .zip(1..)
    {
        assert_eq!(add(&project.session(agent), "x"), seq);
    }
    assert_eq!(lines(&project)[5]["agent"], "bug-triager");
}

#[test]
fn input_that_does_not_fit_is_refused_before_anything_is_written() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    let mut deep = json!(1);
    for _ in 0..64 {
        deep = json!([deep]);
    }
    for (input, field) in [
        (json!({"summary": "s"}), "type"),
        (json!({"type": "t"}), "summary"),
        (json!({"type": "T", "summary": "s"}), "type"),
        (json!({"type": "t".repeat(65), "summary": "s"}), "type"),
        (json!({"type": "t", "summary": " \n"}), "summary"),
        (json!({"type": "t", "summary": "s".repeat(2001)}), "summary"),
        (json!({"type": "t", "summary": "s", "level": "fatal"}), "level"),
        (json!({"type": "t", "summary": "s", "data": [1]}), "data"),
        (json!({"type": "t", "summary": "s", "data": {"deep": deep}}), "data"),
        (
            json!({"type": "t", "summary": "s", "refs": [{"kind": "x", "id": "1"}]}),
            "refs[0].kind",
        ),
        (
            json!({"type": "t", "summary": "s", "refs": vec![json!({"kind": "bug", "id": "1"}); 21]}),
            "refs",
        ),
        (
            json!({"type": "t", "summary": "s", "idempotency_key": ""}),
            "idempotency_key",
        ),
        (json!({"type": "t", "summary": "s", "seq": 7}), "seq"),
    ] {
        let seen = session.call(TOOL, input);
        assert_eq!(seen.invalid().problems[0].field, field, "{:?}", seen.invalid());
    }
    let most = json!({"text": "d".repeat(32 * 1024 - 11)});
    let more = json!({"text": "d".repeat(32 * 1024 - 10)});
    let refs = vec![json!({"kind": "file", "id": "\u{1}".repeat(256)}); 20];
    let failure = session.call(TOOL, json!({"type": "t", "summary": "s", "data": more}));
    let details = json!({"what": "`data`", "bytes": 32 * 1024 + 1, "limit": 32 * 1024});
    assert_eq!(failure.failure("too_large").details, Some(details));
    assert!(
        failure
            .failure("too_large")
            .hint
            .as_ref()
            .unwrap()
            .contains("into a file")
    );
    let line = json!({"type": "t", "summary": "🙂".repeat(2000), "data": most, "refs": refs, "idempotency_key": "👍".repeat(128)});
    let failure = session.call(TOOL, line.clone());
    assert_eq!(
        failure.failure("too_large").details.as_ref().unwrap()["limit"],
        64 * 1024
    );
    assert_eq!(project.text(FILE), None);
    // The key was not used up by a call that did nothing.
    let mut shorter = line;
    shorter["refs"] = json!([]);
    shorter["summary"] = json!("🙂".repeat(1000));
    assert_eq!(session.call(TOOL, shorter).success()["seq"], 1);
}

#[test]
fn only_the_timeline_itself_tells_of_a_mended_end() {
    let project = TestProject::new();
    let forged = json!({"type": "timeline.repaired", "summary": "All is well"});
    let seen = project.session(AgentId::Pm).call(TOOL, forged);
    assert_eq!(seen.invalid().problems[0].field, "type");
    assert!(seen.effects.is_empty());
}

#[test]
fn a_repeated_call_appends_nothing() {
    let project = TestProject::new();
    let (session, other) = (project.session(AgentId::Pm), project.session(AgentId::Coder));
    let first = session.call_again(TOOL, entry("one"), "use-1").success().clone();
    let seen = session.call_again(TOOL, entry("one"), "use-1");
    assert_eq!(
        seen.success(),
        &json!({"ok": true, "seq": 1, "ts": first["ts"], "replayed": true})
    );
    assert!(seen.effects.events().is_empty() && seen.effects.changed().is_empty());
    session
        .call_again(TOOL, entry("two"), "use-1")
        .failure("idempotency_conflict");
    // Another agent's call may have the same name.
    assert_eq!(other.call_again(TOOL, entry("one"), "use-1").success()["seq"], 2);
    // A key that the agent chose stands above the name of the call.
    let keyed = |summary: &str| json!({"type": "t", "summary": summary, "idempotency_key": "k"});
    assert_eq!(session.call_again(TOOL, keyed("three"), "use-2").success()["seq"], 3);
    let again = project.session(AgentId::Pm).call_again(TOOL, keyed("three"), "use-3");
    assert_eq!(
        (&again.success()["seq"], &again.success()["replayed"]),
        (&json!(3), &json!(true))
    );
    session
        .call_again(TOOL, keyed("four"), "use-4")
        .failure("idempotency_conflict");
    assert_eq!(lines(&project).len(), 3);
}

/// As after a crash between the entry and the note that the call is complete.
#[test]
fn a_call_that_a_crash_cut_off_after_its_effect_is_found_again() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    let keyed = json!({"type": "t", "summary": "once", "idempotency_key": "k"});
    let first = session.call_again(TOOL, keyed.clone(), "use-1").success().clone();
    add(&session, "another");
    let kept = project.text(REPLAY).unwrap();
    let cut: Vec<&str> = kept.lines().filter(|line| !line.contains("\"call\":1,")).collect();
    assert_eq!(cut.len(), kept.lines().count() - 1);
    // Another process reads it.
    let text = cut.join("\n") + "\n";
    let restarted = TestProject::new();
    restarted.put(REPLAY, text).put(FILE, project.text(FILE).unwrap());
    let session = restarted.session(AgentId::Pm);
    let seen = session.call_again(TOOL, keyed.clone(), "use-2");
    assert_eq!(
        seen.success(),
        &json!({"ok": true, "seq": 1, "ts": first["ts"], "replayed": true})
    );
    assert_eq!(lines(&restarted).len(), 2);
    let mut changed = keyed;
    changed["summary"] = json!("other");
    session
        .call_again(TOOL, changed, "use-3")
        .failure("idempotency_conflict");
}

/// As after a crash between the note that the call begins and its entry; others have taken the number since.
#[test]
fn a_call_that_a_crash_cut_off_before_its_effect_is_made() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    let keyed = json!({"type": "t", "summary": "once", "idempotency_key": "k"});
    session.call_again(TOOL, keyed.clone(), "use-1").success();
    let begun = project.text(REPLAY).unwrap();
    let begun = begun.lines().next().unwrap().to_owned() + "\n";
    for others in [0, 1, 3] {
        let restarted = TestProject::new();
        restarted.put(REPLAY, &begun);
        let coder = restarted.session(AgentId::Coder);
        for n in 1..=others {
            assert_eq!(add(&coder, "x"), n);
        }
        let session = restarted.session(AgentId::Pm);
        let seen = session.call_again(TOOL, keyed.clone(), "use-2");
        assert_eq!(
            (&seen.success()["seq"], seen.success().get("replayed")),
            (&json!(others + 1), None)
        );
        let again = session.call_again(TOOL, keyed.clone(), "use-3");
        assert_eq!(
            (&again.success()["seq"], &again.success()["replayed"]),
            (&json!(others + 1), &json!(true))
        );
    }
}

#[test]
fn a_torn_end_is_mended_kept_and_told() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    add(&session, "一");
    let whole = project.text(FILE).unwrap().into_bytes();
    let record = [&whole[..whole.len() - 1]].concat();
    let mut ends: Vec<Vec<u8>> = (1..record.len()).map(|cut| record[..cut].to_vec()).collect();
    ends.push(vec![0; 5_000]);
    ends.push([&record[..50], &[0; 300][..]].concat());
    ends.push(b"\xe4\xb8".to_vec());
    ends.push(b"{\"seq\":\"x\"}".to_vec());
    for (n, torn) in ends.iter().enumerate() {
        // Each cut is a call of the whole path; the engine's own tests have all of them.
        if n % 37 != 0 && n < record.len() - 1 {
            continue;
        }
        let project = TestProject::new();
        project.put(FILE, [&whole[..], torn].concat());
        let seen = project.session(AgentId::Pm).call(TOOL, entry("after"));
        let repaired = json!({"bytes": torn.len(), "quarantine": TORN});
        assert_eq!(
            seen.success(),
            &json!({"ok": true, "seq": 3, "ts": START, "repaired": repaired})
        );
        let lines = lines(&project);
        assert_eq!(
            (lines.len(), &lines[1]["type"], &lines[1]["level"]),
            (3, &json!("timeline.repaired"), &json!("warn"))
        );
        assert_eq!(lines[1]["data"], repaired);
        assert_eq!(seen.effects.events(), ["timeline.entry", "timeline.entry"]);
        let kept = fs::read(project.path().join(TORN)).unwrap();
        assert_eq!(kept, [&torn[..], b"\n"].concat(), "nothing is thrown away");
    }
    project.put(FILE, &record);
    let seen = session.call(TOOL, entry("after"));
    assert_eq!(seen.success()["repaired"], json!({"bytes": 0}));
    assert_eq!(
        (seen.success()["seq"].as_u64(), lines(&project)[1]["data"].clone()),
        (Some(3), json!({"bytes": 0}))
    );
    assert_eq!(fs::read(project.path().join(FILE)).unwrap()[..whole.len()], whole);
    assert!(session.call(TOOL, entry("x")).success().get("repaired").is_none());
}

#[test]
fn time_never_goes_back_within_a_file() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    let line = |ts: &str| json!({"v": 1, "seq": 7, "ts": ts, "type": "x"}).to_string() + "\n";
    let later = "2027-01-01T00:00:00.000Z";
    project.put(FILE, line(later));
    let seen = session.call(TOOL, entry("x"));
    assert_eq!(
        (&seen.success()["seq"], &seen.success()["ts"]),
        (&json!(8), &json!(later))
    );
    assert_eq!(lines(&project)[1]["ts"], later);
    for odd in ["yesterday", "", "2026-11-30T10:15:00.122999Z"] {
        project.put(FILE, line(odd));
        assert_eq!(session.call(TOOL, entry("x")).success()["ts"], START, "{odd}");
    }
    project.clock().advance(Duration::from_secs(5));
    assert_eq!(
        session.call(TOOL, entry("x")).success()["ts"],
        "2026-11-30T10:15:05.123Z"
    );
}

#[test]
fn what_lies_in_the_way_is_never_written_through() {
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let refused = |prepare: &dyn Fn(&TestProject)| {
        let project = TestProject::new();
        prepare(&project);
        let seen = project.session(AgentId::Pm).call(TOOL, entry("x"));
        assert!(
            matches!(&seen.result, CallOutcome::Sandbox { message, .. }
                if message == "Sandbox violation:pm tried to write timeline.ndjson"
                    || message == "Sandbox violation:pm tried to write agent-state/timeline"),
            "{:?}",
            seen.result
        );
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    };
    refused(&|project| symlink(&victim, project.path().join(FILE)).unwrap());
    refused(&|project| symlink(outside.path().join("new"), project.path().join(FILE)).unwrap());
    refused(&|project| fs::hard_link(&victim, project.path().join(FILE)).unwrap());
    refused(&|project| fs::create_dir(project.path().join(FILE)).unwrap());
    refused(&|project| {
        fs::create_dir_all(project.path().join("agent-state")).unwrap();
        symlink(outside.path(), project.path().join("agent-state/timeline")).unwrap();
    });
}

#[test]
fn a_held_timeline_is_busy_and_the_call_can_be_made_again() {
    let config = Config {
        lock_wait: Duration::from_millis(20),
        ..Config::default()
    };
    let project = TestProject::with(config, |project| project);
    let session = project.session(AgentId::Pm);
    add(&session, "one");
    let lock = File::options()
        .write(true)
        .open(project.path().join("agent-state/.locks/timeline.lock"))
        .unwrap();
    lock.lock().unwrap();
    let seen = session.call_again(TOOL, entry("two"), "use-2");
    assert!(
        seen.failure("busy").details.as_ref().unwrap()["waited_ms"]
            .as_u64()
            .unwrap()
            >= 20
    );
    lock.unlock().unwrap();
    assert_eq!(lines(&project).len(), 1);
    let seen = session.call_again(TOOL, entry("two"), "use-2");
    assert_eq!(
        (&seen.success()["seq"], seen.success().get("replayed")),
        (&json!(2), None)
    );
}

#[test]
fn a_cancelled_call_appends_nothing() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    add(&session, "one");
    let lock = File::options()
        .write(true)
        .open(project.path().join("agent-state/.locks/timeline.lock"))
        .unwrap();
    lock.lock().unwrap();
    let cancel = CancellationToken::new();
    let request = CallRequest {
        cancel: cancel.clone(),
        ..CallRequest::new(TOOL, entry("two").as_object().unwrap().clone(), "use-2")
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let call = runtime.spawn({
        let session = session.session().clone();
        async move { session.call(request).await }
    });
    std::thread::sleep(Duration::from_millis(20));
    cancel.cancel();
    assert_eq!(runtime.block_on(call).unwrap(), CallOutcome::Cancelled);
    lock.unlock().unwrap();
    assert_eq!(lines(&project).len(), 1);
    assert_eq!(session.call_again(TOOL, entry("two"), "use-2").success()["seq"], 2);
}
