//! Why a value is refused, in words that let the sender mend it.
//!
//! Answers for finding every problem of a value in document order and for the words. Leaves out the verdict: the
//! JSON Schema validator gives that, fast and without words; this module is asked only once the answer is no.
//! It walks the shape instead of the validator's own list of errors because that list holds every error with its
//! place at once, gigabytes for a hostile input; here the first ten are worded and the rest only counted.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;

use devloop_contract::error::PROBLEMS_IN_FULL;
use devloop_contract::{Problem, ValidationError};
use serde_json::{Map, Number, Value};

use super::PathRule;
use super::normalise::{Integer, integer, parse_strictly};
use super::place::{Step, bracket, cut, pointer, steps, unescaped};
use super::shape::{Extra, Fields, Items, Kind, Need, Pattern, Property, Range, Shape, Text, Uniqueness};
use crate::text::nearest;

/// Longer values are cut in error texts.
pub(super) const VALUE_SHOWN: usize = 60;

/// The pattern of a text that must not be blank.
const NOT_BLANK: &str = r"\S";
/// Longer lists of allowed words or known keys are cut.
const LIST_SHOWN: usize = 1_000;

/// The problems of one value.
#[derive(Debug, Default)]
pub(super) struct Report {
    problems: Vec<Problem>,
    total: usize,
}

impl Report {
    /// Counts a problem; the words are asked for only when they will be shown.
    pub(super) fn add(&mut self, place: &[Step<'_>], reason: impl FnOnce() -> String) {
        self.total += 1;
        if self.problems.len() < PROBLEMS_IN_FULL {
            self.problems.push(Problem {
                field: bracket(place),
                pointer: pointer(place),
                reason: reason(),
            });
        }
    }

    /// As [`add`](Self::add), at a JSON Pointer into `value`; not what was said already: a schema may ask for one thing in
    /// several of its parts.
    pub(super) fn add_once(&mut self, at: &str, value: &Value, reason: impl FnOnce() -> String) {
        let unescaped = unescaped(at);
        let place = steps(&unescaped, value);
        let shown = self.problems.len() < PROBLEMS_IN_FULL;
        let reason = if shown { reason() } else { String::new() };
        let pointer = pointer(&place);
        let is_known = |known: &Problem| known.pointer == pointer && known.reason == reason;
        if !(shown && self.problems.iter().any(is_known)) {
            self.add(&place, || reason);
        }
    }

    /// The first problem.
    pub(super) fn first(&self) -> Option<&Problem> {
        self.problems.first()
    }

    /// Where the problems are that are told.
    pub(super) fn pointers(&self) -> impl Iterator<Item = &str> {
        self.problems.iter().map(|problem| problem.pointer.as_str())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    pub(super) fn into_error(self, example: Option<String>) -> ValidationError {
        ValidationError {
            problems: self.problems,
            total: self.total,
            example,
        }
    }
}

/// Everything that is wrong with `value`, parents before children, in document order; absent keys come last in their
/// object.
pub(super) fn explain(shape: &Shape, value: &Value, path_rule: PathRule) -> Report {
    let mut explainer = Explainer {
        report: Report::default(),
        place: Vec::new(),
        path_rule,
    };
    explainer.value(shape, value);
    explainer.report
}

/// A value, short, with its type: `the string "abc…"`.
pub(super) fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {}", Value::from(cut(text, VALUE_SHOWN))),
        Value::Array(items) => format!("an array of {}", count(items.len(), "item")),
        Value::Object(map) => format!("an object with {}", count(map.len(), "key")),
    }
}

struct Explainer<'v> {
    report: Report,
    place: Vec<Step<'v>>,
    path_rule: PathRule,
}

impl<'v> Explainer<'v> {
    fn value(&mut self, shape: &Shape, value: &'v Value) {
        match (&shape.kind, value) {
            (Kind::String(rules), Value::String(text)) => self.text(rules, text, value),
            (Kind::Integer(range), Value::Number(number)) => match integer(number) {
                Integer::TooWide => self.add(|| {
                    format!(
                        "{number} is beyond what an integer may be here; expected {}",
                        expected_within_64_bits(range)
                    )
                }),
                Integer::Fits if number.is_f64() => self.mismatch(shape, value),
                Integer::Fits | Integer::Is(_) => self.range(range, number),
            },
            (Kind::Number(range), Value::Number(number)) => self.range(range, number),
            (Kind::Boolean, Value::Bool(_)) | (Kind::Foreign(_), _) => {}
            (Kind::Array(rules), Value::Array(items)) => self.items(rules, items),
            (Kind::Object(fields), Value::Object(map)) => self.object(fields, map),
            _ => self.mismatch(shape, value),
        }
    }

    fn mismatch(&mut self, shape: &Shape, value: &Value) {
        self.add(|| {
            let mut text = format!("expected {}, got {}", expected(shape), show(value));
            if let Value::String(inner) = value
                && let Some(why) = why_not_read(&shape.kind, inner)
            {
                let _ = write!(text, ": {why}");
            }
            text
        });
    }

    fn text(&mut self, rules: &Text, text: &str, value: &Value) {
        let before = self.report.total;
        if let Some(allowed) = &rules.allowed
            && !allowed.iter().any(|word| word == text)
        {
            self.add(|| {
                let shown = cut(text, VALUE_SHOWN);
                let mut reason = format!("`{shown}` is not one of {}", list(allowed.iter().map(String::as_str)));
                if let Some(near) = nearest(&shown, allowed.iter().map(String::as_str), 1).first() {
                    let _ = write!(reason, "; did you mean `{near}`?");
                }
                reason
            });
        }
        if let Some(pattern) = &rules.pattern
            && !pattern.is_match(value)
        {
            self.add(|| match pattern.text.as_str() {
                // The one pattern that reads as nothing, on a value that looks like nothing.
                NOT_BLANK => "it must contain a character that is not white space".to_owned(),
                pattern => format!("`{}` does not match {pattern}", cut(text, VALUE_SHOWN)),
            });
        }
        if rules.min.is_some() || rules.max.is_some() {
            self.size(rules.min, rules.max, text.chars().count(), "character");
        }
        if rules.is_path
            && self.report.total == before
            && let Err(reason) = (self.path_rule)(text)
        {
            self.add(|| reason);
        }
    }

    fn range(&mut self, range: &Range, number: &Number) {
        if let Some(min) = &range.min
            && compare(number, min) == Ordering::Less
        {
            self.add(|| format!("{number} is too small; the minimum is {min}"));
        }
        if let Some(max) = &range.max
            && compare(number, max) == Ordering::Greater
        {
            self.add(|| format!("{number} is too large; the maximum is {max}"));
        }
    }

    fn size(&mut self, min: Option<u64>, max: Option<u64>, size: usize, unit: &str) {
        // A count of what is in memory fits 64 bits on every machine there is.
        let wide = size as u64;
        if let Some(min) = min
            && wide < min
        {
            self.add(|| format!("has {}; at least {min} expected", count(size, unit)));
        }
        if let Some(max) = max
            && wide > max
        {
            self.add(|| format!("has {}; at most {max} allowed", count(size, unit)));
        }
    }

    fn items(&mut self, rules: &Items, items: &'v [Value]) {
        self.size(rules.min, rules.max, items.len(), "item");
        if rules.uniqueness == Uniqueness::Required
            && let Some((first, second)) = equal_pair(items)
        {
            self.add(|| {
                format!(
                    "items {first} and {second} are equal ({}); every item must differ",
                    show(&items[second])
                )
            });
        }
        for (index, item) in items.iter().enumerate() {
            self.place.push(Step::Index(index));
            self.value(&rules.shape, item);
            self.place.pop();
        }
    }

    fn object(&mut self, fields: &Fields, map: &'v Map<String, Value>) {
        for (key, value) in map {
            self.place.push(Step::Key(key));
            match (fields.get(key), &fields.extra) {
                (Some(property), _) => self.value(&property.shape, value),
                (None, Extra::Each(shape)) => self.value(shape, value),
                (None, Extra::Free) => {}
                (None, Extra::Refused) => self.add(|| unknown(key, fields, map)),
            }
            self.place.pop();
        }
        for property in &fields.properties {
            if property.need == Need::Required && !map.contains_key(&property.name) {
                let mut place = self.place.clone();
                place.push(Step::Key(&property.name));
                self.report.add(&place, || missing(property));
            }
        }
    }

    fn add(&mut self, reason: impl FnOnce() -> String) {
        self.report.add(&self.place, reason);
    }
}

fn missing(property: &Property) -> String {
    format!("`{}` is missing; expected {}", property.name, expected(&property.shape))
}

fn unknown(key: &str, fields: &Fields, map: &Map<String, Value>) -> String {
    let key = cut(key, VALUE_SHOWN);
    let known = || fields.properties.iter().map(|property| property.name.as_str());
    // A key that is there already can't be what was meant.
    let free = known().filter(|name| !map.contains_key(*name));
    match nearest(&key, free, 1).first() {
        Some(near) => format!("`{key}` is not a known key; did you mean `{near}`?"),
        None if fields.properties.is_empty() => format!("`{key}` is not a known key; none is expected here"),
        None => format!("`{key}` is not a known key; known are {}", list(known())),
    }
}

/// Why a string that may have been meant as JSON was not read as such.
fn why_not_read(kind: &Kind, text: &str) -> Option<String> {
    match kind {
        Kind::Array(_) => unread("array", text),
        Kind::Object(_) => unread("object", text),
        _ => None,
    }
}

/// The same, where a value of this type is wanted.
pub(super) fn unread(kind: &str, text: &str) -> Option<String> {
    let meant = match kind {
        "array" => "[",
        "object" => "{",
        _ => return None,
    };
    if !text.trim_ascii_start().starts_with(meant) {
        return None;
    }
    let error = parse_strictly(text).err()?;
    Some(format!(
        "it is not read as JSON because {}",
        cut(&error.to_string(), 200)
    ))
}

fn expected(shape: &Shape) -> String {
    match &shape.kind {
        Kind::String(Text {
            allowed: Some(allowed), ..
        }) => format!("one of {}", list(allowed.iter().map(String::as_str))),
        Kind::String(rules) => {
            let mut text = "a string".to_owned();
            text.push_str(&sizes(rules.min, rules.max, "character"));
            if let Some(Pattern { text: pattern, .. }) = &rules.pattern {
                let _ = write!(text, " that matches {pattern}");
            }
            text
        }
        Kind::Integer(range) => expected_integer(range),
        Kind::Number(range) => format!("a number{}", bounds(range)),
        Kind::Boolean => "true or false".to_owned(),
        Kind::Foreign(_) => "what its schema describes".to_owned(),
        Kind::Array(rules) => format!("an array{}", sizes(rules.min, rules.max, "item")),
        Kind::Object(fields) => {
            let required = fields
                .properties
                .iter()
                .filter(|property| property.need == Need::Required);
            match list(required.map(|property| property.name.as_str())) {
                names if names.is_empty() => "an object".to_owned(),
                names => format!("an object with {names}"),
            }
        }
    }
}

fn expected_integer(range: &Range) -> String {
    match (&range.min, &range.max) {
        (None, None) => "an integer of at most 64 bits".to_owned(),
        _ => format!("an integer{}", bounds(range)),
    }
}

/// As [`expected_integer`], where a number is beyond 64 bits: bounds that are so as well would not say why it is refused.
fn expected_within_64_bits(range: &Range) -> String {
    let whole = |number: &Option<Number>| number.as_ref().and_then(Number::as_i64);
    match (&range.min, &range.max) {
        (None, None) => expected_integer(range),
        _ => format!(
            "an integer from {} to {}",
            whole(&range.min).unwrap_or(i64::MIN),
            whole(&range.max).unwrap_or(i64::MAX)
        ),
    }
}

fn bounds(range: &Range) -> String {
    match (&range.min, &range.max) {
        (Some(min), Some(max)) => format!(" from {min} to {max}"),
        (Some(min), None) => format!(" of at least {min}"),
        (None, Some(max)) => format!(" of at most {max}"),
        (None, None) => String::new(),
    }
}

pub(super) fn sizes(min: Option<u64>, max: Option<u64>, unit: &str) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!(" of {min} to {max} {unit}s"),
        (Some(min), None) => format!(" of at least {min} {unit}s"),
        (None, Some(max)) => format!(" of at most {max} {unit}s"),
        (None, None) => String::new(),
    }
}

pub(super) fn count(count: usize, unit: &str) -> String {
    match count {
        1 => format!("1 {unit}"),
        _ => format!("{count} {unit}s"),
    }
}

/// Words in backticks, with commas, cut when there are too many.
pub(super) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if text.len() > LIST_SHOWN {
            let _ = write!(text, " and {} more", words.count() + 1);
            break;
        }
        if !text.is_empty() {
            text.push_str(", ");
        }
        let _ = write!(text, "`{word}`");
    }
    text
}

/// The first item that equals an earlier one, and that one. `1` and `1.0` are equal, as JSON Schema has it.
fn equal_pair(items: &[Value]) -> Option<(usize, usize)> {
    let mut seen = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let mut key = String::new();
        canonical(item, &mut key);
        match seen.entry(key) {
            Entry::Occupied(first) => return Some((*first.get(), index)),
            Entry::Vacant(free) => free.insert(index),
        };
    }
    None
}

/// A text that is the same for equal values: keys sorted, whole floats as integers.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) => {
            let _ = match integer(number) {
                Integer::Is(whole) => write!(text, "{whole}"),
                Integer::Fits | Integer::TooWide => write!(text, "{number}"),
            };
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (key, value) in entries {
                let _ = write!(text, "{}:", Value::from(key.as_str()));
                canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        scalar => {
            let _ = write!(text, "{scalar}");
        }
    }
}

/// Which of two numbers is larger, exactly: a float is not rounded to an integer, nor the other way round.
fn compare(left: &Number, right: &Number) -> Ordering {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(left), None) => compare_mixed(left, right),
        (None, Some(right)) => compare_mixed(right, left).reverse(),
        (None, None) => {
            let (left, right) = (left.as_f64().unwrap_or(0.0), right.as_f64().unwrap_or(0.0));
            left.partial_cmp(&right).unwrap_or(Ordering::Equal)
        }
    }
}

fn whole(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

fn compare_mixed(left: i128, right: &Number) -> Ordering {
    let right = right.as_f64().unwrap_or(0.0);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the cast saturates, beyond all 64-bit integers"
    )]
    let floor = right.floor() as i128;
    left.cmp(&floor).then(if right > right.floor() {
        Ordering::Less
    } else {
        Ordering::Equal
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(schema: &Value, value: &Value) -> Vec<String> {
        let shape = Shape::compile(schema).unwrap();
        let report = explain(&shape, value, |_| Ok(()));
        report
            .problems
            .into_iter()
            .map(|p| format!("{}: {}", p.field, p.reason))
            .collect()
    }

    #[test]
    fn every_problem_is_named_in_document_order() {
        let schema = json!({"type": "object", "required": ["id", "n"], "additionalProperties": false, "properties": {
            "id": {"type": "string", "pattern": r"^step-\d{3}$"},
            "status": {"type": "string", "enum": ["pending", "done"]},
            "n": {"type": "integer", "minimum": 1, "maximum": 9},
            "x": {"type": "number", "maximum": 0.5},
            "rows": {"type": "array", "maxItems": 1, "uniqueItems": true,
                     "items": {"type": "string", "minLength": 1, "maxLength": 3}},
            "on": {"type": "boolean"},
        }});
        let value = json!({
            "on": "yes", "rows": ["", "long é", ""], "x": 1, "stats": 1, "status": "pendng", "id": "step-٣", "zzz": 0,
        });
        assert_eq!(
            texts(&schema, &value),
            [
                r#"on: expected true or false, got the string "yes""#,
                "rows: has 3 items; at most 1 allowed",
                r#"rows: items 0 and 2 are equal (the string ""); every item must differ"#,
                "rows[0]: has 0 characters; at least 1 expected",
                "rows[1]: has 6 characters; at most 3 allowed",
                "rows[2]: has 0 characters; at least 1 expected",
                "x: 1 is too large; the maximum is 0.5",
                "stats: `stats` is not a known key; known are `id`, `status`, `n`, `x`, `rows`, `on`",
                "status: `pendng` is not one of `pending`, `done`; did you mean `pending`?",
                "id: `step-٣` does not match ^step-\\d{3}$",
            ]
        );
    }

    #[test]
    fn a_missing_key_says_what_is_expected_and_a_misspelt_one_what_was_meant() {
        let schema = json!({"type": "object", "required": ["description"], "additionalProperties": false,
            "properties": {"description": {"type": "string", "minLength": 1, "maxLength": 500}}});
        assert_eq!(
            texts(&schema, &json!({"descripton": "x"})),
            [
                "descripton: `descripton` is not a known key; did you mean `description`?",
                "description: `description` is missing; expected a string of 1 to 500 characters",
            ]
        );
    }

    #[test]
    fn a_text_that_looks_like_json_says_why_it_is_none() {
        let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "object"}}}});
        let [twice] = &texts(&schema, &json!({"l": "[{\"a\":1,\"a\":2}]"}))[..] else {
            panic!()
        };
        assert!(twice.contains("because the key `a` stands twice"), "{twice}");
        let [broken] = &texts(&schema, &json!({"l": "[1,"}))[..] else {
            panic!()
        };
        assert!(broken.contains("because EOF"), "{broken}");
    }

    #[test]
    fn what_was_got_is_cut() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let [text] = &texts(&schema, &json!({"n": "9".repeat(5_000)}))[..] else {
            panic!()
        };
        assert!(text.len() < 200, "{text}");
    }

    #[test]
    fn an_integer_beyond_64_bits_is_named() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}});
        assert_eq!(
            texts(&schema, &json!({"n": u64::MAX, "m": 1e300})),
            [
                "n: 18446744073709551615 is beyond what an integer may be here; expected an integer of at most 64 bits",
                "m: 1e+300 is beyond what an integer may be here; expected an integer of at most 64 bits",
            ]
        );
    }

    #[test]
    fn an_integer_beyond_64_bits_is_told_what_fits() {
        let schema = json!({"type": "object", "properties": {
            "n": {"type": "integer", "maximum": u64::MAX}, "m": {"type": "integer", "minimum": 0},
            "o": {"type": "integer", "minimum": -5, "maximum": 5}}});
        assert_eq!(
            texts(&schema, &json!({"n": u64::MAX, "m": 1e30, "o": -1e30})),
            [
                "n: 18446744073709551615 is beyond what an integer may be here; expected an integer from \
                 -9223372036854775808 to 9223372036854775807",
                "m: 1e+30 is beyond what an integer may be here; expected an integer from 0 to 9223372036854775807",
                "o: -1e+30 is beyond what an integer may be here; expected an integer from -5 to 5",
            ]
        );
    }

    #[test]
    fn problems_beyond_the_tenth_are_only_counted() {
        let schema = json!({"type": "array", "items": {"type": "string"}});
        let shape = Shape::compile(&schema).unwrap();
        let report = explain(&shape, &json!(vec![0; 5_000]), |_| Ok(()));
        assert_eq!((report.problems.len(), report.total), (PROBLEMS_IN_FULL, 5_000));
    }

    #[test]
    fn numbers_compare_exactly() {
        let number = |value: Value| value.as_number().unwrap().clone();
        for (left, right, expected) in [
            (
                json!(9_007_199_254_740_993_i64),
                json!(9_007_199_254_740_992.0),
                Ordering::Greater,
            ),
            (json!(u64::MAX), json!(i64::MIN), Ordering::Greater),
            (json!(-1), json!(-0.5), Ordering::Less),
            (json!(-1.5), json!(-1), Ordering::Less),
            (json!(1e300), json!(u64::MAX), Ordering::Greater),
            (json!(1.0), json!(1), Ordering::Equal),
        ] {
            assert_eq!(compare(&number(left), &number(right)), expected);
        }
    }
}
