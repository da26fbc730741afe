//! `mcp_task_list`: the tasks that upstream servers carry out.

use devloop_contract::{Handle, Outcome};
use devloop_generated::tools::catalog::mcp_task_list::{Failure, Input, McpTaskList, Output, OutputFailedItem};

use crate::context::Context;
use crate::servers::{Servers, listed, server_failure};

server_failure!(mcp_task_list);

impl Handle<McpTaskList> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        let servers = Servers::of(self);
        let answers = servers.ask(input.server.as_deref(), |upstreams, server| {
            let options = servers.options();
            async move {
                let mut page = upstreams.task_list(&server, None, options).await?;
                Ok(listed(&mut page, "tasks", &server))
            }
        });
        let answers = answers.await?;
        Ok(Output {
            failed: answers.failed(|server, reason| OutputFailedItem { server, reason }),
            tasks: answers.found.into_iter().flatten().collect(),
        })
    }
}
