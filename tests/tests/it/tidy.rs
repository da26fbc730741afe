//! Rules of the house that a reader would otherwise have to enforce.

use std::fs;
use std::path::{Path, PathBuf};

use devloop_generated::all_tools;

/// Every hand-written or generated Rust file below a directory.
fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn offenders(dirs: &[&str], offends: impl Fn(&str) -> bool) -> Vec<String> {
    let root = crate::root();
    let mut found = Vec::new();
    for dir in dirs {
        for path in rust_files(&root.join(dir)) {
            if offends(&fs::read_to_string(&path).unwrap()) {
                found.push(path.strip_prefix(&root).unwrap().display().to_string());
            }
        }
    }
    found
}

#[test]
fn every_module_says_what_it_is_for() {
    let sources = [
        "codegen/src",
        "generated/src",
        "runtime/src",
        "runtime/contract/src",
        "runtime/core/src",
        "tests/src",
    ];
    let silent = offenders(&sources, |text| {
        let first = text
            .lines()
            .find(|line| !line.starts_with("// @generated") && !line.is_empty());
        first.is_none_or(|line| !line.starts_with("//!"))
    });
    assert_eq!(silent, [""; 0], "these files do not start with `//!`");
}

#[test]
fn handlers_touch_files_through_the_sandbox_only() {
    let found = offenders(&["runtime/src/handlers"], |text| {
        ["std::fs", "tokio::fs", "std::process", "rustix::"]
            .iter()
            .any(|door| text.contains(door))
    });
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_tools_name_is_no_literal_in_a_handler() {
    let found = offenders(&["runtime/src/handlers"], |text| {
        all_tools().any(|tool| text.contains(&format!("\"{}\"", tool.name)))
    });
    assert_eq!(found, [""; 0]);
}

#[test]
fn the_runtime_parses_no_yaml_and_the_core_knows_no_generated_code() {
    let manifest = |path: &str| fs::read_to_string(crate::root().join(path)).unwrap();
    for path in [
        "runtime/Cargo.toml",
        "runtime/core/Cargo.toml",
        "runtime/contract/Cargo.toml",
    ] {
        assert!(!manifest(path).contains("yaml"), "{path}");
    }
    for path in ["runtime/core/Cargo.toml", "runtime/contract/Cargo.toml"] {
        assert!(!manifest(path).contains("devloop-generated"), "{path}");
    }
    let contract = manifest("runtime/contract/Cargo.toml");
    let dependencies = contract.split("[dependencies]").nth(1).unwrap();
    let names: Vec<_> = dependencies
        .lines()
        .filter_map(|line| line.split('.').next())
        .filter(|n| !n.is_empty())
        .collect();
    assert_eq!(names, ["serde", "serde_json"]);
}

/// The generator is a pure function: no environment, no printing, no files outside `load`, `sync` and the
/// program. That no hash order leaks into its output is a lint of the workspace.
#[test]
fn the_generator_touches_nothing() {
    let found = offenders(&["codegen/src/emit", "codegen/src/check"], |text| {
        ["std::env", "std::fs", "std::process", "println!"]
            .iter()
            .any(|word| text.contains(word))
    });
    assert_eq!(found, [""; 0]);
}
