//! The page that says which test proves which promise names tests that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names of all tests in the Rust files below a directory.
fn functions(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            let names = lines.iter().enumerate().filter_map(|(number, line)| {
                let before = &lines[number.saturating_sub(5)..number];
                before
                    .iter()
                    .rev()
                    .take_while(|line| !line.trim().is_empty())
                    .find(|line| {
                        let line = line.trim_start();
                        line.starts_with("#[test]") || line.starts_with("#[tokio::test")
                    })?;
                let line = line.trim_start();
                let line = line.strip_prefix("async ").unwrap_or(line);
                let name = line.strip_prefix("fn ")?.split(['(', '<']).next()?;
                Some(name.to_owned())
            });
            found.extend(names);
        }
    }
}

#[test]
fn the_contract_layers_page_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut known = BTreeSet::new();
    for dir in ["codegen", "runtime", "tests", "generated/tests"] {
        functions(&root.join(dir), &mut known);
    }
    let page = fs::read_to_string(root.join("docs/contract-layer.md")).unwrap();
    let (mut rows, mut missing) = (0, Vec::new());
    for line in page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| ---"))
    {
        let proof = line.trim_end_matches('|').rsplit('|').next().unwrap().trim();
        let names: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            assert_eq!(proof, "proof", "a row without a test: {line}");
            continue;
        }
        rows += 1;
        missing.extend(names.into_iter().filter(|name| !known.contains(*name)));
    }
    assert!(rows > 60, "only {rows} rows were read");
    assert!(missing.is_empty(), "no test has the name {missing:?}");
}
