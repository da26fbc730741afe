//! What a catalogue of 5,000 tools costs: to build, to find one in, to search, to say what a model is shown.
//!
//! A thousand tools come from each of five servers, each with three described parameters, so that schemas are compiled and
//! words collected as they would be.

use std::hint::black_box;

use devloop_contract::tool::Kind;
use devloop_core::catalogue::{Catalogue, Maximum, Offered, Phase};
use devloop_core::registry::{ToolBuilder, projection};
use divan::Bencher;
use serde_json::json;

const SERVERS: usize = 5;
const EACH: usize = 1_000;

const VERBS: [&str; 10] = [
    "list", "create", "update", "delete", "search", "read", "write", "merge", "close", "render",
];
const NOUNS: [&str; 10] = [
    "issue", "branch", "commit", "page", "image", "table", "report", "user", "release", "ticket",
];

fn offered(number: usize) -> Offered {
    let (verb, noun) = (VERBS[number % 10], NOUNS[number / 10 % 10]);
    Offered {
        name: format!("{verb}_{noun}_{}", number / 100),
        title: Some(format!("{verb} one {noun}")),
        description: Some(format!(
            "Does {verb} a {noun} of the project. It takes the name of the {noun} and says what became of it."
        )),
        input_schema: json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "description": format!("The name of the {noun}."), "minLength": 1},
            "labels": {"type": "array", "description": "Words to sort it by.", "items": {"type": "string"}},
            "limit": {"type": "integer", "description": "How many at most.", "minimum": 1, "default": 20},
        }}),
        output_schema: None,
        annotations: None,
        meta: None,
    }
}

fn lists() -> Vec<Vec<Offered>> {
    (0..SERVERS).map(|_| (0..EACH).map(offered).collect()).collect()
}

fn filled(lists: Vec<Vec<Offered>>) -> Catalogue {
    let catalogue = Catalogue::new(|_| Ok(()));
    let search = ToolBuilder::new("tool_search")
        .summary("Finds tools.")
        .kind(Kind::ReadOnly);
    catalogue
        .register(search.build().expect("it is right"), ())
        .expect("it is new");
    for (server, list) in lists.into_iter().enumerate() {
        let replaced = catalogue.replace_dynamic(&format!("server{server}"), list, |_| ());
        assert_eq!(replaced.expect("the list is right").added.len(), EACH);
    }
    catalogue
}

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 10)]
fn build(bencher: Bencher<'_, '_>) {
    bencher.with_inputs(lists).bench_values(filled);
}

/// As many tools of a host, each judged again when it is registered.
#[divan::bench(sample_count = 10)]
fn register(bencher: Bencher<'_, '_>) {
    let tool = |number: usize| {
        let offered = offered(number);
        let tool = ToolBuilder::new(format!("tool_{number}"))
            .summary("Does what its name says.")
            .input_schema(offered.input_schema)
            .example("One", json!({"name": "x"}));
        (tool.build().expect("it is right"), ())
    };
    let tools: Vec<_> = (0..SERVERS * EACH).map(tool).collect();
    bencher.with_inputs(|| tools.clone()).bench_values(|tools| {
        let catalogue = Catalogue::new(|_| Ok(()));
        catalogue.register_all(tools).expect("they are new");
        catalogue
    });
}

/// One server's list comes again and nothing has changed.
#[divan::bench(sample_count = 20)]
fn replace_unchanged(bencher: Bencher<'_, '_>) {
    let catalogue = filled(lists());
    bencher
        .with_inputs(|| (0..EACH).map(offered).collect::<Vec<_>>())
        .bench_values(|list| catalogue.replace_dynamic("server0", list, |_| ()));
}

#[divan::bench]
fn lookup(bencher: Bencher<'_, '_>) {
    let catalogue = filled(lists());
    bencher.bench(|| catalogue.get(black_box("server3__merge_report_7")));
}

#[divan::bench]
fn lookup_in_a_snapshot(bencher: Bencher<'_, '_>) {
    let snapshot = filled(lists()).snapshot();
    bencher.bench(|| snapshot.get(black_box("server3__merge_report_7")).is_some());
}

#[divan::bench(args = ["issue", "create a branch with labels", "render the report of a release as an image"])]
fn search(bencher: Bencher<'_, '_>, query: &str) {
    let catalogue = filled(lists());
    catalogue.search("warm");
    bencher.bench(|| catalogue.search(black_box(query)));
}

/// The first search, which collects the words of all tools.
#[divan::bench(sample_count = 10)]
fn first_search(bencher: Bencher<'_, '_>) {
    bencher
        .with_inputs(|| filled(lists()))
        .bench_refs(|catalogue| catalogue.search("issue"));
}

#[divan::bench]
fn tool_search(bencher: Bencher<'_, '_>) {
    let catalogue = filled(lists());
    bencher.bench(|| catalogue.tool_search(black_box("merge ticket"), Maximum::default(), Phase::Act));
}

/// All 5,000: there is no search that would defer them.
#[divan::bench]
fn declarations(bencher: Bencher<'_, '_>) {
    let catalogue = filled(lists());
    catalogue.unregister("tool_search");
    bencher.bench(|| catalogue.declarations(Phase::Act));
}

/// The same as the JSON that the Anthropic API takes.
#[divan::bench(sample_count = 10)]
fn declarations_as_json(bencher: Bencher<'_, '_>) {
    let snapshot = filled(lists()).snapshot();
    bencher.bench(|| {
        snapshot
            .all()
            .map(|entry| projection::anthropic(entry.definition()).expect("the schemas are JSON"))
            .collect::<Vec<_>>()
    });
}

#[divan::bench]
fn deferred_listing(bencher: Bencher<'_, '_>) {
    let catalogue = filled(lists());
    bencher.bench(|| catalogue.deferred_listing(Phase::Act));
}

#[divan::bench]
fn fork(bencher: Bencher<'_, '_>) {
    let catalogue = filled(lists());
    bencher.bench(|| catalogue.fork());
}

/// The first change of a fork, which copies the indexes.
#[divan::bench]
fn first_change_of_a_fork(bencher: Bencher<'_, '_>) {
    let catalogue = filled(lists());
    bencher
        .with_inputs(|| catalogue.fork())
        .bench_refs(|fork| fork.unregister("tool_search"));
}
