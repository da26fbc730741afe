//! Artifacts: what is too large for a result is kept outside of the project and read in parts.
//!
//! Answers for finding the root in the environment; a host gives its own with
//! [`Project::with_artifacts`](crate::project::Project::with_artifacts). Everything below the root is the core's
//! [`artifacts`](devloop_core::artifacts), which is here as well: [`ArtifactStore`], its limits and errors.

use std::ffi::OsString;
use std::path::PathBuf;

pub use devloop_core::artifacts::*;

/// `$XDG_STATE_HOME/devloop/artifacts`, else `~/.local/state/devloop/artifacts`; `None` when neither is said.
pub fn root(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(base.join("devloop/artifacts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_where_the_environment_says() {
        let with = |pairs: &'static [(&str, &str)]| {
            root(move |name| {
                let pair = pairs.iter().find(|(key, _)| *key == name);
                pair.map(|(_, value)| value.into())
            })
        };
        assert_eq!(
            with(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")]),
            Some("/s/devloop/artifacts".into())
        );
        assert_eq!(
            with(&[("XDG_STATE_HOME", "s"), ("HOME", "/h")]),
            Some("/h/.local/state/devloop/artifacts".into())
        );
        assert_eq!(with(&[]), None);
    }
}
