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

/// The compiler offers `<handler>/mod.rs` for a missing module, and people keep notes beside what is generated.
#[test]
fn what_the_generator_did_not_make_is_left_alone_and_told() {
    let repo = Repo::fresh();
    let silent = "runtime/src/handlers/plain/ping/mod.rs";
    let told = [
        "generated/agents/NOTES.md",
        "generated/agents/mine/tools.json",
        "generated/schemas/own.json",
        "generated/schemas/tools/own.json",
        "generated/snapshot/own.rs",
        "runtime/src/handlers/mine/mod.rs",
    ];
    for path in told.iter().chain([&silent]) {
        fs::create_dir_all(repo.path(path).parent().unwrap()).unwrap();
        fs::write(repo.path(path), "by hand\n").unwrap();
    }
    for command in ["check", "write", "check"] {
        let run = repo.run(&[command]);
        let text = text(&run);
        assert_eq!(run.status.code(), Some(0), "{command}: {text}");
        for path in told {
            assert!(
                text.contains(&format!("not generated: {path} ")),
                "{command}: {path}: {text}"
            );
        }
        assert!(!text.contains("plain/ping"), "{text}");
    }
    for path in told.iter().chain([&silent]) {
        assert_eq!(fs::read_to_string(repo.path(path)).unwrap(), "by hand\n", "{path}");
    }
}

#[test]
fn a_hand_edited_manifest_removes_nothing_that_was_not_generated() {
    let repo = Repo::fresh();
    let outside = TempDir::new().unwrap();
    let victim = outside.path().join("victim.json");
    let listed = ["specs/types.yaml", "generated/schemas/../../Cargo.toml", "Cargo.toml"];
    fs::write(&victim, "x").unwrap();
    // Listed and of the right form, but rewritten by hand since.
    fs::create_dir_all(repo.path("runtime/src/handlers/gone")).unwrap();
    fs::write(repo.path("runtime/src/handlers/gone/mod.rs"), "//! Mine now.\n").unwrap();
    repo.edit("generated/manifest.txt", |text| {
        format!(
            "{text}{}\n{}\nruntime/src/handlers/gone/mod.rs\n",
            listed.join("\n"),
            victim.display()
        )
    });
    let run = repo.run(&["write"]);
    assert!(
        run.status.success() && !text(&run).contains("removed"),
        "{}",
        text(&run)
    );
    assert!(listed.iter().all(|path| repo.path(path).exists()) && victim.exists());
    assert!(repo.path("runtime/src/handlers/gone/mod.rs").exists());
    assert_eq!(repo.run(&["check"]).status.code(), Some(0));
}

#[test]
fn a_hand_written_file_in_the_way_is_not_overwritten() {
    let repo = Repo::new();
    let path = "runtime/src/handlers/plain/mod.rs";
    fs::create_dir_all(repo.path(path).parent().unwrap()).unwrap();
    fs::write(repo.path(path), "//! By hand.\n").unwrap();
    let run = repo.run(&["write"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(
        text(&run).contains(&format!("{path} would be generated, but was written by hand")),
        "{}",
        text(&run)
    );
    assert_eq!(fs::read_to_string(repo.path(path)).unwrap(), "//! By hand.\n");
    assert!(!repo.path("generated").exists(), "nothing was written");
}

#[cfg(unix)]
#[test]
fn a_linked_folder_is_refused_and_what_is_behind_it_stays() {
    for folder in [
        "generated",
        "generated/schemas",
        "generated/schemas/tools",
        "runtime/src/handlers/plain",
    ] {
        let repo = Repo::fresh();
        let outside = TempDir::new().unwrap();
        let moved = outside.path().join("moved");
        fs::rename(repo.path(folder), &moved).unwrap();
        std::os::unix::fs::symlink(&moved, repo.path(folder)).unwrap();
        fs::remove_file(repo.path("specs/tools/plain/ping.yaml")).unwrap();
        for name in ["zoo-keeper", "zoo-vet"] {
            repo.edit(&format!("specs/agents/{name}.yaml"), |text| {
                text.replace(", ping]", "]")
            });
        }
        let files = || -> Vec<_> {
            let mut files = Vec::new();
            let mut open = vec![moved.clone()];
            while let Some(dir) = open.pop() {
                for entry in fs::read_dir(dir).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() {
                        open.push(path);
                    } else {
                        files.push((fs::read(&path).unwrap(), path));
                    }
                }
            }
            files.sort();
            files
        };
        let before = files();
        for command in ["write", "check"] {
            // A group without specs has no file any more: only its folder's link is in the way.
            let run = repo.run(&[command]);
            if folder.starts_with("generated") {
                assert_eq!(run.status.code(), Some(1), "{folder}: {}", text(&run));
                assert!(text(&run).contains(&format!("{folder} is a link")), "{}", text(&run));
            }
            assert_eq!(files(), before, "{folder}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for (arguments, code) in [(&["write"][..], 0), (&["check"], 4), (&["lint"], 0)] {
        let repo = Repo::new();
        let mut child = Command::new(env!("CARGO_BIN_EXE_devloop-codegen"))
            .args(arguments)
            .current_dir(repo.path(""))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let run = child.wait_with_output().unwrap();
        assert_eq!(
            (run.status.code(), text(&run)),
            (Some(code), String::new()),
            "{arguments:?}"
        );
    }
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
    let all = "3 handlers, 4 tools, 2 agents, 2 events, 11 shared types: no problems";
    assert!(text(&run).contains(all), "{}", text(&run));
    repo.edit("specs/tools/plain/ping.yaml", |text| {
        text.replace("kind: read_only", "kind: reed_only")
    });
    let run = repo.run(&["lint", "specs/tools/zoo"]);
    assert_eq!(run.status.code(), Some(0));
    assert!(text(&run).contains("elsewhere"), "{}", text(&run));
    let run = repo.run_in("specs/tools", &["lint", "plain/ping.yaml"]);
    assert_eq!(run.status.code(), Some(1), "{}", text(&run));
    assert_eq!(repo.run(&["lint", "."]).status.code(), Some(1));
    let run = repo.run(&["lint", "plain/ping.yaml"]);
    assert_eq!(run.status.code(), Some(64), "{}", text(&run));
    assert!(text(&run).contains("plain/ping.yaml: No such file"), "{}", text(&run));
    let run = repo.run(&["lint", "Cargo.toml"]);
    assert_eq!(run.status.code(), Some(64), "{}", text(&run));
}

#[test]
fn lint_notes_what_a_provider_is_not_told_and_passes() {
    let repo = Repo::new();
    let run = repo.run(&["lint"]);
    assert_eq!(run.status.code(), Some(0));
    let notes: Vec<String> = text(&run)
        .lines()
        .filter(|line| line.starts_with("note: "))
        .map(str::to_owned)
        .collect();
    let has = |part: &str| notes.iter().any(|note| note.contains(part));
    assert!(has("as a strict function of OpenAI, `keep_zoo`: "), "{notes:#?}");
    assert!(has("as a function of Gemini, `keep_zoo`: "), "{notes:#?}");
    assert!(has("specs/tools/zoo/keep_zoo.yaml:"), "{notes:#?}");
    let run = repo.run(&["lint", "specs/tools/plain"]);
    assert!(!text(&run).contains("keep_zoo"), "{}", text(&run));
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
