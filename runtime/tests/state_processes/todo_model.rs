//! The todo list, held to a model that knows nothing of files, locks and types.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::children::{all_end_well, child, scaled, started};
use super::{Call, Caller, Log, Random, events, read_log, state, windows};

const UPDATE: &str = "update_todo_item";
const WRITE: &str = "write_todolist";
const PROCESSES: usize = 4;

/// A list is its items as the answers show them, and its version.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    version: u64,
    items: Vec<Value>,
}

type Refusal = (String, Value);

impl Model {
    fn with(&self, status: &str) -> Vec<String> {
        let there = self.items.iter().filter(|item| item["status"] == status);
        there.map(|item| text(&item["id"])).collect()
    }

    fn open(&self) -> Vec<String> {
        let open = self.items.iter().filter(|item| item["status"] != "done");
        open.map(|item| text(&item["id"])).collect()
    }

    fn waits_for(&self, item: &Value) -> Vec<String> {
        let done = self.with("done");
        let names = item["depends_on"].as_array().into_iter().flatten().map(text);
        names.filter(|id| !done.contains(id)).collect()
    }

    fn ready(&self) -> Vec<String> {
        let ready = self
            .items
            .iter()
            .filter(|item| item["status"] == "todo" && self.waits_for(item).is_empty());
        ready.map(|item| text(&item["id"])).collect()
    }

    /// Everything of an answer that follows from the list, for the item `id`.
    fn answer(&self, id: &str) -> Value {
        let count = |status: &str| self.with(status).len();
        let mut answer = json!({
            "ok": true, "item": self.item(id), "changed": false,
            "progress_pct": (100 * count("done")) / self.items.len(), "ready": self.ready(),
            "blocked": self.with("blocked"),
            "counts": {"todo": count("todo"), "doing": count("doing"), "done": count("done"), "blocked": count("blocked")},
            "all_done": count("done") == self.items.len(), "version": self.version,
        });
        if let Some(current) = self.with("doing").first().or(self.ready().first()) {
            answer["current"] = json!(current);
        }
        answer
    }

    fn item(&self, id: &str) -> Option<&Value> {
        self.items.iter().find(|item| item["id"] == id)
    }

    /// The list and the answer after a move, or the refusal.
    fn moved(&self, input: &Value) -> Result<(Self, Value), Refusal> {
        let refuse = |code: &str, details: Value| Err((code.to_owned(), details));
        let (id, to) = (text(&input["id"]), text(&input["status"]));
        if input
            .get("expected_version")
            .is_some_and(|seen| *seen != json!(self.version))
        {
            return refuse(
                "version_conflict",
                json!({"current_version": self.version, "path": super::TODO}),
            );
        }
        let Some(item) = self.item(&id) else {
            return refuse("unknown_item", Value::Null);
        };
        let from = text(&item["status"]);
        if from == to {
            return Ok((self.clone(), self.answer(&id)));
        }
        let allowed: &[&str] = match &*from {
            "todo" => &["doing", "blocked", "done"],
            "doing" => &["done", "blocked", "todo"],
            "blocked" => &["todo", "doing"],
            _ => &["doing"],
        };
        if !allowed.contains(&&*to) {
            return refuse("bad_transition", json!({"from": from, "allowed": allowed}));
        }
        if from == "done" && input.get("note").is_none() {
            return refuse("invalid_input", Value::Null);
        }
        let open = self.waits_for(item);
        if (to == "doing" || to == "done") && !open.is_empty() {
            return refuse("deps_open", json!({"open": open}));
        }
        let doing = self.with("doing");
        if to == "doing" && !doing.is_empty() && input.get("switch").is_none() {
            return refuse("another_in_progress", json!({"id": doing[0]}));
        }
        let mut next = self.clone();
        next.version += 1;
        for item in &mut next.items {
            if to == "doing" && item["status"] == "doing" {
                item["status"] = json!("todo");
            }
            if item["id"] != json!(id) {
                continue;
            }
            item["status"] = json!(to);
            for field in ["note", "evidence"] {
                if let Some(value) = input.get(field) {
                    item[field] = value.clone();
                }
            }
            let fields = item.as_object_mut().expect("an item");
            match input.get("reason") {
                Some(reason) => drop(fields.insert("reason".into(), reason.clone())),
                None => drop(fields.remove("reason")),
            }
            if from == "done" {
                item["reopened"] = json!(item["reopened"].as_u64().unwrap_or(0) + 1);
            }
        }
        let mut answer = next.answer(&id);
        answer["changed"] = json!(true);
        if to == "doing" && !doing.is_empty() {
            answer["put_back"] = json!(doing);
        }
        let dependents: Vec<String> = next
            .items
            .iter()
            .filter(|item| {
                item["status"] == "done" && item["depends_on"].as_array().is_some_and(|on| on.contains(&json!(id)))
            })
            .map(|item| text(&item["id"]))
            .collect();
        if from == "done" && !dependents.is_empty() {
            answer["warnings"] = json!([format!("dependents_done: {}", dependents.join(", "))]);
        }
        Ok((next, answer))
    }

    fn replaced(&self, input: &Value) -> (Self, Value) {
        let items = input["items"].as_array().expect("items").clone();
        let items = items.into_iter().map(|mut item| {
            item["status"] = json!("todo");
            item
        });
        let next = Self {
            version: self.version + 1,
            items: items.collect(),
        };
        let mut answer = json!({"ok": true, "total": next.items.len(), "path": super::TODO, "ready": next.ready(), "version": next.version});
        if let Some(first) = next.ready().first() {
            answer["current"] = json!(first);
        }
        if self.version > 0 {
            let done = self.with("done").len();
            answer["replaced"] = json!({"total": self.items.len(), "done": done, "open": self.open()});
        }
        (next, answer)
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// A list of five steps in which a step may wait for those before it. No two are alike.
fn random_list(random: &mut Random, who: &str) -> Value {
    let items = (0..5).map(|n| {
        let mut item = json!({"id": format!("step-{n:03}"), "description": format!("{n} of {who}")});
        let on: Vec<String> = (0..n)
            .filter(|_| random.below(4) == 0)
            .map(|n| format!("step-{n:03}"))
            .collect();
        if !on.is_empty() {
            item["depends_on"] = json!(on);
        }
        item
    });
    json!({ "items": items.collect::<Vec<_>>() })
}

fn random_move(random: &mut Random, version: u64) -> Value {
    let status = *random.pick(&["todo", "doing", "done", "blocked", "done"]);
    let mut input = json!({"id": format!("step-{:03}", random.below(5)), "status": status});
    if status == "blocked" {
        input["reason"] = json!(format!("r{}", random.below(100)));
    }
    if random.below(3) == 0 {
        input["note"] = json!(format!("n{}", random.below(100)));
    }
    if random.below(4) == 0 {
        input["switch"] = json!(true);
    }
    if random.below(6) == 0 {
        input["evidence"] = json!([{"path": "prd/a.html", "line": 1 + random.below(9)}, {"path": "b"}]);
    }
    if random.below(5) == 0 {
        input["expected_version"] = json!(version.saturating_sub(random.below(3) as u64 / 2).max(1));
    }
    input
}

#[test]
#[ignore = "started by another test, in a process of its own"]
fn child_calls_at_random() {
    let Some(start) = started::<usize>() else { return };
    let (mut caller, mut log) = (Caller::at(&start.dir), Log::of(&start.dir, start.number));
    let mut random = Random::new(start.number + 100);
    let session = caller.session("s", "moves");
    let mut version = 0;
    for round in 0..start.rounds {
        if round == 0 || random.below(25) == 0 {
            // The name of the call finds the list again in the history.
            let call_id = format!("{}-{round}", start.number);
            let input = random_list(&mut random, &call_id);
            let answer = caller.call(&caller.session("s", &call_id), WRITE, &input);
            log.write(WRITE, &input, &call_id, &answer);
            continue;
        }
        let input = random_move(&mut random, version);
        let answer = caller.call(&session, UPDATE, &input);
        version = [&answer["version"], &answer["details"]["current_version"]]
            .iter()
            .find_map(|seen| seen.as_u64())
            .unwrap_or(version);
        log.write(UPDATE, &input, "moves", &answer);
    }
}

/// The version with which each list began, by the call that wrote it: one on from the last version of the list before
/// it, which is in the history as it was replaced.
fn beginnings(dir: &Path) -> BTreeMap<String, u64> {
    let mut lists: Vec<(u64, String)> = vec![];
    let mut take = |list: &Value| lists.push((list["version"].as_u64().expect("a version"), text(&list["call_id"])));
    for entry in fs::read_dir(dir.join("agent-state/history")).expect("a history") {
        let bytes = fs::read(entry.expect("an entry").path()).expect("a list");
        take(&serde_json::from_slice(&bytes).expect("a whole list"));
    }
    take(&state(dir, super::TODO));
    lists.sort();
    let firsts = std::iter::once(1).chain(lists.iter().map(|(last, _)| last + 1));
    lists
        .iter()
        .zip(firsts)
        .map(|((_, call), first)| (call.clone(), first))
        .collect()
}

fn check(dir: &Path) {
    let logs: Vec<Vec<Call>> = (0..PROCESSES).map(|number| read_log(dir, number)).collect();
    let beginnings = beginnings(dir);
    let seen = |call: &Call| -> Option<u64> {
        if call.tool == WRITE {
            return Some(beginnings[&call.session]);
        }
        call.answer["version"]
            .as_u64()
            .or(call.answer["details"]["current_version"].as_u64())
    };
    let made = |call: &Call| call.tool == WRITE || call.answer["changed"] == true;
    let mut in_order: Vec<&Call> = logs.iter().flatten().filter(|call| made(call)).collect();
    in_order.sort_by_key(|call| seen(call));
    let mut models = vec![Model {
        version: 0,
        items: vec![],
    }];
    for (call, version) in in_order.iter().zip(1..) {
        assert_eq!(
            seen(call),
            Some(version),
            "each version is given once and none is left out"
        );
        let before = models.last().expect("there is one");
        let (after, answer) = if call.tool == WRITE {
            before.replaced(&call.input)
        } else {
            before
                .moved(&call.input)
                .unwrap_or_else(|refusal| panic!("{call:?} must be refused: {refusal:?}"))
        };
        assert_eq!(call.answer, answer, "{call:?} after {before:?}");
        models.push(after);
    }
    let last = models.len() as u64 - 1;
    let at = |version: u64| &models[usize::try_from(version).expect("it is small")];
    for calls in &logs {
        for (call, (from, to)) in calls.iter().zip(windows(calls, seen, made, last)) {
            if made(call) {
                continue;
            }
            let explains = |version: u64| match at(version).moved(&call.input) {
                Ok((after, answer)) => after == *at(version) && answer == call.answer,
                Err((code, details)) => {
                    call.answer["code"] == code && (details.is_null() || details == call.answer["details"])
                }
            };
            // No process moves a step before it has written a list.
            assert!(
                (from.max(1)..=to).any(explains),
                "nothing explains {call:?} between {from} and {to}"
            );
        }
    }
    let file = state(dir, super::TODO);
    assert_eq!(
        (&file["version"], &file["items"]),
        (&json!(last), &json!(at(last).items))
    );
    let told = events(dir, "agent.todo_item").len() + events(dir, "agent.todolist").len();
    assert_eq!(told as u64, last, "each change is told once");
}

#[test]
fn random_calls_of_four_processes_do_what_a_naive_model_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let rounds = scaled(40, 1_500);
    let children = (0..PROCESSES).map(|number| child("todo_model::child_calls_at_random", dir.path(), number, rounds));
    all_end_well(children.collect());
    check(dir.path());
}
