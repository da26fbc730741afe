//! What stands between a call and its handler: lists, permission, hooks, a person's consent; for tools of a host and of
//! specs alike.

#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use devloop_contract::tool::{Exposure, Kind};
use devloop_core::permission::{List, Mode, Rule, Verdict};
use devloop_core::registry::{Naming, ToolBuilder};
use devloop_runtime::AgentId;
use devloop_runtime::call::{Approval, Approver, Ask, Boxed, CallOutcome, CallRequest, Listing, ToolService};
use devloop_runtime::hooks::{After, Before, Hook, HookCall};
use devloop_runtime::identity::{Given, identify};
use devloop_runtime::session::{Runner, RunnerCall, RunnerError, Session, SessionBuilder, empty_catalogue};
use devloop_runtime::testing::TestProject;
use serde_json::{Map, Value, json};

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

fn builder(project: &TestProject) -> SessionBuilder {
    let agent = AgentId::Pm.agent();
    let given = Given {
        session_id: Some("session-1".to_owned()),
        ..Given::default()
    };
    let identity = identify(agent, project.path(), given, None).unwrap();
    Session::builder(Arc::clone(project.project()), agent, identity)
}

/// A host's tool that says what it was given, and counts.
fn echo(kind: Kind, calls: &Arc<AtomicUsize>) -> (ToolBuilder, Runner) {
    let calls = Arc::clone(calls);
    let runner = Runner::of(move |call: RunnerCall| {
        calls.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, RunnerError>(json!({ "said": call.input["text"] })) }
    });
    let tool = ToolBuilder::new("echo")
        .summary("Says it again.")
        .kind(kind)
        .permission(Naming {
            signature: "echo({text})".into(),
            rule: "echo({text})".into(),
        })
        .input_schema(json!({
            "type": "object",
            "properties": { "text": { "type": "string" }, "times": { "type": "integer", "default": 1 } },
            "required": ["text"],
            "additionalProperties": false,
        }));
    (tool, runner)
}

struct Fixture {
    project: TestProject,
    calls: Arc<AtomicUsize>,
    runtime: tokio::runtime::Runtime,
}

impl Fixture {
    fn new() -> Self {
        Self {
            project: TestProject::new(),
            calls: Arc::default(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
        }
    }

    fn session(&self, kind: Kind, adjust: impl FnOnce(SessionBuilder) -> SessionBuilder) -> Session {
        let catalogue = empty_catalogue();
        let (tool, runner) = echo(kind, &self.calls);
        catalogue.register(tool.build().unwrap(), runner).unwrap();
        adjust(builder(&self.project).tools(&catalogue)).build().unwrap()
    }

    fn call(&self, session: &Session, tool: &str, arguments: Value) -> CallOutcome {
        self.runtime
            .block_on(session.call(CallRequest::new(tool, object(arguments), "test:1")))
    }

    fn echo(&self, session: &Session, text: &str) -> CallOutcome {
        self.call(session, "echo", json!({ "text": text }))
    }

    fn ran(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

fn rule(text: &str) -> Rule {
    Rule::parse(text).unwrap()
}

#[track_caller]
fn code(outcome: &CallOutcome) -> &str {
    match outcome {
        CallOutcome::Expected(body) => &body.code,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn reason(outcome: &CallOutcome) -> &str {
    match outcome {
        CallOutcome::Expected(body) => &body.reason,
        other => panic!("{other:?}"),
    }
}

/// Says what it is told to, and remembers what it was asked.
#[derive(Debug)]
struct Person {
    says: Approval,
    asked: Mutex<Vec<Ask>>,
}

impl Person {
    fn new(says: Approval) -> Arc<Self> {
        Arc::new(Self {
            says,
            asked: Mutex::default(),
        })
    }

    fn asked(&self) -> Vec<Ask> {
        self.asked.lock().unwrap().clone()
    }
}

impl Approver for Person {
    fn approve(&self, ask: Ask) -> Boxed<'_, Approval> {
        self.asked.lock().unwrap().push(ask);
        let says = self.says.clone();
        Box::pin(async move { says })
    }
}

/// Says what it is told to, before and after.
#[derive(Debug)]
struct Says {
    name: &'static str,
    before: Before,
    after: After,
    heard: Mutex<Vec<(Value, Verdict)>>,
}

impl Says {
    fn before(name: &'static str, before: Before) -> Arc<Self> {
        Arc::new(Self {
            name,
            before,
            after: After::Pass,
            heard: Mutex::default(),
        })
    }
}

impl Hook for Says {
    fn name(&self) -> Cow<'static, str> {
        self.name.into()
    }

    fn before<'a>(&'a self, call: HookCall<'a>) -> Boxed<'a, Before> {
        let heard = (call.input.clone(), call.decision.verdict);
        self.heard.lock().unwrap().push(heard);
        Box::pin(async { self.before.clone() })
    }

    fn after<'a>(&'a self, _call: HookCall<'a>, _outcome: &'a CallOutcome) -> Boxed<'a, After> {
        Box::pin(async { self.after.clone() })
    }
}

#[test]
fn a_hosts_tool_runs_when_a_rule_allows_it_and_its_answer_comes_as_it_is() {
    let fixture = Fixture::new();
    let session = fixture.session(Kind::ReadOnly, |builder| {
        builder.rule(List::Allow, rule("echo"), "test")
    });
    assert_eq!(
        fixture.echo(&session, "hello"),
        CallOutcome::Success(json!({ "said": "hello" }))
    );
    // Built like any other: what is wrong is named, and nothing runs.
    let CallOutcome::Invalid(error) = fixture.call(&session, "echo", json!({ "txet": "x" })) else {
        panic!("built without its text");
    };
    assert!(error.to_string().contains("text"), "{error}");
    assert_eq!(fixture.ran(), 1);
}

#[test]
fn without_a_rule_and_without_anybody_to_ask_it_is_denied_and_told_which_flag_helps() {
    let fixture = Fixture::new();
    let session = fixture.session(Kind::ReadOnly, |builder| builder);
    let outcome = fixture.echo(&session, "hello");
    assert_eq!(code(&outcome), "permission_denied");
    let CallOutcome::Expected(body) = &outcome else {
        unreachable!()
    };
    assert!(
        body.hint.as_deref().unwrap().contains("--allow 'echo(hello)'"),
        "{body:?}"
    );
    assert_eq!(body.details.as_ref().unwrap()["decision"]["verdict"], "ask");
    assert_eq!(fixture.ran(), 0);
}

#[test]
fn a_person_is_asked_and_a_yes_for_the_session_is_remembered() {
    let fixture = Fixture::new();
    let person = Person::new(Approval::Session);
    let session = fixture.session(Kind::Execute, |builder| builder.approver(person.clone()));
    for _ in 0..2 {
        assert!(matches!(fixture.echo(&session, "hello"), CallOutcome::Success(_)));
    }
    assert!(matches!(fixture.echo(&session, "other"), CallOutcome::Success(_)));
    let asked: Vec<_> = person.asked().into_iter().map(|ask| ask.signature).collect();
    assert_eq!(asked, ["echo(hello)", "echo(other)"], "the second hello is remembered");

    let once = Person::new(Approval::Once);
    let session = fixture.session(Kind::Execute, |builder| builder.approver(once.clone()));
    for _ in 0..2 {
        assert!(matches!(fixture.echo(&session, "hello"), CallOutcome::Success(_)));
    }
    assert_eq!(once.asked().len(), 2, "a yes for once is not remembered");
    // What is remembered belongs to a session.
    let other = fixture.session(Kind::Execute, |builder| builder);
    assert_eq!(code(&fixture.echo(&other, "hello")), "permission_denied");
}

#[test]
fn a_person_who_says_no_or_later_is_heeded() {
    let fixture = Fixture::new();
    let says = |says: Approval| {
        let session = fixture.session(Kind::Execute, |builder| builder.approver(Person::new(says)));
        fixture.echo(&session, "hello")
    };
    let no = says(Approval::Denied {
        reason: Some("not today".to_owned()),
    });
    assert!(reason(&no).contains("a person said no: not today"), "{no:?}");
    let nobody = says(Approval::Nobody {
        reason: "the client cannot ask".to_owned(),
    });
    assert!(reason(&nobody).contains("the client cannot ask"), "{nobody:?}");
    let CallOutcome::NeedsApproval(ask) = says(Approval::Later) else {
        panic!("it should come back with the question");
    };
    assert_eq!((ask.tool.as_str(), ask.rule.as_deref()), ("echo", Some("echo(hello)")));
    assert_eq!(ask.input, json!({ "text": "hello", "times": 1 }), "the input as built");
    assert_eq!(fixture.ran(), 0);
}

#[test]
fn a_deny_rule_wins_in_every_mode_and_plan_hides_and_denies_what_changes_something() {
    let fixture = Fixture::new();
    for mode in Mode::ALL {
        let session = fixture.session(Kind::ReadOnly, |builder| {
            builder
                .mode(mode)
                .rule(List::Allow, rule("echo"), "test")
                .rule(List::Deny, rule("echo(secret*)"), "test")
        });
        assert_eq!(code(&fixture.echo(&session, "secrets")), "permission_denied", "{mode}");
        assert!(
            matches!(fixture.echo(&session, "hello"), CallOutcome::Success(_)),
            "{mode}"
        );
    }
    let session = fixture.session(Kind::Write, |builder| {
        builder.mode(Mode::Plan).rule(List::Allow, rule("echo"), "test")
    });
    assert_eq!(code(&fixture.echo(&session, "hello")), "permission_denied");
    let is_listed = |session: &Session| session.tools(Listing::Every).iter().any(|tool| tool.name == "echo");
    assert!(!is_listed(&session));
    let (before, changes) = (session.revision(), session.changes().unwrap());
    session.set_mode(Mode::Default);
    assert!(is_listed(&session));
    assert!(session.revision() > before);
    let mut changes = changes;
    let stop = tokio_util::sync::CancellationToken::new();
    assert!(fixture.runtime.block_on(changes.settled(&stop)), "faces are told");
    assert!(matches!(fixture.echo(&session, "hello"), CallOutcome::Success(_)));
}

#[test]
fn hooks_tighten_in_order_and_never_loosen() {
    let fixture = Fixture::new();
    // Neither a pass nor a change of input makes a yes of a no.
    let change = Says::before("change", Before::Change(object(json!({ "text": "changed" }))));
    let session = fixture.session(Kind::ReadOnly, |builder| {
        builder
            .rule(List::Deny, rule("echo(hello)"), "test")
            .rule(List::Allow, rule("echo"), "test")
            .hook(change.clone())
    });
    assert_eq!(code(&fixture.echo(&session, "hello")), "permission_denied");
    assert!(
        change.heard.lock().unwrap().is_empty(),
        "what is denied goes to no hook"
    );
    // Changed input is built and judged anew.
    assert_eq!(
        fixture.echo(&session, "other"),
        CallOutcome::Success(json!({ "said": "changed" }))
    );
    let session = fixture.session(Kind::ReadOnly, |builder| {
        builder
            .rule(List::Deny, rule("echo(changed)"), "test")
            .rule(List::Allow, rule("echo"), "test")
            .hook(change.clone())
    });
    assert_eq!(code(&fixture.echo(&session, "other")), "permission_denied");

    // What one hook objects to stays objected to, whatever a later one makes of the input.
    let (deny, last) = (
        Says::before("guard", Before::Ask("look first".to_owned())),
        Says::before("last", Before::Pass),
    );
    let session = fixture.session(Kind::ReadOnly, |builder| {
        builder
            .rule(List::Allow, rule("echo"), "test")
            .hook(deny.clone())
            .hook(change)
            .hook(last.clone())
    });
    let outcome = fixture.echo(&session, "other");
    assert!(
        reason(&outcome).contains("the hook `guard` says so: look first"),
        "{outcome:?}"
    );
    let heard = last.heard.lock().unwrap();
    assert_eq!(heard[0], (json!({ "text": "changed", "times": 1 }), Verdict::Ask));
}

/// Breaks off.
#[derive(Debug)]
struct Panics;
impl Hook for Panics {
    fn name(&self) -> Cow<'static, str> {
        "panics".into()
    }
    fn before<'a>(&'a self, _call: HookCall<'a>) -> Boxed<'a, Before> {
        panic!("no idea")
    }
}

/// Hears inputs, and objects to one.
#[derive(Debug)]
struct Guard {
    against: Value,
    heard: Mutex<Vec<Value>>,
}

impl Hook for Guard {
    fn name(&self) -> Cow<'static, str> {
        "guard".into()
    }

    fn before<'a>(&'a self, call: HookCall<'a>) -> Boxed<'a, Before> {
        self.heard.lock().unwrap().push(call.input["text"].clone());
        let objects = call.input["text"] == self.against;
        Box::pin(async move {
            if objects {
                Before::Deny("not this".to_owned())
            } else {
                Before::Pass
            }
        })
    }
}

#[test]
fn a_later_hook_slips_no_input_past_an_earlier_one() {
    let fixture = Fixture::new();
    let guard = Arc::new(Guard {
        against: json!("evil"),
        heard: Mutex::default(),
    });
    let change = Says::before("change", Before::Change(object(json!({ "text": "evil" }))));
    let session = fixture.session(Kind::ReadOnly, |builder| {
        builder
            .rule(List::Allow, rule("echo"), "test")
            .hook(guard.clone())
            .hook(change)
    });
    let outcome = fixture.echo(&session, "good");
    assert!(
        reason(&outcome).contains("the hook `guard` says so: not this"),
        "{outcome:?}"
    );
    assert_eq!(*guard.heard.lock().unwrap(), [json!("good"), json!("evil")]);
    assert_eq!(fixture.ran(), 0);
}

/// Takes its time.
#[derive(Debug)]
struct Slow;
impl Approver for Slow {
    fn approve(&self, _ask: Ask) -> Boxed<'_, Approval> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            Approval::Once
        })
    }
}

/// Breaks off after a call.
#[derive(Debug)]
struct PanicsAfter;
impl Hook for PanicsAfter {
    fn name(&self) -> Cow<'static, str> {
        "panics".into()
    }
    fn after<'a>(&'a self, _call: HookCall<'a>, _outcome: &'a CallOutcome) -> Boxed<'a, After> {
        panic!("no idea")
    }
}

/// Says the other of two texts each time.
#[derive(Debug)]
struct Flips;

impl Hook for Flips {
    fn name(&self) -> Cow<'static, str> {
        "flips".into()
    }

    fn before<'a>(&'a self, call: HookCall<'a>) -> Boxed<'a, Before> {
        let other = if call.input["text"] == "a" { "b" } else { "a" };
        Box::pin(async move { Before::Change(object(json!({ "text": other }))) })
    }
}

#[test]
fn hooks_that_never_agree_on_an_input_deny() {
    let fixture = Fixture::new();
    let session = fixture.session(Kind::ReadOnly, |builder| {
        builder.rule(List::Allow, rule("echo"), "test").hook(Arc::new(Flips))
    });
    let outcome = fixture.echo(&session, "x");
    assert!(reason(&outcome).contains("again and again"), "{outcome:?}");
    assert_eq!(fixture.ran(), 0);
}

#[test]
fn a_denied_server_is_not_reached_through_the_registrys_own_tools() {
    let fixture = Fixture::new();
    for denied in ["mcp__docs", "mcp__docs__*", "docs__*"] {
        let session = fixture.session(Kind::ReadOnly, |builder| builder.rule(List::Deny, rule(denied), "test"));
        let read = |server: &str| {
            let input = json!({ "server": server, "uri": "docs://pages/1" });
            let outcome = fixture.call(&session, "mcp_resources_read", input);
            code(&outcome).to_owned()
        };
        assert_eq!(read("docs"), "permission_denied", "{denied}");
        assert_eq!(read("other"), "unknown_server", "{denied}");
    }
    // What it is asked for is looked at like a path.
    let session = fixture.session(Kind::ReadOnly, |builder| builder.mode(Mode::Bypass));
    let input = json!({ "server": "files", "uri": "file:///root/.ssh/id_rsa" });
    let outcome = fixture.call(&session, "mcp_resources_read", input);
    assert_eq!(code(&outcome), "permission_denied", "{outcome:?}");
}

#[test]
fn a_rule_holds_a_tool_back_by_the_name_under_which_clients_have_this_server() {
    let config = devloop_runtime::config::Config {
        server_name: "shop".to_owned(),
        ..devloop_runtime::config::Config::default()
    };
    let project = TestProject::with(config, |project| project);
    let session = builder(&project)
        .rule(List::Deny, rule("mcp__shop__write_todolist"), "test")
        .build()
        .unwrap();
    let explained = session
        .explain("write_todolist", object(json!({ "items": [] })))
        .unwrap();
    assert_eq!(explained.decision.verdict, Verdict::Deny);
}

#[test]
fn calls_behind_one_that_a_person_is_asked_about_wait_for_it() {
    let fixture = Fixture::new();
    let catalogue = empty_catalogue();
    let (tool, runner) = echo(Kind::Execute, &fixture.calls);
    // The longest that a call may take is not the longest that it waits.
    let tool = tool.timeout(Duration::from_millis(50)).build().unwrap();
    catalogue.register(tool, runner).unwrap();
    let session = builder(&fixture.project)
        .tools(&catalogue)
        .approver(Arc::new(Slow))
        .rule(List::Allow, rule("echo(second)"), "test")
        .build()
        .unwrap();
    let call = |text: &str| {
        let request = CallRequest::new("echo", object(json!({ "text": text })), format!("test:{text}"));
        session.submit(request)
    };
    let (first, second) = fixture
        .runtime
        .block_on(async { tokio::join!(call("first"), call("second")) });
    assert!(matches!(first, CallOutcome::Success(_)), "{first:?}");
    assert!(matches!(second, CallOutcome::Success(_)), "{second:?}");
}

#[test]
fn a_hook_that_panics_after_the_call_withholds_its_answer() {
    let fixture = Fixture::new();
    let session = fixture.session(Kind::ReadOnly, |builder| {
        builder
            .rule(List::Allow, rule("echo"), "test")
            .hook(Arc::new(PanicsAfter))
    });
    let outcome = fixture.echo(&session, "hello");
    assert_eq!(code(&outcome), "answer_withheld");
    assert!(reason(&outcome).contains("no idea"), "{outcome:?}");
}

#[test]
fn a_hook_that_gives_bad_input_or_panics_denies() {
    let fixture = Fixture::new();
    let bad = Says::before("bad", Before::Change(object(json!({ "text": 1, "more": 2 }))));
    let session = fixture.session(Kind::ReadOnly, |builder| {
        builder.rule(List::Allow, rule("echo"), "test").hook(bad)
    });
    let outcome = fixture.echo(&session, "hello");
    assert!(
        reason(&outcome).contains("the hook `bad` says so: the input that it gives is refused"),
        "{outcome:?}"
    );

    let session = fixture.session(Kind::ReadOnly, |builder| {
        builder.rule(List::Allow, rule("echo"), "test").hook(Arc::new(Panics))
    });
    assert!(matches!(fixture.echo(&session, "hello"), CallOutcome::Internal { .. }));
    assert_eq!(fixture.ran(), 0);
}

#[test]
fn a_hook_after_the_call_holds_the_answer_back() {
    let fixture = Fixture::new();
    let hook = Arc::new(Says {
        name: "censor",
        before: Before::Pass,
        after: After::Withhold("it names a customer".to_owned()),
        heard: Mutex::default(),
    });
    let session = fixture.session(Kind::ReadOnly, |builder| {
        builder.rule(List::Allow, rule("echo"), "test").hook(hook)
    });
    let outcome = fixture.echo(&session, "hello");
    assert_eq!(code(&outcome), "answer_withheld");
    assert!(reason(&outcome).contains("it names a customer"));
    assert_eq!(fixture.ran(), 1, "it was made");
    // A call that did not run has no answer to hold back.
    let CallOutcome::Invalid(_) = fixture.call(&session, "echo", json!({})) else {
        panic!("an invalid call is told as such");
    };
}

#[test]
fn lists_leave_tools_out_whatever_the_rules_say() {
    let fixture = Fixture::new();
    let only = fixture.session(Kind::ReadOnly, |builder| {
        builder
            .mode(Mode::Bypass)
            .only([rule("write_*"), rule("echo")])
            .without([rule("ec*")])
    });
    let names: Vec<_> = only
        .tools(Listing::Every)
        .iter()
        .map(|tool| tool.name.to_string())
        .collect();
    assert_eq!(names, ["write_todolist"]);
    let outcome = fixture.echo(&only, "hello");
    assert_eq!(code(&outcome), "tool_left_out");
    assert!(
        reason(&outcome).contains("this session is without `ec*`"),
        "{outcome:?}"
    );
    let outcome = fixture.call(&only, "record_memory", json!({}));
    assert!(reason(&outcome).contains("not among the tools"), "{outcome:?}");
    assert!(matches!(
        fixture.call(&only, "write_todolist", json!({ "items": [] })),
        CallOutcome::Success(_)
    ));
}

#[test]
fn a_closed_session_takes_no_calls() {
    let fixture = Fixture::new();
    let session = fixture.session(Kind::ReadOnly, |builder| builder.mode(Mode::Bypass));
    assert!(matches!(fixture.echo(&session, "hello"), CallOutcome::Success(_)));
    session.close();
    assert_eq!(code(&fixture.echo(&session, "hello")), "session_closed");
    assert_eq!(fixture.ran(), 1);
}

#[test]
fn a_hosts_tool_that_panics_or_fails_is_told_like_any_other() {
    let fixture = Fixture::new();
    let catalogue = empty_catalogue();
    let tool = |name: &'static str| ToolBuilder::new(name).summary("Breaks.").build().unwrap();
    catalogue
        .register(tool("breaks"), Runner::of(|_| async { panic!("with a word") }))
        .unwrap();
    let fails = Runner::of(|_| async { Err(RunnerError::expected("no_luck", "There was none.", None)) });
    catalogue.register(tool("fails"), fails).unwrap();
    let session = builder(&fixture.project)
        .tools(&catalogue)
        .mode(Mode::Bypass)
        .build()
        .unwrap();
    let CallOutcome::Internal { chain, .. } = fixture.call(&session, "breaks", json!({})) else {
        panic!("a panic is an internal error");
    };
    assert!(chain.contains("with a word"), "{chain}");
    assert_eq!(fixture.project.escalations().len(), 1);
    assert_eq!(code(&fixture.call(&session, "fails", json!({}))), "no_luck");
}

#[test]
fn an_answer_that_breaks_the_declared_output_is_internal() {
    let fixture = Fixture::new();
    let catalogue = empty_catalogue();
    let tool = ToolBuilder::new("count")
        .summary("Counts.")
        .output_schema(json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] }))
        .build()
        .unwrap();
    let wrong = Runner::of(|_| async { Ok(json!({ "n": "one" })) });
    catalogue.register(tool, wrong).unwrap();
    let session = builder(&fixture.project)
        .tools(&catalogue)
        .mode(Mode::Bypass)
        .build()
        .unwrap();
    let CallOutcome::Internal { chain, .. } = fixture.call(&session, "count", json!({})) else {
        panic!("a wrong answer is the tool's fault");
    };
    assert!(chain.contains("breaks the output schema"), "{chain}");
}

#[test]
fn a_hosts_tool_may_not_have_the_name_of_a_granted_one() {
    let project = TestProject::new();
    let catalogue = empty_catalogue();
    let tool = ToolBuilder::new("write_todolist")
        .summary("Takes its place.")
        .build()
        .unwrap();
    catalogue
        .register(tool, Runner::of(|_| async { Ok(json!({})) }))
        .unwrap();
    let error = builder(&project).tools(&catalogue).build().unwrap_err().to_string();
    assert!(
        error.contains("registered by the host") && error.contains("write_todolist.yaml"),
        "{error}"
    );
}

#[test]
fn a_deferred_tool_is_found_shown_and_told_of_and_runs_without_all_that() {
    let fixture = Fixture::new();
    let catalogue = empty_catalogue();
    let (tool, runner) = echo(Kind::ReadOnly, &fixture.calls);
    let tool = tool.exposure(Exposure::Deferred).build().unwrap();
    catalogue.register(tool, runner).unwrap();
    let session = builder(&fixture.project)
        .tools(&catalogue)
        .mode(Mode::Bypass)
        .build()
        .unwrap();
    let shown = || session.tools(Listing::Shown).iter().any(|tool| tool.name == "echo");
    assert!(!shown());
    assert!(
        session.instructions().contains("<available-deferred-tools>\necho\n"),
        "{}",
        session.instructions()
    );
    assert!(matches!(fixture.echo(&session, "hello"), CallOutcome::Success(_)));
    let changes = session.catalogue().subscribe();
    let CallOutcome::Success(found) = fixture.call(&session, "tool_search", json!({ "query": "select:echo,ehco" }))
    else {
        panic!("a search succeeds");
    };
    assert_eq!(found["loaded"], json!(["echo"]));
    assert_eq!(found["tools"][0]["input_schema"]["required"], json!(["text"]));
    assert_eq!(found["unknown"], json!([{ "name": "ehco", "nearest": ["echo"] }]));
    assert!(shown());
    assert_eq!(*changes.try_recv().unwrap().loaded, ["echo"]);
}

#[test]
fn an_explanation_says_what_would_be_and_runs_nothing() {
    let fixture = Fixture::new();
    let session = fixture.session(Kind::Execute, |builder| {
        builder.hook(Says::before("guard", Before::Deny(String::new())))
    });
    let explanation = session.explain("echo", object(json!({ "text": "hello" }))).unwrap();
    assert_eq!(explanation.decision.verdict, Verdict::Ask);
    assert_eq!(explanation.hooks, ["guard"]);
    assert!(explanation.sandbox.is_none());
    assert_eq!(explanation.turn.kind, "execute");
    let own = session
        .explain("write_todolist", object(json!({ "items": [] })))
        .unwrap();
    assert_eq!(own.decision.verdict, Verdict::Allow);
    assert!(own.decision.reason.contains("template"), "{}", own.decision.reason);
    let touches = own.sandbox.unwrap();
    assert!(touches.writes.iter().any(|path| path.contains("pm")), "{touches:?}");
    assert!(matches!(
        *session.explain("ehco", Map::new()).unwrap_err(),
        CallOutcome::UnknownTool { .. }
    ));
    assert!(matches!(
        *session.explain("echo", Map::new()).unwrap_err(),
        CallOutcome::Invalid(_)
    ));
    assert_eq!(fixture.ran(), 0);
}

#[test]
fn while_a_person_is_asked_a_cancelled_call_ends_and_never_runs() {
    #[derive(Debug)]
    struct Silent;
    impl Approver for Silent {
        fn approve(&self, _ask: Ask) -> Boxed<'_, Approval> {
            Box::pin(std::future::pending())
        }
    }
    let fixture = Fixture::new();
    let session = fixture.session(Kind::Execute, |builder| builder.approver(Arc::new(Silent)));
    let request = CallRequest::new("echo", object(json!({ "text": "x" })), "test:1");
    let cancel = request.cancel.clone();
    let outcome = fixture.runtime.block_on(async {
        let call = session.submit(request);
        let stop = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            cancel.cancel();
        };
        tokio::join!(call, stop).0
    });
    assert_eq!(outcome, CallOutcome::Cancelled);
    assert_eq!(fixture.ran(), 0);
}

#[test]
fn what_passes_by_itself_is_tried_again_and_counted_in_the_result() {
    let fixture = Fixture::new();
    let catalogue = empty_catalogue();
    let tool = ToolBuilder::new("flaky")
        .summary("Works the third time.")
        .concurrency_safe()
        .retry_safe()
        .build()
        .unwrap();
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let runner = Runner::of(move |_| {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            if number < 2 {
                let busy = std::io::Error::from_raw_os_error(11);
                return Err(devloop_contract::InternalError::new("the file was busy", busy).into());
            }
            Ok(json!({ "try": number }))
        }
    });
    catalogue.register(tool, runner).unwrap();
    let session = builder(&fixture.project)
        .tools(&catalogue)
        .mode(Mode::Bypass)
        .build()
        .unwrap();
    let carried = fixture
        .runtime
        .block_on(async { session.carry_out(CallRequest::new("flaky", Map::new(), "test:1")).await });
    assert_eq!(carried.outcome, CallOutcome::Success(json!({ "try": 2 })));
    assert_eq!(carried.retries, 2);
    assert_eq!(carried.decision.unwrap().verdict, Verdict::Allow);
}

/// The PM under another policy.
fn pm_with(policy: devloop_contract::agent::Policy) -> &'static devloop_contract::Agent {
    let agent = devloop_contract::Agent {
        policy,
        ..AgentId::Pm.agent().clone()
    };
    Box::leak(Box::new(agent))
}

const SAYS_NOTHING: devloop_contract::agent::Policy = devloop_contract::agent::Policy {
    mode: "",
    allow: &[],
    ask: &[],
    deny: &[],
    hooks: &[],
};

const NOT_ME: [devloop_contract::agent::Hook; 1] = [devloop_contract::agent::Hook {
    event: "pre_tool_use",
    calls: "*",
    command: &["sh", "-c", "echo not me >&2; exit 2"],
    timeout: Duration::from_secs(20),
}];

#[test]
fn a_templates_policy_counts_and_its_mode_is_never_loosened() {
    let fixture = Fixture::new();
    let session = |policy, adjust: &dyn Fn(SessionBuilder) -> SessionBuilder| {
        let catalogue = empty_catalogue();
        let (tool, runner) = echo(Kind::Execute, &fixture.calls);
        catalogue.register(tool.build().unwrap(), runner).unwrap();
        let agent = pm_with(policy);
        let identity = identify(agent, fixture.project.path(), Given::default(), None).unwrap();
        let builder = Session::builder(Arc::clone(fixture.project.project()), agent, identity);
        adjust(builder.tools(&catalogue)).build()
    };
    let plain = |policy| session(policy, &|builder| builder).unwrap();
    let allows = plain(devloop_contract::agent::Policy {
        allow: &["echo(hello)"],
        deny: &["echo(no*)"],
        ..SAYS_NOTHING
    });
    assert!(matches!(fixture.echo(&allows, "hello"), CallOutcome::Success(_)));
    assert!(reason(&fixture.echo(&allows, "no")).contains("template"));
    assert_eq!(
        code(&fixture.echo(&allows, "other")),
        "permission_denied",
        "asked, and nobody is there"
    );
    let hooked = plain(devloop_contract::agent::Policy {
        allow: &["echo"],
        hooks: &NOT_ME,
        ..SAYS_NOTHING
    });
    assert!(reason(&fixture.echo(&hooked, "hello")).contains("not me"));
    for (mode, given, expected) in [
        ("plan", Mode::Bypass, Mode::Plan),
        ("auto_edit", Mode::Bypass, Mode::AutoEdit),
        ("auto_edit", Mode::Default, Mode::Default),
        ("", Mode::Bypass, Mode::Bypass),
    ] {
        let policy = devloop_contract::agent::Policy { mode, ..SAYS_NOTHING };
        let session = session(policy, &|builder| builder.mode(given)).unwrap();
        assert_eq!(session.mode(), expected, "{mode} {given}");
    }
    let wrong = session(
        devloop_contract::agent::Policy {
            deny: &["echo("],
            ..SAYS_NOTHING
        },
        &|builder| builder,
    );
    let error = wrong.unwrap_err().to_string();
    assert!(error.contains("the policy of the template devloop-pm"), "{error}");
}

#[test]
fn the_policies_of_all_templates_can_be_read() {
    let project = TestProject::new();
    for agent in AgentId::ALL {
        project.session(*agent);
    }
}

#[test]
fn what_lists_leave_out_is_not_found_either() {
    let fixture = Fixture::new();
    let session_of = |kind: Kind, adjust: &dyn Fn(SessionBuilder) -> SessionBuilder| {
        let catalogue = empty_catalogue();
        let (tool, runner) = echo(kind, &fixture.calls);
        let tool = tool.exposure(Exposure::Deferred).build().unwrap();
        catalogue.register(tool, runner).unwrap();
        adjust(builder(&fixture.project).tools(&catalogue)).build().unwrap()
    };
    let session = |adjust: &dyn Fn(SessionBuilder) -> SessionBuilder| session_of(Kind::ReadOnly, adjust);
    let without = session(&|builder| builder.without([rule("echo")]));
    let CallOutcome::Success(found) = fixture.call(&without, "tool_search", json!({ "query": "echo again" })) else {
        panic!("a search succeeds");
    };
    assert_eq!((&found["tools"], &found["loaded"]), (&json!([]), &json!([])));
    assert!(!without.instructions().contains("\necho\n"));
    let CallOutcome::UnknownTool { nearest, .. } = fixture.call(&without, "ehco", json!({})) else {
        panic!("there is no such tool");
    };
    assert_eq!(nearest, [] as [&str; 0]);
    // Without a search all that is permitted is shown.
    let alone = session(&|builder| builder.only([rule("echo")]));
    let shown: Vec<_> = alone
        .tools(Listing::Shown)
        .iter()
        .map(|tool| tool.name.to_string())
        .collect();
    assert_eq!(shown, ["echo"]);
    // The tool that searches names what there is, and the phase counts.
    let plain = session_of(Kind::Execute, &|builder| builder);
    let search = || {
        let tools = plain.tools(Listing::Shown);
        tools
            .iter()
            .find(|tool| tool.name == "tool_search")
            .unwrap()
            .description
            .to_string()
    };
    assert!(search().contains("<available-deferred-tools>\necho\n"), "{}", search());
    // Without upstream servers nothing reaches them.
    assert!(!search().contains("mcp_task_cancel"));
    plain.set_mode(Mode::Plan);
    assert!(!search().contains("echo") && !plain.instructions().contains("echo"));
}

/// Says yes, and that the session plans from now on.
#[derive(Debug)]
struct Plans(Arc<std::sync::OnceLock<Session>>);

impl Approver for Plans {
    fn approve(&self, _ask: Ask) -> Boxed<'_, Approval> {
        self.0.get().unwrap().set_mode(Mode::Plan);
        Box::pin(std::future::ready(Approval::Session))
    }
}

#[test]
fn a_call_that_was_allowed_is_denied_all_the_same_when_the_mode_became_stricter_meanwhile() {
    let fixture = Fixture::new();
    let cell = Arc::new(std::sync::OnceLock::new());
    let session = fixture.session(Kind::Execute, |builder| {
        builder.approver(Arc::new(Plans(Arc::clone(&cell))))
    });
    cell.set(session.clone()).unwrap();
    let outcome = fixture.echo(&session, "hello");
    assert!(reason(&outcome).contains("the mode is `plan`"), "{outcome:?}");
    assert_eq!(fixture.ran(), 0);
}

#[test]
fn a_hook_after_the_call_hears_of_no_call_that_did_not_run() {
    let fixture = Fixture::new();
    let hook = Arc::new(Says {
        name: "censor",
        before: Before::Pass,
        after: After::Withhold("always".to_owned()),
        heard: Mutex::default(),
    });
    let session = fixture.session(Kind::Execute, |builder| {
        builder.rule(List::Deny, rule("echo(no)"), "test").hook(hook)
    });
    assert_eq!(code(&fixture.echo(&session, "no")), "permission_denied");
    assert_eq!(code(&fixture.echo(&session, "asked")), "permission_denied");
}

#[test]
fn calls_on_one_file_follow_each_other_whatever_name_they_give_it() {
    let fixture = Fixture::new();
    fixture.project.put("real.txt", "x");
    std::os::unix::fs::symlink("real.txt", fixture.project.path().join("link.txt")).unwrap();
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let session = || {
        let catalogue = empty_catalogue();
        let tool = ToolBuilder::new("edit")
            .summary("Edits a file.")
            .kind(Kind::Write)
            .affected_path("/path")
            .input_schema(json!({
                "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"],
                "additionalProperties": false,
            }))
            .build()
            .unwrap();
        let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
        let runner = Runner::of(move |_| {
            let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
            async move {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(50)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                Ok(json!({}))
            }
        });
        catalogue.register(tool, runner).unwrap();
        builder(&fixture.project)
            .tools(&catalogue)
            .mode(Mode::Bypass)
            .build()
            .unwrap()
    };
    let (one, two) = (session(), session());
    let both = |first: &str, second: &str| {
        most.store(0, Ordering::SeqCst);
        let call = |session: &Session, path: &str| {
            session.submit(CallRequest::new(
                "edit",
                object(json!({ "path": path })),
                format!("test:{path}"),
            ))
        };
        let outcomes = fixture
            .runtime
            .block_on(async { tokio::join!(call(&one, first), call(&two, second)) });
        assert!(
            matches!(outcomes, (CallOutcome::Success(_), CallOutcome::Success(_))),
            "{outcomes:?}"
        );
        most.load(Ordering::SeqCst)
    };
    assert_eq!(both("real.txt", "real.txt"), 1);
    assert_eq!(both("real.txt", "link.txt"), 1, "a link is the file that it leads to");
    assert_eq!(both("real.txt", "other.txt"), 2, "other files are no hindrance");
}

#[test]
fn a_projects_own_executor_runs_and_remembers_the_calls_of_its_sessions() {
    let executor = devloop_runtime::execution::Executor::default();
    let seen = executor.clone();
    let config = devloop_runtime::config::Config::default();
    let project = TestProject::with(config, |project| project.with_executor(executor));
    let session = project.session(AgentId::Pm);
    session.call("write_todolist", json!({ "items": [] }));
    let records = seen.records();
    assert_eq!(records.len(), 1);
    assert_eq!(&*records[0].tool, "write_todolist");
    assert_eq!(seen.totals(), (1, 0));
}
