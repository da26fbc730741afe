//! The pattern language of rules.
//!
//! Answers for parsing and matching it, in time linear in the text for each piece of the pattern. Leaves out the name in
//! front of the parentheses and what a match means.
//!
//! The language is not that of path patterns: contents are commands, addresses and paths alike, so `*` knows no `/`.

use memchr::memmem;

use super::address;
use crate::text;

/// A parsed content pattern, or a pattern of names.
#[derive(Clone, Debug)]
pub(super) struct Wild {
    pieces: Vec<Piece>,
    end: End,
    wildcards: usize,
}

/// A literal text, and what may stand in front of it.
#[derive(Clone, Debug)]
struct Piece {
    gap: Gap,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    /// Nothing.
    Tight,
    /// Anything.
    Any,
    /// Whole directories: nothing, or anything that ends in `/`. What stands before is the beginning or ends in `/`, so
    /// that it is enough to look where the next piece begins.
    Directories,
}

/// What may stand behind the last piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Nothing.
    Tight,
    /// Anything.
    Open,
    /// Nothing, or a blank and anything.
    Word,
    /// As a word, or a colon and anything.
    WordOrColon,
}

impl End {
    fn takes(self, rest: &[u8]) -> bool {
        match self {
            Self::Tight => rest.is_empty(),
            Self::Open => true,
            Self::Word => matches!(rest.first(), None | Some(b' ')),
            Self::WordOrColon => matches!(rest.first(), None | Some(b' ' | b':')),
        }
    }
}

/// One character of a pattern, with its escape taken off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Literal(char),
    Star,
}

impl Wild {
    /// The pattern of a content.
    pub(super) fn content(text: &str) -> Self {
        Self::of_content(tokens(text))
    }

    /// The pattern of a content in which addresses are written in their plain form.
    pub(super) fn address(text: &str) -> Self {
        let written = |token| match token {
            Token::Literal(c) => c,
            Token::Star => address::STAR,
        };
        let text: String = tokens(text).into_iter().map(written).collect();
        let read = |c| {
            if c == address::STAR {
                Token::Star
            } else {
                Token::Literal(c)
            }
        };
        Self::of_content(address::plain(&text).chars().map(read).collect())
    }

    fn of_content(mut tokens: Vec<Token>) -> Self {
        let stars = tokens.iter().filter(|token| **token == Token::Star).count();
        let end = match tokens.as_slice() {
            [_, .., Token::Literal(':'), Token::Star] => Some(End::WordOrColon),
            [_, .., Token::Literal(' '), Token::Star] if stars == 1 => Some(End::Word),
            _ => None,
        };
        if end.is_some() {
            tokens.truncate(tokens.len() - 2);
        }
        let mut wild = Self::assemble(&tokens);
        // A pattern whose last piece is open anyway takes what a word would.
        if let Some(end) = end
            && wild.end == End::Tight
        {
            wild.end = end;
        }
        wild.wildcards = stars;
        wild
    }

    /// The pattern of a tool's name: `*` alone is special.
    pub(super) fn name(text: &str) -> Self {
        let token = |c| if c == '*' { Token::Star } else { Token::Literal(c) };
        Self::assemble(&text.chars().map(token).collect::<Vec<_>>())
    }

    /// Whether it matches every text.
    pub(super) fn is_everything(&self) -> bool {
        self.end == End::Open && self.pieces.iter().all(|piece| piece.text.is_empty())
    }

    /// Whether it matches one text alone.
    pub(super) fn is_exact(&self) -> bool {
        self.wildcards == 0
    }

    /// The pattern without a `./` that it begins with.
    pub(super) fn without_dot(&self) -> Option<Self> {
        let first = self.pieces.first().filter(|piece| piece.gap == Gap::Tight)?;
        let rest = first.text.strip_prefix("./")?.to_owned();
        let mut wild = self.clone();
        wild.pieces[0].text = rest;
        Some(wild)
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        let text = text.as_bytes();
        let Some((last, before)) = self.pieces.split_last() else {
            return self.end.takes(text);
        };
        // Most patterns that don't match differ from the first letter on.
        if self.pieces[0].gap == Gap::Tight && !text.starts_with(self.pieces[0].text.as_bytes()) {
            return false;
        }
        let mut at = 0;
        // The earliest place for a piece leaves the most room for the others, so nothing has to be tried twice.
        for piece in before {
            match piece.places(text, at).next() {
                Some(place) => at = place + piece.text.len(),
                None => return false,
            }
        }
        if self.end == End::Tight && last.gap != Gap::Tight {
            let Some(place) = text.len().checked_sub(last.text.len()) else {
                return false;
            };
            return place >= at && text.ends_with(last.text.as_bytes()) && last.gap.may_end_at(place, text);
        }
        last.places(text, at)
            .any(|place| self.end.takes(&text[place + last.text.len()..]))
    }

    fn assemble(tokens: &[Token]) -> Self {
        let mut pieces = vec![Piece {
            gap: Gap::Tight,
            text: String::new(),
        }];
        let mut at = 0;
        let mut wildcards = 0;
        while let Some(token) = tokens.get(at) {
            let piece = pieces.last_mut().expect("there is one from the start");
            match token {
                Token::Literal(c) => {
                    piece.text.push(*c);
                    at += 1;
                }
                Token::Star => {
                    let run = tokens[at..].iter().take_while(|token| **token == Token::Star).count();
                    let begins = at == 0 || tokens[at - 1] == Token::Literal('/');
                    let directories = run == 2 && begins && tokens.get(at + run) == Some(&Token::Literal('/'));
                    let gap = if directories { Gap::Directories } else { Gap::Any };
                    wildcards += 1;
                    at += run + usize::from(directories);
                    if piece.text.is_empty() {
                        // Two gaps in a row are as wide as the second: the first one can be nothing, and what it lets
                        // through the second does, too.
                        piece.gap = gap;
                    } else {
                        pieces.push(Piece {
                            gap,
                            text: String::new(),
                        });
                    }
                }
            }
        }
        let end = match pieces.last() {
            Some(piece) if piece.gap == Gap::Any && piece.text.is_empty() => {
                pieces.pop();
                End::Open
            }
            _ => End::Tight,
        };
        Self { pieces, end, wildcards }
    }
}

impl Piece {
    /// Where it may stand from `at` on, in order.
    fn places<'a>(&'a self, text: &'a [u8], at: usize) -> Box<dyn Iterator<Item = usize> + 'a> {
        let piece = self.text.as_bytes();
        let rest = text.get(at..).unwrap_or_default();
        match self.gap {
            Gap::Tight => Box::new(rest.starts_with(piece).then_some(at).into_iter()),
            Gap::Any => {
                let finder = memmem::Finder::new(piece);
                let mut from = at;
                Box::new(std::iter::from_fn(move || {
                    let place = from + finder.find(text.get(from..)?)?;
                    from = place + 1;
                    Some(place)
                }))
            }
            Gap::Directories => {
                let slashes = memchr::memchr_iter(b'/', rest).map(move |slash| at + slash + 1);
                let starts = std::iter::once(at).filter(move |at| Gap::Directories.may_end_at(*at, text));
                Box::new(
                    starts
                        .chain(slashes)
                        .filter(move |place| text.get(*place..).is_some_and(|rest| rest.starts_with(piece))),
                )
            }
        }
    }
}

impl Gap {
    fn may_end_at(self, place: usize, text: &[u8]) -> bool {
        self != Self::Directories || place == 0 || text[place - 1] == b'/'
    }
}

/// Takes off the escapes: `\*`, `\(`, `\)`, `\\` and `\u{…}`; any other `\` is itself.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let (token, left) = match (c, after.chars().next()) {
            ('\\', Some(escaped @ ('*' | '(' | ')' | '\\'))) => (Token::Literal(escaped), &after[1..]),
            ('\\', Some('u')) => match code_point(after) {
                Some((escaped, left)) => (Token::Literal(escaped), left),
                None => (Token::Literal('\\'), after),
            },
            ('*', _) => (Token::Star, after),
            _ => (Token::Literal(c), after),
        };
        tokens.push(token);
        rest = left;
    }
    tokens
}

/// The character of a text that begins with `u{…}`, and what follows.
fn code_point(text: &str) -> Option<(char, &str)> {
    let (digits, rest) = text.strip_prefix("u{")?.split_once('}')?;
    let fits = (1..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let c = u32::from_str_radix(digits, 16).ok().filter(|_| fits)?;
    Some((char::from_u32(c)?, rest))
}

/// Writes a value so that a pattern takes it literally, in one line and in one direction.
pub(super) fn escape_into(value: &str, escaped: &mut String) {
    use std::fmt::Write as _;
    for c in value.chars() {
        match c {
            '*' | '(' | ')' | '\\' => escaped.extend(['\\', c]),
            c if c.is_control() || text::is_invisible(c) => {
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_match_anything_and_a_last_word_may_be_missing() {
        for (pattern, yes, no) in [
            ("git status", &["git status"][..], &["git status -s", "git", ""][..]),
            (
                "git status*",
                &["git status", "git status -s", "git statusx"],
                &["git stat"],
            ),
            ("git *", &["git", "git status", "git a/b\nc"], &["gitx", "agit x"]),
            ("npm:*", &["npm", "npm test", "npm:x"], &["npmx"]),
            ("domain:*", &["domain:example.com", "domain"], &["domains"]),
            (
                "git * main",
                &["git checkout main", "git  main"],
                &["git main", "git x mainly"],
            ),
            (
                "* --version",
                &["x --version", " --version"],
                &["--version", "x --versions"],
            ),
            ("src/**", &["src/a", "src/a/b", "src/"], &["src", "asrc/a"]),
            (
                "src/**/*.ts",
                &["src/a.ts", "src/b/a.ts", "src/b/c/.ts"],
                &["src/a.tsx", "a.ts"],
            ),
            (
                "**/.env",
                &[".env", "a/.env", "a/b/.env"],
                &["a.env", ".env/a", "a/x.env"],
            ),
            (
                "a/**/b/**/c",
                &["a/b/c", "a/x/b/y/z/c", "a/b/b/c"],
                &["a/xb/c", "ab/c", "a/b/xc"],
            ),
            ("a/**/b *", &["a/b ", "a/x/b y"], &["a/xb y", "a/b"]),
            ("a**b", &["ab", "a/x/b"], &["a", "b"]),
            ("***/x", &["/x", "a/x"], &["x"]),
            (r"\*", &["*"], &["x", r"\*"]),
            (r"\(a\)", &["(a)"], &["a"]),
            (r"C:\dir\\x", &[r"C:\dir\x"], &[]),
            (r"a\u{a}b", &["a\nb"], &["a b"]),
            (r"\u{zz}", &[r"\u{zz}"], &[]),
            (r"ls \*", &["ls *"], &["ls", "ls x"]),
            ("*", &["", "anything"], &[]),
            ("a?[b]", &["a?[b]"], &["ax[b]", "ab"]),
            ("é*ü", &["éü", "é-ü"], &["é"]),
        ] {
            let wild = Wild::content(pattern);
            for text in yes {
                assert!(wild.matches(text), "{pattern:?} should match {text:?}");
            }
            for text in no {
                assert!(!wild.matches(text), "{pattern:?} should not match {text:?}");
            }
        }
        assert!(Wild::content("*").is_everything() && Wild::content("**").is_everything());
        assert!(!Wild::content("**/").is_everything() && !Wild::content("a *").is_everything());
        assert!(Wild::content(r"\*").is_exact() && !Wild::content("a:*").is_exact());
    }

    /// The language written down as rules, without a thought of cost.
    fn naive(tokens: &[Token], begins: bool, text: &[char]) -> bool {
        match tokens {
            [] => text.is_empty(),
            [Token::Star, Token::Star, Token::Literal('/'), rest @ ..] if begins => {
                let ends: Vec<usize> = (0..text.len()).filter(|at| text[*at] == '/').map(|at| at + 1).collect();
                std::iter::once(0)
                    .chain(ends)
                    .any(|end| naive(rest, true, &text[end..]))
            }
            [Token::Star, ..] => {
                let run = tokens.iter().take_while(|token| **token == Token::Star).count();
                (0..=text.len()).any(|end| naive(&tokens[run..], false, &text[end..]))
            }
            [Token::Literal(c), rest @ ..] => text.first() == Some(c) && naive(rest, *c == '/', &text[1..]),
        }
    }

    fn model(pattern: &str, text: &str) -> bool {
        let tokens = tokens(pattern);
        let text: Vec<char> = text.chars().collect();
        let stars = tokens.iter().filter(|token| **token == Token::Star).count();
        let shorter = &tokens[..tokens.len().saturating_sub(2)];
        let with = |c: char| [shorter, &[Token::Literal(c), Token::Star]].concat();
        let bare = |tokens: &[Token]| naive(tokens, true, &text);
        match tokens.as_slice() {
            [_, .., Token::Literal(':'), Token::Star] => bare(shorter) || bare(&with(' ')) || bare(&with(':')),
            [_, .., Token::Literal(' '), Token::Star] if stars == 1 => bare(shorter) || bare(&with(' ')),
            _ => bare(&tokens),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("DEVLOOP_LONG").is_some() { 1_000_000 } else { 4_000 }))]
        #[test]
        fn matching_is_what_the_rules_say(pattern in r"[ab/*: \\]{0,9}", text in "[ab/*: ]{0,8}") {
            prop_assert_eq!(Wild::content(&pattern).matches(&text), model(&pattern, &text));
        }

        #[test]
        fn an_escaped_text_matches_itself_alone(text in any::<String>(), other in any::<String>()) {
            let mut escaped = String::new();
            escape_into(&text, &mut escaped);
            let wild = Wild::content(&escaped);
            prop_assert!(wild.matches(&text) && wild.is_exact());
            prop_assert_eq!(wild.matches(&other), text == other);
            prop_assert!(!escaped.contains(char::is_control));
        }
    }
}
