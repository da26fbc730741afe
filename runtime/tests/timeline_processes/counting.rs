//! Many processes append at once.

use std::collections::BTreeMap;
use std::fs;

use devloop_generated::AgentId;
use serde_json::{Value, json};

use super::children::{Started, all_end_well, child, scaled, started};
use super::{Caller, entries};

const AGENTS: [AgentId; 4] = [
    AgentId::Pm,
    AgentId::Architect,
    AgentId::Integrator,
    AgentId::BugTriager,
];

#[test]
#[ignore = "started by the next test, as a process of its own"]
fn child_appends() {
    let Some(Started { dir, number, rounds }) = started::<u64>() else {
        return;
    };
    let agent = AGENTS[usize::try_from(number).expect("a small number") % AGENTS.len()];
    let mut caller = Caller::new(&dir, agent);
    let mut answered = Vec::new();
    for n in 0..rounds {
        let answer = caller.append(&json!({"by": number, "n": n}));
        assert_eq!(answer["ok"], true, "{answer}");
        answered.push(answer["seq"].as_u64().expect("a number"));
    }
    fs::write(dir.join(format!("answers.{number}")), json!(answered).to_string()).expect("the log is written");
}

#[test]
fn appends_of_many_processes_are_numbered_without_a_gap() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path();
    let (processes, rounds) = (scaled(8, 16), scaled(100, 2_000));
    let children = (0..processes).map(|number| child("counting::child_appends", dir, number, rounds));
    all_end_well(children.collect());
    let entries = entries(dir);
    assert_eq!(entries.len() as u64, processes * rounds);
    let mut of_each: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for entry in &entries {
        let (by, seq) = (&entry["data"]["by"], &entry["seq"]);
        let of_one = of_each.entry(by.as_u64().expect("a number")).or_default();
        assert_eq!(entry["data"]["n"], json!(of_one.len()), "each one's order is kept");
        of_one.push(seq.as_u64().expect("a number"));
    }
    for (by, seqs) in of_each {
        let answered: Value =
            serde_json::from_str(&fs::read_to_string(dir.join(format!("answers.{by}"))).unwrap()).unwrap();
        assert_eq!(answered, json!(seqs), "each one was told its own numbers");
    }
    for pair in entries.windows(2) {
        assert!(pair[0]["ts"].as_str() <= pair[1]["ts"].as_str(), "time goes on");
    }
    // Each entry was told once, and the telling has no gap either.
    let told = fs::read_to_string(dir.join("agent-state/.events/events.ndjson")).expect("events");
    let mut told: Vec<u64> = told
        .lines()
        .zip(1_u64..)
        .map(|(line, seq)| {
            let event: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(event["seq"], seq);
            event["payload"]["seq"].as_u64().expect("a number")
        })
        .collect();
    told.sort_unstable();
    assert!(told.iter().copied().eq(1..=processes * rounds));
}
