//! `mcp_resources_list`: the resources and resource templates that upstream servers offer.

use devloop_contract::{Handle, Outcome, ToolError};
use devloop_generated::tools::catalog::mcp_resources_list::{
    Failure, Input, McpResourcesList, Output, OutputFailedItem,
};

use crate::context::Context;
use crate::servers::{Servers, has_none, listed, refusal, server_failure, text};

server_failure!(mcp_resources_list);

impl Handle<McpResourcesList> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        if input.cursor.is_some() && input.server.is_none() {
            let problem = "a cursor belongs to one server: name it in `server`";
            return Err(ToolError::validation("cursor", problem).into());
        }
        let mut output = Output {
            resources: Vec::new(),
            templates: Vec::new(),
            next_cursor: None,
            failed: None,
        };
        let servers = Servers::of(self);
        let Some((upstreams, names)) = servers.asked(input.server.as_deref())? else {
            return Ok(output);
        };
        let mut failed = Vec::new();
        for server in names {
            let page = upstreams.resources_list(&server, input.cursor.clone(), servers.options());
            match page.await {
                Ok(mut page) => {
                    output.resources.extend(listed(&mut page, "resources", &server));
                    if input.server.is_some() {
                        output.next_cursor = text(&page, "nextCursor");
                    }
                }
                Err(error) if has_none(&error) => continue,
                Err(error) if input.server.is_some() => return Err(refusal(&error)),
                Err(error) => {
                    let reason = error.to_string();
                    failed.push(OutputFailedItem { server, reason });
                    continue;
                }
            }
            if input.cursor.is_some() {
                continue;
            }
            let templates = upstreams.resource_templates_list(&server, None, servers.options());
            // A server may have resources and no templates.
            if let Ok(mut page) = templates.await {
                output.templates.extend(listed(&mut page, "resourceTemplates", &server));
            }
        }
        output.failed = (!failed.is_empty()).then_some(failed);
        Ok(output)
    }
}
