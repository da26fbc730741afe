//! `devloop.toml`: what a project or a user sets for the program.
//!
//! Answers for the keys, their defaults and where the file is looked for. Unknown keys are errors with a position: a
//! setting that is silently ignored is worse than none. Leaves out anything that changes a tool's contract: that is in
//! the specs.

mod execution;
mod given;
mod hooks;
mod permissions;
mod timeouts;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use devloop_core::artifacts;
use devloop_core::artifacts::oversized::Budget;
use devloop_core::permission::Source;
use devloop_core::retention::Policy;
use devloop_core::sandbox::{FsError, ProjectDir, RelPath};
use jiff::SignedDuration;
use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use toml::Spanned;

pub use execution::Execution;
use given::Given;
pub use hooks::Hooks;
pub use permissions::Permissions;
use permissions::Wrong;
pub use timeouts::Timeouts;

/// The most that is read of a settings file; one with every key has less than a hundredth of that.
const LARGEST_FILE: u64 = 64 * 1024;

/// The largest artifact that may be set, in KiB.
const LARGEST_ARTIFACT_KIB: u32 = 256 * 1024;

/// The most that the artifacts of a session may be set to, in KiB: as a limit of bytes, 64 GiB.
const LARGEST_SESSION_KIB: u32 = 64 * 1024 * 1024;

/// The name of the file in a project.
const FILE_NAME: &str = "devloop.toml";

/// The settings in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The name under which the MCP server presents itself. Default: `devloop`.
    pub server_name: String,
    /// How long a call waits for a file that another process is writing. Default: 5 s.
    pub lock_wait: Duration,
    /// How many replaced todo lists are kept for each state key. Default: 50.
    pub history_kept: usize,
    /// How long a result may be, in characters, before the whole of it becomes an artifact. Default: 16,000. What cannot be
    /// cut to that without losing its shape may have two and a half times as many.
    pub result_chars: usize,
    /// How many bytes of pictures and other binary content a result may have, in base64. Default: 4 MiB.
    pub result_binary_bytes: usize,
    /// How much a session may keep as artifacts. Default: 16 MiB each, 64 MiB and 256 files together.
    pub artifacts: artifacts::Limits,
    /// How many calls run and wait at once, and for how long.
    pub execution: Execution,
    /// How long tools may take that are to have another time than they say themselves.
    pub timeouts: Timeouts,
    /// For how many days broken files that were set aside stay. Default: 30.
    pub set_aside_days: u32,
    /// For how many days the calls of an agent that makes none any more are known again. Default: 90.
    pub replay_days: u32,
    /// For how many days the artifacts of a session stay. Default: 30.
    pub artifact_days: u32,
    /// How many full files of the timeline stay; 0 is all. Default: 0.
    pub timeline_files: usize,
    /// Mode and rules. Default: the mode `default` without rules.
    pub permissions: Permissions,
    /// Programs that hear of calls; the user's first.
    pub hooks: Hooks,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            server_name: "devloop".to_owned(),
            lock_wait: Duration::from_secs(5),
            history_kept: 50,
            result_chars: 16_000,
            result_binary_bytes: 4 << 20,
            artifacts: artifacts::Limits::default(),
            execution: Execution::default(),
            timeouts: Timeouts::default(),
            set_aside_days: 30,
            replay_days: 90,
            artifact_days: 30,
            timeline_files: 0,
            permissions: Permissions::default(),
            hooks: Hooks::default(),
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
# How long a result may be, in characters (4000 to 1000000); the whole of a longer one becomes an artifact, to be read in parts.
# result_chars = 16000
# How much of pictures and other binary content a result may have, in KiB of base64 (1 to 65536).
# result_binary_kib = 4096
# How large an artifact may be (1 to 262144 KiB), and how large (1 to 67108864 KiB) and how many (1 to 10000) those of a
# session may be together. What an upstream server answers has 16 MiB at most.
# artifact_file_kib = 16384
# artifact_session_kib = 65536
# artifact_files = 256

[execution]
# How long a call waits for its turn and for a place, in milliseconds (1 to 604800000).
# turn_wait_ms = 180000
# How many calls of a session may wait for their turn in it (1 to 100000).
# pending = 64
# How many calls whose turn it is may wait for a place, over all sessions and of each (1 to 100000).
# waiting = 256
# waiting_per_session = 64
# How many calls run at once, over all sessions of a process and of each, and how many of them by their kind (1 to 100000).
# What is not said is no more than what it is a part of.
# in_flight = { total = 32, read_only = 24, write = 8, execute = 3 }
# per_session = { total = 10, read_only = 8, write = 4, execute = 2 }
# The pauses before a call that may be repeated is tried again, in milliseconds (0 to 60000 each, at most 10).
# retry_pauses_ms = [200, 400]

[timeouts_ms]
# How long a tool may take, in milliseconds (1 to 86400000), in place of what `devloop show TOOL` says, or of 180000 for tools
# of upstream servers: by its name, or by its beginning with `*`.
# \"docs__*\" = 600000

[retention]
# What `devloop gc --apply` leaves in place (0 to 36500 days).
# Broken files that were set aside, and torn ends of journals.
# set_aside_days = 30
# What is needed to know a repeated call again, of agents that make no calls any more.
# replay_days = 90
# What tools wrote outside the project for sessions that are over.
# artifact_days = 30
# The newest full files of the timeline, 64 MiB each (0 to 10000); 0 keeps all.
# timeline_files = 0

[permissions]
# How much runs without being asked for: `plan` (only what counts as read_only; an agent's own todo list, state, timeline
# and memories do), `default` (what a rule allows), `auto_edit` (files are edited) or `bypass` (nothing is asked). A project's mode counts only when it is stricter than yours.
# mode = \"default\"
# Rules: `tool`, `tool(content)`, with `*` for anything: \"mcp__github__*\", \"Bash(git status*)\". A project's rules are
# added to yours. What is denied never runs, in no mode. Of the rest, what the mode lets run runs; then what is allowed;
# that is what rules under `allow` mean, and the agent's grants, which are such rules; what stands under `ask` is asked
# each time; what no rule speaks of is asked, and the answer may count for the session.
# allow = []
# ask = []
# deny = []
# Only in your own settings (~/.config/devloop/devloop.toml): whether hooks that come with a project may run.
# project_hooks = false

# Programs that hear of calls, as many as you like; they can deny, ask and change input, and never allow. They read and say
# JSON as Claude Code's hooks do, and one that fails denies. They start where this file is; a program
# without `/` is looked for in PATH. In a project's file they are refused until its user has set project_hooks.
# [[hooks]]
# event = \"pre_tool_use\" # or \"post_tool_use\"
# calls = \"Bash(*)\" # a rule: which calls; all without it
# command = [\"python3\", \"guard.py\"]
# timeout_ms = 10000
";

/// A settings file that cannot be used.
#[derive(Debug)]
pub struct ConfigError {
    path: PathBuf,
    message: String,
}

impl ConfigError {
    fn new(path: &Path, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            message: message.into(),
        }
    }
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
    /// A file that exists and cannot be read, is no regular file, has more than 64 KiB, is no TOML, has an unknown key, or
    /// a value out of range; what is wrong in the text comes with line and column. The project's file must not be a link:
    /// whoever can write in a project could else have any file read.
    pub fn load(project: &ProjectDir, user: Option<&Path>) -> Result<Self, ConfigError> {
        let (mut config, mut together) = Self::said_by(user)?;
        let path = project.path().join(FILE_NAME);
        let text = read_projects(project).map_err(|message| ConfigError::new(&path, message))?;
        config.apply(text, &path, Source::Project, &mut together)?;
        config.judge(together)
    }

    /// The user's settings alone, where there is no project.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn of_user(user: Option<&Path>) -> Result<Self, ConfigError> {
        let (config, together) = Self::said_by(user)?;
        config.judge(together)
    }

    fn said_by(user: Option<&Path>) -> Result<(Self, Together), ConfigError> {
        let (mut config, mut together) = (Self::default(), Together::default());
        if let Some(path) = user {
            let text = read_users(path).map_err(|message| ConfigError::new(path, message))?;
            config.apply(text, path, Source::User, &mut together)?;
        }
        Ok((config, together))
    }

    /// What is judged when all files have been read.
    fn judge(mut self, together: Together) -> Result<Self, ConfigError> {
        const KIB: u64 = 1024;
        let Together { given, pauses } = together;
        let kib = |bytes: u64| u32::try_from(bytes / KIB).unwrap_or(u32::MAX);
        let limits = self.artifacts;
        let session = given.part(SESSION_KIB, kib(limits.session_bytes), u32::MAX);
        let file = given.part(FILE_KIB, kib(limits.file_bytes), session);
        if file > session {
            let expected = format!("1 to {session} (`{SESSION_KIB}`)");
            return Err(given.wrong(FILE_KIB, &file.to_string(), &expected));
        }
        self.artifacts.session_bytes = u64::from(session) * KIB;
        self.artifacts.file_bytes = u64::from(file) * KIB;
        self.execution = Execution::of(&given, pauses)?;
        Ok(self)
    }

    /// How long a result may be.
    pub(crate) fn budget(&self) -> Budget {
        Budget {
            usual: self.result_chars,
            most: self.result_chars.saturating_mul(5) / 2,
        }
    }

    /// Where the user's file is: `$XDG_CONFIG_HOME/devloop/devloop.toml`, else `~/.config/devloop/devloop.toml`.
    pub fn user_file(var: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
        let absolute = |name| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
        Some(base.join("devloop/devloop.toml"))
    }

    /// The mode and the rules of the settings, to which a session adds its grants.
    pub fn policy(&self) -> devloop_core::permission::Policy {
        self.permissions.policy()
    }

    /// What `devloop gc` leaves in place.
    pub fn retention(&self) -> Policy {
        let days = |days: u32| SignedDuration::from_hours(24 * i64::from(days));
        Policy {
            history: self.history_kept,
            set_aside: days(self.set_aside_days),
            replay: days(self.replay_days),
            timeline_files: (self.timeline_files > 0).then_some(self.timeline_files),
            artifacts: days(self.artifact_days),
        }
    }

    fn apply(
        &mut self,
        bytes: Option<Vec<u8>>,
        path: &Path,
        source: Source,
        together: &mut Together,
    ) -> Result<(), ConfigError> {
        let Some(bytes) = bytes else { return Ok(()) };
        let text = str::from_utf8(&bytes)
            .map_err(|error| ConfigError::new(path, format!("it is not UTF-8 from byte {} on", error.valid_up_to())))?;
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        // The parser's text has line, column, the line itself and, for an unknown key, the known ones.
        let file: Settings = toml::from_str(text).map_err(|error| ConfigError::new(path, in_words_of_toml(&error)))?;
        let wrong = |key: &str, at: usize, found: String, expected: &str| {
            misplaced(path, text, at, &format!("{key} is {found}; expected {expected}"))
        };
        let line = |at: usize| place(text, at).0;
        let mut permissions = file.permissions;
        self.hooks
            .trust(permissions.project_hooks.take(), source)
            .and_then(|()| self.hooks.join(file.hooks, source, path))
            .map_err(|wrong| misplaced(path, text, wrong.at, &wrong.message))?;
        self.permissions
            .join(permissions, source, path, line)
            .map_err(|wrong| all_misplaced(path, text, &wrong))?;
        if let Some(name) = file.server.name {
            let (at, name) = (name.span().start, name.into_inner());
            let fits = (1..=20).contains(&name.len())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
            if !fits {
                return Err(wrong(
                    "server.name",
                    at,
                    format!("{name:?}"),
                    "1 to 20 letters, digits, `-` or `_`",
                ));
            }
            self.server_name = name;
        }
        let number = |key: &str, given: Option<Spanned<i64>>, least: u32, most: u32| {
            let Some(given) = given else { return Ok(None) };
            let (at, value) = (given.span().start, given.into_inner());
            match u32::try_from(value) {
                Ok(fitting) if (least..=most).contains(&fitting) => Ok(Some(fitting)),
                _ => Err(wrong(key, at, value.to_string(), &format!("{least} to {most}"))),
            }
        };
        let many = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        let (limits, retention) = (file.limits, file.retention);
        if let Some(ms) = number("limits.lock_wait_ms", limits.lock_wait_ms, 1, 60_000)? {
            self.lock_wait = Duration::from_millis(ms.into());
        }
        if let Some(kept) = number("limits.history_kept", limits.history_kept, 1, 1_000)? {
            self.history_kept = many(kept);
        }
        if let Some(days) = number("retention.set_aside_days", retention.set_aside_days, 0, 36_500)? {
            self.set_aside_days = days;
        }
        if let Some(days) = number("retention.replay_days", retention.replay_days, 0, 36_500)? {
            self.replay_days = days;
        }
        if let Some(days) = number("retention.artifact_days", retention.artifact_days, 0, 36_500)? {
            self.artifact_days = days;
        }
        if let Some(files) = number("retention.timeline_files", retention.timeline_files, 0, 10_000)? {
            self.timeline_files = many(files);
        }
        if let Some(characters) = number("limits.result_chars", limits.result_chars, 4_000, 1_000_000)? {
            self.result_chars = many(characters);
        }
        if let Some(kib) = number("limits.result_binary_kib", limits.result_binary_kib, 1, 65_536)? {
            self.result_binary_bytes = many(kib).saturating_mul(1024);
        }
        if let Some(files) = number("limits.artifact_files", limits.artifact_files, 1, 10_000)? {
            self.artifacts.session_files = files.into();
        }
        let sizes = [
            (FILE_KIB, limits.artifact_file_kib, LARGEST_ARTIFACT_KIB),
            (SESSION_KIB, limits.artifact_session_kib, LARGEST_SESSION_KIB),
        ];
        for (key, given, most) in sizes {
            let at = given.as_ref().map_or(0, |given| given.span().start);
            if let Some(kib) = number(key, given, 1, most)? {
                together.given.put(key.to_owned(), kib, path, place(text, at));
            }
        }
        let pauses = file.execution.keep(&mut together.given, path, |at| place(text, at));
        let pauses = pauses.map_err(|wrong| misplaced(path, text, wrong.at, &wrong.message))?;
        together.pauses = pauses.or(together.pauses.take());
        self.timeouts
            .join(file.timeouts_ms)
            .map_err(|wrong| misplaced(path, text, wrong.at, &wrong.message))?;
        Ok(())
    }
}

/// Line and column of a byte, from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    (line, before.rsplit('\n').next().unwrap_or(before).chars().count() + 1)
}

fn misplaced(path: &Path, text: &str, at: usize, message: &str) -> ConfigError {
    let (line, column) = place(text, at);
    ConfigError::new(path, format!("line {line}, column {column}: {message}"))
}

/// All that is wrong, one on a line; of many the first ones.
fn all_misplaced(path: &Path, text: &str, wrong: &[Wrong]) -> ConfigError {
    const MOST: usize = 20;
    let shown = wrong.iter().take(MOST).map(|wrong| {
        let (line, column) = place(text, wrong.at);
        format!("line {line}, column {column}: {}", wrong.message)
    });
    let mut lines: Vec<String> = shown.collect();
    if wrong.len() > MOST {
        lines.push(format!("and {} more", wrong.len() - MOST));
    }
    ConfigError::new(path, lines.join("\n"))
}

const FILE_KIB: &str = "limits.artifact_file_kib";
const SESSION_KIB: &str = "limits.artifact_session_kib";

/// What is kept of each file until all have been read, as its numbers depend on each other.
#[derive(Default)]
struct Together {
    given: Given,
    pauses: Option<Vec<Duration>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(default)]
    server: Server,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    execution: execution::Section,
    #[serde(default)]
    timeouts_ms: timeouts::Section,
    #[serde(default)]
    retention: Retention,
    #[serde(default)]
    permissions: permissions::Section,
    #[serde(default)]
    hooks: Vec<Spanned<hooks::Section>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    name: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    lock_wait_ms: Option<Spanned<i64>>,
    history_kept: Option<Spanned<i64>>,
    result_chars: Option<Spanned<i64>>,
    result_binary_kib: Option<Spanned<i64>>,
    artifact_file_kib: Option<Spanned<i64>>,
    artifact_session_kib: Option<Spanned<i64>>,
    artifact_files: Option<Spanned<i64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Retention {
    set_aside_days: Option<Spanned<i64>>,
    replay_days: Option<Spanned<i64>>,
    artifact_days: Option<Spanned<i64>>,
    timeline_files: Option<Spanned<i64>>,
}

/// The parser's text, whose last line has words of Rust where the file has tables and numbers.
fn in_words_of_toml(error: &toml::de::Error) -> String {
    let text = error.to_string();
    let text = text.trim_end();
    let message = error.message().trim_end();
    // The line that it shows is the file's own.
    let Some(shown) = text.strip_suffix(message) else {
        return text.to_owned();
    };
    let (found, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let found = found.strip_suffix(" as i128").unwrap_or(found);
    let found = found.strip_suffix(" as u128").unwrap_or(found);
    let expected = match expected {
        "" => return format!("{shown}{found}"),
        "i64" | "u64" | "u32" => "a whole number",
        "a sequence" => "a list",
        "a map" => "a table",
        structure if structure.starts_with("struct ") => "a table",
        other => other,
    };
    format!("{shown}{found}, expected {expected}")
}

fn too_large(bytes: u64) -> String {
    format!("it has {bytes} bytes or more; settings have at most {LARGEST_FILE}")
}

/// The project's file: others may have put it there, so no link is followed and nothing but a regular file is opened.
fn read_projects(project: &ProjectDir) -> Result<Option<Vec<u8>>, String> {
    let path = RelPath::parse(FILE_NAME).map_err(|problem| problem.to_string())?;
    project.read(&path, LARGEST_FILE).map_err(|error| match error {
        FsError::Denied { .. } | FsError::Obstructed { .. } => {
            "it must be a regular file; a link, a directory, a pipe or a device is not read".to_owned()
        }
        FsError::TooLarge { bytes, .. } => too_large(bytes),
        FsError::Io { source, .. } => source.to_string(),
        other => other.to_string(),
    })
}

/// The user's own file, which may be a link.
fn read_users(path: &Path) -> Result<Option<Vec<u8>>, String> {
    // Without waiting for the other end, should it be a pipe.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(error) => {
            let error = io::Error::from(error);
            return match error.kind() {
                // A user without a home may have a file in its place.
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
                _ => Err(error.to_string()),
            };
        }
    };
    let kind = file.metadata().map_err(|error| error.to_string())?;
    if !kind.is_file() {
        return Err("it must be a regular file; a directory, a pipe or a device is not read".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use devloop_core::permission::{List, Mode};

    use super::*;

    fn make_pipe(path: &Path) {
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    }

    #[test]
    fn what_is_no_table_or_number_is_told_without_words_of_rust() {
        for (settings, expected) in [
            ("[execution]\nin_flight = 3", "integer `3`, expected a table"),
            ("limits = [3]", ", expected a table"),
            (
                "[limits]\nhistory_kept = \"as i128\"",
                "string \"as i128\", expected a whole number",
            ),
            ("[limits]\nhistory_kept = 99999999999999999999", ""),
            ("[execution]\nretry_pauses_ms = 3", "integer `3`, expected a list"),
        ] {
            let error = load(settings, None).unwrap_err();
            assert!(error.ends_with(expected), "{error}");
            let message = error.lines().last().unwrap();
            for rust in ["struct", "i64", "`99999999999999999999` as", "sequence"] {
                assert!(!message.contains(rust), "{error}");
            }
        }
    }

    fn load_in(dir: &Path, user: Option<&Path>) -> Result<Config, String> {
        let dir = ProjectDir::open(dir).unwrap();
        Config::load(&dir, user).map_err(|error| error.to_string())
    }

    fn load(project: &str, user: Option<&str>) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("devloop.toml"), project).unwrap();
        let user_file = dir.path().join("user.toml");
        if let Some(user) = user {
            fs::write(&user_file, user).unwrap();
        }
        load_in(dir.path(), Some(&user_file))
    }

    #[test]
    fn the_template_is_the_defaults_and_every_key_in_it_exists() {
        assert_eq!(load(TEMPLATE, None).unwrap(), Config::default());
        let uncommented: Vec<&str> = TEMPLATE
            .lines()
            .map(|line| {
                line.strip_prefix("# ")
                    .filter(|rest| rest.contains(" = ") || rest.starts_with("[["))
                    .unwrap_or(line)
            })
            .collect();
        let config = load("", Some(&uncommented.join("\n"))).unwrap();
        assert_eq!(config.hooks.iter().len(), 1);
        assert_eq!(config.timeouts.names().collect::<Vec<_>>(), ["docs__*"]);
        let (hooks, timeouts) = (Hooks::default(), Timeouts::default());
        let config = Config {
            timeouts,
            hooks,
            ..config
        };
        assert_eq!(config, Config::default());
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
    fn rules_of_both_count_and_a_project_cannot_loosen_the_users_mode() {
        let user = "[permissions]\nmode = \"auto_edit\"\ndeny = ['Bash(rm *)']\n";
        let project = "[permissions]\nmode = 'plan'\nallow = [\n  'github__*',\n]\nask = ['a']\n";
        let both = load(project, Some(user)).unwrap().permissions;
        assert_eq!(both.mode(), Mode::Plan);
        let shown: Vec<String> = both
            .rules()
            .map(|(list, rule, origin)| {
                let file = origin.place.rsplit('/').next().unwrap_or_default();
                format!("{} {rule} {:?} {file}", list.as_str(), origin.source)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "deny Bash(rm *) User user.toml:3",
                "allow github__* Project devloop.toml:4",
                "ask a Project devloop.toml:6",
            ]
        );
        let policy = both.policy();
        assert_eq!(
            [List::Allow, List::Ask, List::Deny].map(|list| policy.rules(list).len()),
            [1, 1, 1]
        );
        assert_eq!((policy.mode(), both.notes().len()), (Mode::Plan, 0));

        for (user, project, mode) in [
            (None, None, Mode::Default),
            (Some("bypass"), None, Mode::Bypass),
            (Some("bypass"), Some("default"), Mode::Default),
            (Some("auto_edit"), Some("bypass"), Mode::AutoEdit),
            (None, Some("bypass"), Mode::Default),
            (None, Some("auto_edit"), Mode::Default),
            (Some("plan"), Some("default"), Mode::Plan),
        ] {
            let file = |mode: Option<&str>| {
                mode.map(|mode| format!("[permissions]\nmode = '{mode}'\n"))
                    .unwrap_or_default()
            };
            let found = load(&file(project), Some(&file(user))).unwrap().permissions;
            assert_eq!(found.mode(), mode, "{user:?} {project:?}");
            let loosens = project.and_then(Mode::parse).is_some_and(|project| project > mode);
            assert_eq!(found.notes().len(), usize::from(loosens));
            assert!(
                found
                    .notes()
                    .iter()
                    .all(|note| note.contains("devloop.toml:2: permissions.mode `"))
            );
        }
    }

    #[test]
    fn a_projects_hooks_run_only_when_the_user_lets_them() {
        let hook = "[[hooks]]\nevent = 'pre_tool_use'\ncommand = ['guard']\n";
        let error = load(hook, None).unwrap_err();
        assert!(
            error.contains("line 1, column 1: hooks of a project start programs"),
            "{error}"
        );
        let lets = "[permissions]\nproject_hooks = true\n";
        let both = load(hook, Some(&format!("{lets}{}", hook.replace("guard", "mine")))).unwrap();
        let commands: Vec<_> = both.hooks.iter().map(|hook| hook.command[0].as_str()).collect();
        assert_eq!(commands, ["mine", "guard"]);
        // Without `calls` they hear of every call.
        let tool = devloop_core::registry::ToolBuilder::new("echo")
            .summary("Says it again.")
            .build()
            .unwrap();
        let call = devloop_core::permission::Call::new(&tool, &serde_json::Value::Null, &[]);
        assert!(both.hooks.iter().all(|hook| hook.calls.tightens(&call)));
        let error = load(&format!("{lets}{hook}"), None).unwrap_err();
        assert!(
            error.contains("line 2, column 17: permissions.project_hooks is for your own settings"),
            "{error}"
        );
    }

    #[test]
    fn wrong_hooks_are_told_with_their_place() {
        let told = |lines: &str| load("", Some(&format!("[[hooks]]\n{lines}\n"))).unwrap_err();
        for (lines, expected) in [
            (
                "event = 'pre_tool_use'\ncommand = []",
                "line 1, column 1: hooks.command names no program",
            ),
            (
                "event = 'pre_tool_use'\ncommand = ['x']\ntimeout_ms = 0",
                "line 4, column 14: hooks.timeout_ms is 0",
            ),
            (
                "event = 'pre_tool_use'\ncommand = ['x']\ncalls = 'x('",
                "line 4, column 9: hooks.calls: the rule `x(`",
            ),
            ("event = 'before'\ncommand = ['x']", "unknown variant `before`"),
            ("event = 'pre_tool_use'", "missing field `command`"),
            (
                "event = 'pre_tool_use'\ncommand = ['x']\nwhen = 1",
                "unknown field `when`",
            ),
        ] {
            let error = told(lines);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn wrong_permissions_are_told_with_their_place() {
        for (text, expected) in [
            (
                "mode = 'acceptEdits'",
                "line 2, column 8: permissions.mode is \"acceptEdits\"; expected `plan`, `default`, `auto_edit`, `bypass`; write \
                 `auto_edit`",
            ),
            (
                "deny = ['ok', 'Bash(rm']",
                "line 2, column 15: permissions.deny: the rule `Bash(rm`, character 5: this `(` is not closed; end the rule with `)`",
            ),
            (
                "allow = ['a', '']",
                "line 2, column 15: permissions.allow: the rule ``, character 1: it is empty; write `Tool` or `Tool(content)`",
            ),
        ] {
            let error = load(&format!("[permissions]\n{text}\n"), None).unwrap_err();
            assert!(error.ends_with(expected), "{error}");
        }
        for (text, expected) in [
            (
                "deny = 'a'",
                "expected a list of rules for permissions.deny: deny = [\"Tool\", \"Tool(content)\"]",
            ),
            ("allow = 7", "expected a list of rules for permissions.allow"),
            ("allow = ['a', 1]", "expected a rule, which is a text"),
            ("rules = []", "rules"),
            ("mode = 1", "mode = 1"),
        ] {
            let error = load(&format!("[permissions]\n{text}\n"), None).unwrap_err();
            assert!(error.contains("line 2, column") && error.contains(expected), "{error}");
        }
        let error = load(
            "[permissions]\nmode = 'x'\nallow = ['(']\ndeny = ['x(', 'ok', '', 'a b']\n",
            None,
        )
        .unwrap_err();
        let told = error
            .lines()
            .map(|line| line.split(" the rule ").next().unwrap())
            .collect::<Vec<_>>();
        assert_eq!(told.len(), 5, "{error}");
        assert!(
            told[0].contains("line 2, column 8: permissions.mode is \"x\""),
            "{error}"
        );
        assert_eq!(
            told[1..],
            [
                "line 3, column 10: permissions.allow:",
                "line 4, column 9: permissions.deny:",
                "line 4, column 21: permissions.deny:",
                "line 4, column 25: permissions.deny:"
            ]
        );
        let many = format!("[permissions]\ndeny = [{}]\n", "'',".repeat(30));
        assert!(load(&many, None).unwrap_err().ends_with("\nand 10 more"));
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
            error.ends_with("line 2, column 16: limits.history_kept is 0; expected 1 to 1000"),
            "{error}"
        );
        let negative = load("# é\r\n[limits]\r\nlock_wait_ms = -1\r\n", None).unwrap_err();
        assert!(
            negative.ends_with("line 3, column 16: limits.lock_wait_ms is -1; expected 1 to 60000"),
            "{negative}"
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

    #[test]
    fn the_projects_file_is_a_regular_file_of_bounded_size_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE_NAME);
        let refused = || load_in(dir.path(), None).unwrap_err();

        make_pipe(&file);
        assert!(refused().contains("regular file"), "{}", refused());
        fs::remove_file(&file).unwrap();

        let outside = tempfile::NamedTempFile::new().unwrap();
        fs::write(outside.path(), "secret\n").unwrap();
        std::os::unix::fs::symlink(outside.path(), &file).unwrap();
        assert!(
            refused().contains("regular file") && !refused().contains("secret"),
            "{}",
            refused()
        );
        fs::remove_file(&file).unwrap();

        fs::write(&file, "#".repeat(64 * 1024 + 1)).unwrap();
        assert!(refused().contains("65537 bytes"), "{}", refused());
        fs::write(&file, "#".repeat(64 * 1024)).unwrap();
        assert_eq!(load_in(dir.path(), None).unwrap(), Config::default());
        fs::write(&file, b"# \xff").unwrap();
        assert!(refused().contains("UTF-8 from byte 2"), "{}", refused());
        fs::write(&file, "\u{FEFF}[limits]\nhistory_kept = 7\n").unwrap();
        assert_eq!(load_in(dir.path(), None).unwrap().history_kept, 7);
    }

    #[test]
    fn the_users_file_may_be_a_link_and_never_a_pipe_or_endless() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("real.toml"), dir.path().join("link.toml"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        fs::write(&file, "[limits]\nhistory_kept = 7\n").unwrap();
        assert_eq!(load_in(dir.path(), Some(&link)).unwrap().history_kept, 7);
        let pipe = dir.path().join("pipe");
        make_pipe(&pipe);
        for odd in [&*pipe, Path::new("/dev/zero"), dir.path()] {
            let error = load_in(dir.path(), Some(odd)).unwrap_err();
            assert!(error.contains("regular file"), "{error}");
        }
        // Somebody whose home is `/dev/null` has no settings.
        assert_eq!(
            load_in(dir.path(), Some(Path::new("/dev/null/.config/devloop/devloop.toml"))).unwrap(),
            Config::default()
        );
    }
}
