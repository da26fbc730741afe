//! Who calls, and on what: company, project, agent, unit, call and session.
//!
//! Answers for working these out from a project directory and what the operator gave, and for refusing what does not fit
//! together. Leaves out opening the directory (the core's sandbox).

use std::fmt;
use std::path::Path;

use devloop_contract::Agent;
use uuid::Uuid;

/// The names under which a call's files and events are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The company: `cid` in `…/companies/{cid}/projects/{pid}`.
    pub company: String,
    /// The project: `pid`.
    pub project: String,
    /// The agent's short name.
    pub agent: &'static str,
    /// The unit, for agents that work on one.
    pub unit_id: Option<String>,
    /// The agent call: many tool calls share it.
    pub call_id: String,
    /// The client's session.
    pub session_id: String,
}

impl Identity {
    /// The key of this agent's state files: `{agent}`, or `{agent}.{unit_id}`: two Coders on two units would otherwise
    /// overwrite each other's list.
    pub fn state_key(&self) -> String {
        match &self.unit_id {
            Some(unit) => format!("{}.{unit}", self.agent),
            None => self.agent.to_owned(),
        }
    }
}

/// What the operator says about a call's identity; everything has a default but the unit of an agent that needs one.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// `--company`.
    pub company: Option<String>,
    /// `--project`.
    pub project: Option<String>,
    /// `--unit`.
    pub unit: Option<String>,
    /// `--call-id`.
    pub call_id: Option<String>,
    /// `--session-id`.
    pub session_id: Option<String>,
}

/// Something about the identity that does not fit; a usage error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityError(String);

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for IdentityError {}

/// Works out the identity of calls of `agent` in the project at `dir`.
///
/// Company and project come from a path `…/companies/{cid}/projects/{pid}`; else from the flags; else they are `local`
/// and the directory's name. The session is `--session-id`, else `CLAUDE_CODE_SESSION_ID` as handed in by the caller, else
/// a new UUID v7.
///
/// # Errors
/// A unit that is missing or superfluous, a name with characters that no file name should have, or a flag that
/// contradicts the path.
pub fn identify(
    agent: &'static Agent,
    dir: &Path,
    given: Given,
    session_of_client: Option<String>,
) -> Result<Identity, IdentityError> {
    let unit_id = match (agent.needs_unit, given.unit) {
        (true, None) => {
            return Err(IdentityError(format!(
                "{} works on one unit: say which with --unit UNIT",
                agent.name
            )));
        }
        (false, Some(unit)) => {
            return Err(IdentityError(format!(
                "{} works on no unit: leave out --unit {unit}",
                agent.name
            )));
        }
        (true, Some(unit)) if !is_unit_id(&unit) => {
            return Err(IdentityError(format!(
                "`{unit}` is no unit id: a lower-case letter, then 1 to 31 lower-case letters, digits or `-`"
            )));
        }
        (_, unit) => unit,
    };
    let from_path = ids_in_path(dir);
    let (company_in_path, project_in_path) = from_path.unzip();
    let company = agreed("--company", given.company, company_in_path, || "local".to_owned())?;
    let project = agreed("--project", given.project, project_in_path, || {
        dir.file_name()
            .map_or_else(|| "project".to_owned(), |name| name.to_string_lossy().into_owned())
    })?;
    let call_id = given.call_id.unwrap_or_else(|| format!("call-{}", Uuid::now_v7()));
    let session_id = given
        .session_id
        .or(session_of_client)
        .unwrap_or_else(|| Uuid::now_v7().to_string());
    for (flag, value) in [("--call-id", &call_id), ("--session-id", &session_id)] {
        if value.is_empty() || value.len() > 256 || value.chars().any(char::is_control) {
            return Err(IdentityError(format!(
                "{flag} must have 1 to 256 characters and no control characters"
            )));
        }
    }
    Ok(Identity {
        company,
        project,
        agent: agent.name,
        unit_id,
        call_id,
        session_id,
    })
}

/// `/^[a-z][a-z0-9-]{1,31}$/`, the rule for the ids of units.
fn is_unit_id(text: &str) -> bool {
    (2..=32).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// `cid` and `pid` of a path that ends in `companies/{cid}/projects/{pid}`.
fn ids_in_path(dir: &Path) -> Option<(String, String)> {
    let mut parts = dir
        .components()
        .rev()
        .map(|part| part.as_os_str().to_string_lossy().into_owned());
    let (pid, projects, cid, companies) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    (projects == "projects" && companies == "companies").then_some((cid, pid))
}

fn agreed(
    flag: &str,
    given: Option<String>,
    in_path: Option<String>,
    default: impl FnOnce() -> String,
) -> Result<String, IdentityError> {
    match (given, in_path) {
        (Some(given), Some(in_path)) if given != in_path => Err(IdentityError(format!(
            "{flag} {given} contradicts the project directory, which says {in_path}: leave the flag out"
        ))),
        (Some(name), _) if name.is_empty() || name.contains(['/', '\0']) => {
            Err(IdentityError(format!("{flag} must not be empty and not contain `/`")))
        }
        (Some(name), _) | (None, Some(name)) => Ok(name),
        (None, None) => Ok(default()),
    }
}

#[cfg(test)]
mod tests {
    use devloop_generated::AgentId;

    use super::*;

    fn pm(dir: &str, given: Given) -> Result<Identity, IdentityError> {
        identify(AgentId::Pm.agent(), Path::new(dir), given, None)
    }

    #[test]
    fn the_path_says_company_and_project() {
        let identity = pm("/data/companies/c1/projects/p-test001", Given::default()).unwrap();
        assert_eq!(
            (&*identity.company, &*identity.project, &*identity.state_key()),
            ("c1", "p-test001", "pm")
        );
    }

    #[test]
    fn without_such_a_path_the_flags_or_the_directory_name_do() {
        let identity = pm("/home/me/shop", Given::default()).unwrap();
        assert_eq!((&*identity.company, &*identity.project), ("local", "shop"));
        let given = Given {
            company: Some("c".into()),
            project: Some("p".into()),
            ..Given::default()
        };
        let identity = pm("/home/me/shop", given).unwrap();
        assert_eq!((&*identity.company, &*identity.project), ("c", "p"));
    }

    #[test]
    fn a_flag_may_not_contradict_the_path() {
        let given = Given {
            project: Some("other".into()),
            ..Given::default()
        };
        let error = pm("/data/companies/c1/projects/p1", given).unwrap_err().to_string();
        assert_eq!(
            error,
            "--project other contradicts the project directory, which says p1: leave the flag out"
        );
    }

    #[test]
    fn a_unit_is_given_exactly_when_the_agent_works_on_one() {
        let unit = |unit: &str| Given {
            unit: Some(unit.into()),
            ..Given::default()
        };
        assert!(
            pm("/p", unit("web"))
                .unwrap_err()
                .to_string()
                .contains("leave out --unit web")
        );
        let coder = AgentId::Coder.agent();
        assert!(
            identify(coder, Path::new("/p"), Given::default(), None)
                .unwrap_err()
                .to_string()
                .contains("--unit UNIT")
        );
        assert!(identify(coder, Path::new("/p"), unit("../x"), None).is_err());
        let identity = identify(coder, Path::new("/p"), unit("todo-be"), None).unwrap();
        assert_eq!(identity.state_key(), "coder.todo-be");
    }

    #[test]
    fn the_session_is_the_flags_else_the_clients_else_new() {
        let agent = AgentId::Pm.agent();
        let given = Given {
            session_id: Some("s1".into()),
            ..Given::default()
        };
        assert_eq!(
            identify(agent, Path::new("/p"), given, Some("s2".into()))
                .unwrap()
                .session_id,
            "s1"
        );
        assert_eq!(
            identify(agent, Path::new("/p"), Given::default(), Some("s2".into()))
                .unwrap()
                .session_id,
            "s2"
        );
        assert_eq!(
            identify(agent, Path::new("/p"), Given::default(), None)
                .unwrap()
                .session_id
                .len(),
            36
        );
    }
}
