//! Whatever a spec says, reading it ends with errors that have a place, and never with a panic.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use devloop_codegen::load;
use proptest::prelude::*;
use proptest::sample::Index;

#[derive(Clone, Debug)]
enum Garbling {
    DropLine(Index),
    RepeatLine(Index, Index),
    SwapLines(Index, Index),
    /// A line of any file goes anywhere.
    Transplant(Index, Index, Index),
    DropChar(Index),
    Insert(Index, String),
    /// A word of the file takes the place of another one.
    SwapWords(Index, Index),
    Indent(Index),
}

fn garbling() -> impl Strategy<Value = Garbling> {
    let index = any::<Index>;
    let scraps = prop::sample::select(vec![
        ":",
        "- ",
        "  ",
        "\n",
        "'",
        "\"",
        "{",
        "}",
        "[",
        "]",
        "#",
        ": ",
        "? ",
        "|",
        "&a ",
        "*a",
        "!t ",
        "\t",
        "\u{feff}",
        "文",
        "é",
        "5",
        "1e999",
        "-1",
        "~",
        "null",
        "true",
        "$ref: Note",
        "{}",
        "[]",
        "0x10",
        ".nan",
        "\r",
        "\0",
        "---\n",
        "...",
        "%",
        "\u{2028}",
        "<<: {}",
        "{agent}",
        "**",
        "\\p{L}",
        "99999999999999999999",
    ]);
    prop_oneof![
        index().prop_map(Garbling::DropLine),
        (index(), index()).prop_map(|(a, b)| Garbling::RepeatLine(a, b)),
        (index(), index()).prop_map(|(a, b)| Garbling::SwapLines(a, b)),
        (index(), index(), index()).prop_map(|(a, b, c)| Garbling::Transplant(a, b, c)),
        index().prop_map(Garbling::DropChar),
        (index(), scraps).prop_map(|(a, text)| Garbling::Insert(a, text.to_owned())),
        (index(), index()).prop_map(|(a, b)| Garbling::SwapWords(a, b)),
        index().prop_map(Garbling::Indent),
    ]
}

fn apply(garbling: &Garbling, text: &str, all: &[String]) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    match garbling {
        Garbling::DropLine(at) => _ = lines.remove(at.index(lines.len())),
        Garbling::RepeatLine(from, to) => {
            let line = lines[from.index(lines.len())].clone();
            lines.insert(to.index(lines.len()), line);
        }
        Garbling::SwapLines(a, b) => {
            let count = lines.len();
            lines.swap(a.index(count), b.index(count));
        }
        Garbling::Transplant(file, from, to) => {
            let other: Vec<&str> = file.get(all).split('\n').collect();
            lines.insert(to.index(lines.len()), (*from.get(&other)).to_owned());
        }
        Garbling::DropChar(at) => {
            let at = at.index(starts.len());
            let end = starts.get(at + 1).copied().unwrap_or(text.len());
            return format!("{}{}", &text[..starts[at]], &text[end..]);
        }
        Garbling::Insert(at, scrap) => {
            let at = *at.get(&starts);
            return format!("{}{scrap}{}", &text[..at], &text[at..]);
        }
        Garbling::SwapWords(a, b) => {
            let words: Vec<&str> = text
                .split(|c: char| !c.is_alphanumeric())
                .filter(|word| !word.is_empty())
                .collect();
            if words.is_empty() {
                return text.to_owned();
            }
            return text.replacen(words[a.index(words.len())], words[b.index(words.len())], 1);
        }
        Garbling::Indent(at) => {
            let at = at.index(lines.len());
            lines[at].insert(0, ' ');
        }
    }
    lines.join("\n")
}

fn read(dir: &Path, prefix: &str, tree: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            read(&entry.path(), &format!("{name}/"), tree);
        } else {
            tree.insert(name, fs::read_to_string(entry.path()).unwrap());
        }
    }
}

fn cases() -> u32 {
    if std::env::var_os("DEVLOOP_LONG").is_some() {
        20_000
    } else {
        150
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbled_specs_give_errors_with_a_place_inside_the_file(
        changes in prop::collection::vec((any::<Index>(), garbling()), 1..6)
    ) {
        let mut tree = BTreeMap::new();
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors/base"), "", &mut tree);
        let names: Vec<String> = tree.keys().filter(|name| Path::new(name).extension().is_some_and(|end| end == "yaml")).cloned().collect();
        let originals: Vec<String> = tree.values().cloned().collect();
        for (file, garbling) in &changes {
            let name = file.get(&names);
            let text = apply(garbling, &tree[name], &originals);
            tree.insert(name.clone(), text);
        }
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in &tree {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        if let Err(errors) = load(dir.path()) {
            for error in &errors {
                let name = error.path.strip_prefix("specs/");
                let text = name.and_then(|name| tree.get(name));
                prop_assert!(text.is_some(), "a path that is no file: {error}");
                prop_assert!(!error.message.trim().is_empty());
                if error.line == 0 {
                    prop_assert_eq!(error.column, 0);
                    continue;
                }
                let text = text.unwrap().replace("\r\n", "\n");
                let line = text.split(['\n', '\r']).nth(usize::try_from(error.line).unwrap() - 1);
                prop_assert!(line.is_some(), "a line that is not there: {error}");
                let most = line.unwrap().chars().count() as u64 + 1;
                prop_assert!((1..=most).contains(&error.column), "a column that is not there: {error}");
            }
        }
    }
}
