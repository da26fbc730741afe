//! What a decision costs under 500 rules.
//!
//! Most rules are about other tools, as they are in a long list; a fifth has a `*` in the tool's name, and a fifth is about
//! the tool that is called, with contents that do not fit. `decide` asks again about a call that is known, `of` makes the
//! call out of what was built, which happens once.

use std::hint::black_box;

use devloop_contract::tool::Kind;
use devloop_core::permission::{Call, List, Memory, Mode, Origin, Policy, Rule, Source};
use devloop_core::registry::{Definition, Naming, ToolBuilder};
use divan::Bencher;
use serde_json::{Value, json};

const RULES: usize = 500;

fn policy() -> Policy {
    let mut policy = Policy::new(Mode::Default);
    for number in 0..RULES {
        let text = match number % 5 {
            0 => format!("mcp__server{number}__*"),
            1 => format!("Bash(make target{number} *)"),
            2 => format!("Edit(src/part{number}/**)"),
            3 => format!("tool_{number}"),
            _ => format!("mcp__server{number}__tool"),
        };
        let list = [List::Deny, List::Allow, List::Ask][number % 3];
        let rule = Rule::parse(&text).expect("it is a rule");
        policy.add(list, rule, Origin::new(Source::User, "devloop.toml"));
    }
    policy
}

fn shell() -> Definition {
    let naming = Naming {
        signature: "Bash({command})".into(),
        rule: "Bash({command})".into(),
    };
    let tool = ToolBuilder::new("bash").summary("Runs a command.").kind(Kind::Execute);
    let tool = tool.input_schema(json!({"type": "object", "properties": {"command": {"type": "string"}}}));
    tool.permission(naming).build().expect("it is right")
}

fn input(paths: usize) -> (Value, Vec<String>) {
    let paths = (0..paths).map(|number| format!("src/part{number}/lib.rs")).collect();
    (json!({"command": "cargo test --workspace --no-fail-fast"}), paths)
}

#[divan::bench(args = [0, 1, 8])]
fn decide(bencher: Bencher<'_, '_>, paths: usize) {
    let (policy, tool, (input, paths)) = (policy(), shell(), input(paths));
    let call = Call::new(&tool, &input, &paths);
    let memory = Memory::default();
    bencher.bench_local(|| policy.decide(black_box(&call), &memory));
}

#[divan::bench]
fn decide_with_a_full_memory(bencher: Bencher<'_, '_>) {
    let (policy, tool, (input, paths)) = (policy(), shell(), input(1));
    let call = Call::new(&tool, &input, &paths);
    let mut memory = Memory::default();
    for number in 0..devloop_core::permission::MOST_REMEMBERED {
        memory.remember(Rule::parse(&format!("Bash(make {number})")).expect("it is a rule"));
    }
    bencher.bench_local(|| policy.decide(black_box(&call), &memory));
}

#[divan::bench]
fn of(bencher: Bencher<'_, '_>) {
    let (tool, (input, paths)) = (shell(), input(1));
    bencher.bench_local(|| Call::new(&tool, black_box(&input), &paths));
}

fn main() {
    divan::main();
}
