//! Making a session: which tools it has, by whose rules, and who hears of its calls.
//!
//! Answers for joining what a host says with the settings, the agent's grants and its template. Leaves out what the rules
//! mean (the core's `permission`).

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use devloop_contract::Agent;
use devloop_core::catalogue::{Catalogue, Phase, RegisterError};
use devloop_core::permission::{List, Mode, Origin, Policy, Rule, RuleError, Source};
use devloop_core::registry::{Definition, Text};
use devloop_core::sandbox::RelPath;
use tokio::sync::OnceCell;

use super::lists::Lists;
use super::{Inner, Runner, Session};
use crate::call::Approver;
use crate::hooks::{CommandHook, Hook};
use crate::identity::Identity;
use crate::project::Project;
use crate::projection::tools_of;

/// Makes a [`Session`].
#[derive(Debug)]
pub struct SessionBuilder {
    project: Arc<Project>,
    identity: Identity,
    agent: &'static Agent,
    tools: Option<Catalogue<Runner>>,
    lists: Lists,
    mode: Option<Mode>,
    rules: Vec<(List, Rule, Origin)>,
    hooks: Vec<Arc<dyn Hook>>,
    approver: Option<Arc<dyn Approver>>,
}

impl SessionBuilder {
    pub(super) fn new(project: Arc<Project>, agent: &'static Agent, identity: Identity) -> Self {
        Self {
            project,
            identity,
            agent,
            tools: None,
            lists: Lists::default(),
            mode: None,
            rules: Vec::new(),
            hooks: Vec::new(),
            approver: None,
        }
    }

    /// More tools than those of specs, made with [`empty_catalogue`]: the session [forks](Catalogue::fork) the catalogue, so that what it loads and what
    /// its servers offer is its own.
    #[must_use]
    pub fn tools(mut self, tools: &Catalogue<Runner>) -> Self {
        self.tools = Some(tools.fork());
        self
    }

    /// Only the tools that one of these rules means; the others are neither shown nor callable. Rules without a content
    /// name tools: `note_add`, `docs__*`.
    #[must_use]
    pub fn only(mut self, tools: impl IntoIterator<Item = Rule>) -> Self {
        self.lists.only.get_or_insert_default().extend(tools);
        self
    }

    /// Without the tools that one of these rules means. Counts more than [`only`](Self::only).
    #[must_use]
    pub fn without(mut self, tools: impl IntoIterator<Item = Rule>) -> Self {
        self.lists.without.extend(tools);
        self
    }

    /// The permission mode, in place of that of the settings.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// A rule of the host, beside those of the settings and the agent's grants. `place` says where it comes from.
    #[must_use]
    pub fn rule(mut self, list: List, rule: Rule, place: impl Into<Text>) -> Self {
        self.rules.push((list, rule, Origin::new(Source::Host, place)));
        self
    }

    /// A hook, heard in the call's turn, after those that were given before and before those of the settings.
    #[must_use]
    pub fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Who is asked where a rule wants a person's consent and the call brings nobody of its own. The call keeps its turn
    /// while they think: what must come after it in the session waits.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// The session. Touches no disk.
    ///
    /// # Errors
    /// A tool of the host has the name of one that the agent is granted; a rule of the agent's template cannot be read.
    pub fn build(self) -> Result<Session, SessionError> {
        let Self {
            project,
            identity,
            agent,
            tools,
            lists,
            mode,
            rules,
            mut hooks,
            approver,
        } = self;
        let mut policy = project.config.policy();
        policy.grant(agent.id, agent.tools.iter().copied());
        let granted = tools_of(agent);
        for tool in granted.iter().filter(|tool| tool.is_of_catalog()) {
            policy.add(List::Allow, Rule::tool(tool.name), Origin::new(Source::BuiltIn, ""));
        }
        for (list, rule, origin) in rules {
            policy.add(list, rule, origin);
        }
        if let Some(mode) = mode {
            policy.set_mode(mode);
        }
        hooks.extend(template(agent, &mut policy)?);
        let commands = project.config.hooks.iter();
        hooks.extend(commands.map(|hook| Arc::new(hook.clone()) as Arc<dyn Hook>));
        let mut catalogue = tools.unwrap_or_else(empty_catalogue);
        let lists = Arc::new(lists);
        let has_servers = Arc::new(AtomicBool::new(false));
        let (hidden_by, servers) = (Arc::clone(&lists), Arc::clone(&has_servers));
        catalogue = catalogue.hiding(move |tool| {
            let reaches_servers = tool
                .built_in()
                .is_some_and(|tool| tool.is_of_catalog() && tool.open_world);
            hidden_by.left_out(tool).is_some() || (reaches_servers && !servers.load(Ordering::Acquire))
        });
        catalogue.register_all(
            granted
                .iter()
                .map(|tool| (Definition::from(*tool), Runner::Handler(tool))),
        )?;
        let sandboxes = granted.iter().map(|tool| (tool.name, OnceLock::new())).collect();
        let inner = Inner {
            lane: project.executor.lane(),
            project,
            identity: Arc::new(identity),
            agent,
            catalogue: Arc::new(catalogue),
            lists,
            policy: RwLock::new(policy),
            memory: Mutex::default(),
            hooks,
            approver,
            closed: AtomicBool::new(false),
            has_servers,
            upstreams: OnceLock::new(),
            waited: OnceCell::new(),
            sandboxes,
        };
        Ok(Session { inner: Arc::new(inner) })
    }
}

/// A mode that is no looser than what an agent's template says.
pub(super) fn bounded(agent: &Agent, mode: Mode) -> Mode {
    Mode::parse(agent.policy.mode).map_or(mode, |least| mode.stricter(least))
}

/// What an agent's template says beside its grants: its rules and a mode that is only ever stricter go into the policy.
fn template(agent: &'static Agent, policy: &mut Policy) -> Result<Vec<Arc<dyn Hook>>, SessionError> {
    let said = &agent.policy;
    let wrong = |error: RuleError| SessionError::Template { agent: agent.id, error };
    for (list, rules) in [
        (List::Allow, said.allow),
        (List::Ask, said.ask),
        (List::Deny, said.deny),
    ] {
        for rule in rules {
            let rule = Rule::parse(rule).map_err(wrong)?;
            policy.add(list, rule, Origin::new(Source::Template, agent.id));
        }
    }
    policy.set_mode(bounded(agent, policy.mode()));
    let hooks = said.hooks.iter().map(|hook| {
        let hook = CommandHook::of_template(hook).map_err(wrong)?;
        Ok(Arc::new(hook) as Arc<dyn Hook>)
    });
    hooks.collect()
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// Tools whose names are taken.
    Names(RegisterError),
    /// A rule of the agent's template cannot be read.
    Template {
        /// The template.
        agent: &'static str,
        /// What is wrong.
        error: RuleError,
    },
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Names(error) => error.fmt(f),
            Self::Template { agent, error } => write!(f, "the policy of the template {agent}: {error}"),
        }
    }
}

impl std::error::Error for SessionError {}

impl From<RegisterError> for SessionError {
    fn from(error: RegisterError) -> Self {
        Self::Names(error)
    }
}

/// A catalogue without tools, whose tools judge paths as those of specs do: where a host registers its own.
pub fn empty_catalogue() -> Catalogue<Runner> {
    Catalogue::new(path_rule)
}

fn path_rule(text: &str) -> Result<(), String> {
    RelPath::parse(text).map(|_| ()).map_err(|problem| problem.to_string())
}

/// What an MCP client tells its model about this server.
pub(super) fn instructions(agent: &Agent, catalogue: &Catalogue<Runner>, identity: &Identity, phase: Phase) -> String {
    let mut text = format!("devloop serves the tools of the {}: {}", agent.title, agent.summary);
    if let Some(unit) = &identity.unit_id {
        let _ = write!(text, " This session works on the unit `{unit}`.");
    }
    text.push_str(" All paths are relative to the project directory.");
    let snapshot = catalogue.snapshot();
    let names: Vec<&str> = snapshot.declarations(phase).map(|entry| entry.name()).collect();
    let _ = write!(text, " Tools: {}.", names.join(", "));
    let deferred = snapshot.deferred_listing(phase);
    if !deferred.is_empty() {
        let _ = write!(text, "\n{deferred}");
    }
    text
}
