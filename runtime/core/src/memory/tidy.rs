//! Texts as they are kept: what an agent sends can hold anything.
//!
//! Answers for titles of one line, contents without what a terminal would obey, and file names made from titles. Leaves
//! out how texts are written into a file (`front`).

use unicode_normalization::UnicodeNormalization;

/// The most characters and bytes that a title gives to a file's name.
const LONGEST_SLUG: usize = 48;
const LONGEST_SLUG_BYTES: usize = 120;
/// The name of what has no letter and no digit.
const NAMELESS: &str = "note";

/// A title in one line: without control characters and signs that change the direction of a text, with single spaces.
pub fn tidy_title(title: &str) -> String {
    let plain: String = without_escapes(title)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .filter(|c| !turns(*c))
        .collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A content with plain line ends, without other control characters and without blank lines around it.
pub fn tidy_content(content: &str) -> String {
    let content = without_escapes(content)
        .replace("\r\n", "\n")
        .replace(['\r', '\u{85}', '\u{2028}', '\u{2029}'], "\n");
    let kept: String = content
        .chars()
        .filter(|c| matches!(c, '\n' | '\t') || !c.is_control() && !turns(*c))
        .collect();
    kept.trim_matches('\n').trim_end().to_owned()
}

/// The part of a file's name that comes from a title: letters and digits of any script, with `-` for all else; `note`
/// when there are none.
pub fn slug(title: &str) -> String {
    let mut slug = String::new();
    let mut gap = false;
    let mut length = 0;
    for character in title.nfkc().flat_map(char::to_lowercase).nfc() {
        if !character.is_alphanumeric() {
            gap = true;
            continue;
        }
        let dash = usize::from(gap && !slug.is_empty());
        if length + dash + 1 > LONGEST_SLUG || slug.len() + dash + character.len_utf8() > LONGEST_SLUG_BYTES {
            break;
        }
        if dash == 1 {
            slug.push('-');
        }
        slug.push(character);
        length += dash + 1;
        gap = false;
    }
    // What was left out in between can have brought two characters together that are written as one.
    let slug: String = slug.nfc().collect();
    if slug.is_empty() { NAMELESS.to_owned() } else { slug }
}

/// Signs that change the direction of a text, so that it reads as another one.
fn turns(character: char) -> bool {
    matches!(character, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// A text without the sequences that colour a terminal or set its title.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1B}') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(sequence) = rest.strip_prefix('[') {
            let end = sequence.find(|c: char| ('@'..='~').contains(&c) || !c.is_ascii() || c.is_control());
            rest = match end {
                Some(end) if sequence.as_bytes()[end].is_ascii() && !sequence.as_bytes()[end].is_ascii_control() => {
                    &sequence[end + 1..]
                }
                // Cut off: what follows is text again.
                Some(end) => &sequence[end..],
                None => "",
            };
        } else if let Some(sequence) = rest.strip_prefix(']') {
            let end = sequence.find(['\u{7}', '\u{1B}', '\n']);
            rest = end.map_or("", |end| sequence[end..].trim_start_matches('\u{7}'));
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sandbox::RelPath;

    #[test]
    fn titles_have_one_line_and_contents_obey_no_terminal() {
        assert_eq!(tidy_title("  a\nb\t\u{1B}[31mred\u{1B}[0m \u{202E}c\u{0}"), "a b red c");
        assert_eq!(
            tidy_content("\r\n a\r\nb\rc\u{1B}]0;title\u{7}d\u{1B}[1;2Ke\u{8} \n\n"),
            " a\nb\ncde"
        );
        assert_eq!(tidy_content("\u{1B}[31"), "");
        assert_eq!(tidy_content("\u{1B}[3文x"), "文x");
        assert_eq!(tidy_content("---\nid: x\n---"), "---\nid: x\n---");
    }

    #[test]
    fn a_slug_keeps_letters_of_every_script() {
        assert_eq!(slug("The test database is shared!"), "the-test-database-is-shared");
        assert_eq!(slug("测试数据库 是共享的。"), "测试数据库-是共享的");
        assert_eq!(slug("../../etc/passwd\\NUL:"), "etc-passwd-nul");
        assert_eq!(slug("Ünïcode ① Café"), "ünïcode-1-café");
        assert_eq!(slug("?!… ---"), "note");
        assert_eq!(slug(&"长".repeat(100)), "长".repeat(40));
        assert_eq!(slug(&"ab ".repeat(40)).len(), 47);
    }

    proptest! {
        #[test]
        fn every_title_makes_a_file_name(title in any::<String>()) {
            let name = format!("{}-1a2b3c4d.md", slug(&title));
            prop_assert!(RelPath::parse(&name).is_ok(), "{}", name);
            prop_assert!(!name.contains('/') && name.len() < 200);
        }

        #[test]
        fn tidying_twice_changes_nothing(text in "[a-c \\n\\r\\t\u{1B}\\[\\];m0-9\u{7}\u{202E}文-]{0,30}") {
            let title = tidy_title(&text);
            prop_assert_eq!(&tidy_title(&title), &title);
            prop_assert!(!title.contains(char::is_control));
            let content = tidy_content(&text);
            prop_assert_eq!(&tidy_content(&content), &content);
            prop_assert!(!content.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
        }
    }
}
