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
        let asked = servers.asked(input.server.as_deref())?;
        let (upstreams, names) = asked.map_or((None, Vec::new()), |(upstreams, names)| (Some(upstreams), names));
        for (server, upstreams) in names.into_iter().zip(upstreams.into_iter().cycle()) {
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
