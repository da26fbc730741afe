//! The program as it is tested, whatever a developer has set for itself.
//!
//! Answers for starting it. Leaves out what it is told and what it answers.

use std::process::Command;

pub(crate) fn program() -> Command {
    program_under(&[])
}

/// The program, started by another one that lets it have less.
pub(crate) fn program_under(start: &[&str]) -> Command {
    let mut words = start.iter().copied().chain([env!("CARGO_BIN_EXE_devloop")]);
    let mut command = Command::new(words.next().expect("the program itself"));
    command
        .args(words)
        .env_remove("CLAUDE_CODE_SESSION_ID")
        .env_remove("DEVLOOP_LOG")
        .env("XDG_CONFIG_HOME", "/nonexistent");
    command
}
