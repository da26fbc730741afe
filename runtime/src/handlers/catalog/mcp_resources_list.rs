//! `mcp_resources_list`: the resources and resource templates that upstream servers offer.

use devloop_contract::{Handle, Outcome};
use devloop_generated::tools::catalog::mcp_resources_list::{
    Failure, Input, InputList, McpResourcesList, Output, OutputFailedItem, OutputMoreItem, OutputMoreItemList,
    OutputServersItem,
};

use crate::context::Context;
use crate::pages::{Pages, follow};
use crate::servers::{Servers, cursor_of_one, has_none, server_failure, some};
use crate::upstream::CallError;

server_failure!(mcp_resources_list);

/// What one server has.
struct Found {
    server: String,
    resources: Pages,
    templates: Pages,
    /// Why it has not said its templates, though it has said its resources.
    no_templates: Option<String>,
}

impl Handle<McpResourcesList> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        cursor_of_one(input.cursor.as_ref(), input.server.as_ref())?;
        let only = input.list.or(input.cursor.is_some().then_some(InputList::Resources));
        let servers = Servers::of(self);
        let answers = servers.ask(input.server.as_deref(), |upstreams, server| {
            let (cursor, bounds, options) = (input.cursor.clone(), servers.bounds(), servers.options());
            async move {
                let resources = |cursor| upstreams.resources_list(&server, cursor, options.clone());
                let templates = |cursor| upstreams.resource_templates_list(&server, cursor, options.clone());
                let mut found = Found {
                    server: server.clone(),
                    resources: Pages::default(),
                    templates: Pages::default(),
                    no_templates: None,
                };
                match only {
                    Some(InputList::Resources) => {
                        found.resources = follow(&server, "resources", cursor, bounds, resources).await?;
                    }
                    Some(InputList::Templates) => {
                        found.templates = follow(&server, "resourceTemplates", cursor, bounds, templates).await?;
                    }
                    None => {
                        found.resources = follow(&server, "resources", None, bounds, resources).await?;
                        match follow(&server, "resourceTemplates", None, bounds, templates).await {
                            Ok(pages) => found.templates = pages,
                            Err(CallError::Cancelled) => return Err(CallError::Cancelled),
                            // A server may have resources and no templates.
                            Err(error) if has_none(&error) => {}
                            Err(error) => found.no_templates = Some(error.to_string()),
                        }
                    }
                }
                Ok(found)
            }
        });
        let answers = answers.await?;
        let failed = answers.failed(|server, reason| OutputFailedItem { server, reason });
        let (mut resources, mut templates, mut more) = (Vec::new(), Vec::new(), Vec::new());
        for found in answers.found {
            let mut tell = |list, cursor, reason| {
                more.push(OutputMoreItem {
                    server: found.server.clone(),
                    list,
                    cursor,
                    reason,
                });
            };
            if let Some(cut) = found.resources.cut {
                tell(OutputMoreItemList::Resources, Some(cut.cursor), cut.reason);
            }
            if let Some(cut) = found.templates.cut {
                tell(OutputMoreItemList::Templates, Some(cut.cursor), cut.reason);
            }
            if let Some(reason) = found.no_templates {
                tell(OutputMoreItemList::Templates, None, reason);
            }
            resources.extend(found.resources.items);
            templates.extend(found.templates.items);
        }
        Ok(Output {
            resources,
            templates,
            more: some(more),
            servers: if input.cursor.is_none() {
                some(said(&servers, input.server.as_deref()))
            } else {
                None
            },
            failed,
        })
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
