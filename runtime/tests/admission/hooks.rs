//! Hooks before and after a call.

use super::*;

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

/// Adds a letter until there are so many.
#[derive(Debug)]
struct Grows(usize);

impl Hook for Grows {
    fn name(&self) -> Cow<'static, str> {
        "grows".into()
    }

    fn before<'a>(&'a self, call: HookCall<'a>) -> Boxed<'a, Before> {
        let text = call.input["text"].as_str().unwrap_or_default();
        let longer = (text.len() < self.0).then(|| format!("{text}x"));
        Box::pin(async move { longer.map_or(Before::Pass, |longer| Before::Change(object(json!({ "text": longer })))) })
    }
}

#[test]
fn hooks_may_change_the_input_of_a_call_four_times() {
    for (changes, ran) in [(4, 1), (5, 0)] {
        let fixture = Fixture::new();
        let session = fixture.session(Kind::ReadOnly, |builder| {
            builder
                .rule(List::Allow, rule("echo"), "test")
                .hook(Arc::new(Grows(changes)))
        });
        let outcome = fixture.echo(&session, "");
        assert_eq!(fixture.ran(), ran, "{outcome:?}");
        if ran == 1 {
            assert!(matches!(outcome, CallOutcome::Success(said) if said["said"] == "xxxx"));
        }
    }
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
