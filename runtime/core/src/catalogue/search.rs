//! Finding tools by words.
//!
//! Answers for what of a tool is searched, for reading texts and queries into words, and for the order of what is found.
//! Leaves out which tools somebody may see.
//!
//! A word is a run of letters and digits in NFKC and lower case; `listIssues` and `list_issues` are two words each, and
//! `listissues` besides for the former. Texts without spaces between words, as Chinese and Japanese have them, are read
//! as pairs of neighbours. A word of a query finds itself and what begins with it; rare words count more.

use std::cmp::Ordering;

use memchr::memmem::Finder;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization;

use crate::registry::Definition;

/// What of a tool is searched, and how much a hit there counts.
const NAME: u8 = 10;
const TITLE: u8 = 6;
const TAG: u8 = 5;
const SUMMARY: u8 = 3;
const PARAMETER: u8 = 2;
const PARAMETER_TEXT: u8 = 1;

/// Schemas are searched this deep.
const DEPTH: usize = 8;
/// Words that stand in any English text: alone they ask for nothing.
const STOP_WORDS: [&str; 27] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "i", "in", "is", "it", "its", "me", "my", "of",
    "on", "or", "that", "the", "this", "to", "which", "with", "you",
];
/// Words of a query beyond these are ignored.
const QUERY: usize = 32;

/// The words of one tool, each after a line break, the weightiest part first: one run over some hundred bytes finds a
/// word.
#[derive(Clone, Debug)]
pub(super) struct Words {
    text: String,
    /// Where each part ends, and what it weighs.
    parts: Vec<(usize, u8)>,
}

impl Words {
    pub(super) fn of(tool: &Definition) -> Self {
        let mut words = Self {
            text: String::new(),
            parts: Vec::new(),
        };
        words.part(NAME, tool.names());
        words.part(TITLE, [&*tool.title]);
        let tags = tool.tags.iter().map(|tag| &**tag);
        words.part(TAG, tags.chain([&*tool.category]));
        words.part(SUMMARY, [&*tool.summary]);
        let mut parameters = (Vec::new(), Vec::new());
        if let Ok(schema) = tool.input_schema.value() {
            collect(schema, 0, &mut parameters);
        }
        words.part(PARAMETER, parameters.0);
        words.part(PARAMETER_TEXT, parameters.1);
        words.text.push('\n');
        words
    }

    fn part<'t>(&mut self, weight: u8, texts: impl IntoIterator<Item = &'t str>) {
        for text in texts {
            each_word(text, &mut |word| {
                self.text.push('\n');
                self.text.push_str(word);
            });
        }
        self.parts.push((self.text.len(), weight));
    }

    /// What the best hit of a word counts.
    fn hit(&self, word: &Finder<'_>) -> u32 {
        let length = word.needle().len();
        let mut best = 0;
        for at in word.find_iter(self.text.as_bytes()) {
            let weight = self
                .parts
                .iter()
                .find(|(end, _)| at < *end)
                .map_or(0, |(_, weight)| *weight);
            let whole = word.needle().ends_with(b"\n") || self.text.as_bytes()[at + length] == b'\n';
            best = best.max(u32::from(weight) * if whole { 2 } else { 1 });
            // Later parts weigh less: a whole word there can at most tie with the beginning of one here.
            if whole {
                break;
            }
        }
        best
    }
}

fn collect<'s>(schema: &'s Value, depth: usize, found: &mut (Vec<&'s str>, Vec<&'s str>)) {
    if depth > DEPTH {
        return;
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            found.0.push(name);
            if let Some(text) = property.get("description").and_then(Value::as_str) {
                found.1.push(text);
            }
            collect(property, depth + 1, found);
        }
    }
    for below in ["items", "additionalProperties"] {
        if let Some(below) = schema.get(below) {
            collect(below, depth + 1, found);
        }
    }
}

/// Calls `found` with every word of a text.
fn each_word(text: &str, found: &mut dyn FnMut(&str)) {
    let normal: String = text.nfkc().collect();
    let mut word = String::new();
    for run in normal.split(|c: char| !c.is_alphanumeric()) {
        let mut rest = run;
        while let Some(first) = rest.chars().next() {
            let dense = is_dense(first);
            let end = rest.find(|c| is_dense(c) != dense).unwrap_or(rest.len());
            let (here, after) = rest.split_at(end);
            if dense {
                pairs(here, found);
            } else {
                spaced(here, &mut word, found);
            }
            rest = after;
        }
    }
}

/// A word that stands between spaces, and its parts where the case changes.
fn spaced(run: &str, word: &mut String, found: &mut dyn FnMut(&str)) {
    let mut parts = 0;
    let mut start = 0;
    let mut before = ' ';
    for (at, c) in run.char_indices().chain([(run.len(), 'A')]) {
        let seam = at == run.len() || (c.is_uppercase() && before.is_lowercase());
        if seam && at > start {
            word.clear();
            word.extend(run[start..at].chars().flat_map(char::to_lowercase));
            found(word);
            parts += 1;
            start = at;
        }
        before = c;
    }
    if parts > 1 {
        word.clear();
        word.extend(run.chars().flat_map(char::to_lowercase));
        found(word);
    }
}

/// Each character with the next one, and the last one alone.
fn pairs(run: &str, found: &mut dyn FnMut(&str)) {
    let ends: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    for window in ends.windows(3) {
        found(&run[window[0]..window[2]]);
    }
    if let [.., last, end] = ends[..] {
        found(&run[last..end]);
    }
}

/// Whether a script is written without spaces between words.
fn is_dense(c: char) -> bool {
    matches!(c,
        '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' | '\u{0e00}'..='\u{0e7f}')
}

/// The words of a query, each as what is looked for in [`Words`].
fn needles(query: &str) -> Vec<Vec<String>> {
    let mut needles: Vec<Vec<String>> = Vec::new();
    let mut last_of_pair = None;
    each_word(query, &mut |word| {
        if needles.len() >= QUERY || STOP_WORDS.contains(&word) {
            return;
        }
        // The last character of a dense run stands alone only to be found; as a query it would find too much.
        let is_last =
            word.chars().count() == 1 && last_of_pair.as_deref().is_some_and(|pair: &str| pair.ends_with(word));
        last_of_pair = (word.chars().count() == 2 && word.chars().all(is_dense)).then(|| word.to_owned());
        if is_last && word.chars().all(is_dense) {
            return;
        }
        // One letter begins too many words.
        let end = if word.len() == 1 { "\n" } else { "" };
        let mut forms = vec![format!("\n{word}{end}")];
        // `issues` is asked for where `issue` is said.
        if word.len() > 3 && word.ends_with('s') && word.is_ascii() {
            forms.push(format!("\n{}", &word[..word.len() - 1]));
        }
        if !needles.contains(&forms) {
            needles.push(forms);
        }
    });
    needles
}

/// The tools that a query finds, best first, equals by name. Nothing when the query has no word.
pub(super) fn rank<'t, T>(query: &str, tools: &'t [(&'t Definition, &'t Words, T)]) -> Vec<&'t T> {
    let needles = needles(query);
    let mut scores: Vec<(f64, usize)> = tools.iter().enumerate().map(|(index, _)| (0.0, index)).collect();
    let mut hits = vec![0_u32; tools.len()];
    for forms in &needles {
        let finders: Vec<Finder<'_>> = forms.iter().map(|form| Finder::new(form.as_bytes())).collect();
        let mut found = 0_u32;
        for (hit, (_, words, _)) in hits.iter_mut().zip(tools) {
            *hit = finders.iter().map(|finder| words.hit(finder)).max().unwrap_or(0);
            found += u32::from(*hit > 0);
        }
        if found > 0 {
            let all = u32::try_from(tools.len()).unwrap_or(u32::MAX);
            let rarity = (1.0 + f64::from(all) / f64::from(found)).ln();
            for ((score, _), hit) in scores.iter_mut().zip(&hits) {
                *score += f64::from(*hit) * rarity;
            }
        }
    }
    let exact = query.trim();
    for (score, index) in &mut scores {
        if tools[*index].0.names().any(|name| name.eq_ignore_ascii_case(exact)) {
            *score = f64::INFINITY;
        }
    }
    scores.retain(|(score, _)| *score > 0.0);
    scores.sort_by(|(one, left), (other, right)| {
        let by_score: Ordering = other.total_cmp(one);
        by_score.then_with(|| tools[*left].0.name.cmp(&tools[*right].0.name))
    });
    scores.into_iter().map(|(_, index)| &tools[index].2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(text, &mut |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn a_text_is_read_into_words() {
        assert_eq!(words("list_issues, Now!"), ["list", "issues", "now"]);
        assert_eq!(words("listIssues"), ["list", "issues", "listissues"]);
        assert_eq!(words("HTTPServer v2"), ["httpserver", "v2"]);
        assert_eq!(words("ﬁle Ａ"), ["file", "a"]);
        assert_eq!(words("写待办list"), ["写待", "待办", "办", "list"]);
        assert_eq!(words(" -- "), [""; 0]);
    }

    #[test]
    fn a_query_asks_for_pairs_and_for_the_singular() {
        assert_eq!(needles("待办"), [["\n待办"]]);
        assert_eq!(needles("办"), [["\n办"]]);
        assert_eq!(needles("issues issues"), [["\nissues", "\nissue"]]);
        assert!(needles("…").is_empty());
        assert!(needles("the a of").is_empty());
        assert_eq!(needles("to read it").len(), 1);
    }
}
