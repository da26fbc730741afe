//! Project-relative paths: what a path may look like before anybody asks who may touch it.
//!
//! Answers for the rules that need no file system: relative, `/`-separated, NFC, no tricks. Leaves out permission and
//! links (the sandbox and the project directory judge those). A percent-encoded text is a literal name.

use std::fmt;

use devloop_contract::ToolError;
use serde::{Deserialize, Serialize};
use unicode_normalization::{UnicodeNormalization, is_nfc};

/// The longest path in bytes.
pub const LONGEST_PATH: usize = 1_024;
/// The longest segment in bytes; what Linux file systems take.
pub const LONGEST_SEGMENT: usize = 255;

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

/// Why a text is no path. All are malformed input, none is a matter of permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathProblem {
    /// Nothing.
    Empty,
    /// Longer than [`LONGEST_PATH`].
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// Begins with `/`.
    Absolute,
    /// Ends with `/`.
    TrailingSlash,
    /// Two slashes in a row.
    EmptySegment,
    /// A `.` segment.
    DotSegment,
    /// A `..` segment.
    ParentSegment,
    /// Contains `\`.
    Backslash,
    /// Contains NUL.
    Nul,
    /// Contains another control character.
    Control {
        /// Which.
        character: char,
    },
    /// Contains a character that changes the direction of the text, so that it reads as another path.
    Bidi {
        /// Which.
        character: char,
    },
    /// A segment longer than [`LONGEST_SEGMENT`].
    SegmentTooLong {
        /// Its beginning.
        segment: String,
        /// Its length in bytes.
        bytes: usize,
    },
    /// A segment that ends in a dot or a space, which Windows drops.
    TrailingDotOrSpace {
        /// The segment.
        segment: String,
    },
    /// A device name of Windows, with or without an extension.
    ReservedName {
        /// The segment.
        segment: String,
    },
    /// Not in Unicode normal form C.
    NotNfc {
        /// The same path in that form.
        nfc: String,
    },
}

impl PathProblem {
    /// The problem as refused input of a field.
    pub fn at(&self, field: &str) -> ToolError {
        ToolError::validation(field, self.to_string())
    }
}

impl fmt::Display for PathProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the path is empty; give a path relative to the project directory"),
            Self::TooLong { bytes } => {
                write!(
                    f,
                    "the path has {bytes} bytes, at most {LONGEST_PATH} are allowed; shorten it"
                )
            }
            Self::Absolute => f.write_str("the path is absolute; give it relative to the project directory"),
            Self::TrailingSlash => f.write_str("the path ends with `/`; leave it out"),
            Self::EmptySegment => f.write_str("the path has an empty segment; write one `/` between segments"),
            Self::DotSegment => f.write_str("the path has a `.` segment; leave it out"),
            Self::ParentSegment => {
                f.write_str("the path has a `..` segment; write the path from the project directory down")
            }
            Self::Backslash => f.write_str("the path has a `\\`; separate segments with `/`"),
            Self::Nul => f.write_str("the path has a NUL character; remove it"),
            Self::Control { character } => {
                write!(
                    f,
                    "the path has the control character U+{:04X}; remove it",
                    u32::from(*character)
                )
            }
            Self::Bidi { character } => write!(
                f,
                "the path has U+{:04X}, which changes the direction of the text; remove it",
                u32::from(*character)
            ),
            Self::SegmentTooLong { segment, bytes } => write!(
                f,
                "the segment `{segment}…` has {bytes} bytes, at most {LONGEST_SEGMENT} are allowed; shorten it"
            ),
            Self::TrailingDotOrSpace { segment } => {
                write!(
                    f,
                    "the segment `{segment}` ends in a dot or a space; remove that ending"
                )
            }
            Self::ReservedName { segment } => {
                write!(
                    f,
                    "the segment `{segment}` is a device name on Windows; choose another name"
                )
            }
            Self::NotNfc { nfc } => write!(f, "the path is not in Unicode normal form C; write it as `{nfc}`"),
        }
    }
}

impl std::error::Error for PathProblem {}

fn check(text: &str) -> Result<(), PathProblem> {
    if text.is_empty() {
        return Err(PathProblem::Empty);
    }
    if text.len() > LONGEST_PATH {
        return Err(PathProblem::TooLong { bytes: text.len() });
    }
    for character in text.chars() {
        match character {
            '\\' => return Err(PathProblem::Backslash),
            '\0' => return Err(PathProblem::Nul),
            c if c.is_control() => return Err(PathProblem::Control { character }),
            '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => {
                return Err(PathProblem::Bidi { character });
            }
            _ => {}
        }
    }
    if text.starts_with('/') {
        return Err(PathProblem::Absolute);
    }
    if text.ends_with('/') && !text.ends_with("//") {
        return Err(PathProblem::TrailingSlash);
    }
    for segment in text.split('/') {
        match segment {
            "" => return Err(PathProblem::EmptySegment),
            "." => return Err(PathProblem::DotSegment),
            ".." => return Err(PathProblem::ParentSegment),
            _ => {}
        }
        if segment.len() > LONGEST_SEGMENT {
            return Err(PathProblem::SegmentTooLong {
                segment: segment.chars().take(24).collect(),
                bytes: segment.len(),
            });
        }
        if segment.ends_with(['.', ' ']) {
            return Err(PathProblem::TrailingDotOrSpace {
                segment: segment.to_owned(),
            });
        }
        if is_reserved(segment) {
            return Err(PathProblem::ReservedName {
                segment: segment.to_owned(),
            });
        }
    }
    if !is_nfc(text) {
        return Err(PathProblem::NotNfc {
            nfc: text.nfc().collect(),
        });
    }
    Ok(())
}

/// Windows looks at the name before the first dot, without the spaces at its end.
fn is_reserved(segment: &str) -> bool {
    let stem = segment.split('.').next().unwrap_or(segment).trim_end_matches(' ');
    let stem = stem.to_ascii_lowercase();
    match stem.as_str() {
        "con" | "prn" | "aux" | "nul" | "conin$" | "conout$" => true,
        _ => matches!(
            stem.as_bytes(),
            [b'c', b'o', b'm', b'0'..=b'9'] | [b'l', b'p', b't', b'0'..=b'9']
        ),
    }
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
