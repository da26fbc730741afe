//! The command line: `devloop`.
//!
//! Answers for arguments, texts for people and exit codes; each command is a file. Leaves out everything that a host
//! program would want too: that is the library.

mod agents;
mod call;
mod calls;
mod completions;
mod doctor;
mod explain;
mod gc;
mod init;
mod journal;
mod log;
mod mcp;
mod output;
mod serve;
mod show;
mod signals;
mod target;
mod timeline;
mod tools;
mod upstream;
mod verify;

use clap::{Parser, Subcommand};

use output::Printer;

/// How the program ends; the numbers are part of the contract with scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// A failure that the tool's contract foresees, or a check that did not pass.
    Expected = 1,
    /// The input, a path or the call itself was refused by a rule.
    Refused = 2,
    /// Something broke.
    System = 3,
    /// The command line itself is wrong (`EX_USAGE` of sysexits.h).
    Usage = 64,
    /// Told to stop by SIGINT, and stopped.
    Interrupted = 130,
    /// Told to stop by SIGTERM, and stopped.
    Terminated = 143,
}

/// The tool registry of a multi-agent software development loop.
#[derive(Debug, Parser)]
#[command(
    name = "devloop",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "\
Start here:
  devloop init shop                               make a project directory
  devloop doctor --project-dir shop               see whether this machine has what is needed
  devloop tools --agent pm                        what the PM may call
  devloop call write_todolist --agent pm --project-dir shop --input '{\"items\":[]}'
  devloop serve --agent pm --project-dir shop     serve the PM's tools over MCP (for an MCP client)

Exit codes: 0 ok, 1 expected failure, 2 refused input, path or permission, 3 system error, 64 wrong usage;
a call that SIGINT or SIGTERM stops: 130, 143."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the tools, in several forms.
    Tools(tools::Args),
    /// Look at upstream MCP servers and call one of their tools.
    Mcp(mcp::Args),
    /// List the agents.
    Agents(agents::Args),
    /// Show everything about one tool.
    Show(show::Args),
    /// Call one tool once, or the calls of a file, and print the results as JSON.
    Call(call::Args),
    /// Say what would become of a call, and why.
    Explain(explain::Args),
    /// Serve one agent's tools over MCP on standard input and output.
    Serve(serve::Args),
    /// Check that the critical tools exist and that a real MCP call works on real files.
    Verify(verify::Args),
    /// Make a directory a devloop project.
    Init(init::Args),
    /// Check what this machine and a project directory offer.
    Doctor(doctor::Args),
    /// Remove what a project no longer needs; shows it first.
    Gc(gc::Args),
    /// Show what happened in a project, and what comes.
    Timeline(timeline::Args),
    /// Show every call of a tool: what was sent, what was decided, how it ended.
    Calls(calls::Args),
    /// Print a completion script for a shell.
    Completions(completions::Args),
}

/// Runs the program with the process's own arguments and ends with one of the codes of [`Exit`].
pub fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; everything else is wrong usage, whose code clap would make 2.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Ok };
            return if error.print().is_ok() { exit } else { Exit::System };
        }
    };
    let mut printer = Printer::new();
    let exit = match cli.command {
        Command::Tools(args) => tools::run(&args, &mut printer),
        Command::Mcp(args) => mcp::run(&args, &mut printer),
        Command::Agents(args) => agents::run(&args, &mut printer),
        Command::Show(args) => show::run(&args, &mut printer),
        Command::Call(args) => call::run(&args, &mut printer),
        Command::Explain(args) => explain::run(&args, &mut printer),
        Command::Serve(args) => serve::run(&args, &mut printer),
        Command::Verify(args) => verify::run(&args, &mut printer),
        Command::Init(args) => init::run(&args, &mut printer),
        Command::Doctor(args) => doctor::run(&args, &mut printer),
        Command::Gc(args) => gc::run(&args, &mut printer),
        Command::Timeline(args) => timeline::run(&args, &mut printer),
        Command::Calls(args) => calls::run(&args, &mut printer),
        Command::Completions(args) => completions::run(&args, &mut printer),
    };
    printer.finish(exit)
}

/// The command line as clap sees it, for completions.
fn command() -> clap::Command {
    use clap::CommandFactory;
    Cli::command()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_well_formed() {
        super::command().debug_assert();
    }
}
