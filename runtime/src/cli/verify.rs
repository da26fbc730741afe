//! `devloop verify`: the smallest proof that everything is wired up.
//!
//! Answers for the source system's phase 0: the critical tools are there, and a real MCP call through a real server
//! process writes a real file and emits its event. Leaves out everything that the tests cover better.

use std::fmt::Display;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use devloop_contract::glob::Pattern;
use devloop_core::sandbox::{ProjectDir, RelPath, Sandbox};
use devloop_core::store::state::LARGEST_STATE;
use devloop_core::store::{DEFAULT_WAIT, Store, SystemClock};
use devloop_generated as generated;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Exit;
use super::output::{BAD, FAINT, GOOD, Printer, counted};

/// The tools without which the loop cannot run, in the source's order.
const CRITICAL: [&str; 7] = [
    "write_todolist",
    "update_todo_item",
    "hash_contract",
    "bug_open",
    "archive_doc",
    "update_search_index",
    "validate_prd_site",
];

/// Those of them that are still to be built. One that is neither here nor registered is missing.
const NOT_BUILT_YET: &[&str] = &[
    "hash_contract",
    "bug_open",
    "archive_doc",
    "update_search_index",
    "validate_prd_site",
];

/// How long the server may take for one answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The PM's list in a project.
const LIST: &str = "agent-state/pm-todo.json";

/// Marks the lists that this command writes, so that it never touches another one.
const CALL_ID_PREFIX: &str = "verify-";

/// Arguments of `devloop verify`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Call in this project instead of in a temporary directory. The PM must have no todo list there; the one that this
    /// command writes is removed again, and its event stays in the journal.
    #[arg(long, value_name = "DIR")]
    project_dir: Option<PathBuf>,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    if !registered(printer) {
        return Exit::Expected;
    }
    let (dir, _temporary) = match &args.project_dir {
        Some(dir) if dir.is_dir() => (dir.clone(), None),
        Some(dir) => {
            printer.error(format_args!(
                "{} is no directory; `devloop init` makes one",
                dir.display()
            ));
            return Exit::Usage;
        }
        None => match Temporary::new() {
            Ok(temporary) => (temporary.0.clone(), Some(temporary)),
            Err(error) => {
                printer.error(format_args!("cannot make a temporary directory: {error}"));
                return Exit::System;
            }
        },
    };
    let call_id = format!("{CALL_ID_PREFIX}{}", Uuid::now_v7());
    let result = round_trip(&dir, &call_id, printer);
    // Also after a failure: the list is of no use to anybody.
    let tidied = remove_own_list(&dir).map_err(at("tidy up"));
    match result.and(tidied) {
        Ok(_) => Exit::Ok,
        Err(failure) => {
            printer.line(format_args!("{BAD}✗{BAD:#} {} · {}", failure.step, failure.what));
            Exit::Expected
        }
    }
}

/// Prints a line for each critical tool; whether none is missing.
fn registered(printer: &mut Printer) -> bool {
    let mut complete = true;
    let mut found = 0;
    for name in CRITICAL {
        match generated::tool(name) {
            Some(tool) => {
                let start: String = tool.description.chars().take(40).collect();
                printer.line(format_args!("{GOOD}✓{GOOD:#} {name} · {start}"));
                found += 1;
            }
            None if NOT_BUILT_YET.contains(&name) => {
                printer.line(format_args!("{FAINT}– {name} · not built yet{FAINT:#}"));
            }
            None => {
                printer.line(format_args!("{BAD}MISSING: {name}{BAD:#}"));
                complete = false;
            }
        }
    }
    if found == CRITICAL.len() {
        printer.line(format_args!("All {found} critical tools registered"));
    }
    complete
}

struct Failure {
    step: &'static str,
    what: String,
}

fn at<E: Display>(step: &'static str) -> impl Fn(E) -> Failure {
    move |error| Failure {
        step,
        what: error.to_string(),
    }
}

/// Serves, calls, and looks at what came of it.
fn round_trip(dir: &Path, call_id: &str, printer: &mut Printer) -> Result<(), Failure> {
    let file = dir.join(LIST);
    // A list of this command's own is there when an earlier run was killed.
    if remove_own_list(dir).map_err(at("file"))? == Found::InUse {
        let what = format!("{} is in use; name another directory or none", file.display());
        return Err(Failure { step: "file", what });
    }
    let mut server = Server::start(dir, call_id).map_err(at("serve"))?;
    let hello = server
        .request(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "devloop verify", "version": env!("CARGO_PKG_VERSION") },
            }),
        )
        .map_err(at("initialize"))?;
    server.notify("notifications/initialized").map_err(at("initialize"))?;
    let tools = server.request("tools/list", &json!({})).map_err(at("tools/list"))?;
    let count = tools["tools"].as_array().map_or(0, Vec::len);
    printer.line(format_args!(
        "{GOOD}✓{GOOD:#} serve · {} {} speaks MCP {} and lists {}",
        hello["serverInfo"]["name"].as_str().unwrap_or("?"),
        hello["serverInfo"]["version"].as_str().unwrap_or("?"),
        hello["protocolVersion"].as_str().unwrap_or("?"),
        counted(count, "tool"),
    ));

    // The call's own name in the list makes it a new one each time: an unchanged list is not written again.
    let items = json!([
        { "id": "step-001", "description": format!("Write a todo list over MCP ({call_id})") },
        { "id": "step-002", "description": "Find it on disk" },
        { "id": "step-003", "description": "Find its event", "depends_on": ["step-001", "step-002"] },
    ]);
    let answer = server
        .request(
            "tools/call",
            &json!({ "name": "write_todolist", "arguments": { "items": items } }),
        )
        .map_err(at("tools/call"))?;
    let result = &answer["structuredContent"];
    if result["ok"] != true || result["total"] != 3 {
        return Err(Failure {
            step: "tools/call",
            what: format!("unexpected answer {answer}"),
        });
    }
    printer.line(format_args!("{GOOD}✓{GOOD:#} call · write_todolist answered {result}"));

    let list: Value = fs::read(&file)
        .map_err(|error| error.to_string())
        .and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()))
        .map_err(|error| Failure {
            step: "file",
            what: format!("{}: {error}", file.display()),
        })?;
    let ids = |list: &Value| -> Vec<Value> {
        list.as_array()
            .into_iter()
            .flatten()
            .map(|item| item["id"].clone())
            .collect()
    };
    if list["call_id"] != call_id || ids(&list["items"]) != ids(&items) {
        return Err(Failure {
            step: "file",
            what: format!("{} holds another list: {list}", file.display()),
        });
    }
    printer.line(format_args!(
        "{GOOD}✓{GOOD:#} file · {} holds its 3 items",
        file.display()
    ));

    let journal = dir.join("agent-state/.events/events.ndjson");
    let text = fs::read_to_string(&journal).map_err(at("event"))?;
    let event = text
        .lines()
        .rev()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|event| event["name"] == "agent.todolist" && event["payload"]["call_id"] == call_id)
        .ok_or_else(|| Failure {
            step: "event",
            what: format!("{} has no agent.todolist", journal.display()),
        })?;
    printer.line(format_args!(
        "{GOOD}✓{GOOD:#} event · agent.todolist, seq {}",
        event["seq"]
    ));
    server.stop().map_err(at("stop"))
}

/// What was found in the place of the PM's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Nothing, or a list of this command's own, which is gone now.
    Free,
    /// A list that an agent works by, which is not ours to touch.
    InUse,
}

/// Removes the list if this command wrote it; under its lock, as an agent may just be writing its own.
fn remove_own_list(dir: &Path) -> Result<Found, String> {
    let text = |error: &dyn Display| error.to_string();
    let dir = std::path::absolute(dir).map_err(|error| text(&error))?;
    let project = Arc::new(ProjectDir::open(&dir).map_err(|error| text(&error))?);
    let path = RelPath::parse(LIST).map_err(|problem| text(&problem))?;
    let pattern = Pattern::parse(LIST).map_err(|error| text(&error))?;
    let sandbox = Sandbox::new(project, "verify", vec![pattern]);
    if !sandbox.exists(&path).map_err(|error| text(&error))? {
        return Ok(Found::Free);
    }
    let store = Store::new(sandbox.clone(), Arc::new(SystemClock));
    let _lock = store.lock("pm-todo", DEFAULT_WAIT).map_err(|error| text(&error))?;
    let Some(list) = sandbox.read(&path, LARGEST_STATE).map_err(|error| text(&error))? else {
        return Ok(Found::Free);
    };
    let ours = serde_json::from_slice::<Value>(&list).is_ok_and(|list| {
        list["call_id"]
            .as_str()
            .is_some_and(|id| id.starts_with(CALL_ID_PREFIX))
    });
    if !ours {
        return Ok(Found::InUse);
    }
    sandbox.remove_file(&path).map_err(|error| text(&error))?;
    Ok(Found::Free)
}

/// A server process and the client's end of it. Ended on drop, whatever happened.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<io::Result<String>>,
    next_id: u64,
}

impl Server {
    fn start(dir: &Path, call_id: &str) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--agent", "pm", "--call-id", call_id, "--project-dir"])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let input = child.stdin.take();
        let output = child
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("the server has no output"))?;
        let (sender, lines) = mpsc::channel();
        // A thread of its own, so that a silent server costs patience and not eternity.
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            child,
            input,
            lines,
            next_id: 1,
        })
    }

    fn send(&mut self, frame: &Value) -> io::Result<()> {
        let input = self
            .input
            .as_mut()
            .ok_or_else(|| io::Error::other("the server has no input"))?;
        writeln!(input, "{frame}")?;
        input.flush()
    }

    fn notify(&mut self, method: &str) -> io::Result<()> {
        self.send(&json!({ "jsonrpc": "2.0", "method": method }))
    }

    fn request(&mut self, method: &str, params: &Value) -> io::Result<Value> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let line = self.lines.recv_timeout(PATIENCE).map_err(|error| {
                io::Error::other(match error {
                    mpsc::RecvTimeoutError::Timeout => format!("no answer within {PATIENCE:?}"),
                    mpsc::RecvTimeoutError::Disconnected => "the server ended without an answer".to_owned(),
                })
            })??;
            let mut frame: Value = serde_json::from_str(&line)?;
            if frame["id"] != id {
                continue;
            }
            if !frame["error"].is_null() {
                return Err(io::Error::other(format!(
                    "{method} was answered with {}",
                    frame["error"]
                )));
            }
            return Ok(frame["result"].take());
        }
    }

    /// Ends the input, which ends the server.
    fn stop(mut self) -> io::Result<()> {
        self.input = None;
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("the server ended with {status}")))
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.input = None;
        // Both fail when it has ended already, which is what they are for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory that goes when this does.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("devloop-verify-{}", Uuid::now_v7()));
        fs::create_dir(&dir).map(|()| Self(dir))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What cannot be removed from the temporary directory is left to whoever cleans it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_built_yet_is_critical_and_really_not_there() {
        for name in NOT_BUILT_YET {
            assert!(CRITICAL.contains(name), "{name} is not critical");
            assert!(generated::tool(name).is_none(), "{name} is built: take it off the list");
        }
    }
}
