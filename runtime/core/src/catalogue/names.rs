//! Names under which the tools of upstream servers are served.
//!
//! Answers for a name that every client takes and that belongs to one original alone: `<server>__<tool>`, each segment
//! at most 20 characters out of `[A-Za-z0-9_-]`. Leaves out who is served.
//!
//! A segment that is fit stays as it is. Any other one is brought into Unicode normal form NFKC, stripped of what is
//! foreign, cut, and gets a suffix made from its original by a hash. What could be read as such a suffix, or could make
//! the two segments part elsewhere, counts as unfit as well, and so does the server `mcp`, as `mcp__x` means the server `x`: so an original never meets another one's made-up name.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use unicode_normalization::UnicodeNormalization;

/// The longest segment.
pub const SEGMENT: usize = 20;

/// How many characters of the hash are shown: 50 bits.
const HASH: usize = 10;

/// The served name of a server's tool.
///
/// ```
/// use devloop_core::catalogue::names::served;
///
/// assert_eq!(served("github", "list_issues"), "github__list_issues");
/// assert_eq!(served("github", "list issues"), "github__listissue-qday4qvvvo");
/// ```
pub fn served(server: &str, tool: &str) -> String {
    let mut name = prefix(server);
    name.push_str(&segment(tool, First::Any));
    name
}

/// Whether a served name can be one of a server's tools.
///
/// ```
/// use devloop_core::catalogue::names::is_of;
///
/// assert!(is_of("github", "github__list_issues"));
/// assert!(!is_of("git", "github__list_issues"));
/// ```
pub fn is_of(server: &str, name: &str) -> bool {
    name.starts_with(&prefix(server))
}

/// What the names of a server's tools begin with.
pub fn prefix(server: &str) -> String {
    let mut prefix = segment(server, First::Letter);
    prefix.push_str("__");
    prefix
}

/// What tells names apart for a person: letters and digits alone, in lower case, without made-up suffixes.
pub(super) fn plain(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    for segment in name.split("__") {
        let kept = if has_suffix(segment) {
            &segment[..segment.len() - HASH - 1]
        } else {
            segment
        };
        let letters = kept.nfkc().filter(|c| c.is_alphanumeric());
        plain.extend(letters.flat_map(char::to_lowercase));
    }
    plain
}

/// What a segment may begin with. Some providers want a letter at the beginning of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Letter,
    Any,
}

fn segment(original: &str, first: First) -> String {
    if is_fit(original, first) {
        return original.to_owned();
    }
    let kept: String = original.nfkc().filter(|c| is_plain(*c)).collect();
    let mut name = String::with_capacity(SEGMENT);
    for c in kept.chars() {
        if name.len() == SEGMENT - HASH - 1 {
            break;
        }
        // Neither at an end nor twice: the seam between segments has to be the only double line.
        if c != '_' || !(name.is_empty() || name.ends_with('_')) {
            name.push(c);
        }
    }
    while name.ends_with(['_', '-']) {
        name.pop();
    }
    let begins = |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic());
    if name.is_empty() || (first == First::Letter && !begins(&name)) {
        name.insert(0, 'x');
        name.truncate(SEGMENT - HASH - 1);
    }
    let _ = write!(name, "-{}", hash(original));
    name
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn is_fit(segment: &str, first: First) -> bool {
    let begins = |c: char| match first {
        First::Letter => c.is_ascii_alphabetic(),
        First::Any => c.is_ascii_alphanumeric(),
    };
    segment.len() <= SEGMENT
        && segment.starts_with(begins)
        && segment.chars().all(is_plain)
        && !segment.contains("__")
        && !segment.ends_with('_')
        && !has_suffix(segment)
        // `mcp__x` is how rules and clients call the server `x`.
        && !(first == First::Letter && segment.eq_ignore_ascii_case("mcp"))
}

/// Whether a segment ends as a made-up one does.
fn has_suffix(segment: &str) -> bool {
    let at = segment.len().saturating_sub(HASH);
    segment
        .split_at_checked(at)
        .is_some_and(|(before, end)| before.ends_with('-') && end.bytes().all(|b| ALPHABET.contains(&b)))
}

/// The 32 characters of base 32 in lower case.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

fn hash(original: &str) -> String {
    let digest = Sha256::digest(original.as_bytes());
    let mut bits = digest[..8]
        .iter()
        .fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    let mut text = String::with_capacity(HASH);
    for _ in 0..HASH {
        text.push(char::from(ALPHABET[usize::try_from(bits >> 59).unwrap_or(0)]));
        bits <<= 5;
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::catalogue::testing::runner;

    #[test]
    fn a_fit_name_stays_as_it_is() {
        assert_eq!(served("github", "create-issue_2"), "github__create-issue_2");
        assert_eq!(served("a", "0"), "a__0");
    }

    #[test]
    fn a_segment_has_20_characters_and_a_longer_one_is_cut_to_as_many() {
        let fit = "a".repeat(20);
        assert_eq!(served(&fit, &fit), format!("{fit}__{fit}"));
        let long = "a".repeat(21);
        let name = served(&long, &long);
        assert_eq!(name.len(), 42, "{name}");
        assert!(
            name.split("__").all(|segment| segment.starts_with("aaaaaaaaa-")),
            "{name}"
        );
    }

    #[test]
    fn every_other_name_gets_a_suffix_of_its_own() {
        for (server, tool) in [
            ("git hub", "x"),
            ("github", "a__b"),
            ("github", "_a"),
            ("github", "a_"),
            ("github_", "a"),
            ("9github", "a"),
            ("github", "a_name_of_more_than_twenty"),
            ("github", "list.issues"),
            ("github", "列表"),
            ("github", ""),
            ("", ""),
            ("github", "ﬁle"),
            // As if it were the name of a server.
            ("mcp", "github"),
            ("Mcp", "github"),
            // As if it had been made up.
            ("github", "list-aaaaaaaaaa"),
        ] {
            let name = served(server, tool);
            assert_ne!(name, format!("{server}__{tool}"));
            check(&name);
        }
        assert!(served("github", "ﬁle").starts_with("github__file-"));
        assert_ne!(served("github", "ﬁle"), served("github", "file"));
        assert_ne!(served("a", "b_c"), served("a_b", "c"));
    }

    fn check(name: &str) {
        assert!(name.len() <= 2 * SEGMENT + 2, "{name}");
        assert!(format!("mcp__devloop__{name}").len() <= 64, "{name}");
        assert!(
            name.chars().all(is_plain) && name.starts_with(|c: char| c.is_ascii_alphabetic()),
            "{name}"
        );
        let seams: Vec<_> = name.match_indices("__").collect();
        assert_eq!(seams.len(), 1, "{name}");
        assert!(!name.contains("___"), "{name}");
    }

    /// Names that lie close to each other.
    fn original() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => "[ab_\\-2]{0,4}",
            1 => "[mM][cC][pP]",
            2 => "[aA_\\-. é列ﬁ①Ａ\u{0}]{0,6}",
            1 => "[a-c]{1,3}-[ab2]{10}",
            1 => "[ab]{18,23}",
            1 => any::<String>(),
        ]
    }

    #[test]
    fn two_originals_never_meet_in_one_name() {
        let many = proptest::collection::vec((original(), original()), 40);
        runner(250)
            .run(&many, |originals| {
                let mut owners: HashMap<String, (String, String)> = HashMap::new();
                for (server, tool) in originals {
                    let name = served(&server, &tool);
                    check(&name);
                    prop_assert!(is_of(&server, &name));
                    let (one, other) = name.split_once("__").unwrap();
                    prop_assert!(one.len() <= SEGMENT && other.len() <= SEGMENT);
                    let pair = (server, tool);
                    if let Some(earlier) = owners.insert(name.clone(), pair.clone()) {
                        prop_assert_eq!(earlier, pair, "both are {}", name);
                    }
                }
                Ok(())
            })
            .unwrap();
    }
}
