//! `mcp_resources_read`: one resource of an upstream server.

use devloop_contract::{Handle, Outcome};
use devloop_generated::tools::catalog::mcp_resources_read::{Failure, Input, McpResourcesRead, Output};

use crate::context::Context;
use crate::servers::{Servers, objects, refusal, server_failure};

server_failure!(mcp_resources_read);

impl Handle<McpResourcesRead> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        let servers = Servers::of(self);
        let upstreams = servers.one(&input.server)?;
        let answer = upstreams.resource_read(&input.server, &input.uri, servers.options());
        let mut answer = answer.await.map_err(|error| refusal(&error))?;
        Ok(Output {
            contents: objects(&mut answer, "contents"),
            server: input.server,
        })
    }
}
