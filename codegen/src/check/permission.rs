//! What a template says about permission beside its grants.
//!
//! Answers for the form of rules and hooks. What a rule means is decided where calls are judged, which reads it once more.

use devloop_contract::agent::is_rule;

use crate::pointer::child;
use crate::report::Report;
use crate::resolve::timeout_ms;
use crate::specs::Specs;

/// Checks the `policy` of every agent.
pub(super) fn check(specs: &Specs, report: &mut Report) {
    for agent in &specs.agents {
        let doc = agent.file.doc();
        let policy = &agent.file.spec.policy;
        let mut rule = |pointer: &str, rule: &str| {
            if !is_rule(rule) {
                let message = format!("`{rule}` is no rule");
                let help = "write a tool's name, or a name and what it is about: `Bash(git status*)`";
                report.value(doc, pointer, message, help.to_owned());
            }
        };
        for (list, rules) in [("allow", &policy.allow), ("ask", &policy.ask), ("deny", &policy.deny)] {
            for (index, text) in rules.iter().enumerate() {
                rule(&format!("/policy/{list}/{index}"), text);
            }
        }
        for (index, hook) in policy.hooks.iter().enumerate() {
            let pointer = format!("/policy/hooks/{index}");
            if let Some(calls) = &hook.calls {
                rule(&child(&pointer, "calls"), calls);
            }
        }
        for (index, hook) in policy.hooks.iter().enumerate() {
            let pointer = format!("/policy/hooks/{index}");
            match hook.command.first().map(String::as_str) {
                Some(program) if program.contains('/') && !program.starts_with('/') => {
                    let message = format!("the program `{program}` would be a file of the project");
                    let help = "name it by an absolute path, or by a name that is found in `PATH`".to_owned();
                    report.value(doc, &format!("{pointer}/command/0"), message, help);
                }
                Some(program) if !program.trim().is_empty() => {}
                _ => {
                    let help = "write the program and its arguments: `[/usr/local/bin/guard, --strict]`".to_owned();
                    report.value(doc, &child(&pointer, "command"), "a hook without a program", help);
                }
            }
            if let Some(timeout) = hook.timeout.as_deref().filter(|timeout| timeout_ms(timeout).is_none()) {
                let help = "write a whole number above 0 with `ms`, `s` or `m`: `10s`".to_owned();
                report.value(
                    doc,
                    &child(&pointer, "timeout"),
                    format!("`{timeout}` is no time"),
                    help,
                );
            }
        }
    }
}
