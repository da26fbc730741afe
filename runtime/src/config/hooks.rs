//! `[[hooks]]` of `devloop.toml`: programs that hear of calls.
//!
//! Answers for reading them, and for whose count: a project's hooks are programs that come with the project, so that they
//! run only when the user has said that they may. Leaves out what a hook says ([`crate::hooks`]).

use std::path::{Path, PathBuf};
use std::time::Duration;

use devloop_core::permission::{Rule, Source};
use serde::Deserialize;
use toml::Spanned;

use super::permissions::Wrong;
use crate::hooks::{CommandHook, Event};

/// How long a hook may take that says nothing, in milliseconds.
const TIMEOUT_MS: i64 = 10_000;

/// The longest that may be set: ten minutes.
const MOST_MS: i64 = 600_000;

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

    /// The user lets hooks of projects run.
    pub(super) fn trust(&mut self, said: Option<Spanned<bool>>, source: Source) -> Result<(), Wrong> {
        match said {
            Some(said) if source == Source::Project => Err(Wrong {
                at: said.span().start,
                message: "permissions.project_hooks is for your own settings: a project can't let its own hooks run"
                    .to_owned(),
            }),
            Some(said) => {
                self.projects = said.into_inner();
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Joins the hooks of one file.
    ///
    /// # Errors
    /// What is wrong, and at which byte. A project's hooks are refused, not left out, when the user has not let them run: one
    /// that would have denied a call must not be missing silently.
    pub(super) fn join(&mut self, sections: Vec<Spanned<Section>>, source: Source, file: &Path) -> Result<(), Wrong> {
        // A user's hook must not run what a project has put under the same name.
        let directory = match source {
            Source::Project => None,
            _ => file.parent().map(Path::to_owned),
        };
        for section in sections {
            let at = section.span().start;
            if source == Source::Project && !self.projects {
                let message = "hooks of a project start programs on your machine; read them, and if they may run put \
                               `project_hooks = true` under [permissions] of your own settings";
                return Err(Wrong {
                    at,
                    message: message.to_owned(),
                });
            }
            self.all.push(section.into_inner().hook(at, directory.clone())?);
        }
        Ok(())
    }
}

/// A hook as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    event: Event,
    calls: Option<Spanned<String>>,
    command: Vec<String>,
    timeout_ms: Option<Spanned<i64>>,
}

impl Section {
    fn hook(self, at: usize, directory: Option<PathBuf>) -> Result<CommandHook, Wrong> {
        if self.command.first().is_none_or(|program| program.trim().is_empty()) {
            return Err(Wrong {
                at,
                message: "hooks.command names no program; write it and its arguments: [\"python3\", \"guard.py\"]"
                    .to_owned(),
            });
        }
        let calls = match self.calls {
            None => Rule::every(),
            Some(given) => Rule::parse(given.get_ref()).map_err(|error| Wrong {
                at: given.span().start,
                message: format!("hooks.calls: {error}"),
            })?,
        };
        let (at, ms) = self
            .timeout_ms
            .map_or((at, TIMEOUT_MS), |ms| (ms.span().start, ms.into_inner()));
        let timeout = u64::try_from(ms).ok().filter(|_| (1..=MOST_MS).contains(&ms));
        let timeout = timeout.ok_or_else(|| Wrong {
            at,
            message: format!("hooks.timeout_ms is {ms}; expected 1 to {MOST_MS}"),
        })?;
        Ok(CommandHook {
            event: self.event,
            calls,
            command: self.command,
            directory,
            timeout: Duration::from_millis(timeout),
        })
    }
}
