//! What the sandbox promises, tried against a hostile project directory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use devloop_contract::ToolError;
use devloop_contract::error::Ground;
use devloop_contract::glob::Pattern;
use tempfile::TempDir;

use super::*;

const BOTH: [Resolution; 2] = [Resolution::Automatic, Resolution::Walk];
const LIMIT: u64 = 1 << 20;

fn rel(text: &str) -> RelPath {
    RelPath::parse(text).unwrap_or_else(|problem| panic!("{text:?}: {problem}"))
}

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::parse(text).unwrap()).collect()
}

fn sandbox_at(path: &Path, resolution: Resolution, write: &[&str]) -> Sandbox {
    let project = ProjectDir::open_with(path, resolution).unwrap();
    Sandbox::new(Arc::new(project), "pm", patterns(write)).with_durability(Durability::Cached)
}

/// A directory in memory where there is such a place: a disk's file system searches long for inodes when thousands of
/// files come and go.
fn quick_dir() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap_or_else(|_| TempDir::new().unwrap())
}

/// A new project directory, and a sandbox on it that may write everywhere.
fn fresh(resolution: Resolution) -> (TempDir, Sandbox) {
    let dir = quick_dir();
    let sandbox = sandbox_at(dir.path(), resolution, &["**"]);
    (dir, sandbox)
}

fn cause(error: FsError) -> String {
    match error {
        FsError::Denied { agent, cause, .. } => {
            assert_eq!(agent, "pm");
            cause
        }
        other => panic!("not denied: {other:?}"),
    }
}

/// What lies in the way; it must be said who can mend it.
fn obstacle(error: FsError) -> String {
    match error {
        FsError::Obstructed { agent, cause, .. } => {
            assert_eq!(agent, "pm");
            assert!(cause.contains("a person must"), "{cause}");
            cause
        }
        other => panic!("not obstructed: {other:?}"),
    }
}

#[test]
fn the_kernel_resolves_where_this_suite_runs() {
    // Else both ways would silently be the same one.
    let (_dir, sandbox) = fresh(Resolution::Automatic);
    assert!(!cfg!(target_os = "linux") || format!("{:?}", sandbox.project()).contains("kernel_resolves: true"));
}

#[test]
fn a_project_directory_must_be_one() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    symlink("/", dir.path().join("top")).unwrap();
    let table = [
        (PathBuf::from("relative"), "relative"),
        (PathBuf::from("/"), "root of the file system"),
        (dir.path().join("top"), "root of the file system"),
        (dir.path().join("file"), "not a directory"),
        (dir.path().join("missing"), "No such file"),
    ];
    for (path, part) in table {
        let error = ProjectDir::open(&path).unwrap_err().to_string();
        assert!(error.contains(part), "{}: {error}", path.display());
    }
}

#[test]
fn files_are_written_read_listed_and_removed() {
    for resolution in BOTH {
        let (dir, sandbox) = fresh(resolution);
        assert_eq!(sandbox.read(&rel("a/b/c.txt"), LIMIT).unwrap(), None);
        assert_eq!(sandbox.list(&rel("a")).unwrap(), None);
        sandbox.replace(&rel("a/b/c.txt"), b"one").unwrap();
        sandbox.replace(&rel("a/b/c.txt"), "\u{FEFF}zwei".as_bytes()).unwrap();
        sandbox.append(&rel("a/b/c.txt"), b" three").unwrap();
        assert_eq!(
            sandbox.read_text(&rel("a/b/c.txt"), LIMIT).unwrap().as_deref(),
            Some("zwei three")
        );
        sandbox.append(&rel("log"), b"x").unwrap();
        assert!(matches!(
            sandbox.create_new(&rel("log"), b""),
            Err(FsError::Exists { .. })
        ));
        sandbox.create_new(&rel("new"), b"n").unwrap();
        sandbox.create_dir_all(&rel("a/d/e")).unwrap();
        assert!(matches!(
            sandbox.rename(&rel("new"), &rel("log")),
            Err(FsError::Exists { .. })
        ));
        assert!(matches!(
            sandbox.rename(&rel("nothing"), &rel("x")),
            Err(FsError::Missing { .. })
        ));
        sandbox.rename(&rel("new"), &rel("a/moved/new")).unwrap();
        let names: Vec<_> = sandbox
            .list(&rel("a"))
            .unwrap()
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        assert_eq!(names, ["b", "d", "moved"]);
        let names: Vec<_> = sandbox
            .list_root()
            .unwrap()
            .into_iter()
            .map(|entry| (entry.name, entry.kind))
            .collect();
        assert_eq!(
            names,
            [
                ("a".to_owned(), EntryKind::Directory),
                ("log".to_owned(), EntryKind::File)
            ]
        );
        let found = sandbox.metadata(&rel("log")).unwrap().unwrap();
        assert_eq!((found.bytes, found.kind, found.links), (1, EntryKind::File, 1));
        assert!(sandbox.remove_file(&rel("log")).unwrap() && !sandbox.remove_file(&rel("log")).unwrap());
        assert!(!sandbox.exists(&rel("log")).unwrap());
        // A file on the way: nothing is there to read, nothing can be written.
        assert_eq!(sandbox.read(&rel("a/b/c.txt/x"), LIMIT).unwrap(), None);
        assert!(!sandbox.exists(&rel("a/b/c.txt/x/y")).unwrap());
        assert!(
            obstacle(sandbox.replace(&rel("a/b/c.txt/x"), b"").unwrap_err()).contains("`a/b/c.txt` is not a directory")
        );
        assert!(matches!(
            sandbox.read(&rel("a/b/c.txt"), 3),
            Err(FsError::TooLarge {
                bytes: 13,
                limit: 3,
                ..
            })
        ));
        fs::write(dir.path().join("bin"), b"ab\xff").unwrap();
        assert!(matches!(
            sandbox.read_text(&rel("bin"), 9),
            Err(FsError::NotText { valid_up_to: 2, .. })
        ));
        assert_eq!(
            fs::metadata(dir.path().join("a/b/c.txt")).unwrap().mode() & 0o7133,
            0,
            "no more than 0644"
        );
    }
}

#[test]
fn synced_writes_work_alike() {
    let dir = TempDir::new().unwrap();
    let sandbox = sandbox_at(dir.path(), Resolution::Automatic, &["**"]).with_durability(Durability::Synced);
    sandbox.replace(&rel("a/b"), b"1").unwrap();
    sandbox.append(&rel("a/c"), b"2").unwrap();
    sandbox.rename(&rel("a/b"), &rel("d/e")).unwrap();
    assert!(sandbox.remove_file(&rel("a/c")).unwrap());
    assert_eq!(fs::read(dir.path().join("d/e")).unwrap(), b"1");
}

#[test]
fn permission_decides_before_the_disk_is_touched() {
    let dir = TempDir::new().unwrap();
    let sandbox = sandbox_at(dir.path(), Resolution::Automatic, &["prd/**", "units/*/test/**"]).with_effects(
        patterns(&["docs/**"]),
        patterns(&["prd/*.html", "units/**", "sdd/**"]),
        "specs/tools/docs/write_chapter.yaml",
    );
    sandbox.replace(&rel("prd/a.html"), b"").unwrap();
    assert_eq!(
        sandbox.read(&rel("prd/a.html"), 9).unwrap().as_deref(),
        Some(&b""[..]),
        "what it writes it may read"
    );
    assert_eq!(sandbox.read(&rel("docs/a"), 9).unwrap(), None);
    assert!(matches!(
        sandbox.read(&rel("other/a"), 9),
        Err(FsError::Undeclared { .. })
    ));
    assert!(matches!(sandbox.list(&rel("other")), Err(FsError::Undeclared { .. })));
    let error = sandbox.read(&rel(".git/config"), 9).unwrap_err();
    assert_eq!(
        ToolError::from(error).to_string(),
        "Sandbox violation:pm tried to read .git/config"
    );
    let error = sandbox.replace(&rel("sdd/a.html"), b"").unwrap_err();
    assert_eq!(
        ToolError::from(error).to_string(),
        "Sandbox violation:pm tried to write sdd/a.html"
    );
    let error = sandbox.append(&rel("prd/a/b.html"), b"").unwrap_err();
    assert!(
        error.to_string().contains("specs/tools/docs/write_chapter.yaml"),
        "{error}"
    );
    assert!(matches!(ToolError::from(error), ToolError::Internal(_)));
    for done in [
        sandbox.rename(&rel("prd/a.html"), &rel("x")),
        sandbox.rename(&rel("x"), &rel("prd/a.html")),
        sandbox.create_new(&rel("x"), b""),
        sandbox.remove_file(&rel("x")).map(drop),
        sandbox.create_dir_all(&rel("x")),
        sandbox.create_dir_all(&rel("units/u/src")),
    ] {
        assert!(cause(done.unwrap_err()).contains("this call may write only: prd/**, units/*/test/**"));
    }
    sandbox.create_dir_all(&rel("units/u")).unwrap();
    sandbox.create_dir_all(&rel("units/u/test/deep")).unwrap();
}

#[test]
fn a_tool_error_says_on_which_ground_a_path_is_refused() {
    let dir = TempDir::new().unwrap();
    let sandbox = sandbox_at(dir.path(), Resolution::Automatic, &["prd/**"]);
    symlink("/tmp", dir.path().join("prd")).unwrap();
    let ground = |error: FsError| match ToolError::from(error) {
        ToolError::Sandbox { ground, cause, .. } => (ground, cause.unwrap()),
        other => panic!("{other}"),
    };
    let (first, text) = ground(sandbox.replace(&rel("prd/a"), b"").unwrap_err());
    assert_eq!(first, Ground::Obstacle);
    assert!(text.contains("a person must put the real"), "{text}");
    let (second, _) = ground(sandbox.replace(&rel("sdd/a"), b"").unwrap_err());
    assert_eq!(second, Ground::Permission);
}

#[test]
fn secrets_and_version_control_are_not_read() {
    let (dir, sandbox) = fresh(Resolution::Automatic);
    for path in [
        ".git/config",
        "a/.git/HEAD",
        ".GIT/config",
        ".ssh/known_hosts",
        "k/id_rsa",
        "tls/server.PEM",
        ".aws/credentials",
    ] {
        let file = dir.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "secret").unwrap();
        assert!(
            cause(sandbox.read(&rel(path), LIMIT).unwrap_err()).contains("reading it is refused"),
            "{path}"
        );
        assert!(sandbox.exists(&rel(path)).is_err(), "{path}");
    }
    assert!(
        sandbox.list(&rel(".git")).is_err()
            && sandbox.list(&rel("a/.git/refs")).is_err()
            && sandbox.list(&rel(".ssh")).is_err()
    );
    assert!(sandbox.list(&rel("a")).is_ok() && sandbox.check_read(&rel("k/id_rsa.pub")).is_ok());
    let narrow = sandbox.with_read(patterns(&["prd/**"]), Vec::new());
    assert!(
        narrow.list(&rel("prd")).is_ok() && narrow.list(&rel("sdd")).is_err() && narrow.read(&rel("x"), 1).is_err()
    );
}

#[test]
fn links_are_named_and_never_followed() {
    for resolution in BOTH {
        let (dir, sandbox) = fresh(resolution);
        fs::create_dir(dir.path().join("real")).unwrap();
        fs::write(dir.path().join("real/f"), "inside").unwrap();
        symlink("real", dir.path().join("way")).unwrap();
        symlink("real/f", dir.path().join("leaf")).unwrap();
        symlink("nowhere", dir.path().join("dangling")).unwrap();
        for (path, link) in [
            ("way/f", "way"),
            ("leaf", "leaf"),
            ("dangling", "dangling"),
            ("way/new/x", "way"),
        ] {
            let path = rel(path);
            for done in [
                sandbox.read(&path, LIMIT).map(drop),
                sandbox.replace(&path, b""),
                sandbox.append(&path, b""),
                sandbox.create_new(&path, b""),
                sandbox.remove_file(&path).map(drop),
                sandbox.rename(&path, &rel("other")),
                sandbox.rename(&rel("real/f"), &path),
                sandbox.create_dir_all(&path.join("d").unwrap()),
                sandbox.list(&path).map(drop),
            ] {
                let cause = obstacle(done.unwrap_err());
                assert!(
                    cause.contains(&format!("`{link}` is a symbolic link")),
                    "{path} {resolution:?}: {cause}"
                );
            }
        }
        // Seen, not followed.
        assert_eq!(
            sandbox.metadata(&rel("leaf")).unwrap().unwrap().kind,
            EntryKind::Symlink
        );
        assert_eq!(fs::read_dir(dir.path().join("real")).unwrap().count(), 1);
    }
}

#[test]
fn what_is_no_plain_file_is_refused_and_never_waited_for() {
    for resolution in BOTH {
        let (dir, sandbox) = fresh(resolution);
        fs::create_dir(dir.path().join("dir")).unwrap();
        assert!(
            Command::new("mkfifo")
                .arg(dir.path().join("pipe"))
                .status()
                .unwrap()
                .success()
        );
        for path in ["dir", "pipe"] {
            let path = rel(path);
            for done in [
                sandbox.read(&path, LIMIT).map(drop),
                sandbox.replace(&path, b""),
                sandbox.append(&path, b""),
                sandbox.create_new(&path, b""),
                sandbox.remove_file(&path).map(drop),
                sandbox.rename(&path, &rel("other")),
            ] {
                let cause = obstacle(done.unwrap_err());
                assert!(cause.contains("not a regular file"), "{path}: {cause}");
            }
        }
        assert!(
            fs::symlink_metadata(dir.path().join("pipe"))
                .unwrap()
                .file_type()
                .is_fifo()
        );
    }
}

#[test]
fn a_hard_link_is_replaced_and_never_appended_to() {
    for resolution in BOTH {
        let base = TempDir::new().unwrap();
        let project = base.path().join("project");
        fs::create_dir(&project).unwrap();
        fs::write(base.path().join("outside"), "outside").unwrap();
        fs::hard_link(base.path().join("outside"), project.join("hard")).unwrap();
        let sandbox = sandbox_at(&project, resolution, &["**"]);
        assert!(obstacle(sandbox.append(&rel("hard"), b"x").unwrap_err()).contains("2 names"));
        sandbox.replace(&rel("hard"), b"mine").unwrap();
        sandbox.append(&rel("hard"), b"!").unwrap();
        assert_eq!(fs::read(project.join("hard")).unwrap(), b"mine!");
        assert_eq!(fs::read(base.path().join("outside")).unwrap(), b"outside");
    }
}

#[test]
fn a_twin_is_refused_with_the_spelling_that_exists() {
    for resolution in BOTH {
        let (dir, sandbox) = fresh(resolution);
        fs::create_dir(dir.path().join("Docs")).unwrap();
        fs::write(dir.path().join("ÄÖ.md"), "").unwrap();
        fs::write(dir.path().join("cafe\u{301}"), "").unwrap();
        for (path, existing) in [
            ("docs/x", "Docs"),
            ("äö.md", "ÄÖ.md"),
            ("caf\u{e9}", "cafe\u{301}"),
            ("Caf\u{e9}", "cafe\u{301}"),
        ] {
            let path = rel(path);
            for done in [
                sandbox.replace(&path, b""),
                sandbox.append(&path, b""),
                sandbox.create_new(&path, b""),
            ] {
                assert!(
                    obstacle(done.unwrap_err()).contains(&format!("`{existing}` exists")),
                    "{path}"
                );
            }
        }
        assert!(sandbox.create_dir_all(&rel("DOCS")).is_err());
        sandbox.replace(&rel("Docs/x"), b"").unwrap();
        assert_eq!(
            sandbox.read(&rel("docs/x"), LIMIT).unwrap(),
            None,
            "reading stays exact"
        );
    }
}

#[test]
fn what_a_crash_left_behind_is_removed() {
    let (dir, sandbox) = fresh(Resolution::Automatic);
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let (ended, me) = (ended.id(), std::process::id());
    let state = dir.path().join("agent-state");
    fs::create_dir(&state).unwrap();
    let plant = |name: String, minutes: u64| {
        let file = fs::File::create(state.join(&name)).unwrap();
        let then = std::time::SystemTime::now() - std::time::Duration::from_mins(minutes);
        file.set_modified(then).unwrap();
        name
    };
    let gone = [
        plant(format!(".devloop-tmp-{ended}-a"), 2),
        plant(format!(".devloop-tmp-{me}-days"), 25 * 60),
    ];
    let mut kept = vec![
        plant(format!(".devloop-tmp-{ended}-young"), 0),
        plant(format!(".devloop-tmp-{me}-slow"), 2),
        plant(".devloop-tmp-notes".to_owned(), 25 * 60),
        plant(".devloop-tmp-x-y".to_owned(), 25 * 60),
        plant(format!("x.devloop-tmp-{ended}-a"), 25 * 60),
        "new".to_owned(),
    ];
    let directory = format!(".devloop-tmp-{ended}-dir");
    fs::create_dir(state.join(&directory)).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(48);
    let opened = fs::File::open(state.join(&directory)).unwrap();
    opened.set_modified(long_ago).unwrap();
    kept.push(directory);
    kept.sort();
    let names = || {
        let entries = fs::read_dir(&state).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    sandbox.replace(&rel("agent-state/new"), b"").unwrap();
    assert_eq!(names(), kept, "{gone:?} had to go");
    // Looked for once, so that each further write costs nothing.
    let late = plant(format!(".devloop-tmp-{ended}-late"), 2);
    sandbox.replace(&rel("agent-state/new"), b"").unwrap();
    assert!(names().contains(&late));
    let next = sandbox_at(dir.path(), Resolution::Automatic, &["**"]);
    next.replace(&rel("agent-state/new"), b"").unwrap();
    assert_eq!(names(), kept);
}

/// Runs in a mount namespace of its own, started by the test below.
#[test]
#[ignore = "started by the next test on a tiny file system"]
fn on_a_full_disk() {
    let Some(dir) = std::env::var_os("DEVLOOP_TEST_FULL_DISK") else {
        return;
    };
    let sandbox = sandbox_at(Path::new(&dir), Resolution::Automatic, &["**"]);
    sandbox.append(&rel("log"), b"first\n").unwrap();
    sandbox.replace(&rel("state"), b"old").unwrap();
    let large = vec![b'x'; 200_000];
    for error in [
        sandbox.append(&rel("log"), &large).unwrap_err(),
        sandbox.replace(&rel("state"), &large).unwrap_err(),
        sandbox.create_new(&rel("new"), &large).unwrap_err(),
    ] {
        assert!(matches!(error, FsError::Io { .. }), "{error:?}");
    }
    assert_eq!(sandbox.read(&rel("log"), LIMIT).unwrap().unwrap(), b"first\n");
    assert_eq!(sandbox.read(&rel("state"), LIMIT).unwrap().unwrap(), b"old");
    let names: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 2, "no temporary file stays: {names:?}");
    sandbox.append(&rel("log"), b"second\n").unwrap();
}

#[test]
fn a_full_disk_leaves_every_file_as_it_was() {
    let dir = TempDir::new().unwrap();
    let script = "mount -t tmpfs -o size=128k none \"$DEVLOOP_TEST_FULL_DISK\" || exit 77; exec \"$0\" --ignored --exact sandbox::tests::on_a_full_disk";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .env("DEVLOOP_TEST_FULL_DISK", dir.path())
        .output();
    let Ok(output) = output else {
        return skip("there is no `unshare`");
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || text.contains("unshare:") {
        return skip("a mount namespace is not allowed");
    }
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[expect(clippy::print_stderr, reason = "a skipped test has to be seen")]
fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
}

/// A small generator of random numbers: equal runs from equal seeds.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// A project full of traps, beside a directory that nothing may reach.
struct Trap {
    base: TempDir,
    before: BTreeMap<PathBuf, Vec<u8>>,
}

impl Trap {
    fn plant() -> Self {
        let base = quick_dir();
        let outside = base.path().join("outside");
        let project = base.path().join("project");
        for dir in ["deep/er", "dir"] {
            fs::create_dir_all(outside.join(dir)).unwrap();
            fs::create_dir_all(project.join(dir)).unwrap();
        }
        for file in ["secret.txt", "dir/file.txt", "deep/er/file.txt", "only-outside"] {
            fs::write(outside.join(file), "SECRET").unwrap();
        }
        // Its content cannot be kept from being read, only from being changed.
        fs::write(outside.join("hard.txt"), "shared").unwrap();
        fs::hard_link(outside.join("hard.txt"), project.join("hard.txt")).unwrap();
        fs::hard_link(outside.join("hard.txt"), project.join("dir/hard.txt")).unwrap();
        for file in ["file.txt", "dir/file.txt", "trap-readme.md", "cafe\u{301}"] {
            fs::write(project.join(file), "inside").unwrap();
        }
        for parent in ["", "dir", "deep/er"] {
            let at = |name: &str| project.join(parent).join(name);
            symlink(&outside, at("to_dir")).unwrap();
            symlink(outside.join("secret.txt"), at("to_file")).unwrap();
            symlink(outside.join("not-there"), at("dangling")).unwrap();
            symlink("loop_b", at("loop_a")).unwrap();
            symlink("loop_a", at("loop_b")).unwrap();
            symlink("..", at("up")).unwrap();
            symlink("/proc/self/root", at("root")).unwrap();
            symlink("/proc/self/cwd", at("cwd")).unwrap();
            symlink(".", at("here")).unwrap();
            assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        }
        symlink("../outside", project.join("relative")).unwrap();
        let mut trap = Self {
            base,
            before: BTreeMap::new(),
        };
        trap.before = trap.outside();
        trap
    }

    /// Everything beside the project, with content.
    fn outside(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn collect(dir: &Path, skip: &str, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.file_name().unwrap() == skip {
                    continue;
                }
                if path.is_dir() {
                    found.insert(path.clone(), Vec::new());
                    collect(&path, "", found);
                } else {
                    found.insert(path.clone(), fs::read(&path).unwrap());
                }
            }
        }
        let mut found = BTreeMap::new();
        collect(self.base.path(), "project", &mut found);
        found
    }
}

/// Names that exist in no real place: were the sandbox broken, `root` and `cwd` would lead to the machine itself.
const NASTY: &[&str] = &[
    "..",
    ".",
    "",
    "to_dir",
    "to_file",
    "dangling",
    "loop_a",
    "up",
    "root",
    "cwd",
    "here",
    "relative",
    "pipe",
    "dir",
    "deep",
    "er",
    "file.txt",
    "hard.txt",
    "secret.txt",
    "outside",
    "project",
    "trap-readme.md",
    "TRAP-README.MD",
    "Dir",
    "caf\u{e9}",
    "cafe\u{301}",
    "x.",
    "x ",
    "nul",
    "a\0b",
    "a\u{202E}b",
    "a\\..\\b",
    "~",
    "tmp",
    "proc",
    "self",
    "trap-new",
    "%2e%2e",
    "...",
    "\n",
];

fn nasty_path(random: &mut Random, base: &Path) -> String {
    let base = base.display();
    match random.below(40) {
        0 => format!("{base}/outside/secret.txt"),
        1 => format!("../outside/{}", random.pick(NASTY)),
        2 => format!("dir/../../outside/{}", random.pick(NASTY)),
        3 => format!("root{base}/outside/secret.txt"),
        4 => format!("dir/{}", "x".repeat(250 + random.below(12))),
        // Rarely, as it makes five hundred directories when it is short enough.
        5 if random.below(10) == 0 => "y/".repeat(500 + random.below(20)) + "z",
        6 => format!("/proc/self/root{base}/outside/new"),
        _ => {
            let pieces: Vec<_> = (0..=random.below(5)).map(|_| random.pick(NASTY)).collect();
            pieces.join("/")
        }
    }
}

#[test]
fn no_hostile_path_reaches_outside() {
    let count = if std::env::var_os("DEVLOOP_LONG").is_some() {
        100_000
    } else {
        3_000
    };
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let (mut refused, mut written, mut denied) = (0, 0, 0);
    let mut done = 0;
    while done < count {
        let trap = Trap::plant();
        let project = trap.base.path().join("project");
        let sandboxes = BOTH.map(|resolution| sandbox_at(&project, resolution, &["**"]));
        for _ in 0..100 {
            done += 1;
            let text = nasty_path(&mut random, trap.base.path());
            let parsed = RelPath::parse(&text);
            for sandbox in &sandboxes {
                let source = rel(&format!("source-{done}"));
                let moved = rel(&format!("moved/{done}"));
                fs::write(project.join(source.as_str()), "moved").unwrap();
                let (read, listed, results);
                if let Ok(path) = &parsed {
                    read = sandbox.read(path, LIMIT);
                    listed = sandbox.list(path);
                    let _ = sandbox.metadata(path);
                    results = [
                        sandbox.append(path, b"appended"),
                        sandbox.create_new(path, b"created"),
                        sandbox.replace(path, b"replaced"),
                        sandbox.create_dir_all(path),
                        sandbox.rename(path, &moved),
                        sandbox.rename(&source, path),
                        sandbox.remove_file(path).map(drop),
                    ];
                } else {
                    // Tried nevertheless, without the checks of paths and patterns: the last line holds alone.
                    refused += 1;
                    let (path, door, cached) = (&RelPath::unchecked(&text), sandbox.project(), Durability::Cached);
                    read = door.read(path, LIMIT);
                    listed = door.list(Some(path));
                    let _ = door.metadata(path);
                    results = [
                        door.append(path, b"appended", cached),
                        door.create_new(path, b"created", cached),
                        door.replace(path, b"replaced", cached),
                        door.create_dir_all(path, cached),
                        door.rename(path, &moved, cached),
                        door.rename(&source, path, cached),
                        door.remove_file(path, cached).map(drop),
                    ];
                }
                if let Ok(Some(bytes)) = read {
                    assert!(!String::from_utf8_lossy(&bytes).contains("SECRET"), "{text:?} was read");
                }
                if let Ok(Some(entries)) = listed {
                    assert!(
                        entries.iter().all(|entry| entry.name != "only-outside"),
                        "{text:?} was listed"
                    );
                }
                for result in results {
                    match result {
                        Ok(()) => written += 1,
                        Err(FsError::Denied { .. } | FsError::Obstructed { .. }) => denied += 1,
                        Err(_) => {}
                    }
                }
                assert!(trap.outside() == trap.before, "{text:?} changed something outside");
            }
        }
    }
    assert!(
        refused > count / 4 && written > count / 4 && denied > count,
        "{refused} {written} {denied}"
    );
}

#[test]
fn no_benign_path_is_refused() {
    const PIECES: &[&str] = &[
        "a",
        "Unit 7",
        "文档",
        "第一章",
        "日本語テスト",
        "한국어",
        "caf\u{e9}",
        "naïve",
        "Ünïcödé",
        "عربي",
        "हिन्दी",
        "👩‍💻",
        "a:b",
        "what?",
        "star*",
        "\"quoted\"",
        "<tag>",
        "pipe|pipe",
        ".hidden",
        "..dots",
        "a.b.c",
        "con-text",
        "nullable",
        "com10",
        "~tilde",
        "$HOME",
        "%2F",
        "{x}",
        "[y]",
        "#",
        "-rf",
        "'",
        "`",
        "!",
        "&",
        "=",
        "@",
        "🇨🇳",
        " lead",
    ];
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for resolution in BOTH {
        let (_dir, sandbox) = fresh(resolution);
        for number in 0..1_000 {
            let mut pieces: Vec<String> = (0..random.below(8)).map(|_| random.pick(PIECES).to_owned()).collect();
            pieces.push(format!(
                "{} {number}{}",
                random.pick(PIECES),
                random.pick(&["", ".md", ".测试", ".tar.gz"])
            ));
            let path = rel(&pieces.join("/"));
            let content = path.as_str().repeat(1 + number % 5);
            let written = match number % 3 {
                0 => sandbox.replace(&path, content.as_bytes()),
                1 => sandbox.create_new(&path, content.as_bytes()),
                _ => sandbox.append(&path, content.as_bytes()),
            };
            written.unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(
                sandbox.read_text(&path, LIMIT).unwrap().as_deref(),
                Some(&content[..]),
                "{path}"
            );
        }
    }
}

#[test]
fn an_ancestor_that_turns_into_a_link_leads_nowhere() {
    for resolution in BOTH {
        let base = quick_dir();
        let (project, outside) = (base.path().join("project"), base.path().join("outside"));
        fs::create_dir_all(project.join("real")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "SECRET").unwrap();
        symlink(&outside, project.join("link")).unwrap();
        fs::rename(project.join("real"), project.join("a")).unwrap();
        let sandbox = sandbox_at(&project, resolution, &["**"]);
        let stop = AtomicBool::new(false);
        let (mut landed, mut denied) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let dir = fs::File::open(&project).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let exchange = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(&dir, "a", &dir, "link", exchange).unwrap();
                }
            });
            for number in 0..6_000 {
                let path = rel(&format!("a/{}", number % 7));
                let done = match number % 3 {
                    0 => sandbox.replace(&path, b"x"),
                    1 => sandbox.append(&path, b"x"),
                    _ => sandbox.remove_file(&path).map(drop),
                };
                match done {
                    Ok(()) => landed += 1,
                    Err(FsError::Obstructed { .. }) => denied += 1,
                    Err(error) => panic!("{error}"),
                }
                if let Ok(found) = sandbox.read(&rel("a/secret"), LIMIT) {
                    assert_eq!(found, None);
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        let left: Vec<_> = fs::read_dir(&outside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["secret"]);
        assert!(landed > 0 && denied > 0, "both states were met: {landed}, {denied}");
    }
}
