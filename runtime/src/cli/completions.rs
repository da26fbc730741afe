//! `devloop completions SHELL`.

use clap_complete::Shell;

use super::Exit;
use super::output::Printer;

/// Arguments of `devloop completions`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "devloop", &mut script);
    printer.raw(&script);
    Exit::Ok
}
