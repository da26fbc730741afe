//! A hook that is a program.
//!
//! Answers for starting it for each call that its rule means, for what it reads and may answer, and for ending it in time.
//! The form is that of Claude Code's hooks, so that one program serves both; but here whatever is not clear denies.
//!
//! The program reads one JSON object: `hook_event_name` (`PreToolUse` or `PostToolUse`), `session_id`, `cwd`, `agent`,
//! `unit_id`, `tool_name`, `tool_input`, `tool_use_id`, `permission`, and after a call `tool_response`. It says:
//!
//! | | before a call | after a call |
//! |---|---|---|
//! | exit 0, nothing on standard output | nothing to say | nothing to say |
//! | exit 0, JSON on standard output | `hookSpecificOutput`: `permissionDecision` (`allow` says nothing, `ask`, `deny`), `permissionDecisionReason`, `updatedInput` | `decision: "block"` with `reason` |
//! | exit 2 | deny; the reason is on standard error | the answer is held back |
//! | anything else, and no end in time | deny | the answer is held back |

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use devloop_contract::agent;
use devloop_core::permission::{Call, Rule, RuleError};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{After, Before, Hook, HookCall};
use crate::call::{Boxed, CallOutcome};

/// The most that is read of what a hook says.
const MOST_SAID: u64 = 256 * 1024;

/// The most characters of its standard error that are passed on.
const MOST_REASON: usize = 2_000;

/// How often a running hook is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// When a hook is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Event {
    /// Before a call.
    #[serde(rename = "pre_tool_use")]
    Before,
    /// After a call.
    #[serde(rename = "post_tool_use")]
    After,
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
    /// The longest that it may take.
    pub timeout: Duration,
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
            timeout: hook.timeout,
        })
    }

    fn means(&self, call: HookCall<'_>) -> bool {
        // The paths that the call says it acts on make no difference to a rule.
        self.calls.tightens(&Call::new(call.tool, call.input, &[]))
    }

    fn input(call: HookCall<'_>, response: Option<&CallOutcome>) -> Value {
        let mut input = json!({
            "hook_event_name": if response.is_some() { "PostToolUse" } else { "PreToolUse" },
            "session_id": call.identity.session_id,
            "cwd": call.project_dir,
            "agent": call.identity.agent,
            "unit_id": call.identity.unit_id,
            "tool_name": call.tool.name,
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
        let dir = call.project_dir.to_owned();
        let run = tokio::task::spawn_blocking(move || hook.run(&dir, input));
        match run.await {
            Ok(Ok(said)) => Ok(said),
            Ok(Err(error)) => Err(format!("it cannot be run: {error}")),
            Err(error) => Err(format!("it broke off: {error}")),
        }
    }

    /// Runs the program to its end, or to the end of its time.
    fn run(&self, dir: &Path, input: String) -> io::Result<Said> {
        let [program, arguments @ ..] = &self.command[..] else {
            return Err(io::Error::other("it names no program"));
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut group = Group(command.spawn()?);
        let child = &mut group.0;
        if let Some(mut stdin) = child.stdin.take() {
            // A hook that does not read its input is none the worse for it.
            thread::Builder::new().spawn(move || stdin.write_all(input.as_bytes()))?;
        }
        let (stdout, stderr) = (read(child.stdout.take())?, read(child.stderr.take())?);
        let latest = Instant::now() + self.timeout;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() >= latest {
                return Err(io::Error::other(format!("it took longer than {:?}", self.timeout)));
            }
            thread::sleep(LOOK);
        };
        // What it left running may hold its output open for ever.
        group.end();
        let rest = |pipe: mpsc::Receiver<Vec<u8>>| {
            let bytes = pipe.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Ok(Said {
            status,
            stdout: rest(stdout),
            stderr: rest(stderr),
        })
    }
}

/// The processes of a hook, which end with it.
struct Group(Child);

impl Group {
    fn end(&self) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // None of them may be left, which is as well.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
        let _ = self.0.wait();
    }
}

fn read(pipe: Option<impl Read + Send + 'static>) -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    if let Some(pipe) = pipe {
        thread::Builder::new().spawn(move || {
            let mut bytes = Vec::new();
            let mut pipe = pipe.take(MOST_SAID);
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
    stdout: String,
    stderr: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    #[serde(default, rename = "hookSpecificOutput")]
    specific: Specific,
    #[serde(default)]
    decision: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Specific {
    #[serde(default)]
    permission_decision: Option<String>,
    #[serde(default)]
    permission_decision_reason: Option<String>,
    #[serde(default)]
    updated_input: Option<Map<String, Value>>,
}

impl Said {
    /// What it said as JSON; nothing when it said nothing.
    ///
    /// # Errors
    /// It ended otherwise than well, or said something else.
    fn output(&self) -> Result<Output, String> {
        let complaint = self.stderr.trim();
        let complaint: String = complaint.chars().take(MOST_REASON).collect();
        match self.status.code() {
            Some(0) => {}
            Some(2) if complaint.is_empty() => return Err("it says no".to_owned()),
            Some(2) => return Err(complaint),
            _ => return Err(format!("it failed ({}): {complaint}", self.status)),
        }
        let text = self.stdout.trim();
        if text.is_empty() {
            return Ok(Output::default());
        }
        serde_json::from_str(text).map_err(|error| format!("what it says cannot be read: {error}"))
    }
}

fn before(output: Output) -> Before {
    let said = output.specific;
    let reason = said.permission_decision_reason.or(output.reason).unwrap_or_default();
    match (said.permission_decision.as_deref(), output.decision.as_deref()) {
        (Some("deny"), _) | (None, Some("block")) => Before::Deny(reason),
        (Some("ask"), _) => Before::Ask(reason),
        (Some("allow") | None, None | Some("approve")) => said.updated_input.map_or(Before::Pass, Before::Change),
        (decision, other) => {
            let word = decision.or(other).unwrap_or_default();
            Before::Deny(format!("it decides {word:?}, which is neither allow, ask nor deny"))
        }
    }
}

impl Hook for CommandHook {
    fn name(&self) -> Cow<'static, str> {
        self.command.join(" ").into()
    }

    fn before<'a>(&'a self, call: HookCall<'a>) -> Boxed<'a, Before> {
        Box::pin(async move {
            if self.event != Event::Before || !self.means(call) {
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
                Ok(output) if output.decision.as_deref() == Some("block") => {
                    After::Withhold(output.reason.unwrap_or_default())
                }
                Ok(_) => After::Pass,
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
