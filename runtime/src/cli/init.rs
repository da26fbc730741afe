//! `devloop init DIR`: make a directory a project.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Exit;
use super::output::{GOOD, NAME, Printer};
use crate::config;

/// Arguments of `devloop init`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The directory; made when it does not exist. What is in it stays as it is.
    dir: PathBuf,
}

pub(super) fn run(args: &Args, printer: &mut Printer) -> Exit {
    match init(&args.dir) {
        Ok(made) => {
            for path in &made {
                printer.line(format_args!("{GOOD}made{GOOD:#}  {}", path.display()));
            }
            if made.is_empty() {
                printer.line(format_args!("{} is a devloop project already", args.dir.display()));
            }
            let dir = args.dir.display();
            printer.line(format_args!("\n{NAME}Next{NAME:#}"));
            printer.line(format_args!("  devloop doctor --project-dir {dir}"));
            printer.line(format_args!(
                "  devloop serve --agent pm --project-dir {dir}    (as an MCP server of your client)"
            ));
            Exit::Ok
        }
        Err(Failure::Usage(message)) => {
            printer.error(message);
            Exit::Usage
        }
        Err(Failure::System(path, error)) => {
            printer.error(format_args!("{}: {error}", path.display()));
            Exit::System
        }
    }
}

enum Failure {
    Usage(String),
    System(PathBuf, io::Error),
}

/// Makes what is missing and answers what that was.
fn init(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let absolute = std::path::absolute(dir).map_err(|error| Failure::System(dir.to_owned(), error))?;
    if absolute.parent().is_none() {
        return Err(Failure::Usage(
            "`/` cannot be a project directory: name one below it".to_owned(),
        ));
    }
    if absolute.exists() && !absolute.is_dir() {
        return Err(Failure::Usage(format!("{} is no directory", dir.display())));
    }
    let mut made = Vec::new();
    for folder in [dir.to_owned(), dir.join("agent-state")] {
        if !folder.is_dir() {
            fs::create_dir_all(&folder).map_err(|error| Failure::System(folder.clone(), error))?;
            made.push(folder);
        }
    }
    let settings = dir.join("devloop.toml");
    match OpenOptions::new().write(true).create_new(true).open(&settings) {
        Ok(mut file) => {
            file.write_all(config::TEMPLATE.as_bytes())
                .map_err(|error| Failure::System(settings.clone(), error))?;
            made.push(settings);
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Failure::System(settings, error)),
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_time_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("shop");
        assert_eq!(init(&project).map(|made| made.len()).ok(), Some(3));
        fs::write(project.join("devloop.toml"), "# mine\n").unwrap();
        assert_eq!(init(&project).map(|made| made.len()).ok(), Some(0));
        assert_eq!(fs::read_to_string(project.join("devloop.toml")).unwrap(), "# mine\n");
    }

    #[test]
    fn a_file_and_the_root_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(init(file.path()), Err(Failure::Usage(_))));
        assert!(matches!(init(Path::new("/")), Err(Failure::Usage(_))));
    }
}
