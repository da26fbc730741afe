//! What a runtime state promises, call by call and over random calls.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_795_000_000_000 + millis).expect("a time")
}

fn by(session_id: &str) -> By<'_> {
    By {
        agent: "pm",
        call_id: "call-1",
        session_id,
    }
}

fn patch(value: Value) -> Update {
    let Value::Object(patch) = value else {
        panic!("{value} is no patch")
    };
    Update {
        patch,
        ..Update::default()
    }
}

fn phase(phase: &str) -> Update {
    Update {
        phase: Some(phase.into()),
        ..Update::default()
    }
}

#[track_caller]
fn accepted(before: Option<&RuntimeState>, update: &Update, millis: i64) -> Accepted {
    RuntimeState::carry_out(before, update, by("s"), None, at(millis)).expect("it is allowed")
}

/// A state after one heartbeat at the time 0.
fn begun() -> RuntimeState {
    accepted(None, &Update::default(), 0).state
}

#[test]
fn a_first_heartbeat_makes_a_state_of_version_0() {
    let Accepted {
        state,
        said,
        event_is_due,
    } = accepted(None, &Update::default(), 0);
    assert_eq!((said, event_is_due), (Said::Heartbeat, true));
    assert_eq!(
        Value::Object(state.shown()),
        json!({
            "version": 0, "heartbeat_seq": 1, "heartbeat_at": clock::iso(at(0)), "session_id": "s", "agent": "pm",
            "call_id": "call-1", "phase": null, "phase_since": null, "status": null, "current_step": null,
            "message": null, "progress_pct": null, "ttl_s": 120, "updated_at": null, "data": {},
        })
    );
    assert_eq!(state.event_at, Some(clock::iso(at(0))));
}

#[test]
fn what_is_said_stays_until_something_else_is_said() {
    let update = Update {
        phase: Some("draft".into()),
        status: Some(Status::Running),
        current_step: StepChange::Set("step-001".into()),
        message: Some("on it".into()),
        progress_pct: Some(10),
        ttl_s: Some(300),
        patch: patch(json!({"a": {"b": 1}})).patch,
        expected_version: Some(0),
    };
    let first = accepted(None, &update, 0).state;
    assert_eq!((first.version, first.heartbeat_seq), (1, 1));
    assert_eq!(first.phase_since.as_deref(), Some(&*clock::iso(at(0))));
    let beat = accepted(Some(&first), &Update::default(), 5_000).state;
    assert_eq!(
        beat,
        RuntimeState {
            heartbeat_seq: 2,
            heartbeat_at: clock::iso(at(5_000)),
            event_at: Some(clock::iso(at(5_000))),
            ..first.clone()
        },
        "a heartbeat leaves the rest as it was"
    );
    // The same again is said again; the phase began when it began.
    let again = accepted(Some(&beat), &phase("draft"), 6_000).state;
    assert_eq!((again.version, &again.phase_since), (2, &first.phase_since));
    assert_eq!(again.updated_at, Some(clock::iso(at(6_000))));
    let cleared = Update {
        current_step: StepChange::Clear,
        message: Some(String::new()),
        ..phase("review")
    };
    let cleared = accepted(Some(&again), &cleared, 7_000).state;
    assert_eq!((&cleared.current_step, &cleared.message), (&None, &None));
    assert_eq!(cleared.phase_since, Some(clock::iso(at(7_000))));
    assert_eq!(
        (cleared.status, cleared.progress_pct, cleared.ttl_s),
        (Some(Status::Running), Some(10), 300)
    );
}

#[test]
fn only_a_call_that_says_something_raises_the_version() {
    let nothing = Update {
        expected_version: Some(0),
        ..Update::default()
    };
    assert_eq!(accepted(Some(&begun()), &nothing, 0).said, Said::Heartbeat);
    for update in [
        phase("a"),
        patch(json!({"a": null})),
        Update {
            status: Some(Status::Idle),
            ..nothing.clone()
        },
        Update {
            current_step: StepChange::Clear,
            ..nothing.clone()
        },
        Update {
            message: Some(String::new()),
            ..nothing.clone()
        },
        Update {
            progress_pct: Some(0),
            ..nothing.clone()
        },
        Update {
            ttl_s: Some(120),
            ..nothing
        },
    ] {
        let done = accepted(Some(&begun()), &update, 0);
        assert_eq!(
            (done.said, done.state.version, done.state.heartbeat_seq),
            (Said::Something, 1, 2)
        );
        assert!(done.event_is_due, "what is said is told at once");
    }
}

#[test]
fn a_stale_version_is_refused() {
    let state = accepted(Some(&begun()), &phase("a"), 0).state;
    for (before, expected) in [(Some(&state), 0), (Some(&state), 2), (None, 1)] {
        let update = Update {
            expected_version: Some(expected),
            ..phase("b")
        };
        let current_version = before.map_or(0, |state| state.version);
        assert_eq!(
            RuntimeState::carry_out(before, &update, by("s"), None, at(0)),
            Err(Refused::VersionConflict { current_version })
        );
    }
}

#[test]
fn a_session_that_was_taken_over_is_refused_and_one_that_resumes_is_not() {
    let call = |before: &RuntimeState, session: &str| {
        RuntimeState::carry_out(Some(before), &Update::default(), by(session), None, at(0)).map(|done| done.state)
    };
    let fenced = |session_id: &str| {
        Err(Refused::Fenced {
            session_id: session_id.into(),
        })
    };
    let old = begun();
    let old = call(&old, "s").expect("it writes already");
    let new = call(&old, "a-younger-name").expect("it was never seen");
    assert_eq!(new.superseded, ["s"]);
    // Before the version is looked at: whatever a zombie has seen, it must stop.
    let stale = Update {
        expected_version: Some(77),
        ..Update::default()
    };
    assert_eq!(
        RuntimeState::carry_out(Some(&new), &stale, by("s"), None, at(0)).map(drop),
        fenced("a-younger-name").map(drop)
    );
    assert_eq!(call(&new, "s"), fenced("a-younger-name"));
    let third = call(&new, "zzz").expect("it was never seen");
    assert_eq!(call(&third, "s"), fenced("zzz"));
    assert_eq!(call(&third, "a-younger-name"), fenced("zzz"));
    assert!(call(&third, "zzz").is_ok());
    // A file without a session is anybody's.
    let nobody = RuntimeState {
        session_id: String::new(),
        ..begun()
    };
    assert_eq!(call(&nobody, "x").expect("it is free").superseded, [""; 0]);
}

#[test]
fn as_many_sessions_are_remembered_as_there_is_room_for() {
    let mut state = begun();
    for n in 0..200 {
        let id = format!("s{n}");
        state = RuntimeState::carry_out(Some(&state), &Update::default(), by(&id), None, at(0))
            .expect("it was never seen")
            .state;
        assert!(state.superseded.len() <= SESSIONS_REMEMBERED);
    }
    let remembered: Vec<String> = (199 - SESSIONS_REMEMBERED..199).map(|n| format!("s{n}")).collect();
    assert_eq!(state.superseded, remembered);
}

#[test]
fn a_clock_that_is_set_back_makes_nothing_older() {
    let state = accepted(Some(&begun()), &phase("a"), 10_000).state;
    let back = accepted(Some(&state), &phase("b"), -3_600_000).state;
    let last = clock::iso(at(10_000));
    assert_eq!(back.heartbeat_at, last);
    assert_eq!((back.phase_since, back.updated_at), (Some(last.clone()), Some(last)));
    // Edited by somebody: no time, and one that is far away.
    for (text, expected) in [
        ("yesterday", clock::iso(at(0))),
        ("", clock::iso(at(0))),
        ("2999-01-01T00:00:00Z", "2999-01-01T00:00:00.000Z".to_owned()),
    ] {
        let edited = RuntimeState {
            heartbeat_at: text.into(),
            ..begun()
        };
        assert_eq!(
            accepted(Some(&edited), &Update::default(), 0).state.heartbeat_at,
            expected
        );
    }
}

#[test]
fn heartbeats_are_told_once_a_second_and_the_clock_may_be_set() {
    let mut state = begun();
    let mut told = Vec::new();
    // The last ones: set back by an hour, and by too little to matter.
    for millis in [
        1, 999, 1_000, 1_500, 1_999, 2_000, 2_100, -3_600_000, -3_599_500, -3_600_500,
    ] {
        let done = accepted(Some(&state), &Update::default(), millis);
        state = done.state;
        if done.event_is_due {
            told.push(millis);
        }
    }
    assert_eq!(told, [1_000, 2_000, -3_600_000]);
    // What is said counts as a sign of life, too.
    let said = accepted(Some(&state), &phase("a"), 5_000).state;
    assert!(!accepted(Some(&said), &Update::default(), 5_999).event_is_due);
    assert!(accepted(Some(&said), &Update::default(), 6_000).event_is_due);
    let edited = RuntimeState {
        event_at: Some("never".into()),
        ..said
    };
    assert!(accepted(Some(&edited), &Update::default(), 5_001).event_is_due);
}

#[test]
fn a_phase_follows_the_graph_of_the_loop() {
    let graph = PhaseGraph::new(["plan"], [("plan", "draft"), ("plan", "ask"), ("draft", "plan")]);
    let call = |before: Option<&RuntimeState>, to: &str| {
        RuntimeState::carry_out(before, &phase(to), by("s"), Some(&graph), at(0)).map(|done| done.state)
    };
    let illegal = |allowed: &[&str]| {
        Err(Refused::IllegalPhase {
            allowed: allowed.iter().map(|phase| (*phase).to_owned()).collect(),
        })
    };
    assert_eq!(call(None, "draft"), illegal(&["plan"]));
    let planning = call(None, "plan").expect("work begins with it");
    assert_eq!(call(Some(&planning), "over"), illegal(&["ask", "draft"]));
    let planning = call(Some(&planning), "plan").expect("to stay is allowed");
    let asking = call(Some(&planning), "ask").expect("an arrow leads there");
    assert_eq!(call(Some(&asking), "draft"), illegal(&[]));
    // A call that names no phase asks for none.
    let beat = RuntimeState::carry_out(Some(&asking), &Update::default(), by("s"), Some(&graph), at(0));
    assert!(beat.is_ok());
    assert!(accepted(Some(&asking), &phase("anything"), 0).state.phase.is_some());
}

/// An object of `levels` levels, objects and arrays by turns.
fn nested(levels: usize) -> Value {
    let inner = (1..levels).fold(json!({}), |inner, level| {
        if level % 2 == 0 {
            json!({ "a": inner })
        } else {
            json!([inner])
        }
    });
    if inner.is_object() {
        inner
    } else {
        json!({ "a": inner[0] })
    }
}

#[test]
fn a_patch_has_its_bounds_and_so_has_the_data() {
    assert_eq!(depth(&nested(DEEPEST_PATCH)), DEEPEST_PATCH);
    assert!(patch(nested(DEEPEST_PATCH)).check().is_ok());
    let Err(Refused::Invalid(error)) = patch(json!({ "a": nested(DEEPEST_PATCH) })).check() else {
        panic!("it is too deep")
    };
    assert_eq!(error.problems[0].field, "patch");
    assert!(error.problems[0].reason.starts_with("has 9 levels"), "{error}");
    assert!(patch(nested(100)).check().is_err());

    // `{"k":"…"}` has 8 bytes more than its text.
    let text = |bytes: u64| json!({ "k": "x".repeat(usize::try_from(bytes).unwrap() - 8) });
    assert!(patch(text(LARGEST_PATCH)).check().is_ok());
    assert_eq!(
        patch(text(LARGEST_PATCH + 1)).check(),
        Err(Refused::TooLarge {
            what: "patch",
            bytes: LARGEST_PATCH + 1,
            limit: LARGEST_PATCH
        })
    );

    let key = |key: &str| patch(json!({ key: "x".repeat(15_000) }));
    let one = accepted(None, &key("one"), 0).state;
    let two = accepted(Some(&one), &key("two"), 0).state;
    let third = RuntimeState::carry_out(Some(&two), &key("three"), by("s"), None, at(0));
    assert!(
        matches!(third, Err(Refused::TooLarge { what: "data", bytes, limit: LARGEST_DATA }) if bytes > LARGEST_DATA),
        "{third:?}"
    );
    // Made too large by somebody else, it can be made smaller but not larger.
    let mut edited = two;
    edited.data.insert("edited".into(), "x".repeat(100_000).into());
    assert!(RuntimeState::carry_out(Some(&edited), &key("three"), by("s"), None, at(0)).is_err());
    let smaller = accepted(Some(&edited), &patch(json!({"one": null})), 0).state;
    assert_eq!(smaller.data.len(), 2);
}

#[test]
fn a_file_of_another_hand_is_read_and_keeps_what_it_has_more() {
    let text =
        json!({"version": 3, "heartbeat_seq": 9, "heartbeat_at": "2026-11-30T10:15:00.123Z", "owner": {"a": null}});
    let state: RuntimeState = serde_json::from_value(text).unwrap();
    let state = accepted(Some(&state), &phase("a"), 0).state;
    assert_eq!((state.version, state.heartbeat_seq, state.ttl_s), (4, 10, 120));
    assert_eq!(state.more["owner"], json!({"a": null}));
    assert!(!state.shown().contains_key("owner"), "it may be of any size");
    let with_points = json!({"version": 3.0, "heartbeat_seq": 9.0});
    assert_eq!(serde_json::from_value::<RuntimeState>(with_points).unwrap().version, 3);
    for wrong in [json!(3.5), json!(-1), json!(1e300), json!("3")] {
        let wrong = json!({"version": wrong, "heartbeat_seq": 9});
        assert!(
            serde_json::from_value::<RuntimeState>(wrong.clone()).is_err(),
            "{wrong}"
        );
    }
    assert!(serde_json::from_value::<RuntimeState>(json!({"status": "done"})).is_err());
}

fn update() -> impl Strategy<Value = Update> {
    let data = prop_oneof![
        3 => Just(json!({})),
        1 => Just(json!({"a": 1})),
        1 => Just(json!({"a": null, "b": {"c": [1]}})),
    ];
    let status = prop_oneof![Just(None), Just(Some(Status::Running)), Just(Some(Status::Done))];
    let step = prop_oneof![
        Just(StepChange::Keep),
        Just(StepChange::Clear),
        Just(StepChange::Set("step-001".into()))
    ];
    let named = prop::option::of("[ab]");
    (
        named.clone(),
        status,
        step,
        named,
        prop::option::of(0..100u8),
        data,
        prop::option::of(0..6u64),
    )
        .prop_map(
            |(phase, status, current_step, message, progress_pct, data, expected_version)| Update {
                phase,
                status,
                current_step,
                message,
                progress_pct,
                ttl_s: None,
                patch: patch(data).patch,
                expected_version,
            },
        )
}

proptest! {
    #[test]
    fn random_calls_keep_every_promise(
        calls in prop::collection::vec((update(), 0..4usize, -3_000..3_000i64), 1..60)
    ) {
        let mut state: Option<RuntimeState> = None;
        let (mut now, mut gone, mut last_told) = (0, BTreeSet::new(), None::<Timestamp>);
        for (update, session, step) in calls {
            now += step;
            let id = format!("s{session}");
            let before = state.clone();
            let done = RuntimeState::carry_out(state.as_ref(), &update, by(&id), None, at(now));
            let (version, seq) = before.as_ref().map_or((0, 0), |state| (state.version, state.heartbeat_seq));
            match done {
                Err(Refused::Fenced { session_id }) => {
                    prop_assert!(gone.contains(&id));
                    prop_assert_eq!(Some(&session_id), before.as_ref().map(|state| &state.session_id));
                }
                Err(Refused::VersionConflict { current_version }) => {
                    prop_assert_eq!(current_version, version);
                    prop_assert!(update.expected_version.is_some_and(|expected| expected != version));
                    prop_assert!(!gone.contains(&id));
                }
                Err(other) => return Err(TestCaseError::fail(format!("{other:?}"))),
                Ok(done) => {
                    prop_assert!(!gone.contains(&id));
                    let says = update.says_something();
                    prop_assert_eq!(done.said == Said::Something, says);
                    prop_assert_eq!(done.state.version, version + u64::from(says));
                    prop_assert_eq!(done.state.heartbeat_seq, seq + 1);
                    prop_assert_eq!(&done.state.session_id, &id);
                    if let Some(before) = &before {
                        prop_assert!(done.state.heartbeat_at >= before.heartbeat_at);
                        if before.session_id != id {
                            gone.insert(before.session_id.clone());
                        }
                    }
                    for time in [&done.state.updated_at, &done.state.phase_since].into_iter().flatten() {
                        prop_assert!(*time <= done.state.heartbeat_at);
                    }
                    if done.event_is_due {
                        if !says {
                            let apart = last_told.map(|last| at(now).duration_since(last).abs());
                            prop_assert!(apart.is_none_or(|apart| apart >= HEARTBEAT_EVENTS_APART));
                        }
                        last_told = Some(at(now));
                    }
                    // What is written is what is read.
                    let text = serde_json::to_string(&done.state).unwrap();
                    prop_assert_eq!(&serde_json::from_str::<RuntimeState>(&text).unwrap(), &done.state);
                    state = Some(done.state);
                }
            }
        }
    }
}
