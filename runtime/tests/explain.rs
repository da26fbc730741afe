//! What `explain` says of the files that an input names: of tools of specs, which have a sandbox, and of a host's.

#![cfg(feature = "testing")]

use std::os::unix::fs::symlink;
use std::time::Duration;

use devloop_contract::Tool;
use devloop_contract::tool::{Effects, Kind, Parallelism, WriteEffect};
use devloop_core::permission::{List, Mode, Rule, Verdict};
use devloop_core::registry::{Definition, Naming, ToolBuilder};
use devloop_runtime::AgentId;
use devloop_runtime::call::{CallOutcome, CallRequest, ToolService};
use devloop_runtime::session::{Explanation, Runner, RunnerCall, Session, SessionBuilder, empty_catalogue};
use devloop_runtime::testing::TestProject;
use serde_json::{Value, json};

const INPUT: &str = r#"{
    "type": "object", "additionalProperties": false, "required": ["path"],
    "properties": {
        "path": { "type": "string", "description": "The file." },
        "more": { "type": "array", "description": "Others.", "items": { "type": "string", "description": "A file." } }
    }
}"#;

fn builder(project: &TestProject) -> SessionBuilder {
    project.builder(AgentId::Pm)
}

/// A session with a host's tool `edit` that acts on files.
fn hosts(project: &TestProject, adjust: impl FnOnce(ToolBuilder) -> ToolBuilder) -> SessionBuilder {
    let tool = ToolBuilder::new("edit")
        .summary("Edits files.")
        .kind(Kind::Write)
        .affected_path("/path")
        .affected_path("/more/*")
        .permission(Naming {
            signature: "edit({path})".into(),
            rule: "edit({path})".into(),
        })
        .input_schema(serde_json::from_str(INPUT).unwrap());
    let catalogue = empty_catalogue();
    let runner = Runner::of(|call: RunnerCall| async move { Ok(json!({ "path": call.input["path"] })) });
    catalogue.register(adjust(tool).build().unwrap(), runner).unwrap();
    builder(project).tools(&catalogue)
}

fn explain(session: &Session, input: Value) -> Explanation {
    session.explain("edit", serde_json::from_value(input).unwrap()).unwrap()
}

/// What becomes of the call itself.
fn call(session: &Session, path: &str) -> CallOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let arguments = serde_json::from_value(json!({ "path": path })).unwrap();
    runtime.block_on(session.call(CallRequest::new("edit", arguments, "test:1")))
}

#[test]
fn of_a_hosts_tool_the_named_files_are_told_and_locked_under_their_real_names() {
    let project = TestProject::new();
    project.put("docs/real.md", "x");
    symlink("docs/real.md", project.path().join("link.md")).unwrap();
    let session = hosts(&project, |tool| tool).mode(Mode::AutoEdit).build().unwrap();
    let told = explain(
        &session,
        json!({"path": "link.md", "more": ["new/a.md", "docs/real.md"]}),
    );
    assert_eq!(told.decision.verdict, Verdict::Allow, "{}", told.decision.reason);
    assert!(told.sandbox.is_none(), "it runs elsewhere");
    assert_eq!(told.affected, ["link.md", "new/a.md", "docs/real.md"]);
    let real = project.path().canonicalize().unwrap();
    let at = |path: &str| real.join(path).display().to_string();
    let mut locks = told.turn.locks;
    locks.sort();
    locks.dedup();
    assert_eq!(locks, [at("docs/real.md"), at("new/a.md")]);
    assert!(matches!(call(&session, "docs/real.md"), CallOutcome::Success(_)));
    // What may run beside itself on the same file locks nothing.
    let session = hosts(&project, ToolBuilder::concurrency_safe)
        .mode(Mode::AutoEdit)
        .build()
        .unwrap();
    assert_eq!(explain(&session, json!({"path": "docs/real.md"})).turn.locks, [""; 0]);
}

#[test]
fn a_path_that_is_denied_is_told_with_its_reason_as_the_call_itself_is() {
    let project = TestProject::new();
    let rule = |text: &str| Rule::parse(text).unwrap();
    let session = hosts(&project, |tool| tool)
        .mode(Mode::Bypass)
        .rule(List::Deny, rule("edit(private/*)"), "the host")
        .build()
        .unwrap();
    for (path, reason) in [
        ("../outside.md", "it has a `..` component"),
        ("docs/../../outside.md", "it has a `..` component"),
        ("/etc/passwd", "it is absolute"),
        (".ssh/id_rsa", "id_rsa"),
        ("private/plan.md", "the deny rule `edit(private/*)`"),
    ] {
        let told = explain(&session, json!({ "path": path }));
        assert_eq!(told.decision.verdict, Verdict::Deny, "{path}");
        assert!(
            told.decision.reason.contains(reason),
            "{path}: {}",
            told.decision.reason
        );
        assert_eq!((told.affected, told.turn.locks), (vec![path.to_owned()], Vec::new()));
        // One that is named beside a harmless one counts as much.
        if !path.starts_with("private") {
            let told = explain(&session, json!({ "path": "a.md", "more": ["b.md", path] }));
            assert_eq!(told.decision.verdict, Verdict::Deny, "{path}");
        }
        let CallOutcome::Expected(body) = call(&session, path) else {
            panic!("{path} was let through")
        };
        assert_eq!(body.code, "permission_denied");
        assert!(body.reason.contains(reason), "{path}: {}", body.reason);
    }
}

#[test]
fn a_sensitive_file_behind_a_link_is_seen_by_call_and_explanation_alike() {
    let project = TestProject::new();
    project.put("keys/id_rsa", "x");
    project.put(".env", "x");
    project.put(".ssh/config", "x");
    project.put("docs/plain.md", "x");
    let link = |to: &str, name: &str| symlink(to, project.path().join(name)).unwrap();
    link("keys/id_rsa", "k");
    link("../k", "docs/twice");
    link("../.env", "docs/env");
    link(".ssh", "s");
    // To what is not there yet, and to itself.
    link("/root/.aws/credentials", "far");
    link("far", "farther");
    link("around", "around");
    link("docs/plain.md", "plain");
    let session = hosts(&project, |tool| tool).mode(Mode::AutoEdit).build().unwrap();
    for (path, verdict, reason) in [
        (
            "k",
            Verdict::Deny,
            "\"k\" leads to \"keys/id_rsa\", which is sensitive (high)",
        ),
        ("./k", Verdict::Deny, "leads to \"keys/id_rsa\""),
        ("docs/twice", Verdict::Deny, "leads to \"keys/id_rsa\""),
        ("s/config", Verdict::Deny, "leads to \".ssh/config\""),
        ("s/new", Verdict::Deny, "leads to \".ssh/new\""),
        ("far", Verdict::Deny, ".aws/credentials"),
        (
            "docs/env",
            Verdict::Ask,
            "\"docs/env\" leads to \".env\", which is sensitive (medium)",
        ),
        ("plain", Verdict::Allow, ""),
        ("docs/plain.md", Verdict::Allow, ""),
    ] {
        let told = explain(&session, json!({ "path": path })).decision;
        assert_eq!(told.verdict, verdict, "{path}: {}", told.reason);
        assert!(told.reason.contains(reason), "{path}: {}", told.reason);
        match (verdict, call(&session, path)) {
            (Verdict::Allow, outcome) => assert!(matches!(outcome, CallOutcome::Success(_)), "{path}: {outcome:?}"),
            (_, CallOutcome::Expected(body)) => assert!(body.reason.contains(reason), "{path}: {}", body.reason),
            (_, other) => panic!("{path}: {other:?}"),
        }
    }
}

/// A tool as a spec has it, which acts on files.
fn of_a_spec(project: &TestProject, checked: &'static [&'static str]) -> Session {
    let own = devloop_generated::tool("write_todolist").unwrap();
    let tool: &'static Tool = Box::leak(Box::new(Tool {
        name: "edit",
        aliases: &[],
        spec: "specs/tools/docs/edit.yaml",
        kind: Kind::Write,
        parallelism: Parallelism::Exclusive,
        affected_paths: &["/path", "/more/*"],
        path_fields: checked,
        timeout: Duration::from_secs(5),
        input_schema: INPUT,
        rules: &[],
        effects: Effects {
            reads: &["prd/**", "sdd/**"],
            writes: &[
                WriteEffect {
                    path: "prd/**",
                    only: &[],
                    when: "",
                },
                WriteEffect {
                    path: "sdd/*.md",
                    only: &[],
                    when: "",
                },
                WriteEffect {
                    path: "agent-state/{state_key}-*.json",
                    only: &["tester"],
                    when: "",
                },
            ],
            events: &[],
            host: &[],
        },
        examples: &[],
        ..*own
    }));
    let session = builder(project).mode(Mode::Bypass).build().unwrap();
    let runner = Runner::of(|_| async { Ok(json!({})) });
    session.catalogue().register(Definition::from(tool), runner).unwrap();
    session
}

#[test]
fn of_a_specs_tool_each_named_file_is_told_with_the_patterns_that_have_it() {
    let project = TestProject::new();
    let session = of_a_spec(&project, &["/path", "/more/*"]);
    let told = explain(
        &session,
        json!({"path": "prd/index.html", "more": ["sdd/a.md", "agent-state/pm-x.json", "src/a.rs"]}),
    );
    let touches = told.sandbox.unwrap();
    assert_eq!(touches.reads, ["prd/**", "sdd/**"]);
    assert_eq!(
        touches.writes,
        ["prd/**", "sdd/*.md"],
        "what holds for others is left out"
    );
    let seen: Vec<_> = touches
        .paths
        .iter()
        .map(|named| {
            let patterns = [&named.template, &named.spec].map(|pattern| pattern.as_deref().unwrap_or("none"));
            (&*named.path, named.may_read, named.may_write, patterns)
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("prd/index.html", true, true, ["prd/**", "prd/**"]),
            ("sdd/a.md", true, false, ["none", "sdd/*.md"]),
            ("agent-state/pm-x.json", false, false, ["agent-state/**", "none"]),
            ("src/a.rs", false, false, ["none", "none"]),
        ]
    );
    let at = |path: &str| project.path().canonicalize().unwrap().join(path).display().to_string();
    assert_eq!(told.turn.locks[0], at("prd/index.html"));
    // Such a tool's paths are judged when its input is built.
    let outside = serde_json::from_value(json!({"path": "prd/../../x"})).unwrap();
    let refused = *session.explain("edit", outside).unwrap_err();
    assert!(matches!(refused, CallOutcome::Invalid(_)), "{refused:?}");
}

#[test]
fn a_path_out_of_the_project_is_in_no_pattern_even_where_its_text_is() {
    let project = TestProject::new();
    let session = of_a_spec(&project, &[]);
    for path in ["prd/../../x", "prd/./x", "prd//x"] {
        let told = explain(&session, json!({ "path": path }));
        let named = &told.sandbox.unwrap().paths[0];
        assert_eq!((named.may_read, named.may_write), (false, false), "{path}");
        assert_eq!((&named.template, &named.spec), (&None, &None), "{path}");
    }
}
