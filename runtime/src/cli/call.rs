//! `devloop call TOOL`: one call, or many of one file, their results as JSON on standard output.
//!
//! Answers for reading inputs, for exit codes, and for what a call would do (`--dry-run`). Leaves out the call itself: it
//! takes the path that all calls take.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use devloop_contract::{FailureBody, ValidationError};
use devloop_core::permission::Verdict;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::log::{Delivery, Log};
use super::output::{Printer, counted};
use super::signals::Stop;
use super::target::Target;
use super::upstream::{Reached, Servers, reaches_servers};
use super::{Exit, signals, target};
use crate::call::{CallOutcome, CallRequest};
use crate::upstream::McpConfig;
use crate::{identity, json as strict};

/// Arguments of `devloop call`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  devloop call write_todolist --agent pm --project-dir shop --input '{\"items\":[]}'
  devloop call write_todolist --agent coder --unit web --project-dir shop --input @list.json
  jq … | devloop call write_todolist --agent pm --project-dir shop --input -
  devloop call write_todolist --agent pm --project-dir shop --input @list.json --dry-run
  devloop call --agent pm --project-dir shop --batch calls.ndjson

Each line of a batch is {\"tool\": NAME, \"input\": {…}, \"tool_use_id\": ID}; TOOL stands in for a missing `tool`.
Each line of the answer is {\"line\": N, \"tool\": NAME, \"result\": {…}}, in order. The exit code is the worst.
When nobody reads the answers any more, no further call is made: standard error says where that was, exit code 3.")]
pub(super) struct Args {
    /// The tool's name or an alias.
    #[arg(required_unless_present = "batch")]
    tool: Option<String>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    servers: Servers,
    /// The input: JSON, `@FILE`, or `-` for standard input.
    #[arg(long, default_value = "{}", value_name = "JSON|@FILE|-")]
    input: String,
    /// Names this one call: a tool that creates something does it once for each name. Default: a new one.
    #[arg(long, value_name = "ID")]
    tool_use_id: Option<String>,
    /// Build the input and tell what would run and why; do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Make the calls of a file, one on each line, `-` for standard input; go on when one fails.
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["input", "tool_use_id"])]
    batch: Option<String>,
    /// Stop a batch after the first call that does not end well.
    #[arg(long, requires = "batch")]
    stop_on_failure: bool,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    // What goes wrong beside the call, such as an event journal that cannot be written, is told nowhere else.
    let _log = Log::start(Delivery::Direct);
    let prepared = Caller::new(args).and_then(|caller| {
        let Some(tool) = &args.tool else {
            return Ok((caller, None));
        };
        caller.check(tool)?;
        match args.batch {
            Some(_) => Ok((caller, None)),
            None => Ok((caller, Some((tool.clone(), arguments(&read_input(&args.input)?)?)))),
        }
    });
    let (caller, single) = match prepared {
        Ok(prepared) => prepared,
        Err(Unprepared::Usage(message)) => {
            printer.error(message);
            return Exit::Usage;
        }
        Err(Unprepared::System(message)) => {
            printer.error(message);
            return Exit::System;
        }
        Err(Unprepared::Input(message)) => return report(&invalid(message), printer),
    };
    if caller.effect == Effect::Real {
        let session = caller.reached.session.clone();
        caller.stop.listen(move || {
            let _ = session.project().flush(KEPT);
        });
    }
    let exit = make(&caller, single, args, printer);
    let stop = caller.stop.clone();
    // Servers end and the audit log is written before it is known how all this ended.
    drop(caller);
    stop.told().unwrap_or(exit)
}

/// Makes the one call, or those of a file.
fn make(caller: &Caller, single: Option<(String, Map<String, Value>)>, args: &Args, printer: &mut Printer) -> Exit {
    if let Some((tool, arguments)) = single {
        caller.reached.settle(&tool, &arguments);
        caller.reached.complain(&tool, printer);
        return match caller.carry_out(tool, arguments, args.tool_use_id.clone()) {
            Done::Called(outcome) => report(&outcome, printer),
            Done::Explained(told, exit) => {
                printer.json(&told);
                exit
            }
        };
    }
    let Some(file) = &args.batch else {
        printer.error("name a tool, or a file of calls with `--batch`");
        return Exit::Usage;
    };
    match open(file) {
        Ok(calls) => caller.batch(calls, args, printer),
        Err(error) => {
            printer.error(format_args!("cannot read {file}: {error}"));
            Exit::Usage
        }
    }
}

pub(super) enum Unprepared {
    Usage(String),
    Input(String),
    System(String),
}

/// Whether calls are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Real,
    /// What would be is told.
    None,
}

impl Drop for Caller {
    fn drop(&mut self) {
        target::flush(self.reached.session.project());
    }
}

/// What came of one call.
enum Done {
    Called(CallOutcome),
    Explained(Value, Exit),
}

/// Who makes the calls, and how.
struct Caller {
    reached: Reached,
    effect: Effect,
    stop: Stop,
}

/// How long the audit log may take after that.
const KEPT: Duration = Duration::from_millis(50);

impl Caller {
    fn new(args: &Args) -> Result<Self, Unprepared> {
        target::agent(&args.target.agent).map_err(Unprepared::Usage)?;
        // The lines of a batch may name any tool.
        let config = match (&args.tool, &args.batch) {
            (Some(tool), None) => servers_of(&args.servers, tool)?,
            _ => args.servers.all().map_err(Unprepared::Usage)?,
        };
        if let Some(id) = &args.tool_use_id {
            label(id)?;
        }
        let session = args.target.session().map_err(Unprepared::Usage)?;
        let reached = Reached::new(session, config, args.servers.wait());
        Ok(Self {
            reached: reached.map_err(|error| Unprepared::System(error.to_string()))?,
            effect: if args.dry_run { Effect::None } else { Effect::Real },
            stop: Stop::default(),
        })
    }

    /// Refuses a tool that the agent does not have, with those that it has.
    fn check(&self, name: &str) -> Result<(), Unprepared> {
        let agent = target::agent(self.reached.session.identity().agent).map_err(Unprepared::Usage)?;
        let tool = match target::tool(name) {
            Ok(tool) => tool,
            // The session knows what its servers have.
            Err(_) if self.reached.session.upstreams().is_some() => return Ok(()),
            Err(message) => return Err(Unprepared::Usage(message)),
        };
        if agent.has(tool) {
            return Ok(());
        }
        Err(Unprepared::Usage(format!(
            "{} is not granted to {}; its tools: {}",
            tool.name,
            agent.name,
            agent.tools.join(", ")
        )))
    }

    fn carry_out(&self, tool: String, arguments: Map<String, Value>, id: Option<String>) -> Done {
        match self.effect {
            Effect::Real => {
                let id = id.unwrap_or_else(|| format!("cli-{}", Uuid::now_v7()));
                let session = &self.reached.session;
                let mut request = CallRequest::new(tool, arguments, id);
                request.cancel = self.stop.token();
                let stopped = self.stop.token();
                Done::Called(self.reached.block_on(async {
                    let outcome = session.submit(request).await;
                    if stopped.is_cancelled() && session.upstreams().is_some() {
                        signals::word_is_out().await;
                    }
                    outcome
                }))
            }
            Effect::None => match self.reached.session.explain(&tool, arguments) {
                Ok(told) => {
                    let exit = exit_of_verdict(told.decision.verdict);
                    Done::Explained(json!({ "dry_run": true, "would": told }), exit)
                }
                Err(outcome) => Done::Called(*outcome),
            },
        }
    }

    /// Makes the calls of a file, one after the other.
    fn batch(&self, calls: Calls, args: &Args, printer: &mut Printer) -> Exit {
        let Calls { mut lines, length } = calls;
        let from = args
            .batch
            .as_deref()
            .map_or("-", |file| if file == "-" { "standard input" } else { file });
        let mut worst = Exit::Ok;
        let (mut number, mut line) = (0_u64, Vec::new());
        loop {
            line.clear();
            number += 1;
            match lines.read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(_) if line.trim_ascii().is_empty() => continue,
                Ok(_) => {}
                Err(error) => {
                    printer.error(format_args!("cannot read line {number} of {from}: {error}"));
                    return worse(worst, Exit::System);
                }
            }
            // Looked at only now: for the line, it may have waited long.
            if !printer.is_open() {
                let rest = left(lines, length);
                let what = match self.effect {
                    Effect::Real => "carried out",
                    Effect::None => "explained",
                };
                printer.error(format_args!(
                    "nothing can be written to standard output any more: stopped before line {number} of {from}; {rest} not \
                     {what}"
                ));
                return worse(worst, Exit::System);
            }
            let (tool, done) = match one(&line, args.tool.as_deref()) {
                Ok(One { tool, input, id }) => {
                    self.reached.settle(&tool, &input);
                    (tool.clone(), self.carry_out(tool, input, id))
                }
                Err(Faulty { tool, message }) => (tool.unwrap_or_default(), Done::Called(invalid(message))),
            };
            let (result, exit) = match done {
                Done::Called(outcome) => (outcome.to_json(), exit_of(&outcome)),
                Done::Explained(told, exit) => (told, exit),
            };
            printer.json(&json!({ "line": number, "tool": tool, "result": result }));
            worst = worse(worst, exit);
            let is_told = self.stop.token().is_cancelled();
            if is_told || (exit != Exit::Ok && args.stop_on_failure) {
                printer.complain(format_args!("Stopped at line {number}."));
                break;
            }
        }
        worst
    }
}

/// The worse of two ends: what broke is worse than what was asked for wrongly, whatever their numbers are.
fn worse(one: Exit, other: Exit) -> Exit {
    let rank = |exit: Exit| match exit {
        Exit::Ok => 0,
        Exit::Expected => 1,
        Exit::Refused => 2,
        Exit::Usage => 3,
        Exit::System => 4,
        Exit::Interrupted | Exit::Terminated => 5,
    };
    if rank(other) > rank(one) { other } else { one }
}

/// One call of a batch.
struct One {
    tool: String,
    input: Map<String, Value>,
    id: Option<String>,
}

/// A line of a batch that is no call.
struct Faulty {
    /// The tool that it is about, as far as that can be read.
    tool: Option<String>,
    message: String,
}

fn one(line: &[u8], default: Option<&str>) -> Result<One, Faulty> {
    let object = match arguments(line) {
        Ok(object) => object,
        Err(Unprepared::Input(message) | Unprepared::Usage(message) | Unprepared::System(message)) => {
            // The parser counts lines of what it was given, which is one line here.
            let message = message
                .replace("the input", "the line")
                .replace(" at line 1 column ", " at column ");
            // Whoever reads the answer wants to know which call it is, if that can be told at all.
            let said: Option<Value> = serde_json::from_slice(line).ok();
            let tool = said.and_then(|said| said.get("tool")?.as_str().map(str::to_owned));
            return Err(Faulty { tool, message });
        }
    };
    let tool = object
        .get("tool")
        .and_then(Value::as_str)
        .or(default)
        .map(str::to_owned);
    call_of(object, default).map_err(|message| Faulty { tool, message })
}

fn call_of(mut object: Map<String, Value>, default: Option<&str>) -> Result<One, String> {
    let tool = match object.remove("tool") {
        Some(Value::String(tool)) => tool,
        Some(other) => return Err(format!("`tool` must be the name of a tool, and is {other}")),
        None => default
            .map(str::to_owned)
            .ok_or("the line names no `tool`, and neither does the command line")?,
    };
    let input = match object.remove("input") {
        Some(Value::Object(input)) => input,
        None => Map::new(),
        Some(_) => return Err("`input` must be a JSON object".to_owned()),
    };
    let id = match object.remove("tool_use_id") {
        Some(Value::String(id)) => Some(id),
        None => None,
        Some(_) => return Err("`tool_use_id` must be a text".to_owned()),
    };
    if let Some(id) = &id {
        identity::label("tool_use_id", id.clone()).map_err(|error| error.to_string())?;
    }
    match object.keys().next() {
        Some(key) => Err(format!(
            "unknown key `{key}`: a line has `tool`, `input` and `tool_use_id`"
        )),
        None => Ok(One { tool, input, id }),
    }
}

fn label(id: &str) -> Result<(), Unprepared> {
    let label = identity::label("--tool-use-id", id.to_owned());
    label.map(drop).map_err(|error| Unprepared::Usage(error.to_string()))
}

fn invalid(message: String) -> CallOutcome {
    CallOutcome::Invalid(ValidationError::one("", message))
}

pub(super) fn arguments(text: &[u8]) -> Result<Map<String, Value>, Unprepared> {
    // Some editors begin every file with a byte order mark.
    let text = text.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(text);
    let parsed = strict::parse(text).map_err(|error| Unprepared::Input(format!("the input is no JSON: {error}")))?;
    if let Some(duplicate) = parsed.duplicate {
        return Err(Unprepared::Input(duplicate.to_string()));
    }
    match parsed.value {
        Value::Object(arguments) => Ok(arguments),
        _ => Err(Unprepared::Input("the input must be a JSON object".to_owned())),
    }
}

/// The lines of a batch.
struct Calls {
    lines: Box<dyn BufRead>,
    length: Length,
}

/// Whether all lines of a batch are there already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    /// It is a file.
    Known,
    /// Somebody may write more, or never end.
    Open,
}

fn open(file: &str) -> io::Result<Calls> {
    // Standard input is often a file, too.
    let opened = match file {
        "-" => File::from(io::stdin().as_fd().try_clone_to_owned()?),
        path => File::open(path)?,
    };
    Ok(Calls {
        length: if opened.metadata()?.is_file() {
            Length::Known
        } else {
            Length::Open
        },
        lines: Box::new(BufReader::new(opened)),
    })
}

/// How many calls are left, the one whose line was just read among them, with the verb.
fn left(mut lines: impl BufRead, length: Length) -> String {
    let (mut count, mut line, mut end) = (1, Vec::new(), length == Length::Open);
    while !end {
        line.clear();
        match lines.read_until(b'\n', &mut line) {
            Ok(0) => return format!("{} {}", counted(count, "call"), if count == 1 { "was" } else { "were" }),
            Ok(_) => count += usize::from(!line.trim_ascii().is_empty()),
            Err(_) => end = true,
        }
    }
    "it and what comes after it were".to_owned()
}

pub(super) fn read_input(input: &str) -> Result<Vec<u8>, Unprepared> {
    let unreadable = |from: &str, error: io::Error| Unprepared::Usage(format!("cannot read {from}: {error}"));
    if input == "-" {
        let mut text = Vec::new();
        io::stdin()
            .read_to_end(&mut text)
            .map_err(|error| unreadable("standard input", error))?;
        Ok(text)
    } else if let Some(path) = input.strip_prefix('@') {
        fs::read(path).map_err(|error| unreadable(path, error))
    } else {
        Ok(input.as_bytes().to_vec())
    }
}

pub(super) fn report(outcome: &CallOutcome, printer: &mut Printer) -> Exit {
    printer.json(&outcome.to_json());
    match outcome {
        CallOutcome::Invalid(error) => printer.error(error),
        CallOutcome::Sandbox { message, hint } => {
            printer.error(message);
            if let Some(hint) = hint {
                printer.complain(hint);
            }
        }
        CallOutcome::Internal { chain, error_id, .. } => {
            // Usually the log has just said so.
            if !tracing::enabled!(target: "devloop_runtime::session", tracing::Level::ERROR) {
                printer.error(format_args!("{chain} ({error_id})"));
            }
        }
        CallOutcome::NeedsApproval(ask) => printer.error(&ask.reason),
        CallOutcome::Success(_)
        | CallOutcome::Passed(_)
        | CallOutcome::Expected(_)
        | CallOutcome::Cancelled
        | CallOutcome::UnknownTool { .. } => {}
    }
    exit_of(outcome)
}

fn exit_of(outcome: &CallOutcome) -> Exit {
    match outcome {
        CallOutcome::Passed(answer) if answer.is_error => Exit::Expected,
        CallOutcome::Success(_) | CallOutcome::Passed(_) => Exit::Ok,
        CallOutcome::Expected(body) => match denied(body) {
            Some(verdict) => exit_of_verdict(verdict),
            None => Exit::Expected,
        },
        CallOutcome::Invalid(_) | CallOutcome::Sandbox { .. } | CallOutcome::NeedsApproval(_) => Exit::Refused,
        CallOutcome::Internal { .. } | CallOutcome::Cancelled => Exit::System,
        CallOutcome::UnknownTool { .. } => Exit::Usage,
    }
}

/// How a call ends that was judged so, when nothing else goes wrong and nobody is there to be asked.
pub(super) fn exit_of_verdict(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::Allow => Exit::Ok,
        Verdict::Ask => Exit::Expected,
        Verdict::Deny => Exit::Refused,
    }
}

/// How a call was judged that did not run for that.
fn denied(body: &FailureBody) -> Option<Verdict> {
    if body.code != "permission_denied" {
        return None;
    }
    let verdict = body.details.as_ref()?.get("decision")?.get("verdict")?.as_str()?;
    [Verdict::Ask, Verdict::Deny]
        .into_iter()
        .find(|known| known.as_str() == verdict)
}

/// The servers that a call of a tool needs.
fn servers_of(servers: &Servers, tool: &str) -> Result<Option<McpConfig>, Unprepared> {
    match target::tool(tool) {
        Ok(known) if reaches_servers(known) => servers.all().map_err(Unprepared::Usage),
        Ok(_) => Ok(None),
        Err(message) => servers_that_have(servers, tool, message),
    }
}

/// The servers of a tool that is none of a spec, for which `message` says so.
pub(super) fn servers_that_have(
    servers: &Servers,
    tool: &str,
    message: String,
) -> Result<Option<McpConfig>, Unprepared> {
    if !tool.contains("__") {
        return Err(Unprepared::Usage(message));
    }
    match servers.of(tool).map_err(Unprepared::Usage)? {
        Some(config) => Ok(Some(config)),
        None => Err(Unprepared::Usage(message)),
    }
}
