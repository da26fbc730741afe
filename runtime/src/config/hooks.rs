//! `[[hooks]]` of `devloop.toml`: programs that hear of calls.
//!
//! Answers for reading them, and for whose count: a project's hooks are programs that come with the project, so that they
//! run only when the user has said that they may. Leaves out what a hook says ([`crate::hooks`]).

use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use devloop_core::permission::{Rule, Source};
use devloop_core::text::nearest;

use super::reading::{Table, quoted};
use crate::hooks::{CommandHook, Event};

/// How long a hook may take that says nothing, in milliseconds.
const TIMEOUT_MS: u32 = 10_000;

/// The longest that may be set: ten minutes.
const MOST_MS: u32 = 600_000;

/// The hooks of the settings, the user's first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    all: Vec<CommandHook>,
    projects: bool,
}

impl Hooks {
    /// All of them, in the order in which they are heard.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &CommandHook> {
        self.all.iter()
    }

    /// Takes what the user says of hooks of projects.
    pub(super) fn trust(&mut self, permissions: &mut Table<'_, '_>, source: Source) {
        match permissions.truth("project_hooks") {
            Some(said) if source == Source::Project => permissions.wrongs.push(
                said.at,
                "permissions.project_hooks is for your own settings: a project can't let its own hooks run",
            ),
            Some(said) => self.projects = said.value,
            None => {}
        }
    }

    /// Whether the hooks of projects may run, by what was read so far.
    pub(super) fn trusted(&self) -> Trust {
        if self.projects { Trust::Given } else { Trust::Withheld }
    }

    /// Joins the hooks of one file. A project's hooks are refused, not left out, when the user has not let them run: one
    /// that would have denied a call must not be missing silently.
    pub(super) fn read(&mut self, settings: &mut Table<'_, '_>, source: Source, trust: Trust, file: &Path) {
        // A user's hook must not run what a project has put under the same name.
        let directory = match source {
            Source::Project => None,
            _ => file.parent().map(Path::to_owned),
        };
        let mut refused = source == Source::Project && trust == Trust::Withheld;
        settings.each("hooks", |table| {
            // Once for all of them.
            if mem::take(&mut refused) {
                table.wrongs.push(
                    table.at,
                    "hooks of a project start programs on your machine; read them, and if they may run put \
                     `project_hooks = true` under [permissions] of your own settings",
                );
            }
            self.all.extend(hook(table, directory.clone()));
        });
    }
}

/// Whether a user lets hooks of projects run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    Given,
    Withheld,
    /// The user's file is wrong, so that nobody knows what it would say.
    Unknown,
}

/// A hook, when nothing is wrong with it.
fn hook(table: &mut Table<'_, '_>, directory: Option<PathBuf>) -> Option<CommandHook> {
    let event = event(table);
    let calls = match table.text("calls", "a rule, which is a text such as \"Tool\" or \"Tool(content)\"") {
        None => Some(Rule::every()),
        Some(said) => match Rule::parse(&said.value) {
            Ok(rule) => Some(rule),
            Err(error) => {
                let key = table.key("calls");
                table.wrongs.push(said.at, format!("{key}: {error}"));
                None
            }
        },
    };
    let command = command(table);
    let timeout = table.number("timeout_ms", 1, MOST_MS).value().unwrap_or(TIMEOUT_MS);
    Some(CommandHook {
        event: event?,
        calls: calls?,
        command: command?,
        directory,
        timeout: Duration::from_millis(timeout.into()),
    })
}

fn event(table: &mut Table<'_, '_>) -> Option<Event> {
    let names = Event::ALL.map(Event::as_str);
    let expected = names.map(|name| format!("`{name}`")).join(", ");
    table.needs("event", &expected);
    let said = table.text("event", &expected)?;
    let event = Event::ALL.into_iter().find(|event| event.as_str() == said.value);
    if event.is_none() {
        let near = nearest(&said.value, names, 1);
        let hint = near.first().map(|near| format!("; write `{near}`")).unwrap_or_default();
        let (key, found) = (table.key("event"), quoted(&said.value));
        table
            .wrongs
            .push(said.at, format!("{key} is {found}; expected {expected}{hint}"));
    }
    event
}

fn command(table: &mut Table<'_, '_>) -> Option<Vec<String>> {
    const EXPECTED: &str = "a program and its arguments: [\"python3\", \"guard.py\"]";
    table.needs("command", EXPECTED);
    let said = table.texts("command", EXPECTED, "a text")?;
    let command: Vec<String> = said.value.into_iter().map(|text| text.value).collect();
    if command.first().is_none_or(|program| program.trim().is_empty()) {
        let key = table.key("command");
        table
            .wrongs
            .push(said.at, format!("{key} names no program; expected {EXPECTED}"));
    }
    Some(command)
}
