//! Whether a path that a call names stays in the project, judged by its text.
//!
//! Answers for components, never for substrings: `a..b.ts` is a name, `a/../../b` leads out. Leaves out links, which the
//! sandbox never follows, and who may touch what lies inside.
//!
//! Paths of our own tools have passed the stricter rules of [`RelPath`](crate::sandbox::RelPath) when they come here;
//! those of a host's tools may have not. So `./a`, `a/` and `a//b` are let pass.

use std::fmt;

use devloop_contract::path::{PathProblem, path_problem};
use serde::Serialize;
use unicode_normalization::UnicodeNormalization;

/// Why a path is not safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnsafePath {
    /// Nothing.
    Empty,
    /// It begins at the root of the file system, a drive, or with a scheme.
    Absolute,
    /// It begins with somebody's home.
    Home,
    /// It has a component `..`, or one that some systems take for it.
    Parent,
    /// It has a `\`, which separates components on some systems.
    Backslash,
    /// It has NUL or another control character.
    Control,
    /// It has a character that changes the direction of the text.
    Direction,
}

impl fmt::Display for UnsafePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it is empty",
            Self::Absolute => "it is absolute",
            Self::Home => "it begins with a home directory",
            Self::Parent => "it has a `..` component",
            Self::Backslash => "it has a `\\`",
            Self::Control => "it has a control character",
            Self::Direction => "it has a character that changes the direction of the text",
        })?;
        f.write_str("; write a path from the project directory down, with `/`")
    }
}

/// Why a path is not safe; `None` when it stays in the project.
///
/// ```
/// use devloop_core::permission::{UnsafePath, path_safety};
///
/// assert_eq!(path_safety("src/a..b.ts"), None);
/// assert_eq!(path_safety("src/../../x"), Some(UnsafePath::Parent));
/// assert_eq!(path_safety("/etc/passwd"), Some(UnsafePath::Absolute));
/// ```
pub fn path_safety(path: &str) -> Option<UnsafePath> {
    // Most paths pass the stricter rules, and these say no more about them.
    if path.is_ascii() && path_problem(path).is_none() && !path.starts_with('~') && !path.contains([':', '%']) {
        return None;
    }
    // What a program makes of it that brings texts into a common form, or that takes it for a part of an address.
    let composed: String = path.nfkc().collect();
    let decoded = decoded(&composed);
    judge(path)
        .or_else(|| judge(&composed))
        .or_else(|| decoded.as_deref().and_then(judge))
}

fn judge(path: &str) -> Option<UnsafePath> {
    if path.is_empty() {
        return Some(UnsafePath::Empty);
    }
    for c in path.chars() {
        // The words of the stricter rules, so that both know the same characters.
        match path_problem(c.encode_utf8(&mut [0; 4])) {
            Some(PathProblem::Backslash) => return Some(UnsafePath::Backslash),
            Some(PathProblem::Nul | PathProblem::Control { .. }) => return Some(UnsafePath::Control),
            Some(PathProblem::Bidi { .. }) => return Some(UnsafePath::Direction),
            _ => {}
        }
    }
    if path.starts_with('/') || has_scheme(path) {
        return Some(UnsafePath::Absolute);
    }
    if path.starts_with('~') {
        return Some(UnsafePath::Home);
    }
    path.split('/').any(is_parent).then_some(UnsafePath::Parent)
}

/// `C:` and all that begins so, and `file:/`.
fn has_scheme(path: &str) -> bool {
    let Some((scheme, rest)) = path.split_once(':') else {
        return false;
    };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        && (scheme.len() == 1 || rest.starts_with('/'))
}

/// `..`, and that with blanks or more dots, which Windows drops.
fn is_parent(component: &str) -> bool {
    component.starts_with("..") && component.chars().all(|c| c == '.' || c == ' ')
}

/// The path with `%2e` and the like as characters, when it has any.
fn decoded(path: &str) -> Option<String> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let code = (*byte == b'%').then(|| Some(digit(bytes.get(at + 1))? * 16 + digit(bytes.get(at + 2))?));
        let code = code.flatten().and_then(|code| u8::try_from(code).ok());
        decoded.push(code.unwrap_or(*byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    (decoded.len() < bytes.len()).then(|| String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sandbox::RelPath;

    #[test]
    fn paths_are_judged_by_components() {
        for path in [
            "a..b.ts", "..a", "a..", "...a", "a/..b/c", "./a", "a/", "a//b", ".", "a b/c", "ü/é", "a~b", "a/~", "ab:c",
            "x/c:y", "100%", "%zz", "a/.env", "con", "$x",
        ] {
            assert_eq!(path_safety(path), None, "{path:?}");
        }
        for (path, why) in [
            ("", UnsafePath::Empty),
            ("/", UnsafePath::Absolute),
            ("/etc/passwd", UnsafePath::Absolute),
            ("//server/share", UnsafePath::Absolute),
            ("C:/x", UnsafePath::Absolute),
            ("c:x", UnsafePath::Absolute),
            ("file:///etc/passwd", UnsafePath::Absolute),
            ("～/x", UnsafePath::Home),
            ("~", UnsafePath::Home),
            ("~/x", UnsafePath::Home),
            ("~root/x", UnsafePath::Home),
            ("..", UnsafePath::Parent),
            ("../x", UnsafePath::Parent),
            ("a/../b", UnsafePath::Parent),
            ("a/..", UnsafePath::Parent),
            (".. /x", UnsafePath::Parent),
            (".../x", UnsafePath::Parent),
            ("．．/x", UnsafePath::Parent),
            ("‥/x", UnsafePath::Parent),
            ("..／x", UnsafePath::Parent),
            ("%2e%2E/x", UnsafePath::Parent),
            ("a%2f..%2fb", UnsafePath::Parent),
            ("%2fetc", UnsafePath::Absolute),
            ("a\\b", UnsafePath::Backslash),
            ("a%5cb", UnsafePath::Backslash),
            ("a\0b", UnsafePath::Control),
            ("a%00b", UnsafePath::Control),
            ("a\nb", UnsafePath::Control),
            ("a\u{202E}b", UnsafePath::Direction),
        ] {
            assert_eq!(path_safety(path), Some(why), "{path:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn a_safe_path_has_no_way_out(path in r"[./ab~\\:%é]{0,12}") {
            if path_safety(&path).is_none() {
                prop_assert!(!path.starts_with(['/', '~']) && !path.contains('\\') && !path.is_empty());
                prop_assert!(path.split('/').all(|component| component != ".."));
            }
        }

        #[test]
        fn what_the_sandbox_takes_is_safe_but_for_homes_drives_and_codes(path in r"[./ab~\\ é]{0,12}") {
            if RelPath::parse(&path).is_ok() {
                prop_assert_eq!(path_safety(&path).is_some(), path.starts_with('~'));
            }
        }
    }
}
