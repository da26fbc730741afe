//! JSON merge patches as RFC 7396 has them.
//!
//! Answers for merging and for how deep a value is. Leaves out how large either may be.

use serde_json::{Map, Value};

/// Merges a patch into a value: a null removes a key, an object is merged key by key, anything else replaces what was
/// there, an array as a whole. The order of the keys that stay is kept. Cost: linear in the patch.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(target) = target {
        merge_object(target, patch);
    }
}

/// As [`merge`], for two objects.
pub fn merge_object(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        if value.is_null() {
            // The plain `remove` would put the last key into the gap.
            target.shift_remove(key);
        } else {
            merge(target.entry(key.as_str()).or_insert(Value::Null), value);
        }
    }
}

/// How many levels of objects and arrays a value has: 0 for a text, 1 for `{}`, 2 for `{"a": []}`.
pub fn depth(value: &Value) -> usize {
    let within = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + within.unwrap_or(0)
}

/// As [`depth`], for an object.
pub fn depth_of_object(object: &Map<String, Value>) -> usize {
    1 + object.values().map(depth).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn merged(target: &Value, patch: &Value) -> Value {
        let mut target = target.clone();
        merge(&mut target, patch);
        target
    }

    /// The table of RFC 7396, appendix A: original, patch, result.
    #[test]
    fn the_cases_of_the_rfc() {
        for (original, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(merged(&original, &patch), result, "{original} with {patch}");
        }
        // The example of its third section.
        let original = json!({
            "title": "Goodbye!", "author": {"givenName": "John", "familyName": "Doe"},
            "tags": ["example", "sample"], "content": "This will be unchanged",
        });
        let patch = json!({
            "title": "Hello!", "phoneNumber": "+01-123-456-7890", "author": {"familyName": null}, "tags": ["example"],
        });
        let result = json!({
            "title": "Hello!", "author": {"givenName": "John"}, "tags": ["example"],
            "content": "This will be unchanged", "phoneNumber": "+01-123-456-7890",
        });
        assert_eq!(merged(&original, &patch), result);
    }

    #[test]
    fn the_keys_that_stay_keep_their_order() {
        let result = merged(&json!({"c": 1, "b": 2, "a": 3}), &json!({"c": null, "d": 4, "b": 5}));
        assert_eq!(result.to_string(), r#"{"b":5,"a":3,"d":4}"#);
    }

    #[test]
    fn depth_counts_levels() {
        for (value, expected) in [
            (json!("x"), 0),
            (json!({}), 1),
            (json!({"a": 1}), 1),
            (json!({"a": []}), 2),
            (json!([[[]], {"a": {"b": null}}]), 3),
        ] {
            assert_eq!(depth(&value), expected, "{value}");
        }
    }

    fn value(nulls: bool) -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i8>().prop_map(Value::from),
            Just(if nulls { Value::Null } else { json!("x") }),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// The patch that turns one value without nulls into another.
    fn difference(from: &Value, to: &Value) -> Value {
        let (Value::Object(from), Value::Object(to)) = (from, to) else {
            return to.clone();
        };
        let gone = from
            .keys()
            .filter(|key| !to.contains_key(*key))
            .map(|key| (key.clone(), Value::Null));
        let there = to
            .iter()
            .filter(|(key, value)| from.get(*key) != Some(value))
            .map(|(key, value)| {
                let before = from.get(key).unwrap_or(&Value::Null);
                (key.clone(), difference(before, value))
            });
        Value::Object(gone.chain(there).collect())
    }

    proptest! {
        #[test]
        fn the_difference_of_two_values_leads_from_one_to_the_other(from in value(false), to in value(false)) {
            prop_assert_eq!(merged(&from, &difference(&from, &to)), to);
        }

        #[test]
        fn the_same_patch_again_changes_nothing_and_none_makes_it_deeper(from in value(true), patch in value(true)) {
            let once = merged(&from, &patch);
            prop_assert_eq!(merged(&once, &patch), once.clone());
            prop_assert!(depth(&once) <= depth(&from).max(depth(&patch)));
        }
    }
}
