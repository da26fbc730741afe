//! `snapshot/agents.rs`: the agent templates.
//!
//! Answers for the ids and the tables. Leaves out the registry in the source system's shape.

use proc_macro2::TokenStream;
use quote::quote;

use super::Layout;
use super::rust::{RustFile, arms, docs, ident, prose, text, texts, upper_ident};
use super::tools::duration;
use crate::FileMap;
use crate::model::PolicyMode;
use crate::resolve::{HOOK_TIMEOUT_MS, pascal_case, timeout_ms};
use crate::specs::AgentFile;

/// Adds the file.
pub(super) fn emit(layout: &Layout<'_>, files: &mut FileMap) {
    let mut file = RustFile::new("specs/agents/");
    let agents: Vec<_> = layout
        .agents
        .iter()
        .map(|agent| {
            (
                ident(&pascal_case(&agent.file.spec.name)),
                constant(agent),
                &agent.file.spec,
            )
        })
        .collect();
    let variants = agents.iter().map(|(variant, _, spec)| {
        let docs = docs(&prose(&spec.summary));
        quote!(#docs #variant)
    });
    let all = agents.iter().map(|(variant, ..)| variant);
    let list = agents.iter().map(|(_, constant, _)| constant);
    let statics = arms(
        agents
            .iter()
            .map(|(variant, constant, _)| (quote!(Self::#variant), quote!(&#constant))),
    );
    let parses = agents.iter().map(|(variant, _, spec)| {
        let (name, id) = (&spec.name, &spec.id);
        let names = if name == id { quote!(#name) } else { quote!(#name | #id) };
        quote!(#names => Some(Self::#variant),)
    });
    file.push(quote! {
        /// An agent of the loop.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum AgentId { #(#variants),* }

        impl AgentId {
            /// Every agent, in the order of the loop.
            pub const ALL: &'static [Self] = &[#(Self::#all),*];

            /// Its template.
            pub const fn agent(self) -> &'static devloop_contract::Agent { match self { #statics } }

            /// The short name: `pm`.
            pub const fn name(self) -> &'static str { self.agent().name }

            /// The template's id: `devloop-pm`.
            pub const fn id(self) -> &'static str { self.agent().id }

            /// The agent of a short name or a template's id.
            pub fn parse(text: &str) -> Option<Self> { match text { #(#parses)* _ => None } }
        }

        /// Every agent template, in the order of the loop.
        pub static AGENTS: &[&devloop_contract::Agent] = &[#(&#list),*];
    });
    for agent in &layout.agents {
        file.push(table(agent));
    }
    files.insert("generated/snapshot/agents.rs".into(), file.finish());
}

fn constant(agent: &AgentFile) -> proc_macro2::Ident {
    upper_ident(&agent.file.spec.name.replace('-', "_"))
}

fn table(agent: &AgentFile) -> TokenStream {
    let spec = &agent.file.spec;
    let about = docs(&format!(
        "{}\n\nDeclared in `{}`.",
        prose(&spec.summary),
        agent.file.path
    ));
    let constant = constant(agent);
    let (id, name, title, summary, kind) = (
        &spec.id,
        &spec.name,
        text(&spec.title),
        text(spec.summary.trim()),
        text(&spec.kind),
    );
    let place = &spec.place;
    let (level, upstream, downstream) = (&place.level, texts(&place.upstream), texts(&place.downstream));
    let (model, prompt_file, prompt) = (
        &spec.cli.model,
        &spec.cli.system_prompt_file,
        text(&agent.prompt.replace("\r\n", "\n")),
    );
    let (builtins, tools, host_tools) = (
        texts(&spec.cli.builtins),
        texts(&spec.cli.tools),
        texts(&spec.cli.host_tools),
    );
    let needs_unit = spec.needs_unit;
    let sandbox = &spec.sandbox;
    let (cwd, site) = (text(&sandbox.cwd), sandbox.site.as_deref().unwrap_or_default());
    let (write_allow, raw_deny) = (texts(&sandbox.write_allow), texts(&sandbox.raw_deny));
    let read_allow = sandbox.read_allow.as_ref().map_or_else(|| texts(["**"]), texts);
    let write_via = sandbox.write_via.iter().map(|(tool, paths)| {
        let paths = texts(paths);
        quote!(devloop_contract::agent::WriteVia { tool: #tool, paths: #paths })
    });
    let env = sandbox.env.iter().map(|(name, value)| {
        let value = text(value);
        quote!((#name, #value))
    });
    let policy = &spec.policy;
    let mode = policy.mode.map_or("", PolicyMode::as_str);
    let (allow, ask, deny) = (texts(&policy.allow), texts(&policy.ask), texts(&policy.deny));
    let hooks = policy.hooks.iter().map(|hook| {
        let (event, calls) = (hook.event.as_str(), text(hook.calls.as_deref().unwrap_or("*")));
        let (command, time) = (texts(&hook.command), hook.timeout.as_deref().and_then(timeout_ms));
        let time = duration(time.unwrap_or(HOOK_TIMEOUT_MS));
        quote!(devloop_contract::agent::Hook { event: #event, calls: #calls, command: #command, timeout: #time })
    });
    quote! {
        #about
        pub static #constant: devloop_contract::Agent = devloop_contract::Agent {
            id: #id,
            name: #name,
            title: #title,
            summary: #summary,
            kind: #kind,
            loop_level: #level,
            upstream: #upstream,
            downstream: #downstream,
            model: #model,
            system_prompt_file: #prompt_file,
            prompt: #prompt,
            builtins: #builtins,
            tools: #tools,
            host_tools: #host_tools,
            needs_unit: #needs_unit,
            sandbox: devloop_contract::agent::Sandbox {
                cwd: #cwd,
                write_allow: #write_allow,
                raw_deny: #raw_deny,
                write_via: &[#(#write_via),*],
                read_allow: #read_allow,
                env: &[#(#env),*],
                site: #site,
            },
            policy: devloop_contract::agent::Policy {
                mode: #mode,
                allow: #allow,
                ask: #ask,
                deny: #deny,
                hooks: &[#(#hooks),*],
            },
        };
    }
}
