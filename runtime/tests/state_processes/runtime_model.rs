//! The runtime state, held to a model that knows nothing of files, locks and types.

use std::path::Path;

use devloop_core::runtime_state::SESSIONS_REMEMBERED;
use serde_json::{Map, Value, json};

use super::children::{all_end_well, child, scaled, started};
use super::{Call, Caller, Log, Random, events, read_log, state, windows};

const TOOL: &str = "update_runtime_state";
const PROCESSES: usize = 4;
/// How many calls a process makes in the same session, about.
const CALLS_OF_A_SESSION: usize = 12;

/// What a state is to a reader of the contract.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    seq: u64,
    version: u64,
    session: Option<String>,
    gone: Vec<String>,
    fields: Map<String, Value>,
    data: Value,
}

impl Model {
    fn new() -> Self {
        Self {
            data: json!({}),
            ..Self::default()
        }
    }

    /// What comes of a call, or the code with which it is refused.
    fn after(&self, call: &Call) -> Result<Self, &'static str> {
        if self.gone.contains(&call.session) {
            return Err("fenced");
        }
        if call
            .input
            .get("expected_version")
            .is_some_and(|version| *version != json!(self.version))
        {
            return Err("version_conflict");
        }
        let mut next = self.clone();
        if let Some(left) = next
            .session
            .replace(call.session.clone())
            .filter(|left| *left != call.session)
        {
            next.gone.push(left);
            let forgotten = next.gone.len().saturating_sub(SESSIONS_REMEMBERED);
            next.gone.drain(..forgotten);
        }
        next.seq += 1;
        let mut says_something = false;
        for (field, value) in call.input.as_object().expect("an object") {
            match &**field {
                "expected_version" => continue,
                "patch" => next.data = merged(&next.data, value),
                "clear_step" => {
                    next.fields.remove("current_step");
                }
                _ => {
                    next.fields.insert(field.clone(), value.clone());
                }
            }
            says_something = true;
        }
        next.version += u64::from(says_something);
        Ok(next)
    }

    /// Whether an answer shows this state.
    fn is_shown_by(&self, shown: &Value) -> bool {
        let field = |name: &str| self.fields.get(name).unwrap_or(&Value::Null);
        ["phase", "status", "current_step", "message", "progress_pct"]
            .iter()
            .all(|name| shown[name] == *field(name))
            && shown["ttl_s"] == *self.fields.get("ttl_s").unwrap_or(&json!(120))
            && (&shown["version"], &shown["heartbeat_seq"], &shown["data"])
                == (&json!(self.version), &json!(self.seq), &self.data)
            && shown["session_id"] == json!(self.session)
    }
}

/// RFC 7396, as its pseudocode says it.
fn merged(target: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut result = target.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        let old = result.remove(key).unwrap_or_default();
        if !value.is_null() {
            result.insert(key.clone(), merged(&old, value));
        }
    }
    Value::Object(result)
}

fn random_input(random: &mut Random, version: u64) -> Value {
    let mut input = Map::new();
    let mut set = |field: &str, value: Value| drop(input.insert(field.to_owned(), value));
    for _ in 0..random.below(4) {
        match random.below(8) {
            0 => set("phase", json!(random.pick(&["plan", "draft", "review"]))),
            1 => set("status", json!(random.pick(&["running", "waiting", "done", "error"]))),
            2 => set("progress_pct", json!(random.below(101))),
            3 => set("message", json!(format!("m{}", random.below(100)))),
            4 => set("ttl_s", json!(5 + random.below(60))),
            5 => {
                let values = [
                    json!(1),
                    Value::Null,
                    json!([2, null]),
                    json!({"x": 3}),
                    json!({"x": null, "y": 4}),
                ];
                let value = random.pick(&values);
                set("patch", json!({ *random.pick(&["a", "b", "c"]): value }));
            }
            6 => set(
                "expected_version",
                json!(version.saturating_sub(random.below(3) as u64 / 2)),
            ),
            _ => {}
        }
    }
    match random.below(6) {
        0 => set("current_step", json!(format!("step-{:03}", random.below(5)))),
        1 => set("clear_step", json!(true)),
        _ => {}
    }
    Value::Object(input)
}

#[test]
#[ignore = "started by another test, in a process of its own"]
fn child_calls_at_random() {
    let Some(start) = started::<usize>() else { return };
    let (mut caller, mut log) = (Caller::at(&start.dir), Log::of(&start.dir, start.number));
    let mut random = Random::new(start.number);
    let mut version = 0;
    for round in 0..start.rounds {
        // Now and then in the session before, which another process may have left behind.
        let number = round / CALLS_OF_A_SESSION + 1 - usize::from(random.below(5) == 0);
        let id = format!("session-{number}");
        let session = caller.session(&id, "call-1");
        let input = random_input(&mut random, version);
        let answer = caller.call(&session, TOOL, &input);
        version = [&answer["version"], &answer["details"]["current_version"]]
            .iter()
            .find_map(|seen| seen.as_u64())
            .unwrap_or(version);
        log.write(TOOL, &input, &id, &answer);
    }
}

/// The number of the state that a call has made or was shown.
fn seen(call: &Call) -> Option<u64> {
    if call.answer["ok"] == true {
        return call.answer["state"]["heartbeat_seq"].as_u64();
    }
    let details = &call.answer["details"];
    (call.answer["code"] == "version_conflict").then(|| details["state"]["heartbeat_seq"].as_u64().unwrap_or(0))
}

fn made(call: &Call) -> bool {
    call.answer["ok"] == true
}

/// Puts the calls of all processes in the one order that their numbers say, and holds each answer to the model.
fn check(dir: &Path, processes: usize) {
    let logs: Vec<Vec<Call>> = (0..processes).map(|number| read_log(dir, number)).collect();
    let mut in_order: Vec<&Call> = logs.iter().flatten().filter(|call| made(call)).collect();
    in_order.sort_by_key(|call| seen(call));
    let mut models = vec![Model::new()];
    let mut heard = String::new();
    for (call, seq) in in_order.iter().zip(1..) {
        assert_eq!(seen(call), Some(seq), "each number is given once and none is left out");
        let before = models.last().expect("there is one").clone();
        let after = before
            .after(call)
            .unwrap_or_else(|code| panic!("{call:?} must be refused as {code}"));
        let shown = &call.answer["state"];
        assert!(after.is_shown_by(shown), "{call:?} after {before:?}");
        assert_eq!(call.answer["version"], json!(after.version));
        let previous = &call.answer["previous"];
        for field in ["phase", "status"] {
            assert_eq!(previous.get(field), before.fields.get(field), "{call:?}");
        }
        let now = shown["heartbeat_at"].as_str().expect("a time");
        assert!(now >= &*heard, "{now} after {heard}");
        now.clone_into(&mut heard);
        if before.fields.get("phase") != after.fields.get("phase") {
            assert_eq!(shown["phase_since"], shown["heartbeat_at"]);
        }
        models.push(after);
    }
    let last = models.len() as u64 - 1;
    let at = |seq: u64| &models[usize::try_from(seq).expect("it is small")];
    for calls in &logs {
        for (call, (from, to)) in calls.iter().zip(windows(calls, seen, made, last)) {
            if made(call) {
                continue;
            }
            let code = call.answer["code"].as_str().expect("a code");
            // Some state that the process can have met refuses it, and is the one that the refusal shows.
            let explains = |seq: u64| {
                let details = &call.answer["details"];
                at(seq).after(call) == Err(code)
                    && match code {
                        "fenced" => details["session_id"] == json!(at(seq).session),
                        _ if seq == 0 => *details == json!({"current_version": 0, "state": {}}),
                        _ => at(seq).is_shown_by(&details["state"]),
                    }
            };
            assert!(
                (from..=to).any(explains),
                "nothing explains {call:?} between {from} and {to}"
            );
        }
    }
    assert!(at(last).is_shown_by(&state(dir, super::RUNTIME)));
    // Each version is told once, in order; heartbeats come between them.
    let told: Vec<u64> = events(dir, "agent.runtime")
        .iter()
        .filter(|event| event["heartbeat"] == false)
        .map(|event| event["version"].as_u64().expect("a version"))
        .collect();
    assert_eq!(told, (1..=at(last).version).collect::<Vec<_>>());
}

#[test]
fn random_calls_of_four_processes_do_what_a_naive_model_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let rounds = scaled(40, 1_500);
    let children =
        (0..PROCESSES).map(|number| child("runtime_model::child_calls_at_random", dir.path(), number, rounds));
    all_end_well(children.collect());
    check(dir.path(), PROCESSES);
}
