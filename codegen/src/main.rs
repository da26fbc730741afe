//! `cargo codegen`: keeps the committed generated files in step with the specs.
//!
//! Answers for the command line, its texts and its exit codes: 0 fresh, 1 broken specs or files, 4 stale, 64 wrong usage.
//! Leaves out the work: the library loads and generates, [`sync`] compares and writes.

mod sync;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use devloop_codegen::{FileMap, SpecErrors, Specs, generate, load, losses, skeleton};

use crate::sync::{Change, Stale};

const BROKEN: u8 = 1;
const STALE: u8 = 4;
const USAGE: u8 = 64;

/// Keeps generated files in step with the specs.
#[derive(Debug, Parser)]
#[command(name = "cargo codegen", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write every generated file that is out of date, and remove those of the last run that no spec gives any more.
    Write(Root),
    /// Say which generated files are out of date; exit 4 when there are any.
    Check(Root),
    /// Load the specs and run every check on them; note what providers will not be told of a tool.
    Lint(Lint),
}

#[derive(Debug, Args)]
struct Root {
    /// The root of the repository [default: the nearest folder upwards with specs/ and Cargo.toml].
    #[arg(long, value_name = "ROOT")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Lint {
    #[command(flatten)]
    root: Root,
    /// Show only problems of these spec files or folders.
    paths: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { USAGE } else { 0 };
            // Nothing is left to do when even that cannot be printed.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let mut out = Patient(anstream::stdout().lock());
    match run(&cli.command, &mut out) {
        Ok(code) => code,
        Err(Stop::Specs(errors)) => {
            let _ = writeln!(
                anstream::stderr(),
                "{errors}\n\n{} in the specs.",
                count(errors.iter().count(), "problem")
            );
            ExitCode::from(BROKEN)
        }
        Err(Stop::Io(error)) => {
            let _ = writeln!(anstream::stderr(), "error: {error}");
            ExitCode::from(BROKEN)
        }
        Err(Stop::Usage(message)) => {
            let _ = writeln!(anstream::stderr(), "error: {message}");
            ExitCode::from(USAGE)
        }
    }
}

/// Output whose reader may go away, as `head` does: that is no error, and the rest is written to nobody.
struct Patient<W>(W);

impl<W: Write> Write for Patient<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            other => other,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

/// Why a command ended early.
enum Stop {
    Specs(SpecErrors),
    Io(io::Error),
    Usage(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<SpecErrors> for Stop {
    fn from(errors: SpecErrors) -> Self {
        Self::Specs(errors)
    }
}

fn run(command: &Command, out: &mut impl Write) -> Result<ExitCode, Stop> {
    match command {
        Command::Write(root) => {
            let root = root.resolve()?;
            let (specs, files) = generated(&root)?;
            write(&root, &specs, &files, out)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Check(root) => {
            let root = root.resolve()?;
            let (_, files) = generated(&root)?;
            check(&root, &files, out)
        }
        Command::Lint(lint) => lint.run(out),
    }
}

impl Root {
    fn resolve(&self) -> Result<PathBuf, Stop> {
        match &self.dir {
            Some(dir) if dir.join("specs").is_dir() => Ok(dir.clone()),
            Some(dir) => Err(Stop::Usage(format!("{} has no specs/ folder", dir.display()))),
            None => sync::find_root(&std::env::current_dir()?).ok_or_else(|| {
                Stop::Usage("no folder upwards from here has specs/ and Cargo.toml; give --dir ROOT".to_owned())
            }),
        }
    }
}

impl Lint {
    fn run(&self, out: &mut impl Write) -> Result<ExitCode, Stop> {
        let root = self.root.resolve()?;
        let wanted = self.wanted(&root.join("specs"))?;
        match generated(&root) {
            Ok((specs, _)) => {
                for loss in losses(&specs) {
                    if wanted.is_empty() || is_wanted(&wanted, &root.join(&loss.path)) {
                        writeln!(out, "note: {loss}")?;
                    }
                }
                let tools: usize = specs.tools.iter().map(|tool| tool.file.spec.tools.len().max(1)).sum();
                writeln!(
                    out,
                    "{}, {}, {}, {}, {}: no problems",
                    count(specs.tools.len(), "handler"),
                    count(tools, "tool"),
                    count(specs.agents.len(), "agent"),
                    count(specs.events.spec.events.len(), "event"),
                    count(specs.types.spec.types.len(), "shared type"),
                )?;
                Ok(ExitCode::SUCCESS)
            }
            Err(Stop::Specs(errors)) if !wanted.is_empty() => {
                let shown: Vec<_> = errors
                    .iter()
                    .filter(|error| is_wanted(&wanted, &root.join(&error.path)))
                    .cloned()
                    .collect();
                if let Some(errors) = SpecErrors::collect(shown) {
                    return Err(Stop::Specs(errors));
                }
                writeln!(
                    out,
                    "no problems there, but {} elsewhere",
                    count(errors.iter().count(), "problem")
                )?;
                Ok(ExitCode::SUCCESS)
            }
            Err(stop) => Err(stop),
        }
    }

    /// The paths that were asked for. One that cannot have a problem is a slip: "no problems" would be no answer.
    fn wanted(&self, specs: &Path) -> Result<Vec<PathBuf>, Stop> {
        let specs = absolute(specs);
        let paths = self.paths.iter().map(|path| {
            let found = path.canonicalize().map_err(|error| {
                Stop::Usage(format!(
                    "{}: {error}; give files or folders of the specs",
                    path.display()
                ))
            })?;
            if found.starts_with(&specs) || specs.starts_with(&found) {
                Ok(found)
            } else {
                let (path, specs) = (path.display(), specs.display());
                Err(Stop::Usage(format!(
                    "{path} is not below {specs}; give files or folders of the specs"
                )))
            }
        });
        paths.collect()
    }
}

/// Whether a file is one that was asked for, or lies in a folder that was.
fn is_wanted(wanted: &[PathBuf], path: &Path) -> bool {
    let path = absolute(path);
    wanted.iter().any(|wanted| path.starts_with(wanted))
}

/// The path with links resolved where it exists, so that two spellings of one file are equal.
fn absolute(path: &Path) -> PathBuf {
    path.canonicalize()
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.to_path_buf())
}

fn generated(root: &Path) -> Result<(Specs, FileMap), Stop> {
    let specs = load(&root.join("specs"))?;
    let files = generate(&specs)?;
    Ok((specs, files))
}

fn write(root: &Path, specs: &Specs, files: &FileMap, out: &mut impl Write) -> io::Result<()> {
    let done = sync::write(root, files)?;
    for (path, change) in &done.files {
        let word = match change {
            Change::Created => "created",
            Change::Updated => "updated",
            Change::Removed => "removed",
        };
        writeln!(out, "{word} {path}")?;
    }
    if done.files.is_empty() {
        writeln!(out, "{}: nothing to do", count(files.len(), "generated file"))?;
    }
    strangers(&done.strangers, out)?;
    for tool in &specs.tools {
        let module = format!("runtime/src/handlers/{}/{}", tool.group, tool.file.stem);
        let path = format!("{module}.rs");
        // A handler may have a folder of its own.
        if !root.join(&path).exists() && !root.join(module).join("mod.rs").exists() {
            writeln!(
                out,
                "\n{} has no handler yet. Create {path}:\n\n{}",
                tool.file.path,
                skeleton(tool)
            )?;
        }
    }
    Ok(())
}

fn check(root: &Path, files: &FileMap, out: &mut impl Write) -> Result<ExitCode, Stop> {
    let found = sync::check(root, files)?;
    strangers(&found.strangers, out)?;
    let stale = found.files;
    if stale.is_empty() {
        writeln!(out, "{}: fresh", count(files.len(), "generated file"))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (path, what) in &stale {
        match what {
            Stale::Missing => writeln!(out, "{path}: missing")?,
            Stale::Left => writeln!(out, "{path}: no spec gives this file")?,
            Stale::LineEnds => writeln!(out, "{path}: differs in its line ends only (CRLF for LF)")?,
            Stale::Differs(diff) => writeln!(out, "{path}: out of date\n{diff}")?,
        }
    }
    writeln!(
        out,
        "\n{} out of date: run `cargo codegen write` and commit the result.",
        count(stale.len(), "file")
    )?;
    Ok(ExitCode::from(STALE))
}

/// Says which files were left alone: a note, whatever else there is to say.
fn strangers(paths: &[String], out: &mut impl Write) -> io::Result<()> {
    for path in paths {
        writeln!(out, "not generated: {path} (left as it is)")?;
    }
    Ok(())
}

fn count(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}
