//! What a builder makes of what is said and of what is not, and every way to say it wrong.

use devloop_contract::tool::{Kind, Parallelism, Rule};
use schemars::JsonSchema;
use serde_json::json;

use super::*;

fn builder() -> ToolBuilder {
    ToolBuilder::new("echo").summary("Says it again.")
}

#[test]
fn what_is_not_said_is_what_is_safest() {
    let tool = builder().build().unwrap();
    assert_eq!((tool.kind, tool.parallelism), (Kind::Execute, Parallelism::Exclusive));
    assert!(!tool.concurrency_safe && !tool.retry_safe && !tool.strict);
    assert!(tool.hints.destructive && tool.hints.open_world && !tool.hints.idempotent && !tool.hints.read_only);
    assert_eq!((&*tool.title, &*tool.version), ("echo", "1.0.0"));
    assert_eq!((&*tool.permission.signature, &*tool.permission.rule), ("echo", "echo"));
    assert_eq!((&tool.owner, tool.trust), (&Owner::Host, Trust::Trusted));
    assert_eq!(tool.timeout, Duration::from_secs(30));
    let shared = builder().concurrency_safe().build().unwrap();
    assert_eq!(shared.parallelism, Parallelism::Shared);
    let alone = builder()
        .parallelism(Parallelism::Exclusive)
        .concurrency_safe()
        .build()
        .unwrap();
    assert_eq!(alone.parallelism, Parallelism::Exclusive);
}

#[test]
fn the_description_is_put_together_in_order() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    let tool = builder()
        .details("At once.")
        .caution("Loud.")
        .note("Short.")
        .note("Kind.")
        .input_schema(schema)
        .rule(Rule::ExactlyOneOf(&["a", "b"]))
        .example("One", json!({"a": "x"}))
        .build()
        .unwrap();
    assert_eq!(
        tool.description,
        "Says it again.\n\nAt once.\n\nGive exactly one of `a`, `b`.\n\nNotes:\n- Short.\n- Kind.\n\nCautions:\n- Loud."
    );
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let error = ToolBuilder::new("say again")
        .alias("a__b")
        .alias("x".repeat(51))
        .details("d".repeat(3_000))
        .version("1.0")
        .timeout(Duration::ZERO)
        .input_schema(json!({"type": "object", "properties": {"n": {"type": "integer"}}}))
        .example("Wrong", json!({"n": "one", "m": 1}))
        .example("No object", json!([]))
        .build()
        .unwrap_err();
    let text = error.to_string();
    for part in [
        "the tool `say again` can't be declared so\n- the name \"say again\": must begin with a letter",
        "\n- the name \"a__b\": two `_` together are for the tools of upstream servers",
        "has 51 characters; clients take 50",
        "\n- the summary is missing",
        "\n- the description has 3002 characters",
        "\n- the version `1.0` is not of the form 1.2.3 or",
        "\n- the timeout is zero",
        "\n- the example `Wrong`: n: expected an integer of at most 64 bits, got the string \"one\"",
        "\n- the example `No object`: its input must be an object",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(error.problems.len(), 9, "{text}");
}

#[test]
fn a_schema_that_nobody_takes_is_refused_with_its_reason() {
    let refused = |schema| builder().input_schema(schema).build().unwrap_err().problems.join("\n");
    assert!(refused(json!("x")).contains("must be a JSON object"));
    assert!(refused(json!({"type": "object", "anyOf": []})).contains("`anyOf` at the root"));
    assert!(refused(json!({"type": "object", "properties": {"a": {"type": "no"}}})).starts_with("input_schema: "));
    let output = builder()
        .output_schema(json!({"type": "object", "minProperties": "1"}))
        .build()
        .unwrap_err();
    assert!(output.problems[0].starts_with("output_schema: "), "{output}");
    let path = builder().path_field("/nowhere").build().unwrap_err();
    assert!(path.problems[0].contains("a path field must be a string"), "{path}");
}

#[test]
fn an_output_that_is_no_object_is_refused() {
    for (schema, found) in [
        (json!({"type": "array"}), r#"found "array""#),
        (json!({"type": ["object", "null"]}), r#"found ["object","null"]"#),
        (json!({"oneOf": []}), "found none"),
    ] {
        let error = builder().output_schema(schema).build().unwrap_err();
        assert!(error.problems[0].contains(found), "{error}");
    }
    let error = builder().output::<Vec<String>>().build().unwrap_err();
    assert!(error.problems[0].starts_with("the output schema: the root must have the type `object`"));
}

#[test]
fn an_example_may_say_what_is_answered() {
    let answers = |output| {
        let builder = builder().output_schema(json!({"type": "object", "required": ["n"]}));
        builder.example_with_output("One", json!({}), output).build()
    };
    let tool = answers(json!({"n": 1})).unwrap();
    assert_eq!(tool.examples[0].output, r#"{"n":1}"#);
    let error = answers(json!({})).unwrap_err();
    assert!(
        error.problems[0].starts_with("the example `One`: its output: "),
        "{error}"
    );
    let mut broken = tool;
    broken.examples[0].output = "{".into();
    let error = super::super::unfit(&CompiledTool::new(broken, |_| Ok(()))).unwrap();
    assert!(error.problems[0].contains("its output is no JSON"), "{error}");
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is asked for")]
struct Search {
    /// What to look for.
    text: String,
    /// How many to show.
    most: Option<u32>,
    #[serde(default)]
    deep: bool,
    filters: Vec<Filter>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is asked for")]
struct Filter {
    field: String,
    weight: Option<f64>,
}

#[test]
fn a_rust_type_gives_a_schema_that_every_provider_takes() {
    let tool = builder()
        .input::<Search>()
        .example("One", json!({"text": "x", "filters": [{"field": "f"}]}))
        .build()
        .unwrap();
    assert_eq!(
        *tool.input_schema.value().unwrap(),
        json!({"type": "object", "required": ["text", "filters"], "properties": {
            "text": {"description": "What to look for.", "type": "string"},
            "most": {"description": "How many to show.", "type": "integer", "minimum": 0},
            "deep": {"type": "boolean", "default": false},
            "filters": {"type": "array", "items": {"type": "object", "required": ["field"], "properties": {
                "field": {"type": "string"}, "weight": {"type": "number"}}}},
        }})
    );
    let compiled = CompiledTool::new(tool, |_| Ok(()));
    let sent = json!({"text": "x", "most": null, "filters": r#"[{"field":"f","weight":"1.5"}]"#});
    let built = compiled.build(sent.as_object().unwrap().clone()).unwrap();
    assert_eq!(
        *built.input(),
        json!({"text": "x", "filters": [{"field": "f", "weight": 1.5}], "deep": false})
    );
}

#[test]
fn what_could_never_mean_what_it_says_is_refused() {
    let schema = json!({"type": "object", "properties": {
        "command": {"type": "string"}, "n": {"type": "integer"}, "a.b": {"type": "string"},
        "files": {"type": "array", "items": {"type": "object", "properties": {"path": {"type": "string"}}}},
        "other": {"anyOf": [{"type": "string"}, {"type": "null"}]}}});
    let problems =
        |change: &dyn Fn(ToolBuilder) -> ToolBuilder| match change(builder().input_schema(schema.clone())).build() {
            Ok(_) => String::new(),
            Err(error) => error.problems.join("\n"),
        };
    let naming = |signature: &str, rule: &str| Naming {
        signature: signature.to_owned().into(),
        rule: rule.to_owned().into(),
    };
    for (signature, rule) in [
        ("Bash({command})", "Bash({n}:*)"),
        ("Bash({files.0.path})", ""),
        ("Bash({a.b}{other}{files})", "Bash"),
    ] {
        assert_eq!(
            problems(&|tool| tool.permission(naming(signature, rule))),
            "",
            "{signature} {rule}"
        );
    }
    for (signature, rule, problem) in [
        ("Bash({cmd})", "Bash", "`Bash({cmd})`: the input has no field `cmd`"),
        ("Bash", "Bash({cmd}*)", "the input has no field `cmd`"),
        ("Bash({files.path})", "Bash", "the input has no field `files.path`"),
        ("Bash({command.x})", "Bash", "the input has no field `command.x`"),
        ("Bash({command}))", "Bash", "`Bash({command}))` makes no rule"),
    ] {
        let found = problems(&|tool| tool.permission(naming(signature, rule)));
        assert!(found.contains(problem), "{signature} {rule}: {found}");
    }
    for path in ["/command", "/files/*/path", "/other"] {
        assert_eq!(problems(&|tool| tool.affected_path(path.to_owned())), "", "{path}");
    }
    for path in ["/nope", "/n", "/files", "/files/path", "/command/x"] {
        let found = problems(&|tool| tool.affected_path(path.to_owned()));
        assert!(found.contains("leads to no text of the input"), "{path}: {found}");
    }
    assert!(problems(&|tool| tool.alias("echo")).contains("stands twice"));
    assert!(problems(&|tool| tool.alias("a").alias("a")).contains("stands twice"));
    for version in ["1.0.0-", "1.0.0+a b", "1.0.0-é", "1.0.0-01"] {
        assert!(
            problems(&|tool| tool.version(version)).contains("is not of the form"),
            "{version}"
        );
    }
    assert_eq!(problems(&|tool| tool.version("1.0.0-rc.1+b")), "");
    assert_eq!(problems(&|tool| tool.timeout(Duration::from_hours(24))), "");
    assert!(problems(&|tool| tool.timeout(Duration::MAX)).contains("24 hours are the most"));
    assert!(problems(&|tool| tool.title("a\u{1b}[31m")).contains("the title has characters"));
    assert!(problems(&|tool| tool.summary("a\u{202e}b")).contains("the summary has characters"));
}
