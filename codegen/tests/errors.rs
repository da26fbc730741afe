//! Every error that a spec can have, as data: see `errors/README.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use devloop_codegen::{SpecErrors, load};
use proc_macro2::{TokenStream, TokenTree};

/// File contents by path relative to the specs folder.
type Tree = BTreeMap<String, Vec<u8>>;

const EXPECTED: &str = "== expected\n";

#[test]
fn the_base_has_no_error() {
    let dir = scratch(&base());
    if let Err(errors) = load(dir.path()) {
        panic!("{errors}");
    }
}

#[test]
fn every_case_gives_the_errors_that_it_expects() {
    let mut failures = String::new();
    for path in cases() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let (input, expected) = text.split_once(EXPECTED).unwrap_or((&text, ""));
        let (tree, planted) = match plant(input) {
            Ok(planted) => planted,
            Err(fault) => {
                writeln!(failures, "{name}: {fault}").unwrap();
                continue;
            }
        };
        let dir = scratch(&tree);
        let errors = load(dir.path()).err();
        let found = errors.as_ref().map_or(0, |errors| errors.iter().count());
        let actual = errors.map_or(String::new(), |errors| format!("{errors}\n"));
        if found != planted {
            writeln!(
                failures,
                "{name}: {planted} mistakes planted, {found} errors:\n{actual}"
            )
            .unwrap();
        } else if actual != expected {
            if std::env::var_os("UPDATE_EXPECT").is_some() {
                fs::write(&path, format!("{input}{EXPECTED}{actual}")).unwrap();
            } else {
                writeln!(failures, "{name}: expected\n{expected}found\n{actual}").unwrap();
            }
        }
    }
    assert!(failures.is_empty(), "{failures}run with UPDATE_EXPECT=1 to accept");
}

/// A message without a case is one that nobody has ever seen.
#[test]
fn every_message_has_a_case() {
    let seen: String = cases()
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .filter_map(|text| text.split_once(EXPECTED).map(|(_, e)| e.to_owned()))
        .collect();
    let mut unseen = Vec::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = sources(&source.join("check"));
    files.extend(sources(&source.join("yaml")));
    files.extend(["load.rs", "decode.rs", "report.rs", "suggest.rs"].map(|name| source.join(name)));
    for file in files {
        let tokens: TokenStream = fs::read_to_string(&file).unwrap().parse().unwrap();
        let mut texts = Vec::new();
        literals(tokens, &mut texts);
        for text in texts {
            // Words and keys are no messages.
            if !text.contains(' ') || NEVER_SHOWN.contains(&text.as_str()) {
                continue;
            }
            if !fits(&text, &seen) {
                unseen.push(format!("{}: {text}", file.file_name().unwrap().display()));
            }
        }
    }
    assert!(
        unseen.is_empty(),
        "write a case that shows each of these:\n{}",
        unseen.join("\n")
    );
}

/// Texts that no case can show.
const NEVER_SHOWN: &[&str] = &[
    // Shown by the tests below: a tree of files cannot bring them about.
    "give the folder that holds `types.yaml`, `events.yaml`, `tools/` and `agents/`",
    "the folder `{}` cannot be read: {error}",
    "the name {} is not UTF-8",
    "the file cannot be read: {error}",
    "make it a file that you may read, or remove it",
    // Shown by a test of `yaml`; the file would be large.
    "too many values",
    "a file may have 100,000",
    "it is no regular file",
    // Nets under other checks: nothing is known that falls into them.
    "the file does not fit the model: {error}",
    "this is no JSON Schema: {error}",
];

#[test]
fn a_folder_that_is_none_is_one_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    for path in [dir.path().join("nothing"), file] {
        let errors = load(&path).unwrap_err().to_string();
        assert!(
            errors.starts_with(&format!("specs: the folder `{}` cannot be read: ", path.display())),
            "{errors}"
        );
        assert!(
            errors
                .ends_with("\n  help: give the folder that holds `types.yaml`, `events.yaml`, `tools/` and `agents/`")
        );
    }
}

#[cfg(unix)]
#[test]
fn files_that_the_system_does_not_give_are_errors() {
    use std::os::unix::ffi::OsStrExt;

    let dir = scratch(&base());
    let path = dir
        .path()
        .join("tools/notes")
        .join(std::ffi::OsStr::from_bytes(b"caf\xff.yaml"));
    fs::write(path, "x").unwrap();
    fs::remove_file(dir.path().join("tools/notes/note_list.yaml")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("tools/notes/note_list.yaml")).unwrap();
    let errors = load(dir.path()).unwrap_err().to_string();
    let pipe = dir.path().join("tools/notes/note_pipe.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let piped = load(dir.path()).unwrap_err().to_string();
    assert!(
        piped.contains("specs/tools/notes/note_pipe.yaml: the file cannot be read: it is no regular file"),
        "{piped}"
    );
    fs::remove_file(pipe).unwrap();
    let expected = "specs/tools/notes: the name caf\u{fffd}.yaml is not UTF-8\n  help: rename it\n\
                    specs/tools/notes/note_list.yaml: the file cannot be read: No such file or directory (os error 2)\n  \
                    help: make it a file that you may read, or remove it";
    assert_eq!(errors, expected);
}

/// Whether a format string has been rendered somewhere.
fn fits(format: &str, seen: &str) -> bool {
    let mut parts = vec![String::new()];
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' | '}' if chars.peek() == Some(&c) => {
                chars.next();
                parts.last_mut().unwrap().push(c);
            }
            '{' => {
                while chars.next().is_some_and(|c| c != '}') {}
                parts.push(String::new());
            }
            c => parts.last_mut().unwrap().push(c),
        }
    }
    seen.lines().any(|line| {
        let mut rest = line;
        parts.iter().all(|part| match rest.find(part.as_str()) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    })
}

/// The string literals of a source file, without attributes and tests.
fn literals(tokens: TokenStream, found: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                tokens.next_if(|next| matches!(next, TokenTree::Punct(_)));
                tokens.next_if(|next| matches!(next, TokenTree::Group(_)));
            }
            TokenTree::Ident(ident) if ident == "mod" => {
                if tokens.next().is_some_and(|name| name.to_string() == "tests") {
                    return;
                }
            }
            TokenTree::Ident(ident) if ident == "unreachable" || ident == "expect" => {
                tokens.next_if(|next| matches!(next, TokenTree::Punct(_)));
                tokens.next_if(|next| matches!(next, TokenTree::Group(_)));
            }
            TokenTree::Group(group) => literals(group.stream(), found),
            TokenTree::Literal(literal) => {
                if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    found.push(text.value());
                }
            }
            TokenTree::Punct(_) | TokenTree::Ident(_) => {}
        }
    }
}

fn errors_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors")
}

fn listing(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Every source file of a folder and of the folders in it.
fn sources(dir: &Path) -> Vec<PathBuf> {
    listing(dir)
        .into_iter()
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .collect()
}

fn cases() -> Vec<PathBuf> {
    listing(&errors_dir().join("cases"))
}

fn base() -> Tree {
    fn walk(dir: &Path, prefix: &str, tree: &mut Tree) {
        for path in listing(dir) {
            let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
            if path.is_dir() {
                walk(&path, &format!("{name}/"), tree);
            } else {
                tree.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    let mut tree = Tree::new();
    walk(&errors_dir().join("base"), "", &mut tree);
    tree
}

fn scratch(tree: &Tree) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in tree {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

/// Carries out the sections of a case on the base. Also says how many mistakes they make.
fn plant(input: &str) -> Result<(Tree, usize), String> {
    let mut tree = base();
    let mut planted = 0;
    for section in input.split("\n== ").skip(1) {
        let (head, body) = section.split_once('\n').unwrap_or((section, ""));
        let mut words = head.split(' ');
        let (verb, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        planted += words
            .next()
            .map_or(Ok(1), str::parse::<usize>)
            .map_err(|error| format!("`{head}`: {error}"))?;
        match verb {
            "edit" => {
                let text = tree.get(path).ok_or_else(|| format!("there is no `{path}`"))?;
                let text = edited(&String::from_utf8_lossy(text), body)?;
                tree.insert(path.to_owned(), text.into_bytes());
            }
            "write" => {
                // A case is text, so the byte that no text has is written as an escape.
                let (before, after) = body.split_once("\\xff").map_or((body, None), |(b, a)| (b, Some(a)));
                let mut bytes = before.as_bytes().to_vec();
                if let Some(after) = after {
                    bytes.push(0xff);
                    bytes.extend(after.as_bytes());
                }
                tree.insert(path.to_owned(), bytes);
            }
            "remove" => {
                let before = tree.len();
                tree.retain(|name, _| name != path && !name.starts_with(&format!("{path}/")));
                if tree.len() == before {
                    return Err(format!("there is no `{path}`"));
                }
            }
            _ => return Err(format!("`{verb}` is none of edit, write, remove")),
        }
    }
    Ok((tree, planted))
}

/// Applies hunks: lines with `-` go, lines with `+` come, lines with a blank stay. A line `@@` stands between hunks.
fn edited(text: &str, body: &str) -> Result<String, String> {
    let mut text = text.to_owned();
    for hunk in body.trim_end_matches('\n').split("\n@@\n") {
        let (mut old, mut new) = (String::from("\n"), String::from("\n"));
        for line in hunk.lines() {
            let (mark, rest) = line.split_at(usize::from(!line.is_empty()));
            if mark != "+" {
                old += rest;
                old.push('\n');
            }
            if mark != "-" {
                new += rest;
                new.push('\n');
            }
        }
        let whole = format!("\n{text}");
        if whole.matches(&old).count() != 1 {
            return Err(format!("the file has this not once:{old}"));
        }
        text = whole.replacen(&old, &new, 1).split_off(1);
    }
    Ok(text)
}

/// The errors of the repository's own specs: none.
#[test]
fn the_own_specs_have_no_error() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs");
    let errors: Option<SpecErrors> = load(&dir).err();
    assert!(errors.is_none(), "{}", errors.unwrap());
}
