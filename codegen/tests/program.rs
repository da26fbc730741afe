//! `cargo codegen` as a process: its exit codes, what it prints and what it leaves on disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A repository of its own: the fixture's specs and a manifest.
struct Repo {
    dir: TempDir,
}

impl Repo {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/constructs/specs");
        copy(&specs, &dir.path().join("specs"));
        fs::write(dir.path().join("Cargo.toml"), "[workspace]\n").unwrap();
        Self { dir }
    }

    /// A repository whose generated files are fresh.
    fn fresh() -> Self {
        let repo = Self::new();
        let run = repo.run(&["write"]);
        assert!(run.status.success(), "{}", text(&run));
        repo
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.run_in("", arguments)
    }

    fn run_in(&self, folder: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_devloop-codegen"));
        command.args(arguments).current_dir(self.path(folder)).output().unwrap()
    }

    fn edit(&self, name: &str, change: impl FnOnce(String) -> String) {
        let path = self.path(name);
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn text(run: &Output) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr)
}

const LIST: &str = "generated/snapshot/tools/mod.rs";

#[test]
fn after_write_everything_is_fresh_and_a_second_write_does_nothing() {
    let repo = Repo::fresh();
    let run = repo.run(&["check"]);
    assert_eq!((run.status.code(), text(&run).contains("fresh")), (Some(0), true));
    let before = fs::metadata(repo.path(LIST)).unwrap().modified().unwrap();
    let run = repo.run(&["write"]);
    assert!(text(&run).contains("nothing to do"), "{}", text(&run));
    assert_eq!(fs::metadata(repo.path(LIST)).unwrap().modified().unwrap(), before);
}

#[test]
fn a_hand_edit_is_stale_and_the_command_is_named() {
    let repo = Repo::fresh();
    repo.edit(LIST, |text| text.replace("handlers", "hands"));
    let run = repo.run(&["check"]);
    assert_eq!(run.status.code(), Some(4));
    let text = text(&run);
    for part in [
        LIST,
        "-/// The `plain` hands.",
        "+/// The `plain` handlers.",
        "run `cargo codegen write`",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn a_changed_spec_is_stale_until_written() {
    let repo = Repo::fresh();
    repo.edit("specs/tools/plain/ping.yaml", |text| {
        text.replace("summary: Answers.", "summary: Answers at once.")
    });
    assert_eq!(repo.run(&["check"]).status.code(), Some(4));
    let run = repo.run(&["write"]);
    assert!(
        text(&run).contains("updated generated/schemas/tools/ping.json"),
        "{}",
        text(&run)
    );
    assert_eq!(repo.run(&["check"]).status.code(), Some(0));
}

#[test]
fn line_ends_are_told_apart_from_contents() {
    let repo = Repo::fresh();
    repo.edit(LIST, |text| text.replace('\n', "\r\n"));
    let run = repo.run(&["check"]);
    assert_eq!(run.status.code(), Some(4));
    assert!(
        text(&run).contains(&format!("{LIST}: differs in its line ends only")),
        "{}",
        text(&run)
    );
}

#[test]
fn specs_with_other_line_ends_give_the_same_bytes() {
    let repo = Repo::fresh();
    for name in [
        "specs/types.yaml",
        "specs/tools/zoo/keep_zoo.yaml",
        "specs/agents/zoo-vet.md",
    ] {
        repo.edit(name, |text| text.replace('\n', "\r\n"));
    }
    let run = repo.run(&["check"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run));
}

#[test]
fn files_that_no_spec_gives_are_removed_and_written_ones_are_not() {
    let repo = Repo::fresh();
    fs::write(repo.path("runtime/src/handlers/plain/ping.rs"), "// by hand\n").unwrap();
    fs::write(repo.path("runtime/src/handlers/plain/parts.rs"), "// by hand\n").unwrap();
    fs::remove_file(repo.path("specs/tools/plain/ping.yaml")).unwrap();
    fs::remove_dir(repo.path("specs/tools/plain")).unwrap();
    for name in ["zoo-keeper", "zoo-vet"] {
        repo.edit(&format!("specs/agents/{name}.yaml"), |text| {
            text.replace(", ping]", "]")
        });
    }
    let run = repo.run(&["check"]);
    assert_eq!(run.status.code(), Some(4));
    assert!(
        text(&run).contains("generated/schemas/tools/ping.json: no spec gives this file"),
        "{}",
        text(&run)
    );
    let run = repo.run(&["write"]);
    assert!(
        text(&run).contains("removed runtime/src/handlers/plain/mod.rs"),
        "{}",
        text(&run)
    );
    assert!(!repo.path("generated/snapshot/tools/plain").exists());
    assert!(repo.path("runtime/src/handlers/plain/ping.rs").exists());
    assert!(repo.path("runtime/src/handlers/plain/parts.rs").exists());
    assert_eq!(repo.run(&["check"]).status.code(), Some(0));
}

#[test]
fn a_missing_handler_is_named_with_what_to_paste() {
    let repo = Repo::new();
    let text = text(&repo.run(&["write"]));
    assert!(text.contains("Create runtime/src/handlers/plain/ping.rs:"), "{text}");
    assert!(text.contains("impl Handle<Ping> for Context {"), "{text}");
    fs::write(repo.path("runtime/src/handlers/plain/ping.rs"), "").unwrap();
    let again = repo.run(&["write"]);
    assert!(!self::text(&again).contains("plain/ping.rs:"), "{}", self::text(&again));
}

#[test]
fn broken_specs_are_told_in_full_and_nothing_is_written() {
    let repo = Repo::fresh();
    repo.edit("specs/tools/plain/ping.yaml", |text| {
        text.replace("kind: read_only", "kind: reed_only")
    });
    repo.edit("specs/tools/zoo/keep_zoo.yaml", |text| {
        text.replace("kind: write", "kind: right")
    });
    for command in ["write", "check", "lint"] {
        let run = repo.run(&[command]);
        assert_eq!(run.status.code(), Some(1), "{command}");
        let text = text(&run);
        assert!(
            text.contains("specs/tools/plain/ping.yaml") && text.contains("specs/tools/zoo/keep_zoo.yaml"),
            "{text}"
        );
    }
    assert!(repo.path("generated/schemas/tools/ping.json").exists());
}

#[test]
fn lint_counts_and_narrows() {
    let repo = Repo::new();
    let run = repo.run(&["lint"]);
    assert_eq!(run.status.code(), Some(0));
    let all = "2 handlers, 3 tools, 2 agents, 2 events, 11 shared types: no problems";
    assert!(text(&run).contains(all), "{}", text(&run));
    repo.edit("specs/tools/plain/ping.yaml", |text| {
        text.replace("kind: read_only", "kind: reed_only")
    });
    let run = repo.run(&["lint", "specs/tools/zoo"]);
    assert_eq!(run.status.code(), Some(0));
    assert!(text(&run).contains("elsewhere"), "{}", text(&run));
    let run = repo.run_in("specs/tools", &["lint", "plain/ping.yaml"]);
    assert_eq!(run.status.code(), Some(1), "{}", text(&run));
}

#[test]
fn the_root_is_found_upwards_and_wrong_usage_is_said() {
    let repo = Repo::fresh();
    assert_eq!(repo.run_in("specs/tools/zoo", &["check"]).status.code(), Some(0));
    let elsewhere = TempDir::new().unwrap();
    for arguments in [&["check"][..], &["check", "--dir", "."], &["czech"], &[]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_devloop-codegen"));
        let run = command.args(arguments).current_dir(elsewhere.path()).output().unwrap();
        assert_eq!(run.status.code(), Some(64), "{arguments:?}: {}", text(&run));
    }
    let outside = repo.path("").to_str().unwrap().to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_devloop-codegen"));
    let run = command
        .args(["check", "--dir", &outside])
        .current_dir(elsewhere.path())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0));
}
