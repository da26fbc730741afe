//! `devloop tools`: the catalogue, in the forms that people and clients read.

use clap::ValueEnum;
use devloop_contract::Tool;
use devloop_generated as generated;
use serde_json::json;

use super::output::{FAINT, NAME, Printer, counted, table};
use super::{Exit, target};
use crate::projection;

/// Arguments of `devloop tools`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only the tools of this agent: `pm` or `devloop-pm`.
    #[arg(long)]
    agent: Option<String>,
    /// How to print them.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Print only the totals: `handlers=N tools=N names=N grants=N`.
    #[arg(long, conflicts_with_all = ["agent", "format"])]
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
    /// `{tools: […]}`, as an MCP server lists them.
    Mcp,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    if args.counts {
        let counts = generated::counts();
        printer.line(format_args!(
            "handlers={} tools={} names={} grants={}",
            counts.handlers, counts.tools, counts.names, counts.grants
        ));
        return Exit::Ok;
    }
    let tools: Vec<&'static Tool> = match &args.agent {
        None => generated::all_tools().collect(),
        Some(name) => match target::agent(name) {
            Ok(agent) => projection::tools_of(agent),
            Err(message) => {
                printer.error(message);
                return Exit::Usage;
            }
        },
    };
    match args.format {
        Format::Table => {
            let rows: Vec<_> = tools
                .iter()
                .map(|tool| {
                    [
                        tool.name.to_owned(),
                        tool.kind.as_str().to_owned(),
                        tool.summary.to_owned(),
                    ]
                })
                .collect();
            for (tool, line) in tools.iter().zip(table(&rows)) {
                printer.line(format_args!("{NAME}{}{NAME:#}{}", tool.name, &line[tool.name.len()..]));
            }
            printer.line(format_args!(
                "{FAINT}{}. `devloop show TOOL` tells more.{FAINT:#}",
                counted(tools.len(), "tool")
            ));
        }
        Format::Json => printer.pretty(&json!({
            "tools": tools.iter().map(|tool| projection::metadata(tool)).collect::<Vec<_>>()
        })),
        Format::Anthropic => printer.pretty(&json!({
            "tools": tools.iter().map(|tool| projection::anthropic(tool)).collect::<Vec<_>>()
        })),
        Format::Mcp => match tools
            .iter()
            .map(|tool| projection::mcp(tool))
            .collect::<Result<Vec<_>, _>>()
        {
            Ok(tools) => printer.pretty(&json!({ "tools": tools })),
            Err(error) => {
                printer.error(error.chain());
                return Exit::System;
            }
        },
    }
    Exit::Ok
}
