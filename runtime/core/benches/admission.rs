//! What admission costs beside its parts: one call of a todo list with twenty items.
//!
//! `typed` reads the same bytes into a plain struct, `validator` only asks whether the value is valid, `build` is the
//! whole admission. The variants of `build` differ in what there is to mend: nothing, a default in every item, or
//! everything in JSON strings.

use std::hint::black_box;

use devloop_contract::Tool;
use devloop_core::registry::{CompiledTool, fixture};
use divan::Bencher;
use serde::Deserialize;
use serde_json::{Map, Value, json};

static WRITE_TODOLIST: Tool = fixture::write_todolist();

#[derive(Deserialize)]
#[expect(dead_code, reason = "only reading it is measured")]
struct Todolist {
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only reading it is measured")]
struct Item {
    id: String,
    description: String,
    #[serde(default)]
    depends_on: Vec<String>,
}

/// What the caller sends.
#[derive(Clone, Copy, Debug)]
enum Sent {
    Complete,
    WithoutDefaults,
    InStrings,
}

fn arguments(sent: Sent) -> Map<String, Value> {
    let items: Vec<Value> = (1..=20)
        .map(|number| {
            let mut item = json!({
                "id": format!("step-{number:03}"),
                "description": "Write the handler of the endpoint and the tests that its contract asks for",
            });
            let before: Vec<String> = (1..number)
                .rev()
                .take(2)
                .map(|before| format!("step-{before:03}"))
                .collect();
            match sent {
                Sent::Complete => item["depends_on"] = json!(before),
                Sent::WithoutDefaults => {}
                Sent::InStrings => item["depends_on"] = Value::from(json!(before).to_string()),
            }
            item
        })
        .collect();
    let items = match sent {
        Sent::InStrings => Value::from(Value::from(items).to_string()),
        Sent::Complete | Sent::WithoutDefaults => Value::from(items),
    };
    Map::from_iter([("items".to_owned(), items)])
}

fn main() {
    divan::main();
}

#[divan::bench]
fn typed(bencher: Bencher<'_, '_>) {
    let bytes = Value::Object(arguments(Sent::Complete)).to_string().into_bytes();
    bencher.bench(|| serde_json::from_slice::<Todolist>(black_box(&bytes)).expect("the bytes are valid"));
}

#[divan::bench(args = [Sent::Complete, Sent::WithoutDefaults])]
fn validator(bencher: Bencher<'_, '_>, sent: Sent) {
    let schema = serde_json::from_str(WRITE_TODOLIST.input_schema).expect("the schema is JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("the schema is valid");
    let value = Value::Object(arguments(sent));
    bencher.bench(|| validator.is_valid(black_box(&value)));
}

#[divan::bench(args = [Sent::Complete, Sent::WithoutDefaults, Sent::InStrings])]
fn build(bencher: Bencher<'_, '_>, sent: Sent) {
    let tool = CompiledTool::new(&WRITE_TODOLIST, |_| Ok(()));
    let arguments = arguments(sent);
    bencher
        .with_inputs(|| arguments.clone())
        .bench_values(|arguments| tool.build(arguments).expect("the arguments are valid"));
}

/// The first call, which compiles the schema.
#[divan::bench]
fn first_build(bencher: Bencher<'_, '_>) {
    let arguments = arguments(Sent::Complete);
    bencher
        .with_inputs(|| (CompiledTool::new(&WRITE_TODOLIST, |_| Ok(())), arguments.clone()))
        .bench_values(|(tool, arguments)| tool.build(arguments).expect("the arguments are valid"));
}
