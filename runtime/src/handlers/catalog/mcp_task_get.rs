//! `mcp_task_get`: where one task of an upstream server stands.

use devloop_contract::{Handle, Outcome};
use devloop_generated::tools::catalog::mcp_task_get::{Failure, Input, McpTaskGet, Output};
use serde_json::Value;

use crate::context::Context;
use crate::servers::{Servers, server_failure, task_refusal, text};

server_failure!(mcp_task_get);

impl Handle<McpTaskGet> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        let servers = Servers::of(self);
        let upstreams = servers.one(&input.server)?;
        let answer = upstreams
            .task_get(&input.server, &input.task_id, servers.options())
            .await;
        let mut answer = answer.map_err(|error| task_refusal(&error, Failure::UnknownTask))?;
        let result = match answer.get_mut("result").map(Value::take) {
            Some(Value::Object(result)) => Some(result),
            _ => None,
        };
        Ok(Output {
            status: text(&answer, "status").unwrap_or_else(|| "unknown".to_owned()),
            message: text(&answer, "statusMessage"),
            server: input.server,
            task_id: input.task_id,
            result,
        })
    }
}
