//! A spec tree with every construct of the format: what is generated from it is committed, and compiled here.
//!
//! To renew the committed files after a change of the generator, run the tests with `UPDATE_EXPECT=1`.

#![allow(
    clippy::enum_variant_names,
    clippy::large_enum_variant,
    clippy::struct_excessive_bools,
    clippy::struct_field_names,
    reason = "the same as in devloop-generated"
)]
#![allow(dead_code, reason = "a test program uses a part of what is generated")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::task::{Context, Poll, Waker};

use devloop_codegen::{FileMap, Specs, generate, load};
use devloop_contract::failure::ErasedRefusal;
use devloop_contract::tool::Rule;
use devloop_contract::{ExpectedFailure, Handle, Outcome};
use serde_json::{Value, json};

/// See `devloop-generated`.
pub mod tools {
    include!("fixtures/constructs/expected/generated/snapshot/tools/mod.rs");
}
/// See `devloop-generated`.
pub mod types {
    include!("fixtures/constructs/expected/generated/snapshot/types.rs");
}
/// See `devloop-generated`.
pub mod events {
    include!("fixtures/constructs/expected/generated/snapshot/events.rs");
}
/// See `devloop-generated`.
pub mod agents {
    include!("fixtures/constructs/expected/generated/snapshot/agents.rs");
}
mod tables {
    include!("fixtures/constructs/expected/generated/snapshot/tables.rs");
}
mod dispatch {
    include!("fixtures/constructs/expected/generated/snapshot/dispatch.rs");
}
pub use agents::AgentId;
pub use dispatch::{AnyInput, Dispatched, HandleAll, dispatch};
pub use tables::{Counts, GRANTS, Grant, HandlerId, ToolId, counts, tool};
include!("fixtures/constructs/expected/generated/snapshot/markers.rs");

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/constructs")
}

fn specs() -> Specs {
    load(&fixture().join("specs")).unwrap_or_else(|errors| panic!("{errors}"))
}

fn files_below(root: &Path, folder: &Path, files: &mut FileMap) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            files.insert(name, fs::read_to_string(&path).unwrap().replace("\r\n", "\n"));
        }
    }
}

#[test]
fn the_committed_files_are_what_the_specs_give() {
    let mut made = generate(&specs()).unwrap();
    // The editor schemas depend on the format alone, whatever the specs say.
    made.retain(|path, _| !path.starts_with("specs/"));
    let expected = fixture().join("expected");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let _ = fs::remove_dir_all(&expected);
        for (path, text) in &made {
            let path = expected.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }
    let mut committed = FileMap::new();
    files_below(&expected, &expected, &mut committed);
    assert_eq!(committed.keys().collect::<Vec<_>>(), made.keys().collect::<Vec<_>>());
    for (path, text) in &made {
        assert_eq!(&committed[path], text, "{path}");
    }
}

#[test]
fn the_order_in_which_specs_are_read_does_not_matter() {
    let specs = specs();
    let first = generate(&specs).unwrap();
    let mut turned = specs.clone();
    turned.tools.reverse();
    turned.agents.reverse();
    assert_eq!(generate(&turned).unwrap(), first);
    assert_eq!(generate(&specs).unwrap(), first);
}

#[test]
fn generated_rust_is_as_rustfmt_would_have_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut rust = FileMap::new();
    let own = fixture().join("expected/generated/snapshot");
    files_below(&own, &own, &mut rust);
    let mut paths: Vec<PathBuf> = rust.keys().map(|name| own.join(name)).collect();
    let repo = root.join("generated/snapshot");
    if repo.is_dir() {
        let mut rust = FileMap::new();
        files_below(&repo, &repo, &mut rust);
        paths.extend(rust.keys().map(|name| repo.join(name)));
    }
    let run = Command::new("rustfmt")
        .args(["--check", "--edition", "2024", "--config-path"])
        .arg(root.join("rustfmt.toml"))
        .args(&paths)
        .output();
    match run {
        Ok(run) => {
            let text = String::from_utf8_lossy(&run.stdout);
            assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
        }
        Err(error) => panic!("rustfmt is part of the toolchain that rust-toolchain.toml names: {error}"),
    }
}

/// An input with every field.
fn full_input() -> Value {
    json!({
        "mode": "feed", "type": "lion", "match": -3, "everything": false, "limit": 20, "ratio": 0.5,
        "names": ["a"], "matrix": [[1.0, 2.5], []], "places": [{"path": "a/b", "line": 3, "side": "after"}],
        "colours": {"x": "dark-green"}, "rooms": [{"size": 0.25, "hatch": {"open": true}}],
        "extra": {"free": [1, null]}, "shared_map": {"k": "v"}, "shared_free": {"z": {}}, "shared_list": ["intro"],
        "a": true, "b": true, "c": true, "d": false
    })
}

#[test]
fn a_full_input_survives_the_types() {
    let tool = tool("keep_zoo").unwrap();
    let input = AnyInput::parse(tool, &full_input()).unwrap();
    assert_eq!(input.handler(), HandlerId::KeepZoo);
    assert_eq!(input.to_value().unwrap(), full_input());
    let AnyInput::KeepZoo(input) = input else {
        panic!("another handler")
    };
    assert_eq!(
        (input.type_.as_deref(), input.match_, input.limit),
        (Some("lion"), Some(-3), 20)
    );
    assert_eq!(input.places.unwrap()[0].side, Some(types::Side::After));
    assert_eq!(input.colours.unwrap()["x"].as_str(), "dark-green");
}

#[test]
fn an_unknown_field_and_an_unknown_handler_are_errors() {
    let mut input = full_input();
    input["stranger"] = json!(1);
    assert!(AnyInput::parse(tool("keep_zoo").unwrap(), &input).is_err());
    let foreign = devloop_contract::Tool {
        handler: "elsewhere",
        ..tools::plain::ping::PING.clone()
    };
    assert!(AnyInput::parse(&foreign, &json!({})).is_err());
}

#[test]
fn faces_differ_in_schema_rules_and_examples() {
    let feed = ToolId::FeedZoo.tool();
    let schema: Value = serde_json::from_str(feed.input_schema).unwrap();
    assert!(schema["properties"].get("mode").is_none() && schema["properties"].get("everything").is_none());
    assert_eq!(schema["required"], json!(["type"]));
    assert_eq!(feed.bind, r#"{"mode":"feed"}"#);
    // `extra` is hidden, so the choice is between the other two; the rule over `mode` is decided.
    assert_eq!(
        feed.rules,
        [
            Rule::ExactlyOneOf(&["names", "places"]),
            Rule::AtMostOneOf(&["match", "ratio"])
        ]
    );
    let said = "\n\nGive exactly one of `names`, `places`.\nGive at most one of `match`, `ratio`.\n\n";
    assert!(feed.description.contains(said), "{}", feed.description);
    assert_eq!(feed.examples.len(), 1);
    assert!(
        !feed.examples[0].input.contains("mode"),
        "a caller cannot send it: {}",
        feed.examples[0].input
    );
    assert_eq!(ToolId::KeepZoo.tool().examples.len(), 2);
}

#[test]
fn tables_agree_with_the_specs() {
    assert_eq!(counts().to_string(), "handlers=2 tools=3 names=4 grants=5 catalog=1");
    assert_eq!(
        ToolId::ALL.iter().map(|tool| tool.name()).collect::<Vec<_>>(),
        ["feed_zoo", "keep_zoo", "look", "ping"]
    );
    assert_eq!(tool("zookeeper").map(|tool| tool.name), Some("keep_zoo"));
    assert!(tool("Keep_zoo").is_none());
    assert_eq!(AgentId::parse("zoo-vet"), AgentId::parse("vet"));
    let mut grants: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for grant in GRANTS {
        grants.entry(grant.agent.name()).or_default().push(grant.tool.name());
    }
    assert_eq!(grants["keeper"], ["keep_zoo", "feed_zoo", "ping"]);
    assert_eq!(AgentId::Keeper.agent().sandbox.env, [("ZOO", "the \"big\" one")]);
}

#[test]
fn a_failure_has_its_code_and_data() {
    use tools::zoo::keep_zoo::{EscapedDetails, Failure};
    let failure = Failure::Escaped(EscapedDetails {
        name: "leo".into(),
        last_seen: None,
    });
    assert_eq!(
        (failure.code(), failure.details()),
        ("escaped", Some(json!({"name": "leo"})))
    );
    assert_eq!((Failure::Locked.hint(), Failure::Locked.details()), (None, None));
}

#[test]
fn an_event_carries_its_payload_only() {
    let event = events::Event::from(events::ZooClosedEarly { reason: None });
    assert_eq!((event.name(), event.payload()), ("zoo.closed_early", json!({})));
    assert!(events::Event::NAMES.contains(&"zoo.opened"));
}

struct Keeper;

impl Handle<KeepZoo> for Keeper {
    async fn handle(
        &self,
        input: tools::zoo::keep_zoo::Input,
    ) -> Outcome<tools::zoo::keep_zoo::Output, tools::zoo::keep_zoo::Failure> {
        use tools::zoo::keep_zoo::{Doing, Failure, Output};
        if input.everything {
            return Err(Failure::Locked.into());
        }
        Ok(Output {
            ok_count: types::Count(1),
            mode: Doing::Fed,
            list: Vec::new(),
            notes: None,
        })
    }
}

impl Handle<Look> for Keeper {
    async fn handle(
        &self,
        _: tools::catalog::look::Input,
    ) -> Outcome<tools::catalog::look::Output, tools::catalog::look::Failure> {
        Ok(tools::catalog::look::Output {})
    }
}

impl Handle<Ping> for Keeper {
    async fn handle(
        &self,
        _: tools::plain::ping::Input,
    ) -> Outcome<tools::plain::ping::Output, tools::plain::ping::Failure> {
        Ok(tools::plain::ping::Output {})
    }
}

impl HandleAll for Keeper {}

fn call(tool: ToolId, input: &Value) -> Result<Value, Box<ErasedRefusal>> {
    let input = AnyInput::parse(tool.tool(), input).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    match dispatch(&Keeper, input).as_mut().poll(&mut context) {
        Poll::Ready(outcome) => outcome.map_err(Box::new),
        Poll::Pending => panic!("these handlers wait for nothing"),
    }
}

#[test]
fn dispatch_reaches_the_handler() {
    assert_eq!(call(ToolId::Ping, &json!({})).unwrap(), json!({}));
    let mut input = full_input();
    assert_eq!(
        call(ToolId::FeedZoo, &input).unwrap(),
        json!({"ok_count": 1, "mode": "fed", "list": []})
    );
    input["everything"] = json!(true);
    let refused = call(ToolId::KeepZoo, &input).unwrap_err();
    assert!(
        matches!(&*refused, ErasedRefusal::Expected(body) if body.code == "locked"),
        "{refused:?}"
    );
}
