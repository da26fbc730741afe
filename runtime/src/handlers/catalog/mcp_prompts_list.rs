//! `mcp_prompts_list`: the prompts that upstream servers offer.

use devloop_contract::{Handle, Outcome};
use devloop_generated::tools::catalog::mcp_prompts_list::{Failure, Input, McpPromptsList, Output, OutputFailedItem};

use crate::context::Context;
use crate::servers::{Servers, has_none, listed, refusal, server_failure, text};

server_failure!(mcp_prompts_list);

/// So many pages of a server are read; one that never ends must not keep the call.
const MOST_PAGES: usize = 20;

impl Handle<McpPromptsList> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        let (mut prompts, mut failed) = (Vec::new(), Vec::new());
        let servers = Servers::of(self);
        let Some((upstreams, names)) = servers.asked(input.server.as_deref())? else {
            return Ok(Output { prompts, failed: None });
        };
        for server in names {
            let mut cursor = None;
            for _ in 0..MOST_PAGES {
                match upstreams.prompts_list(&server, cursor.take(), servers.options()).await {
                    Ok(mut page) => {
                        cursor = text(&page, "nextCursor");
                        prompts.extend(listed(&mut page, "prompts", &server));
                    }
                    Err(error) if has_none(&error) => {}
                    Err(error) if input.server.is_some() => return Err(refusal(&error)),
                    Err(error) => failed.push(OutputFailedItem {
                        reason: error.to_string(),
                        server: server.clone(),
                    }),
                }
                if cursor.is_none() {
                    break;
                }
            }
        }
        Ok(Output {
            prompts,
            failed: (!failed.is_empty()).then_some(failed),
        })
    }
}
