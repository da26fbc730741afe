//! How well memories that say the same are told from those that do not, on labelled pairs in English and Chinese.
//!
//! Each line of `memory_pairs.jsonl` has two memories and whether a person would keep one of them only. Those that are
//! `held` were written last and not looked at while the comparison was first made; what was missed of them was seen
//! later. Those that are `tuned` come from two later hands; what was wrong with them was mended since.

#![expect(clippy::print_stdout, reason = "what was measured is what this test is for")]

use devloop_core::memory::{Reading, Verdict, exact_digest};
use serde::Deserialize;

#[derive(Deserialize)]
struct Pair {
    same: bool,
    held: bool,
    kind: String,
    one: (String, String),
    other: (String, String),
}

fn pairs() -> Vec<Pair> {
    let lines = include_str!("memory_pairs.jsonl").lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// Whether the two count as one memory, as the tool judges: in one exact form, or alike and no contradiction.
fn same(one: &(String, String), other: &(String, String)) -> bool {
    let (first, second) = (Reading::new(&one.0, &one.1), Reading::new(&other.0, &other.1));
    let likeness = first.compare(&second);
    assert_eq!(
        likeness,
        second.compare(&first),
        "the order does not matter: {one:?} {other:?}"
    );
    assert!((0.0..=1.0).contains(&likeness.score), "{likeness:?}");
    exact_digest(&one.0, &one.1) == exact_digest(&other.0, &other.1) || likeness.verdict == Verdict::Same
}

#[derive(Default)]
struct Tally {
    found: u32,
    missed: u32,
    wrong: u32,
    right: u32,
}

impl Tally {
    fn precision(&self) -> f64 {
        f64::from(self.found) / f64::from(self.found + self.wrong)
    }

    fn recall(&self) -> f64 {
        f64::from(self.found) / f64::from(self.found + self.missed)
    }
}

#[test]
fn duplicates_are_found_and_hardly_anything_else() {
    let (mut seen, mut held) = (Tally::default(), Tally::default());
    for pair in pairs() {
        let tally = if pair.held { &mut held } else { &mut seen };
        let said = same(&pair.one, &pair.other);
        match (pair.same, said) {
            (true, true) => tally.found += 1,
            (true, false) => tally.missed += 1,
            (false, true) => tally.wrong += 1,
            (false, false) => tally.right += 1,
        }
        if pair.same != said && !pair.held {
            println!(
                "{} {} {:?} {:?}",
                if said { "wrong" } else { "missed" },
                pair.kind,
                pair.one,
                pair.other
            );
        }
        assert!(!(pair.kind == "negation" && said), "{:?} {:?}", pair.one, pair.other);
    }
    for (name, tally) in [("seen", &seen), ("held", &held)] {
        let Tally {
            found,
            missed,
            wrong,
            right,
        } = tally;
        println!(
            "{name}: {found} found, {missed} missed, {wrong} wrong, {right} right: precision {:.3}, recall {:.3}",
            tally.precision(),
            tally.recall()
        );
        assert!(tally.recall() >= 0.85, "{name}");
    }
    assert!(seen.precision() >= 0.98 && held.precision() >= 0.95);
    assert!(seen.found + seen.missed + held.found + held.missed >= 200);
    assert!(seen.wrong + seen.right + held.wrong + held.right >= 200);
}

/// Whatever a text says, the text with a negation more says something else: in each place where one can stand.
#[test]
fn a_negation_more_is_never_the_same() {
    let texts: Vec<_> = pairs().into_iter().flat_map(|pair| [pair.one, pair.other]).collect();
    let step = if std::env::var_os("DEVLOOP_LONG").is_some() {
        1
    } else {
        7
    };
    let mut tried = 0;
    for (title, content) in texts.iter().step_by(step) {
        let negates = |text: &str| {
            [
                "not",
                "n't",
                "no ",
                "never",
                "nobody",
                "none",
                "cannot",
                "forbid",
                "prohibit",
                "impossible",
                "un",
                "avoid",
            ]
            .iter()
            .any(|word| text.to_lowercase().contains(word))
                || text.contains(['不', '没', '无', '未', '非', '别', '勿', '禁', '避'])
        };
        if negates(title) || negates(content) {
            continue;
        }
        let is_cjk = |c: char| ('\u{4E00}'..='\u{9FFF}').contains(&c);
        let cuts = content.char_indices().filter(|(at, c)| {
            let before = content[..*at].chars().next_back();
            is_cjk(*c) || before == Some(' ') && c.is_alphabetic()
        });
        for (at, character) in cuts {
            let words: &[&str] = if is_cjk(character) {
                &["不", "没有", "禁止", "不要"]
            } else {
                &["not ", "never "]
            };
            for word in words {
                // A word of its own: `不然`, otherwise.
                if word.ends_with('不') && character == '然' {
                    continue;
                }
                let turned = format!("{}{word}{}", &content[..at], &content[at..]);
                let (one, other) = ((title.clone(), content.clone()), (title.clone(), turned));
                assert!(!same(&one, &other), "{one:?} {other:?}");
                tried += 1;
            }
        }
    }
    assert!(tried > 1_000, "{tried}");
}

#[test]
fn every_way_to_negate_is_seen() {
    for (one, other) in [
        ("The worker can write.", "The worker can't write."),
        ("The worker can write.", "The worker can’t write."),
        ("The worker can write.", "The worker cannot write."),
        ("The flag is set.", "The flag isn't set."),
        ("The page will load.", "The page won't load."),
        ("The build uses a cache.", "The build uses no cache."),
        ("The build uses a cache.", "The build no longer uses a cache."),
        ("Run as root user.", "Run as non-root user."),
        ("The image is signed.", "The image is unsigned."),
        ("Somebody reviews the drafts.", "Nobody reviews the drafts."),
        ("Use floats for money.", "Avoid floats for money."),
        ("It is possible to restore it.", "It is impossible to restore it."),
        ("Answer with a body.", "Answer without a body."),
        ("a == b holds here", "a != b holds here"),
        ("✅ force push to main", "❌ force push to main"),
        ("会话会过期。", "会话不过期。"),
        ("连接会断开。", "连接不断开。"),
        ("团队同意这样做。", "团队不同意这样做。"),
        ("数据是同步的。", "数据是不同步的。"),
        ("允许手工修改文件。", "勿手工修改文件。"),
        ("需要登录才能看。", "无需登录就能看。"),
        ("订单可以删除。", "订单不得删除。"),
        ("接口已经上线。", "接口尚未上线。"),
        ("用例按顺序运行。", "用例别按顺序运行。"),
        ("上传可以超过 10 MB。", "上传不超过 10 MB。"),
    ] {
        let text = |content: &str| ("A rule".to_owned(), content.to_owned());
        assert!(!same(&text(one), &text(other)), "{one} | {other}");
    }
}
