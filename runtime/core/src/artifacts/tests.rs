//! The store of artifacts in one process; `tests/artifacts.rs` has several.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use proptest::prelude::*;
use tempfile::TempDir;

use super::{Artifact, ArtifactError, ArtifactStore, LARGEST, Limits, NewArtifact, namespace};
use crate::digest::sha256_hex;
use crate::sandbox::ProjectDir;

struct Fixture {
    root: TempDir,
    project: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            project: tempfile::tempdir().unwrap(),
        }
    }

    fn project(&self) -> ProjectDir {
        ProjectDir::open(self.project.path()).unwrap()
    }

    fn store(&self) -> ArtifactStore {
        ArtifactStore::new(self.root.path().join("a/b"), &self.project(), "session-1")
    }
}

fn text(bytes: &[u8]) -> NewArtifact<'_> {
    NewArtifact {
        kind: "text",
        bytes,
        mime: Some("text/plain"),
        source: None,
    }
}

fn put(store: &ArtifactStore, bytes: &[u8]) -> Result<Artifact, ArtifactError> {
    store.write(&text(bytes))
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_artifact_is_a_private_file_named_by_its_content() {
    let fixture = Fixture::new();
    let store = fixture.store();
    assert!(
        !store.path().exists(),
        "nothing is made before there is something to keep"
    );
    let kept = put(&store, b"abc").unwrap();
    assert_eq!((kept.id.as_str(), kept.size), (&*sha256_hex("abc"), 3));
    assert_eq!((kept.kind.as_str(), kept.mime.as_deref()), ("text", Some("text/plain")));
    let place = fixture.root.path().join("a/b");
    let place = place.join(namespace(&fixture.project())).join(sha256_hex("session-1"));
    assert_eq!(kept.path, place.join(&kept.id));
    assert_eq!(fs::read(&kept.path).unwrap(), b"abc");
    assert_eq!(kept.path.metadata().unwrap().mode() & 0o7777, 0o600);
    for dir in kept.path.ancestors().skip(1).take(4) {
        assert_eq!(dir.metadata().unwrap().mode() & 0o7777, 0o700, "{}", dir.display());
    }
    assert_eq!(store.read(&kept.id).unwrap().unwrap(), b"abc");
    assert_eq!(names(&place), [kept.id.as_str()], "no temporary file stays");
    assert_eq!(put(&store, b"").unwrap().size, 0);
}

#[test]
fn the_same_content_is_one_file_and_is_not_written_again() {
    let fixture = Fixture::new();
    let first = put(&fixture.store(), b"abc").unwrap();
    let inode = first.path.metadata().unwrap().ino();
    let other = NewArtifact {
        kind: "log",
        ..text(b"abc")
    };
    let second = fixture.store().write(&other).unwrap();
    assert_eq!((&second.id, &*second.kind), (&first.id, "log"));
    assert_eq!(second.path.metadata().unwrap().ino(), inode);
}

#[test]
fn sessions_and_projects_do_not_see_each_other() {
    let (fixture, other) = (Fixture::new(), tempfile::tempdir().unwrap());
    let id = put(&fixture.store(), b"abc").unwrap().id;
    let root = fixture.root.path().join("a/b");
    let session = ArtifactStore::new(&root, &fixture.project(), "session-2");
    assert_eq!(session.read(&id).unwrap(), None);
    let project = ArtifactStore::new(&root, &ProjectDir::open(other.path()).unwrap(), "session-1");
    assert_eq!(project.read(&id).unwrap(), None);
    // A session's name is no path.
    let evil = ArtifactStore::new(&root, &fixture.project(), "../../../x");
    assert_eq!(
        put(&evil, b"x").unwrap().path.parent().unwrap().parent(),
        fixture.store().path().parent()
    );
}

#[test]
fn what_is_no_id_is_refused_and_what_is_not_there_is_none() {
    let fixture = Fixture::new();
    let store = fixture.store();
    assert_eq!(store.read(&sha256_hex("abc")).unwrap(), None, "no directory at all");
    put(&store, b"x").unwrap();
    assert_eq!(store.read(&sha256_hex("abc")).unwrap(), None);
    for id in [
        "",
        "..",
        "../../etc/passwd",
        &"A".repeat(64),
        &"a".repeat(63),
        &format!("{}/", "a".repeat(63)),
    ] {
        let error = store.read(id).unwrap_err();
        assert!(matches!(error, ArtifactError::NoId(_)), "{error}");
    }
}

#[test]
fn limits_are_asked_before_anything_is_written() {
    let fixture = Fixture::new();
    let limits = Limits {
        file_bytes: 10,
        session_bytes: 25,
        session_files: 3,
    };
    let store = fixture.store().with_limits(limits);
    let error = put(&store, &[b'x'; 11]).unwrap_err();
    assert!(
        matches!(error, ArtifactError::TooLarge { bytes: 11, limit: 10 }),
        "{error}"
    );
    assert!(!store.path().exists());
    put(&store, &[b'a'; 10]).unwrap();
    put(&store, &[b'b'; 10]).unwrap();
    let error = put(&store, &[b'c'; 6]).unwrap_err();
    assert!(
        matches!(
            error,
            ArtifactError::Full {
                what: "bytes",
                wanted: 26,
                limit: 25
            }
        ),
        "{error}"
    );
    put(&store, &[b'c'; 5]).unwrap();
    let error = put(&store, b"").unwrap_err();
    assert!(
        matches!(
            error,
            ArtifactError::Full {
                what: "files",
                wanted: 4,
                limit: 3
            }
        ),
        "{error}"
    );
    assert_eq!(names(&store.path()).len(), 3);
    // What is there already needs no room, and another store of the session counts the same.
    put(&store, &[b'a'; 10]).unwrap();
    let error = put(&fixture.store().with_limits(limits), b"d").unwrap_err();
    assert!(matches!(error, ArtifactError::Full { .. }), "{error}");
}

#[test]
fn a_file_that_is_not_what_was_written_is_an_error_and_never_a_hit() {
    let fixture = Fixture::new();
    let store = fixture.store();
    let path = put(&store, b"abc").unwrap().path;
    let id = sha256_hex("abc");
    let drifted = |why: &str| {
        for error in [put(&store, b"abc").unwrap_err(), store.read(&id).unwrap_err()] {
            assert!(matches!(error, ArtifactError::Drifted { .. }), "{error}");
            assert!(error.to_string().contains(why), "{error}");
        }
    };
    fs::write(&path, "abd").unwrap();
    drifted("the SHA-256 of its 3 bytes is");
    fs::write(&path, "abcd").unwrap();
    drifted("its 4 bytes");
    fs::write(&path, "abc").unwrap();
    chmod(&path, 0o644);
    drifted("its mode is 0644, not 0600");
    chmod(&path, 0o600);
    assert_eq!(store.read(&id).unwrap().unwrap(), b"abc");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    drifted("no regular file");
    fs::remove_dir(&path).unwrap();
    let outside = fixture.root.path().join("outside");
    fs::write(&outside, "abc").unwrap();
    chmod(&outside, 0o600);
    symlink(&outside, &path).unwrap();
    drifted("a symbolic link");
    fs::remove_file(&path).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    drifted("no regular file");
    fs::remove_file(&path).unwrap();
    put(&store, b"abc").unwrap();
    // One of that size is read, in vain; of a larger one that is no sparse file nothing but its size is looked at.
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(LARGEST + 1).unwrap();
    drifted("268435457 bytes, and 268435456 is the limit");
    // A limit that was lowered since takes nothing back.
    fs::remove_file(&path).unwrap();
    put(&store, b"abc").unwrap();
    let limit = Limits {
        file_bytes: 2,
        ..Limits::default()
    };
    assert_eq!(fixture.store().with_limits(limit).read(&id).unwrap().unwrap(), b"abc");
}

#[test]
fn a_directory_that_is_a_link_or_open_to_others_is_refused() {
    for depth in 0..3 {
        let fixture = Fixture::new();
        let store = fixture.store();
        let path = put(&store, b"abc").unwrap().path;
        let dir = path.ancestors().nth(3 - depth).unwrap();
        let refused = |why: &str| {
            let errors = [
                put(&store, b"abc").unwrap_err(),
                store.read(&sha256_hex("abc")).unwrap_err(),
                store.remove_all().unwrap_err(),
            ];
            for error in errors {
                assert!(matches!(error, ArtifactError::Obstructed { .. }), "{error}");
                assert!(error.to_string().contains(why), "{error}");
                assert!(error.to_string().contains(dir.to_str().unwrap()), "{error}");
            }
        };
        for mode in [0o755, 0o770, 0o701] {
            chmod(dir, mode);
            refused("artifacts are private; `chmod 700` it");
        }
        chmod(dir, 0o700);
        let elsewhere = fixture.root.path().join("elsewhere");
        fs::rename(dir, &elsewhere).unwrap();
        symlink(&elsewhere, dir).unwrap();
        refused("a symbolic link");
        fs::remove_file(dir).unwrap();
        fs::write(dir, "").unwrap();
        refused("no directory");
        assert!(elsewhere.exists());
    }
}

#[test]
fn a_first_look_that_failed_is_not_remembered() {
    let fixture = Fixture::new();
    let store = fixture.store();
    let path = put(&store, b"abc").unwrap().path;
    let stranger = path.with_file_name("notes.txt");
    fs::write(&stranger, "x").unwrap();
    let error = put(&store, b"more").unwrap_err();
    assert!(
        error.to_string().contains("notes.txt: what lies there is no artifact"),
        "{error}"
    );
    assert_eq!(names(&store.path()).len(), 2, "nothing was written");
    fs::remove_file(&stranger).unwrap();
    put(&store, b"more").unwrap();
}

#[test]
fn all_of_one_session_goes_and_nothing_else() {
    let fixture = Fixture::new();
    let store = fixture.store();
    assert_eq!(store.remove_all().unwrap(), 0);
    put(&store, b"a").unwrap();
    put(&store, b"b").unwrap();
    let other = ArtifactStore::new(fixture.root.path().join("a/b"), &fixture.project(), "session-2");
    let kept = put(&other, b"a").unwrap();
    // A link is removed, not what it leads to.
    let outside = fixture.root.path().join("outside");
    fs::write(&outside, "x").unwrap();
    symlink(&outside, store.path().join("link")).unwrap();
    assert_eq!(store.remove_all().unwrap(), 2);
    assert!(!store.path().exists() && outside.exists());
    assert_eq!(other.read(&kept.id).unwrap().unwrap(), b"a");
    put(&store, b"a").unwrap();
    fs::create_dir(store.path().join("dir")).unwrap();
    assert!(matches!(
        store.remove_all().unwrap_err(),
        ArtifactError::Obstructed { .. }
    ));
}

#[test]
fn threads_that_write_the_same_make_one_file_and_never_exceed_a_limit() {
    let fixture = Fixture::new();
    let limits = Limits {
        session_files: 5,
        ..Limits::default()
    };
    let barrier = Barrier::new(8);
    let kept: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let (barrier, store) = (&barrier, fixture.store().with_limits(limits));
                scope.spawn(move || {
                    barrier.wait();
                    let same = put(&store, &vec![b'x'; 100_000]);
                    let own = put(&store, format!("own {n}").as_bytes());
                    (same.is_ok(), usize::from(own.is_ok()))
                })
            })
            .collect();
        let done = threads.into_iter().map(|thread| thread.join().unwrap());
        done.map(|(same, own)| {
            assert!(same);
            own
        })
        .sum()
    });
    assert_eq!((kept, names(&fixture.store().path()).len()), (4, 5));
}

#[test]
fn what_a_crash_left_is_removed_and_does_not_count() {
    let fixture = Fixture::new();
    let limits = Limits {
        session_files: 2,
        ..Limits::default()
    };
    let store = fixture.store().with_limits(limits);
    put(&store, b"a").unwrap();
    let prefix = crate::sandbox::TEMPORARY_PREFIX;
    let (old, new) = (format!("{prefix}999999999-old"), format!("{prefix}999999999-new"));
    fs::write(store.path().join(&old), "half").unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(100_000);
    fs::File::options()
        .write(true)
        .open(store.path().join(&old))
        .and_then(|file| file.set_modified(long_ago))
        .unwrap();
    fs::write(store.path().join(&new), "half").unwrap();
    put(&store, b"b").unwrap();
    let left = names(&store.path());
    assert!(!left.contains(&old) && left.contains(&new), "{left:?}");
}

#[derive(Clone, Debug)]
enum Step {
    Write(u8),
    Read(u8),
    /// Somebody changes a file.
    Change(u8),
    /// Somebody removes a file.
    Lose(u8),
    RemoveAll,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let content = 0_u8..6;
    let step = prop_oneof![
        6 => content.clone().prop_map(Step::Write),
        3 => content.clone().prop_map(Step::Read),
        1 => content.clone().prop_map(Step::Change),
        1 => content.prop_map(Step::Lose),
        1 => Just(Step::RemoveAll),
    ];
    prop::collection::vec(step, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("DEVLOOP_LONG").is_some() { 2_000 } else { 48 }))]

    /// Against a map from contents to whether they are as they were written.
    #[test]
    fn the_store_is_a_map_with_limits(steps in steps()) {
        let content = |n: u8| vec![b'a' + n; usize::from(n) + 1];
        let limits = Limits { file_bytes: 5, session_bytes: 9, session_files: 3 };
        let fixture = Fixture::new();
        let store = fixture.store().with_limits(limits);
        let mut model: BTreeMap<u8, bool> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Write(n) => {
                    let bytes = content(n);
                    let used: u64 = model.keys().map(|n| u64::from(*n) + 1).sum();
                    let done = put(&store, &bytes);
                    if bytes.len() as u64 > limits.file_bytes {
                        prop_assert!(matches!(done, Err(ArtifactError::TooLarge { .. })), "{:?}", done);
                    } else if let Some(is_whole) = model.get(&n) {
                        prop_assert_eq!(done.is_ok(), *is_whole);
                    } else if model.len() as u64 == limits.session_files {
                        prop_assert!(matches!(done, Err(ArtifactError::Full { what: "files", .. })), "{:?}", done);
                    } else if used + bytes.len() as u64 > limits.session_bytes {
                        prop_assert!(matches!(done, Err(ArtifactError::Full { what: "bytes", .. })), "{:?}", done);
                    } else {
                        prop_assert_eq!(done.unwrap().id, sha256_hex(&bytes));
                        model.insert(n, true);
                    }
                }
                Step::Read(n) => match (store.read(&sha256_hex(content(n))), model.get(&n)) {
                    (Ok(None), None) | (Err(ArtifactError::Drifted { .. }), Some(false)) => {}
                    (Ok(Some(bytes)), Some(true)) => prop_assert_eq!(bytes, content(n)),
                    other => prop_assert!(false, "{:?}", other),
                },
                Step::Change(n) => {
                    if let Some(is_whole) = model.get_mut(&n) {
                        // As long as before, so that the use stays the same.
                        fs::write(store.path().join(sha256_hex(content(n))), vec![b'!'; usize::from(n) + 1]).unwrap();
                        *is_whole = false;
                    }
                }
                Step::Lose(n) => {
                    if model.remove(&n).is_some() {
                        fs::remove_file(store.path().join(sha256_hex(content(n)))).unwrap();
                    }
                }
                Step::RemoveAll => {
                    prop_assert_eq!(store.remove_all().unwrap(), model.len() as u64);
                    model.clear();
                }
            }
            prop_assert_eq!(names(&store.path()).len(), model.len());
        }
    }
}
