//! Artifacts when several processes are at work, when one is killed, under another user, and on a full disk.
//!
//! A process is an ignored test of this program, started with the place to work in.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use devloop_core::artifacts::{ArtifactError, ArtifactStore, Limits, NewArtifact};
use devloop_core::sandbox::ProjectDir;

const PLACE: &str = "DEVLOOP_TEST_ARTIFACTS";

/// A user that nobody is.
const OTHER: u32 = 65_534;

fn store(place: &Path) -> ArtifactStore {
    let project = ProjectDir::open(&place.join("project")).unwrap();
    ArtifactStore::new(place.join("state/artifacts"), &project, "session-1")
}

fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("project")).unwrap();
    dir
}

fn put(store: &ArtifactStore, bytes: &[u8]) -> Result<String, ArtifactError> {
    let new = NewArtifact {
        kind: "test",
        bytes,
        mime: None,
        source: None,
    };
    store.write(&new).map(|kept| kept.id)
}

/// Where a process works; `None` when a person runs the ignored tests.
fn started() -> Option<PathBuf> {
    std::env::var_os(PLACE).map(PathBuf::from)
}

fn process(mut command: Command, test: &str, place: &Path) -> Command {
    command
        .args(["--ignored", "--exact", "--nocapture", test])
        .env(PLACE, place)
        .stdin(Stdio::null());
    command
}

fn this() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

fn passed(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "started as a process by the others"]
fn writes_many() {
    let Some(place) = started() else { return };
    let limits = Limits {
        session_files: 20,
        ..Limits::default()
    };
    let store = store(&place).with_limits(limits);
    let mut own = 0;
    for n in 0..20 {
        put(&store, format!("shared {}", n % 5).repeat(5_000).as_bytes()).unwrap();
        match put(&store, format!("own {} {n}", std::process::id()).as_bytes()) {
            Ok(_) => own += 1,
            Err(ArtifactError::Full { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(own <= 15);
}

#[test]
fn processes_share_files_and_limits() {
    let place = place();
    // So that the limit cannot keep the shared ones out.
    for n in 0..5 {
        put(&store(place.path()), format!("shared {n}").repeat(5_000).as_bytes()).unwrap();
    }
    let start = |_| {
        let mut command = process(this(), "writes_many", place.path());
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..4).map(start).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let names: Vec<_> = fs::read_dir(store(place.path()).path()).unwrap().collect();
    assert_eq!(names.len(), 20);
    for name in names {
        let id = name.unwrap().file_name().into_string().unwrap();
        assert!(store(place.path()).read(&id).unwrap().is_some());
    }
}

#[test]
#[ignore = "started as a process by the others"]
fn writes_without_end() {
    let Some(place) = started() else { return };
    let store = store(&place);
    for n in 0_u64.. {
        if n % 16 == 0 {
            store.remove_all().unwrap();
        }
        put(&store, &n.to_le_bytes().repeat(200_000)).unwrap();
    }
}

#[test]
fn a_killed_writer_leaves_nothing_that_is_in_the_way() {
    let place = place();
    let rounds = if std::env::var_os("DEVLOOP_LONG").is_some() {
        80
    } else {
        8
    };
    for round in 0..rounds {
        let mut command = process(this(), "writes_without_end", place.path());
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(60 + 23 * (round % 8)));
        child.kill().unwrap();
        child.wait().unwrap();
        let store = store(place.path());
        let after = put(&store, format!("after {round}").as_bytes()).unwrap();
        let mut seen = 0;
        for entry in fs::read_dir(store.path()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.len() == 64 {
                // Whole, as reading it says.
                assert!(store.read(&name).unwrap().is_some());
                seen += 1;
            }
        }
        assert!(seen >= 1 && store.read(&after).unwrap().is_some());
    }
}

#[test]
#[ignore = "started as a process by the others"]
fn meets_files_of_others() {
    let Some(place) = started() else { return };
    assert_eq!(rustix::process::geteuid().as_raw(), OTHER, "modes mean nothing to root");
    let store = store(&place);
    let error = put(&store, b"abc").unwrap_err();
    assert!(
        matches!(error, ArtifactError::Obstructed { .. } | ArtifactError::Io { .. }),
        "{error}"
    );
    assert!(store.read(&"a".repeat(64)).is_err());
    assert!(store.remove_all().is_err());
}

fn as_other(test: &str, dir: &Path) -> Output {
    // The program may lie where that user cannot go.
    let program = dir.join("program");
    // Not copied here: a child that another test starts meanwhile would hold the file open for writing, and what is open
    // for writing cannot be run.
    let copied = Command::new("cp")
        .arg(std::env::current_exe().unwrap())
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"])
        .arg(program);
    process(command, test, dir).output().unwrap()
}

#[test]
fn another_user_gets_nothing_and_what_is_anothers_is_not_taken() {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root, "this test needs to become another user: run it as root");
    let place = place();
    let id = put(&store(place.path()), b"abc").unwrap();
    fs::set_permissions(place.path().join("state"), fs::Permissions::from_mode(0o755)).unwrap();
    passed(&as_other("meets_files_of_others", place.path()));
    // A file that another user owns is none of ours, whatever is in it.
    let file = store(place.path()).path().join(&id);
    assert_eq!(file.metadata().unwrap().uid(), 0);
    chown(&file, Some(OTHER), None).unwrap();
    let error = store(place.path()).read(&id).unwrap_err();
    assert!(
        error.to_string().contains("it belongs to the user 65534, not to 0"),
        "{error}"
    );
    let error = put(&store(place.path()), b"abc").unwrap_err();
    assert!(matches!(error, ArtifactError::Drifted { .. }), "{error}");
    chown(&file, Some(0), None).unwrap();
    for dir in file.ancestors().skip(1).take(3) {
        chown(dir, Some(OTHER), None).unwrap();
        for error in [
            put(&store(place.path()), b"abc").unwrap_err(),
            store(place.path()).read(&id).unwrap_err(),
        ] {
            assert!(matches!(error, ArtifactError::Obstructed { .. }), "{error}");
            assert!(error.to_string().contains("it belongs to the user 65534"), "{error}");
        }
        chown(dir, Some(0), None).unwrap();
    }
    assert!(store(place.path()).read(&id).unwrap().is_some());
}

#[test]
#[ignore = "started as a process by the others"]
fn fills_its_disk() {
    let Some(place) = started() else { return };
    fs::create_dir(place.join("project")).unwrap();
    let store = store(&place);
    let first = put(&store, &vec![b'a'; 600_000]).unwrap();
    let error = put(&store, &vec![b'b'; 600_000]).unwrap_err();
    assert!(matches!(error, ArtifactError::Io { .. }), "{error}");
    assert!(error.to_string().contains("No space left"), "{error}");
    let names: Vec<_> = fs::read_dir(store.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing of it stays");
    assert!(store.read(&first).unwrap().is_some());
    put(&store, &vec![b'c'; 100_000]).unwrap();
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test has to be seen")]
fn a_full_disk_is_told_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=1m none \"${PLACE}\" || exit 77; exec \"$0\" --ignored --exact --nocapture fills_its_disk"
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(PLACE, dir.path())
        .output()
        .unwrap();
    if output.status.code() == Some(77) {
        eprintln!("SKIPPED: a mount namespace is not allowed");
        return;
    }
    passed(&output);
}
