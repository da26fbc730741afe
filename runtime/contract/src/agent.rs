//! An agent template as data: the role, its place in the loop, its tools and its sandbox.
//!
//! Answers for the record that generated code fills. Leaves out the enforcement (the core's sandbox) and the launching
//! of real clients.

use crate::Tool;

use std::time::Duration;

/// One agent template.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The template's id: `devloop-pm`.
    pub id: &'static str,
    /// The short name that state files and events carry: `pm`.
    pub name: &'static str,
    /// The human name: `PM Agent`.
    pub title: &'static str,
    /// What the agent is for, in a sentence.
    pub summary: &'static str,
    /// The template's type in the source system: `executor`.
    pub kind: &'static str,
    /// Its level in the loop: `L3`.
    pub loop_level: &'static str,
    /// Who hands work to it, short names.
    pub upstream: &'static [&'static str],
    /// Whom it hands work to, short names.
    pub downstream: &'static [&'static str],
    /// The model to start.
    pub model: &'static str,
    /// Where the source system finds the prompt.
    pub system_prompt_file: &'static str,
    /// The prompt itself.
    pub prompt: &'static str,
    /// The client's own tools that the role may use.
    pub builtins: &'static [&'static str],
    /// The tools granted, by name, in the spec's order.
    pub tools: &'static [&'static str],
    /// Tools that a host provides; not checked for existence.
    pub host_tools: &'static [&'static str],
    /// Whether it works on one unit: then a call needs `--unit`.
    pub needs_unit: bool,
    /// What it may touch.
    pub sandbox: Sandbox,
    /// What it may call, beside its grants.
    pub policy: Policy,
}

impl Agent {
    /// Whether the agent may call the tool: it was granted it, or every agent has it.
    pub fn has(&self, tool: &Tool) -> bool {
        tool.is_of_catalog() || self.tools.contains(&tool.name)
    }
}

/// What an agent may touch in a project.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// The working directory in the source system.
    pub cwd: &'static str,
    /// Patterns that the agent may write; exported to the source system as they are.
    pub write_allow: &'static [&'static str],
    /// Patterns that the client's own Write, Edit and Bash may not touch although `write_allow` has them.
    pub raw_deny: &'static [&'static str],
    /// Patterns that the agent may write only through one tool.
    pub write_via: &'static [WriteVia],
    /// Patterns that the agent may read.
    pub read_allow: &'static [&'static str],
    /// Environment of the agent's process, as `(name, value)`.
    pub env: &'static [(&'static str, &'static str)],
    /// The document site that is the role's own: `prd`, `sdd` or empty.
    pub site: &'static str,
}

/// A write permission that one tool carries.
#[derive(Clone, Copy, Debug)]
pub struct WriteVia {
    /// The tool.
    pub tool: &'static str,
    /// The patterns.
    pub paths: &'static [&'static str],
}

/// What an agent may call, beside its grants. Rules are texts of the form `Tool` or `Tool(content)`.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// `plan`, `default` or `auto_edit`; empty when the template says nothing.
    pub mode: &'static str,
    /// Calls that run without being asked for.
    pub allow: &'static [&'static str],
    /// Calls that a person is asked for each time.
    pub ask: &'static [&'static str],
    /// Calls that never run.
    pub deny: &'static [&'static str],
    /// Programs that hear of calls.
    pub hooks: &'static [Hook],
}

/// Whether a text is a rule that specs may have: a name of letters, digits, `_`, `-` and `*`, and perhaps what the call is
/// about in brackets, which come in pairs. Every such text is a rule where calls are judged.
pub fn is_rule(text: &str) -> bool {
    const LONGEST: usize = 1_000;
    let (name, content) = text
        .split_once('(')
        .map_or((text, None), |(name, rest)| (name, Some(rest)));
    let is_named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*');
    if text.len() > LONGEST || name.is_empty() || !name.chars().all(is_named) || text.chars().any(char::is_control) {
        return false;
    }
    let Some(content) = content else { return true };
    let Some(content) = content.strip_suffix(')') else {
        return false;
    };
    if content.is_empty() {
        return false;
    }
    let (mut open, mut escaped) = (0_u32, false);
    for c in content.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' => open += 1,
            ')' if open == 0 => return false,
            ')' => open -= 1,
            _ => {}
        }
    }
    open == 0 && !escaped
}

/// Whether a template of a tool's permission makes a rule whatever it is filled in with: brackets in its own words have
/// to come in pairs.
pub fn is_template(text: &str) -> bool {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, field)) = rest.split_once('{') {
        let Some((_, after)) = field.split_once('}') else {
            return false;
        };
        filled.push_str(before);
        filled.push('x');
        rest = after;
    }
    filled.push_str(rest);
    is_rule(&filled)
}

/// A program that hears of calls.
#[derive(Clone, Copy, Debug)]
pub struct Hook {
    /// `pre_tool_use` or `post_tool_use`.
    pub event: &'static str,
    /// A rule: of which calls.
    pub calls: &'static str,
    /// The program and its arguments.
    pub command: &'static [&'static str],
    /// The longest that it may take.
    pub timeout: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_fits_when_what_it_makes_is_a_rule() {
        for fit in ["edit", "Edit({path})", "Bash({a} ({b}))", "Edit({(})", "Todo(*)"] {
            assert!(is_template(fit), "{fit}");
        }
        for unfit in [
            "Todo({items}",
            "Todo({items",
            "Todo({a}))",
            "Todo(({a})",
            "Todo()",
            "",
            "To do",
        ] {
            assert!(!is_template(unfit), "{unfit}");
        }
    }
}
