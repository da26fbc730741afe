//! What is wrong with the form of a document, in words of people who write specs.
//!
//! Answers for the texts and for the place that each one names, which is not always where the parser stopped. Leaves
//! out finding the faults.

use granit_parser::ErrorKind;

use super::Place;

/// What stops the reading, and where.
pub(super) struct Fault {
    pub(super) place: Place,
    pub(super) message: String,
    pub(super) help: String,
}

impl Fault {
    pub(super) fn new(place: Place, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            place,
            message: message.into(),
            help: help.into(),
        }
    }
}

/// `*name`: most often a path pattern that somebody forgot to quote.
pub(super) fn alias(here: Place, text: &str) -> Fault {
    let written = rest_of_line(text, here);
    let written = written.split([' ', ',', ']', '}']).next().unwrap_or_default();
    Fault::new(
        here,
        format!("`{written}` is read as an alias, which is not allowed"),
        format!("put a text in quotes: `'{written}'`; what an alias stands for is written out"),
    )
}

pub(super) fn anchor(here: Place) -> Fault {
    let help = "remove it; a text that begins with `&` needs quotes";
    Fault::new(here, "an anchor (`&name`) is not allowed", help)
}

/// The parser's errors, in the words of people who write specs.
pub(super) fn syntax_fault(kind: &ErrorKind, here: Place, text: &str) -> Fault {
    use ErrorKind as Kind;
    let line = line_at(text, here.line);
    let indentation = || {
        let help = "indent it with blanks like the keys or dashes that it stands beside";
        Fault::new(here, "the line does not fit the indentation of those above", help)
    };
    let (place, message, help) = match kind {
        Kind::MissingAnchorOrAliasName if rest_of_line(text, here).starts_with('&') => return anchor(here),
        Kind::MissingAnchorOrAliasName => return alias(here, text),
        Kind::ExpectedBlockSequenceEntry
        | Kind::ExpectedBlockMappingKey
        | Kind::ExpectedFlowSequenceSeparator
        | Kind::ExpectedFlowMappingSeparator
            if value_of(line).starts_with(['{', '[']) =>
        {
            (
                here,
                "text after a closing bracket",
                "a text that begins with `{` or `[` needs quotes: `'{agent}/x'`",
            )
        }
        Kind::ExpectedBlockSequenceEntry | Kind::ExpectedBlockMappingKey => return indentation(),
        Kind::SimpleKeyExpected => return keyless(here.line, line),
        Kind::MappingValueNotAllowed => {
            let before = here.line.saturating_sub(1);
            let above = line_at(text, before);
            let is_second = line
                .chars()
                .take(usize::try_from(here.column).unwrap_or(1) - 1)
                .any(|c| c == ':')
                || value_of(line).contains(": ");
            if is_second {
                let help = "a text with `: ` in it needs quotes";
                return Fault::new(here, "a second `: ` in one line", help);
            }
            if !above.trim().is_empty() && !above.contains(':') {
                return keyless(before, above);
            }
            return indentation();
        }
        Kind::InvalidQuotedScalarIndent | Kind::UnclosedQuotedScalar => (
            opener(text, here, &['\'', '"']),
            "a quote that is not closed",
            "end the text with the same quote",
        ),
        Kind::InvalidTrailingSingleQuotedScalar | Kind::InvalidTrailingDoubleQuotedScalar => (
            here,
            "text after a closing quote",
            "put the whole text in quotes; a `'` between single quotes is written twice",
        ),
        Kind::UnknownQuotedScalarEscape
        | Kind::InvalidQuotedScalarHexEscape
        | Kind::InvalidUnicodeEscape
        | Kind::InvalidLowSurrogate
        | Kind::InvalidLowSurrogateHexEscape
        | Kind::MissingLowSurrogate
        | Kind::UnpairedLowSurrogate => (
            here,
            "a `\\` that escapes nothing",
            "use single quotes, in which `\\` stands for itself",
        ),
        Kind::InvalidIndentation | Kind::UnclosedFlowCollection { .. } => (
            opener(text, here, &['[', '{']),
            "a bracket that is not closed",
            "close it, and indent the lines in it",
        ),
        Kind::MisplacedFlowCollectionEnd | Kind::MismatchedFlowCollectionEnd { .. } => (
            here,
            "a closing bracket without its partner",
            "remove it; a text that begins with a bracket needs quotes",
        ),
        Kind::UnexpectedCharacter { character } if character.is_control() => {
            let message = format!("the control character U+{:04X}", u32::from(*character));
            return Fault::new(here, message, "remove it");
        }
        Kind::UnexpectedCharacter { character } => {
            return Fault::new(
                here,
                format!("a text cannot begin with `{character}`"),
                "put it in quotes",
            );
        }
        Kind::TabNotAllowed
        | Kind::TabInBlockIndentation
        | Kind::TabInIndentation
        | Kind::TabInPlainScalar
        | Kind::TabAtBlockScalarStart => (here, "a tab where blanks are expected", "indent with blanks"),
        Kind::BlockSequenceEntryNotAllowed => (
            here,
            "a list cannot begin in the line of its key",
            "begin it in the next line, or write `[a, b]`",
        ),
        Kind::InvalidBlockScalarHeader => (
            here,
            "text in the line of `|` or `>`",
            "begin the text in the next line, or put it in quotes",
        ),
        Kind::DirectiveDisallowed => (here, "a directive (`%NAME`) is not allowed", "remove it"),
        Kind::RecursionLimitExceeded => (here, "nested too deeply", "32 levels are allowed"),
        other => {
            let message = format!("this is no YAML: {other}");
            return Fault::new(here, message, "look at the quotes, brackets and blanks of this line");
        }
    };
    Fault::new(place, message, help)
}

/// A line that should be a key with its value.
fn keyless(number: u64, line: &str) -> Fault {
    let written = line.trim();
    let column = (line.chars().count() - line.trim_start().chars().count()) as u64 + 1;
    let help = match written.split_once([' ', ':']) {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => format!("write `{key}: {}`", value.trim()),
        _ => "write `key: value`".to_owned(),
    };
    Fault::new(Place { line: number, column }, "a line without `: `", help)
}

/// Where the quote or bracket stands that is open at a place: the nearest value above that begins with one.
fn opener(text: &str, here: Place, marks: &[char]) -> Place {
    (1..=here.line)
        .rev()
        .find_map(|line| {
            let written = line_at(text, line);
            let value = value_of(written);
            value.starts_with(marks).then(|| Place {
                line,
                column: (written.chars().count() - value.chars().count()) as u64 + 1,
            })
        })
        .unwrap_or(here)
}

/// What stands on a line, from 1.
fn line_at(text: &str, line: u64) -> &str {
    let index = usize::try_from(line).unwrap_or_default().saturating_sub(1);
    text.lines().nth(index).unwrap_or_default()
}

fn rest_of_line(text: &str, here: Place) -> &str {
    let line = line_at(text, here.line);
    let column = usize::try_from(here.column).unwrap_or_default().saturating_sub(1);
    line.char_indices().nth(column).map_or("", |(at, _)| &line[at..])
}

/// What a line says after its dash or its key.
fn value_of(line: &str) -> &str {
    let line = line.trim_start();
    let line = line.strip_prefix('-').map_or(line, str::trim_start);
    line.split_once(": ").map_or(line, |(_, value)| value.trim_start())
}

pub(super) fn infinite(here: Place) -> Fault {
    let help = "leave the key out when there is no limit; a text needs quotes";
    Fault::new(here, "a number must be finite", help)
}
