//! `devloop tools`: the catalogue, in the forms that people and clients read.

use std::sync::Arc;

use clap::ValueEnum;
use devloop_contract::{InternalError, Tool};
use devloop_core::catalogue::Catalogue;
use devloop_core::registry::Definition;
use devloop_core::registry::projection::{self, Declaration};
use devloop_generated as generated;
use serde_json::{Value, json};

use super::log::{Delivery, Log};
use super::output::{FAINT, NAME, Printer, WARN, counted, harmless, short, table};
use super::upstream::{Servers, connect, is_well, problem};
use super::{Exit, target};
use crate::projection::tools_of;
use crate::upstream::McpConfig;

/// Arguments of `devloop tools`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only the tools of this agent: `pm` or `devloop-pm`.
    #[arg(long)]
    agent: Option<String>,
    /// How to print them.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    servers: Servers,
    /// Print only the totals: `handlers=N tools=N names=N grants=N catalog=N`.
    #[arg(long, conflicts_with_all = ["agent", "format", "mcp_config"])]
    counts: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// Everything, as JSON.
    Json,
    /// `{tools: [{name, description, input_schema}]}`, as the Anthropic API takes them.
    Anthropic,
    /// `{tools: [{type, function}]}`, as the OpenAI API takes them.
    Openai,
    /// The same for strict functions, where strict mode can say the schema.
    OpenaiStrict,
    /// `{tools: [{functionDeclarations}]}`, as the Gemini API takes them.
    Gemini,
    /// `{tools: […]}`, as an MCP server lists them.
    Mcp,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    if args.counts {
        let counts = generated::counts();
        printer.line(counts);
        return Exit::Ok;
    }
    let tools: Vec<&'static Tool> = match &args.agent {
        None => generated::all_tools().collect(),
        Some(name) => match target::agent(name) {
            Ok(agent) => tools_of(agent),
            Err(message) => {
                printer.error(message);
                return Exit::Usage;
            }
        },
    };
    let tools: Vec<_> = tools.into_iter().map(|tool| Arc::new(Definition::from(tool))).collect();
    let config = match args.servers.all() {
        Ok(config) => config,
        Err(message) => {
            printer.error(message);
            return Exit::Usage;
        }
    };
    match config {
        None => print(&tools, args.format, printer),
        Some(config) => with_servers(tools, config, args, printer),
    }
}

/// The tools of upstream servers among them, as a client would have them, and what is wrong with any.
fn with_servers(tools: Vec<Arc<Definition>>, config: McpConfig, args: &Args, printer: &mut Printer) -> Exit {
    let _log = Log::start(Delivery::Direct);
    let catalogue = Arc::new(Catalogue::new(|_| Ok(())));
    // Theirs must not have the names of ours.
    let registered = catalogue.register_all(tools.into_iter().map(|tool| ((*tool).clone(), ())));
    if let Err(error) = registered {
        printer.error(error);
        return Exit::System;
    }
    let shown = connect(
        config,
        args.servers.wait(),
        &catalogue,
        |_, _| (),
        async |upstreams, _| {
            let tools: Vec<Arc<Definition>> = catalogue
                .all()
                .iter()
                .map(|entry| Arc::clone(entry.definition()))
                .collect();
            let mut exit = print(&tools, args.format, printer);
            for (server, aside) in catalogue.quarantined() {
                for tool in aside {
                    let text = harmless(&format!("{server}: {tool}"));
                    printer.complain(format_args!("{WARN}set aside{WARN:#} {text}"));
                }
            }
            for status in upstreams.statuses().iter().filter(|status| !is_well(status)) {
                let problem = problem(status).unwrap_or_default();
                printer.error(format_args!("{}: {}", harmless(&status.server), harmless(&problem)));
                exit = exit.max(Exit::Expected);
            }
            exit
        },
    );
    shown.unwrap_or_else(|error| {
        printer.error(format_args!("cannot start the runtime: {error}"));
        Exit::System
    })
}

fn print(tools: &[Arc<Definition>], format: Format, printer: &mut Printer) -> Exit {
    let without_losses = |form: fn(&Definition) -> Result<Value, InternalError>| {
        move |tool: &Definition| {
            form(tool).map(|value| Declaration {
                value,
                losses: Vec::new(),
            })
        }
    };
    let declared = match format {
        Format::Table => {
            show(tools, printer);
            return Exit::Ok;
        }
        Format::Json => declared(tools, printer, without_losses(projection::metadata)),
        Format::Anthropic => declared(tools, printer, without_losses(projection::anthropic)),
        Format::Openai => declared(tools, printer, projection::openai),
        Format::OpenaiStrict => declared(tools, printer, projection::openai_strict),
        Format::Gemini => declared(tools, printer, projection::gemini),
        Format::Mcp => declared(tools, printer, without_losses(projection::mcp)),
    };
    match declared {
        Ok(tools) => {
            printer.pretty(&match format {
                Format::Gemini => json!({ "tools": [{ "functionDeclarations": tools }] }),
                _ => json!({ "tools": tools }),
            });
            Exit::Ok
        }
        Err(error) => {
            printer.error(error.chain());
            Exit::System
        }
    }
}

fn show(tools: &[Arc<Definition>], printer: &mut Printer) {
    lines(tools, printer);
    printer.line(format_args!(
        "{FAINT}{}. `devloop show TOOL` tells more.{FAINT:#}",
        counted(tools.len(), "tool")
    ));
}

/// One line for each tool. Says how many there are.
pub(super) fn lines<'a>(tools: impl IntoIterator<Item = &'a Arc<Definition>>, printer: &mut Printer) -> usize {
    let rows: Vec<_> = tools
        .into_iter()
        .map(|tool| {
            [
                tool.name.to_string(),
                tool.kind.as_str().to_owned(),
                short(&tool.summary),
            ]
        })
        .collect();
    for (row, line) in rows.iter().zip(table(&rows)) {
        printer.line(format_args!("{NAME}{}{NAME:#}{}", row[0], &line[row[0].len()..]));
    }
    rows.len()
}

/// The tools in one form. Says on standard error, in one line for each tool, what the provider is not told.
fn declared(
    tools: &[Arc<Definition>],
    printer: &Printer,
    form: impl Fn(&Definition) -> Result<Declaration, InternalError>,
) -> Result<Vec<Value>, InternalError> {
    let mut values = Vec::with_capacity(tools.len());
    for tool in tools {
        let made = form(tool)?;
        if !made.losses.is_empty() {
            let losses: Vec<String> = made.losses.iter().map(|loss| harmless(&loss.to_string())).collect();
            printer.complain(format_args!("{}: {}", tool.name, losses.join("; ")));
        }
        values.push(made.value);
    }
    Ok(values)
}
