//! A tool's reference as Markdown, for people and models that read it.
//!
//! Answers for a page about one tool, and for one about all of them. Leaves out the forms that providers call by: those are
//! [`super::projection`].

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use devloop_contract::CommonFailure;
use serde_json::Value;

use super::{Definition, Owner, Schema, Trust};

/// Everything that is said about a tool, on one page.
pub fn page(tool: &Definition) -> String {
    let mut out = format!("# {}\n\n{}\n\n{}\n", tool.name, tool.title, tool.description.trim());
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = write!(out, "\n- {name}: {value}");
        }
    };
    fact("also called", code(tool.aliases.iter().map(|alias| &**alias)));
    fact("comes from", origin(tool));
    fact("kind", tool.kind.as_str().to_owned());
    fact("runs", runs(tool));
    fact("asked for as", format!("`{}`", tool.permission.signature));
    fact(
        "remembered as",
        if tool.permission.rule.is_empty() {
            "never: each call is asked for".to_owned()
        } else {
            format!("`{}`", tool.permission.rule)
        },
    );
    fact("at most", format!("{:?}", tool.timeout));
    fact("version", tool.version.clone().into_owned());
    fact("category", tool.category.clone().into_owned());
    fact("tags", tool.tags.join(", "));
    out.push('\n');
    section(&mut out, "Input", &json(&tool.input_schema));
    if let Some(output) = &tool.output_schema {
        section(&mut out, "Output", &json(output));
    }
    let own = tool.failures.iter().map(|failure| (failure.code, failure.summary));
    let common = tool.common_failures.iter();
    let common = common.map(|code| (&**code, CommonFailure::summary_of(code).unwrap_or_default()));
    let failures: Vec<String> = own
        .chain(common)
        .map(|(code, text)| format!("- `{code}`: {text}"))
        .collect();
    section(&mut out, "Expected failures", &failures.join("\n"));
    section(&mut out, "Effects", &effects(tool));
    for example in &tool.examples {
        let mut text = fenced(&example.input);
        if !example.output.is_empty() {
            let _ = write!(text, "\n\ngives\n\n{}", fenced(&example.output));
        }
        section(&mut out, &format!("Example: {}", example.title), &text);
    }
    out
}

/// The tools by category, each with its summary. Categories and tools are sorted.
pub fn catalogue(tools: &[Arc<Definition>]) -> String {
    let mut by_category: BTreeMap<&str, Vec<&Definition>> = BTreeMap::new();
    for tool in tools {
        by_category.entry(&tool.category).or_default().push(tool);
    }
    let mut out = format!("# Tool catalogue\n\n{} tools.\n", tools.len());
    for (category, mut tools) in by_category {
        tools.sort_by(|left, right| left.name.cmp(&right.name));
        let category = if category.is_empty() { "other" } else { category };
        let lines = tools.iter().map(|tool| {
            let summary = tool.summary.lines().next().unwrap_or_default();
            format!("- `{}` ({}): {summary}", tool.name, tool.kind.as_str())
        });
        section(&mut out, category, &lines.collect::<Vec<_>>().join("\n"));
    }
    out
}

fn section(out: &mut String, title: &str, text: &str) {
    if !text.is_empty() {
        let _ = write!(out, "\n## {title}\n\n{text}\n");
    }
}

fn origin(tool: &Definition) -> String {
    let trust = match tool.trust {
        Trust::Trusted => "",
        Trust::Untrusted => "; what it says about itself is not checked",
    };
    match &tool.owner {
        Owner::BuiltIn => format!("`{}`", tool.source),
        Owner::Host => format!("the host program{trust}"),
        Owner::Server(server) => format!("`{}` of the server `{server}`{trust}", tool.source),
    }
}

fn runs(tool: &Definition) -> String {
    let words = [
        Some(tool.parallelism.as_str()),
        tool.concurrency_safe.then_some("beside itself on one path"),
        tool.retry_safe.then_some("again by itself after a failure that passes"),
        tool.hints.idempotent.then_some("idempotent"),
        tool.hints.destructive.then_some("destructive"),
        tool.hints.open_world.then_some("reaches beyond this machine"),
        tool.strict.then_some("strict"),
        Some(tool.exposure.as_str()),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn effects(tool: &Definition) -> String {
    let effects = &tool.effects;
    let mut lines: Vec<String> = effects.reads.iter().map(|path| format!("- reads `{path}`")).collect();
    for write in effects.writes {
        let mut line = format!("- writes `{}`", write.path);
        if !write.only.is_empty() {
            let _ = write!(line, ", only {}", write.only.join(", "));
        }
        if !write.when.is_empty() {
            let _ = write!(line, ", when {}", write.when);
        }
        lines.push(line);
    }
    lines.extend(effects.events.iter().map(|event| format!("- emits `{event}`")));
    lines.extend(
        effects
            .host
            .iter()
            .map(|host| format!("- touches `{host}` of the host")),
    );
    lines.join("\n")
}

fn code<'t>(names: impl Iterator<Item = &'t str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn json(schema: &Schema) -> String {
    match schema.value() {
        Ok(value) => fence(&serde_json::to_string_pretty(value).unwrap_or_default()),
        Err(error) => format!("It cannot be read: {error}"),
    }
}

/// JSON text, indented.
fn fenced(text: &str) -> String {
    let pretty = serde_json::from_str::<Value>(text).and_then(|value| serde_json::to_string_pretty(&value));
    fence(&pretty.unwrap_or_else(|_| text.to_owned()))
}

fn fence(text: &str) -> String {
    format!("```json\n{text}\n```")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::ToolBuilder;

    #[test]
    fn a_page_says_what_was_declared() {
        let tool = ToolBuilder::new("echo")
            .title("Echo")
            .summary("Says it again.")
            .alias("say")
            .category("speech")
            .input_schema(json!({
                "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"],
                "additionalProperties": false,
            }))
            .example("A word", json!({ "text": "hello" }))
            .build()
            .unwrap();
        let page = page(&tool);
        for part in [
            "# echo\n",
            "Says it again.",
            "- also called: `say`",
            "- comes from: the host program",
            "- kind: execute",
            "## Input",
            "\"text\"",
            "## Example: A word",
            "\"hello\"",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        let all = catalogue(&[Arc::new(tool)]);
        assert!(
            all.contains("1 tools.") && all.contains("## speech\n\n- `echo` (execute): Says it again."),
            "{all}"
        );
    }
}
