//! What a tool may touch in a session.
//!
//! Answers for binding the patterns of a template and of a spec to one agent, unit and site. Leaves out judging paths.

use std::sync::Arc;

use devloop_contract::glob::{Pattern, PatternError};
use devloop_contract::{Agent, InternalError, Tool};
use devloop_core::sandbox::Sandbox;

use crate::identity::Identity;
use crate::project::Project;

/// What `tool` may touch when `agent` calls it: what the template allows, by itself or through this tool, *and* the spec
/// declares. Both sides are bound to this session, so a Coder's `units/{unit_id}/**` is one unit.
pub(super) fn sandbox_for(
    project: &Project,
    identity: &Identity,
    agent: &'static Agent,
    tool: &'static Tool,
) -> Result<Sandbox, InternalError> {
    let bound = |text: &str| {
        bound(text, agent, identity).map_err(|error| {
            InternalError::new(
                format!("the path pattern `{text}` of {} or {}", tool.spec, agent.id),
                error,
            )
        })
    };
    let via = agent
        .sandbox
        .write_via
        .iter()
        .filter(|via| via.tool == tool.name)
        .flat_map(|via| via.paths);
    let allow = agent
        .sandbox
        .write_allow
        .iter()
        .chain(via)
        .map(|text| bound(text))
        .collect::<Result<_, _>>()?;
    let reads = tool
        .effects
        .reads
        .iter()
        .map(|text| bound(text))
        .collect::<Result<_, _>>()?;
    let writes = tool
        .effects
        .writes
        .iter()
        .filter(|write| write.only.is_empty() || write.only.contains(&agent.name))
        .map(|write| bound(write.path))
        .collect::<Result<_, _>>()?;
    let read = agent
        .sandbox
        .read_allow
        .iter()
        .map(|text| bound(text))
        .collect::<Result<_, _>>()?;
    Ok(Sandbox::new(Arc::clone(&project.dir), identity.agent, allow)
        .with_effects(reads, writes, tool.spec)
        .with_read_allow(read))
}

/// A pattern in which the agent, its state key, its unit and its site stand for this session's.
pub(super) fn bound(text: &str, agent: &Agent, identity: &Identity) -> Result<Pattern, PatternError> {
    let value = |name: &str| match name {
        "agent" => Some(vec![identity.agent.to_owned()]),
        "state_key" => Some(vec![identity.state_key()]),
        "unit_id" => identity.unit_id.clone().map(|unit| vec![unit]),
        "site" if !agent.sandbox.site.is_empty() => Some(vec![agent.sandbox.site.to_owned()]),
        _ => None,
    };
    Pattern::parse(text).map(|pattern| pattern.bind(&value))
}
