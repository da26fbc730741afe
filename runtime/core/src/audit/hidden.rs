//! Values that a record leaves out, where other texts of it repeat them: refusals quote what they refuse.
//!
//! Answers for taking them out of such texts, also where they are quoted in part. Leaves out which values those are
//! ([`super::redacted`]).

use serde_json::Value;

use super::excerpt::{LONGEST_SEEN, place_of};

/// What stands for a value under a secret name.
pub(super) const BY_ITS_NAME: &str = "[redacted: a secret by its name]";
/// As much of a value as a refusal quotes at least, in characters.
const LONGEST_QUOTED: usize = 56;
/// A shorter value is looked for elsewhere only in quotes: it would be found in many words.
const SHORTEST_HIDDEN: usize = 4;
/// A shorter one is not looked for at all.
const SHORTEST_QUOTED: usize = 2;

/// Values that go because of the names that they stand under.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// What is looked for elsewhere.
    forms: Vec<String>,
    found: usize,
}

impl Hidden {
    /// A text without these values.
    pub(super) fn out_of(&self, text: &str) -> Option<String> {
        let mut mended = None;
        for value in &self.forms {
            let now: &str = mended.as_deref().unwrap_or(text);
            if let Some(without) = without(now, value) {
                mended = Some(without);
            }
        }
        mended
    }

    /// Takes these values out of each text of a value.
    pub(super) fn take_out_of(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(mended) = self.out_of(text) {
                    *text = mended;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.take_out_of(item)),
            Value::Object(object) => object.values_mut().for_each(|value| self.take_out_of(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// How many there were, those that were there before counted again.
    pub(super) fn found(&self) -> usize {
        self.found
    }

    /// As it is, and as JSON writes it.
    pub(super) fn add(&mut self, text: &str) {
        self.found += 1;
        self.add_form(text);
        if text.contains(|c: char| c < ' ' || matches!(c, '"' | '\\')) {
            let escaped = Value::from(text).to_string();
            self.add_form(&escaped[1..escaped.len() - 1]);
        }
    }

    /// The longest is taken out first: it may have others in it.
    fn add_form(&mut self, form: &str) {
        if form.chars().nth(SHORTEST_QUOTED - 1).is_some() && !self.forms.iter().any(|known| known == form) {
            let at = self.forms.partition_point(|known| known.len() >= form.len());
            self.forms.insert(at, form.to_owned());
        }
    }
}

/// A text without a value, also where it is quoted in part.
fn without(text: &str, value: &str) -> Option<String> {
    let seed = place_of(value, LONGEST_QUOTED).map_or(value, |end| &value[..end]);
    if !text.contains(seed) && !text.contains('…') {
        return None;
    }
    let is_short = value.chars().nth(SHORTEST_HIDDEN - 1).is_none();
    let mut shown = String::new();
    let mut at = 0;
    for (start, _) in text.match_indices(seed) {
        if start < at {
            continue;
        }
        let more = text[start..]
            .chars()
            .zip(value.chars())
            .take_while(|(one, other)| one == other);
        let end = start + more.map(|(c, _)| c.len_utf8()).sum::<usize>();
        let quotes = ['"', '\'', '`'];
        if is_short && !(text[..start].ends_with(quotes) && text[end..].starts_with(quotes)) {
            continue;
        }
        shown.push_str(&text[at..start]);
        shown.push_str(BY_ITS_NAME);
        at = end;
    }
    shown.push_str(&text[at..]);
    // Its beginning, where a quotation was cut.
    let mut from = 0;
    while let Some(cut) = shown[from..].find('…').map(|cut| from + cut) {
        let lengths = value.char_indices().map(|(length, _)| length).take(LONGEST_SEEN);
        let begun = lengths
            .filter(|length| shown[..cut].ends_with(&value[..*length]))
            .last();
        let begun = begun.filter(|length| value[..*length].chars().nth(SHORTEST_HIDDEN - 1).is_some());
        from = match begun {
            Some(length) => {
                shown.replace_range(cut - length..cut, BY_ITS_NAME);
                cut - length + BY_ITS_NAME.len() + '…'.len_utf8()
            }
            None => cut + '…'.len_utf8(),
        };
    }
    (shown != text).then_some(shown)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::audit::excerpt::Excerpt;
    use crate::audit::redacted::kept;

    #[test]
    fn repeats_go_where_they_are_quoted_or_long_and_also_when_they_are_cut() {
        let long = "correct-horse-battery-staple-".repeat(8);
        let mut hidden = Hidden::default();
        let input = json!({"password": "pw", "token": long, "argv": ["--secret=zebra77"], "x": "API_KEY=lion"});
        kept(Excerpt::of(input.as_object().unwrap()), &mut hidden);
        let cut = |length: usize| long[..length].to_owned();
        for text in [
            "got the string \"pw\"".to_owned(),
            "`pw` is no number".to_owned(),
            format!("got {}…", cut(60)),
            format!("got {}… here", cut(30)),
            format!("got {long}"),
            "zebra77 and lion".to_owned(),
        ] {
            let shown = hidden.out_of(&text).unwrap_or_else(|| panic!("{text}"));
            let words = ["pw", "horse", "stap", "corr", "zebra", "lion"];
            assert!(!words.iter().any(|word| shown.contains(word)), "{text} → {shown}");
        }
        assert_eq!(hidden.out_of("a pwd of the upward correction"), None);
    }
}
