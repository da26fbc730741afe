//! What a pattern is made of, read from text and written back.
//!
//! Answers for the parser, for binding variables inside the parts and for the text of what was bound. Leaves out what a
//! part matches (`automaton`).

use std::error::Error;
use std::fmt;

/// The longest pattern, in bytes; as long as the longest path.
const LONGEST: usize = 1_024;
/// How deep alternations may nest.
const DEEPEST: usize = 8;
/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    /// Where, in bytes from the start of the pattern.
    pub offset: usize,
    /// What was found and what to write instead.
    pub message: String,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.message)
    }
}

impl Error for PatternError {}

/// One segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// `**`
    Deep,
    Parts(Vec<Part>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Char(char),
    /// `?`
    One,
    /// `*`
    Any,
    Variable(String),
    OneOf(Vec<Vec<Part>>),
}

/// Reads a pattern.
pub(super) fn parse(text: &str) -> Result<Vec<Segment>, PatternError> {
    Parser { text, at: 0 }.pattern()
}

pub(super) fn collect_variables<'a>(parts: &'a [Part], names: &mut Vec<&'a str>) {
    for part in parts {
        match part {
            Part::Variable(name) if !names.contains(&name.as_str()) => names.push(name),
            Part::OneOf(alternatives) => alternatives.iter().for_each(|parts| collect_variables(parts, names)),
            _ => {}
        }
    }
}

pub(super) fn bind_parts(parts: &[Part], value: &dyn Fn(&str) -> Option<Vec<String>>) -> Vec<Part> {
    let mut bound = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::OneOf(alternatives) => {
                bound.push(Part::OneOf(
                    alternatives.iter().map(|parts| bind_parts(parts, value)).collect(),
                ));
            }
            Part::Variable(name) => match value(name) {
                None => bound.push(part.clone()),
                Some(mut values) => {
                    values.retain(|value| !value.is_empty() && !value.contains('/'));
                    if let [value] = &values[..] {
                        bound.extend(value.chars().map(Part::Char));
                    } else {
                        let literal = |value: &String| value.chars().map(Part::Char).collect();
                        bound.push(Part::OneOf(values.iter().map(literal).collect()));
                    }
                }
            },
            part => bound.push(part.clone()),
        }
    }
    bound
}

pub(super) fn render(segments: &[Segment]) -> String {
    fn render_parts(parts: &[Part], text: &mut String) {
        for part in parts {
            match part {
                Part::Char(c) => text.push(*c),
                Part::One => text.push('?'),
                Part::Any => text.push('*'),
                Part::Variable(name) => text.extend(["{", name, "}"]),
                Part::OneOf(alternatives) => {
                    text.push('{');
                    for (index, parts) in alternatives.iter().enumerate() {
                        if index > 0 {
                            text.push(',');
                        }
                        render_parts(parts, text);
                    }
                    text.push('}');
                }
            }
        }
    }
    let mut text = String::new();
    for (index, segment) in segments.iter().enumerate() {
        if index > 0 {
            text.push('/');
        }
        match segment {
            Segment::Deep => text.push_str("**"),
            Segment::Parts(parts) => render_parts(parts, &mut text),
        }
    }
    text
}

pub(super) fn literal_prefix(segments: &[Segment]) -> String {
    let mut prefix = String::new();
    for (index, segment) in segments.iter().enumerate() {
        let Segment::Parts(parts) = segment else { return prefix };
        for part in parts {
            let Part::Char(c) = part else { return prefix };
            prefix.push(*c);
        }
        // `a/**/b` may continue with any segment, but the `/` after `a` is always there.
        if index + 1 < segments.len() {
            prefix.push('/');
        }
    }
    prefix
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn pattern(mut self) -> Result<Vec<Segment>, PatternError> {
        if self.text.is_empty() {
            return Err(error(0, "the pattern is empty; write `**` for every path"));
        }
        if self.text.len() > LONGEST {
            return Err(error(LONGEST, format!("the pattern is longer than {LONGEST} bytes")));
        }
        let mut segments = Vec::new();
        loop {
            let start = self.at;
            let end = self.rest().find('/').map_or(self.text.len(), |length| start + length);
            match &self.text[start..end] {
                "" if start == 0 => {
                    return Err(error(
                        0,
                        "a leading `/`: patterns are relative to the project directory",
                    ));
                }
                "" if start == self.text.len() => {
                    return Err(error(start - 1, "a trailing `/`: write `/**` for everything below"));
                }
                "" => return Err(error(start, "an empty segment: write one `/`")),
                "." | ".." => return Err(error(start, "a `.` or `..` segment: write the path without it")),
                "**" => {
                    self.at = end;
                    segments.push(Segment::Deep);
                }
                _ => segments.push(Segment::Parts(self.parts(0)?)),
            }
            if self.at == self.text.len() {
                return Ok(segments);
            }
            self.at += 1;
        }
    }

    /// Parses up to the end of the segment, or of the alternative when `depth` is not zero.
    fn parts(&mut self, depth: usize) -> Result<Vec<Part>, PatternError> {
        let mut parts = Vec::new();
        while let Some(c) = self.rest().chars().next() {
            let at = self.at;
            match c {
                '/' if depth == 0 => break,
                '/' => {
                    let message = "a `/` inside braces: alternatives stay inside one segment; write several patterns";
                    return Err(error(at, message));
                }
                ',' | '}' if depth > 0 => break,
                '}' => return Err(error(at, "a `}` without its `{`")),
                '{' => {
                    parts.push(self.braces(depth)?);
                    continue;
                }
                '*' if self.rest().starts_with("**") => {
                    return Err(error(at, "`**` must be a whole segment: write `*` or `…/**/…`"));
                }
                '*' => parts.push(Part::Any),
                '?' => parts.push(Part::One),
                '[' => return Err(error(at, "there are no character classes; write alternatives: `{a,b}`")),
                '\\' => return Err(error(at, "there is no escape; separate segments with `/`")),
                c if c.is_control() => return Err(error(at, "a control character; no path can hold one")),
                c => parts.push(Part::Char(c)),
            }
            self.at += c.len_utf8();
        }
        Ok(parts)
    }

    /// Parses a variable or an alternation; stands on the `{`.
    fn braces(&mut self, depth: usize) -> Result<Part, PatternError> {
        let open = self.at;
        if depth == DEEPEST {
            return Err(error(open, format!("braces nest deeper than {DEEPEST}")));
        }
        self.at += 1;
        let unclosed = || error(open, "a `{` without its `}`");
        let rest = self.rest();
        let end = rest.find(['{', ',', '}', '/']).ok_or_else(unclosed)?;
        if rest.as_bytes()[end] == b'}' {
            let name = &rest[..end];
            if !is_variable_name(name) {
                let message = format!(
                    "`{{{name}}}` is neither a variable (lower case letters, digits, `_`) nor alternatives (with a comma)"
                );
                return Err(error(open, message));
            }
            self.at += end + 1;
            return Ok(Part::Variable(name.to_owned()));
        }
        let mut alternatives = Vec::new();
        loop {
            alternatives.push(self.parts(depth + 1)?);
            match self.rest().as_bytes().first() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                _ => return Err(unclosed()),
            }
        }
        if alternatives.len() == 1 {
            return Err(error(open, "braces with one alternative: leave the outer braces out"));
        }
        Ok(Part::OneOf(alternatives))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }
}

fn error(offset: usize, message: impl Into<String>) -> PatternError {
    PatternError {
        offset,
        message: message.into(),
    }
}

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}
