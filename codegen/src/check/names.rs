//! Names: their form, their length, and that each stands for one thing only, in specs and in Rust.

use std::collections::HashMap;

use devloop_contract::CommonFailure;
use devloop_contract::tool::is_semver;

use super::forms::{is_event, is_kebab, is_keyword, is_pascal, is_reserved, is_reserved_marker, is_snake, is_tag};
use crate::model::FailureEntry;
use crate::pointer::child;
use crate::report::{Report, spot};
use crate::resolve::{pascal_case, timeout_ms};
use crate::specs::{AgentFile, Doc, Specs};
use crate::suggest::{list, suggest};
use crate::yaml::Place;

/// How the longest-winded client calls a tool: `mcp__<server>__<tool>`, of at most 64 characters.
const MCP_PREFIX: &str = "mcp__devloop__";
const MCP_LONGEST: usize = 64;
// One client counts server and tool together, up to 60. The limit above is the narrower one.
const _: () = assert!(MCP_LONGEST - MCP_PREFIX.len() + "devloop".len() <= 60);

pub(super) fn check(specs: &Specs, report: &mut Report) {
    tools(specs, report);
    agents(specs, report);
    failures(specs, report);
    catalogue(specs, report);
    shared(specs, report);
}

/// Judges the name of a folder under `specs/tools/`, which becomes a module.
pub(crate) fn group_name(path: &str, name: &str, report: &mut Report) {
    if !is_snake(name) {
        let help = "use lower-case letters, digits and `_`, beginning with a letter".to_owned();
        report.file(path, format!("`{name}` is no name for a group"), help);
    } else if is_keyword(name) {
        report.file(
            path,
            format!("`{name}` is a keyword of Rust, where a group is a module"),
            "rename it".to_owned(),
        );
    }
}

fn tools(specs: &Specs, report: &mut Report) {
    let mut callable: HashMap<&str, (&str, Place)> = HashMap::new();
    let mut handlers: HashMap<String, (&str, &str, Place)> = HashMap::new();
    let mut variants: HashMap<String, (&str, &str, Place)> = HashMap::new();
    for tool in &specs.tools {
        let doc = tool.file.doc();
        let spec = &tool.file.spec;
        let at = doc.tree.value_place("/handler");
        if spec.handler != tool.file.stem && report.is_sound(doc, "/handler") {
            let message = format!("the handler `{}` stands in `{}.yaml`", spec.handler, tool.file.stem);
            report.value(
                doc,
                "/handler",
                message,
                format!("a handler is called like its file: `{}`", tool.file.stem),
            );
            report.suspect(&tool.file.stem);
        } else if !is_snake(&spec.handler) {
            let help = "use lower-case letters, digits and `_`, beginning with a letter".to_owned();
            report.value(
                doc,
                "/handler",
                format!("`{}` is no name for a handler", spec.handler),
                help,
            );
            report.suspect_form(&spec.handler);
        } else if is_keyword(&spec.handler) {
            let message = format!("`{}` is a keyword of Rust, where a handler is a module", spec.handler);
            report.value(doc, "/handler", message, "rename the handler and its file".to_owned());
        } else {
            let pascal = pascal_case(&spec.handler);
            if is_reserved_marker(&pascal) {
                let message = format!(
                    "the handler `{}` would be `{pascal}` in Rust, which is taken",
                    spec.handler
                );
                report.value(doc, "/handler", message, "rename the handler and its file".to_owned());
            } else if let Some((name, path, place)) = handlers.get(&pascal) {
                let message = format!(
                    "the handlers `{}` and `{name}` are both `{pascal}` in Rust",
                    spec.handler
                );
                report.value(
                    doc,
                    "/handler",
                    message,
                    format!("rename one; the first is at {}", spot(path, *place)),
                );
            } else {
                handlers.insert(pascal, (&spec.handler, doc.path, at));
            }
        }

        let mut names = Vec::new();
        for (index, face) in spec.tools.iter().enumerate() {
            names.push((face.name.as_str(), format!("/tools/{index}/name")));
            for (alias, name) in face.aliases.iter().enumerate() {
                names.push((name.as_str(), format!("/tools/{index}/aliases/{alias}")));
            }
        }
        if spec.tools.is_empty() && report.is_sound(doc, "/handler") {
            names.push((spec.handler.as_str(), "/handler".to_owned()));
        }
        for (name, pointer) in names {
            if pointer != "/handler" && !is_snake(name) {
                let help = "use lower-case letters, digits and `_`, beginning with a letter".to_owned();
                report.value(doc, &pointer, format!("`{name}` is no name for a tool"), help);
                report.suspect_form(name);
            } else if let Some(message) = too_long(name) {
                report.value(doc, &pointer, message, "shorten the name".to_owned());
            }
            let here = doc.tree.value_place(&pointer);
            if name.is_empty() {
                continue;
            }
            if let Some((path, place)) = callable.get(name) {
                let message = format!("there is another tool called `{name}`");
                report.value(
                    doc,
                    &pointer,
                    message,
                    format!("the first is at {}", spot(path, *place)),
                );
            } else {
                callable.insert(name, (doc.path, here));
                if pointer == "/handler" || pointer.ends_with("/name") {
                    tool_variant(doc, &pointer, name, &spec.handler, &mut variants, report);
                }
            }
        }
    }
}

/// A tool is a variant of an enum in Rust, and a static beside the marker of its handler.
fn tool_variant<'a>(
    doc: Doc<'a>,
    pointer: &str,
    name: &'a str,
    handler: &str,
    variants: &mut HashMap<String, (&'a str, &'a str, Place)>,
    report: &mut Report,
) {
    let pascal = pascal_case(name);
    if pascal == "Self" {
        report.value(
            doc,
            pointer,
            format!("`{name}` cannot be a name in Rust"),
            "rename it".to_owned(),
        );
    } else if name.to_ascii_uppercase() == pascal_case(handler) {
        let message = format!(
            "the tool `{name}` and its handler are both `{}` in Rust",
            pascal_case(handler)
        );
        report.value(doc, pointer, message, "give the tool a longer name".to_owned());
    } else if let Some((first, path, place)) = variants.get(&pascal) {
        let message = format!("the tools `{name}` and `{first}` are both `{pascal}` in Rust");
        let help = format!("rename one; the first is at {}", spot(path, *place));
        report.value(doc, pointer, message, help);
    } else {
        variants.insert(pascal, (name, doc.path, doc.tree.value_place(pointer)));
    }
}

fn agents(specs: &Specs, report: &mut Report) {
    let mut names: HashMap<&str, (&str, Place)> = HashMap::new();
    let mut pascals: HashMap<String, (&str, Place)> = HashMap::new();
    for agent in &specs.agents {
        let doc = agent.file.doc();
        let spec = &agent.file.spec;
        if !is_kebab(&agent.file.stem) {
            let help = "use lower-case letters, digits and `-`, beginning with a letter".to_owned();
            report.value(doc, "/id", format!("`{}` is no id for an agent", agent.file.stem), help);
        } else if spec.id != agent.file.stem {
            let message = format!("the agent `{}` stands in `{}.yaml`", spec.id, agent.file.stem);
            report.value(
                doc,
                "/id",
                message,
                format!("an agent is called like its file: `{}`", agent.file.stem),
            );
        }
        if spec.name == "human" {
            let help = "`human` is the person that the loop works for".to_owned();
            report.value(doc, "/name", "an agent cannot be called `human`", help);
        } else if !is_kebab(&spec.name) {
            let help = "use lower-case letters, digits and `-`, beginning with a letter".to_owned();
            report.value(doc, "/name", format!("`{}` is no name for an agent", spec.name), help);
            report.suspect_form(&spec.name);
        } else if let Some((path, place)) = names.get(spec.name.as_str()) {
            let message = format!("there is another agent called `{}`", spec.name);
            report.value(doc, "/name", message, format!("the first is at {}", spot(path, *place)));
        } else if let Some(other) = specs.agents.iter().find(|other| is_id_of(other, agent)) {
            let message = format!("`{}` is the id of another agent, and either calls an agent", spec.name);
            let place = spot(&other.file.path, other.file.tree.value_place("/id"));
            report.value(doc, "/name", message, format!("rename one; the id is at {place}"));
        } else if matches!(spec.name.as_str(), "self" | "agents") {
            let message = format!("an agent cannot be called `{}`, which is taken in Rust", spec.name);
            report.value(doc, "/name", message, "choose another name".to_owned());
        } else if let Some((path, place)) = pascals.get(&pascal_case(&spec.name)) {
            let message = format!("the agent `{}` is called in Rust like another one", spec.name);
            report.value(
                doc,
                "/name",
                message,
                format!("rename one; the first is at {}", spot(path, *place)),
            );
        } else {
            let here = doc.tree.value_place("/name");
            names.insert(&spec.name, (doc.path, here));
            pascals.insert(pascal_case(&spec.name), (doc.path, here));
        }
        if !report.is_sound(doc, "/name") {
            report.suspect_agent(&agent.file.stem);
        }
        for name in spec.sandbox.env.keys() {
            let valid = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            if !name.chars().all(valid) || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
                let help = "use upper-case letters, digits and `_`".to_owned();
                let pointer = child("/sandbox/env", name);
                report.key(
                    doc,
                    &pointer,
                    format!("`{name}` is no name for an environment variable"),
                    help,
                );
            }
        }
    }
}

fn is_id_of(other: &AgentFile, agent: &AgentFile) -> bool {
    other.file.path != agent.file.path && other.file.spec.id == agent.file.spec.name
}

fn failures(specs: &Specs, report: &mut Report) {
    for tool in &specs.tools {
        let doc = tool.file.doc();
        let mut variants: HashMap<String, &str> = HashMap::new();
        for (code, entry) in &tool.file.spec.failures {
            let pointer = child("/failures", code);
            let pascal = pascal_case(code);
            if CommonFailure::CODES.contains(&code.as_str()) {
                let help = format!("remove it here and add `{code}` to `common_failures`");
                report.key(doc, &pointer, format!("`{code}` is a failure that tools share"), help);
            } else if !is_snake(code) {
                let help = "use lower-case letters, digits and `_`, beginning with a letter".to_owned();
                report.key(doc, &pointer, format!("`{code}` is no code of a failure"), help);
            } else if pascal == "Self" {
                report.key(
                    doc,
                    &pointer,
                    format!("`{code}` cannot be a name in Rust"),
                    "rename it".to_owned(),
                );
            } else if let Some(first) = variants.get(&pascal) {
                let message = format!("the failures `{code}` and `{first}` are both `{pascal}` in Rust");
                report.key(doc, &pointer, message, "rename one of them".to_owned());
            } else {
                variants.insert(pascal, code);
            }
            let (text, at) = match entry {
                FailureEntry::Text(text) => (text, pointer.clone()),
                FailureEntry::Detail(detail) => (&detail.summary, child(&pointer, "summary")),
            };
            if text.trim().is_empty() {
                report.value(
                    doc,
                    &at,
                    format!("the failure `{code}` has no meaning"),
                    "say in one sentence when it happens".to_owned(),
                );
            }
        }
        let mut listed: Vec<&str> = Vec::new();
        for (index, code) in tool.file.spec.common_failures.iter().enumerate() {
            let pointer = format!("/common_failures/{index}");
            if !CommonFailure::CODES.contains(&code.as_str()) {
                let help = suggest(code, CommonFailure::CODES.iter().copied());
                report.value(doc, &pointer, format!("`{code}` is no failure that tools share"), help);
            } else if listed.contains(&code.as_str()) {
                report.value(
                    doc,
                    &pointer,
                    format!("`{code}` is listed twice"),
                    "remove one".to_owned(),
                );
            }
            listed.push(code);
        }
    }
}

/// Version, timeout, category, tags.
fn catalogue(specs: &Specs, report: &mut Report) {
    for tool in &specs.tools {
        let doc = tool.file.doc();
        let spec = &tool.file.spec;
        if let Some(version) = spec.version.as_deref().filter(|version| !is_semver(version)) {
            let help = "write three numbers: `1.0.0`".to_owned();
            report.value(doc, "/version", format!("`{version}` is no semantic version"), help);
        }
        if let Some(timeout) = spec.timeout.as_deref().filter(|timeout| timeout_ms(timeout).is_none()) {
            let help = "write a whole number above 0 with `ms`, `s` or `m`: `30s`".to_owned();
            report.value(doc, "/timeout", format!("`{timeout}` is no time"), help);
        }
        if let Some(category) = spec.category.as_deref().filter(|category| !is_tag(category)) {
            let help = "use lower-case letters, digits, `-` and `_`".to_owned();
            report.value(
                doc,
                "/category",
                format!("`{category}` is no name for a category"),
                help,
            );
        }
        for (index, tag) in spec.tags.iter().enumerate() {
            let pointer = format!("/tags/{index}");
            if !is_tag(tag) {
                let help = "use lower-case letters, digits, `-` and `_`".to_owned();
                report.value(doc, &pointer, format!("`{tag}` is no tag"), help);
            } else if spec.tags[..index].contains(tag) {
                report.value(
                    doc,
                    &pointer,
                    format!("the tag `{tag}` is listed twice"),
                    "remove one".to_owned(),
                );
            }
        }
    }
}

/// Shared types and events.
fn shared(specs: &Specs, report: &mut Report) {
    let doc = specs.types.doc();
    for name in specs.types.spec.types.keys() {
        let pointer = child("/types", name);
        if !is_pascal(name) {
            let pascal: String = pascal_case(name).chars().filter(char::is_ascii_alphanumeric).collect();
            let help = if is_pascal(&pascal) {
                format!("write `{pascal}`")
            } else {
                "write it like `RelPath`".to_owned()
            };
            report.key(doc, &pointer, format!("`{name}` is no name for a type"), help);
            report.suspect_form(name);
        } else if is_reserved(name) {
            report.key(
                doc,
                &pointer,
                format!("the name `{name}` is taken in Rust"),
                "rename the type".to_owned(),
            );
        }
    }
    let doc = specs.events.doc();
    let mut variants = HashMap::new();
    for name in specs.events.spec.events.keys() {
        let pointer = child("/events", name);
        if is_event(name) {
            unique(doc, &pointer, name, pascal_case(name), &mut variants, report);
        } else {
            let help = "write `subject.event` in lower-case letters: `agent.todolist`".to_owned();
            report.key(doc, &pointer, format!("`{name}` is no name for an event"), help);
            report.suspect_form(name);
        }
    }
}

fn unique<'a>(
    doc: Doc<'_>,
    pointer: &str,
    name: &'a str,
    key: String,
    seen: &mut HashMap<String, &'a str>,
    report: &mut Report,
) {
    if let Some(first) = seen.get(&key) {
        let both = list(&[name, first]);
        report.key(
            doc,
            pointer,
            format!("the events {both} have the same name in Rust"),
            "rename one of them".to_owned(),
        );
    } else {
        seen.insert(key, name);
    }
}

fn too_long(name: &str) -> Option<String> {
    let length = MCP_PREFIX.len() + name.len();
    (length > MCP_LONGEST).then(|| format!("`{MCP_PREFIX}{name}` has {length} characters; clients take {MCP_LONGEST}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_is_fifty_characters() {
        assert_eq!(too_long(&"a".repeat(50)), None);
        assert!(too_long(&"a".repeat(51)).is_some());
    }
}
