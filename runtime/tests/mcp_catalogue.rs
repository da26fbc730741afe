//! A session on the wire: its tools as they come and go, what can be read beside them, and a person who is asked.

#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "tests")]

#[expect(unreachable_pub, reason = "shared with another test")]
mod mcp_client;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use devloop_contract::tool::{Exposure, Kind, Parallelism};
use devloop_core::permission::{List, Rule};
use devloop_core::registry::{Naming, ToolBuilder};
use devloop_runtime::AgentId;
use devloop_runtime::identity::{Given, identify};
use devloop_runtime::mcp::{ExitReason, ServeOptions};
use devloop_runtime::session::{Runner, RunnerCall, RunnerError, Session, empty_catalogue};
use devloop_runtime::testing::TestProject;
use mcp_client::{Wire, call, cancelled, error_of, initialize, text_of};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

const CHANGED: &str = "notifications/tools/list_changed";
const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";

/// A session of the PM with tools of a host: `note`, which a person must allow, `later`, which is deferred, and `slow`, which
/// runs alone and as long as it is held.
struct Rig {
    session: Session,
    notes: Arc<AtomicUsize>,
    /// The texts of the slow calls that have begun.
    slow: Arc<Mutex<Vec<u64>>>,
    held: Arc<Semaphore>,
    _project: TestProject,
}

impl Rig {
    fn new() -> Self {
        let project = TestProject::new();
        let agent = AgentId::Pm.agent();
        let given = Given {
            session_id: Some("session-1".to_owned()),
            ..Given::default()
        };
        let identity = identify(agent, project.path(), given, None).unwrap();
        let notes = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&notes);
        let note = Runner::of(move |call: RunnerCall| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, RunnerError>(json!({ "noted": call.input["text"] })) }
        });
        let tools = empty_catalogue();
        let tool = ToolBuilder::new("note")
            .summary("Notes a text.")
            .kind(Kind::Write)
            .parallelism(Parallelism::Shared)
            .permission(Naming {
                signature: "note({text})".into(),
                rule: "note({text})".into(),
            })
            .input_schema(json!({
                "type": "object",
                "properties": { "text": { "type": "string" } },
                "required": ["text"],
                "additionalProperties": false,
            }));
        tools.register(tool.build().unwrap(), note).unwrap();
        let later = ToolBuilder::new("later")
            .summary("Is asked for seldom.")
            .alias("afterwards")
            .exposure(Exposure::Deferred);
        tools.register(later.build().unwrap(), nothing()).unwrap();
        let (slow, held) = (Arc::<Mutex<Vec<u64>>>::default(), Arc::new(Semaphore::new(0)));
        let (begun, free) = (Arc::clone(&slow), Arc::clone(&held));
        let runner = Runner::of(move |call: RunnerCall| {
            let (begun, free) = (Arc::clone(&begun), Arc::clone(&free));
            async move {
                begun.lock().unwrap().push(call.input["n"].as_u64().unwrap());
                let _permit = free.acquire().await.unwrap();
                Ok(json!({}))
            }
        });
        let tool = ToolBuilder::new("slow")
            .summary("Takes its time.")
            .parallelism(Parallelism::Exclusive)
            .input_schema(json!({ "type": "object", "properties": { "n": { "type": "integer" } } }));
        tools.register(tool.build().unwrap(), runner).unwrap();
        let session = Session::builder(Arc::clone(project.project()), agent, identity)
            .tools(&tools)
            .rule(List::Allow, Rule::parse("tool_search").unwrap(), "test")
            .rule(List::Allow, Rule::parse("slow").unwrap(), "test")
            .build()
            .unwrap();
        Self {
            session,
            notes,
            slow,
            held,
            _project: project,
        }
    }

    fn start(&self) -> Wire {
        Wire::start(self.session.clone(), ServeOptions::default())
    }

    /// A client of the era with an opening.
    async fn open(&self, name: &str, capabilities: Value) -> Wire {
        let mut wire = self.start();
        wire.greet(&initialize("2025-11-25", name, &capabilities)).await;
        wire
    }

    async fn asking(&self) -> Wire {
        self.open("test", json!({ "elicitation": {} })).await
    }

    fn register(&self, name: &str) {
        let tool = ToolBuilder::new(name.to_owned())
            .summary("Does nothing.")
            .build()
            .unwrap();
        self.session.catalogue().register(tool, nothing()).unwrap();
    }

    fn noted(&self) -> usize {
        self.notes.load(Ordering::SeqCst)
    }
}

fn nothing() -> Runner {
    Runner::of(|_| async { Ok(json!({})) })
}

#[expect(clippy::needless_pass_by_value, reason = "it is made where it is passed")]
fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A request of the era without an opening, of a client that can ask a person.
fn modern(id: u64, method: &str, params: Value) -> Value {
    mcp_client::modern(id, method, params, &json!({ "elicitation": { "form": {} } }))
}

fn names(listed: &Value, of: &str) -> Vec<String> {
    let entries = listed["result"][of].as_array().unwrap_or_else(|| panic!("{listed}"));
    entries
        .iter()
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn listed(wire: &mut Wire) -> Vec<String> {
    wire.send(&request(900, "tools/list", json!({}))).await;
    names(&wire.next().await, "tools")
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|known| known == name)
}

/// The next frame, which tells that the tools have changed.
async fn told(wire: &mut Wire) {
    assert_eq!(wire.next().await["method"], CHANGED);
}

/// The next frames, which tell that the tools have changed, and their references, which are resources, with them.
async fn told_of_both(wire: &mut Wire) {
    told(wire).await;
    assert_eq!(wire.next().await["method"], RESOURCES_CHANGED);
}

/// The answer to a call and, before or after it, that the tools have changed.
async fn answered_and_told(wire: &mut Wire, id: u64) -> Value {
    let (first, second) = (wire.next().await, wire.next().await);
    let (answer, change) = if first["method"] == CHANGED {
        (second, first)
    } else {
        (first, second)
    };
    assert_eq!(
        (&answer["id"], &change["method"]),
        (&json!(id), &json!(CHANGED)),
        "{answer}\n{change}"
    );
    answer
}

/// What a person says to the question in `frame`.
#[expect(clippy::needless_pass_by_value, reason = "it is made where it is passed")]
fn says(frame: &Value, result: Value) -> Value {
    assert_eq!(frame["method"], "elicitation/create", "{frame}");
    json!({ "jsonrpc": "2.0", "id": frame["id"], "result": result })
}

fn accept(decision: &str) -> Value {
    json!({ "action": "accept", "content": { "decision": decision } })
}

#[tokio::test]
async fn a_client_is_told_when_tools_come_and_go() {
    let rig = Rig::new();
    let mut wire = rig.open("test", json!({})).await;
    let before = listed(&mut wire).await;
    assert!(has(&before, "note") && has(&before, "write_todolist") && !has(&before, "later"));
    wire.call(1, "tool_search", json!({ "query": "select:later" })).await;
    let answer = answered_and_told(&mut wire, 1).await;
    assert_eq!(
        answer["result"]["structuredContent"]["loaded"],
        json!(["later"]),
        "{answer}"
    );
    assert!(has(&listed(&mut wire).await, "later"));
    // What is loaded already is no change.
    wire.call(2, "tool_search", json!({ "query": "select:later" })).await;
    assert_eq!(wire.next().await["id"], 2);
    tokio::time::sleep(Duration::from_millis(100)).await;
    wire.nothing_but_a_ping().await;

    rig.register("fresh");
    told_of_both(&mut wire).await;
    assert!(has(&listed(&mut wire).await, "fresh"));
    wire.call(3, "fresh", json!({})).await;
    // It is callable, but nobody has allowed it.
    assert!(text_of(&wire.next().await).contains("permission_denied"));
    rig.session.catalogue().unregister("fresh").unwrap();
    told_of_both(&mut wire).await;
    assert!(!has(&listed(&mut wire).await, "fresh"));
    wire.call(4, "fresh", json!({})).await;
    assert_eq!(error_of(&wire.next().await).0, -32602);
}

#[tokio::test]
async fn a_storm_of_changes_is_told_once() {
    let rig = Rig::new();
    let mut wire = rig.open("test", json!({})).await;
    wire.nothing_but_a_ping().await;
    // More than a listener may be behind.
    for number in 0..400 {
        rig.register(&format!("storm_{number}"));
    }
    told_of_both(&mut wire).await;
    assert_eq!(
        listed(&mut wire)
            .await
            .iter()
            .filter(|name| name.starts_with("storm_"))
            .count(),
        400
    );
    tokio::time::sleep(Duration::from_millis(200)).await;
    wire.nothing_but_a_ping().await;
    // One that goes on does not keep the client waiting for ever.
    let session = rig.session.clone();
    let storm = tokio::spawn(async move {
        for _ in 0.. {
            session.catalogue().unregister("storm_0");
            let tool = ToolBuilder::new("storm_0").summary("Does nothing.").build().unwrap();
            session.catalogue().register(tool, nothing()).unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    told(&mut wire).await;
    storm.abort();
}

#[tokio::test]
async fn a_client_that_searches_by_itself_is_shown_every_tool() {
    let rig = Rig::new();
    let mut claude = rig.open("claude-code", json!({})).await;
    let mut other = rig.open("claude-code-fork", json!({})).await;
    let (all, shown) = (listed(&mut claude).await, listed(&mut other).await);
    assert!(has(&all, "later") && !has(&shown, "later"), "{all:?}\n{shown:?}");
    assert!(shown.iter().all(|name| has(&all, name)));
}

#[tokio::test]
async fn without_an_opening_changes_are_told_to_who_listens() {
    let rig = Rig::new();
    let mut wire = rig.start();
    wire.send(&modern(1, "tools/list", json!({}))).await;
    assert!(!has(&names(&wire.next().await, "tools"), "later"));
    rig.register("unheard");
    tokio::time::sleep(Duration::from_millis(100)).await;
    wire.send(&modern(2, "tools/list", json!({}))).await;
    assert!(has(&names(&wire.next().await, "tools"), "unheard"), "nobody listens");

    let wanted = json!({ "notifications":
        { "toolsListChanged": true, "resourcesListChanged": true, "promptsListChanged": true } });
    wire.send(&modern(3, "subscriptions/listen", wanted)).await;
    let acknowledged = wire.next().await;
    assert_eq!(
        acknowledged["method"], "notifications/subscriptions/acknowledged",
        "{acknowledged}"
    );
    assert_eq!(
        acknowledged["params"]["notifications"],
        json!({ "toolsListChanged": true, "resourcesListChanged": true })
    );
    let subscription = |frame: &Value| frame["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    assert_eq!(subscription(&acknowledged), 3, "{acknowledged}");
    wire.send(&modern(4, "subscriptions/listen", json!({ "notifications": {} })))
        .await;
    assert_eq!(wire.next().await["params"]["notifications"], json!({}));
    for number in 0..20 {
        rig.register(&format!("heard_{number}"));
    }
    let changed = wire.next().await;
    assert_eq!(
        (&changed["method"], subscription(&changed)),
        (&json!(CHANGED), json!(3)),
        "{changed}"
    );
    assert_eq!(wire.next().await["method"], RESOURCES_CHANGED);
    // Another call goes on beside it.
    wire.send(&modern(
        5,
        "tools/call",
        json!({ "name": "tool_search", "arguments": { "query": "select:later" } }),
    ))
    .await;
    answered_and_told(&mut wire, 5).await;

    wire.send(&cancelled(3)).await;
    wire.send(&modern(6, "tools/list", json!({}))).await;
    assert_eq!(wire.next().await["id"], 6);
    rig.register("unheard_again");
    tokio::time::sleep(Duration::from_millis(100)).await;
    wire.send(&modern(7, "tools/list", json!({}))).await;
    assert_eq!(
        wire.next().await["id"],
        7,
        "who does not listen any more is told nothing"
    );
    // Who still listens does not keep the server.
    wire.end_input().await;
    let (reason, rest) = wire.ended().await;
    assert_eq!(reason, ExitReason::InputEnded);
    assert!(rest.iter().all(|frame| frame["id"] == 4), "{rest:?}");
}

#[tokio::test]
async fn the_catalogue_and_each_tool_can_be_read() {
    let rig = Rig::new();
    let mut wire = rig.open("test", json!({})).await;
    wire.send(&request(1, "resources/list", json!({}))).await;
    let answer = wire.next().await;
    let resources: BTreeMap<String, Value> = answer["result"]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| (resource["uri"].as_str().unwrap().to_owned(), resource.clone()))
        .collect();
    assert_eq!(resources["devloop://catalogue"]["mimeType"], "text/markdown");
    assert_eq!(resources["devloop://tools/note"]["description"], "Notes a text.");
    assert!(
        resources.contains_key("devloop://tools/later"),
        "one that is deferred, too"
    );
    assert_eq!(
        resources.len(),
        answer["result"]["resources"].as_array().unwrap().len(),
        "no address twice"
    );
    wire.send(&request(2, "resources/templates/list", json!({}))).await;
    let answer = wire.next().await;
    assert_eq!(
        answer["result"]["resourceTemplates"][0]["uriTemplate"],
        "devloop://tools/{name}"
    );
    assert_eq!(answer["result"]["resourceTemplates"].as_array().map(Vec::len), Some(1));
    // All that are listed can be read.
    for uri in resources.keys() {
        wire.send(&request(3, "resources/read", json!({ "uri": uri }))).await;
        let answer = wire.next().await;
        let content = &answer["result"]["contents"][0];
        assert_eq!(
            (&content["uri"], &content["mimeType"]),
            (&json!(uri), &json!("text/markdown"))
        );
        let text = content["text"].as_str().unwrap();
        let part = uri.strip_prefix("devloop://tools/").unwrap_or("write_todolist");
        assert!(text.contains(part), "{uri}: {text}");
    }
    wire.send(&request(
        4,
        "resources/read",
        json!({ "uri": "devloop://tools/afterwards" }),
    ))
    .await;
    let answer = wire.next().await;
    assert!(
        answer["result"]["contents"][0]["text"]
            .as_str()
            .unwrap()
            .contains("Is asked for seldom."),
        "an alias names the same tool: {answer}"
    );
    for uri in [
        "devloop://tools/notes",
        "devloop://tools/",
        "devloop://",
        "file:///etc/passwd",
    ] {
        wire.send(&request(5, "resources/read", json!({ "uri": uri }))).await;
        let answer = wire.next().await;
        assert_eq!(error_of(&answer).0, -32002, "{answer}");
        assert_eq!(answer["error"]["data"]["uri"], json!(uri));
    }
    wire.send(&request(6, "resources/read", json!({ "uri": "devloop://tools/notes" })))
        .await;
    assert_eq!(wire.next().await["error"]["data"]["nearest"][0], "devloop://tools/note");
}

#[tokio::test]
async fn every_role_is_a_prompt() {
    let rig = Rig::new();
    let mut wire = rig.open("test", json!({})).await;
    wire.send(&request(1, "prompts/list", json!({}))).await;
    let roles = names(&wire.next().await, "prompts");
    assert!(
        roles.len() >= 6 && has(&roles, "pm") && has(&roles, "coder"),
        "{roles:?}"
    );
    for role in &roles {
        wire.send(&request(2, "prompts/get", json!({ "name": role }))).await;
        let answer = wire.next().await;
        let message = &answer["result"]["messages"][0];
        assert_eq!(
            (&message["role"], &message["content"]["type"]),
            (&json!("user"), &json!("text"))
        );
        assert!(!message["content"]["text"].as_str().unwrap().is_empty());
    }
    wire.send(&request(3, "prompts/get", json!({ "name": "devloop-pm" })))
        .await;
    assert!(
        wire.next().await["result"]["messages"].is_array(),
        "its id names it, too"
    );
    wire.send(&request(4, "prompts/get", json!({ "name": "pn" }))).await;
    let answer = wire.next().await;
    assert_eq!(error_of(&answer).0, -32602);
    assert!(error_of(&answer).1.contains("there is no prompt \"pn\"") && error_of(&answer).1.contains("pm"));
}

#[tokio::test]
async fn a_person_is_asked_through_the_client() {
    let rig = Rig::new();
    let mut wire = rig.asking().await;
    wire.call(1, "note", json!({ "text": "a" })).await;
    let question = wire.next().await;
    let params = &question["params"];
    let message = params["message"].as_str().unwrap();
    assert!(
        message.contains("note(a)") && message.contains("For this session, `note(a)`"),
        "{message}"
    );
    let schema = &params["requestedSchema"];
    assert_eq!(
        schema["properties"]["decision"]["enum"],
        json!(["allow once", "allow for this session", "deny"])
    );
    assert_eq!(schema["required"], json!(["decision"]));
    assert_eq!(rig.noted(), 0, "nothing before the answer");
    wire.send(&says(&question, accept("allow once"))).await;
    let answer = wire.next().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["structuredContent"]["noted"]),
        (&json!(1), &json!("a"))
    );

    // Once is once; for the session is until its end, and for what the rule says alone.
    wire.call(2, "note", json!({ "text": "a" })).await;
    let question = wire.next().await;
    wire.send(&says(&question, accept("allow for this session"))).await;
    assert_eq!(wire.next().await["id"], 2);
    wire.call(3, "note", json!({ "text": "a" })).await;
    let answer = wire.next().await;
    assert_eq!((&answer["id"], rig.noted()), (&json!(3), 3), "{answer}");

    // Whatever is no clear yes is a no.
    for no in [
        accept("deny"),
        accept("yes"),
        json!({ "action": "decline" }),
        json!({ "action": "cancel" }),
        json!({ "action": "accept" }),
        json!({}),
    ] {
        wire.call(4, "note", json!({ "text": "b" })).await;
        let question = wire.next().await;
        wire.send(&says(&question, no.clone())).await;
        let answer = wire.next().await;
        assert_eq!(
            (&answer["id"], &answer["result"]["isError"]),
            (&json!(4), &json!(true)),
            "{no}: {answer}"
        );
        assert!(text_of(&answer).contains("permission_denied"), "{no}: {answer}");
    }
    assert_eq!(rig.noted(), 3);
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_a_no() {
    let rig = Rig::new();
    let mut wire = rig.asking().await;
    let yes = accept("allow once").to_string();
    for (answer, part) in [
        (
            r#""error":{"code":-32603,"message":"no window"}"#.to_owned(),
            "no window",
        ),
        (r#""error":"broken""#.to_owned(), "the answer cannot be read: `error`"),
        (
            format!(r#""result":{yes},"error":{{"code":1,"message":"x"}}"#),
            "a `result` and an `error`",
        ),
        (
            r#""result":{"action":"decline","action":"accept","content":{"decision":"allow once"}}"#.to_owned(),
            "duplicate key",
        ),
        (r#""result":5"#.to_owned(), "something else than was asked"),
    ] {
        wire.call(1, "note", json!({ "text": "a" })).await;
        let question = wire.next().await;
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let frame = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{answer}}}\n", question["id"]);
        wire.send_bytes(frame.as_bytes()).await;
        let refusal = wire.next().await;
        assert!(
            text_of(&refusal).contains("permission_denied") && text_of(&refusal).contains(part),
            "{answer}: {refusal}"
        );
    }
    // Answers to nothing are read over.
    for stray in [json!({ "id": 77 }), json!({ "id": "x" }), json!({})] {
        let mut frame = json!({ "jsonrpc": "2.0", "result": accept("allow once") });
        frame
            .as_object_mut()
            .unwrap()
            .extend(stray.as_object().unwrap().clone());
        wire.send(&frame).await;
    }
    wire.nothing_but_a_ping().await;
    assert_eq!(rig.noted(), 0);
}

#[tokio::test]
async fn a_client_that_cannot_ask_is_told_the_flag() {
    let rig = Rig::new();
    let mut wire = rig.open("test", json!({ "elicitation": { "url": {} } })).await;
    wire.call(1, "note", json!({ "text": "a" })).await;
    let answer = wire.next().await;
    let text = text_of(&answer);
    assert!(
        text.contains("--allow 'note(a)'") && text.contains("the client cannot ask"),
        "{text}"
    );
    let mut plain = rig.open("test", json!({})).await;
    plain.call(1, "note", json!({ "text": "a" })).await;
    assert!(text_of(&plain.next().await).contains("--allow 'note(a)'"));
    assert_eq!(rig.noted(), 0);
}

#[tokio::test]
async fn without_an_opening_the_question_is_an_answer_and_the_call_comes_again() {
    let rig = Rig::new();
    let mut wire = rig.start();
    let note = |text: &str| json!({ "name": "note", "arguments": { "text": text } });
    let again = |text: &str, state: &Value, said: &Value| {
        let mut params = note(text);
        params["inputResponses"] = json!({ "approval": said });
        params["requestState"] = state.clone();
        params
    };
    wire.send(&modern(1, "tools/call", note("a"))).await;
    let question = wire.next().await;
    let result = &question["result"];
    assert_eq!(result["resultType"], "input_required", "{question}");
    assert_eq!(
        result["inputRequests"]["approval"]["method"], "elicitation/create",
        "{question}"
    );
    let state = result["requestState"].clone();
    assert!(state.is_string(), "{question}");
    let yes = accept("allow once");
    wire.send(&modern(2, "tools/call", again("a", &state, &yes))).await;
    let answer = wire.next().await;
    assert_eq!(answer["result"]["structuredContent"]["noted"], "a", "{answer}");

    // A yes to one input is none to another, none without its question, and none a second time.
    for params in [
        again("b", &state, &yes),
        again("b", &Value::Null, &yes),
        again("b", &json!("made up"), &yes),
        again("a", &state, &yes),
    ] {
        wire.send(&modern(3, "tools/call", params)).await;
        let answer = wire.next().await;
        assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
        assert_ne!(answer["result"]["requestState"], state);
    }
    assert_eq!(rig.noted(), 1);
    for (id, said, noted) in [
        (4, json!({ "action": "decline" }), false),
        (5, accept("allow for this session"), true),
    ] {
        wire.send(&modern(id, "tools/call", note("a"))).await;
        let state = wire.next().await["result"]["requestState"].clone();
        wire.send(&modern(id + 100, "tools/call", again("a", &state, &said)))
            .await;
        let answer = wire.next().await;
        if noted {
            assert_eq!(answer["result"]["structuredContent"]["noted"], "a", "{answer}");
        } else {
            assert!(text_of(&answer).contains("a person said no"), "{answer}");
            assert_eq!(rig.noted(), 1);
        }
    }
    wire.send(&modern(6, "tools/call", note("a"))).await;
    assert_eq!(wire.next().await["result"]["structuredContent"]["noted"], "a");
    // A client that cannot ask is not asked.
    wire.send(&mcp_client::modern(7, "tools/call", note("c"), &json!({})))
        .await;
    assert!(text_of(&wire.next().await).contains("--allow 'note(c)'"));
    assert_eq!(rig.noted(), 3);
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_somebody_is_asked_takes_its_question_back() {
    let rig = Rig::new();
    let mut wire = rig.asking().await;
    wire.call(1, "note", json!({ "text": "a" })).await;
    let question = wire.next().await;
    wire.send(&cancelled(1)).await;
    let withdrawn = wire.next().await;
    assert_eq!(withdrawn["method"], "notifications/cancelled", "{withdrawn}");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    // A yes that was on its way is too late.
    wire.send(&says(&question, accept("allow for this session"))).await;
    wire.nothing_but_a_ping().await;
    assert_eq!(rig.noted(), 0);
    wire.call(2, "note", json!({ "text": "a" })).await;
    let question = wire.next().await;
    wire.send(&says(&question, accept("allow once"))).await;
    assert_eq!(wire.next().await["id"], 2);
    // The end of the input ends a question, too.
    wire.call(3, "note", json!({ "text": "b" })).await;
    assert_eq!(wire.next().await["method"], "elicitation/create");
    wire.end_input().await;
    let (reason, rest) = wire.ended().await;
    assert_eq!(reason, ExitReason::InputEnded);
    assert!(
        rest.iter()
            .all(|frame| frame.get("result").is_none() || frame["result"]["isError"] == true),
        "{rest:?}"
    );
    assert_eq!(rig.noted(), 1);
}

/// The reason of a call that was told that too many wait.
#[track_caller]
fn too_many(frame: &Value) -> String {
    assert_eq!(frame["result"]["isError"], true, "{frame}");
    let body: Value = serde_json::from_str(text_of(frame)).unwrap();
    assert_eq!(body["code"], "tool_busy", "{frame}");
    body["reason"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_is_no_call_never_waits_for_calls_and_the_call_that_comes_when_64_wait_is_told_at_once() {
    let rig = Rig::new();
    let mut wire = rig.asking().await;
    let slow = |id: u64| call(id, "slow", json!({ "n": id }));
    // One runs, 64 wait.
    for id in 0..=64 {
        wire.send(&slow(id)).await;
    }
    wire.nothing_but_a_ping().await;
    assert!(has(&listed(&mut wire).await, "slow"));
    for id in 65..70 {
        wire.send(&slow(id)).await;
        let answer = wire.next().await;
        assert_eq!(answer["id"], id);
        let reason = too_many(&answer);
        assert_eq!(reason, "64 calls of this session wait already; nothing was done");
        wire.nothing_but_a_ping().await;
    }
    // One that is cancelled while it waits makes room, and never begins.
    wire.send(&cancelled(30)).await;
    wire.send(&slow(70)).await;
    wire.nothing_but_a_ping().await;
    wire.send(&slow(71)).await;
    too_many(&wire.next().await);
    assert_eq!(*rig.slow.lock().unwrap(), [0]);
    rig.held.add_permits(1);
    let mut answered = Vec::new();
    while answered.len() < 65 {
        let frame = wire.next().await;
        assert_eq!(frame["result"]["isError"], false, "{frame}");
        answered.push(frame["id"].as_u64().unwrap());
    }
    // They ran in order; their answers come when their records are kept.
    answered.sort_unstable();
    let expected: Vec<u64> = (0..=64).filter(|id| *id != 30).chain([70]).collect();
    assert_eq!(answered, expected);
    assert_eq!(*rig.slow.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_call_for_whose_bytes_there_is_no_room_leaves_a_record() {
    let rig = Rig::new();
    let options = ServeOptions {
        waiting_bytes: 0,
        ..ServeOptions::default()
    };
    let mut wire = Wire::start(rig.session.clone(), options);
    wire.greet(&initialize("2025-11-25", "test", &json!({}))).await;
    wire.call(1, "slow", json!({ "n": 1 })).await;
    while rig.slow.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    wire.call(2, "later", json!({})).await;
    let reason = too_many(&wire.next().await);
    assert!(reason.contains("they would take more than 0 bytes"), "{reason}");
    let calls = rig.session.project().path().join("agent-state/.calls/calls.ndjson");
    let calls = std::fs::read_to_string(calls).unwrap();
    let records: Vec<Value> = calls
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let of = |tool: &str| {
        records
            .iter()
            .filter(|record| record["tool"] == tool)
            .collect::<Vec<_>>()
    };
    assert_eq!((of("later").len(), of("slow").len()), (1, 0), "{calls}");
    assert_eq!(of("later")[0]["outcome"]["code"], "tool_busy", "{calls}");
    rig.held.add_permits(1);
    assert_eq!(wire.next().await["id"], 1);
}

#[tokio::test]
async fn a_call_that_a_person_is_asked_about_counts_among_those_that_wait_and_the_answer_passes_them() {
    let rig = Rig::new();
    let mut wire = rig.asking().await;
    let note = |id: u64| call(id, "note", json!({ "text": format!("n{id}") }));
    let mut questions = Vec::new();
    for id in 0..64 {
        wire.send(&note(id)).await;
        questions.push(wire.next().await);
    }
    wire.send(&note(64)).await;
    let answer = wire.next().await;
    assert_eq!(answer["id"], 64);
    too_many(&answer);
    wire.nothing_but_a_ping().await;
    // An answer makes room.
    let last = questions.pop().unwrap();
    wire.send(&says(&last, accept("allow once"))).await;
    let answer = wire.next().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["isError"]),
        (&json!(63), &json!(false))
    );
    wire.send(&note(65)).await;
    questions.push(wire.next().await);
    for question in &questions {
        wire.send(&says(question, accept("allow once"))).await;
        assert_eq!(wire.next().await["result"]["isError"], false);
    }
    assert_eq!(rig.noted(), 65);
}
