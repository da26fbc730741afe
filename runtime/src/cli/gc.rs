//! `devloop gc`: removes what a project no longer needs. Shows it first.
//!
//! Answers for showing what may go, and for removing it when asked to. Leaves out what may go (the core's `retention`)
//! and how long it is kept (the settings).

use std::path::PathBuf;

use clap::ValueEnum;
use devloop_core::retention::{Candidate, Leftovers, Policy, Why, artifacts, project};
use devloop_core::store::Store;
use serde_json::json;

use super::Exit;
use super::output::{FAINT, NAME, Printer, bytes, counted, table};
use super::target::existing_project;
use crate::project::Project;

/// Arguments of `devloop gc`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing that is in use is ever removed: no state file, no memory, no live journal, no lock.
How long things are kept is set under [retention] in devloop.toml.")]
pub(super) struct Args {
    /// The project directory.
    #[arg(long, value_name = "DIR", default_value = ".")]
    project_dir: PathBuf,
    /// Remove it; without this flag nothing is changed.
    #[arg(long)]
    apply: bool,
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For scripts.
    Json,
}

/// What became of the candidates.
#[derive(Default)]
struct Done {
    removed: Vec<Candidate>,
    failed: Vec<String>,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    let project = match existing_project(&args.project_dir) {
        Ok(project) => project,
        Err(message) => {
            printer.error(message);
            return Exit::Usage;
        }
    };
    let store = project.machinery();
    let policy = project.config().retention();
    let found = match look(&project, &store, &policy) {
        Ok(found) => found,
        Err(message) => {
            printer.error(message);
            return Exit::System;
        }
    };
    let done = args.apply.then(|| remove(&store, &policy, &found.candidates));
    match args.format {
        Format::Json => as_json(&found, done.as_ref(), printer),
        Format::Table => as_table(&found, done.as_ref(), printer),
    }
    for unseen in &found.unseen {
        printer.complain(format_args!("not looked at: {unseen}"));
    }
    let failed = done.map(|done| done.failed).unwrap_or_default();
    for failure in &failed {
        printer.error(failure);
    }
    if found.unseen.is_empty() && failed.is_empty() {
        Exit::Ok
    } else {
        Exit::System
    }
}

fn look(project: &Project, store: &Store, policy: &Policy) -> Result<Leftovers, String> {
    let mut found = project::find(store, policy).map_err(|error| error.to_string())?;
    if let Some(root) = &project.artifacts {
        let old = artifacts::find(root, &project.dir, store.clock().now(), policy.artifacts);
        found.candidates.extend(old.candidates);
        found.unseen.extend(old.unseen);
    }
    Ok(found)
}

fn remove(store: &Store, policy: &Policy, candidates: &[Candidate]) -> Done {
    let mut done = Done::default();
    for candidate in candidates {
        let removed = if candidate.why == Why::Artifacts {
            artifacts::remove(candidate, store.clock().now(), policy.artifacts).map_err(|error| error.to_string())
        } else {
            project::remove(store, policy, candidate).map_err(|error| error.to_string())
        };
        match removed {
            Ok(true) => done.removed.push(candidate.clone()),
            // It is gone already, or in use again.
            Ok(false) => {}
            Err(error) => done.failed.push(format!("{} is still there: {error}", candidate.path)),
        }
    }
    done
}

fn total(candidates: &[Candidate]) -> u64 {
    candidates.iter().map(|candidate| candidate.bytes).sum()
}

fn as_json(found: &Leftovers, done: Option<&Done>, printer: &mut Printer) {
    let listed = done.map_or(&found.candidates, |done| &done.removed);
    printer.pretty(&json!({
        "applied": done.is_some(),
        "bytes": total(listed),
        "candidates": listed,
        "failed": done.map(|done| &done.failed),
        "unseen": found.unseen,
    }));
}

fn as_table(found: &Leftovers, done: Option<&Done>, printer: &mut Printer) {
    let listed = done.map_or(&found.candidates, |done| &done.removed);
    for why in Why::ALL {
        let of: Vec<&Candidate> = listed.iter().filter(|candidate| candidate.why == why).collect();
        if of.is_empty() {
            continue;
        }
        printer.line(format_args!("{NAME}{why}{NAME:#}"));
        let rows: Vec<_> = of
            .iter()
            .map(|candidate| [bytes(candidate.bytes), shown(&candidate.path)])
            .collect();
        for row in table(&rows) {
            printer.line(format_args!("  {row}"));
        }
    }
    let what = format!("{}, {}", counted(listed.len(), "file"), bytes(total(listed)));
    match done {
        Some(_) if listed.is_empty() => printer.line("Nothing was removed."),
        Some(_) => printer.line(format_args!("Removed: {what}.")),
        None if listed.is_empty() => printer.line("Nothing may go."),
        None => printer.line(format_args!("{what} may go. {FAINT}`--apply` removes them.{FAINT:#}")),
    }
}

/// A path for a terminal: others named the files.
fn shown(path: &str) -> String {
    path.chars()
        .map(|c| if c.is_control() { '\u{FFFD}' } else { c })
        .collect()
}
