//! `devloop agents`: the six roles.

use clap::ValueEnum;
use devloop_generated as generated;
use serde_json::json;

use super::Exit;
use super::output::{NAME, Printer, counted, table};
use crate::projection;

/// Arguments of `devloop agents`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How to print them.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// Everything, as JSON.
    Json,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    match args.format {
        Format::Table => {
            let rows: Vec<_> = generated::AGENTS
                .iter()
                .map(|agent| {
                    let place = format!("{} → {}", agent.upstream.join(", "), agent.downstream.join(", "));
                    [
                        agent.name.to_owned(),
                        counted(agent.tools.len(), "tool"),
                        if agent.needs_unit {
                            "one unit".to_owned()
                        } else {
                            String::new()
                        },
                        place,
                        agent.summary.to_owned(),
                    ]
                })
                .collect();
            for (agent, line) in generated::AGENTS.iter().zip(table(&rows)) {
                printer.line(format_args!(
                    "{NAME}{}{NAME:#}{}",
                    agent.name,
                    &line[agent.name.len()..]
                ));
            }
        }
        Format::Json => printer.pretty(&json!({
            "agents": generated::AGENTS.iter().map(|agent| projection::agent(agent)).collect::<Vec<_>>()
        })),
    }
    Exit::Ok
}
