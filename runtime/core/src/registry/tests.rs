//! Admission as a whole, on tools written for the purpose and on random schemas.

use devloop_contract::Tool;
use devloop_contract::tool::Rule;
use devloop_contract::{ToolError, ValidationError};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Map, Value, json};

use super::arbitrary::{Broken, invalid, mangled, schema, settled, valid};
use super::shape::{Shape, options};
use super::validate::explain;
use super::*;

const TODOLIST: Tool = fixture::write_todolist();

fn compiled(tool: Tool) -> CompiledTool {
    CompiledTool::new(&*Box::leak(Box::new(tool)), |path| match path {
        path if path.starts_with('/') => Err(format!("`{path}` is absolute; give it relative to the project")),
        _ => Ok(()),
    })
}

fn with_schema(schema: &Value) -> CompiledTool {
    compiled(Tool {
        input_schema: schema.to_string().leak(),
        ..TODOLIST
    })
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

fn refused(tool: &CompiledTool, arguments: Value) -> ValidationError {
    match tool.build(map(arguments)) {
        Err(BuildError::Invalid(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn broken(tool: Tool) -> String {
    match compiled(tool).build(Map::new()) {
        Err(BuildError::Internal(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refusal_names_place_and_reason_and_shows_an_example() {
    let tool = compiled(TODOLIST);
    let error = refused(&tool, json!({"items": [{"id": "step-3", "description": "x"}]}));
    assert_eq!(
        error.to_string(),
        "items[0].id: `step-3` does not match ^step-\\d{3}$\n\
         A valid example: {\"items\":[{\"id\":\"step-001\",\"description\":\"Read the contract\"}]}"
    );
    assert_eq!(error.problems[0].pointer, "/items/0/id");
    assert!(matches!(
        ToolError::from(BuildError::Invalid(error)),
        ToolError::Validation(_)
    ));
}

#[test]
fn a_blank_text_is_told_what_it_lacks() {
    let tool = with_schema(&json!({"type": "object", "additionalProperties": false, "properties": {
        "text": {"type": "string", "description": "A text.", "pattern": r"\S"}
    }}));
    let error = refused(&tool, json!({"text": " \t"}));
    assert_eq!(
        error.problems[0].reason,
        "it must contain a character that is not white space"
    );
}

#[test]
fn what_was_sent_is_kept_beside_what_was_built() {
    let tool = compiled(TODOLIST);
    let sent = json!({"wait_for_previous": false, "items": r#"[{"id":"step-001","description":"x"}]"#});
    let built = tool.build(map(sent.clone())).unwrap();
    assert_eq!(
        *built.input(),
        json!({"items": [{"id": "step-001", "description": "x", "depends_on": []}]})
    );
    assert_eq!(Value::from(built.original().clone()).to_string(), sent.to_string());
    assert_eq!(built.name(), "write_todolist");
}

#[test]
fn a_key_that_a_client_adds_is_dropped_only_as_the_client_adds_it() {
    let tool = compiled(TODOLIST);
    let error = refused(&tool, json!({"items": [], "wait_for_previous": "yes"}));
    assert_eq!(error.problems[0].field, "wait_for_previous");
    let own = with_schema(&json!({"type": "object", "additionalProperties": false,
        "properties": {"wait_for_previous": {"type": "boolean"}}}));
    let built = own.build(map(json!({"wait_for_previous": true}))).unwrap();
    assert_eq!(*built.input(), json!({"wait_for_previous": true}));
}

#[test]
fn lengths_count_characters_and_unique_items_compare_values() {
    let tool = with_schema(&json!({"type": "object", "additionalProperties": false, "properties": {
        "s": {"type": "string", "minLength": 2, "maxLength": 2},
        "n": {"type": "array", "items": {"type": "number"}, "uniqueItems": true},
        "o": {"type": "array", "items": {"type": "object"}, "uniqueItems": true},
    }}));
    tool.build(map(json!({"s": "😀é", "n": [1, 1.5], "o": [{"a": 1}, {"a": 2}]})))
        .unwrap();
    assert_eq!(
        refused(&tool, json!({"s": "😀"})).problems[0].reason,
        "has 1 character; at least 2 expected"
    );
    assert!(
        refused(&tool, json!({"n": [2, 1, 1.0]}))
            .to_string()
            .starts_with("n: items 1 and 2 are equal")
    );
    let error = refused(&tool, json!({"o": [{"a": 1, "b": 1}, {"b": 1.0, "a": 1}]}));
    assert!(error.to_string().starts_with("o: items 0 and 1 are equal"), "{error}");
}

#[test]
fn items_that_differ_only_by_a_default_left_out_are_equal() {
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {
        "l": {"type": "array", "uniqueItems": true, "items": {"type": "object", "additionalProperties": false,
            "properties": {"n": {"type": "integer", "default": 1}}}}}});
    let sent = json!({"l": [{"n": 1}, {}]});
    assert!(options().build(&schema).unwrap().is_valid(&sent));
    // Letting it pass would build what the schema forbids.
    assert!(
        refused(&with_schema(&schema), sent)
            .to_string()
            .starts_with("l: items 0 and 1 are equal")
    );
}

#[test]
fn an_integer_is_built_only_within_64_bits() {
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {"n": {"type": "integer"}}});
    let tool = with_schema(&schema);
    for fits in [json!(i64::MAX), json!(i64::MIN), json!("9223372036854775807")] {
        tool.build(map(json!({ "n": fits }))).unwrap();
    }
    for wide in [
        json!(u64::MAX),
        json!(1e19),
        json!(-1e300),
        json!("9223372036854775808"),
    ] {
        // The schema alone lets these pass.
        assert!(wide.is_string() || options().build(&schema).unwrap().is_valid(&json!({ "n": wide })));
        refused(&tool, json!({ "n": wide }));
    }
}

#[test]
fn rules_between_fields_are_checked_beside_the_schema() {
    let text = json!({"type": "string"});
    let tool = compiled(Tool {
        input_schema: json!({"type": "object", "additionalProperties": false, "properties": {
            "a": text, "b": text, "c": text, "d": text, "mode": {"type": "string", "enum": ["on", "off"], "default": "off"},
            "why": text}})
        .to_string()
        .leak(),
        rules: &[
            Rule::ExactlyOneOf(&["a", "b"]),
            Rule::AtMostOneOf(&["c", "d"]),
            Rule::RequiredIf {
                field: "why",
                when: "mode",
                is: &["\"on\""],
            },
        ],
        ..TODOLIST
    });
    tool.build(map(json!({"a": "x", "b": null}))).unwrap();
    tool.build(map(json!({"b": "x", "d": "x", "mode": "on", "why": ""})))
        .unwrap();
    let reasons = |arguments| -> Vec<(String, String)> {
        let problems = refused(&tool, arguments).problems;
        problems
            .into_iter()
            .map(|problem| (problem.field, problem.reason))
            .collect()
    };
    assert_eq!(
        reasons(json!({"a": null})),
        [(
            String::new(),
            "exactly one of `a`, `b` must be given, got none".to_owned()
        )]
    );
    assert_eq!(
        reasons(json!({"a": 1, "b": "", "c": "", "d": "", "mode": "on"})),
        [
            ("a", "expected a string, got the number 1"),
            ("", "exactly one of `a`, `b` may be given, got `a`, `b`"),
            ("", "at most one of `c`, `d` may be given, got `c`, `d`"),
            (
                "why",
                "`why` is missing; it is required when `mode` is the string \"on\""
            ),
        ]
        .map(|(field, reason)| (field.to_owned(), reason.to_owned()))
    );
}

#[test]
fn a_deciding_value_is_compared_by_value_and_a_default_decides() {
    let tool = compiled(Tool {
        input_schema: r#"{"type":"object","additionalProperties":false,"properties":{
            "n":{"type":"number","default":24},"m":{"type":"integer"},"why":{"type":"string"}}}"#,
        rules: &[
            Rule::RequiredIf {
                field: "why",
                when: "n",
                is: &["24.0"],
            },
            Rule::RequiredIf {
                field: "why",
                when: "m",
                is: &["7.0"],
            },
        ],
        ..TODOLIST
    });
    for sent in [json!({}), json!({"n": 24}), json!({"n": 24.0}), json!({"n": 1, "m": 7})] {
        assert_eq!(refused(&tool, sent.clone()).problems[0].field, "why", "{sent}");
    }
    tool.build(map(json!({"n": 24.5, "m": 8}))).unwrap();
}

#[test]
fn path_fields_follow_the_path_rule() {
    let tool = compiled(Tool {
        input_schema: r#"{"type":"object","additionalProperties":false,"properties":{
            "files":{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{
                "path":{"type":"string"},"text":{"type":"string"}}}},
            "by":{"type":"object","additionalProperties":{"type":"string"}},
            "to":{"type":"string","minLength":1}}}"#,
        path_fields: &["/files/*/path", "/by/*", "/to"],
        affected_paths: &["/files/*/path", "/to"],
        ..TODOLIST
    });
    let built = tool
        .build(map(
            json!({"to": "a", "files": [{"path": "b"}, {"text": "/c"}, {"path": "a"}]}),
        ))
        .unwrap();
    assert_eq!(built.affected_paths(), ["b", "a"]);
    let error = refused(
        &tool,
        json!({"files": "[{\"path\":\"/b\"},{\"path\":\"c\"}]", "to": "/d"}),
    );
    assert_eq!(
        (error.total, &*error.problems[0].field, &*error.problems[1].field),
        (2, "files[0].path", "to")
    );
    assert!(error.problems[0].reason.contains("absolute"));
    let error = refused(&tool, json!({"by": {"x": "a", "y": "/b"}}));
    assert_eq!((error.total, &*error.problems[0].field), (1, "by.y"));
}

#[test]
fn bound_fields_are_added_and_cannot_be_sent() {
    let tool = compiled(Tool {
        input_schema: r#"{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}}"#,
        bind: r#"{"site":"prd","b":1}"#,
        rules: &[Rule::ExactlyOneOf(&["a", "b"])],
        affected_paths: &["/site"],
        path_fields: &["/site"],
        ..TODOLIST
    });
    let built = tool.build(Map::new()).unwrap();
    assert_eq!(*built.input(), json!({"site": "prd", "b": 1}));
    assert!(built.original().is_empty());
    assert_eq!(built.affected_paths(), ["prd"]);
    assert_eq!(refused(&tool, json!({"site": "sdd"})).problems[0].field, "site");
    assert_eq!(refused(&tool, json!({"a": "x"})).total, 1);
}

#[test]
fn a_tool_that_is_wrong_itself_is_an_internal_error_that_names_its_spec() {
    let schema =
        r#"{"type":"object","additionalProperties":false,"properties":{"a":{"type":"integer","default":"x"}}}"#;
    let text = broken(Tool {
        input_schema: schema,
        ..TODOLIST
    });
    assert!(
        text.contains("write_todolist.yaml") && text.contains("the default of `a`"),
        "{text}"
    );
    for tool in [
        Tool {
            input_schema: "{",
            ..TODOLIST
        },
        Tool {
            input_schema: r#"{"type":"array","items":{"type":"string"}}"#,
            ..TODOLIST
        },
        Tool {
            input_schema: r#"{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}"#,
            ..TODOLIST
        },
        Tool {
            bind: r#"{"items":[]}"#,
            ..TODOLIST
        },
        Tool { bind: "[]", ..TODOLIST },
        Tool {
            bind: r#"{"where":["a","/etc/passwd"]}"#,
            path_fields: &["/where/*"],
            ..TODOLIST
        },
        Tool {
            input_schema: r#"{"type":"object","additionalProperties":false,"properties":{
                "a":{"type":"string","default":"x"},"b":{"type":"string"}}}"#,
            rules: &[Rule::AtMostOneOf(&["b", "a"])],
            ..TODOLIST
        },
        Tool {
            path_fields: &["/items"],
            ..TODOLIST
        },
        Tool {
            affected_paths: &["items"],
            ..TODOLIST
        },
        Tool {
            rules: &[Rule::RequiredIf {
                field: "a",
                when: "b",
                is: &["on"],
            }],
            ..TODOLIST
        },
    ] {
        broken(tool);
    }
}

#[test]
fn an_output_is_checked_and_the_place_named() {
    let tool = compiled(TODOLIST);
    tool.check_output(&json!({"ok": true, "count": 1, "more": 1})).unwrap();
    let error = tool
        .check_output(&json!({"ok": true, "count": 1, "rows": ["a", 2]}))
        .unwrap_err();
    assert!(error.starts_with("`rows[1]` is not of type"), "{error}");
    let error = tool.check_output(&json!({"ok": true})).unwrap_err();
    assert!(error.contains("\"count\" is a required property"), "{error}");
    let broken = compiled(Tool {
        output_schema: r#"{"type":"no"}"#,
        ..TODOLIST
    });
    assert!(broken.check_output(&json!({})).unwrap_err().contains("output_schema"));
}

#[test]
fn a_hostile_input_costs_no_more_than_itself() {
    let tool = compiled(TODOLIST);
    let error = refused(&tool, json!({"items": vec![Value::Null; 100_000]}));
    assert_eq!(error.total, 100_001);
    assert!(error.to_string().len() < 2_000);
    let error = refused(&tool, json!({"x".repeat(1_000_000): 1}));
    assert!(error.to_string().len() < 1_000, "{}", error.to_string().len());
}

/// Every promise of admission, for one schema and values of it.
fn admits(schema: &Value, value: &Value, sent: &Value, broken: &Broken, foreign: &Value) -> Result<(), TestCaseError> {
    let tool = with_schema(schema);
    let validator = options().build(schema).unwrap();
    let shape = Shape::compile(schema).unwrap();
    let text = |map: &Map<String, Value>| Value::from(map.clone()).to_string();
    prop_assert!(validator.is_valid(value), "the generator made an invalid value");

    let built = tool
        .build(map(value.clone()))
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(
        built.input(),
        &settled(schema, value),
        "a valid value changes by defaults and whole floats alone"
    );
    prop_assert_eq!(text(built.original()), value.to_string());

    let mended = tool
        .build(map(sent.clone()))
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(mended.input(), built.input(), "what a client mangled is mended");
    prop_assert_eq!(text(mended.original()), sent.to_string());

    let again = tool
        .build(map(built.input().clone()))
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(
        again.input().to_string(),
        built.input().to_string(),
        "building twice is building once"
    );

    prop_assert!(
        broken.keyword == "int64" || !validator.is_valid(&broken.value),
        "the generator broke nothing"
    );
    match tool.build(map(broken.value.clone())) {
        Err(BuildError::Invalid(error)) => prop_assert!(
            error.total > PROBLEMS_SHOWN || error.problems.iter().any(|p| p.pointer.starts_with(&broken.pointer)),
            "no problem is at {}: {error}",
            broken.pointer
        ),
        other => {
            return Err(TestCaseError::fail(format!(
                "{} broken, and yet {other:?}",
                broken.keyword
            )));
        }
    }

    for value in [value, sent, &broken.value, foreign] {
        if let Ok(built) = tool.build(map(value.clone())) {
            prop_assert!(
                validator.is_valid(built.input()),
                "built and invalid: {}",
                built.input()
            );
            prop_assert!(explain(&shape, built.input(), |_| Ok(())).is_empty());
        }
        let explained = !explain(&shape, value, |_| Ok(())).is_empty();
        let invalid = !validator.is_valid(value);
        let wide = broken.keyword == "int64" && std::ptr::eq(value, &raw const broken.value);
        prop_assert!(
            explained == invalid || (wide && explained),
            "the explanation and the validator differ on {value}"
        );
    }
    Ok(())
}

const PROBLEMS_SHOWN: usize = devloop_contract::error::PROBLEMS_IN_FULL;

fn runner() -> TestRunner {
    let cases = if std::env::var_os("DEVLOOP_LONG").is_some() {
        100_000
    } else {
        300
    };
    TestRunner::new(Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 10_000,
        ..Config::default()
    })
}

#[test]
fn every_promise_holds_on_random_schemas() {
    let cases = (schema(), schema()).prop_flat_map(|(schema, other)| {
        let values = (mangled(&schema), invalid(&schema), valid(&other));
        (Just(schema), values)
    });
    runner()
        .run(&cases, |(schema, ((value, sent), broken, foreign))| {
            admits(&schema, &value, &sent, &broken, &foreign)
        })
        .unwrap();
}

#[test]
fn every_promise_holds_on_the_todo_list() {
    let schema: Value = serde_json::from_str(TODOLIST.input_schema).unwrap();
    let values = (mangled(&schema), invalid(&schema));
    runner()
        .run(&values, |((value, sent), broken)| {
            admits(&schema, &value, &sent, &broken, &json!({}))
        })
        .unwrap();
}
