//! What specs say about each other: events, tools, agents, state of the machine.

use std::collections::HashMap;

use super::forms::{is_event, is_kebab, is_snake};
use crate::model::WriteEntry;
use crate::pointer::child;
use crate::report::Report;
use crate::specs::{Doc, Specs};
use crate::suggest::suggest;

/// State of the machine that a tool may declare.
pub(crate) const HOST_EFFECTS: &[&str] = &["port_leases"];
/// The document sites.
pub(crate) const SITES: &[&str] = &["prd", "sdd"];

pub(super) fn check(specs: &Specs, report: &mut Report) {
    let agents: Vec<&str> = specs.agents.iter().map(|agent| agent.file.spec.name.as_str()).collect();
    // Advice names nothing that is an error itself.
    let known: Vec<&str> = agents.iter().copied().filter(|name| is_kebab(name)).collect();
    for tool in &specs.tools {
        let doc = tool.file.doc();
        let effects = &tool.file.spec.effects;
        for (index, name) in effects.events.iter().enumerate() {
            let pointer = format!("/effects/events/{index}");
            let events = &specs.events.spec.events;
            if effects.events[..index].contains(name) {
                report.value(
                    doc,
                    &pointer,
                    format!("the event `{name}` is listed twice"),
                    "remove one".to_owned(),
                );
            } else if !events.contains_key(name) && !report.may_exist("specs/events", name) {
                let help = suggest(name, events.keys().map(String::as_str).filter(|name| is_event(name)));
                report.value(
                    doc,
                    &pointer,
                    format!("there is no event `{name}` in `events.yaml`"),
                    help,
                );
            }
        }
        for (index, name) in effects.host.iter().enumerate() {
            if !HOST_EFFECTS.contains(&name.as_str()) {
                let help = suggest(name, HOST_EFFECTS.iter().copied());
                report.value(
                    doc,
                    &format!("/effects/host/{index}"),
                    format!("`{name}` is no state of the machine"),
                    help,
                );
            }
        }
        for (index, entry) in effects.writes.iter().enumerate() {
            let WriteEntry::When(entry) = entry else { continue };
            for (number, name) in entry.only.iter().enumerate() {
                if !agents.contains(&name.as_str()) && !report.may_exist("specs/agents/", name) {
                    let pointer = format!("/effects/writes/{index}/only/{number}");
                    report.value(
                        doc,
                        &pointer,
                        format!("there is no agent `{name}`"),
                        suggest(name, known.iter().copied()),
                    );
                }
            }
        }
    }

    let names = Names::of(specs);
    for agent in &specs.agents {
        let doc = agent.file.doc();
        let spec = &agent.file.spec;
        for (index, name) in spec.cli.tools.iter().enumerate() {
            let pointer = format!("/cli/tools/{index}");
            if spec.cli.tools[..index].contains(name) {
                report.value(
                    doc,
                    &pointer,
                    format!("the tool `{name}` is granted twice"),
                    "remove one".to_owned(),
                );
            } else {
                names.tool(doc, &pointer, name, report);
            }
        }
        for (index, name) in spec.cli.builtins.iter().enumerate() {
            let pointer = format!("/cli/builtins/{index}");
            if name.trim().is_empty() {
                report.value(doc, &pointer, "a tool without a name", "remove it".to_owned());
            } else if spec.cli.builtins[..index].contains(name) {
                let message = format!("`{name}` is listed twice");
                report.value(doc, &pointer, message, "remove one".to_owned());
            }
        }
        for (index, name) in spec.cli.host_tools.iter().enumerate() {
            let pointer = format!("/cli/host_tools/{index}");
            if names.tools.contains(&name.as_str()) {
                let message = format!("`{name}` is a tool of these specs, not of a host");
                let help = if names.catalog.contains(&name.as_str()) {
                    "remove it: every agent has the tools of the group `catalog`"
                } else {
                    "grant it under `tools`"
                };
                report.value(doc, &pointer, message, help.to_owned());
            } else if let Some(tool) = names.aliases.get(name.as_str()) {
                let message = format!("`{name}` is another name of `{tool}`, a tool of these specs");
                report.value(doc, &pointer, message, format!("grant `{tool}` under `tools`"));
            } else if name.trim().is_empty() {
                report.value(doc, &pointer, "a tool without a name", "remove it".to_owned());
            } else if spec.cli.host_tools[..index].contains(name) {
                report.value(
                    doc,
                    &pointer,
                    format!("the tool `{name}` is granted twice"),
                    "remove one".to_owned(),
                );
            }
        }
        for name in spec.sandbox.write_via.keys() {
            if spec.cli.tools.contains(name) || !report.is_sound(doc, "/cli/tools") {
                continue;
            }
            let pointer = child("/sandbox/write_via", name);
            if let Some(tool) = names.aliases.get(name.as_str()) {
                let message = format!("`{name}` is another name of `{tool}`");
                report.key(doc, &pointer, message, format!("write `{tool}`"));
            } else {
                let help = suggest(name, spec.cli.tools.iter().map(String::as_str));
                report.key(
                    doc,
                    &pointer,
                    format!("`{name}` is not among the tools granted to this agent"),
                    help,
                );
            }
        }
        for (key, others) in [
            ("upstream", &spec.place.upstream),
            ("downstream", &spec.place.downstream),
        ] {
            for (index, name) in others.iter().enumerate() {
                if name != "human" && !agents.contains(&name.as_str()) && !report.may_exist("specs/agents/", name) {
                    let pointer = format!("/devloop/{key}/{index}");
                    let known = known.iter().copied().chain(["human"]);
                    report.value(
                        doc,
                        &pointer,
                        format!("there is no agent `{name}`"),
                        suggest(name, known),
                    );
                }
            }
        }
        if let Some(site) = spec.sandbox.site.as_deref().filter(|site| !SITES.contains(site)) {
            let help = suggest(site, SITES.iter().copied());
            report.value(
                doc,
                "/sandbox/site",
                format!("there is no document site `{site}`"),
                help,
            );
        }
    }
}

/// The callable names of all tools.
struct Names<'a> {
    tools: Vec<&'a str>,
    /// Other name to name.
    aliases: HashMap<&'a str, &'a str>,
    /// Those of `tools` that every agent has.
    catalog: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn of(specs: &'a Specs) -> Self {
        let mut tools = Vec::new();
        let mut aliases = HashMap::new();
        let mut catalog = Vec::new();
        for tool in &specs.tools {
            let spec = &tool.file.spec;
            let before = tools.len();
            if spec.tools.is_empty() {
                tools.push(spec.handler.as_str());
            }
            for face in &spec.tools {
                tools.push(face.name.as_str());
                aliases.extend(face.aliases.iter().map(|alias| (alias.as_str(), face.name.as_str())));
            }
            if tool.is_of_catalog() {
                catalog.extend_from_slice(&tools[before..]);
            }
        }
        Self {
            tools,
            aliases,
            catalog,
        }
    }

    fn tool(&self, doc: Doc<'_>, pointer: &str, name: &str, report: &mut Report) {
        if self.catalog.contains(&name) {
            let message = format!("`{name}` is a tool of the group `catalog`, which every agent has");
            report.value(doc, pointer, message, "remove it".to_owned());
        } else if self.tools.contains(&name) {
        } else if let Some(tool) = self.aliases.get(name) {
            let message = format!("`{name}` is another name of `{tool}`, a grant names the tool itself");
            report.value(doc, pointer, message, format!("write `{tool}`"));
        } else if !report.may_exist("specs/tools/", name) {
            let grantable = |tool: &&str| is_snake(tool) && !self.catalog.contains(tool);
            let help = suggest(name, self.tools.iter().copied().filter(grantable));
            report.value(doc, pointer, format!("there is no tool `{name}`"), help);
        }
    }
}
