//! English words without their endings, so that `deploys`, `deployed` and `deployment` are one.
//!
//! Answers for a light stem: what is cut off is a matter of likeness, not of grammar, so a stem need not be a word. Leaves
//! out words that change inside, except the few verbs that memories are full of.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The shortest stem that an ending may leave.
const SHORTEST: usize = 3;

/// Words that no other may be cut down to.
const SMALL_WORDS: &[&str] = &[
    "not", "nor", "non", "can", "but", "for", "the", "and", "all", "any", "off", "out", "how",
];

/// Words whose endings would be cut down to other words.
const FIXED: &[(&str, &str)] = &[
    ("production", "production"),
    ("optional", "optional"),
    ("general", "general"),
    ("generally", "general"),
    ("really", "really"),
    ("validate", "validat"),
    ("validates", "validat"),
    ("validated", "validat"),
    ("validating", "validat"),
    ("validation", "validat"),
    ("during", "during"),
    ("string", "string"),
    ("strings", "string"),
    ("thing", "thing"),
    ("nothing", "nothing"),
    ("something", "something"),
    ("document", "document"),
    ("documents", "document"),
    ("documented", "document"),
    ("documentation", "document"),
    ("documenting", "document"),
];

/// Verbs whose past is no matter of endings.
const IRREGULAR: &[(&str, &str)] = &[
    ("ran", "run"),
    ("wrote", "write"),
    ("written", "write"),
    ("broke", "break"),
    ("broken", "break"),
    ("kept", "keep"),
    ("sent", "send"),
    ("built", "build"),
    ("found", "find"),
    ("took", "take"),
    ("taken", "take"),
    ("made", "make"),
    ("gave", "give"),
    ("given", "give"),
    ("held", "hold"),
    ("lost", "lose"),
    ("shown", "show"),
    ("chosen", "choose"),
    ("chose", "choose"),
    ("began", "begin"),
    ("begun", "begin"),
    ("went", "go"),
    ("gone", "go"),
    ("came", "come"),
    ("told", "tell"),
    ("said", "say"),
    ("left", "leave"),
    ("meant", "mean"),
    ("hidden", "hide"),
    ("hung", "hang"),
    ("froze", "freeze"),
    ("frozen", "freeze"),
    ("stuck", "stick"),
    ("known", "know"),
    ("knew", "know"),
    ("thrown", "throw"),
    ("threw", "throw"),
    ("drawn", "draw"),
    ("overwritten", "overwrite"),
    ("overwrote", "overwrite"),
    ("overridden", "override"),
    ("rebuilt", "rebuild"),
    ("reran", "rerun"),
    ("bought", "buy"),
    ("brought", "bring"),
    ("caught", "catch"),
    ("indices", "index"),
    ("children", "child"),
    ("used", "use"),
    ("using", "use"),
];

/// The stem of a small word. Words of other letters than a to z are their own.
pub(super) fn stem(word: &str) -> String {
    let stem = without_endings(word);
    // A note is not a negation.
    if stem != word && SMALL_WORDS.contains(&stem.as_str()) {
        word.to_owned()
    } else {
        stem
    }
}

fn without_endings(word: &str) -> String {
    if !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.to_owned();
    }
    if let Some(stem) = KNOWN.get(word) {
        return stem.clone();
    }
    cut_down(word)
}

/// Words that are not cut, with their stems.
static KNOWN: LazyLock<HashMap<&'static str, String>> = LazyLock::new(|| {
    let irregular = IRREGULAR.iter().map(|(form, base)| (*form, cut_down(base)));
    let fixed = FIXED.iter().map(|(form, stem)| (*form, (*stem).to_owned()));
    irregular.chain(fixed).collect()
});

fn cut_down(word: &str) -> String {
    let mut word = word.to_owned();
    // Plurals and third persons first: the others may stand before them.
    if word.len() > SHORTEST {
        if word.ends_with("ies") && word.len() > 4 {
            cut(&mut word, 3);
            word.push('y');
        } else if ["sses", "shes", "ches", "xes", "zes"]
            .iter()
            .any(|end| word.ends_with(end))
        {
            cut(&mut word, 2);
        } else if word.ends_with('s') && !["ss", "us", "is", "as"].iter().any(|end| word.ends_with(end)) {
            cut(&mut word, 1);
        }
    }
    for (ending, more) in [
        ("ization", 0),
        ("isation", 0),
        ("ational", 0),
        ("ation", 1),
        ("ition", 0),
        ("ement", 0),
        ("ment", 1),
        ("fully", 0),
        ("ness", 1),
        ("ings", 0),
        ("ating", 1),
        ("ing", 0),
        ("edly", 0),
        ("ied", 0),
        ("ated", 1),
        ("ed", 0),
        ("ally", 0),
        ("ly", 1),
        ("able", 1),
        ("ible", 1),
        ("ance", 1),
        ("ence", 1),
        ("sion", 0),
        ("tion", 0),
        ("ate", 1),
        ("ize", 1),
        ("ise", 1),
        ("ous", 1),
        ("ity", 1),
        ("ive", 2),
        ("al", 2),
    ] {
        if word.len() >= ending.len() + SHORTEST + more && word.ends_with(ending) {
            cut(&mut word, ending.len());
            if ending == "ied" {
                word.push('y');
            }
            if ending == "sion" || ending == "tion" {
                word.push('t');
            }
            break;
        }
    }
    let bytes = word.as_bytes();
    let doubled = bytes.len() > SHORTEST && bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
    if doubled && !b"aeiouls".contains(&bytes[bytes.len() - 1]) || word.len() > SHORTEST && word.ends_with('e') {
        cut(&mut word, 1);
    }
    if word.len() > SHORTEST && word.ends_with('y') {
        cut(&mut word, 1);
        word.push('i');
    }
    word
}

fn cut(word: &mut String, bytes: usize) {
    word.truncate(word.len() - bytes);
}

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn forms_of_one_word_have_one_stem() {
        for forms in [
            "deploy deploys deployed deploying deployment deployments",
            "run runs running ran",
            "cache caches cached caching",
            "migrate migrates migrated migration migrations",
            "validate validated validation validates",
            "configure configured configuration configurations",
            "document documents documentation",
            "write writes written writing wrote",
            "retry retries retried retrying",
            "test tests tested testing",
            "install installs installed installing installation",
            "require requires required requirement requirements",
            "fail fails failed failing",
            "use uses used using",
            "stop stops stopped stopping",
            "decide decides decided deciding",
            "random randomly",
        ] {
            let stems: Vec<_> = forms.split(' ').map(stem).collect();
            assert!(stems.iter().all(|one| *one == stems[0]), "{forms}: {stems:?}");
        }
    }

    #[test]
    fn other_words_stay_apart() {
        for (one, other) in [
            ("use", "user"),
            ("test", "text"),
            ("state", "start"),
            ("client", "clean"),
            ("run", "rule"),
        ] {
            assert_ne!(stem(one), stem(other));
        }
        for word in ["", "s", "is", "文件", "über", "a-b", "ing", "ed"] {
            stem(word);
        }
    }
}
