//! Todo lists: the checks of a new one, every rule of a move, and random moves against a naive model.

use jiff::Timestamp;
use proptest::prelude::*;

use super::TodoStatus::{Blocked, Doing, Done, Todo};
use super::*;
use crate::store::clock;

fn item(id: &str, depends_on: &[&str]) -> TodoItem {
    let depends_on = depends_on.iter().map(|id| (*id).to_owned()).collect();
    TodoItem::new(id.into(), "x".into(), depends_on)
}

fn problems(items: &[TodoItem]) -> Vec<String> {
    match check_new_list(items) {
        Ok(()) => Vec::new(),
        Err(error) => error
            .problems
            .iter()
            .map(|p| format!("{}: {}", p.field, p.reason))
            .collect(),
    }
}

#[test]
fn a_list_may_be_empty_and_depend_forwards() {
    assert_eq!(problems(&[]), [""; 0]);
    assert_eq!(
        problems(&[item("step-000", &["step-001"]), item("step-001", &[])]),
        [""; 0]
    );
}

#[test]
fn every_problem_is_named_at_its_field() {
    let found = problems(&[
        item("step-001", &["step-001", "step-009"]),
        item("step-001", &[]),
        item("step-002", &["step-003"]),
        item("step-003", &["step-002"]),
    ]);
    assert_eq!(
        found,
        [
            "items[1].id: step-001 is already the id of items[0]; every step needs an id of its own",
            "items[0].depends_on[0]: step-001 depends on itself; leave it out",
            "items[0].depends_on[1]: step-009 is not a step of this list; the nearest are step-001, step-002, step-003",
            "items[2].depends_on: these steps wait for each other: step-002 → step-003 → step-002; remove one of the dependencies",
        ]
    );
}

#[test]
fn all_circles_find_room_however_long_they_are() {
    let name = |number: usize| format!("step-{number:03}");
    let mut items = Vec::new();
    for circle in 0..5 {
        let first = circle * 40;
        items.extend((0..40).map(|at| item(&name(first + at), &[&name(first + (at + 1) % 40)])));
    }
    let found = problems(&items);
    assert_eq!(found.len(), 5);
    assert!(
        found[0].contains("step-000 → step-001 → ")
            && found[0].contains(" → … 21 more … → ")
            && found[0].contains("→ step-000;"),
        "{}",
        found[0]
    );
    assert!(found.iter().map(String::len).sum::<usize>() < 4_000);
}

#[test]
fn many_unknown_dependencies_are_all_counted_and_those_shown_have_their_nearest() {
    let unknown: Vec<String> = (0..200).map(|number| format!("step-{number:03}")).collect();
    let unknown: Vec<&str> = unknown.iter().map(String::as_str).collect();
    let items: Vec<TodoItem> = (0..200)
        .map(|number| item(&format!("step-{}", 200 + number), &unknown))
        .collect();
    let error = check_new_list(&items).unwrap_err();
    assert_eq!(error.total, 40_000);
    assert!(
        error
            .problems
            .iter()
            .all(|problem| problem.reason.contains("the nearest are"))
    );
}

#[test]
fn ready_are_the_steps_with_nothing_left_to_wait_for() {
    let mut list = TodoList {
        agent: "pm".into(),
        call_id: "c".into(),
        created_at: String::new(),
        items: vec![
            item("step-001", &["step-002"]),
            item("step-002", &[]),
            item("step-003", &[]),
        ],
        current: None,
        progress_pct: 0,
        version: 1,
        updated_at: String::new(),
        more: Map::new(),
    };
    assert_eq!(list.ready(), ["step-002", "step-003"]);
    assert_eq!(list.work_out_current().as_deref(), Some("step-002"));
    list.items[1].status = TodoStatus::Done;
    assert_eq!(list.ready(), ["step-001", "step-003"]);
    list.items[2].status = TodoStatus::Doing;
    assert_eq!(list.work_out_current().as_deref(), Some("step-003"));
    assert_eq!(list.open(), ["step-001", "step-003"]);
}

#[test]
fn what_others_keep_with_a_list_survives_at_every_level() {
    let text = r#"{"agent":"pm","call_id":"c","created_at":"t","items":[{"id":"step-001","description":"x","status":"done","evidence":[{"path":"a","line":1,"quote":"q"}],"estimate":{"hours":3}}],"current":null,"progress_pct":100,"version":1,"updated_at":"t","owner":["a",null,1.5]}"#;
    let list: TodoList = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&list).unwrap(), text);
}

#[test]
fn what_a_later_version_keeps_with_a_step_survives() {
    let text = r#"{"id":"step-001","description":"x","status":"doing","note":"half way"}"#;
    let item: TodoItem = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&item).unwrap(), text);
}

fn list_of(items: Vec<TodoItem>) -> TodoList {
    TodoList {
        agent: "pm".into(),
        call_id: "c".into(),
        created_at: clock::iso(now()),
        items,
        current: None,
        progress_pct: 0,
        version: 1,
        updated_at: clock::iso(now()),
        more: Map::new(),
    }
}

fn now() -> Timestamp {
    "2026-11-30T10:15:00.123Z".parse().expect("a time")
}

fn to(id: &str, to: TodoStatus) -> Move {
    Move {
        id: id.into(),
        to,
        note: None,
        reason: (to == Blocked).then(|| "the reason".to_owned()),
        evidence: Vec::new(),
        other: OtherStep::Stays,
        expected_version: None,
    }
}

#[track_caller]
fn moved(list: &mut TodoList, step: &Move) -> Moved {
    list.carry_out(step, now()).unwrap()
}

/// The refusal of a move, which must leave the list as it was.
#[track_caller]
fn refused(list: &TodoList, step: &Move) -> Refused {
    let mut after = list.clone();
    let refused = after.carry_out(step, now()).unwrap_err();
    assert_eq!(&after, list);
    refused
}

#[test]
fn every_pair_of_statuses_is_an_arrow_or_refused_with_the_arrows_there_are() {
    let arrows = [
        (Todo, vec![Doing, Blocked, Done]),
        (Doing, vec![Done, Blocked, Todo]),
        (Blocked, vec![Todo, Doing]),
        (Done, vec![Doing]),
    ];
    for (from, allowed) in arrows {
        for target in [Todo, Doing, Done, Blocked] {
            let mut list = list_of(vec![item("step-001", &[])]);
            list.items[0].status = from;
            let mut step = to("step-001", target);
            step.note = Some("n".into());
            if target == from {
                let before = list.clone();
                assert_eq!(moved(&mut list, &step), Moved::Unchanged);
                assert_eq!(list, before, "not even the note is kept");
            } else if allowed.contains(&target) {
                assert!(matches!(moved(&mut list, &step), Moved::Changed { from: f, .. } if f == from));
                assert_eq!((list.items[0].status, list.version), (target, 2));
            } else {
                let Refused::BadTransition { from: f, allowed: a } = refused(&list, &step) else {
                    panic!("{from:?} → {target:?}")
                };
                assert_eq!((f, a), (from, &*allowed));
            }
        }
    }
}

#[test]
fn a_reason_goes_with_blocked_and_only_with_it() {
    let mut step = to("step-001", Blocked);
    step.reason = None;
    assert_eq!(step.check().unwrap_err().problems[0].field, "reason");
    for target in [Todo, Doing, Done] {
        let mut step = to("step-001", target);
        assert_eq!(step.check(), Ok(()));
        step.reason = Some("x".into());
        assert_eq!(step.check().unwrap_err().problems[0].field, "reason");
        // Also for a step that stands there already: what makes no sense never does.
        let list = list_of(vec![item("step-001", &[])]);
        assert!(matches!(refused(&list, &step), Refused::Invalid(_)));
    }
}

#[test]
fn a_step_is_not_begun_nor_done_before_what_it_depends_on() {
    let mut list = list_of(vec![
        item("step-001", &["step-002", "step-003", "step-999"]),
        item("step-002", &[]),
        item("step-003", &[]),
    ]);
    moved(&mut list, &to("step-003", Done));
    for target in [Doing, Done] {
        // A step that is not in the list, as in a file edited by hand, is never done.
        let open = vec!["step-002".to_owned(), "step-999".to_owned()];
        assert_eq!(refused(&list, &to("step-001", target)), Refused::DepsOpen { open });
    }
    moved(&mut list, &to("step-001", Blocked));
    list.items[0].depends_on.pop();
    assert!(matches!(
        refused(&list, &to("step-001", Doing)),
        Refused::DepsOpen { .. }
    ));
    moved(&mut list, &to("step-002", Done));
    moved(&mut list, &to("step-001", Doing));
}

#[test]
fn one_step_is_in_work_and_makes_room_when_told() {
    let mut list = list_of(vec![
        item("step-001", &[]),
        item("step-002", &[]),
        item("step-003", &[]),
    ]);
    moved(&mut list, &to("step-001", Doing));
    let id = "step-001".to_owned();
    let mut step = to("step-002", Doing);
    assert_eq!(refused(&list, &step), Refused::AnotherInProgress { id });
    // What is not to be in work needs no room.
    moved(&mut list, &to("step-003", Done));
    step.other = OtherStep::IsPutBack;
    let Moved::Changed { put_back, .. } = moved(&mut list, &step) else {
        panic!("it moves")
    };
    assert_eq!(put_back, ["step-001"]);
    assert_eq!(
        (list.items[0].status, list.current.as_deref()),
        (Todo, Some("step-002"))
    );
    // Two in work, as in a file edited by hand, are both put back.
    list.items[2].status = Doing;
    step.id = "step-001".into();
    let Moved::Changed { put_back, .. } = moved(&mut list, &step) else {
        panic!("it moves")
    };
    assert_eq!(put_back, ["step-002", "step-003"]);
}

#[test]
fn a_done_step_is_reopened_with_a_note_and_its_dependents_are_named() {
    let mut list = list_of(vec![
        item("step-001", &[]),
        item("step-002", &["step-001"]),
        item("step-003", &["step-002"]),
        item("step-004", &["step-001"]),
    ]);
    for id in ["step-001", "step-002", "step-003"] {
        moved(&mut list, &to(id, Done));
    }
    let mut step = to("step-001", Doing);
    let Refused::Invalid(error) = refused(&list, &step) else {
        panic!("it needs a note")
    };
    assert_eq!(error.problems[0].field, "note");
    step.note = Some("the test was wrong".into());
    for times in 1..=2 {
        let Moved::Changed { dependents_done, .. } = moved(&mut list, &step) else {
            panic!("it moves")
        };
        assert_eq!(dependents_done, ["step-002"]);
        assert_eq!(list.items[0].reopened, times);
        moved(&mut list, &to("step-001", Done));
    }
    assert_eq!(list.items[0].note.as_deref(), Some("the test was wrong"));
}

#[test]
fn note_and_evidence_stay_until_others_come_and_the_reason_while_it_is_blocked() {
    let evidence = |path: &str| Evidence {
        path: path.into(),
        line: Some(3),
        more: Map::new(),
    };
    let mut list = list_of(vec![item("step-001", &[])]);
    let mut step = to("step-001", Blocked);
    step.note = Some("first".into());
    step.evidence = vec![evidence("a.txt"), evidence("b.txt")];
    moved(&mut list, &step);
    assert_eq!(list.items[0].reason.as_deref(), Some("the reason"));
    moved(&mut list, &to("step-001", Doing));
    let item = &list.items[0];
    assert_eq!((item.note.as_deref(), item.reason.as_deref()), (Some("first"), None));
    assert_eq!(item.evidence.len(), 2);
    let mut step = to("step-001", Done);
    step.note = Some("second".into());
    step.evidence = vec![evidence("c.txt")];
    moved(&mut list, &step);
    let item = &list.items[0];
    assert_eq!(
        (item.note.as_deref(), &*item.evidence),
        (Some("second"), &[evidence("c.txt")][..])
    );
    let text = serde_json::to_string(item).unwrap();
    assert_eq!(
        text,
        r#"{"id":"step-001","description":"x","status":"done","note":"second","evidence":[{"path":"c.txt","line":3}]}"#
    );
    assert_eq!(&serde_json::from_str::<TodoItem>(&text).unwrap(), item);
}

#[test]
fn a_stale_version_and_an_unknown_step_are_refused() {
    let mut list = list_of(vec![item("step-001", &[]), item("step-012", &[])]);
    moved(&mut list, &to("step-001", Doing));
    let mut step = to("step-001", Doing);
    step.expected_version = Some(1);
    // Also when nothing would change: the caller has seen another list.
    assert_eq!(refused(&list, &step), Refused::VersionConflict { current_version: 2 });
    step.expected_version = Some(2);
    assert_eq!(moved(&mut list, &step), Moved::Unchanged);
    let Refused::UnknownItem { nearest } = refused(&list, &to("step-013", Doing)) else {
        panic!("there is none")
    };
    assert_eq!(nearest, ["step-012", "step-001"]);
}

#[test]
fn progress_is_rounded_down_and_whole_only_when_all_is_done() {
    let ids: Vec<String> = (0..200).map(|n| format!("step-{n:03}")).collect();
    let mut list = list_of(ids.iter().map(|id| item(id, &[])).collect());
    for (done, id) in (1..).zip(&ids) {
        moved(&mut list, &to(id, Done));
        assert_eq!(usize::from(list.progress_pct), done / 2);
    }
    assert_eq!(list_of(Vec::new()).work_out_progress(), 0);
}

#[test]
fn a_clock_that_is_set_back_does_not_make_the_list_older() {
    let mut list = list_of(vec![item("step-001", &[])]);
    let earlier = now() - jiff::SignedDuration::from_hours(1);
    list.carry_out(&to("step-001", Doing), earlier).unwrap();
    assert_eq!(list.updated_at, clock::iso(now()));
    // What is no time, in a file that anybody may have edited, is replaced.
    list.updated_at = "yesterday".into();
    list.carry_out(&to("step-001", Done), earlier).unwrap();
    assert_eq!(list.updated_at, clock::iso(earlier));
}

/// What a move asks for, with a step by its place in the list.
#[derive(Clone, Debug)]
struct Operation {
    place: usize,
    to: TodoStatus,
    note: bool,
    reason: bool,
    switch: bool,
    /// How far the expected version is off, if one is given.
    off: Option<u64>,
}

fn operation() -> impl Strategy<Value = Operation> {
    let off = prop_oneof![8 => Just(None), 2 => Just(Some(0)), 1 => Just(Some(1))];
    let to = prop_oneof![1 => Just(Todo), 3 => Just(Doing), 3 => Just(Done), 1 => Just(Blocked)];
    (
        0..7_usize,
        to,
        any::<bool>(),
        proptest::bool::weighted(0.1),
        any::<bool>(),
        off,
    )
        .prop_map(|(place, to, note, odd_reason, switch, off)| Operation {
            place,
            to,
            note,
            reason: (to == Blocked) != odd_reason,
            switch,
            off,
        })
}

/// Which of six steps depend on which, without circles: only on those before.
fn dependencies() -> impl Strategy<Value = Vec<Vec<usize>>> {
    let before = |place: usize| proptest::collection::vec(proptest::bool::weighted(0.3), place);
    (0..6).map(before).collect::<Vec<_>>().prop_map(|rows| {
        let places = |row: Vec<bool>| (0..row.len()).filter(|place| row[*place]).collect();
        rows.into_iter().map(places).collect()
    })
}

/// The rules once more, as naively as they can be said.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    waits_for: Vec<Vec<usize>>,
    status: Vec<TodoStatus>,
    reopened: Vec<u64>,
    version: u64,
}

impl Model {
    /// A word for what becomes of the operation.
    fn apply(&mut self, operation: &Operation) -> &'static str {
        let Operation { place, to, .. } = *operation;
        if operation.reason != (to == Blocked) {
            return "invalid";
        }
        if operation.off.is_some_and(|off| off != 0) {
            return "version_conflict";
        }
        if place >= self.status.len() {
            return "unknown_item";
        }
        let from = self.status[place];
        if from == to {
            return "unchanged";
        }
        if matches!((from, to), (Done, Todo | Blocked) | (Blocked, Done)) {
            return "bad_transition";
        }
        if from == Done && !operation.note {
            return "invalid";
        }
        let waits = self.waits_for[place].iter().any(|other| self.status[*other] != Done);
        if waits && (to == Doing || to == Done) {
            return "deps_open";
        }
        if to == Doing {
            for other in 0..self.status.len() {
                if self.status[other] == Doing && !operation.switch {
                    return "another_in_progress";
                }
            }
            for status in &mut self.status {
                if *status == Doing {
                    *status = Todo;
                }
            }
        }
        if from == Done {
            self.reopened[place] += 1;
        }
        self.status[place] = to;
        self.version += 1;
        "changed"
    }
}

fn word(result: &Result<Moved, Refused>) -> &'static str {
    match result {
        Ok(Moved::Unchanged) => "unchanged",
        Ok(Moved::Changed { .. }) => "changed",
        Err(Refused::Invalid(_)) => "invalid",
        Err(Refused::VersionConflict { .. }) => "version_conflict",
        Err(Refused::UnknownItem { .. }) => "unknown_item",
        Err(Refused::BadTransition { .. }) => "bad_transition",
        Err(Refused::DepsOpen { .. }) => "deps_open",
        Err(Refused::AnotherInProgress { .. }) => "another_in_progress",
    }
}

fn id_of(place: usize) -> String {
    format!("step-{place:03}")
}

/// What holds after any moves, whoever made them.
fn check_invariants(list: &TodoList) {
    let status = |id: &String| list.items.iter().find(|item| item.id == *id).unwrap();
    let doing: Vec<_> = list.items.iter().filter(|item| item.status == Doing).collect();
    assert!(doing.len() <= 1, "one step is in work: {list:?}");
    for item in &list.items {
        for dependency in item.depends_on.iter().map(status) {
            // A step that was done may have lost its ground, but only to one that was reopened.
            let broken = dependency.status != Done && (item.status != Done || dependency.reopened == 0);
            assert!(!broken || !matches!(item.status, Doing | Done), "{list:?}");
        }
        assert_eq!(item.reason.is_some(), item.status == Blocked);
    }
    let done = list.items.iter().filter(|item| item.status == Done).count();
    assert_eq!(usize::from(list.progress_pct), 100 * done / list.items.len());
    let first_ready = list
        .items
        .iter()
        .find(|item| item.status == Todo && item.depends_on.iter().all(|id| status(id).status == Done));
    assert_eq!(
        list.current.as_ref(),
        doing.first().copied().or(first_ready).map(|item| &item.id)
    );
    assert_eq!(list.ready().first().copied(), first_ready.map(|item| &*item.id));
    let counts = list.counts();
    assert_eq!((counts.done, counts.doing), (done, doing.len()));
    assert_eq!(
        counts.todo + counts.doing + counts.done + counts.blocked,
        list.items.len()
    );
    assert_eq!(list.blocked().len(), counts.blocked);
}

#[test]
fn random_moves_do_what_a_naive_model_does() {
    let cases = if std::env::var_os("DEVLOOP_LONG").is_some() {
        20_000
    } else {
        256
    };
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let seen = std::cell::RefCell::new(BTreeMap::<&str, usize>::new());
    let moves = proptest::collection::vec(operation(), 1..80);
    proptest!(config, |(waits_for in dependencies(), moves in moves)| {
        let items = waits_for.iter().enumerate().map(|(place, others)| {
            let others: Vec<String> = others.iter().copied().map(id_of).collect();
            TodoItem::new(id_of(place), "x".into(), others)
        });
        let mut list = list_of(items.collect());
        list.current = list.work_out_current();
        let count = waits_for.len();
        let mut model = Model { waits_for, status: vec![Todo; count], reopened: vec![0; count], version: 1 };
        for operation in &moves {
            let step = Move {
                id: id_of(operation.place),
                to: operation.to,
                note: operation.note.then(|| "n".to_owned()),
                reason: operation.reason.then(|| "r".to_owned()),
                evidence: Vec::new(),
                other: if operation.switch { OtherStep::IsPutBack } else { OtherStep::Stays },
                expected_version: operation.off.map(|off| list.version + off),
            };
            let before = list.clone();
            let result = list.carry_out(&step, now());
            let expected = model.apply(operation);
            prop_assert_eq!(word(&result), expected, "{:?}", operation);
            *seen.borrow_mut().entry(expected).or_default() += 1;
            if expected == "changed" {
                prop_assert_eq!(list.version, before.version + 1);
            } else {
                prop_assert_eq!(&list, &before);
            }
            let status: Vec<_> = list.items.iter().map(|item| item.status).collect();
            let reopened: Vec<_> = list.items.iter().map(|item| item.reopened).collect();
            prop_assert_eq!((&status, &reopened, list.version), (&model.status, &model.reopened, model.version));
            check_invariants(&list);
        }
    });
    // What never came up was not tested.
    assert_eq!(seen.borrow().len(), 8, "{seen:?}");
}
