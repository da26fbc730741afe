//! What several commands name: an agent, a tool, a project directory, an identity.
//!
//! Answers for finding them and for texts that name the nearest right thing. Leaves out what is done with them.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use devloop_contract::{Agent, Tool};
use devloop_core::permission::{List, Mode, Rule, RuleError};
use devloop_core::sandbox::{EntryKind, FsError, ProjectDir, RelPath, Sandbox};
use devloop_core::text::nearest;
use devloop_generated::{self as generated, AgentId};

use crate::identity::{Given, SESSION_VARIABLE, identify};
use crate::project::{OpenError, Project};
use crate::session::Session;
use crate::upstream::{McpConfig, Options};

/// The agent and project that a command works for.
#[derive(Debug, clap::Args)]
pub(super) struct Target {
    /// The agent: `pm` or `devloop-pm`.
    #[arg(long)]
    pub(super) agent: String,
    /// The project directory.
    #[arg(long, value_name = "DIR")]
    pub(super) project_dir: PathBuf,
    /// The unit, for agents that work on one (coder, tester).
    #[arg(long)]
    pub(super) unit: Option<String>,
    /// The company, where the project directory is not `…/companies/{cid}/projects/{pid}`.
    #[arg(long)]
    pub(super) company: Option<String>,
    /// The project's id, where the project directory does not say it.
    #[arg(long)]
    pub(super) project: Option<String>,
    /// Names the agent call that tool calls belong to. Default: a new one.
    #[arg(long)]
    pub(super) call_id: Option<String>,
    /// Names the client's session. Default: `CLAUDE_CODE_SESSION_ID`, else a new one, which takes an agent's runtime state
    /// over from the session that is at work.
    #[arg(long)]
    pub(super) session_id: Option<String>,
    #[command(flatten)]
    permission: Permission,
}

/// What may run without being asked for, beside the agent's grants and the settings.
#[derive(Debug, clap::Args)]
struct Permission {
    /// The permission mode in place of that of the settings.
    #[arg(long, value_parser = PossibleValuesParser::new(Mode::ALL.map(Mode::as_str)))]
    mode: Option<String>,
    /// A rule of calls that run: `docs__*`, `Bash(git status*)`. May be given many times.
    #[arg(long, value_name = "RULE", value_parser = rule)]
    allow: Vec<Rule>,
    /// A rule of calls that a person is asked for, where no rule allows them; the agent's grants are such rules.
    #[arg(long, value_name = "RULE", value_parser = rule)]
    ask: Vec<Rule>,
    /// A rule of calls that never run.
    #[arg(long, value_name = "RULE", value_parser = rule)]
    deny: Vec<Rule>,
}

/// At the end, as long as the audit log may take to be written.
const FLUSH: Duration = Duration::from_secs(6);

/// Sees to it that the calls of this process are in the audit log before it ends.
pub(super) fn flush(project: &Project) {
    if let Err(missing) = project.flush(FLUSH) {
        let missing = match missing {
            1 => "1 call is".to_owned(),
            _ => format!("{missing} calls are"),
        };
        tracing::warn!("the audit log stands still, {missing} missing in it");
    }
}

fn rule(text: &str) -> Result<Rule, RuleError> {
    Rule::parse(text)
}

impl Target {
    /// The session that the arguments name.
    pub(super) fn session(&self) -> Result<Session, String> {
        let agent = agent(&self.agent)?;
        let project = open(&self.project_dir)?;
        let client_session = std::env::var(SESSION_VARIABLE).ok().filter(|id| !id.is_empty());
        // The path as given: where it leads over links, it may say more than the real one.
        let dir = std::path::absolute(&self.project_dir).unwrap_or_else(|_| project.path().to_owned());
        let identity = identify(agent, &dir, self.given(), client_session).map_err(|error| error.to_string())?;
        for note in project.config().permissions.notes() {
            tracing::warn!("{note}");
        }
        let mut builder = Session::builder(Arc::new(project), agent, identity);
        let said = &self.permission;
        if let Some(mode) = said.mode.as_deref().and_then(Mode::parse) {
            builder = builder.mode(mode);
        }
        let lists = [
            (List::Allow, &said.allow),
            (List::Ask, &said.ask),
            (List::Deny, &said.deny),
        ];
        for (list, rules) in lists {
            for rule in rules {
                builder = builder.rule(list, rule.clone(), format!("--{}", list.as_str()));
            }
        }
        builder.build().map_err(|error| error.to_string())
    }

    fn given(&self) -> Given {
        Given {
            company: self.company.clone(),
            project: self.project.clone(),
            unit: self.unit.clone(),
            call_id: self.call_id.clone(),
            session_id: self.session_id.clone(),
        }
    }
}

/// What makes a directory a project.
pub(super) const INIT: &str = "`devloop init DIR` makes a directory a project";

/// Why a directory is no project.
#[derive(Debug)]
pub(super) enum Uninitialised {
    /// There is no `agent-state`.
    Missing(PathBuf),
    /// It is a link or no directory.
    Odd(PathBuf),
    /// It cannot be looked at.
    Unseen(FsError),
}

impl fmt::Display for Uninitialised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(dir) => write!(f, "{} has no agent-state and is no project yet; {INIT}", dir.display()),
            Self::Odd(dir) => write!(
                f,
                "{}/agent-state is no directory of its own, and tools follow no link: put a directory in its place",
                dir.display()
            ),
            Self::Unseen(error) => error.fmt(f),
        }
    }
}

/// Whether `agent-state` is there and can hold what the tools keep.
pub(super) fn is_initialised(dir: &Arc<ProjectDir>) -> Result<(), Uninitialised> {
    let sandbox = Sandbox::new(Arc::clone(dir), "devloop", Vec::new());
    let path = RelPath::parse("agent-state").expect("a constant path that keeps every rule");
    match sandbox.metadata(&path).map_err(Uninitialised::Unseen)? {
        Some(found) if found.kind == EntryKind::Directory => Ok(()),
        Some(_) => Err(Uninitialised::Odd(dir.path().to_owned())),
        None => Err(Uninitialised::Missing(dir.path().to_owned())),
    }
}

fn open(dir: &Path) -> Result<Project, String> {
    Project::open(dir).map_err(|error| match &error {
        OpenError::Dir(FsError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            format!("{error}; {INIT}")
        }
        _ => error.to_string(),
    })
}

/// The project at a directory that is one.
pub(super) fn existing_project(dir: &Path) -> Result<Project, String> {
    let project = open(dir)?;
    is_initialised(&project.dir).map_err(|error| error.to_string())?;
    Ok(project)
}

/// The upstream servers of a file, with warnings to the log.
pub(super) fn servers(file: &Path) -> Result<McpConfig, String> {
    let config = McpConfig::read(file).map_err(|error| error.to_string())?;
    for warning in &config.warnings {
        tracing::warn!("{}: {warning}", file.display());
    }
    Ok(config)
}

/// How upstream servers of a session are treated: programs start in its project.
pub(super) fn options_for(session: &Session) -> Options {
    Options {
        directory: Some(session.project().path().to_owned()),
        ..Options::default()
    }
}

/// The agent with a short name or an id.
pub(super) fn agent(name: &str) -> Result<&'static Agent, String> {
    AgentId::parse(name).map(AgentId::agent).ok_or_else(|| {
        let known: Vec<&str> = generated::AGENTS.iter().map(|agent| agent.name).collect();
        match nearest(name.trim_start_matches("devloop-"), known.iter().copied(), 1).first() {
            Some(near) => format!(
                "there is no agent `{name}`; did you mean `{near}`? The agents: {}",
                known.join(", ")
            ),
            None => format!("there is no agent `{name}`; the agents: {}", known.join(", ")),
        }
    })
}

/// The tool with a name or an alias.
pub(super) fn tool(name: &str) -> Result<&'static Tool, String> {
    generated::tool(name).ok_or_else(|| {
        let known = generated::all_tools().flat_map(|tool| tool.aliases.iter().chain([&tool.name]).copied());
        let near = nearest(name, known, 3);
        if near.is_empty() {
            let upstream = if name.contains("__") {
                "; those of upstream servers come with `--mcp-config FILE` (tools, call, explain, serve, mcp)"
            } else {
                ""
            };
            format!("there is no tool `{name}`; `devloop tools` lists them{upstream}")
        } else {
            format!("there is no tool `{name}`; did you mean {}?", near.join(", "))
        }
    })
}
