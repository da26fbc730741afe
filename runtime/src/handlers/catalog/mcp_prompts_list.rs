//! `mcp_prompts_list`: the prompts that upstream servers offer.

use devloop_contract::{Handle, Outcome};
use devloop_generated::tools::catalog::mcp_prompts_list::{Failure, Input, McpPromptsList, Output, OutputFailedItem};

use crate::context::Context;
use crate::servers::{Servers, listed, server_failure, text};

server_failure!(mcp_prompts_list);

/// So many pages of a server are read; one that never ends must not keep the call.
const MOST_PAGES: usize = 20;

impl Handle<McpPromptsList> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        let servers = Servers::of(self);
        let answers = servers.ask(input.server.as_deref(), |upstreams, server| {
            let options = servers.options();
            async move {
                let (mut prompts, mut cursor) = (Vec::new(), None);
                for _ in 0..MOST_PAGES {
                    let mut page = upstreams.prompts_list(&server, cursor, options.clone()).await?;
                    cursor = text(&page, "nextCursor");
                    prompts.extend(listed(&mut page, "prompts", &server));
                    if cursor.is_none() {
                        break;
                    }
                }
                Ok(prompts)
            }
        });
        let answers = answers.await?;
        Ok(Output {
            failed: answers.failed(|server, reason| OutputFailedItem { server, reason }),
            prompts: answers.found.into_iter().flatten().collect(),
        })
    }
}
