//! The policy proof: what a tool reads and writes is allowed to every agent that is granted it.
//!
//! Decided for all paths at once, by the automata of the pattern language, with the same binding of variables as at run
//! time. Leaves out what depends on a call: the sandbox looks at every single path.

use std::collections::HashMap;

use devloop_contract::glob::{Pattern, covered_by};

use super::paths::write_pointer;
use crate::model::{Kind, WriteEntry};
use crate::pointer::child;
use crate::report::{Report, spot};
use crate::specs::{AgentFile, Doc, Specs, ToolFile};

pub(super) fn check(specs: &Specs, report: &mut Report) {
    // A name that two tools have stands for neither.
    let mut tools: HashMap<&str, Option<&ToolFile>> = HashMap::new();
    for tool in &specs.tools {
        let spec = &tool.file.spec;
        let own = spec.tools.is_empty().then_some(spec.handler.as_str());
        for name in own.into_iter().chain(spec.tools.iter().map(|face| face.name.as_str())) {
            tools.entry(name).and_modify(|tool| *tool = None).or_insert(Some(tool));
        }
    }
    for agent in &specs.agents {
        let spec = &agent.file.spec;
        let prover = Prover::new(agent, report);
        for (index, name) in spec.cli.tools.iter().enumerate() {
            let Some(Some(tool)) = tools.get(name.as_str()) else {
                continue;
            };
            // Nobody is granted a tool of the catalogue, and none touches anything.
            if spec.cli.tools[..index].contains(name) || tool.is_of_catalog() {
                continue;
            }
            let pointer = format!("/cli/tools/{index}");
            let doc = agent.file.doc();
            let runs_commands = spec.cli.builtins.iter().any(|builtin| builtin == "Bash");
            if tool.file.spec.kind == Kind::Execute && !runs_commands && report.is_sound(doc, "/cli/builtins") {
                let message = format!("`{name}` starts programs, and `{}` may not run commands", spec.name);
                let place = spot(&tool.file.path, tool.file.tree.key_place("/kind"));
                let help = format!("add `Bash` to `builtins`, or take the grant away; the tool's kind is at {place}");
                report.value(doc, &pointer, message, help);
            }
            if let Some(prover) = &prover {
                prover.grant(&pointer, name, tool, report);
            }
        }
    }
}

/// What one agent may read and write.
struct Prover<'a> {
    agent: &'a AgentFile,
    doc: Doc<'a>,
    state_key: String,
    write_allow: Vec<Pattern>,
    /// Nothing when it is unclear.
    read_allow: Option<Vec<Pattern>>,
}

impl<'a> Prover<'a> {
    /// Nothing when it is unclear what the agent may write: that was reported, and everything else would follow from it.
    fn new(agent: &'a AgentFile, report: &Report) -> Option<Self> {
        let doc = agent.file.doc();
        let spec = &agent.file.spec;
        let needed = ["/name", "/needs_unit", "/sandbox/write_allow", "/sandbox/site"];
        if !needed.iter().all(|pointer| report.is_sound(doc, pointer)) {
            return None;
        }
        let state_key = if spec.needs_unit {
            format!("{}.{{unit_id}}", spec.name)
        } else {
            spec.name.clone()
        };
        let mut prover = Self {
            agent,
            doc,
            state_key,
            write_allow: Vec::new(),
            read_allow: None,
        };
        let bound = |texts: &[String]| texts.iter().filter_map(|text| prover.bound(text)).collect();
        let everything = || vec!["**".to_owned()];
        let read_allow = report
            .is_sound(doc, "/sandbox/read_allow")
            .then(|| bound(&spec.sandbox.read_allow.clone().unwrap_or_else(everything)));
        prover.write_allow = bound(&spec.sandbox.write_allow);
        prover.read_allow = read_allow;
        Some(prover)
    }

    /// A pattern as it holds for this agent. The state key of an agent with a unit has a variable in it, so the variables
    /// are replaced in the text.
    fn bound(&self, text: &str) -> Option<Pattern> {
        let mut text = text
            .replace("{state_key}", &self.state_key)
            .replace("{agent}", &self.agent.file.spec.name);
        if let Some(site) = &self.agent.file.spec.sandbox.site {
            text = text.replace("{site}", site);
        }
        Pattern::parse(&text).ok()
    }

    /// An agent without a site has nothing for `{site}` to stand for.
    fn lacks_site(&self, pointer: &str, name: &str, tool: &ToolFile, report: &mut Report) -> bool {
        let spec = &self.agent.file.spec;
        if spec.sandbox.site.is_some() {
            return false;
        }
        let effects = &tool.file.spec.effects;
        let reads = effects.reads.iter().enumerate();
        let reads = reads.map(|(index, text)| (format!("/effects/reads/{index}"), text, &[][..]));
        let writes = effects.writes.iter().enumerate().map(|(index, entry)| match entry {
            WriteEntry::Path(path) => (write_pointer(index, entry), path, &[][..]),
            WriteEntry::When(when) => (write_pointer(index, entry), &when.path, &when.only[..]),
        });
        let used = reads
            .chain(writes)
            .filter(|(_, _, only)| only.is_empty() || only.contains(&spec.name))
            .find(|(_, text, _)| text.contains("{site}"));
        let Some((at, text, _)) = used else { return false };
        let place = spot(&tool.file.path, tool.file.tree.value_place(&at));
        let message = format!(
            "`{name}` touches `{text}` ({place}), and `{}` has no site for `{{site}}` to stand for",
            spec.name
        );
        let help = "give the agent a `site` under `sandbox`, or take the grant away".to_owned();
        report.value(self.doc, pointer, message, help);
        true
    }

    fn grant(&self, pointer: &str, name: &str, tool: &ToolFile, report: &mut Report) {
        let spec = &self.agent.file.spec;
        let via = child("/sandbox/write_via", name);
        if !report.is_sound(self.doc, &via) {
            return;
        }
        let mut allowed = self.write_allow.clone();
        allowed.extend(
            spec.sandbox
                .write_via
                .get(name)
                .into_iter()
                .flatten()
                .filter_map(|text| self.bound(text)),
        );
        if self.lacks_site(pointer, name, tool, report) {
            return;
        }
        self.reads(pointer, name, tool, report);
        for (index, entry) in tool.file.spec.effects.writes.iter().enumerate() {
            let at = write_pointer(index, entry);
            let (text, only) = match entry {
                WriteEntry::Path(path) => (path, &[][..]),
                WriteEntry::When(entry) => (&entry.path, &entry.only[..]),
            };
            if !only.is_empty() && !only.contains(&spec.name) {
                continue;
            }
            // A name under `only` that is wrong may be this agent's or not; a wrong pattern proves nothing.
            if !report.is_sound(tool.file.doc(), &format!("/effects/writes/{index}")) {
                continue;
            }
            let Some(pattern) = self.bound(text) else { continue };
            let Err(witness) = covered_by(&pattern, &allowed) else {
                continue;
            };
            let place = spot(&tool.file.path, tool.file.tree.value_place(&at));
            let example = shown(witness);
            let message = format!(
                "`{name}` writes `{text}` ({place}), which `{}` may not write: {example}",
                spec.name
            );
            let help = format!(
                "allow `{pattern}` under `sandbox.write_via.{name}` or `sandbox.write_allow`, or take the grant away"
            );
            report.value(self.doc, pointer, message, help);
        }
    }
    fn reads(&self, pointer: &str, name: &str, tool: &ToolFile, report: &mut Report) {
        let Some(allowed) = &self.read_allow else { return };
        for (index, text) in tool.file.spec.effects.reads.iter().enumerate() {
            let at = format!("/effects/reads/{index}");
            if !report.is_sound(tool.file.doc(), &at) {
                continue;
            }
            let Some(pattern) = self.bound(text) else { continue };
            let Err(witness) = covered_by(&pattern, allowed) else {
                continue;
            };
            let place = spot(&tool.file.path, tool.file.tree.value_place(&at));
            let example = shown(witness);
            let message = format!(
                "`{name}` reads `{text}` ({place}), which `{}` may not read: {example}",
                self.agent.file.spec.name
            );
            let help = format!("allow `{pattern}` under `sandbox.read_allow`, or take the grant away");
            report.value(self.doc, pointer, message, help);
        }
    }
}

/// A path that shows it, or why there is none to show.
fn shown(witness: String) -> String {
    if witness.starts_with('(') {
        witness
    } else {
        format!("for example `{witness}`")
    }
}
