//! A part of an artifact's text.
//!
//! Answers for where a part begins and ends, so that parts read one after the other are the whole text: never inside of a
//! character, and by lines where the caller counts in lines. Leaves out reading the artifact.

/// Where a part begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// At a byte, from 0 on; inside of a character at the beginning of that one.
    Offset(u64),
    /// At a line, from 1 on. The part then ends with a whole line, unless that line alone has no room.
    Line(u64),
}

/// How much a part may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The most bytes; any character has room in 4.
    pub bytes: u64,
    /// The most lines.
    pub lines: u64,
    /// The most characters of it as a JSON text, without its quotes; any character has room in 6.
    pub written: u64,
}

/// A part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The byte at which it begins.
    pub offset: u64,
    /// The part.
    pub text: String,
    /// The byte at which the next part begins; `None` at the end.
    pub next_offset: Option<u64>,
    /// The line at which the next part begins; `None` at the end and inside of a line.
    pub next_line: Option<u64>,
}

/// Why there is no such part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPage {
    /// It is no text in UTF-8.
    NotText,
    /// It ends before that place.
    OutOfRange {
        /// How many lines it has, when one was asked for.
        lines: Option<u64>,
    },
}

/// The part of a text that begins there and has room. A page that is not at the end has at least one character. Linear in
/// the text.
///
/// # Errors
/// The bytes are no text; the place is beyond the end. At the very end of a text there is an empty part.
pub fn page(bytes: &[u8], from: From, room: Room) -> Result<Page, NoPage> {
    let text = std::str::from_utf8(bytes).map_err(|_| NoPage::NotText)?;
    let start = match from {
        From::Offset(offset) => usize::try_from(offset)
            .ok()
            .filter(|offset| *offset <= text.len())
            .map(|offset| text.floor_char_boundary(offset))
            .ok_or(NoPage::OutOfRange { lines: None })?,
        From::Line(line) => start_of_line(text, line).ok_or_else(|| NoPage::OutOfRange {
            lines: Some(lines_of(text)),
        })?,
    };
    let (mut end, mut after_line) = (start, None);
    let (mut lines, mut written) = (0, 0);
    for c in text[start..].chars() {
        let next = end + c.len_utf8();
        written += written_chars(c);
        if (next - start) as u64 > room.bytes.max(4) || written > room.written.max(6) {
            break;
        }
        end = next;
        if c == '\n' {
            lines += 1;
            after_line = Some(end);
            if lines >= room.lines {
                break;
            }
        }
    }
    if matches!(from, From::Line(_))
        && end < text.len()
        && let Some(after) = after_line
    {
        end = after;
    }
    let is_over = end == text.len();
    let before = || 1 + text[..end].bytes().filter(|byte| *byte == b'\n').count() as u64;
    Ok(Page {
        offset: start as u64,
        text: text[start..end].to_owned(),
        next_offset: (!is_over).then_some(end as u64),
        next_line: (!is_over && text[..end].ends_with('\n')).then(before),
    })
}

/// A text that ends with a line end has no empty line after it.
fn lines_of(text: &str) -> u64 {
    text.lines().count() as u64
}

fn start_of_line(text: &str, line: u64) -> Option<usize> {
    if line <= 1 {
        return (line == 1).then_some(0);
    }
    let before = usize::try_from(line - 2).ok()?;
    let end = text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| *byte == b'\n')
        .nth(before)?
        .0;
    (end + 1 < text.len()).then_some(end + 1)
}

fn written_chars(c: char) -> u64 {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WIDE: Room = Room {
        bytes: 1_000,
        lines: 1_000,
        written: 1_000,
    };

    #[test]
    fn a_part_ends_at_a_character_and_says_where_the_next_one_begins() {
        let text = "aé\u{1F980}z".as_bytes();
        let four = Room { bytes: 4, ..WIDE };
        let first = page(text, From::Offset(0), four).unwrap();
        assert_eq!(
            (first.text.as_str(), first.next_offset, first.next_line),
            ("aé", Some(3), None)
        );
        // In the middle of the crab.
        let crab = page(text, From::Offset(5), four).unwrap();
        assert_eq!(
            (crab.offset, crab.text.as_str(), crab.next_offset),
            (3, "\u{1F980}", Some(7))
        );
        let end = page(text, From::Offset(8), four).unwrap();
        assert_eq!((end.text.as_str(), end.next_offset), ("", None));
        assert_eq!(
            page(text, From::Offset(9), four),
            Err(NoPage::OutOfRange { lines: None })
        );
        assert_eq!(page(b"a\xff", From::Offset(0), four), Err(NoPage::NotText));
    }

    #[test]
    fn lines_are_whole_unless_one_alone_is_too_long() {
        let text = b"one\ntwo\nthree is long\nfour";
        let two = Room { lines: 2, ..WIDE };
        let first = page(text, From::Line(1), two).unwrap();
        assert_eq!(
            (first.text.as_str(), first.next_line, first.next_offset),
            ("one\ntwo\n", Some(3), Some(8))
        );
        let six = Room { bytes: 6, ..WIDE };
        assert_eq!(page(text, From::Line(1), six).unwrap().text, "one\n");
        let long = page(text, From::Line(3), six).unwrap();
        assert_eq!(
            (long.text.as_str(), long.next_line, long.next_offset),
            ("three ", None, Some(14))
        );
        let last = page(text, From::Line(4), six).unwrap();
        assert_eq!(
            (last.text.as_str(), last.next_line, last.next_offset),
            ("four", None, None)
        );
        for line in [0, 5, u64::MAX] {
            assert_eq!(
                page(text, From::Line(line), six),
                Err(NoPage::OutOfRange { lines: Some(4) })
            );
        }
        assert_eq!(
            page(b"a\n", From::Line(2), six),
            Err(NoPage::OutOfRange { lines: Some(1) })
        );
        assert_eq!(page(b"", From::Line(1), six).unwrap().text, "");
    }

    #[test]
    fn what_json_writes_longer_counts_as_it_is_written() {
        let room = Room { written: 12, ..WIDE };
        assert_eq!(
            page("\u{1}\u{2}\u{3}".as_bytes(), From::Offset(0), room).unwrap().text,
            "\u{1}\u{2}"
        );
        assert_eq!(
            page("\"".repeat(9).as_bytes(), From::Offset(0), room).unwrap().text,
            "\"".repeat(6)
        );
    }

    proptest! {
        #[test]
        fn parts_one_after_the_other_are_the_text(
            text in "([a-c\n\"\u{1}é\u{1F980}]|\n){0,60}",
            bytes in 0_u64..12,
            lines in 1_u64..4,
            written in 0_u64..20,
            by_line: bool,
        ) {
            let room = Room { bytes, lines, written };
            let mut from = if by_line { From::Line(1) } else { From::Offset(0) };
            let mut all = String::new();
            loop {
                let part = page(text.as_bytes(), from, room).unwrap();
                prop_assert_eq!(part.offset, all.len() as u64);
                prop_assert!(part.text.len() as u64 <= bytes.max(4));
                prop_assert!(part.text.matches('\n').count() as u64 <= lines);
                let json = serde_json::to_string(&part.text).unwrap();
                prop_assert!(json.chars().count() as u64 - 2 <= written.max(6));
                all.push_str(&part.text);
                let Some(offset) = part.next_offset else { break };
                prop_assert!(!part.text.is_empty());
                if let Some(line) = part.next_line {
                    let there = page(text.as_bytes(), From::Line(line), room).unwrap();
                    prop_assert_eq!(there.offset, offset);
                }
                from = match part.next_line {
                    Some(line) if by_line => From::Line(line),
                    _ => From::Offset(offset),
                };
            }
            prop_assert_eq!(all, text);
        }
    }
}
