//! `devloop.toml`: what a project or a user sets for the program.
//!
//! Answers for the keys, their defaults and where the file is looked for. Unknown keys are errors with a position: a
//! setting that is silently ignored is worse than none. Leaves out anything that changes a tool's contract: that is in
//! the specs.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

/// The settings in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The name under which the MCP server presents itself. Default: `devloop`.
    pub server_name: String,
    /// How long a call waits for a file that another process is writing. Default: 5 s.
    pub lock_wait: Duration,
    /// How many replaced todo lists are kept for each state key. Default: 50.
    pub history_kept: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            server_name: "devloop".to_owned(),
            lock_wait: Duration::from_secs(5),
            history_kept: 50,
        }
    }
}

/// A commented file with every key at its default, as `devloop init` writes it.
pub const TEMPLATE: &str = "\
# Settings of devloop for this project. Every key is optional; these are the defaults.
# The same file as ~/.config/devloop/devloop.toml sets them for all your projects; the project's own win.

[server]
# The name under which the MCP server presents itself: letters, digits, `-` and `_`, at most 20.
# name = \"devloop\"

[limits]
# How long a call waits for a file that another process is writing, in milliseconds (1 to 60000).
# lock_wait_ms = 5000
# How many replaced todo lists are kept for each agent (1 to 1000).
# history_kept = 50
";

/// A settings file that cannot be used.
#[derive(Debug)]
pub struct ConfigError {
    path: PathBuf,
    message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.message)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// The settings for a project: its own `devloop.toml` over the user's over the defaults.
    ///
    /// # Errors
    /// A file that exists and cannot be read, is no TOML, has an unknown key, or a value out of range; with line and
    /// column.
    pub fn load(project: &Path, user: Option<&Path>) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        for path in user.into_iter().chain([&*project.join("devloop.toml")]) {
            if let Some(file) = read(path)? {
                config.apply(file, path)?;
            }
        }
        Ok(config)
    }

    /// Where the user's file is: `$XDG_CONFIG_HOME/devloop/devloop.toml`, else `~/.config/devloop/devloop.toml`.
    pub fn user_file(var: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
        let absolute = |name| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
        Some(base.join("devloop/devloop.toml"))
    }

    fn apply(&mut self, file: File, path: &Path) -> Result<(), ConfigError> {
        let wrong = |key: &str, found: String, expected: &str| ConfigError {
            path: path.to_owned(),
            message: format!("{key} is {found}; expected {expected}"),
        };
        if let Some(name) = file.server.name {
            let fits = (1..=20).contains(&name.len())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
            if !fits {
                return Err(wrong(
                    "server.name",
                    format!("{name:?}"),
                    "1 to 20 letters, digits, `-` or `_`",
                ));
            }
            self.server_name = name;
        }
        if let Some(ms) = file.limits.lock_wait_ms {
            if !(1..=60_000).contains(&ms) {
                return Err(wrong("limits.lock_wait_ms", ms.to_string(), "1 to 60000"));
            }
            self.lock_wait = Duration::from_millis(ms);
        }
        if let Some(kept) = file.limits.history_kept {
            if !(1..=1_000).contains(&kept) {
                return Err(wrong("limits.history_kept", kept.to_string(), "1 to 1000"));
            }
            self.history_kept = kept;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    server: Server,
    #[serde(default)]
    limits: Limits,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    lock_wait_ms: Option<u64>,
    history_kept: Option<usize>,
}

fn read(path: &Path) -> Result<Option<File>, ConfigError> {
    let failed = |message: String| ConfigError {
        path: path.to_owned(),
        message,
    };
    match fs::read_to_string(path) {
        // The parser's text has line, column, the line itself and, for an unknown key, the known ones.
        Ok(text) => toml::from_str(&text)
            .map(Some)
            .map_err(|error| failed(error.to_string().trim_end().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(project: &str, user: Option<&str>) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("devloop.toml"), project).unwrap();
        let user_file = dir.path().join("user.toml");
        if let Some(user) = user {
            fs::write(&user_file, user).unwrap();
        }
        Config::load(dir.path(), Some(&user_file)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_template_is_the_defaults_and_every_key_in_it_exists() {
        assert_eq!(load(TEMPLATE, None).unwrap(), Config::default());
        let uncommented: Vec<&str> = TEMPLATE
            .lines()
            .map(|line| {
                line.strip_prefix("# ")
                    .filter(|rest| rest.contains(" = "))
                    .unwrap_or(line)
            })
            .collect();
        assert_eq!(load(&uncommented.join("\n"), None).unwrap(), Config::default());
    }

    #[test]
    fn the_projects_settings_win_over_the_users() {
        let config = load(
            "[limits]\nlock_wait_ms = 10\n",
            Some("[limits]\nlock_wait_ms = 20\nhistory_kept = 3\n"),
        )
        .unwrap();
        assert_eq!((config.lock_wait.as_millis(), config.history_kept), (10, 3));
    }

    #[test]
    fn an_unknown_key_is_an_error_with_its_position() {
        let error = load("[limits]\nlock_wait = 10\n", None).unwrap_err();
        assert!(
            error.contains("line 2, column 1") && error.contains("lock_wait_ms"),
            "{error}"
        );
    }

    #[test]
    fn a_value_out_of_range_names_the_range() {
        let error = load("[limits]\nhistory_kept = 0\n", None).unwrap_err();
        assert!(
            error.ends_with("limits.history_kept is 0; expected 1 to 1000"),
            "{error}"
        );
        assert!(
            load("[server]\nname = \"a b\"\n", None)
                .unwrap_err()
                .contains("server.name")
        );
    }

    #[test]
    fn the_users_file_follows_the_environment() {
        let with = |pairs: &'static [(&str, &str)]| {
            Config::user_file(move |name| {
                pairs
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| value.into())
            })
        };
        assert_eq!(
            with(&[("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")]),
            Some("/x/devloop/devloop.toml".into())
        );
        assert_eq!(with(&[("HOME", "/h")]), Some("/h/.config/devloop/devloop.toml".into()));
        assert_eq!(with(&[("HOME", "relative")]), None);
    }
}
