//! `record_memory` through the real program: answers, exit codes, files, events, repeated calls, many processes, and
//! processes that are killed.

#![cfg(all(feature = "cli", unix))]

mod program;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;

use devloop_core::memory::{Kind, Memory};
use devloop_core::sandbox::ProjectDir;
use devloop_generated::AgentId;
use devloop_runtime::call::{CallOutcome, CallRequest, ToolService};
use devloop_runtime::config::Config;
use devloop_runtime::identity::{Given, identify};
use devloop_runtime::project::Project;
use devloop_runtime::session::Session;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use program::program;

const OK: i32 = 0;
const EXPECTED: i32 = 1;
const REFUSED: i32 = 2;

fn program_in(dir: &Path) -> Command {
    let mut command = program();
    command.current_dir(dir);
    command
}

fn call_as(dir: &Path, agent: &[&str], input: &Value) -> Output {
    program_in(dir)
        .args([
            "call",
            "record_memory",
            "--call-id",
            "call-1",
            "--project-dir",
            ".",
            "--agent",
        ])
        .args(agent)
        .args(["--input", &input.to_string()])
        .output()
        .expect("the program starts")
}

#[track_caller]
fn record(dir: &Path, exit: i32, input: &Value) -> Value {
    let output = call_as(dir, &["pm"], input);
    assert_eq!(output.status.code(), Some(exit), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn fact(title: &str, content: &str) -> Value {
    json!({"kind": "fact", "title": title, "content": content})
}

fn with(mut input: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        input[key] = value.clone();
    }
    input
}

fn project() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn memories(dir: &Path, agent: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Kind::ALL
        .iter()
        .filter_map(|kind| fs::read_dir(dir.join("memory/devloop").join(agent).join(kind.as_str())).ok())
        .flatten()
        .map(|entry| entry.unwrap().path())
        // What a killed process was writing lies there for a while.
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    files.sort();
    files
}

fn index(dir: &Path) -> String {
    fs::read_to_string(dir.join("memory/devloop/pm/INDEX.md")).unwrap_or_default()
}

fn events(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("agent-state/.events/events.ndjson")).unwrap_or_default();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events
        .filter(|event| event["name"] == "agent.memory")
        .map(|event| event["payload"].clone())
        .collect()
}

#[test]
fn a_memory_is_kept_once_counted_and_told() {
    let dir = project();
    let dir = dir.path();
    let input = with(
        fact("Build time", "The build took 31 s on the runner."),
        &json!({"tags": ["ci", "构建"], "importance": 4, "evidence": [{"path": "ci/build.log", "line_start": 3, "quote": "took 31 s"}]}),
    );
    let first = record(dir, OK, &input);
    let path = first["path"].as_str().unwrap();
    assert!(path.starts_with("memory/devloop/pm/fact/build-time-"), "{path}");
    assert_eq!(
        (&first["action"], &first["hits"], &first["similar"]),
        (&json!("created"), &json!(1), &json!([]))
    );
    let again = record(dir, OK, &fact("build time", "The build took 45.5 s on the runner!"));
    assert_eq!(
        (&again["action"], &again["hits"], &again["id"]),
        (&json!("duplicate"), &json!(2), &first["id"])
    );
    assert_eq!(memories(dir, "pm").len(), 1);
    let text = fs::read_to_string(dir.join(path)).unwrap();
    let read = Memory::from_text(&text, Kind::Fact, "x").unwrap();
    assert_eq!(
        (read.hits, read.importance, read.tags),
        (2, 4, vec!["ci".to_owned(), "构建".to_owned()])
    );
    assert!(text.ends_with("---\nThe build took 31 s on the runner.\n"));
    assert_eq!(index(dir).lines().count(), 1);
    let told: Vec<_> = events(dir)
        .iter()
        .map(|event| {
            json!([
                event["agent"],
                event["call_id"],
                event["id"],
                event["kind"],
                event["action"],
                event["hits"]
            ])
        })
        .collect();
    assert_eq!(
        told,
        [
            json!(["pm", "call-1", first["id"], "fact", "created", 1]),
            json!(["pm", "call-1", first["id"], "fact", "duplicate", 2])
        ]
    );
}

#[test]
fn other_numbers_are_told_and_can_be_kept_or_put_in_place() {
    let dir = project();
    let dir = dir.path();
    let text = |port: u32| fact("Dev server port", &format!("The dev server listens on port {port}."));
    let first = record(dir, OK, &text(3000));
    let id = first["id"].as_str().unwrap();
    assert_eq!(record(dir, OK, &text(3000)).get("warnings"), None);
    let again = record(dir, OK, &text(5173));
    assert_eq!((&again["action"], &again["id"]), (&json!("duplicate"), &json!(id)));
    let warning = again["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("numbers") && warning.contains(&format!("supersedes: [\"{id}\"]")),
        "{warning}"
    );
    let both = record(dir, OK, &with(text(8080), &json!({"on_similar": "new"})));
    assert_eq!((&both["action"], both.get("warnings")), (&json!("created"), None));
    let next = record(dir, OK, &with(text(5173), &json!({"supersedes": [id, both["id"]]})));
    assert_eq!((&next["action"], index(dir).lines().count()), (&json!("created"), 1));
}

#[test]
fn the_agent_decides_about_what_is_similar() {
    let dir = project();
    let dir = dir.path();
    let first = record(
        dir,
        OK,
        &fact(
            "The test database is shared",
            "Two test runs at the same time overwrite each other's rows; run them one after the other.",
        ),
    );
    let like = fact(
        "Shared test database",
        "Running two test suites simultaneously overwrites each other's rows, so run them sequentially.",
    );
    let before = (index(dir), events(dir).len());
    let asked = record(dir, EXPECTED, &like);
    assert_eq!(
        (&asked["code"], &asked["details"]["similar"][0]["id"]),
        (&json!("similar_exists"), &first["id"])
    );
    assert_eq!((index(dir), events(dir).len()), before, "a refusal changes nothing");
    let merged = record(
        dir,
        OK,
        &with(like.clone(), &json!({"on_similar": "merge", "tags": ["db"]})),
    );
    assert_eq!(
        (&merged["action"], &merged["id"], &merged["hits"]),
        (&json!("merged"), &first["id"], &json!(2))
    );
    let otherwise_put = fact(
        "A shared test database",
        "Test runs at the same time overwrite each other's rows; so run them one after the other.",
    );
    let kept = record(dir, OK, &with(otherwise_put, &json!({"on_similar": "new"})));
    assert_eq!(
        (&kept["action"], kept["similar"].as_array().unwrap().len()),
        (&json!("created"), 1)
    );
    let replacing = record(
        dir,
        OK,
        &with(
            like,
            &json!({"title": "One shared database for tests", "supersedes": [first["id"], kept["id"]]}),
        ),
    );
    assert_eq!(replacing["action"], "created");
    assert_eq!((index(dir).lines().count(), memories(dir, "pm").len()), (1, 3));
    assert_eq!(
        events(dir).last().unwrap()["superseded"],
        json!([first["id"], kept["id"]])
    );
}

#[test]
fn the_contrary_is_kept_and_named() {
    let dir = project();
    let dir = dir.path();
    let first = record(dir, OK, &fact("启动时迁移", "应用启动时自动执行数据库迁移。"));
    let contrary = record(dir, OK, &fact("启动时迁移", "应用启动时不要自动执行数据库迁移。"));
    assert_eq!(
        (&contrary["action"], &contrary["contradicts"][0]["id"]),
        (&json!("created"), &first["id"])
    );
    assert_eq!(memories(dir, "pm").len(), 2);
}

#[test]
fn what_is_to_be_replaced_must_be_there_and_live() {
    let dir = project();
    let dir = dir.path();
    let old = record(dir, OK, &fact("Package manager", "The web app uses npm."));
    let id = old["id"].as_str().unwrap();
    let mistyped = format!("{}x", &id[..id.len() - 1]);
    let unknown = record(
        dir,
        EXPECTED,
        &with(
            fact("Package manager", "The web app uses pnpm."),
            &json!({"supersedes": [mistyped]}),
        ),
    );
    assert_eq!(
        (&unknown["code"], &unknown["details"]["nearest"]),
        (&json!("unknown_supersedes"), &json!([id]))
    );
    let newer = record(
        dir,
        OK,
        &with(
            fact("Package manager", "The web app uses pnpm."),
            &json!({"supersedes": [id]}),
        ),
    );
    let twice = record(
        dir,
        EXPECTED,
        &with(
            fact("Package manager", "The web app uses yarn."),
            &json!({"supersedes": [id]}),
        ),
    );
    assert_eq!(twice["details"]["nearest"], json!([newer["id"]]));
    assert!(
        twice["reason"].as_str().unwrap().contains("was replaced already"),
        "{twice}"
    );
    assert_eq!(index(dir).lines().count(), 1);
}

#[test]
fn secrets_are_refused_with_their_place_and_nothing_is_written() {
    let dir = project();
    let dir = dir.path();
    // Put together here, so that no scanner takes this file for a leak.
    let token = format!("ghp_{}", "aB3dE5fG7hJ9kL2mN4pQ6rS8tU1vW3xY5zA7");
    for (field, input) in [
        ("content", fact("How to deploy", &format!("部署时用 {token} 登录。"))),
        ("title", fact(&format!("Use {token}"), "It works for all repositories.")),
        // What a terminal would obey is left out when it is written, and then the two halves are one.
        (
            "content",
            fact(
                "How to deploy",
                &format!("部署时用 {}\u{1B}[0m{} 登录。", &token[..9], &token[9..]),
            ),
        ),
        (
            "evidence[0].path",
            with(
                fact("How to deploy", "Log in with the token."),
                &json!({"evidence": [{"path": format!("keys/{token}.txt"), "line_start": 1}]}),
            ),
        ),
        (
            "tags[1]",
            with(
                fact("How to deploy", "Log in with the token."),
                &json!({"tags": ["ci", format!("ghp_{}", "a".repeat(28))]}),
            ),
        ),
        (
            "evidence[0].quote",
            with(
                fact("How to deploy", "Log in with the token."),
                &json!({"evidence": [{"path": "a", "line_start": 1, "quote": format!("TOKEN={token}")}]}),
            ),
        ),
    ] {
        let refused = record(dir, EXPECTED, &input);
        assert_eq!(
            (&refused["code"], &refused["details"]["field"]),
            (&json!("looks_secret"), &json!(field)),
            "{refused}"
        );
        if field == "content" {
            assert_eq!(
                (&refused["details"]["start"], &refused["details"]["end"]),
                (&json!(5), &json!(5 + token.len()))
            );
        }
        assert!(!refused.to_string().contains(&token), "{refused}");
    }
    assert!(!dir.join("memory").exists());
    record(
        dir,
        OK,
        &fact(
            "How to deploy",
            "The token is kept in the vault; use GITHUB_TOKEN=<token> in the job.",
        ),
    );
}

#[test]
fn misshapen_input_is_refused_at_its_field() {
    let dir = project();
    let dir = dir.path();
    for (field, input) in [
        (
            "tags[0]",
            with(
                fact("One fact", "The API needs Redis."),
                &json!({"tags": ["two words"]}),
            ),
        ),
        (
            "tags[1]",
            with(
                fact("One fact", "The API needs Redis."),
                &json!({"tags": ["ok", "a/b"]}),
            ),
        ),
        (
            "evidence[0].line_end",
            with(
                fact("One fact", "The API needs Redis."),
                &json!({"evidence": [{"path": "a", "line_start": 5, "line_end": 4}]}),
            ),
        ),
        (
            "evidence[0].path",
            with(
                fact("One fact", "The API needs Redis."),
                &json!({"evidence": [{"path": "../a", "line_start": 5}]}),
            ),
        ),
        ("title", fact("\u{1b}[31m\u{7}a", "The API needs Redis.")),
        (
            "content",
            fact("One fact", "\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}\u{7}x"),
        ),
        (
            "importance",
            with(fact("One fact", "The API needs Redis."), &json!({"importance": 6})),
        ),
    ] {
        let refused = record(dir, REFUSED, &input);
        assert!(
            refused["reason"].as_str().unwrap().starts_with(&format!("{field}:")),
            "{field}: {refused}"
        );
    }
    assert!(!dir.join("memory").exists());
}

#[test]
fn nothing_in_a_text_becomes_front_matter_or_a_line_of_the_index() {
    let dir = project();
    let dir = dir.path();
    let hostile = fact(
        "x](y)\n- [fake](fact/fake.md)\n---",
        "---\nid: mem-fake\nhits: 99\n---\n\n# more of it",
    );
    let first = record(dir, OK, &hostile);
    assert_eq!(index(dir).lines().count(), 1);
    let again = record(dir, OK, &hostile);
    assert_eq!((&again["hits"], &again["id"]), (&json!(2), &first["id"]));
    let only_punctuation = record(dir, OK, &fact("?!… ---", "A memory without a name."));
    assert!(
        only_punctuation["path"].as_str().unwrap().contains("/fact/note-"),
        "{only_punctuation}"
    );
}

#[test]
fn agents_and_units_have_their_directories() {
    let dir = project();
    let dir = dir.path();
    let input = fact("Package manager", "The web app uses npm.");
    record(dir, OK, &input);
    for unit in ["cart", "checkout"] {
        let output = call_as(dir, &["coder", "--unit", unit], &input);
        assert_eq!(output.status.code(), Some(OK), "{output:?}");
    }
    // What one Coder has learnt, the Coder of another unit knows, too.
    assert_eq!((memories(dir, "pm").len(), memories(dir, "coder").len()), (1, 1));
    for agent in ["architect", "tester", "integrator", "bug-triager"] {
        let unit: &[&str] = if agent == "tester" { &["--unit", "cart"] } else { &[] };
        let output = call_as(dir, &[&[agent], unit].concat(), &input);
        assert_eq!(output.status.code(), Some(OK), "{output:?}");
        assert_eq!(memories(dir, agent).len(), 1);
    }
}

#[test]
fn a_broken_file_is_told_and_the_tool_goes_on() {
    let dir = project();
    let dir = dir.path();
    record(dir, OK, &fact("Package manager", "The web app uses npm."));
    let broken = dir.join("memory/devloop/pm/fact/broken.md");
    fs::write(&broken, "---\ntitle: [\n---\nprecious").unwrap();
    symlink("/etc/passwd", dir.join("memory/devloop/pm/fact/link.md")).unwrap();
    fs::write(dir.join("memory/devloop/pm/INDEX.md"), b"\xff garbage").unwrap();
    let answer = record(dir, OK, &fact("One fact", "The API needs Redis."));
    let warnings = answer["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 2);
    assert!(
        warnings[0]
            .as_str()
            .unwrap()
            .starts_with("memory/devloop/pm/fact/broken.md: line"),
        "{warnings:?}"
    );
    assert!(fs::read_to_string(&broken).unwrap().ends_with("precious"));
    assert_eq!(index(dir).lines().count(), 2);
}

#[test]
fn links_in_the_way_are_refused_and_followed_by_nobody() {
    for place in [
        "memory",
        "memory/devloop/pm",
        "memory/devloop/pm/fact",
        "memory/devloop/pm/INDEX.md",
    ] {
        let dir = project();
        let dir = dir.path();
        let elsewhere = dir.join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::create_dir_all(dir.join(place).parent().unwrap()).unwrap();
        symlink(&elsewhere, dir.join(place)).unwrap();
        let refused = record(dir, REFUSED, &fact("Package manager", "The web app uses npm."));
        assert_eq!(refused["ok"], false, "{refused}");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "{place}");
    }
}

fn session(dir: &Path) -> Session {
    let agent = AgentId::Pm.agent();
    let identity = identify(agent, dir, Given::default(), None).unwrap();
    let project = Project::new(ProjectDir::open(dir).unwrap(), Config::default());
    Session::new(Arc::new(project), agent, identity)
}

async fn call(session: &Session, id: &str, input: &Value) -> CallOutcome {
    let arguments = input.as_object().unwrap().clone();
    session.call(CallRequest::new("record_memory", arguments, id)).await
}

fn success(outcome: CallOutcome) -> Value {
    match outcome {
        CallOutcome::Success(value) => value,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_repeated_call_is_answered_and_not_carried_out_again() {
    let dir = project();
    let dir = dir.path();
    let one = session(dir);
    let input = fact("Build time", "The build took 31 s.");
    let first = success(call(&one, "toolu_1", &input).await);
    for session in [one, session(dir)] {
        let again = success(call(&session, "toolu_1", &input).await);
        assert_eq!(with(first.clone(), &json!({"replayed": true})), again);
    }
    assert_eq!(success(call(&session(dir), "toolu_2", &input).await)["hits"], 2);
    let CallOutcome::Expected(conflict) =
        call(&session(dir), "toolu_1", &fact("Another", "It says something else.")).await
    else {
        panic!("expected a conflict")
    };
    assert_eq!(conflict.code, "idempotency_conflict");
    // A refused call may be made again under its name once the reason is gone.
    let like = with(
        fact("Build time", "The build needed 31 s, a lot of it for type checks."),
        &json!({"supersedes": ["mem-00000000"]}),
    );
    assert!(matches!(
        call(&session(dir), "toolu_3", &like).await,
        CallOutcome::Expected(_)
    ));
    assert_eq!(
        success(call(&session(dir), "toolu_3", &fact("Another", "It says something else.")).await)["action"],
        "created"
    );
}

#[tokio::test]
async fn a_call_that_died_after_its_effect_is_found_by_it() {
    let dir = project();
    let dir = dir.path();
    let input = fact("Build time", "The build took 31 s.");
    let first = success(call(&session(dir), "toolu_1", &input).await);
    // As if the process had died before it could say so.
    let journal = dir.join("agent-state/.replay/pm.ndjson");
    let text = fs::read_to_string(&journal).unwrap();
    let begun = text.split_inclusive('\n').next().unwrap().to_owned();
    fs::write(&journal, &begun).unwrap();
    let again = success(call(&session(dir), "toolu_1", &input).await);
    assert_eq!(
        (&again["replayed"], &again["id"], &again["hits"]),
        (&json!(true), &first["id"], &json!(1))
    );
    // And as if it had died before its effect.
    fs::write(&journal, &begun).unwrap();
    fs::remove_dir_all(dir.join("memory")).unwrap();
    let again = success(call(&session(dir), "toolu_1", &input).await);
    assert_eq!((again.get("replayed"), &again["action"]), (None, &json!("created")));
}

#[tokio::test]
async fn a_cancelled_call_does_nothing() {
    let dir = project();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let arguments = fact("Build time", "The build took 31 s.").as_object().unwrap().clone();
    let request = CallRequest {
        cancel,
        ..CallRequest::new("record_memory", arguments, "t")
    };
    assert!(matches!(
        session(dir.path()).call(request).await,
        CallOutcome::Cancelled
    ));
    assert!(!dir.path().join("memory").exists());
}

/// A text that no other number makes, without digits.
fn distinct(number: usize) -> Value {
    let letters = |mut number: usize| {
        let mut word = String::from("q");
        for _ in 0..4 {
            word.push(char::from(b'a' + u8::try_from(number % 26).unwrap()));
            number /= 26;
        }
        word
    };
    let words: Vec<String> = (1..9).map(|salt| letters(number * 7_919 + salt * 104_729)).collect();
    fact(&format!("About {}", letters(number * 31 + 5)), &words.join(" "))
}

#[test]
fn several_processes_of_one_agent_lose_nothing() {
    let dir = project();
    let dir = dir.path();
    let (processes, each) = (4, 4);
    thread::scope(|scope| {
        for process in 0..processes {
            scope.spawn(move || {
                for number in 0..each {
                    record(dir, OK, &distinct(process * each + number));
                    record(dir, OK, &fact("Build time", &format!("The build took {number} s.")));
                }
            });
        }
    });
    let files = memories(dir, "pm");
    assert_eq!(files.len(), processes * each + 1);
    assert_eq!(index(dir).lines().count(), files.len());
    let shared = files
        .iter()
        .find(|path| path.to_string_lossy().contains("build-time"))
        .unwrap();
    let memory = Memory::from_text(&fs::read_to_string(shared).unwrap(), Kind::Fact, "x").unwrap();
    assert_eq!(memory.hits, (processes * each) as u64);
    assert_eq!(events(dir).len(), 2 * processes * each);
}

/// Processes are killed at any moment; whatever was answered is there, everything can be read, and the next call mends.
#[test]
fn killed_processes_leave_whole_files() {
    let projects = if std::env::var_os("DEVLOOP_LONG").is_some() {
        17
    } else {
        1
    };
    for _ in 0..projects {
        kill_and_mend(project().path(), 12);
    }
}

fn kill_and_mend(dir: &Path, rounds: usize) {
    let mut answered = BTreeSet::new();
    for round in 0..rounds {
        let mut server = program_in(dir)
            .args(["serve", "--agent", "pm", "--project-dir", "."])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = server.stdin.take().unwrap();
        let initialize = json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}});
        let mut frames = format!(
            "{initialize}\n{}\n",
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
        );
        for number in 0..6 {
            // Each one replaces one before, so that several files change.
            let mut arguments = distinct(round * 10 + number);
            if let Some(old) = answered.iter().next_back()
                && number % 2 == 1
            {
                arguments["supersedes"] = json!([old]);
            }
            let request = json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "record_memory", "arguments": arguments}});
            frames.push_str(&request.to_string());
            frames.push('\n');
        }
        // A pipe that breaks is what is tested.
        let _ = input.write_all(frames.as_bytes());
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let mut seen = 0;
        while let Some(Ok(line)) = lines.next() {
            let frame: Value = serde_json::from_str(&line).unwrap();
            if let Some(id) = frame["result"]["structuredContent"]["id"].as_str() {
                answered.insert(id.to_owned());
            }
            // A refusal is an answer, too: what is to be replaced may be history by then.
            seen += usize::from(frame["id"].is_number());
            if seen == round % 5 {
                break;
            }
        }
        thread::sleep(std::time::Duration::from_micros((round as u64 * 377) % 3_000));
        server.kill().unwrap();
        server.wait().unwrap();
    }
    let last = record(dir, OK, &fact("The last", "The build took so long."));
    assert_eq!(last.get("warnings"), None, "{last}");
    let kept: Vec<Memory> = memories(dir, "pm")
        .iter()
        .map(|path| Memory::from_text(&fs::read_to_string(path).unwrap(), Kind::Fact, "x").unwrap())
        .collect();
    let ids: BTreeSet<&str> = kept.iter().map(|memory| memory.id.as_str()).collect();
    assert_eq!(ids.len(), kept.len());
    assert!(
        answered.iter().all(|id| ids.contains(id.as_str())),
        "what was answered is there"
    );
    for memory in &kept {
        for old in &memory.supersedes {
            let old = kept.iter().find(|kept| kept.id == *old).unwrap();
            assert!(old.superseded_by.is_some(), "{} replaced {}", memory.id, old.id);
        }
    }
    let live: Vec<_> = kept.iter().filter(|memory| memory.superseded_by.is_none()).collect();
    let index = index(dir);
    assert_eq!(index.lines().count(), live.len(), "{index}");
    assert!(live.iter().all(|memory| index.contains(&memory.id)), "{index}");
}
