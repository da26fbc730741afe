//! What a call costs beside its I/O, next to the least that any program must do: read the same bytes into a plain struct.
//!
//! `cargo bench --package devloop-tests --bench dispatch`

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use devloop_contract::failure::{NoFailure, erase};
use devloop_core::registry::CompiledTool;
use devloop_generated::AnyInput;
use devloop_generated::tools::persistence::write_todolist::Output;
use divan::{Bencher, black_box};
use serde::Deserialize;
use serde_json::{Value, json};

fn main() {
    divan::main();
}

/// A list of 20 items as an agent sends it.
fn input() -> Vec<u8> {
    let items: Vec<Value> = (1..=20)
        .map(|n| {
            let depends_on: Vec<String> = (1..n).rev().take(2).map(|before| format!("step-{before:03}")).collect();
            let description = format!("Step {n}: read the chapter, write the failing test, make it pass, and tidy up");
            json!({ "id": format!("step-{n:03}"), "description": description, "depends_on": depends_on })
        })
        .collect();
    json!({ "items": items }).to_string().into_bytes()
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "reading it is what is measured")]
struct PlainInput {
    items: Vec<PlainItem>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "reading it is what is measured")]
struct PlainItem {
    id: String,
    description: String,
    #[serde(default)]
    depends_on: Vec<String>,
}

/// The peer: bytes into a plain struct, nothing checked.
#[divan::bench]
fn bare_serde_json(bencher: Bencher<'_, '_>) {
    let bytes = input();
    bencher.bench(|| serde_json::from_slice::<PlainInput>(black_box(&bytes)).expect("valid"));
}

/// Bytes to JSON: what a face has done before the call begins.
#[divan::bench]
fn parse_only(bencher: Bencher<'_, '_>) {
    let bytes = input();
    bencher.bench(|| serde_json::from_slice::<Value>(black_box(&bytes)).expect("valid"));
}

/// The whole path without I/O: parse, normalise, validate, type, a future as dispatch boxes it, and the result as JSON.
#[divan::bench]
fn whole_call(bencher: Bencher<'_, '_>) {
    let bytes = input();
    let tool = CompiledTool::new(devloop_generated::tool("write_todolist").expect("it is built"), |_| {
        Ok(())
    });
    bencher.bench(|| {
        let Ok(Value::Object(arguments)) = serde_json::from_slice(black_box(&bytes)) else {
            unreachable!("an object")
        };
        let built = tool.build(arguments).expect("valid");
        let input = AnyInput::parse(built.built_in().expect("it has a spec"), built.input()).expect("typed");
        let mut call = Box::pin(async move {
            black_box(&input);
            erase::<_, NoFailure>(Ok(Output {
                total: 20,
                path: "agent-state/pm-todo.json".to_owned().into(),
                current: Some("step-001".to_owned()),
                ready: vec!["step-001".to_owned().into()],
                version: 1,
                unchanged: None,
                replaced: None,
            }))
        });
        match pin!(&mut call).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result.expect("a success"),
            Poll::Pending => unreachable!("nothing is awaited"),
        }
    });
}
