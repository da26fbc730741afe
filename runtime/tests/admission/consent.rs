//! A person who is asked: what runs without, and what becomes of the answer.

use super::*;

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

/// Takes its time.
#[derive(Debug)]
struct Slow;
impl Approver for Slow {
    fn approve(&self, _ask: Ask) -> Boxed<'_, Approval> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(1_300)).await;
            Approval::Once
        })
    }
}

#[test]
fn calls_behind_one_that_a_person_is_asked_about_wait_for_it() {
    let fixture = Fixture::new();
    let catalogue = empty_catalogue();
    let (tool, runner) = echo(Kind::Execute, &fixture.calls);
    // The longest that a call may take is not the longest that it waits.
    let tool = tool.timeout(Duration::from_secs(1)).build().unwrap();
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
