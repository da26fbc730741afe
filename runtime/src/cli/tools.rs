//! `devloop tools`: the catalogue, in the forms that people and clients read.

use clap::ValueEnum;
use devloop_contract::{InternalError, Tool};
use devloop_core::registry::Definition;
use devloop_core::registry::projection::{self, Declaration};
use devloop_generated as generated;
use serde_json::{Value, json};

use super::output::{FAINT, NAME, Printer, counted, table};
use super::{Exit, target};
use crate::projection::tools_of;

/// Arguments of `devloop tools`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only the tools of this agent: `pm` or `devloop-pm`.
    #[arg(long)]
    agent: Option<String>,
    /// How to print them.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Print only the totals: `handlers=N tools=N names=N grants=N catalog=N`.
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
        Format::Json => return print(&tools, printer, projection::metadata),
        Format::Anthropic => return print(&tools, printer, projection::anthropic),
        Format::Openai => return print(&tools, printer, projection::openai),
        Format::OpenaiStrict => {
            return match declared_with_losses(&tools, printer, projection::openai_strict) {
                Ok(tools) => {
                    printer.pretty(&json!({ "tools": tools }));
                    Exit::Ok
                }
                Err(error) => failed(&error, printer),
            };
        }
        Format::Gemini => match declared_with_losses(&tools, printer, projection::gemini) {
            Ok(tools) => printer.pretty(&json!({ "tools": [{ "functionDeclarations": tools }] })),
            Err(error) => return failed(&error, printer),
        },
        Format::Mcp => return print(&tools, printer, projection::mcp),
    }
    Exit::Ok
}

fn declared(
    tools: &[&'static Tool],
    form: impl Fn(&Definition) -> Result<Value, InternalError>,
) -> Result<Vec<Value>, InternalError> {
    tools.iter().map(|tool| form(&Definition::from(*tool))).collect()
}

/// Says on standard error, in one line for each tool, what the provider is not told.
fn declared_with_losses(
    tools: &[&'static Tool],
    printer: &mut Printer,
    form: impl Fn(&Definition) -> Result<Declaration, InternalError>,
) -> Result<Vec<Value>, InternalError> {
    let mut values = Vec::with_capacity(tools.len());
    for tool in tools {
        let made = form(&Definition::from(*tool))?;
        if !made.losses.is_empty() {
            let losses: Vec<String> = made.losses.iter().map(ToString::to_string).collect();
            printer.complain(format_args!("{}: {}", tool.name, losses.join("; ")));
        }
        values.push(made.value);
    }
    Ok(values)
}

fn print(
    tools: &[&'static Tool],
    printer: &mut Printer,
    form: impl Fn(&Definition) -> Result<Value, InternalError>,
) -> Exit {
    match declared(tools, form) {
        Ok(tools) => printer.pretty(&json!({ "tools": tools })),
        Err(error) => return failed(&error, printer),
    }
    Exit::Ok
}

fn failed(error: &InternalError, printer: &mut Printer) -> Exit {
    printer.error(error.chain());
    Exit::System
}
