//! `mcp_task_cancel`: tells an upstream server to stop one task.

use devloop_contract::{Handle, Outcome};
use devloop_generated::tools::catalog::mcp_task_cancel::{Failure, Input, McpTaskCancel, Output};

use crate::context::Context;
use crate::servers::{Servers, server_failure, task_refusal, text};

server_failure!(mcp_task_cancel);

impl Handle<McpTaskCancel> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        let servers = Servers::of(self);
        let upstreams = servers.one(&input.server)?;
        let answer = upstreams
            .task_cancel(&input.server, &input.task_id, servers.options())
            .await;
        let answer = answer.map_err(|error| task_refusal(&error, Failure::UnknownTask))?;
        Ok(Output {
            // One version of the protocol only says that it heard.
            status: text(&answer, "status").unwrap_or_else(|| "cancelled".to_owned()),
            message: text(&answer, "statusMessage"),
            server: input.server,
            task_id: input.task_id,
        })
    }
}
