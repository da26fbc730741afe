//! `devloop doctor`: what this machine and a project directory offer.
//!
//! Answers for trying the things that everything else relies on and saying what to do about those that fail. Leaves out
//! the clients' own set-up.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use devloop_core::sandbox::{ProjectDir, RelPath, Sandbox};
use devloop_core::store::{Store, SystemClock};

use super::Exit;
use super::output::{BAD, FAINT, GOOD, Printer, counted};
use crate::config::Config;

/// Arguments of `devloop doctor`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The project directory to look at.
    #[arg(long, value_name = "DIR", default_value = ".")]
    project_dir: PathBuf,
}

/// One thing that was tried.
struct Finding {
    name: &'static str,
    /// What was seen, or what is wrong and what to do about it.
    result: Result<String, String>,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    let findings = examine(&args.project_dir);
    for finding in &findings {
        match &finding.result {
            Ok(seen) => printer.line(format_args!("{GOOD}✓{GOOD:#} {} · {seen}", finding.name)),
            Err(wrong) => printer.line(format_args!("{BAD}✗{BAD:#} {} · {wrong}", finding.name)),
        }
    }
    let bad = findings.iter().filter(|finding| finding.result.is_err()).count();
    if bad == 0 {
        printer.line(format_args!("{FAINT}Everything that devloop needs is here.{FAINT:#}"));
        Exit::Ok
    } else {
        printer.line(format_args!("{bad} of {} checks failed.", findings.len()));
        Exit::Expected
    }
}

fn examine(path: &std::path::Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let counts = devloop_generated::counts();
    findings.push(Finding {
        name: "tools",
        result: Ok(format!(
            "{} for {} agents",
            counted(counts.tools, "tool"),
            devloop_generated::AGENTS.len()
        )),
    });
    let user = Config::user_file(|name| std::env::var_os(name));
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    findings.push(Finding {
        name: "settings",
        result: Config::load(&absolute, user.as_deref())
            .map(|config| format!("server `{}`, lock wait {:?}", config.server_name, config.lock_wait))
            .map_err(|error| error.to_string()),
    });
    let dir = match ProjectDir::open(&absolute) {
        Ok(dir) => Arc::new(dir),
        Err(error) => {
            let result = Err(format!("{error}; `devloop init DIR` makes a project directory"));
            findings.push(Finding {
                name: "directory",
                result,
            });
            return findings;
        }
    };
    findings.push(Finding {
        name: "directory",
        result: Ok(dir.path().display().to_string()),
    });
    findings.push(Finding {
        name: "paths",
        result: Ok(dir.resolution().to_string()),
    });
    findings.push(Finding {
        name: "writing",
        result: write_and_remove(&dir),
    });
    findings.push(Finding {
        name: "locks",
        result: store(&dir)
            .lock("doctor", Duration::from_secs(1))
            .map(|_lock| "taken and let go".to_owned())
            .map_err(|error| format!("{error}; the file system must support advisory locks")),
    });
    findings
}

/// Writes a file as the store does, with every sync, and removes it.
fn write_and_remove(dir: &Arc<ProjectDir>) -> Result<String, String> {
    let probe = format!("agent-state/doctor-{}", std::process::id());
    let pattern = devloop_contract::glob::Pattern::parse(&probe).map_err(|error| error.to_string())?;
    let path = RelPath::parse(&probe).map_err(|error| error.to_string())?;
    let sandbox = Sandbox::new(Arc::clone(dir), "doctor", vec![pattern]);
    let hint = |error: devloop_core::sandbox::FsError| format!("{error}; the project directory must be writable");
    sandbox.replace(&path, b"probe\n").map_err(hint)?;
    sandbox.remove_file(&path).map_err(hint)?;
    Ok("a file was written, synced and removed".to_owned())
}

/// A store that may write nothing but what the machinery keeps.
fn store(dir: &Arc<ProjectDir>) -> Store {
    Store::new(
        Sandbox::new(Arc::clone(dir), "doctor", Vec::new()),
        Arc::new(SystemClock),
    )
}
