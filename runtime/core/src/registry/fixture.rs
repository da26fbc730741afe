//! Tools made for tests, of this crate and of others.
//!
//! Answers for one plain tool that a test fills in where it matters, so that a new field of [`Tool`] is one more line
//! here and nowhere else: `Tool { kind: Kind::Write, ..fixture::tool("echo") }`. Leaves out tools of the product.

use std::time::Duration;

use devloop_contract::Tool;
use devloop_contract::tool::{Effects, Example, Exposure, Kind, Parallelism, Permission};

/// A tool without any claim: it takes no argument, touches nothing and answers `ok`.
pub const fn tool(name: &'static str) -> Tool {
    Tool {
        name,
        aliases: &[],
        title: name,
        group: "test",
        handler: name,
        spec: "specs/tools/test/fixture.yaml",
        summary: "Does what a test needs.",
        details: "",
        notes: &[],
        cautions: &[],
        description: "Does what a test needs.",
        kind: Kind::ReadOnly,
        idempotent: true,
        destructive: false,
        open_world: false,
        parallelism: Parallelism::Exclusive,
        concurrency_safe: false,
        retry_safe: false,
        strict: false,
        exposure: Exposure::Always,
        category: "test",
        tags: &[],
        version: "1.0.0",
        permission: Permission {
            signature: "Tool",
            rule: "Tool",
        },
        affected_paths: &[],
        timeout: Duration::from_secs(10),
        input_schema: r#"{"type":"object","properties":{},"additionalProperties":false}"#,
        output_schema: r#"{"type":"object","required":["ok"],"properties":{"ok":{"type":"boolean"}}}"#,
        bind: "{}",
        rules: &[],
        path_fields: &[],
        effects: Effects {
            reads: &[],
            writes: &[],
            events: &[],
            host: &[],
        },
        failures: &[],
        common_failures: &[],
        examples: &[],
    }
}

/// A tool with nested input, a pattern, a default, an alias and an example.
pub const fn write_todolist() -> Tool {
    Tool {
        aliases: &["todo_write"],
        title: "Write the todo list",
        group: "persistence",
        spec: "specs/tools/persistence/write_todolist.yaml",
        summary: "Replaces this agent's todo list.",
        description: "Replaces this agent's todo list.",
        category: "persistence",
        input_schema: r#"{"type":"object","required":["items"],"additionalProperties":false,"properties":{
        "items":{"type":"array","minItems":0,"maxItems":200,"items":{
            "type":"object","required":["id","description"],"additionalProperties":false,"properties":{
                "id":{"type":"string","pattern":"^step-\\d{3}$"},
                "description":{"type":"string","minLength":1,"maxLength":500,"pattern":"\\S"},
                "depends_on":{"type":"array","items":{"type":"string","pattern":"^step-\\d{3}$"},"default":[]}}}}}}"#,
        output_schema: r#"{"type":"object","required":["ok","count"],"properties":{
        "ok":{"type":"boolean"},"count":{"type":"integer","minimum":0},"rows":{"type":"array","items":{"type":"string"}}}}"#,
        examples: &[Example {
            title: "One step",
            input: r#"{"items":[{"id":"step-001","description":"Read the contract"}]}"#,
            output: "",
        }],
        ..tool("write_todolist")
    }
}
