//! What it costs to judge a value by somebody else's schema.
//!
//! Answers for refusing schemas whose references multiply: forty steps of `{allOf: [next, next]}` are a small text, and a
//! validator that follows them never ends, whatever the value. Leaves out schemas of the portable subset, which have no
//! references, and schemas that contain themselves more than once: those cost as much as the depth of a value makes
//! them, and values come from the caller.

use std::collections::HashMap;

use devloop_contract::projection::{each_schema, resolve};
use serde_json::Value;

/// How many schemas may be looked at for one value.
const MOST: u64 = 100_000;
/// The longest way from the root, references followed. Validators recurse along it.
const LONGEST: usize = 500;

/// Why a schema is not to be used, if so.
pub(super) fn refusal(schema: &Value) -> Option<String> {
    let mut walker = Walker {
        root: schema,
        known: HashMap::new(),
        refusal: None,
    };
    let cost = walker.cost(schema, 0);
    walker.refusal.or_else(|| {
        (cost > MOST)
            .then(|| format!("its references multiply: more than {MOST} schemas would be looked at for a value"))
    })
}

struct Walker<'s> {
    root: &'s Value,
    /// By the place in memory; nothing while it is being worked out.
    known: HashMap<*const Value, Option<u64>>,
    refusal: Option<String>,
}

impl<'s> Walker<'s> {
    fn cost(&mut self, schema: &'s Value, depth: usize) -> u64 {
        let Value::Object(map) = schema else { return 1 };
        match self.known.get(&std::ptr::from_ref(schema)) {
            Some(Some(cost)) => return *cost,
            // It contains itself.
            Some(None) => return 1,
            None => {}
        }
        if depth > LONGEST {
            self.refuse(format!("more than {LONGEST} schemas lead to one another"));
            return 1;
        }
        self.known.insert(schema, None);
        let mut below = Vec::new();
        each_schema(schema, &mut |keyword, _, one| {
            // What is only declared costs nothing until something refers to it.
            if !matches!(keyword, "$defs" | "definitions") {
                below.push(one);
            }
        });
        if let Some(reference) = map.get("$ref") {
            match reference.as_str().and_then(|reference| resolve(self.root, reference)) {
                Some(target) => below.push(target),
                None => self.refuse(format!(
                    "no reference to {reference} is followed; write `#/…` into the same schema"
                )),
            }
        }
        let is_root = std::ptr::eq(schema, self.root);
        if let Some(keyword) = ["$dynamicRef", "$id"]
            .into_iter()
            .find(|keyword| map.get(*keyword).is_some_and(Value::is_string) && !(is_root && *keyword == "$id"))
        {
            self.refuse(format!("`{keyword}` makes references mean something else"));
        }
        let cost = below
            .into_iter()
            .fold(1_u64, |sum, one| sum.saturating_add(self.cost(one, depth + 1)));
        self.known.insert(schema, Some(cost));
        cost
    }

    fn refuse(&mut self, reason: String) {
        self.refusal.get_or_insert(reason);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn chain(steps: usize, of: fn(Value) -> Value) -> Value {
        let mut shared = Map::new();
        for n in 0..steps {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            shared.insert(format!("d{n}"), of(next));
        }
        shared.insert(format!("d{steps}"), json!({"type": "integer"}));
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": shared})
    }

    #[test]
    fn references_that_multiply_are_refused_and_others_are_not() {
        let doubled: [fn(Value) -> Value; 4] = [
            |next| json!({"allOf": [next, next]}),
            |next| json!({"anyOf": [next, {"not": next}]}),
            |next| json!({"if": next, "else": next}),
            |next| json!({"properties": {"a": next}, "patternProperties": {"": next}}),
        ];
        for of in doubled {
            assert!(refusal(&chain(60, of)).is_some_and(|reason| reason.contains("multiply")));
            assert_eq!(refusal(&chain(10, of)), None);
        }
        assert_eq!(refusal(&chain(200, |next| json!({"allOf": [next]}))), None);
        let long = refusal(&chain(5_000, |next| json!({"allOf": [next]})));
        assert!(long.is_some_and(|reason| reason.contains("more than 500 schemas")));
        let tree = json!({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}});
        assert_eq!(refusal(&tree), None);
    }

    #[test]
    fn references_that_cannot_be_counted_are_refused() {
        for (schema, part) in [
            (
                json!({"properties": {"a": {"$ref": "#name"}}}),
                "no reference to \"#name\"",
            ),
            (
                json!({"properties": {"a": {"$ref": "https://example.com"}}}),
                "no reference to",
            ),
            (json!({"properties": {"a": {"$dynamicRef": "#a"}}}), "`$dynamicRef`"),
            (json!({"properties": {"a": {"$id": "https://example.com/a"}}}), "`$id`"),
        ] {
            assert!(refusal(&schema).is_some_and(|reason| reason.contains(part)), "{schema}");
        }
        let named = json!({"$id": "https://example.com/a", "properties": {"id": {"type": "string"}, "$id": {}}});
        assert_eq!(refusal(&named), None);
    }
}
