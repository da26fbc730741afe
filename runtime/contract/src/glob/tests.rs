//! The pattern language by tables, and against a second matcher that follows the definition alone.

use super::syntax::{Part, Segment};
use super::*;

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn cover(sub: &str, sup: &[&str]) -> Result<(), String> {
    let sup: Vec<Pattern> = sup.iter().map(|text| pattern(text)).collect();
    covered_by(&pattern(sub), &sup)
}

#[test]
fn matching_by_table() {
    let table: &[(&str, &[&str], &[&str])] = &[
        (
            "prd/**",
            &["prd/a", "prd/a/b.html"],
            &["prd", "prd-evil/x", "x/prd/a", "prd/", "prd//a", "PRD/a"],
        ),
        ("**/x", &["x", "a/x", "a/b/x"], &["xx", "a/xx", "x/a", "/x"]),
        ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["ab", "a/xb", "a", "a//b"]),
        (
            "**",
            &["a", "a/b", ".git/x"],
            &["", "/", "a/..", "../a", "a/./b", "a//b"],
        ),
        ("*", &["a", ".a", "..."], &["", ".", "..", "a/b"]),
        ("a/*/c", &["a/b/c"], &["a/c", "a//c", "a/b/b/c"]),
        ("a?c", &["abc", "a文c"], &["ac", "a/c", "abbc"]),
        (
            "u/{t,te*,}x.js",
            &["u/tx.js", "u/text.test.x.js", "u/x.js"],
            &["u/ax.js", "u/t/x.js"],
        ),
        ("{a,{b,c}d}", &["a", "bd", "cd"], &["b", "d", "ad"]),
        (
            "s/{agent}.json",
            &["s/pm.json", "s/a.b.json"],
            &["s/.json", "s/a/b.json"],
        ),
        ("a,b", &["a,b"], &["a"]),
        (
            "units/*/logs/**",
            &["units/u1/logs/a"],
            &["units/logs/a", "units/u/x/logs/a"],
        ),
    ];
    for (text, yes, no) in table {
        for path in *yes {
            assert!(pattern(text).matches(path), "{text} should match {path}");
        }
        for path in *no {
            assert!(!pattern(text).matches(path), "{text} should not match {path:?}");
        }
    }
}

#[test]
fn a_directory_may_hold_matches() {
    let p = pattern("units/{unit_id}/{test,reports}/**");
    for dir in ["units", "units/u1", "units/u1/test", "units/u1/reports/a"] {
        assert!(p.may_match_below(dir), "{dir}");
    }
    for dir in ["unit", "units/u1/src", "units//test", "units/..", "", "units/u1/tes"] {
        assert!(!p.may_match_below(dir), "{dir}");
    }
    assert!(!pattern("a/b").may_match_below("a/b"));
}

#[test]
fn errors_name_the_place() {
    let table = [
        ("", 0, "empty"),
        ("/a", 0, "leading"),
        ("a//b", 2, "empty segment"),
        ("a/", 1, "trailing"),
        ("a/../b", 2, "`..`"),
        ("./a", 0, "`.`"),
        ("a/b**", 3, "whole segment"),
        ("a/***", 2, "whole segment"),
        ("{a,**}", 3, "whole segment"),
        ("文/[ab]", 4, "character classes"),
        ("a\\b", 1, "escape"),
        ("a/{b", 2, "without its `}`"),
        ("a/{b,c", 2, "without its `}`"),
        ("a}", 1, "without its `{`"),
        ("{}", 0, "neither"),
        ("{Unit}", 0, "neither"),
        ("{a/b,c}", 2, "inside braces"),
        ("{{a}}", 0, "one alternative"),
        ("a\0", 1, "control"),
        ("{a,{a,{a,{a,{a,{a,{a,{a,{a,b}}}}}}}}}", 24, "deeper"),
    ];
    for (text, offset, part) in table {
        let error = Pattern::parse(text).expect_err(text);
        assert_eq!(error.offset, offset, "{text}: {error}");
        assert!(error.message.contains(part), "{text}: {error}");
    }
}

#[test]
fn variables_bind_to_literal_alternatives() {
    let p = pattern("s/{state_key}-{kind}.{state_key}");
    assert_eq!(p.variables(), ["state_key", "kind"]);
    let bound =
        p.bind(&|name| (name == "state_key").then(|| vec!["pm".into(), "*".into(), "a/b".into(), String::new()]));
    assert_eq!(bound.text(), "s/{pm,*}-{kind}.{pm,*}");
    assert_eq!(bound.variables(), ["kind"]);
    assert!(bound.matches("s/*-x.pm"));
    assert!(!bound.matches("s/a-x.pm"));
    assert!(!bound.matches("s/a/b-x.pm"));
    let nothing = p.bind(&|_| Some(Vec::new()));
    assert!(!nothing.matches("s/-."));
    assert_eq!(p.bind(&|_| None), p);
    assert_eq!(covered_by(&nothing, &[]), Ok(()));
}

#[test]
fn covering_by_table() {
    let table: &[(&str, &[&str], Option<&str>)] = &[
        ("prd/a/*.html", &["prd/**"], None),
        ("prd/**", &["prd/*"], Some("prd/a/a")),
        ("a/{b,c}", &["a/b", "a/c"], None),
        ("a/{b,c}", &["a/b"], Some("a/c")),
        ("**", &["*", "*/**"], None),
        ("**/x", &["x", "**/*/x"], None),
        ("agent-state/{state_key}-todo.json", &["agent-state/**"], None),
        ("agent-state/{state_key}-todo.json", &["agent-state/{state_key}*"], None),
        ("agent-state/{state_key}-todo.json", &["agent-state/*-todo.json"], None),
        (
            "agent-state/{state_key}.json",
            &["agent-state/{agent}.json"],
            Some("agent-state/{state_key}.json"),
        ),
        ("{n}", &["?", "??"], Some("{n}")),
        ("{n}", &["?*"], None),
        ("{n}", &["*?"], None),
        ("{n}", &["??*"], Some("{n}")),
        ("{n}", &["?", "??*"], None),
        ("{n}", &["?", "???*"], Some("{n}")),
        ("{n}", &["?*a", "*b"], Some("{n}")),
        ("{n}{slug}", &["?*"], None),
        ("{n}{slug}", &["???*"], Some("{n}{slug}")),
        ("a/{slug}.html", &["a/?*.html"], None),
        ("a/{slug}.html", &["a/{slug}?*"], None),
        ("*", &["{n}"], Some("a")),
        ("u/{unit_id}/t", &["u/{unit_id}/**"], None),
        ("u/{unit_id}/t", &["u/pm/**"], Some("u/{unit_id}/t")),
        ("a*b*", &["a*"], None),
        ("a*", &["a*b*", "a"], Some("ac")),
        ("?", &["{a,?}"], None),
        ("a", &[], Some("a")),
    ];
    for (sub, sup, expected) in table {
        assert_eq!(cover(sub, sup).err().as_deref(), *expected, "{sub} by {sup:?}");
    }
}

#[test]
fn a_blow_up_is_not_covered_and_says_so() {
    // Covered in truth: one of the two holds whatever the 41st last character is. But telling needs all of them.
    let sub = "{a,b}".repeat(60);
    let tail = "?".repeat(40);
    let answer = cover(&sub, &[&format!("*a{tail}"), &format!("*b{tail}")]);
    assert!(answer.is_err_and(|text| text.contains("undecided")));
}

#[test]
fn a_pattern_made_to_backtrack_takes_one_pass() {
    let p = pattern(&format!("{}b", "*a".repeat(120)));
    assert!(!p.matches(&"a".repeat(1_000)));
    assert!(pattern(&"a".repeat(1_000)).matches(&"a".repeat(1_000)));
}

/// A small generator of random numbers, so that the contract needs no crate for its tests.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn pattern(&mut self) -> Pattern {
        loop {
            let mut text = String::new();
            for index in 0..=self.below(4) {
                if index > 0 {
                    text.push('/');
                }
                if self.below(4) == 0 {
                    text.push_str("**");
                    continue;
                }
                for _ in 0..=self.below(3) {
                    text.push_str(self.pick(&["a", "b", ".", "*", "?", "{a,b}", "{b*,}", "{a,{?b,.}}"]));
                }
            }
            if let Ok(pattern) = Pattern::parse(&text) {
                return pattern;
            }
        }
    }

    fn path(&mut self) -> String {
        let mut path = String::new();
        for index in 0..=self.below(4) {
            if index > 0 {
                path.push('/');
            }
            for _ in 0..self.below(4) {
                path.push_str(self.pick(&["a", "b", ".", "c"]));
            }
        }
        path
    }
}

/// A second, slow matcher by the definition alone.
fn matches_by_definition(pattern: &Pattern, path: &str) -> bool {
    fn parts_match(parts: &[&Part], text: &[char]) -> bool {
        let Some((part, rest)) = parts.split_first() else {
            return text.is_empty();
        };
        match part {
            Part::Char(c) => text.first() == Some(c) && parts_match(rest, &text[1..]),
            Part::One => !text.is_empty() && parts_match(rest, &text[1..]),
            Part::Any => (0..=text.len()).any(|taken| parts_match(rest, &text[taken..])),
            Part::Variable(_) => (1..=text.len()).any(|taken| parts_match(rest, &text[taken..])),
            Part::OneOf(alternatives) => alternatives.iter().any(|alternative| {
                let parts: Vec<&Part> = alternative.iter().chain(rest.iter().copied()).collect();
                parts_match(&parts, text)
            }),
        }
    }
    fn segments_match(segments: &[Segment], path: &[&str]) -> bool {
        match segments.split_first() {
            None => path.is_empty(),
            Some((Segment::Deep, [])) => !path.is_empty(),
            Some((Segment::Deep, rest)) => (0..=path.len()).any(|taken| segments_match(rest, &path[taken..])),
            Some((Segment::Parts(parts), rest)) => path.split_first().is_some_and(|(segment, path)| {
                let text: Vec<char> = segment.chars().collect();
                parts_match(&parts.iter().collect::<Vec<_>>(), &text) && segments_match(rest, path)
            }),
        }
    }
    let path: Vec<&str> = path.split('/').collect();
    !path.iter().any(|segment| matches!(*segment, "" | "." | "..")) && segments_match(&pattern.segments, &path)
}

fn rounds(normal: usize, long: usize) -> usize {
    if std::env::var_os("DEVLOOP_LONG").is_some() {
        long
    } else {
        normal
    }
}

#[test]
fn the_automaton_agrees_with_the_definition() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut hits = 0;
    for _ in 0..rounds(3_000, 100_000) {
        let pattern = random.pattern();
        for _ in 0..8 {
            let path = random.path();
            let expected = matches_by_definition(&pattern, &path);
            hits += usize::from(expected);
            assert_eq!(pattern.matches(&path), expected, "{pattern} on {path:?}");
        }
    }
    assert!(hits > 1_000, "the generator makes paths that match: {hits}");
}

#[test]
fn covered_means_every_path_and_a_witness_is_one() {
    let mut random = Random(0xD1B5_4A32_D192_ED03);
    let (mut covered, mut refuted) = (0, 0);
    for _ in 0..rounds(3_000, 100_000) {
        let sub = random.pattern();
        let sup: Vec<Pattern> = (0..random.below(4)).map(|_| random.pattern()).collect();
        let any = |path: &str| sup.iter().any(|pattern| matches_by_definition(pattern, path));
        match covered_by(&sub, &sup) {
            Ok(()) => {
                covered += 1;
                for _ in 0..60 {
                    let path = random.path();
                    assert!(
                        !matches_by_definition(&sub, &path) || any(&path),
                        "{sub} by {sup:?}: {path}"
                    );
                }
            }
            Err(path) => {
                refuted += 1;
                assert!(matches_by_definition(&sub, &path), "{sub}: {path}");
                assert!(!any(&path), "{sup:?}: {path}");
            }
        }
    }
    assert!(
        covered > 100 && refuted > 100,
        "both answers occur: {covered}, {refuted}"
    );
}

#[test]
fn the_known_variables_parse_and_are_told_once() {
    for (index, variable) in VARIABLES.iter().enumerate() {
        assert_eq!(pattern(&format!("{{{}}}", variable.name)).variables(), [variable.name]);
        assert!(VARIABLES[..index].iter().all(|other| other.name != variable.name));
    }
}
