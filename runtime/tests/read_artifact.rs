//! Results that are too large, and reading them part by part.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use devloop_contract::tool::Kind;
use devloop_core::permission::Mode;
use devloop_core::registry::ToolBuilder;
use devloop_runtime::AgentId;
use devloop_runtime::call::{CallOutcome, Passed};
use devloop_runtime::identity::Given;
use devloop_runtime::session::{Answer, Runner, RunnerCall, RunnerError, ToolRunner};
use devloop_runtime::testing::{TestProject, TestSession};
use serde_json::{Value, json};

/// A host's tool that answers with what it is told to.
fn echo(session: &TestSession, output_schema: Option<Value>) {
    struct Echo;
    impl ToolRunner for Echo {
        fn run(&self, call: RunnerCall) -> devloop_runtime::call::Boxed<'_, Result<Answer, RunnerError>> {
            Box::pin(async move {
                Ok(match call.input.get("passed") {
                    Some(passed) => Answer::Passed(Passed {
                        content: passed["content"].as_array().cloned().unwrap_or_default(),
                        structured_content: passed.get("structuredContent").cloned(),
                        is_error: false,
                        meta: None,
                    }),
                    None => Answer::Json(call.input["answer"].clone()),
                })
            })
        }
    }
    let mut tool = ToolBuilder::new("echo")
        .summary("Answers with what it is given.")
        .kind(Kind::ReadOnly)
        .input_schema(json!({"type": "object", "additionalProperties": false, "properties": {
            "answer": {"type": "object", "description": "The answer."},
            "passed": {"type": "object", "description": "A server's answer."},
        }}))
        .example("Nothing", json!({"answer": {}}));
    if let Some(schema) = output_schema {
        tool = tool.output_schema(schema);
    }
    let tool = tool.build().unwrap();
    session.session().set_mode(Mode::Bypass);
    session.session().catalogue().register(tool, Runner::new(Echo)).unwrap();
}

fn session(project: &TestProject) -> TestSession {
    let session = project.session(AgentId::Pm);
    echo(&session, None);
    session
}

/// Everything of an artifact, part by part, with the arguments that each part names.
fn whole(session: &TestSession, id: &str, by: &str) -> String {
    let mut arguments = json!({ "id": id });
    let mut text = String::new();
    for _ in 0..1_000 {
        let seen = session.call("read_artifact", arguments.clone());
        let part = seen.success();
        assert!(part.to_string().chars().count() <= 16_000);
        assert_eq!(part["offset"], text.len());
        text.push_str(part["text"].as_str().unwrap());
        if part.get("next_offset").is_none() {
            assert_eq!(part["size"], text.len());
            return text;
        }
        arguments = match part.get("next_line").filter(|_| by == "line") {
            Some(line) => json!({ "id": id, "line": line }),
            None => json!({ "id": id, "offset": part["next_offset"] }),
        };
    }
    panic!("it never ends");
}

fn files(project: &TestProject) -> Vec<PathBuf> {
    let below = |dirs: Vec<PathBuf>| -> Vec<PathBuf> {
        let entries = dirs.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten());
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    below(below(below(vec![project.artifacts()])))
}

#[test]
fn what_fits_is_left_alone_and_keeps_nothing() {
    let project = TestProject::new();
    let session = session(&project);
    // The limit itself: `{"text":"…"}` with 15,989 characters, some of several bytes.
    let fitting = json!({"text": "é".repeat(15_989)});
    let seen = session.call("echo", json!({"answer": fitting}));
    assert_eq!(*seen.success(), fitting);
    assert_eq!(files(&project), [""; 0].map(PathBuf::from));
    let seen = session.call("echo", json!({"answer": {"text": "é".repeat(15_990)}}));
    assert!(seen.success().get("oversized").is_some());
    assert_eq!(files(&project).len(), 1);
}

#[test]
fn an_oversized_result_says_what_is_missing_and_can_be_read_whole() {
    let project = TestProject::new();
    let session = session(&project);
    let rows: Vec<Value> = (0..600)
        .map(|n| json!({"name": format!("row \"{n}\" é"), "details": "long \u{1} text ".repeat(20)}))
        .collect();
    let answer = json!({ "rows": rows });
    let seen = session.call("echo", json!({"answer": answer}));
    let result = seen.success();
    assert!(result.to_string().chars().count() <= 16_000);
    let kept = result["rows"].as_array().unwrap().len();
    assert_eq!(result["oversized"]["missing"]["/rows"], 600 - kept);
    let reference = &result["oversized"]["whole"];
    assert_eq!(
        (&reference["kind"], &reference["source"]),
        (&json!("tool_result"), &json!("echo"))
    );
    assert!(reference["read"].as_str().unwrap().contains("`read_artifact`"));
    let id = reference["id"].as_str().unwrap();
    for by in ["offset", "line"] {
        let text = whole(&session, id, by);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), answer, "{by}");
    }
    // The same result again is the same artifact.
    session.call("echo", json!({"answer": answer}));
    assert_eq!(files(&project).len(), 1);
    let part = session.call("read_artifact", json!({"id": id, "line": 2, "lines": 2}));
    assert_eq!(part.success()["text"], "  \"rows\": [\n    {\n");
    assert_eq!(part.success()["next_line"], 4);
}

#[test]
fn what_is_promised_about_the_shape_is_kept() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    let schema = json!({"type": "object", "required": ["rows"], "properties": {
        "rows": {"type": "array", "description": "All.", "minItems": 1000, "items": {"type": "string", "minLength": 15}},
    }});
    echo(&session, Some(schema));
    let rows = |text: &str| json!({"answer": {"rows": vec![text; 1_000]}});
    // Texts may be cut, rows may not.
    let seen = session.call("echo", rows(&"r".repeat(100)));
    assert_eq!(seen.success()["rows"].as_array().unwrap().len(), 1_000);
    let seen = session.call("echo", json!({"answer": {"rows": vec!["r".repeat(14) + "rr"; 3_000]}}));
    let body = seen.failure("result_too_large");
    assert!(body.reason.contains("echo did its work"), "{}", body.reason);
    let id = &body.details.as_ref().unwrap()["oversized"]["whole"]["id"];
    assert_eq!(
        session.call("read_artifact", json!({ "id": id })).success()["offset"],
        0
    );
}

#[test]
fn a_servers_answer_is_cut_and_kept_too() {
    let project = TestProject::new();
    let session = session(&project);
    let text = "line of text\n".repeat(10_000);
    let picture = json!({"type": "image", "data": "A".repeat(50_000), "mimeType": "image/png"});
    let call = |content: Value, structured: Option<Value>| {
        let mut passed = json!({ "content": content });
        if let Some(structured) = structured {
            passed["structuredContent"] = structured;
        }
        match session.call("echo", json!({ "passed": passed })).result {
            CallOutcome::Passed(passed) => passed,
            other => panic!("{other:?}"),
        }
    };
    let reference = |passed: &Passed| -> Value {
        let note = passed.content.last().unwrap()["text"].as_str().unwrap();
        serde_json::from_str::<Value>(note).unwrap()["oversized"]["whole"].clone()
    };
    // Pictures are the client's to count.
    assert_eq!(call(json!([picture]), None).content, std::slice::from_ref(&picture));
    let cut = call(json!([{"type": "text", "text": text}]), None);
    assert_eq!(cut.content.len(), 2);
    let shown = cut.content[0]["text"].as_str().unwrap();
    assert!(
        shown.ends_with("characters more)") && shown.chars().count() < 16_100,
        "{shown}"
    );
    let kept = reference(&cut);
    assert_eq!(kept["mime"], "text/plain");
    assert_eq!(whole(&session, kept["id"].as_str().unwrap(), "line"), text);
    let structured = json!({"rows": vec!["x".repeat(30); 2_000]});
    let cut = call(
        json!([{"type": "text", "text": structured.to_string()}, picture]),
        Some(structured.clone()),
    );
    assert!(cut.structured_content.as_ref().unwrap()["oversized"]["missing"]["/rows"].as_u64() > Some(1_000));
    assert_eq!(cut.content[1], picture);
    let kept = whole(&session, reference(&cut)["id"].as_str().unwrap(), "offset");
    assert_eq!(
        serde_json::from_str::<Value>(&kept).unwrap()["structuredContent"],
        structured
    );
    let blocks: Vec<Value> = (0..1_000)
        .map(|n| json!({"type": "text", "text": format!("{n} ").repeat(200)}))
        .collect();
    let cut = call(json!(blocks), None);
    assert!(json!(cut).to_string().chars().count() < 40_000);
}

#[test]
fn a_servers_large_answer_stays_a_success_where_its_schema_takes_no_other_keys() {
    let part = json!({"type": "object", "properties": {"a": {"type": "string"}, "rows": {"type": "array"}},
        "required": ["a"], "additionalProperties": false});
    let named = json!({"type": "object", "properties": {"b": {}}, "required": ["b"], "additionalProperties": false});
    let mut one_of = json!({"type": "object", "oneOf": [named, {"$ref": "#/$defs/D"}]});
    one_of["$defs"] = json!({ "D": part });
    let schemas = [
        part.clone(),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false,
            "properties": {"a": {}, "rows": {"items": [{"type": "integer"}]}}, "patternProperties": {"^z": {}}}),
        one_of,
        json!({"type": "object", "allOf": [part], "properties": {"a": {}, "rows": {}}, "unevaluatedProperties": false}),
        json!({"type": "object", "properties": {"rows": {"type": "array"}}, "additionalProperties": {"type": "string"}}),
    ];
    for schema in schemas {
        let project = TestProject::new();
        let session = project.session(AgentId::Pm);
        echo(&session, Some(schema.clone()));
        let structured = json!({"a": "x".repeat(60_000), "rows": [1, 2]});
        let passed =
            json!({"content": [{"type": "text", "text": structured.to_string()}], "structuredContent": structured});
        let passed = match session.call("echo", json!({ "passed": passed })).result {
            CallOutcome::Passed(passed) => passed,
            other => panic!("{schema}: {other:?}"),
        };
        assert!(!passed.is_error);
        let cut = passed.structured_content.as_ref().unwrap();
        assert_eq!(cut["rows"], json!([1, 2]));
        assert!(cut["oversized"]["missing"]["/a"].as_u64() > Some(50_000), "{cut}");
        let entry = session.session().catalogue().get("echo").unwrap();
        assert_eq!(entry.compiled().check_output(cut), Ok(()), "as clients check it");
    }
}

#[test]
fn what_cannot_be_kept_says_so_and_the_call_goes_on() {
    let project = TestProject::new();
    let session = session(&project);
    fs::create_dir(project.artifacts()).unwrap();
    fs::set_permissions(project.artifacts(), fs::Permissions::from_mode(0o755)).unwrap();
    let large = json!({"answer": {"text": "x".repeat(50_000)}});
    let seen = session.call("echo", large.clone());
    let why = seen.success()["oversized"]["whole"]["not_kept"].as_str().unwrap();
    assert!(why.contains("artifacts are private; `chmod 700` it"), "{why}");
    fs::set_permissions(project.artifacts(), fs::Permissions::from_mode(0o700)).unwrap();
    let seen = session.call("echo", large);
    assert!(
        seen.success()["oversized"]["whole"]["id"].is_string(),
        "it was not remembered"
    );
    let seen = session.call("echo", json!({"answer": {"text": "x".repeat(17 * 1024 * 1024)}}));
    let why = seen.success()["oversized"]["whole"]["not_kept"].as_str().unwrap();
    assert!(why.contains("too large: one may have 16777216"), "{why}");
}

#[test]
fn reading_fails_in_words_that_help() {
    let project = TestProject::new();
    let session = session(&project);
    let id = |session: &TestSession, text: &str| {
        let passed = json!({"passed": {"content": [{"type": "text", "text": text}]}});
        let CallOutcome::Passed(passed) = session.call("echo", passed).result else {
            panic!("not passed on")
        };
        let note = passed.content.last().unwrap()["text"].as_str().unwrap();
        let note: Value = serde_json::from_str(note).unwrap();
        note["oversized"]["whole"]["id"].as_str().unwrap().to_owned()
    };
    let text = "a line\n".repeat(5_000);
    let id = id(&session, &text);
    let read = |session: &TestSession, arguments: Value| session.call("read_artifact", arguments);
    read(&session, json!({"id": "0".repeat(64)})).failure("unknown_artifact");
    assert_eq!(read(&session, json!({"id": "../x"})).invalid().problems[0].field, "id");
    let both = read(&session, json!({"id": id, "offset": 0, "line": 1}));
    assert_eq!(both.invalid().problems.len(), 1);
    let beyond = read(&session, json!({"id": id, "line": 5_001}));
    let details = beyond.failure("out_of_range").details.clone().unwrap();
    assert_eq!(details, json!({"size": 35_000, "lines": 5_000}));
    let beyond = read(&session, json!({"id": id, "offset": 35_001}));
    assert_eq!(beyond.failure("out_of_range").details, Some(json!({"size": 35_000})));
    assert_eq!(
        read(&session, json!({"id": id, "offset": 35_000})).success()["text"],
        ""
    );
    // Another session of the same agent has its own.
    let other = Given {
        session_id: Some("session-2".into()),
        ..Given::default()
    };
    read(&project.session_as(AgentId::Pm.agent(), other), json!({ "id": id })).failure("unknown_artifact");
    // The same session, whichever agent it serves.
    read(&project.session(AgentId::Tester), json!({ "id": id })).success();
    let file = files(&project).pop().unwrap();
    fs::write(&file, "changed").unwrap();
    let seen = read(&session, json!({ "id": id }));
    assert!(seen.failure("damaged").reason.contains("is not what was written"));
    assert_eq!(project.escalations(), []);
    fs::remove_file(&file).unwrap();
    read(&session, json!({ "id": id })).failure("unknown_artifact");
}

#[test]
fn a_part_has_12000_bytes_or_lines_or_14000_written_characters_at_most() {
    let project = TestProject::new();
    let session = session(&project);
    let kept = |text: String| {
        let passed = json!({"passed": {"content": [{"type": "text", "text": text}]}});
        let CallOutcome::Passed(passed) = session.call("echo", passed).result else {
            panic!("not passed on")
        };
        let note: Value = serde_json::from_str(passed.content.last().unwrap()["text"].as_str().unwrap()).unwrap();
        note["oversized"]["whole"]["id"].clone()
    };
    let part = |arguments: Value| {
        let seen = session.call("read_artifact", arguments);
        seen.success()["text"].as_str().unwrap().chars().count()
    };
    let id = kept("x".repeat(20_000));
    assert_eq!(part(json!({ "id": id })), 12_000);
    assert_eq!(part(json!({ "id": id, "bytes": 12_000 })), 12_000);
    assert_eq!(part(json!({ "id": id, "bytes": 4, "lines": 12_000 })), 4);
    for (field, wrong) in [("bytes", 3), ("bytes", 12_001), ("lines", 0), ("lines", 12_001)] {
        let seen = session.call("read_artifact", json!({ "id": id, field: wrong }));
        assert_eq!(seen.invalid().problems[0].field, field, "{wrong}");
    }
    let lines = kept("\n".repeat(20_000));
    // A line end is written with two characters.
    assert_eq!(part(json!({ "id": lines })), 7_000);
    assert_eq!(part(json!({ "id": lines, "lines": 1 })), 1);
    let quoted = kept(format!("{}{}", "x".repeat(11_000), "\u{1}".repeat(9_000)));
    // Each of those with six.
    assert_eq!(part(json!({ "id": quoted })), 11_000 + 500);
}
