//! `mcp_prompts_list`: the prompts that upstream servers offer.

use devloop_contract::{Handle, Outcome};
use devloop_generated::tools::catalog::mcp_prompts_list::{
    Failure, Input, McpPromptsList, Output, OutputFailedItem, OutputMoreItem,
};

use crate::context::Context;
use crate::pages::{follow, joined};
use crate::servers::{Servers, cursor_of_one, server_failure, some};

server_failure!(mcp_prompts_list);

impl Handle<McpPromptsList> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        cursor_of_one(input.cursor.as_ref(), input.server.as_ref())?;
        let servers = Servers::of(self);
        let answers = servers.ask(input.server.as_deref(), |upstreams, server| {
            let (cursor, bounds, options) = (input.cursor.clone(), servers.bounds(), servers.options());
            async move {
                let ask = |cursor| upstreams.prompts_list(&server, cursor, options.clone());
                let pages = follow(&server, "prompts", cursor, bounds, ask).await?;
                Ok((server, pages))
            }
        });
        let answers = answers.await?;
        let failed = answers.failed(|server, reason| OutputFailedItem { server, reason });
        let (prompts, more) = joined(answers.found, |server, cut| OutputMoreItem {
            server,
            cursor: cut.cursor,
            reason: cut.reason,
        });
        Ok(Output {
            prompts,
            more: some(more),
            failed,
        })
    }
}
