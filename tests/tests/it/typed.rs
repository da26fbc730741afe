//! What holds between schemas, normalising and Rust types, for every tool.

use devloop_core::registry::arbitrary::{invalid, mangled, valid};
use devloop_core::registry::{BuildError, CompiledTool};
use devloop_generated::{AnyInput, all_tools};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use serde_json::{Map, Value};

fn check<S: Strategy>(strategy: &S, test: impl Fn(S::Value) -> TestCaseResult) {
    let cases = if std::env::var_os("DEVLOOP_LONG").is_some() {
        100_000
    } else {
        400
    };
    let config = Config {
        cases,
        failure_persistence: None,
        max_global_rejects: cases * 4,
        ..Config::default()
    };
    if let Err(error) = TestRunner::new(config).run(strategy, test) {
        panic!("{error}");
    }
}

fn tools() -> impl Iterator<Item = (CompiledTool, Value)> {
    all_tools().map(|tool| {
        let schema = serde_json::from_str(tool.input_schema).expect("the generator writes JSON");
        (CompiledTool::new(tool, |_| Ok(())), schema)
    })
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("an input is an object, not {other}"),
    }
}

/// Equal as JSON, where numbers are compared by value and a key whose value is null counts as absent.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

#[test]
fn what_builds_has_a_type_and_the_type_says_the_same() {
    for (tool, schema) in tools() {
        check(&valid(&schema), |value| {
            let built = match tool.build(object(value)) {
                Ok(built) => built,
                // The generator knows the schema; rules between fields are the tool's own.
                Err(BuildError::Invalid(_)) if !tool.definition().rules.is_empty() => {
                    return Err(TestCaseError::reject("rules"));
                }
                Err(error) => return Err(TestCaseError::fail(format!("{error:?}"))),
            };
            let typed = AnyInput::parse(built.built_in().unwrap(), built.input())
                .map_err(|e| TestCaseError::fail(e.to_string()))?;
            let again = typed.to_value().map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert!(same(&again, built.input()), "{} became {again}", built.input());
            Ok(())
        });
    }
}

#[test]
fn what_a_client_mangles_builds_to_the_same() {
    for (tool, schema) in tools() {
        check(&mangled(&schema), |(value, sent)| {
            match (tool.build(object(value)), tool.build(object(sent))) {
                (Ok(value), Ok(sent)) => prop_assert_eq!(value.input(), sent.input()),
                (Err(_), Err(_)) => {}
                (value, sent) => return Err(TestCaseError::fail(format!("{value:?} but {sent:?}"))),
            }
            Ok(())
        });
    }
}

#[test]
fn what_the_schema_forbids_is_never_built() {
    for (tool, schema) in tools() {
        check(&invalid(&schema), |broken| {
            let built = tool.build(object(broken.value));
            prop_assert!(
                matches!(built, Err(BuildError::Invalid(_))),
                "{} was let through",
                broken.keyword
            );
            Ok(())
        });
    }
}
