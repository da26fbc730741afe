//! A hook that is a program.
//!
//! Answers for starting it for each call that its rule means, for what it reads and may answer, and for ending it in time.
//! The form is that of Claude Code's hooks, so that one program serves both; but here whatever is not clear denies.
//!
//! The program reads one JSON object: `hook_event_name` (`PreToolUse` or `PostToolUse`), `session_id`, `cwd`, `agent`,
//! `unit_id`, `tool_name` (as Claude Code has it, `mcp__<server>__<tool>`), `tool`, `tool_input`, `tool_use_id`,
//! `permission_mode`, `permission` (what was decided), and after a call `tool_response`. It says:
//!
//! | | before a call | after a call |
//! |---|---|---|
//! | exit 0, nothing on standard output | nothing to say | nothing to say |
//! | exit 0, JSON on standard output | `hookSpecificOutput`: `permissionDecision` (`allow` says nothing, `ask`, `deny`), `permissionDecisionReason`, `updatedInput`; or `decision: "block"` with `reason` | `decision: "block"` with `reason` |
//! | exit 0, `continue: false` in the JSON | deny; `stopReason` says why | the answer is held back |
//! | exit 2 | deny; the reason is on standard error | the answer is held back |
//! | anything else: other words, other keys, more than 256 KiB, no end in time, output that a process left behind holds open | deny | the answer is held back |
//!
//! `systemMessage`, `suppressOutput` and `additionalContext` are read over. `ask` and `updatedInput` do not go together: a
//! person would be asked about other input than what runs. The process group of a hook ends with it, also when this process
//! is killed; what leaves the group, as `setsid` does, is out of reach.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use devloop_contract::agent;
use devloop_core::permission::{Call, Mode, Rule, RuleError};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::{After, Before, Hook, HookCall};
use crate::call::{Boxed, CallOutcome};
use crate::watcher::{Watcher, id_of};

/// The most that is read of what a hook says.
const MOST_SAID: u64 = 256 * 1024;

/// The most characters of its standard error that are passed on.
const MOST_REASON: usize = 2_000;

/// How often a running hook is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// How long its output may take to end when it has.
const REST: Duration = Duration::from_secs(1);

/// When a hook is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Before a call.
    Before,
    /// After a call.
    After,
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Before, Self::After];

    /// The name in settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Before => "pre_tool_use",
            Self::After => "post_tool_use",
        }
    }
}

/// A program that is started for each call that its rule means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandHook {
    /// When it is heard.
    pub event: Event,
    /// Which calls it is told of.
    pub calls: Rule,
    /// The program and its arguments. A program without `/` is looked for in `PATH`.
    pub command: Vec<String>,
    /// Where it is started, so that what it names relatively is found beside the settings that name it; without one, in the
    /// project.
    pub directory: Option<PathBuf>,
    /// The longest that it may take.
    pub timeout: Duration,
}

/// The mode in Claude Code's word.
fn words_of(mode: Mode) -> &'static str {
    match mode {
        Mode::Plan => "plan",
        Mode::Default => "default",
        Mode::AutoEdit => "acceptEdits",
        Mode::Bypass => "bypassPermissions",
    }
}

impl CommandHook {
    /// The hook of an agent's template.
    ///
    /// # Errors
    /// Its rule cannot be read.
    pub fn of_template(hook: &agent::Hook) -> Result<Self, RuleError> {
        Ok(Self {
            event: if hook.event == "post_tool_use" {
                Event::After
            } else {
                Event::Before
            },
            calls: Rule::parse(hook.calls)?,
            command: hook.command.iter().map(|part| (*part).to_owned()).collect(),
            directory: None,
            timeout: hook.timeout,
        })
    }

    fn means(&self, call: HookCall<'_>) -> bool {
        // The paths that the call says it acts on make no difference to a rule.
        let asked_for = Call::new(call.tool, call.input, &[]).served_by(call.server_name);
        self.calls.tightens(&asked_for)
    }

    fn input(call: HookCall<'_>, response: Option<&CallOutcome>) -> Value {
        let mut input = json!({
            "hook_event_name": if response.is_some() { "PostToolUse" } else { "PreToolUse" },
            "session_id": call.identity.session_id,
            "cwd": call.project_dir,
            "agent": call.identity.agent,
            "unit_id": call.identity.unit_id,
            "tool_name": format!("mcp__{}__{}", call.server_name, call.tool.name),
            "tool": call.tool.name,
            "permission_mode": words_of(call.mode),
            "tool_input": call.input,
            "tool_use_id": call.tool_use_id,
            "permission": call.decision,
        });
        if let Some(outcome) = response {
            input["tool_response"] = outcome.to_json();
        }
        input
    }

    async fn said(&self, call: HookCall<'_>, response: Option<&CallOutcome>) -> Result<Said, String> {
        let (hook, input) = (self.clone(), Self::input(call, response).to_string());
        let dir = self.directory.clone().unwrap_or_else(|| call.project_dir.to_owned());
        let waited_for = Waited::default();
        let given_up = Arc::clone(&waited_for.given_up);
        let run = tokio::task::spawn_blocking(move || hook.run(&dir, input, &given_up));
        match run.await {
            Ok(said) => said.map_err(|unheard| unheard.to_string()),
            Err(error) => Err(format!("it broke off: {error}")),
        }
    }

    /// Runs the program to its end, to the end of its time, or until nobody waits for it.
    fn run(&self, dir: &Path, input: String, given_up: &AtomicBool) -> Result<Said, Unheard> {
        let [program, arguments @ ..] = &self.command[..] else {
            return Err(io::Error::other("it names no program").into());
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut group = Group::start(command)?;
        let child = &mut group.program;
        if let Some(mut stdin) = child.stdin.take() {
            // A hook that does not read its input is none the worse for it.
            thread::Builder::new().spawn(move || stdin.write_all(input.as_bytes()))?;
        }
        let (stdout, stderr) = (read(child.stdout.take())?, read(child.stderr.take())?);
        let latest = Instant::now() + self.timeout;
        while !group.program_has_ended()? {
            if Instant::now() >= latest {
                return Err(Unheard::TooLate(self.timeout));
            }
            if given_up.load(Ordering::Relaxed) {
                return Err(Unheard::GivenUp);
            }
            thread::sleep(LOOK);
        }
        // What it left running may hold its output open for ever.
        let status = group.end()?;
        let rest = |pipe: mpsc::Receiver<Vec<u8>>| pipe.recv_timeout(REST).ok();
        Ok(Said {
            status,
            stdout: rest(stdout),
            stderr: rest(stderr).unwrap_or_default(),
        })
    }
}

/// Why nothing is known of what a hook says.
#[derive(Debug)]
enum Unheard {
    /// The system does not run it.
    Io(io::Error),
    TooLate(Duration),
    GivenUp,
}

impl From<io::Error> for Unheard {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Unheard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "it cannot be run: {error}"),
            Self::TooLate(timeout) => write!(
                f,
                "it took longer than {timeout:?} and was ended; let it answer sooner, or set its `timeout_ms` higher"
            ),
            Self::GivenUp => f.write_str("nobody waits for it any more, and it was ended"),
        }
    }
}

/// Says that nobody waits any more, when it is dropped.
#[derive(Default)]
struct Waited {
    given_up: Arc<AtomicBool>,
}

impl Drop for Waited {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

/// The processes of a hook, which end with it.
struct Group {
    program: Child,
    /// Leads the group, and ends it when this process is killed before it can. Without one, the program leads.
    watcher: Option<Watcher>,
    ended: bool,
}

impl Group {
    fn start(mut command: Command) -> io::Result<Self> {
        let unwatched =
            |error| tracing::debug!("nothing watches over a hook in case that this process is killed: {error}");
        let watcher = Watcher::start().map_err(unwatched).ok();
        let group = watcher.as_ref().and_then(Watcher::group);
        command.process_group(group.map_or(0, Pid::as_raw_pid));
        Ok(Self {
            program: command.spawn()?,
            watcher,
            ended: false,
        })
    }

    fn id(&self) -> Option<Pid> {
        match &self.watcher {
            Some(watcher) => watcher.group(),
            None => id_of(&self.program),
        }
    }

    /// Whether the program itself has ended. Its id stays taken.
    fn program_has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match id_of(&self.program) {
            Some(id) => Ok(waitid(WaitId::Pid(id), options)?.is_some()),
            None => Ok(true),
        }
    }

    /// Ends what is left of it, as long as its id can mean nobody else.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if !self.ended
            && let Some(id) = self.id()
        {
            // None of them may be left, which is as well.
            let _ = kill_process_group(id, Signal::KILL);
        }
        self.ended = true;
        let status = self.program.wait();
        self.watcher = None;
        status
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Nobody is left who could be told.
        let _ = self.end();
    }
}

fn read(pipe: Option<impl Read + Send + 'static>) -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    if let Some(pipe) = pipe {
        thread::Builder::new().spawn(move || {
            let mut bytes = Vec::new();
            let mut pipe = pipe.take(MOST_SAID + 1);
            // What came until it broke is what it said.
            let _ = pipe.read_to_end(&mut bytes);
            let _ = sender.send(bytes);
            // A hook that says more is not stopped by a full pipe.
            let _ = io::copy(&mut pipe.into_inner(), &mut io::sink());
        })?;
    }
    Ok(receiver)
}

/// What a program said.
struct Said {
    status: ExitStatus,
    /// Nothing when it did not end.
    stdout: Option<Vec<u8>>,
    stderr: Vec<u8>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Output {
    #[serde(rename = "hookSpecificOutput")]
    specific: Specific,
    decision: Option<String>,
    reason: Option<String>,
    #[serde(rename = "continue")]
    go_on: Option<bool>,
    stop_reason: Option<String>,
    // For clients that show texts beside a call.
    #[serde(rename = "systemMessage")]
    _message: IgnoredAny,
    #[serde(rename = "suppressOutput")]
    _suppress: IgnoredAny,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Specific {
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Map<String, Value>>,
    #[serde(rename = "hookEventName")]
    _hook_event_name: IgnoredAny,
    #[serde(rename = "additionalContext")]
    _additional_context: IgnoredAny,
}

impl Said {
    /// What it said as JSON; nothing when it said nothing.
    ///
    /// # Errors
    /// It ended otherwise than well, or said something else, or says that all must stop.
    fn output(&self) -> Result<Output, String> {
        let complaint = String::from_utf8_lossy(&self.stderr);
        let complaint: String = complaint.trim().chars().take(MOST_REASON).collect();
        match self.status.code() {
            Some(0) => {}
            Some(2) if complaint.is_empty() => return Err("it says no".to_owned()),
            Some(2) => return Err(complaint),
            _ if complaint.is_empty() => return Err(format!("it failed ({})", self.status)),
            _ => return Err(format!("it failed ({}): {complaint}", self.status)),
        }
        let Some(stdout) = &self.stdout else {
            return Err("a process that it left behind holds its standard output open".to_owned());
        };
        if u64::try_from(stdout.len()).is_ok_and(|said| said > MOST_SAID) {
            return Err(format!("it says more than {MOST_SAID} bytes"));
        }
        let text = stdout.trim_ascii();
        if text.is_empty() {
            return Ok(Output::default());
        }
        // A list would do for the parser, in the order of the fields.
        if !text.starts_with(b"{") {
            return Err("what it says is no JSON object".to_owned());
        }
        let output: Output =
            serde_json::from_slice(text).map_err(|error| format!("what it says cannot be read: {error}"))?;
        if output.go_on == Some(false) {
            let why = output.stop_reason.or(output.reason);
            return Err(why.unwrap_or_else(|| "it says that all must stop".to_owned()));
        }
        Ok(output)
    }
}

fn before(output: Output) -> Before {
    let said = output.specific;
    let reason = said.permission_decision_reason.or(output.reason).unwrap_or_default();
    match (said.permission_decision.as_deref(), output.decision.as_deref()) {
        (Some("deny"), _) | (_, Some("block")) => Before::Deny(reason),
        (Some("ask"), None | Some("approve")) if said.updated_input.is_some() => {
            Before::Deny("it asks and changes the input in one, so that a person would not see what runs".to_owned())
        }
        (Some("ask"), None | Some("approve")) => Before::Ask(reason),
        (Some("allow") | None, None | Some("approve")) => said.updated_input.map_or(Before::Pass, Before::Change),
        (decision, other) => {
            let known = |word: &&str| ["allow", "ask", "approve"].contains(word);
            let word = decision.filter(|word| !known(word)).or(other).unwrap_or_default();
            Before::Deny(format!("it decides {word:?}, which is neither allow, ask nor deny"))
        }
    }
}

fn after(output: Output) -> After {
    let said = output.specific;
    match (output.decision.as_deref(), said.permission_decision.as_deref()) {
        (Some("block"), _) => After::Withhold(output.reason.unwrap_or_default()),
        (None | Some("approve"), None) if said.updated_input.is_none() => After::Pass,
        (Some(word), _) if word != "approve" => {
            After::Withhold(format!("it decides {word:?}, and after a call there is only \"block\""))
        }
        _ => After::Withhold("it says what can only be said before a call".to_owned()),
    }
}

impl Hook for CommandHook {
    /// The program and its first argument: what follows may hold secrets, and agents are told the name.
    fn name(&self) -> Cow<'static, str> {
        const LONGEST: usize = 80;
        let mut name: String = self.command.iter().take(2).cloned().collect::<Vec<_>>().join(" ");
        if let Some((end, _)) = name.char_indices().nth(LONGEST) {
            name.truncate(end);
            name.push('…');
        }
        name.into()
    }

    fn hears(&self, call: HookCall<'_>) -> bool {
        self.event == Event::Before && self.means(call)
    }

    fn before<'a>(&'a self, call: HookCall<'a>) -> Boxed<'a, Before> {
        Box::pin(async move {
            if !self.hears(call) {
                return Before::Pass;
            }
            match self.said(call, None).await.and_then(|said| said.output()) {
                Ok(output) => before(output),
                Err(reason) => Before::Deny(reason),
            }
        })
    }

    fn after<'a>(&'a self, call: HookCall<'a>, outcome: &'a CallOutcome) -> Boxed<'a, After> {
        Box::pin(async move {
            if self.event != Event::After || !self.means(call) {
                return After::Pass;
            }
            match self.said(call, Some(outcome)).await.and_then(|said| said.output()) {
                Ok(output) => after(output),
                Err(reason) => After::Withhold(reason),
            }
        })
    }
}

impl fmt::Display for CommandHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.command.join(" "))
    }
}
