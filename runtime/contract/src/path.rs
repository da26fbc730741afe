//! Project-relative paths: what a path may look like before anybody asks who may touch it.
//!
//! Answers for the rules that need no file system, so that specs and calls are judged by the same ones: relative,
//! `/`-separated, no tricks. Leaves out permission and links. A percent-encoded text is a literal name.

use std::fmt;

use crate::ToolError;

/// The longest path in bytes.
pub const LONGEST_PATH: usize = 1_024;
/// The longest segment in bytes; what Linux file systems take.
pub const LONGEST_SEGMENT: usize = 255;

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

/// The first rule that a text breaks as a path, but for the last one: whether it is in Unicode normal form C takes tables
/// that this crate does not have. Who has them asks that, too: [`PathProblem::NotNfc`].
pub fn path_problem(text: &str) -> Option<PathProblem> {
    if text.is_empty() {
        return Some(PathProblem::Empty);
    }
    if text.len() > LONGEST_PATH {
        return Some(PathProblem::TooLong { bytes: text.len() });
    }
    for character in text.chars() {
        match character {
            '\\' => return Some(PathProblem::Backslash),
            '\0' => return Some(PathProblem::Nul),
            c if c.is_control() => return Some(PathProblem::Control { character }),
            '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => {
                return Some(PathProblem::Bidi { character });
            }
            _ => {}
        }
    }
    if text.starts_with('/') {
        return Some(PathProblem::Absolute);
    }
    if text.ends_with('/') && !text.ends_with("//") {
        return Some(PathProblem::TrailingSlash);
    }
    for segment in text.split('/') {
        match segment {
            "" => return Some(PathProblem::EmptySegment),
            "." => return Some(PathProblem::DotSegment),
            ".." => return Some(PathProblem::ParentSegment),
            _ => {}
        }
        if segment.len() > LONGEST_SEGMENT {
            return Some(PathProblem::SegmentTooLong {
                segment: segment.chars().take(24).collect(),
                bytes: segment.len(),
            });
        }
        if segment.ends_with(['.', ' ']) {
            return Some(PathProblem::TrailingDotOrSpace {
                segment: segment.to_owned(),
            });
        }
        if is_reserved(segment) {
            return Some(PathProblem::ReservedName {
                segment: segment.to_owned(),
            });
        }
    }
    None
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
