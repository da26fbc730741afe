//! Who calls, and on what: company, project, agent, unit, call and session.
//!
//! Answers for working these out from a project directory and what the operator gave, and for refusing what does not fit
//! together. Leaves out opening the directory (the core's sandbox).

use std::fmt;
use std::path::{Component, Path};

use devloop_contract::Agent;
use uuid::Uuid;

/// Where Claude Code says which session it is.
pub const SESSION_VARIABLE: &str = "CLAUDE_CODE_SESSION_ID";

/// The most characters of a name that is free text.
const LONGEST_LABEL: usize = 256;

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

/// What the operator says about a call's identity; everything has a default but the unit of an agent that needs one. Error
/// texts name a field by the option of the program that gives it.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The company. `--company`.
    pub company: Option<String>,
    /// The project. `--project`.
    pub project: Option<String>,
    /// The unit that the agent works on: required where [`Agent::needs_unit`], refused elsewhere. `--unit`.
    pub unit: Option<String>,
    /// The agent call: many tool calls share it. A new one by default. `--call-id`.
    pub call_id: Option<String>,
    /// The client's session. `--session-id`.
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
/// Company and project come from a path `…/companies/{cid}/projects/{pid}`: the real one, else the one given, which may
/// lead there over links; else from the flags; else they are `local` and the directory's name. The session is `--session-id`, else `CLAUDE_CODE_SESSION_ID` as handed in by the caller, else
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
                "{} works on one unit, and none was given: say which (on the command line: --unit UNIT)",
                agent.name
            )));
        }
        (false, Some(unit)) => {
            return Err(IdentityError(format!(
                "{} works on no unit, and `{unit}` was given: leave it out (on the command line: leave out --unit {unit})",
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
    // A directory that cannot be resolved is refused when it is opened; here its name is all there is.
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let from_path = ids_in_path(&real).or_else(|| ids_in_path(dir));
    let (company_in_path, project_in_path) = from_path.unzip();
    let company = agreed("--company", given.company, company_in_path, || "local".to_owned())?;
    let project = agreed("--project", given.project, project_in_path, || {
        real.file_name()
            .map_or_else(|| "project".to_owned(), |name| name.to_string_lossy().into_owned())
    })?;
    let call_id = match given.call_id {
        Some(id) => label("--call-id", id)?,
        None => format!("call-{}", Uuid::now_v7()),
    };
    let session_id = match (given.session_id, session_of_client) {
        (Some(id), _) => label("--session-id", id)?,
        (None, Some(id)) => label(SESSION_VARIABLE, id)?,
        (None, None) => Uuid::now_v7().to_string(),
    };
    Ok(Identity {
        company,
        project,
        agent: agent.name,
        unit_id,
        call_id,
        session_id,
    })
}

/// A free text that names something, from the flag or the variable `from`.
pub(crate) fn label(from: &str, value: String) -> Result<String, IdentityError> {
    let length = value.chars().count();
    if (1..=LONGEST_LABEL).contains(&length) && !value.contains(char::is_control) {
        return Ok(value);
    }
    let found = match length {
        0 => "it is empty".to_owned(),
        _ if length > LONGEST_LABEL => format!("it has {length}"),
        _ => format!("it is {value:?}"),
    };
    Err(IdentityError(format!(
        "{from} must have 1 to {LONGEST_LABEL} characters and no control characters; {found}"
    )))
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
    let mut parts = dir.components().rev().map(|part| match part {
        Component::Normal(name) => name.to_string_lossy().into_owned(),
        // No name, and no name's equal.
        _ => String::new(),
    });
    let (pid, projects, cid, companies) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let named = !cid.is_empty() && !pid.is_empty();
    (named && projects == "projects" && companies == "companies").then_some((cid, pid))
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
        (Some(name), _) if !is_directory_name(&name) => Err(IdentityError(format!(
            "{flag} is {name:?}; it must be a name that a directory can have: 1 to 255 bytes, no `/`, no control \
             characters, not `.` or `..`"
        ))),
        (Some(name), _) => Ok(name),
        (None, in_path) => {
            let name = in_path.unwrap_or_else(default);
            if is_directory_name(&name) {
                Ok(name)
            } else {
                Err(IdentityError(format!(
                    "the project directory's path says {name:?} for {flag}, which has control characters: rename the \
                     directory"
                )))
            }
        }
    }
}

/// Names of companies and projects become parts of paths.
fn is_directory_name(name: &str) -> bool {
    (1..=255).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.contains(|c: char| c == '/' || c.is_control())
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

    #[test]
    fn a_link_on_the_way_hides_neither_company_nor_project() {
        let dir = tempfile::tempdir().unwrap();
        let projects = dir.path().join("companies/c1/projects");
        let elsewhere = dir.path().join("elsewhere");
        for made in [&projects.join("p1"), &elsewhere] {
            std::fs::create_dir_all(made).unwrap();
        }
        let link = |to: &Path, at: &Path| std::os::unix::fs::symlink(to, at).unwrap();
        link(&projects.join("p1"), &dir.path().join("shop"));
        link(&elsewhere, &projects.join("p2"));
        link(&projects.join("p1"), &projects.join("current"));
        let ids = |path: &Path| {
            let identity = pm(path.to_str().unwrap(), Given::default()).unwrap();
            format!("{}/{}", identity.company, identity.project)
        };
        assert_eq!(ids(&dir.path().join("shop")), "c1/p1", "the real path says it");
        assert_eq!(ids(&projects.join("p2")), "c1/p2", "only the given path says it");
        assert_eq!(ids(&projects.join("current")), "c1/p1", "the real path wins");
        assert_eq!(ids(&projects.join("..")), "local/c1", "`..` is no project");
    }

    #[test]
    fn a_company_or_project_is_a_name_that_a_directory_can_have() {
        for bad in ["", ".", "..", "a/b", "a\nb", "\u{7f}", &"x".repeat(256)] {
            for (company, project, flag) in [(Some(bad), None, "--company"), (None, Some(bad), "--project")] {
                let given = Given {
                    company: company.map(str::to_owned),
                    project: project.map(str::to_owned),
                    ..Given::default()
                };
                let error = pm("/p", given).unwrap_err().to_string();
                assert!(error.starts_with(flag) && !error.contains('\n'), "{bad:?}: {error}");
            }
        }
        assert!(
            pm("/a\nb", Given::default())
                .unwrap_err()
                .to_string()
                .contains("rename")
        );
    }

    #[test]
    fn labels_are_counted_in_characters_and_blamed_on_where_they_came_from() {
        let agent = AgentId::Pm.agent();
        let of_client = |id: &str| identify(agent, Path::new("/p"), Given::default(), Some(id.to_owned()));
        assert_eq!(of_client(&"é".repeat(256)).unwrap().session_id.chars().count(), 256);
        let error = of_client(&"é".repeat(257)).unwrap_err().to_string();
        assert_eq!(
            error,
            "CLAUDE_CODE_SESSION_ID must have 1 to 256 characters and no control characters; it has 257"
        );
        let given = Given {
            session_id: Some("a\tb".to_owned()),
            ..Given::default()
        };
        let error = identify(agent, Path::new("/p"), given, Some("fine".to_owned())).unwrap_err();
        assert!(error.to_string().starts_with("--session-id must"), "{error}");
    }
}
