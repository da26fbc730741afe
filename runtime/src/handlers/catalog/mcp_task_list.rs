//! `mcp_task_list`: the tasks that upstream servers carry out.

use devloop_contract::{Handle, Outcome};
use devloop_generated::tools::catalog::mcp_task_list::{Failure, Input, McpTaskList, Output, OutputFailedItem};

use crate::context::Context;
use crate::servers::{Servers, has_none, listed, refusal, server_failure};

server_failure!(mcp_task_list);

impl Handle<McpTaskList> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        let (mut tasks, mut failed) = (Vec::new(), Vec::new());
        let servers = Servers::of(self);
        if let Some((upstreams, names)) = servers.asked(input.server.as_deref())? {
            for server in names {
                match upstreams.task_list(&server, None, servers.options()).await {
                    Ok(mut page) => tasks.extend(listed(&mut page, "tasks", &server)),
                    Err(error) if has_none(&error) => {}
                    Err(error) if input.server.is_some() => return Err(refusal(&error)),
                    Err(error) => failed.push(OutputFailedItem {
                        reason: error.to_string(),
                        server,
                    }),
                }
            }
        }
        Ok(Output {
            tasks,
            failed: (!failed.is_empty()).then_some(failed),
        })
    }
}
