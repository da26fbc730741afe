//! Upstream servers of a session: their tools on the same path as all others, and the registry's own tools that reach them.

use std::sync::Arc;

use devloop_core::permission::{List, Mode, Rule};
use devloop_runtime::AgentId;
use devloop_runtime::call::{Approval, Approver, Ask, Boxed, CallOutcome, CallRequest, ToolService};
use devloop_runtime::session::{ConnectError, Session, SessionBuilder};
use devloop_runtime::testing::TestProject;
use devloop_runtime::upstream::McpConfig;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::rig::{fake, options, run, until};

/// A session with the servers, which may take a while to be there.
fn session(
    project: &TestProject,
    servers: &[(&str, Value)],
    adjust: impl FnOnce(SessionBuilder) -> SessionBuilder,
) -> Session {
    let session = adjust(project.builder(AgentId::Pm)).build().expect("a session");
    let servers: Map<String, Value> = servers
        .iter()
        .map(|(name, server)| ((*name).to_owned(), server.clone()))
        .collect();
    let text = json!({ "mcpServers": servers }).to_string();
    let config = McpConfig::parse("test", text.as_bytes(), |name| std::env::var(name).ok()).expect("it fits");
    session.connect(config, &options()).expect("connected once");
    session
}

fn request(tool: &str, arguments: Value) -> CallRequest {
    let Value::Object(arguments) = arguments else {
        panic!("an object")
    };
    CallRequest::new(tool, arguments, format!("test:{tool}"))
}

async fn call(session: &Session, tool: &str, arguments: Value) -> CallOutcome {
    session.call(request(tool, arguments)).await
}

#[track_caller]
fn success(outcome: CallOutcome) -> Value {
    match outcome {
        CallOutcome::Success(value) => value,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn code(outcome: &CallOutcome) -> &str {
    match outcome {
        CallOutcome::Expected(body) => &body.code,
        other => panic!("{other:?}"),
    }
}

fn allow_all(builder: SessionBuilder) -> SessionBuilder {
    builder.rule(List::Allow, Rule::parse("s__*").expect("a rule"), "test")
}

#[test]
fn a_session_is_connected_once_and_not_after_it_was_closed() {
    let project = TestProject::new();
    run(async {
        let connected = session(&project, &[], allow_all);
        let none = || McpConfig::parse("test", br#"{"mcpServers": {}}"#, |_| None).expect("it fits");
        assert_eq!(
            connected.connect(none(), &options()),
            Err(ConnectError::AlreadyConnected)
        );
        let closed = Session::new(
            Arc::clone(project.project()),
            AgentId::Pm.agent(),
            connected.identity().clone(),
        );
        closed.close();
        assert_eq!(closed.connect(none(), &options()), Err(ConnectError::Closed));
        assert!(closed.upstreams().is_none());
    });
}

#[test]
fn the_first_call_waits_for_the_servers_and_its_answer_comes_as_it_is() {
    let project = TestProject::new();
    run(async {
        let session = session(&project, &[("s", fake(&[]))], allow_all);
        // Without a list before.
        let CallOutcome::Passed(answer) = call(&session, "s__echo", json!({ "a": 1 })).await else {
            panic!("it is passed on");
        };
        assert_eq!(answer.structured_content, Some(json!({ "echo": { "a": 1 } })));
        assert!(!answer.is_error);
        let CallOutcome::Passed(answer) = call(&session, "s__fail", json!({})).await else {
            panic!("a tool's own failure is passed on, too");
        };
        assert!(answer.is_error);
        let refused = call(&session, "s__fail", json!({ "protocol": true })).await;
        assert_eq!(code(&refused), "server_error");
        session.upstreams().expect("connected").close().await;
    });
}

#[test]
fn progress_and_cancellation_go_through() {
    let project = TestProject::new();
    run(async {
        let log = project.path().join("server.log");
        let mut server = fake(&[]);
        server["env"] = json!({ "FAKE_LOG": log });
        let session = session(&project, &[("s", server)], allow_all);
        let (sender, mut steps) = mpsc::unbounded_channel();
        let mut steps_wanted = request("s__steps", json!({}));
        steps_wanted.progress = Some(sender);
        assert!(matches!(session.call(steps_wanted).await, CallOutcome::Passed(_)));
        let mut done = Vec::new();
        while let Ok(step) = steps.try_recv() {
            done.push(step.done);
        }
        assert_eq!(done, [1.0, 2.0, 3.0]);

        let sleeps = request("s__sleep", json!({ "seconds": 60 }));
        let cancel = sleeps.cancel.clone();
        let said = async |line: &str| {
            let what = format!("the server's {line:?}");
            let look = || {
                let said = std::fs::read_to_string(&log).ok()?;
                said.lines().any(|said| said.starts_with(line)).then_some(())
            };
            until(&what, look).await;
        };
        let (outcome, ()) = tokio::join!(session.call(sleeps), async {
            said("sleep").await;
            cancel.cancel();
        });
        assert_eq!(outcome, CallOutcome::Cancelled);
        said("cancelled").await;
    });
}

#[test]
fn resources_prompts_and_tasks_are_reached_by_the_registrys_own_tools() {
    let project = TestProject::new();
    run(async {
        let session = session(
            &project,
            &[("s", fake(&[])), ("down", json!({ "command": "/nonexistent" }))],
            |builder| builder,
        );
        session.ready().await;
        let search = success(call(&session, "tool_search", json!({ "query": "select:mcp_resources_list" })).await);
        assert_eq!(search["loaded"], json!(["mcp_resources_list"]));
        let listed = success(call(&session, "mcp_resources_list", json!({})).await);
        assert_eq!(
            listed["resources"],
            json!([{ "uri": "file:///a", "name": "a", "server": "s" }])
        );
        assert_eq!(listed["failed"][0]["server"], "down");
        assert_eq!(
            listed["servers"],
            json!([{ "server": "s", "instructions": "Use it well." }])
        );
        let read = success(
            call(
                &session,
                "mcp_resources_read",
                json!({ "server": "s", "uri": "file:///a" }),
            )
            .await,
        );
        assert_eq!(read["contents"][0]["text"], "contents");
        let prompts = success(call(&session, "mcp_prompts_list", json!({ "server": "s" })).await);
        assert_eq!(prompts["prompts"], json!([{ "name": "p", "server": "s" }]));
        let prompt = json!({ "server": "s", "name": "p", "arguments": { "a": "b" } });
        let prompt = success(call(&session, "mcp_prompt_get", prompt).await);
        assert_eq!(prompt["messages"][0]["content"]["text"], r#"{"a": "b"}"#);
        let tasks = success(call(&session, "mcp_task_list", json!({ "server": "s" })).await);
        assert_eq!(tasks["tasks"][0]["taskId"], "t1");
        let task = json!({ "server": "s", "task_id": "t1" });
        let looked = success(call(&session, "mcp_task_get", task.clone()).await);
        assert_eq!(looked["status"], "working");
        let cancelled = success(call(&session, "mcp_task_cancel", task).await);
        assert_eq!(cancelled["status"], "cancelled");

        let unknown = call(&session, "mcp_resources_list", json!({ "server": "t" })).await;
        assert_eq!(code(&unknown), "unknown_server");
        let failed = call(&session, "mcp_prompts_list", json!({ "server": "down" })).await;
        assert_eq!(code(&failed), "server_failed");
        session.upstreams().expect("connected").close().await;
    });
}

#[test]
fn lists_are_read_to_their_end_and_what_is_cut_is_told_with_how_to_go_on() {
    let project = TestProject::new();
    run(async {
        let servers = [
            ("p", fake(&["pages"])),
            ("q", fake(&["pages", "resources/list 20"])),
            ("t", fake(&["pages", "resources/templates/list 0"])),
        ];
        let session = session(&project, &servers, |builder| builder);
        session.ready().await;
        let count = |answer: &Value, list: &str, server: &str| {
            let items = answer[list].as_array().expect("a list").iter();
            items.filter(|item| item["server"] == server).count()
        };
        let bound = "so many pages are read at once: 20";
        let all = success(call(&session, "mcp_resources_list", json!({})).await);
        for (server, resources, templates) in [("p", 46, 20), ("q", 20, 20), ("t", 46, 0)] {
            assert_eq!(count(&all, "resources", server), resources, "{server}");
            assert_eq!(count(&all, "templates", server), templates, "{server}");
        }
        let mut more = all["more"].as_array().expect("what is cut").clone();
        for item in &mut more {
            let reason = item["reason"].as_str().expect("a text").to_owned();
            if reason != bound {
                assert!(reason.contains("no luck"), "{reason}");
                item["reason"] = json!("no luck");
            }
        }
        assert_eq!(
            more,
            [
                json!({"server": "p", "list": "templates", "cursor": "20", "reason": bound}),
                json!({"server": "q", "list": "resources", "cursor": "20", "reason": "no luck"}),
                json!({"server": "q", "list": "templates", "cursor": "20", "reason": bound}),
                json!({"server": "t", "list": "templates", "reason": "no luck"}),
            ]
        );
        // Everything is to be had with what `more` says.
        let rest = json!({"server": "p", "list": "templates", "cursor": "20"});
        let rest = success(call(&session, "mcp_resources_list", rest).await);
        assert_eq!(count(&rest, "templates", "p"), 5);
        assert_eq!((&rest["resources"], rest.get("more")), (&json!([]), None), "{rest}");
        let rest = json!({"server": "p", "cursor": "40"});
        let rest = success(call(&session, "mcp_resources_list", rest).await);
        assert_eq!(count(&rest, "resources", "p"), 6);
        assert_eq!((&rest["templates"], rest.get("more")), (&json!([]), None), "{rest}");
        let failed = json!({"server": "q", "list": "resources", "cursor": "20"});
        assert_eq!(
            code(&call(&session, "mcp_resources_list", failed).await),
            "server_failed"
        );
        let only = success(
            call(
                &session,
                "mcp_resources_list",
                json!({"server": "p", "list": "resources"}),
            )
            .await,
        );
        assert_eq!(
            (count(&only, "resources", "p"), count(&only, "templates", "p")),
            (46, 0)
        );

        let prompts = success(call(&session, "mcp_prompts_list", json!({})).await);
        assert_eq!((count(&prompts, "prompts", "p"), prompts.get("more")), (23, None));
        let prompts = success(call(&session, "mcp_prompts_list", json!({"server": "p", "cursor": "20"})).await);
        assert_eq!((count(&prompts, "prompts", "p"), prompts.get("more")), (3, None));
        let tasks = success(call(&session, "mcp_task_list", json!({"server": "p"})).await);
        assert_eq!(count(&tasks, "tasks", "p"), 20);
        assert_eq!(tasks["more"], json!([{"server": "p", "cursor": "20", "reason": bound}]));
        let tasks = success(call(&session, "mcp_task_list", json!({"server": "p", "cursor": "20"})).await);
        assert_eq!((count(&tasks, "tasks", "p"), tasks.get("more")), (1, None));
        for tool in ["mcp_resources_list", "mcp_prompts_list", "mcp_task_list"] {
            let CallOutcome::Invalid(error) = call(&session, tool, json!({ "cursor": "x" })).await else {
                panic!("a cursor without a server says nothing");
            };
            assert!(error.to_string().contains("`server`"), "{error}");
        }
        session.upstreams().expect("connected").close().await;
    });
}

#[test]
fn a_list_of_all_servers_has_none_that_is_denied_however_the_rule_spells_it() {
    let project = TestProject::new();
    run(async {
        for denied in ["mcp__my_srv", "my_srv__*", "mcp__devloop__my_srv__*", "my.srv__*"] {
            let session = session(&project, &[("s", fake(&[])), ("my.srv", fake(&[]))], |builder| {
                builder.rule(List::Deny, Rule::parse(denied).expect("a rule"), "test")
            });
            session.ready().await;
            for (tool, items) in [("mcp_resources_list", "resources"), ("mcp_prompts_list", "prompts")] {
                let listed = success(call(&session, tool, json!({})).await);
                let servers: Vec<&Value> = listed[items]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|item| &item["server"])
                    .collect();
                assert_eq!(servers, ["s"], "{denied} {tool}");
            }
            session.upstreams().expect("connected").close().await;
        }
        // A rule about one list says nothing of the other.
        let session = session(&project, &[("s", fake(&[]))], |builder| {
            builder.rule(List::Deny, Rule::parse("mcp_resources_list").expect("a rule"), "test")
        });
        session.ready().await;
        let listed = success(call(&session, "mcp_prompts_list", json!({})).await);
        assert_eq!(listed["prompts"][0]["server"], "s");
        session.upstreams().expect("connected").close().await;
    });
}

#[test]
fn a_tool_of_a_server_that_is_not_there_is_told_as_such() {
    let project = TestProject::new();
    run(async {
        let servers = [("up", fake(&[])), ("down", json!({ "command": "/nonexistent" }))];
        let session = session(&project, &servers, |builder| builder.mode(Mode::Bypass));
        session.ready().await;
        let outcome = call(&session, "down__echo", json!({})).await;
        assert_eq!(code(&outcome), "server_down");
        let CallOutcome::Expected(body) = &outcome else {
            unreachable!()
        };
        assert!(
            body.reason.contains("its upstream server `down` cannot be connected"),
            "{body:?}"
        );
        assert!(matches!(
            call(&session, "up__ehco", json!({})).await,
            CallOutcome::UnknownTool { .. }
        ));
        session.upstreams().expect("connected").close().await;
    });
}

/// Says yes for the session, and counts.
#[derive(Debug, Default)]
struct Yes(std::sync::atomic::AtomicUsize);

impl Approver for Yes {
    fn approve(&self, _ask: Ask) -> Boxed<'_, Approval> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Box::pin(std::future::ready(Approval::Session))
    }
}

#[test]
fn what_a_person_allowed_is_forgotten_when_the_tool_is_another() {
    let project = TestProject::new();
    run(async {
        let yes = Arc::new(Yes::default());
        let asked = || yes.0.load(std::sync::atomic::Ordering::SeqCst);
        let session = session(&project, &[("s", fake(&["renews"]))], |builder| {
            builder.approver(yes.clone())
        });
        let renewed = |version: u64| {
            let session = session.clone();
            async move {
                until("the tool to say something else of itself", || {
                    let entry = session.catalogue().get("s__renew")?;
                    (entry.definition().summary == format!("Version {version}.")).then_some(())
                })
                .await;
            }
        };
        for _ in 0..2 {
            assert!(matches!(
                call(&session, "s__echo", json!({})).await,
                CallOutcome::Passed(_)
            ));
        }
        assert_eq!(asked(), 1, "a yes for the session is remembered");
        for version in 1..=2 {
            assert!(matches!(
                call(&session, "s__renew", json!({})).await,
                CallOutcome::Passed(_)
            ));
            renewed(version).await;
        }
        assert_eq!(asked(), 3, "what was allowed said something else of itself");
        assert!(matches!(
            call(&session, "s__echo", json!({})).await,
            CallOutcome::Passed(_)
        ));
        assert_eq!(asked(), 3, "the tool beside it is as it was");
        session.upstreams().expect("connected").close().await;
    });
}
