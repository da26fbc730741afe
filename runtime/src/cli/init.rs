//! `devloop init DIR`: make a directory a project.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use devloop_core::sandbox::ProjectDir;

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

/// Makes what is missing and answers what that was. Whatever is in the way is found before anything is made.
fn init(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let real = real(dir)?;
    let shown = dir.display();
    let (state, settings) = (real.join("agent-state"), real.join("devloop.toml"));
    let is_there = match fs::symlink_metadata(&real) {
        // Refuses `/` under whatever name, and a directory that cannot be opened.
        Ok(kind) if kind.is_dir() => ProjectDir::open(&real)
            .map(|_| true)
            .map_err(|error| Failure::Usage(error.to_string()))?,
        Ok(_) => return Err(Failure::Usage(format!("{shown} is no directory"))),
        Err(_) => false,
    };
    let lies = |path: &Path| fs::symlink_metadata(path).map(|found| found.file_type());
    if lies(&state).is_ok_and(|kind| !kind.is_dir()) {
        return Err(Failure::Usage(format!(
            "{shown}/agent-state is no directory of its own, and tools follow no link: remove it or put a directory in \
             its place"
        )));
    }
    if lies(&settings).is_ok_and(|kind| !kind.is_file()) {
        return Err(Failure::Usage(format!(
            "{shown}/devloop.toml is no regular file, and no link is followed: remove it or put a file in its place"
        )));
    }
    let mut made = Vec::new();
    let create = |path: &Path| fs::create_dir_all(path).map_err(|error| Failure::System(path.to_owned(), error));
    if !is_there {
        create(&real)?;
        made.push(dir.to_owned());
    }
    if lies(&state).is_err() {
        create(&state)?;
        made.push(dir.join("agent-state"));
    }
    match OpenOptions::new().write(true).create_new(true).open(&settings) {
        Ok(mut file) => {
            file.write_all(config::TEMPLATE.as_bytes())
                .map_err(|error| Failure::System(settings, error))?;
            made.push(dir.join("devloop.toml"));
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Failure::System(settings, error)),
    }
    Ok(made)
}

/// The path without links and `..`, also where its last parts do not exist yet.
fn real(dir: &Path) -> Result<PathBuf, Failure> {
    let failed = |error| Failure::System(dir.to_owned(), error);
    let absolute = std::path::absolute(dir).map_err(failed)?;
    let mut missing = Vec::new();
    let mut there = absolute.as_path();
    loop {
        match (there.canonicalize(), there.parent()) {
            (Ok(real), _) => return Ok(missing.iter().rev().fold(real, |path, part| path.join(part))),
            (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
                if there.symlink_metadata().is_ok() {
                    return Err(Failure::Usage(format!(
                        "{} is a symbolic link that leads nowhere",
                        there.display()
                    )));
                }
                let Some(name) = there.file_name() else {
                    return Err(Failure::Usage(format!(
                        "{} does not exist, and `..` leads out of it: name the directory without that",
                        parent.display()
                    )));
                };
                missing.push(name);
                there = parent;
            }
            (Err(error), _) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(Failure::Usage(format!(
                    "{} is in no directory: a part of its path is a file",
                    dir.display()
                )));
            }
            (Err(error), _) => return Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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

    #[test]
    fn the_root_is_refused_under_every_name() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink("/", &link).unwrap();
        let up = dir.path().join("../".repeat(dir.path().components().count()));
        for name in [Path::new("/.."), Path::new("/../."), &link, &link.join("."), &up] {
            assert!(
                matches!(init(name), Err(Failure::Usage(message)) if message.contains("root of the file system")),
                "{}",
                name.display()
            );
        }
        let nowhere = dir.path().join("none/../..");
        assert!(matches!(init(&nowhere), Err(Failure::Usage(_))));
        assert!(
            !dir.path().join("none").exists(),
            "nothing is made before it is refused"
        );
    }

    #[test]
    fn what_tools_would_refuse_is_no_project() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let refused = |project: &Path| matches!(init(project), Err(Failure::Usage(_)));
        for name in ["agent-state", "devloop.toml"] {
            let project = dir.path().join(format!("with-{name}"));
            fs::create_dir(&project).unwrap();
            for target in [outside.path(), Path::new("/nonexistent")] {
                symlink(target, project.join(name)).unwrap();
                assert!(refused(&project), "{name} is a link");
                assert_eq!(fs::read_dir(&project).unwrap().count(), 1, "nothing is made");
                fs::remove_file(project.join(name)).unwrap();
            }
            assert_eq!(init(&project).map(|made| made.len()).ok(), Some(2));
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        let dangling = dir.path().join("dangling");
        symlink("nowhere", &dangling).unwrap();
        assert!(refused(&dangling) && refused(&dangling.join("below")));
    }

    #[test]
    fn a_link_to_a_directory_and_a_way_up_are_names_like_others() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("real")).unwrap();
        symlink("real", dir.path().join("link")).unwrap();
        let named = dir.path().join("real/../link/new");
        assert_eq!(init(&named).map(|made| made.len()).ok(), Some(3));
        assert!(dir.path().join("real/new/agent-state").is_dir());
    }
}
