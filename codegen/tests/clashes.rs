//! Schemas that would make wrong or no Rust types: told, with the place, instead of generated.

use std::path::Path;

use devloop_codegen::model::ToolSpec;
use devloop_codegen::{Specs, generate, load, yaml};

/// The fixture with another text for `ping`, past the checks: what they miss must not become a wrong type.
fn with_ping(text: &str) -> Specs {
    let mut specs = load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/constructs/specs")).unwrap();
    let ping = specs.tools.iter_mut().find(|tool| tool.file.stem == "ping").unwrap();
    ping.file.tree = yaml::parse(&ping.file.path, text).unwrap();
    ping.file.spec = serde_json::from_value::<ToolSpec>(ping.file.tree.to_value()).unwrap();
    specs
}

fn ping(input: &str, output: &str) -> Specs {
    with_ping(&format!(
        "handler: ping\nsummary: Answers.\nkind: read_only\nexamples: []\n\
         input:\n  type: object\n  properties:\n{input}\noutput:\n  type: object\n  properties:\n{output}\n"
    ))
}

fn errors(specs: &Specs) -> String {
    generate(specs).map_or_else(|errors| errors.to_string(), |_| String::from("no error"))
}

const OBJECT: &str = "{ type: object, additionalProperties: false, properties: { a: { type: string } } }";

#[test]
fn two_schemas_under_one_title_are_an_error_at_the_second() {
    let text = errors(&ping(
        &format!("    x: {OBJECT}\n    y: {{ title: InputX, type: string, enum: [b] }}"),
        "    z: { type: string }",
    ));
    assert!(
        text.starts_with("specs/tools/plain/ping.yaml:9:8: the type name `InputX` stands for two different"),
        "{text}"
    );
}

#[test]
fn a_derived_name_may_clash_too() {
    // `foo_bar` of the root and `bar` of `foo` are both `InputFooBar`: typify would use one struct for both.
    let foo = "{ type: object, properties: { bar: { type: object, properties: { b: { type: integer } } } } }";
    let text = errors(&ping(
        &format!("    foo_bar: {OBJECT}\n    foo: {foo}"),
        "    z: { type: string }",
    ));
    assert!(
        text.contains("the type name `InputFooBar` stands for two different schemas"),
        "{text}"
    );
}

#[test]
fn an_input_and_an_output_share_a_type_only_when_both_are_alike() {
    let item = "{ title: Item, type: object, properties: { a: { type: string } } }";
    let text = errors(&ping(&format!("    x: {item}"), &format!("    x: {item}")));
    assert!(
        text.contains("the type name `Item` stands for two different schemas"),
        "one is closed, one open: {text}"
    );
    let word = "{ title: Word, type: string, enum: [a, b] }";
    assert_eq!(
        errors(&ping(&format!("    x: {word}"), &format!("    x: {word}"))),
        "no error"
    );
}

#[test]
fn names_that_are_in_use_cannot_be_taken() {
    for title in ["Output", "Ping", "Failure", "Vec", "RelPath"] {
        let text = errors(&ping(
            &format!("    x: {{ title: {title}, type: string, enum: [a] }}"),
            "    z: { type: string }",
        ));
        assert!(
            text.contains(&format!("the type name `{title}` is ")),
            "{title}: {text}"
        );
    }
}

#[test]
fn words_and_fields_with_one_rust_name_are_an_error() {
    let text = errors(&ping(
        "    x: { type: string, enum: [a-b, a_b] }",
        "    z: { type: string }",
    ));
    assert!(
        text.starts_with("specs/tools/plain/ping.yaml: typify cannot make types of this spec"),
        "{text}"
    );
    let text = errors(&ping(
        "    a-b: { type: string }\n    a_b: { type: string }",
        "    z: { type: string }",
    ));
    assert!(text.starts_with("specs/tools/plain/ping.yaml: "), "{text}");
}

#[test]
fn what_is_outside_the_subset_has_no_type() {
    for schema in [
        "{ oneOf: [{ type: string }, { type: integer }] }",
        "{ type: [string, 'null'] }",
        "{}",
        "{ $ref: Nowhere }",
    ] {
        let text = errors(&ping(&format!("    x: {schema}"), "    z: { type: string }"));
        assert!(
            text.starts_with("specs/tools/plain/ping.yaml:8:8: "),
            "{schema}: {text}"
        );
    }
    let mixed = "{ type: object, properties: { a: { type: string } }, additionalProperties: { type: string } }";
    let text = errors(&ping(&format!("    x: {mixed}"), "    z: { type: string }"));
    assert!(
        text.contains("either `properties` or a schema for `additionalProperties`"),
        "{text}"
    );
}

#[test]
fn every_clash_is_told_at_once() {
    let specs = ping("    x: {}\n    y: {}", "    z: {}");
    assert_eq!(generate(&specs).unwrap_err().iter().count(), 3);
}

#[test]
fn names_that_differ_in_case_alone_stay_apart() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/constructs/specs");
    let mut specs = load(&dir).unwrap();
    let text = serde_json::json!({ "type": "string", "description": "A text." });
    for name in ["URL", "Url", "IOError"] {
        let text = text.as_object().unwrap().clone();
        specs.types.spec.types.insert(name.to_owned(), text);
    }
    let (_, event) = specs.events.spec.events.first().unwrap();
    let event = event.clone();
    for name in ["note.added", "note.ad_ded", "note.a_b"] {
        specs.events.spec.events.insert(name.to_owned(), event.clone());
    }
    let files = generate(&specs).unwrap();
    for name in ["URL", "Url", "IOError"] {
        let item = format!("pub struct {name}(pub String);");
        assert!(files["generated/snapshot/types.rs"].contains(&item), "{item}");
    }
    for name in ["NoteAdded", "NoteAdDed", "NoteAB"] {
        let text = &files["generated/snapshot/events.rs"];
        assert!(text.contains(&format!("pub struct {name} {{")), "{name}: {text}");
        assert!(text.contains(&format!("impl From<{name}> for Event")), "{name}");
    }
}
