//! `mcp_task_get`: where one task of an upstream server stands.

use devloop_contract::{Because, Handle, Outcome};
use devloop_generated::tools::catalog::mcp_task_get::{Failure, Input, McpTaskGet, Output};
use serde_json::Value;

use crate::context::Context;
use crate::servers::{INVALID_PARAMS, Servers, is_refused, refusal, server_failure, text};

server_failure!(mcp_task_get);

impl Handle<McpTaskGet> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        let servers = Servers::of(self);
        let upstreams = servers.one(&input.server)?;
        let answer = upstreams
            .task_get(&input.server, &input.task_id, servers.options())
            .await;
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(error) if is_refused(&error, INVALID_PARAMS) => {
                return Err(Failure::UnknownTask.because(error.to_string()));
            }
            Err(error) => return Err(refusal(&error)),
        };
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
