//! `tool_search`: finds tools that are there but not shown, and shows them from now on.
//!
//! Answers for the form of the answer. Leaves out finding and loading (the core's `catalogue`).

use devloop_contract::{Handle, InternalError, Outcome, ToolError};
use devloop_core::catalogue::{Maximum, Unknown, selected};
use devloop_core::registry::{Text, projection};
use devloop_generated::tools::catalog::tool_search::{
    Failure, Input, Output, OutputToolsItem, OutputUnknownItem, ToolSearch,
};
use serde_json::{Map, Value};

use crate::context::Context;

impl Handle<ToolSearch> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        let maximum = Maximum::try_from(input.max_results)
            .map_err(|error| ToolError::validation("max_results", error.to_string()))?;
        if selected(&input.query).is_some_and(|mut names| names.next().is_none()) {
            let problem = "no name follows `select:`; expected names with commas between them, as in `select:docs__read,docs__list`";
            return Err(ToolError::validation("query", problem).into());
        }
        let (catalogue, phase) = (self.session().catalogue(), self.session().phase());
        let found = catalogue.tool_search(&input.query, maximum, phase);
        let mut tools = Vec::with_capacity(found.tools.len());
        for entry in &found.tools {
            let tool = entry.definition();
            tools.push(OutputToolsItem {
                name: tool.name.to_string(),
                title: tool.title.to_string(),
                summary: tool.summary.to_string(),
                kind: tool.kind.as_str().to_owned(),
                input_schema: schema(projection::mcp(tool))?,
            });
        }
        let left = catalogue.snapshot().deferred(phase);
        Ok(Output {
            tools,
            loaded: texts(found.loaded),
            unknown: some(found.unknown.into_iter().map(unknown).collect()),
            hidden: some(texts(found.hidden)),
            omitted: some(texts(found.omitted)),
            total_deferred: u64::try_from(left).unwrap_or(u64::MAX),
        })
    }
}

/// The input schema as clients are told it.
fn schema(listed: Result<Value, InternalError>) -> Result<Map<String, Value>, InternalError> {
    match listed?.get_mut("inputSchema").map(Value::take) {
        Some(Value::Object(schema)) => Ok(schema),
        _ => Err(InternalError::bare("a tool without an input schema")),
    }
}

fn texts(texts: Vec<Text>) -> Vec<String> {
    texts.into_iter().map(Text::into_owned).collect()
}

/// What is not there is left out.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn unknown(unknown: Unknown) -> OutputUnknownItem {
    OutputUnknownItem {
        name: unknown.name,
        nearest: unknown.nearest,
    }
}
