//! `devloop mcp`: upstream MCP servers, looked at without an agent.
//!
//! Answers for connecting to the servers of a file, for showing how they stand and what of theirs is served, and for one
//! call by hand. Nobody is asked, as whoever types the command decides; what their own rules deny stays denied. Without a
//! project there is no audit log, so that such a call leaves no record. `devloop call --mcp-config` makes the same call in
//! a project and for an agent, and `devloop serve --mcp-config` serves the same tools to one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use devloop_core::catalogue::names::is_of;
use devloop_core::catalogue::{Catalogue, ConnectionState, Snapshot};
use devloop_core::permission::{self, Memory, Mode, Verdict};
use devloop_core::registry::{Definition, Owner, PathRule, projection};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Exit;
use super::call::{Unprepared, arguments, read_input};
use super::log::{Delivery, Log};
use super::output::{BAD, FAINT, GOOD, NAME, Printer, WARN, counted, harmless, table};
use super::signals::word_is_out;
use super::tools;
use super::upstream::{connect, is_well, no_server, problem, the_servers};
use crate::config::Config;
use crate::session::real_name;
use crate::upstream::{CallError, CallOptions, McpConfig, ServerStatus, Upstreams};

/// Paths in the arguments of a server's tool are the server's own affair.
const ANY_PATH: PathRule = |_| Ok(());

/// Arguments of `devloop mcp`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  devloop mcp list --mcp-config .mcp.json
  devloop mcp tools --mcp-config .mcp.json --server github
  devloop mcp call github__list_issues --mcp-config .mcp.json --input '{\"repo\":\"shop\"}'

These work without a project and leave no record in an audit log: a call that should have one is made with
`devloop call TOOL --agent A --project-dir DIR --mcp-config FILE`. SIGINT and SIGTERM cancel the call, end the servers,
and end with 130 and 143.

FILE is JSON as Claude Code reads it:
  {\"mcpServers\": {\"files\": {\"command\": \"npx\", \"args\": [\"-y\", \"…\"], \"env\": {\"TOKEN\": \"${TOKEN}\"}},
                  \"web\": {\"type\": \"http\", \"url\": \"https://…\", \"headers\": {\"Authorization\": \"Bearer ${TOKEN}\"}}}}")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Connect to all servers and show how each of them stands.
    List(List),
    /// Show the tools that would be served, and those that are set aside.
    Tools(Tools),
    /// Call one tool once, in no project: print its result as JSON, and leave no record.
    ///
    /// Nobody is asked; what your own settings deny stays denied. `devloop call TOOL --agent A --project-dir DIR
    /// --mcp-config FILE` makes the call for an agent, by the rules of its project, and leaves a record there.
    Call(Call),
}

#[derive(Debug, clap::Args)]
struct Servers {
    /// The servers: Claude Code's `mcpServers` JSON.
    #[arg(long, value_name = "FILE")]
    mcp_config: PathBuf,
    /// As many seconds the servers have to connect and to list their tools.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    wait: u64,
}

#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    servers: Servers,
    /// How to print them.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, clap::Args)]
struct Tools {
    #[command(flatten)]
    servers: Servers,
    /// Only the tools of this server.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// How to print them.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, clap::Args)]
struct Call {
    /// The tool's name as `devloop mcp tools` shows it.
    tool: String,
    #[command(flatten)]
    servers: Servers,
    /// The input: JSON, `@FILE`, or `-` for standard input.
    #[arg(long, default_value = "{}", value_name = "JSON|@FILE|-")]
    input: String,
    /// As many seconds the call may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// Everything, as JSON.
    Json,
}

/// The servers, for as long as one command takes.
struct Connected<'c> {
    upstreams: &'c Upstreams,
    catalogue: &'c Catalogue<Called>,
}

/// Where calls of a tool go.
#[derive(Clone, Debug)]
struct Called {
    server: String,
    tool: String,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    let _log = Log::start(Delivery::Direct);
    let servers = match &args.command {
        Command::List(list) => &list.servers,
        Command::Tools(tools) => &tools.servers,
        Command::Call(call) => &call.servers,
    };
    let mut config = match McpConfig::read(&servers.mcp_config) {
        Ok(config) => config,
        Err(error) => {
            printer.error(error);
            return Exit::Usage;
        }
    };
    for warning in &config.warnings {
        printer.complain(format_args!("{WARN}warning{WARN:#}: {}", harmless(warning)));
    }
    // Only what is asked about is started.
    let known: Vec<String> = config.servers.keys().map(|server| harmless(server)).collect();
    match &args.command {
        Command::List(_) | Command::Tools(Tools { server: None, .. }) => {}
        Command::Tools(Tools { server: Some(name), .. }) => config.servers.retain(|server, _| server == name),
        Command::Call(call) => config.servers.retain(|server, _| is_of(server, &call.tool)),
    }
    if config.servers.is_empty() && !matches!(args.command, Command::List(_)) {
        printer.error(match &args.command {
            Command::Call(call) => no_server(&call.tool, &known),
            _ => format!("there is no such server; {}", the_servers(&known)),
        });
        return Exit::Usage;
    }
    let wait = Duration::from_secs(servers.wait);
    let catalogue = Arc::new(Catalogue::new(ANY_PATH));
    let done = connect(config, wait, &catalogue, called, async |upstreams, cancel| {
        let connected = &Connected {
            upstreams,
            catalogue: &catalogue,
        };
        match &args.command {
            Command::List(list) => show_servers(connected, list.format, printer),
            Command::Tools(tools) => show_tools(connected, tools.format, printer),
            Command::Call(one) => call(connected, one, cancel, printer).await,
        }
    });
    done.unwrap_or_else(|error| {
        printer.error(format_args!("cannot start the runtime: {error}"));
        Exit::System
    })
}

fn called(server: &str, tool: &Arc<Definition>) -> Called {
    Called {
        server: server.to_owned(),
        tool: tool.source.to_string(),
    }
}

fn show_servers(connected: &Connected<'_>, format: Format, printer: &mut Printer) -> Exit {
    let statuses = connected.upstreams.statuses();
    let well = statuses.iter().all(is_well);
    match format {
        Format::Table => {
            let rows: Vec<_> = statuses
                .iter()
                .map(|status| {
                    let (name, version) = status.implementation.clone().unwrap_or_default();
                    let tools = counted(status.tools, "tool");
                    let tools = match status.quarantined {
                        0 => tools,
                        aside => format!("{tools}, {aside} set aside"),
                    };
                    [
                        harmless(&status.server),
                        status.way.to_owned(),
                        state(status).to_owned(),
                        tools,
                        harmless(format!("{name} {version}").trim()),
                    ]
                })
                .collect();
            for ((status, row), line) in statuses.iter().zip(&rows).zip(table(&rows)) {
                printer.line(format_args!("{NAME}{}{NAME:#}{}", row[0], &line[row[0].len()..]));
                if let Some(problem) = problem(status) {
                    printer.line(format_args!("  {BAD}{}{BAD:#}", harmless(&problem)));
                }
            }
            let failed = statuses.iter().filter(|status| !is_well(status)).count();
            if failed == 0 {
                printer.line(format_args!(
                    "{GOOD}{}, all well.{GOOD:#}",
                    counted(statuses.len(), "server")
                ));
            } else {
                let all = counted(statuses.len(), "server");
                printer.line(format_args!("{BAD}{all}, {failed} not well.{BAD:#}"));
            }
        }
        Format::Json => {
            let servers: Vec<Value> = statuses.iter().map(to_json).collect();
            printer.pretty(&json!({ "servers": servers }));
        }
    }
    if well { Exit::Ok } else { Exit::Expected }
}

fn state(status: &ServerStatus) -> &'static str {
    match status.state {
        ConnectionState::Connecting => "connecting",
        ConnectionState::Connected => "connected",
        ConnectionState::Lost { .. } => "lost",
        ConnectionState::Failed { .. } => "failed",
        ConnectionState::Closed => "closed",
    }
}

fn to_json(status: &ServerStatus) -> Value {
    let (name, version) = status.implementation.clone().unzip();
    json!({
        "server": status.server,
        "way": status.way,
        "state": state(status),
        "problem": problem(status),
        "name": name,
        "version": version,
        "protocol": status.protocol,
        "tools": status.tools,
        "quarantined": status.quarantined,
    })
}

fn show_tools(connected: &Connected<'_>, format: Format, printer: &mut Printer) -> Exit {
    let snapshot = connected.catalogue.snapshot();
    let aside = connected.catalogue.quarantined();
    let statuses = connected.upstreams.statuses();
    match format {
        Format::Table => {
            let count = tools::lines(snapshot.all().map(|entry| entry.definition()), printer);
            for (server, tools) in &aside {
                for tool in tools {
                    let text = harmless(&format!("{server}: {tool}"));
                    printer.line(format_args!("{WARN}set aside{WARN:#} {text}"));
                }
            }
            printer.line(format_args!("{FAINT}{}.{FAINT:#}", counted(count, "tool")));
        }
        Format::Json => {
            let tools: Result<Vec<Value>, _> = snapshot
                .all()
                .map(|entry| {
                    let mut tool = projection::metadata(entry.definition())?;
                    tool["server"] = entry.runner().server.clone().into();
                    tool["source"] = entry.runner().tool.clone().into();
                    Ok::<_, devloop_contract::InternalError>(tool)
                })
                .collect();
            let tools = match tools {
                Ok(tools) => tools,
                Err(error) => {
                    printer.error(error.chain());
                    return Exit::System;
                }
            };
            let aside: Vec<Value> = aside
                .iter()
                .flat_map(|(server, tools)| tools.iter().map(move |tool| (server, tool)))
                .map(|(server, tool)| json!({"server": server, "name": tool.name, "reason": tool.reason}))
                .collect();
            printer.pretty(&json!({ "tools": tools, "quarantined": aside }));
        }
    }
    let mut exit = Exit::Ok;
    for status in statuses.iter().filter(|status| !is_well(status)) {
        let problem = problem(status).unwrap_or_default();
        printer.error(format_args!("{}: {}", harmless(&status.server), harmless(&problem)));
        exit = Exit::Expected;
    }
    exit
}

/// The settings of whoever types the command; there is no project here.
fn user_settings() -> Result<Config, String> {
    let file = Config::user_file(|name| std::env::var_os(name));
    Config::of_user(file.as_deref()).map_err(|error| error.to_string())
}

async fn call(connected: &Connected<'_>, args: &Call, cancel: CancellationToken, printer: &mut Printer) -> Exit {
    let snapshot = connected.catalogue.snapshot();
    let Some(entry) = snapshot.get(&args.tool) else {
        return no_tool(connected, &snapshot, &args.tool, printer);
    };
    let input = match read_input(&args.input).and_then(|text| arguments(&text)) {
        Ok(input) => input,
        Err(Unprepared::Usage(message)) => {
            printer.error(message);
            return Exit::Usage;
        }
        Err(Unprepared::Input(message) | Unprepared::System(message)) => {
            printer.error(message);
            return Exit::Refused;
        }
    };
    let built = match entry.compiled().build(input) {
        Ok(built) => built,
        Err(error) => {
            printer.error(error);
            return Exit::Refused;
        }
    };
    // Whoever types this is the one who would be asked; what their rules deny, and files that hold secrets, stay denied.
    let mut policy = match user_settings() {
        Ok(config) => config.policy(),
        Err(message) => {
            printer.error(message);
            return Exit::Usage;
        }
    };
    policy.set_mode(Mode::Bypass);
    let mut asked_for = permission::Call::of(&built);
    // A server that this program starts looks for files where it was started.
    if let Ok(here) = std::env::current_dir().and_then(|here| here.canonicalize()) {
        asked_for = asked_for.followed(|path| real_name(&here, path));
    }
    let decision = policy.decide(&asked_for, &Memory::default());
    if decision.verdict == Verdict::Deny {
        printer.error(harmless(&decision.reason));
        return Exit::Refused;
    }
    let input = match built.input() {
        Value::Object(input) => input.clone(),
        _ => serde_json::Map::new(),
    };
    let options = CallOptions {
        timeout: Duration::from_secs(args.timeout),
        cancel,
        ..CallOptions::default()
    };
    let Called { server, tool } = entry.runner();
    match connected.upstreams.call(server, tool, input, options).await {
        Ok(result) => {
            printer.json(&result);
            if result["isError"] == true {
                Exit::Expected
            } else {
                Exit::Ok
            }
        }
        Err(error) => {
            printer.error(harmless(&error.to_string()));
            match error {
                CallError::Cancelled => {
                    word_is_out().await;
                    Exit::System
                }
                // The server's own judgement of the call.
                CallError::Refused { .. } => Exit::Expected,
                _ => Exit::System,
            }
        }
    }
}

/// The tool is not there: its server is not well, or the name is wrong.
fn no_tool(connected: &Connected<'_>, snapshot: &Snapshot<Called>, name: &str, printer: &mut Printer) -> Exit {
    let statuses = connected.upstreams.statuses();
    let ill: Vec<&ServerStatus> = statuses.iter().filter(|status| !is_well(status)).collect();
    for status in &ill {
        let problem = problem(status).unwrap_or_default();
        printer.error(format_args!("{}: {}", harmless(&status.server), harmless(&problem)));
    }
    if !ill.is_empty() {
        return Exit::System;
    }
    for status in &statuses {
        let owner = Owner::Server(status.server.clone().into());
        if snapshot.of(&owner).next().is_none() {
            printer.complain(format_args!("{} offers no tools", harmless(&status.server)));
        }
    }
    let nearest = snapshot.nearest(name);
    let hint = if nearest.is_empty() {
        "`devloop mcp tools` lists those that there are".to_owned()
    } else {
        format!("the nearest are {}", nearest.join(", "))
    };
    printer.error(format_args!("there is no tool `{}`; {hint}", harmless(name)));
    Exit::Usage
}
