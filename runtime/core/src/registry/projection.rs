//! Tools in the forms that clients and providers read.
//!
//! Answers for pure functions from a [`Definition`] to the declaration that each provider takes, with what it is not
//! told. What happens to a schema on the way stands in [`devloop_contract::projection`]. Leaves out which form somebody
//! gets.
//!
//! | form | rules |
//! |---|---|
//! | MCP | the protocol's `Tool`, all four annotations said; clients.md's bounds were kept when the tool came in |
//! | Anthropic | `{name, description, input_schema}` |
//! | OpenAI | `{type: function, function: {name, description, parameters, strict}}`, a description of at most 1,024 characters |
//! | Gemini | `{name, description, parameters}`, without `parameters` when there are none |

use devloop_contract::InternalError;
use devloop_contract::projection::{self, Loss, published, published_output};
use devloop_contract::tool::{Exposure, Rule};
use serde_json::{Map, Value, json};

use super::definition::{Definition, Owner, Schema, Trust};

/// A declaration, and what its reader is not told.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// The declaration.
    pub value: Value,
    /// What is lost, by its place in the input schema, or of the description. Admission checks it all the same.
    pub losses: Vec<Loss>,
}

/// As an MCP server lists it. The annotations are explicit, because their defaults claim that a tool destroys and reaches
/// the open world.
///
/// # Errors
/// A schema that is no JSON object.
pub fn mcp(tool: &Definition) -> Result<Value, InternalError> {
    let mut meta = Map::new();
    // Claude Code defers MCP tools behind its own search unless told otherwise.
    if tool.exposure == Exposure::Always {
        meta.insert("anthropic/alwaysLoad".into(), Value::Bool(true));
    }
    if !tool.tags.is_empty() {
        meta.insert("anthropic/searchHint".into(), tool.tags.join(" ").into());
    }
    if let Some(most) = tool.largest_result {
        meta.insert("anthropic/maxResultSizeChars".into(), most.into());
    }
    let mut out = Map::new();
    out.insert("name".into(), json!(tool.name));
    out.insert("title".into(), json!(tool.title));
    out.insert("description".into(), json!(tool.description));
    out.insert("inputSchema".into(), input(tool)?);
    if let Some(schema) = &tool.output_schema {
        out.insert("outputSchema".into(), published_output(read(tool, "output", schema)?));
    }
    out.insert(
        "annotations".into(),
        json!({
            "title": tool.title,
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destructive,
            "idempotentHint": tool.hints.idempotent,
            "openWorldHint": tool.hints.open_world,
        }),
    );
    if !meta.is_empty() {
        out.insert("_meta".into(), meta.into());
    }
    Ok(out.into())
}

/// As the Anthropic API takes it.
///
/// # Errors
/// A schema that is no JSON object.
pub fn anthropic(tool: &Definition) -> Result<Value, InternalError> {
    Ok(json!({ "name": tool.name, "description": tool.description, "input_schema": input(tool)? }))
}

/// As a function of the OpenAI API that is not strict.
///
/// # Errors
/// A schema that is no JSON object.
pub fn openai(tool: &Definition) -> Result<Declaration, InternalError> {
    Ok(function(tool, &input(tool)?, Mode::Plain, Vec::new()))
}

/// As a strict function of the OpenAI API; one that is not strict when strict mode can't say the schema at all, which is
/// then the first loss.
///
/// # Errors
/// A schema that is no JSON object.
pub fn openai_strict(tool: &Definition) -> Result<Declaration, InternalError> {
    let schema = input(tool)?;
    Ok(match projection::openai_strict(&schema) {
        Ok(projected) => function(tool, &projected.schema, Mode::Strict, projected.losses),
        Err(mut loss) => {
            loss.what.push_str("; the function is declared without strict mode");
            function(tool, &schema, Mode::Plain, vec![loss])
        }
    })
}

/// As a function declaration of the Gemini API.
///
/// # Errors
/// A schema that is no JSON object.
pub fn gemini(tool: &Definition) -> Result<Declaration, InternalError> {
    let projected = projection::gemini(&input(tool)?);
    let mut value = json!({ "name": tool.name, "description": tool.description });
    if !projected.schema.is_null() {
        value["parameters"] = projected.schema;
    }
    Ok(Declaration {
        value,
        losses: projected.losses,
    })
}

/// Everything that is said about a tool.
///
/// # Errors
/// A schema, an example or a bound value that is no JSON.
pub fn metadata(tool: &Definition) -> Result<Value, InternalError> {
    let text = |what: &str, text: &str| {
        let text = if text.trim().is_empty() { "{}" } else { text };
        serde_json::from_str::<Value>(text)
            .map_err(|error| InternalError::new(format!("{what} of {} is no JSON", tool.who()), error))
    };
    let mut examples = Vec::new();
    for example in &tool.examples {
        let mut value = json!({ "title": example.title, "input": text("an example", &example.input)? });
        if !example.output.is_empty() {
            value["output"] = text("an example", &example.output)?;
        }
        examples.push(value);
    }
    let failures: Map<String, Value> = tool
        .failures
        .iter()
        .map(|failure| {
            let value = json!({ "summary": failure.summary, "hint": failure.hint });
            (failure.code.to_owned(), value)
        })
        .collect();
    let writes = tool.effects.writes.iter();
    let writes: Vec<Value> = writes
        .map(|write| json!({ "path": write.path, "only": write.only, "when": write.when }))
        .collect();
    let output = match &tool.output_schema {
        Some(schema) => read(tool, "output", schema)?.clone(),
        None => Value::Null,
    };
    let mut out = json!({
        "name": tool.name,
        "title": tool.title,
        "aliases": tool.aliases,
        "owner": match &tool.owner {
            Owner::BuiltIn => "built_in",
            Owner::Host => "host",
            Owner::Server(_) => "server",
        },
        "server": match &tool.owner {
            Owner::Server(name) => Some(name),
            Owner::BuiltIn | Owner::Host => None,
        },
        "trusted": tool.trust == Trust::Trusted,
        "spec": tool.source,
        "summary": tool.summary,
        "details": tool.details,
        "notes": tool.notes,
        "cautions": tool.cautions,
        "description": tool.description,
        "kind": tool.kind.as_str(),
        "read_only_hint": tool.hints.read_only,
        "idempotent": tool.hints.idempotent,
        "destructive": tool.hints.destructive,
        "open_world": tool.hints.open_world,
        "parallelism": tool.parallelism.as_str(),
        "concurrency_safe": tool.concurrency_safe,
        "retry_safe": tool.retry_safe,
        "strict": tool.strict,
        "exposure": tool.exposure.as_str(),
        "category": tool.category,
        "tags": tool.tags,
        "version": tool.version,
        "permission": { "signature": tool.permission.signature, "rule": tool.permission.rule },
        "affected_paths": tool.affected_paths,
        "path_fields": tool.path_fields,
        "timeout_ms": u64::try_from(tool.timeout.as_millis()).unwrap_or(u64::MAX),
        "bind": text("what is bound", &tool.bind)?,
        "rules": tool.rules.iter().map(rule).collect::<Vec<_>>(),
        "input_schema": read(tool, "input", &tool.input_schema)?,
        "output_schema": output,
        "failures": failures,
        "common_failures": tool.common_failures,
        "effects": {
            "reads": tool.effects.reads,
            "writes": writes,
            "events": tool.effects.events,
            "host": tool.effects.host,
        },
        "examples": examples,
    });
    if let (Some(built_in), Some(out)) = (tool.built_in(), out.as_object_mut()) {
        out.insert("group".into(), built_in.group.into());
        out.insert("handler".into(), built_in.handler.into());
    }
    if let Some(most) = tool.largest_result {
        out["largest_result"] = most.into();
    }
    if let Some(annotations) = &tool.annotations {
        out["annotations"] = annotations.clone().into();
    }
    Ok(out)
}

/// Whether a function is strict.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Plain,
    Strict,
}

fn function(tool: &Definition, parameters: &Value, mode: Mode, mut losses: Vec<Loss>) -> Declaration {
    let (description, loss) = projection::description(&tool.description, projection::OPENAI_DESCRIPTION);
    losses.extend(loss);
    let value = json!({
        "type": "function",
        "function": {
            "name": tool.name, "description": description, "parameters": parameters, "strict": mode == Mode::Strict,
        },
    });
    Declaration { value, losses }
}

fn input(tool: &Definition) -> Result<Value, InternalError> {
    read(tool, "input", &tool.input_schema).map(published)
}

fn read<'t>(tool: &Definition, which: &str, schema: &'t Schema) -> Result<&'t Value, InternalError> {
    schema
        .value()
        .map_err(|error| InternalError::bare(format!("the {which} schema of {}: {error}", tool.who())))
}

fn rule(rule: &Rule) -> Value {
    match rule {
        Rule::ExactlyOneOf(fields) => json!({ "exactly_one_of": fields }),
        Rule::AtMostOneOf(fields) => json!({ "at_most_one_of": fields }),
        Rule::RequiredIf { field, when, is } => {
            let is: Vec<Value> = is
                .iter()
                .map(|text| serde_json::from_str(text).unwrap_or_else(|_| Value::from(*text)))
                .collect();
            json!({ "required_if": { "field": field, "when": when, "is": is } })
        }
    }
}

#[cfg(test)]
mod tests;
