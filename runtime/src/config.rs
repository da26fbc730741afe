//! `devloop.toml`: what a project or a user sets for the program.
//!
//! Answers for the keys, their defaults and where the file is looked for. Unknown keys are errors with a position: a
//! setting that is silently ignored is worse than none. Leaves out anything that changes a tool's contract: that is in
//! the specs.

mod execution;
mod given;
mod hooks;
mod permissions;
mod reading;
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

pub use execution::Execution;
use given::Given;
pub use hooks::Hooks;
use hooks::Trust;
pub use permissions::Permissions;
use reading::{Number, Place, Syntax, Table, Text, Wrongs, quoted};
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

/// Settings that cannot be used: all that is wrong with the files.
#[derive(Debug)]
pub struct ConfigError {
    /// Never empty.
    problems: Vec<Problem>,
    /// So many more things are wrong, and with which file.
    more: Vec<(PathBuf, usize)>,
}

/// One thing that is wrong.
#[derive(Debug)]
struct Problem {
    path: PathBuf,
    place: Option<Place>,
    message: String,
}

impl Problem {
    fn new(path: &Path, place: Option<Place>, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            place,
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        if let Some((line, column)) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// One on a line, each with its file and place; of a file with more than twenty the first ones, and how many more.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = self.more.iter();
        let more = more.map(|(path, more)| format!("{}: and {more} more", path.display()));
        let lines: Vec<String> = self.problems.iter().map(ToString::to_string).chain(more).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// The settings for a project: its own `devloop.toml` over the user's over the defaults.
    ///
    /// # Errors
    /// Everything that is wrong with both files: one that exists and cannot be read, is no regular file, has more than 64
    /// KiB, is no TOML, has an unknown key, or a value out of range; what is wrong in the text comes with line and column.
    /// The project's file must not be a link: whoever can write in a project could else have any file read.
    pub fn load(project: &ProjectDir, user: Option<&Path>) -> Result<Self, ConfigError> {
        let mut files = Files::default();
        files.read_users(user);
        files.read(read_projects(project), &project.path().join(FILE_NAME), Source::Project);
        files.judge()
    }

    /// The user's settings alone, where there is no project.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn of_user(user: Option<&Path>) -> Result<Self, ConfigError> {
        let mut files = Files::default();
        files.read_users(user);
        files.judge()
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
}

const FILE_KIB: &str = "limits.artifact_file_kib";
const SESSION_KIB: &str = "limits.artifact_session_kib";

/// What the files say, until all have been read: some of their numbers depend on each other.
#[derive(Default)]
struct Files {
    config: Config,
    given: Given,
    pauses: Option<Vec<Duration>>,
    problems: Vec<Problem>,
    more: Vec<(PathBuf, usize)>,
    /// Whether there is a file of which nobody knows what it says.
    unknown: bool,
}

impl Files {
    fn read_users(&mut self, path: Option<&Path>) {
        if let Some(path) = path {
            self.read(read_users(path), path, Source::User);
        }
    }

    fn read(&mut self, bytes: Result<Option<Vec<u8>>, String>, path: &Path, source: Source) {
        let bytes = match bytes {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return,
            Err(message) => return self.unreadable(path, message),
        };
        match str::from_utf8(&bytes) {
            Ok(text) => self.parse(text.strip_prefix('\u{FEFF}').unwrap_or(text), path, source),
            Err(error) => self.unreadable(path, format!("it is not UTF-8 from byte {} on", error.valid_up_to())),
        }
    }

    fn unreadable(&mut self, path: &Path, message: String) {
        self.problems.push(Problem::new(path, None, message));
        self.unknown = true;
    }

    fn parse(&mut self, text: &str, path: &Path, source: Source) {
        let trust = if self.problems.is_empty() {
            self.config.hooks.trusted()
        } else {
            Trust::Unknown
        };
        let mut wrongs = Wrongs::default();
        let places = Text::new(text);
        let syntax = Table::read(text, &mut wrongs, |file| {
            file.within("server", |server| self.server(server));
            file.within("limits", |limits| self.limits(limits, path, |at| places.place(at)));
            file.within("execution", |execution| {
                let pauses = Execution::read(execution, &mut self.given, path, |at| places.place(at));
                self.pauses = pauses.or(self.pauses.take());
            });
            file.within("timeouts_ms", |timeouts| self.config.timeouts.read(timeouts));
            file.within("retention", |retention| self.retention(retention));
            file.within("permissions", |permissions| {
                let line = |at: usize| places.place(at).0;
                self.config.permissions.read(permissions, source, path, line);
                self.config.hooks.trust(permissions, source);
            });
            self.config.hooks.read(file, source, trust, path);
        });
        if syntax == Syntax::Broken {
            self.unknown = true;
        }
        let told = wrongs.tell(&places);
        let problems = told.messages.into_iter();
        self.problems
            .extend(problems.map(|(place, message)| Problem::new(path, Some(place), message)));
        if told.more > 0 {
            self.more.push((path.to_owned(), told.more));
        }
    }

    fn server(&mut self, server: &mut Table<'_, '_>) {
        const EXPECTED: &str = "1 to 20 letters, digits, `-` or `_`";
        let Some(said) = server.text("name", EXPECTED) else {
            return;
        };
        let name = said.value;
        let fits =
            (1..=20).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if fits {
            self.config.server_name = name;
        } else {
            let message = format!("server.name is {}; expected {EXPECTED}", quoted(&name));
            server.wrongs.push(said.at, message);
        }
    }

    fn limits(&mut self, limits: &mut Table<'_, '_>, path: &Path, place: impl Fn(usize) -> Place) {
        let config = &mut self.config;
        if let Some(ms) = limits.number("lock_wait_ms", 1, 60_000).value() {
            config.lock_wait = Duration::from_millis(ms.into());
        }
        if let Some(kept) = limits.number("history_kept", 1, 1_000).value() {
            config.history_kept = many(kept);
        }
        if let Some(characters) = limits.number("result_chars", 4_000, 1_000_000).value() {
            config.result_chars = many(characters);
        }
        if let Some(kib) = limits.number("result_binary_kib", 1, 65_536).value() {
            config.result_binary_bytes = many(kib).saturating_mul(1024);
        }
        let mut keep = |key: &str, number: Number| self.given.put(key.to_owned(), number, path, &place);
        keep(FILE_KIB, limits.number("artifact_file_kib", 1, LARGEST_ARTIFACT_KIB));
        keep(
            SESSION_KIB,
            limits.number("artifact_session_kib", 1, LARGEST_SESSION_KIB),
        );
        if let Some(files) = limits.number("artifact_files", 1, 10_000).value() {
            config.artifacts.session_files = files.into();
        }
    }

    fn retention(&mut self, retention: &mut Table<'_, '_>) {
        const MOST_DAYS: u32 = 36_500;
        let config = &mut self.config;
        for (key, setting) in [
            ("set_aside_days", &mut config.set_aside_days),
            ("replay_days", &mut config.replay_days),
            ("artifact_days", &mut config.artifact_days),
        ] {
            if let Some(days) = retention.number(key, 0, MOST_DAYS).value() {
                *setting = days;
            }
        }
        if let Some(files) = retention.number("timeline_files", 0, 10_000).value() {
            config.timeline_files = many(files);
        }
    }

    /// What is judged when all files have been read.
    fn judge(mut self) -> Result<Config, ConfigError> {
        // What does not go with a number that nobody knows may be right.
        if !self.unknown {
            self.artifacts();
            match Execution::of(&self.given, self.pauses.take()) {
                Ok(execution) => self.config.execution = execution,
                Err(wrong) => self.problems.extend(wrong),
            }
        }
        if self.problems.is_empty() {
            return Ok(self.config);
        }
        Err(ConfigError {
            problems: self.problems,
            more: self.more,
        })
    }

    fn artifacts(&mut self) {
        const KIB: u64 = 1024;
        let kib = |bytes: u64| u32::try_from(bytes / KIB).unwrap_or(u32::MAX);
        let (limits, wrong) = (&mut self.config.artifacts, &mut self.problems);
        let session = self.given.part(SESSION_KIB, kib(limits.session_bytes), &[], wrong);
        let whole = [(SESSION_KIB, session)];
        let file = self.given.part(FILE_KIB, kib(limits.file_bytes), &whole, wrong);
        limits.session_bytes = u64::from(session) * KIB;
        limits.file_bytes = u64::from(file) * KIB;
    }
}

fn many(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
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
                "line 3, column 11: hooks[0].command names no program; expected a program and its arguments",
            ),
            (
                "event = 'pre_tool_use'\ncommand = ['x']\ntimeout_ms = 0",
                "line 4, column 14: hooks[0].timeout_ms is 0; expected 1 to 600000",
            ),
            (
                "event = 'pre_tool_use'\ncommand = ['x']\ncalls = 'x('",
                "line 4, column 9: hooks[0].calls: the rule `x(`",
            ),
            (
                "event = 'PreToolUse'\ncommand = ['x']",
                "line 2, column 9: hooks[0].event is \"PreToolUse\"; expected `pre_tool_use`, `post_tool_use`; write \
                 `pre_tool_use`",
            ),
            (
                "event = 'pre_tool_use'",
                "line 1, column 1: hooks[0].command is missing; expected a program and its arguments",
            ),
            (
                "event = 'pre_tool_use'\ncommand = ['x']\nwhen = 1",
                "line 4, column 1: hooks[0].when is no setting; expected event, calls, command, timeout_ms",
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
                "permissions.deny is \"a\"; expected a list of rules: deny = [\"Tool\", \"Tool(content)\"]",
            ),
            ("allow = 7", "permissions.allow is 7; expected a list of rules"),
            (
                "allow = ['a', 1]",
                "permissions.allow[1] is 1; expected a rule, which is a text",
            ),
            (
                "rules = []",
                "permissions.rules is no setting; expected mode, allow, ask, deny, project_hooks",
            ),
            (
                "mode = 1",
                "permissions.mode is 1; expected `plan`, `default`, `auto_edit`, `bypass`",
            ),
        ] {
            let error = load(&format!("[permissions]\n{text}\n"), None).unwrap_err();
            assert!(error.contains("line 2, column") && error.contains(expected), "{error}");
        }
        let many = format!("[permissions]\ndeny = [{}]\n", "'',".repeat(30));
        let error = load(&many, None).unwrap_err();
        assert_eq!(error.lines().count(), 21);
        assert!(error.ends_with("devloop.toml: and 10 more"), "{error}");
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

    /// What is told of a project's file, without its name.
    fn told(project: &str) -> Vec<String> {
        let error = load(project, None).unwrap_err();
        let line = |line: &str| line.split_once("devloop.toml: ").expect(line).1.to_owned();
        error.lines().map(line).collect()
    }

    #[test]
    fn everything_wrong_with_a_file_is_told_at_once_in_its_order() {
        let settings = "\
            limit = 1\n\
            history_kept = 3\n\
            [server]\nname = 'a b'\ntitle = 'x'\n\
            [limits]\nlock_wait = 1\nhistory_kept = 0\nresult_chars = 'all'\nartifact_files = 1.5\n\
            [retention]\nreplay_days = -1\nset_aside_days = [1]\n\
            [timeouts_ms]\n'a b' = 1\necho = 0\ngrep = '5s'\n";
        assert_eq!(
            told(settings),
            [
                "line 1, column 1: limit is no setting; expected server, limits, execution, timeouts_ms, retention, \
                 permissions, hooks; did you mean `limits`?",
                "line 2, column 1: history_kept is no setting; expected server, limits, execution, timeouts_ms, retention, \
                 permissions, hooks; `history_kept` stands under [limits]",
                "line 4, column 8: server.name is \"a b\"; expected 1 to 20 letters, digits, `-` or `_`",
                "line 5, column 1: server.title is no setting; expected name",
                "line 7, column 1: limits.lock_wait is no setting; expected lock_wait_ms, history_kept, result_chars, \
                 result_binary_kib, artifact_file_kib, artifact_session_kib, artifact_files; did you mean `lock_wait_ms`?",
                "line 8, column 16: limits.history_kept is 0; expected 1 to 1000",
                "line 9, column 16: limits.result_chars is \"all\"; expected a whole number, 4000 to 1000000",
                "line 10, column 18: limits.artifact_files is 1.5; expected a whole number, 1 to 10000",
                "line 12, column 15: retention.replay_days is -1; expected 0 to 36500",
                "line 13, column 18: retention.set_aside_days is a list; expected a whole number, 0 to 36500",
                "line 15, column 9: timeouts_ms has \"a b\", which names no tool; expected letters, digits, `_` and `-`, with \
                 `*` at the end for every tool that begins so",
                "line 16, column 8: timeouts_ms.echo is 0; expected 1 to 86400000",
                "line 17, column 8: timeouts_ms.grep is \"5s\"; expected a whole number, 1 to 86400000",
            ]
        );
    }

    #[test]
    fn everything_wrong_with_execution_is_told_at_once() {
        let settings = "\
            [execution]\nturn_wait_ms = 0\npending = true\nwaiting = 2020-01-01\nwaiting_per_session = 500\n\
            in_flight = { total = 'x', write = 0, reads = 1 }\nper_session = 3\nretry_pauses_ms = [1, 'a', 60001]\n";
        assert_eq!(
            told(settings),
            [
                "line 2, column 16: execution.turn_wait_ms is 0; expected 1 to 604800000",
                "line 3, column 11: execution.pending is true; expected a whole number, 1 to 100000",
                // What is a part of it is not judged by a number that nobody said.
                "line 4, column 11: execution.waiting is 2020-01-01; expected a whole number, 1 to 100000",
                "line 6, column 23: execution.in_flight.total is \"x\"; expected a whole number, 1 to 100000",
                "line 6, column 36: execution.in_flight.write is 0; expected 1 to 100000",
                "line 6, column 39: execution.in_flight.reads is no setting; expected total, read_only, write, execute",
                "line 7, column 15: execution.per_session is 3; expected a table, [execution.per_session]",
                "line 8, column 23: execution.retry_pauses_ms[1] is \"a\"; expected a whole number, 0 to 60000",
                "line 8, column 28: execution.retry_pauses_ms[2] is 60001; expected 0 to 60000",
            ]
        );
        let settings = "[execution]\nretry_pauses_ms = 3\nin_flight = { total = 5, read_only = 6, execute = 7 }\n\
                        per_session = { total = 6, execute = 6 }\nwaiting = 9\nwaiting_per_session = 10\n\
                        [limits]\nartifact_file_kib = 8\nartifact_session_kib = 7\n";
        assert_eq!(
            told(settings),
            [
                "line 2, column 19: execution.retry_pauses_ms is 3; expected a list of whole numbers, 0 to 60000 each",
                "line 8, column 21: limits.artifact_file_kib is 8; expected 1 to 7 (`limits.artifact_session_kib`)",
                "line 3, column 38: execution.in_flight.read_only is 6; expected 1 to 5 (`execution.in_flight.total`)",
                "line 3, column 51: execution.in_flight.execute is 7; expected 1 to 5 (`execution.in_flight.total`)",
                "line 4, column 25: execution.per_session.total is 6; expected 1 to 5 (`execution.in_flight.total`)",
                "line 4, column 38: execution.per_session.execute is 6; expected 1 to 5 (`execution.per_session.total`)",
                "line 6, column 23: execution.waiting_per_session is 10; expected 1 to 9 (`execution.waiting`)",
            ]
        );
    }

    #[test]
    fn everything_wrong_with_permissions_and_hooks_is_told_at_once() {
        let settings = "[permissions]\nmode = 'x'\nallow = ['(']\nask = 1\ndeny = ['x(', 'ok', 7, 'a b']\nproject_hooks = 'no'\n\
                        [[hooks]]\nevent = 'after'\ncommand = ['', 3]\n[[hooks]]\ncalls = 'x('\ntimeout_ms = 600001\nargs = []\n";
        let told = told(settings);
        let beginnings = [
            "line 2, column 8: permissions.mode is \"x\"; expected",
            "line 3, column 10: permissions.allow: the rule `(`",
            "line 4, column 7: permissions.ask is 1; expected a list of rules",
            "line 5, column 9: permissions.deny: the rule `x(`",
            "line 5, column 21: permissions.deny[2] is 7; expected a rule",
            "line 5, column 24: permissions.deny: the rule `a b`",
            "line 6, column 17: permissions.project_hooks is \"no\"; expected `true` or `false`",
            // Once, and with what is wrong with the hooks themselves.
            "line 7, column 1: hooks of a project start programs",
            "line 8, column 9: hooks[0].event is \"after\"; expected `pre_tool_use`, `post_tool_use`",
            "line 9, column 11: hooks[0].command names no program",
            "line 9, column 16: hooks[0].command[1] is 3; expected a text",
            "line 10, column 1: hooks[1].event is missing; expected `pre_tool_use`",
            "line 10, column 1: hooks[1].command is missing; expected a program",
            "line 11, column 9: hooks[1].calls: the rule `x(`",
            "line 12, column 14: hooks[1].timeout_ms is 600001; expected 1 to 600000",
            "line 13, column 1: hooks[1].args is no setting; expected event, calls, command, timeout_ms",
        ];
        assert_eq!(told.len(), beginnings.len(), "{told:#?}");
        for (told, beginning) in told.iter().zip(beginnings) {
            assert!(told.starts_with(beginning), "{told}");
        }
    }

    #[test]
    fn both_files_are_told_of_and_neither_is_blamed_for_the_other() {
        let error = load("[limits]\nhistory_kept = 0\n", Some("[limits]\nhistory_kept = 1001\n")).unwrap_err();
        let files = ["user.toml: line 2, column 16: ", "devloop.toml: line 2, column 16: "];
        assert_eq!(error.lines().count(), 2, "{error}");
        assert!(
            error.lines().zip(files).all(|(line, file)| line.contains(file)),
            "{error}"
        );
        // What a broken file would have allowed, nobody knows.
        let project = "[limits]\nartifact_file_kib = 65537\n[[hooks]]\nevent = 'pre_tool_use'\ncommand = ['guard']\n";
        let error = load(project, Some("[permissions\nproject_hooks = true\n")).unwrap_err();
        assert!(
            error.lines().count() == 1 && error.contains("user.toml: line 1, column 13: it is no TOML: "),
            "{error}"
        );
    }

    #[test]
    fn values_that_are_something_else_are_told_without_words_of_rust_and_cut() {
        let long = "é".repeat(1_000);
        for (settings, expected) in [
            (
                "limits = [3]".to_owned(),
                "line 1, column 10: limits is a list; expected a table, [limits]",
            ),
            (
                "hooks = 3".to_owned(),
                "line 1, column 9: hooks is 3; expected tables, each of which begins with [[hooks]]",
            ),
            (
                "[hooks]\nevent = 'x'".to_owned(),
                "line 1, column 1: hooks is a table; expected tables, each of which begins with [[hooks]]",
            ),
            (
                "hooks = [1]".to_owned(),
                "line 1, column 10: hooks[0] is 1; expected tables, each of which begins with [[hooks]]",
            ),
            (
                "[limits]\nhistory_kept = 99999999999999999999".to_owned(),
                "line 2, column 16: limits.history_kept is 99999999999999999999; expected 1 to 1000",
            ),
            (
                "limits.history_kept = 0xFFFF_FFFF_FFFF_FFFF_F".to_owned(),
                "line 1, column 23: limits.history_kept is 0xFFFFFFFFFFFFFFFFF; expected 1 to 1000",
            ),
            (
                "limits.history_kept = +0b1111111111".to_owned(),
                "line 1, column 23: it is no TOML: ",
            ),
            (
                "limits.history_kept = 0b1111111111".to_owned(),
                "line 1, column 23: limits.history_kept is 1023; expected 1 to 1000",
            ),
            (
                "[limits]\nhistory_kept = inf".to_owned(),
                "line 2, column 16: limits.history_kept is inf; expected a whole number, 1 to 1000",
            ),
            (
                format!("server.name = '{long}'"),
                &*format!(
                    "line 1, column 15: server.name is \"{}…\"; expected 1 to 20",
                    "é".repeat(40)
                ),
            ),
            (
                format!("server.'{long}' = 1"),
                &*format!(
                    "line 1, column 8: server.\"{}…\" is no setting; expected name",
                    "é".repeat(40)
                ),
            ),
            (
                "[limits]\n\"a\\u001b[2J\" = 1".to_owned(),
                "line 2, column 1: limits.\"a\\u{1b}[2J\" is no setting; expected lock_wait_ms",
            ),
            (
                "[limits]\n\"\" = 1".to_owned(),
                "line 2, column 1: limits.\"\" is no setting; expected lock_wait_ms",
            ),
        ] {
            let told = told(&settings);
            assert!(told.len() == 1 && told[0].starts_with(expected), "{told:?}\n{expected}");
        }
    }

    #[test]
    fn what_is_no_toml_is_told_alone_with_its_place() {
        for (settings, expected) in [
            ("[limits\nhistory_kept = 0", "line 1, column 8: it is no TOML: "),
            ("[limits]\nhistory_kept 0", "line 2, column "),
            ("[limits]\nhistory_kept = \"\n", "line 2, column "),
            (
                "[limits]\nhistory_kept = 1\nhistory_kept = 2",
                "line 3, column 1: it is no TOML: duplicate key",
            ),
            ("[limits]\n[limits]", "line 2, column 2: it is no TOML: duplicate key"),
            ("a = [[[", "line 1, column "),
            ("\u{0}", "line 1, column 1: it is no TOML: "),
        ] {
            let told = told(settings);
            assert!(told[0].starts_with(expected), "{settings:?}: {told:?}");
            assert!(
                told.iter().all(|told| told.contains("it is no TOML: ")),
                "{settings:?}: {told:?}"
            );
        }
        let deep = format!("a = {}", "[".repeat(60_000));
        assert!(load(&deep, None).unwrap_err().contains("it is no TOML: "));
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
