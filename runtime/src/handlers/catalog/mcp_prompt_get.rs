//! `mcp_prompt_get`: one prompt of an upstream server, filled in.

use devloop_contract::{Handle, Outcome};
use devloop_generated::tools::catalog::mcp_prompt_get::{Failure, Input, McpPromptGet, Output};
use serde_json::Value;

use crate::context::Context;
use crate::servers::{Servers, objects, refusal, server_failure, text};

server_failure!(mcp_prompt_get);

impl Handle<McpPromptGet> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        let servers = Servers::of(self);
        let upstreams = servers.one(&input.server)?;
        let arguments = input.arguments.into_iter();
        let arguments = arguments.map(|(name, value)| (name, Value::from(value))).collect();
        let answer = upstreams.prompt_get(&input.server, &input.name, arguments, servers.options());
        let mut answer = answer.await.map_err(|error| refusal(&error))?;
        Ok(Output {
            messages: objects(&mut answer, "messages"),
            description: text(&answer, "description"),
            server: input.server,
            name: input.name,
        })
    }
}
