//! `mcp_resources_list`: the resources and resource templates that upstream servers offer.

use devloop_contract::{Handle, Outcome, ToolError};
use devloop_generated::tools::catalog::mcp_resources_list::{
    Failure, Input, McpResourcesList, Output, OutputFailedItem, OutputServersItem,
};

use crate::context::Context;
use crate::servers::{Servers, listed, server_failure, text};

server_failure!(mcp_resources_list);

impl Handle<McpResourcesList> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        if input.cursor.is_some() && input.server.is_none() {
            let problem = "a cursor belongs to one server: name it in `server`";
            return Err(ToolError::validation("cursor", problem).into());
        }
        let servers = Servers::of(self);
        let answers = servers.ask(input.server.as_deref(), |upstreams, server| {
            let (cursor, options) = (input.cursor.clone(), servers.options());
            async move {
                let is_first = cursor.is_none();
                let mut page = upstreams.resources_list(&server, cursor, options.clone()).await?;
                let (next, resources) = (text(&page, "nextCursor"), listed(&mut page, "resources", &server));
                let mut templates = Vec::new();
                // A server may have resources and no templates.
                if is_first && let Ok(mut page) = upstreams.resource_templates_list(&server, None, options).await {
                    templates = listed(&mut page, "resourceTemplates", &server);
                }
                Ok((resources, templates, next))
            }
        });
        let answers = answers.await?;
        let mut output = Output {
            resources: Vec::new(),
            templates: Vec::new(),
            next_cursor: None,
            servers: if input.cursor.is_none() {
                some(said(&servers, input.server.as_deref()))
            } else {
                None
            },
            failed: answers.failed(|server, reason| OutputFailedItem { server, reason }),
        };
        for (resources, templates, next) in answers.found {
            output.resources.extend(resources);
            output.templates.extend(templates);
            // One of many servers would not know it again.
            output.next_cursor = next.filter(|_| input.server.is_some());
        }
        Ok(output)
    }
}

/// What servers say of their use, as far as they are connected and say anything.
fn said(servers: &Servers<'_>, only: Option<&str>) -> Vec<OutputServersItem> {
    let all = servers.instructions().into_iter();
    let wanted = all.filter(|(server, _)| only.is_none_or(|only| only == server));
    wanted
        .map(|(server, instructions)| OutputServersItem { server, instructions })
        .collect()
}

/// What is not there is left out.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
