//! `devloop doctor`: what this machine and a project directory offer.
//!
//! Answers for trying the things that everything else relies on and saying what to do about those that fail. Leaves out
//! the clients' own set-up.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use devloop_contract::glob::Pattern;
use devloop_core::permission::{List, Origin, Policy, Rule};
use devloop_core::registry::Definition;
use devloop_core::sandbox::{FsError, ProjectDir, RelPath, Sandbox};
use devloop_core::store::{Store, StoreError, SystemClock};
use devloop_core::text::nearest;
use rustix::io::Errno;

use super::Exit;
use super::output::{BAD, FAINT, GOOD, Printer, counted};
use super::target::{INIT, Uninitialised, is_initialised};
use crate::config::Config;

/// Arguments of `devloop doctor`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The project directory to look at.
    #[arg(long, value_name = "DIR", default_value = ".")]
    project_dir: PathBuf,
}

/// One thing that was tried.
struct Finding {
    name: &'static str,
    /// What was seen, or what is wrong and what to do about it.
    result: Result<String, String>,
    /// What works, and is probably not what was meant.
    warnings: Vec<String>,
}

impl Finding {
    fn new(name: &'static str, result: Result<String, String>) -> Self {
        Self {
            name,
            result,
            warnings: Vec::new(),
        }
    }
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    let findings = examine(&args.project_dir);
    for finding in &findings {
        match &finding.result {
            Ok(seen) => printer.line(format_args!("{GOOD}✓{GOOD:#} {} · {seen}", finding.name)),
            Err(wrong) => printer.line(format_args!("{BAD}✗{BAD:#} {} · {wrong}", finding.name)),
        }
        for warning in &finding.warnings {
            printer.line(format_args!("{BAD}!{BAD:#} {} · {warning}", finding.name));
        }
    }
    let bad = findings.iter().filter(|finding| finding.result.is_err()).count();
    if bad == 0 {
        printer.line(format_args!("{FAINT}Everything that devloop needs is here.{FAINT:#}"));
        Exit::Ok
    } else {
        printer.line(format_args!("{bad} of {} checks failed.", findings.len()));
        Exit::Expected
    }
}

fn examine(path: &Path) -> Vec<Finding> {
    let counts = devloop_generated::counts();
    let tools = Ok(format!(
        "{} for {} agents",
        counted(counts.tools, "tool"),
        devloop_generated::AGENTS.len()
    ));
    let mut findings = vec![Finding::new("tools", tools)];
    let opened = std::path::absolute(path)
        .map_err(|error| error.to_string())
        .and_then(|absolute| ProjectDir::open(&absolute).map_err(|error| told(&error)));
    let dir = match opened {
        Ok(dir) => Arc::new(dir),
        Err(error) => {
            findings.push(Finding::new("directory", Err(format!("{error}; {INIT}"))));
            return findings;
        }
    };
    let user = Config::user_file(|name| std::env::var_os(name));
    match Config::load(&dir, user.as_deref()) {
        Ok(config) => {
            findings.push(Finding::new(
                "settings",
                Ok(format!(
                    "server `{}`, lock wait {:?}",
                    config.server_name, config.lock_wait
                )),
            ));
            findings.push(limits(&config));
            findings.push(permission(&config));
        }
        Err(error) => findings.push(Finding::new("settings", Err(error.to_string()))),
    }
    let initialised = is_initialised(&dir).map_err(|error| match error {
        Uninitialised::Unseen(error) => told(&error),
        told => told.to_string(),
    });
    let usable = initialised.is_ok();
    findings.push(Finding::new(
        "directory",
        initialised.map(|()| dir.path().display().to_string()),
    ));
    findings.push(Finding::new("paths", Ok(dir.resolution().to_string())));
    // What is no project directory is left as it is.
    if usable {
        findings.push(Finding::new("writing", write_and_remove(&dir)));
        findings.push(Finding::new("locks", lock_and_remove(&dir)));
    }
    findings
}

/// What the settings say about results, artifacts and calls, and which of their times mean nothing here.
fn limits(config: &Config) -> Finding {
    let (kept, calls) = (config.artifacts, config.execution.settings().limits);
    let said = format!(
        "results of {} characters; artifacts of {} KiB, {} of them or {} KiB a session; {} calls at once, {} of a session",
        config.result_chars,
        kept.file_bytes / 1024,
        kept.session_files,
        kept.session_bytes / 1024,
        calls.in_flight.total,
        calls.per_session.total
    );
    // Which tools upstream servers have, nobody knows here.
    let is_ours = |name: &&str| !name.contains("__");
    let means_none = |name: &&str| {
        !devloop_generated::all_tools().any(|tool| match name.strip_suffix('*') {
            Some(beginning) => tool.name.starts_with(beginning),
            None => tool.name == *name,
        })
    };
    let idle = config.timeouts.names().filter(is_ours).filter(means_none);
    let warnings = idle.map(|name| {
        let known = devloop_generated::all_tools().map(|tool| tool.name);
        // What has a `*` may mean many.
        let near = nearest(name, known.filter(|_| !name.ends_with('*')), 1);
        let near = near.first().map(|near| format!("; did you mean `{near}`?"));
        format!(
            "no tool of devloop is meant by timeouts_ms.\"{name}\"{}",
            near.unwrap_or_default()
        )
    });
    Finding {
        warnings: warnings.collect(),
        ..Finding::new("limits", Ok(said))
    }
}

/// What the settings say about permission, and what of it does not count or means nothing here.
fn permission(config: &Config) -> Finding {
    let policy = config.policy();
    let rules: usize = [List::Allow, List::Ask, List::Deny]
        .map(|list| policy.rules(list).len())
        .iter()
        .sum();
    let hooks = config.hooks.iter().len();
    let said = format!(
        "mode `{}`, {}, {}",
        policy.mode(),
        counted(rules, "rule"),
        counted(hooks, "hook")
    );
    let tools: Vec<Definition> = devloop_generated::all_tools().map(Definition::from).collect();
    let ours = format!("mcp__{}__", config.server_name);
    // Which tools upstream servers have, nobody knows here.
    let idle = policy.idle(&tools).filter(|(_, rule, _)| {
        let name = rule.text().split('(').next().unwrap_or_default();
        let name = name
            .strip_prefix("mcp__devloop__")
            .or_else(|| name.strip_prefix(&ours))
            .unwrap_or(name);
        !name.contains("__") && !name.starts_with("mcp__")
    });
    let mut warnings = config.permissions.notes().to_vec();
    warnings.extend(idle.filter_map(|(list, rule, origin)| idle_rule(list, rule, origin, &tools, &ours)));
    let all = [List::Allow, List::Ask, List::Deny];
    let all = all
        .into_iter()
        .flat_map(|list| policy.rules(list).map(move |(rule, origin)| (list, rule, origin)));
    warnings.extend(all.filter_map(|(list, rule, origin)| deaf_rule(list, rule, origin, &tools, &ours)));
    Finding {
        warnings,
        ..Finding::new("permission", Ok(said))
    }
}

/// What is to be told of a rule with a content of a tool that tells none.
fn deaf_rule(list: List, rule: &Rule, origin: &Origin, tools: &[Definition], ours: &str) -> Option<String> {
    let text = rule.text();
    let (name, _) = text.split_once('(').filter(|_| rule.has_content())?;
    let own = name
        .strip_prefix("mcp__devloop__")
        .or_else(|| name.strip_prefix(ours))
        .unwrap_or(name);
    let tells = |tool: &Definition| tool.permission.signature.contains('(');
    let mut known = tools
        .iter()
        .filter(|tool| tool.names().any(|known| known == own))
        .peekable();
    let is_deaf = if known.peek().is_some() {
        !known.any(tells)
    } else {
        own.contains("__") || own.starts_with("mcp__")
    };
    let effect = match list {
        List::Allow => "allows none of them",
        List::Ask => "asks for each of them",
        List::Deny => "denies each of them",
    };
    is_deaf.then(|| {
        format!(
            "rules are not told what calls of `{name}` are about, so that the {} rule `{rule}` of {origin} {effect}; write the \
             rule without parentheses if that is meant",
            list.as_str()
        )
    })
}

/// Names of tools that clients have of their own, in rules that people copy from a client's settings.
const OF_CLIENTS: [&str; 15] = [
    "Agent",
    "Bash",
    "BashOutput",
    "Edit",
    "Glob",
    "Grep",
    "KillShell",
    "MultiEdit",
    "NotebookEdit",
    "Read",
    "Task",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
    "Write",
];

/// What is to be told of a rule that means no tool under its usual names; nothing when it means one under the name that
/// this project gives its server.
fn idle_rule(list: List, rule: &Rule, origin: &Origin, tools: &[Definition], ours: &str) -> Option<String> {
    let text = rule.text();
    let tightens = list != List::Allow;
    let bare = text.strip_prefix(ours).and_then(|rest| Rule::parse(rest).ok());
    if let Some(bare) = bare.filter(|_| tightens) {
        // Under its other name it is not idle.
        Policy::default().with(list, bare, origin.clone()).idle(tools).next()?;
    }
    let name = text.split('(').next().unwrap_or(text);
    let near = if OF_CLIENTS.contains(&name) {
        format!("; `{name}` is a client's own tool, and only the client's settings speak of those")
    } else {
        Policy::meant(list, rule, tools)
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default()
    };
    Some(format!(
        "no tool of devloop is meant by the {} rule `{rule}` of {origin}{near}",
        list.as_str()
    ))
}

/// Writes a file as the store does, with every sync, and removes it.
fn write_and_remove(dir: &Arc<ProjectDir>) -> Result<String, String> {
    let (sandbox, path) = probe(dir, &format!("agent-state/doctor-{}", std::process::id()))?;
    sandbox.replace(&path, b"probe\n").map_err(|error| told(&error))?;
    sandbox.remove_file(&path).map_err(|error| told(&error))?;
    Ok("a file was written, synced and removed".to_owned())
}

/// Takes a lock of its own name, which nobody else waits for, so that its file can go afterwards.
fn lock_and_remove(dir: &Arc<ProjectDir>) -> Result<String, String> {
    let name = format!("doctor-{}", std::process::id());
    let (sandbox, path) = probe(dir, &format!("agent-state/.locks/{name}.lock"))?;
    let locks = dir.path().join("agent-state/.locks");
    let was_there = locks.symlink_metadata().is_ok();
    let taken = Store::new(sandbox.clone(), Arc::new(SystemClock)).lock(&name, Duration::from_secs(1));
    let answer = match taken {
        Ok(lock) => {
            let removed = sandbox.remove_file(&path).map_err(|error| told(&error));
            drop(lock);
            removed.map(|_| "taken and let go".to_owned())
        }
        Err(StoreError::Fs(error)) => Err(told(&error)),
        Err(error) => Err(error.to_string()),
    };
    if !was_there {
        // Fails, as it should, when others have put theirs there meanwhile.
        let _ = std::fs::remove_dir(&locks);
    }
    answer
}

/// A sandbox in which one path can be written.
fn probe(dir: &Arc<ProjectDir>, path: &str) -> Result<(Sandbox, RelPath), String> {
    let pattern = Pattern::parse(path).map_err(|error| error.to_string())?;
    let path = RelPath::parse(path).map_err(|problem| problem.to_string())?;
    Ok((Sandbox::new(Arc::clone(dir), "doctor", vec![pattern]), path))
}

/// An error, and what to do about it as far as the error says it.
fn told(error: &FsError) -> String {
    let FsError::Io { op, source, .. } = error else {
        return error.to_string();
    };
    let hint = match source.kind() {
        ErrorKind::PermissionDenied => "let this user read and write there, or work as one who may",
        ErrorKind::StorageFull => "make room on the file system",
        ErrorKind::QuotaExceeded => "make room within this user's quota",
        ErrorKind::ReadOnlyFilesystem => "mount the file system for writing, or choose another directory",
        ErrorKind::Unsupported if *op == "lock" => "choose a file system that has advisory locks",
        _ if *op == "lock" && Errno::from_io_error(source) == Some(Errno::NOLCK) => {
            "let the file system's lock service run, or choose one that has advisory locks"
        }
        _ => return error.to_string(),
    };
    format!("{error}; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_follows_from_the_error() {
        let told_of = |op, errno: Errno| {
            told(&FsError::Io {
                op,
                path: "agent-state/x".to_owned(),
                source: errno.into(),
            })
        };
        assert!(told_of("lock", Errno::NOTSUP).ends_with("choose a file system that has advisory locks"));
        assert!(told_of("lock", Errno::NOLCK).contains("lock service"));
        for op in ["write", "lock"] {
            assert!(told_of(op, Errno::ACCESS).ends_with("as one who may"));
            assert!(told_of(op, Errno::NOSPC).ends_with("make room on the file system"));
            assert!(told_of(op, Errno::ROFS).contains("mount"));
            assert_eq!(
                told_of(op, Errno::IO).matches(';').count(),
                0,
                "nothing is known to help"
            );
        }
    }
}
