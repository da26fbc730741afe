//! Project-relative paths: what a path may look like before anybody asks who may touch it.
//!
//! Answers for the type of such a path, and for Unicode normal form C; the other rules stand in
//! [`devloop_contract::path`], where specs are judged by them, too. Leaves out permission and links (the sandbox and the
//! project directory judge those).

use std::fmt;

use devloop_contract::path::path_problem;
pub use devloop_contract::path::{LONGEST_PATH, LONGEST_SEGMENT, PathProblem};
use serde::{Deserialize, Serialize};
use unicode_normalization::{UnicodeNormalization, is_nfc};

/// A path relative to the project directory that has passed every rule of [`PathProblem`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RelPath(String);

impl RelPath {
    /// Checks a path. No system call.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, PathProblem> {
        check(text)?;
        Ok(Self(text.to_owned()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of something below this one: `more` is one or several segments.
    ///
    /// # Errors
    /// The first rule that `more` or the joined path breaks.
    pub fn join(&self, more: &str) -> Result<Self, PathProblem> {
        // `more` is judged alone first, so that the sentence speaks of what the caller gave.
        check(more)?;
        Self::parse(&format!("{}/{more}", self.0))
    }

    /// The directory that holds it; `None` directly below the project directory.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }

    /// The last segment.
    pub fn file_name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// The segments in order.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// A path that broke the rules, to test what stands behind them.
    #[cfg(test)]
    pub(crate) fn unchecked(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for RelPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RelPath {
    type Error = PathProblem;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        check(&text)?;
        Ok(Self(text))
    }
}

impl From<RelPath> for String {
    fn from(path: RelPath) -> Self {
        path.0
    }
}

impl std::str::FromStr for RelPath {
    type Err = PathProblem;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

fn check(text: &str) -> Result<(), PathProblem> {
    if let Some(problem) = path_problem(text) {
        return Err(problem);
    }
    if !is_nfc(text) {
        return Err(PathProblem::NotNfc {
            nfc: text.nfc().collect(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_its_sentence() {
        let long_segment = format!("a/{}", "x".repeat(256));
        let long_path = "x/".repeat(513);
        let table: &[(&str, &str)] = &[
            ("", "is empty"),
            ("/etc/passwd", "is absolute"),
            ("//x", "is absolute"),
            ("a/", "ends with `/`"),
            ("a//", "empty segment"),
            ("a//b", "empty segment"),
            ("a/./b", "`.` segment"),
            ("..", "`..` segment"),
            ("a/../b", "`..` segment"),
            ("a\\b", "has a `\\`"),
            ("a\0b", "NUL"),
            ("a\nb", "U+000A"),
            ("a\u{85}", "U+0085"),
            ("a\u{202E}b", "U+202E"),
            ("a\u{2066}", "direction"),
            ("a./b", "ends in a dot or a space"),
            ("a/b ", "ends in a dot or a space"),
            ("a/...", "ends in a dot or a space"),
            ("con", "device name"),
            ("a/Nul.txt", "device name"),
            ("COM7.tar.gz", "device name"),
            ("lpt0", "device name"),
            ("conin$", "device name"),
            ("aux .txt", "device name"),
            ("cafe\u{301}.md", "write it as `caf\u{e9}.md`"),
            (&long_segment, "256 bytes"),
            (&long_path, "1026 bytes"),
        ];
        for (text, part) in table {
            let problem = RelPath::parse(text).expect_err(text).to_string();
            assert!(problem.contains(part), "{text:?}: {problem}");
        }
    }

    #[test]
    fn names_that_only_look_odd_are_legal() {
        let longest = "x".repeat(255);
        for text in [
            "a:b*c?d\"e<f>g|h",
            "..a/...b",
            ".hidden",
            "console/com/com10/lpt/nul-x",
            "文档/第一章.html",
            "caf\u{e9} au lait.md",
            "a%2F..%2Fb",
            "👩‍💻.txt",
            &longest,
        ] {
            assert_eq!(RelPath::parse(text).map(String::from).as_deref(), Ok(text));
        }
    }

    #[test]
    fn parts_and_serde_keep_to_the_rules() {
        let path = RelPath::parse("a/b").unwrap();
        assert_eq!(path.join("c/d").unwrap().as_str(), "a/b/c/d");
        assert_eq!(path.join("../c"), Err(PathProblem::ParentSegment));
        assert_eq!(path.join("/c"), Err(PathProblem::Absolute));
        assert_eq!((path.parent().unwrap().as_str(), path.file_name()), ("a", "b"));
        assert_eq!(RelPath::parse("a").unwrap().parent(), None);
        assert_eq!(serde_json::to_string(&path).unwrap(), r#""a/b""#);
        assert!(
            serde_json::from_str::<RelPath>(r#""a/../b""#)
                .unwrap_err()
                .to_string()
                .contains("`..`")
        );
    }

    proptest::proptest! {
        #[test]
        fn an_accepted_path_is_made_of_plain_names(text in "[a.: /\\\\\u{301}\u{202E}e\0]{0,12}") {
            if let Ok(path) = RelPath::parse(&text) {
                proptest::prop_assert_eq!(path.as_str(), &text);
                for segment in path.segments() {
                    proptest::prop_assert!(!segment.is_empty() && !segment.ends_with('.') && !segment.ends_with(' '));
                }
            }
        }
    }
}
