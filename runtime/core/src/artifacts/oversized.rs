//! Results that are too large to be shown whole.
//!
//! Answers for cutting a result down, so that it still has the shape that its schema asks for, says what is missing where,
//! and says how to read the rest. Leaves out keeping the whole of it (the store), and what is done when nothing helps.
//!
//! Texts are cut before items are left out: a list of a thousand failures is worth more with all names and no details
//! than the other way round. What a list loses, it loses at its end.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

/// How long a result may be, in characters of its JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// What a result should not exceed.
    pub usual: usize,
    /// What it never exceeds.
    pub most: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            usual: 16_000,
            most: 40_000,
        }
    }
}

/// The field of a result that was cut down, in which it says so.
pub const FIELD: &str = devloop_contract::projection::OVERSIZED;

/// The kind of artifact that a whole result is.
pub const KIND: &str = "tool_result";

/// The most places that are told; the others are counted.
const MOST_PLACES: usize = 20;

/// The longest texts and lists that are left, from mild to severe; last, for lists that must stay whole, what leaves all
/// items and hardly anything of them.
const STEPS: [(usize, usize); 13] = [
    (4_000, usize::MAX),
    (1_000, usize::MAX),
    (300, usize::MAX),
    (80, usize::MAX),
    (300, 500),
    (80, 500),
    (80, 200),
    (80, 100),
    (80, 50),
    (80, 20),
    (80, 5),
    (40, 1),
    (20, usize::MAX),
];

/// The characters of a value as JSON in one line.
pub fn characters(value: &Value) -> usize {
    let mut counted = Characters(0);
    // A value always has a text, and the counter takes everything.
    let _ = serde_json::to_writer(&mut counted, value);
    counted.0
}

/// A value as its artifact has it: in lines, so that it can be read by lines; in one, when the lines would make it larger
/// than `most` bytes, which an artifact may have.
pub fn content(value: &Value, most: u64) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    if text.len() as u64 >= most {
        text = serde_json::to_vec(value).unwrap_or_default();
    }
    text.push(b'\n');
    text
}

/// A result with at most so many characters as the budget has, and the field [`FIELD`] with `whole` (what names the whole
/// result and says how to read it) and `missing`: how many characters of a text and items of a list are left out where,
/// by JSON Pointer. `fits` says whether a value has the shape that was promised.
///
/// `None` when no such value was found, as for an object with a hundred thousand keys.
pub fn cut(result: &Value, whole: &Value, budget: Budget, fits: impl Fn(&Value) -> bool) -> Option<Value> {
    let Value::Object(result) = result else { return None };
    let mut spare: Option<(usize, Value)> = None;
    // With all its items, each of them at least a digit and a comma, it may be too long however short the texts are.
    let has_room_for_all = values(result) <= budget.most / 2;
    for (text, items) in STEPS {
        if items == usize::MAX && !has_room_for_all {
            continue;
        }
        let mut cutter = Cutter {
            text,
            items,
            missing: Vec::new(),
        };
        let mut shorter = cutter.object(result, &mut String::new());
        if shorter.contains_key(FIELD) {
            cutter.missing.push((format!("/{FIELD}"), 1));
        }
        let missing = cutter.missing();
        shorter.insert(FIELD.to_owned(), json!({ "missing": missing, "whole": whole }));
        let shorter = Value::Object(shorter);
        let length = characters(&shorter);
        if length > budget.most || !fits(&shorter) {
            continue;
        }
        if length <= budget.usual {
            return Some(shorter);
        }
        if spare.as_ref().is_none_or(|(shortest, _)| length < *shortest) {
            spare = Some((length, shorter));
        }
    }
    spare.map(|(_, shortest)| shortest)
}

/// How many values there are within an object.
fn values(object: &Map<String, Value>) -> usize {
    fn within(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(within).sum::<usize>(),
            Value::Object(object) => 1 + values(object),
            _ => 1,
        }
    }
    object.values().map(within).sum()
}

struct Cutter {
    text: usize,
    items: usize,
    /// Place, and how much is missing there.
    missing: Vec<(String, usize)>,
}

impl Cutter {
    fn object(&mut self, object: &Map<String, Value>, at: &mut String) -> Map<String, Value> {
        let entries = object.iter().map(|(name, value)| {
            let before = at.len();
            at.push('/');
            at.push_str(&name.replace('~', "~0").replace('/', "~1"));
            let value = self.value(value, at);
            at.truncate(before);
            (name.clone(), value)
        });
        entries.collect()
    }

    fn value(&mut self, value: &Value, at: &mut String) -> Value {
        match value {
            Value::String(text) if text.len() > self.text => Value::String(self.text(text, at)),
            Value::Array(items) => {
                // Before what is missing in the items, so that it is told where not everything can be.
                if items.len() > self.items {
                    self.missing.push((at.clone(), items.len() - self.items));
                }
                let kept = items.iter().take(self.items).enumerate().map(|(index, item)| {
                    let before = at.len();
                    at.push('/');
                    at.push_str(&index.to_string());
                    let item = self.value(item, at);
                    at.truncate(before);
                    item
                });
                Value::Array(kept.collect())
            }
            Value::Object(object) => Value::Object(self.object(object, at)),
            other => other.clone(),
        }
    }

    fn text(&mut self, text: &str, at: &str) -> String {
        let Some((end, _)) = text.char_indices().nth(self.text) else {
            return text.to_owned();
        };
        self.missing.push((at.to_owned(), text[end..].chars().count()));
        format!("{}…", &text[..end])
    }

    fn missing(self) -> Map<String, Value> {
        let more = self.missing.len().saturating_sub(MOST_PLACES);
        let mut told: Map<String, Value> = self
            .missing
            .into_iter()
            .take(MOST_PLACES)
            .map(|(at, n)| (at, n.into()))
            .collect();
        if more > 0 {
            told.insert("further places".to_owned(), more.into());
        }
        told
    }
}

/// Counts what begins a character.
struct Characters(usize);

impl Write for Characters {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANY: fn(&Value) -> bool = |_| true;

    #[test]
    fn texts_go_before_items() {
        let failures: Vec<Value> = (0..49)
            .map(|n| json!({"name": format!("test {n}"), "details": "x".repeat(2_000)}))
            .collect();
        let result = json!({"ok": true, "failures": failures});
        let cut = cut(&result, &json!({"id": "a"}), Budget::default(), ANY).unwrap();
        assert!(characters(&cut) <= 16_000);
        let kept = cut["failures"].as_array().unwrap();
        assert_eq!((kept.len(), &kept[48]["name"]), (49, &json!("test 48")));
        assert_eq!(cut[FIELD]["missing"]["/failures/0/details"], 1_920);
        assert_eq!(cut[FIELD]["missing"]["further places"], 29);
        assert_eq!(cut[FIELD]["whole"], json!({"id": "a"}));
    }

    #[test]
    fn a_shape_that_allows_no_cut_is_kept_as_long_as_it_is_not_beyond_the_last_limit() {
        let result = |n: usize| json!({"ok": true, "rows": vec!["r".repeat(20); n]});
        let all_rows = |n: usize| move |value: &Value| value["rows"].as_array().map(Vec::len) == Some(n);
        let kept = cut(&result(1_000), &json!({}), Budget::default(), all_rows(1_000)).unwrap();
        assert_eq!(kept["rows"], result(1_000)["rows"]);
        assert_eq!(
            cut(&result(4_000), &json!({}), Budget::default(), all_rows(4_000)),
            None
        );
        assert!(cut(&result(4_000), &json!({}), Budget::default(), ANY).is_some());
        let keys: Map<String, Value> = (0..9_000).map(|n| (format!("key {n}"), json!(n))).collect();
        assert_eq!(cut(&Value::Object(keys), &json!({}), Budget::default(), ANY), None);
        assert_eq!(cut(&json!(["x"]), &json!({}), Budget::default(), ANY), None);
    }

    #[test]
    fn a_field_of_the_same_name_is_told_as_missing() {
        let result = json!({"ok": true, "oversized": "mine", "text": "x".repeat(50_000)});
        let cut = cut(&result, &json!("w"), Budget::default(), ANY).unwrap();
        assert_eq!(cut[FIELD]["missing"], json!({"/text": 46_000, "/oversized": 1}));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i32>().prop_map(Value::from),
            "[a-zé\u{1F980}\"/~]{0,300}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 200, 30, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..30).prop_map(Value::from),
                prop::collection::vec(("[a-c/~]{1,3}", inner), 0..9)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_missing_is_told_to_the_last_character(value in values(), usual in 300_usize..4_000) {
            let result = json!({"ok": true, "value": value});
            let text = result.to_string();
            prop_assert_eq!(characters(&result), text.chars().count());
            let budget = Budget { usual, most: usual * 3 };
            let Some(cut) = cut(&result, &json!({"id": "x"}), budget, ANY) else { return Ok(()) };
            prop_assert!(characters(&cut) <= budget.most);
            let missing = cut[FIELD]["missing"].as_object().unwrap();
            for (at, n) in missing.iter().filter(|(at, _)| at.starts_with('/')) {
                let n = usize::try_from(n.as_u64().unwrap()).unwrap();
                match (result.pointer(at).unwrap(), cut.pointer(at).unwrap()) {
                    (Value::String(whole), Value::String(part)) => {
                        let part = part.strip_suffix('…').unwrap();
                        prop_assert!(whole.starts_with(part));
                        prop_assert_eq!(whole.chars().count(), part.chars().count() + n);
                    }
                    (Value::Array(whole), Value::Array(part)) => prop_assert_eq!(whole.len(), part.len() + n),
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            if missing.is_empty() {
                let mut same = cut.clone();
                same.as_object_mut().unwrap().shift_remove(FIELD);
                prop_assert_eq!(same, result);
            }
        }
    }
}
