//! What a schema outside of the portable subset makes a model send, taken back.
//!
//! Answers for values that the declarations for providers ask for and that the schema itself does not take: `null` for an
//! optional field that is absent, and the JSON text of a value. Only looks at a value that was refused, only at the places
//! that the validator names, and changes nothing unless all of it is right then. What is not right even so is [`read`] all
//! the same, for the words on what is wrong inside of a text. Leaves out schemas that have a shape: normalising reads those.

use std::collections::BTreeSet;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::normalise::parse_strictly;

/// How often what was mended is judged anew: a JSON text may hold more of its kind.
const ROUNDS: usize = 4;
/// How many places are mended at most.
const PLACES: usize = 1_000;
/// How many values are judged at most to find out which mends weren't needed.
const WORK: usize = 500_000;
/// How deep alternatives inside of alternatives are looked at.
const DEPTH: usize = 32;

/// How many ways to fit an alternative are tried.
const PLANS: usize = 64;

/// The value as it was meant, when there is a way to read it. `values` is how many values it has; `is_open` says whether
/// a place, as a JSON Pointer, may be mended.
pub(super) fn mended(
    validator: &Validator,
    sent: &Value,
    values: usize,
    is_open: &dyn Fn(&str, &Value) -> bool,
) -> Option<Value> {
    let mender = Mender {
        validator,
        sent,
        values,
        is_open,
    };
    // A null is nothing but null; a text may be meant as it is, so it is read only where that does not help. Alternatives
    // are tried one by one, and all of what they complain of only where there are too many of them.
    mender
        .all(&Value::is_null)
        .or_else(|| mender.one_by_one())
        .or_else(|| mender.all(&|_| true))
}

/// The value with the JSON texts read that stand where the schema takes no text and takes what they hold, however wrong
/// that is inside; nothing where there are none.
pub(super) fn read(validator: &Validator, sent: &Value, is_open: &dyn Fn(&str, &Value) -> bool) -> Option<Value> {
    let mut now = sent.clone();
    let mut tried = BTreeSet::new();
    let mut changed = false;
    for _ in 0..ROUNDS {
        let mut texts = Vec::new();
        for place in of_another_kind(validator, &now) {
            let Some(text) = now.pointer(&place).filter(|value| value.is_string()).cloned() else {
                continue;
            };
            if texts.len() < PLACES && is_open(&place, &now) && tried.insert(place.clone()) && mend(&mut now, &place) {
                texts.push((place, text));
            }
        }
        if texts.is_empty() {
            break;
        }
        let refused = of_another_kind(validator, &now);
        for (place, text) in texts {
            if !refused.contains(&place) {
                changed = true;
            } else if let Some(target) = now.pointer_mut(&place) {
                *target = text;
            }
        }
    }
    changed.then_some(now)
}

/// The places where a value is of another kind than the schema takes there.
fn of_another_kind(validator: &Validator, value: &Value) -> BTreeSet<String> {
    fn gather(error: &ValidationError<'_>, depth: usize, found: &mut BTreeSet<String>) {
        use ValidationErrorKind::{AnyOf, OneOfNotValid};
        if found.len() >= PLACES || depth > DEPTH {
            return;
        }
        let place = error.instance_path().as_str();
        if is_of_another_kind(error, place, depth) {
            found.insert(place.to_owned());
        } else if let AnyOf { context } | OneOfNotValid { context } = error.kind() {
            let meant = |errors: &&Vec<ValidationError<'static>>| {
                !errors.iter().any(|error| is_of_another_kind(error, place, depth))
            };
            for error in context.iter().filter(meant).flatten() {
                gather(error, depth + 1, found);
            }
        }
    }
    let mut found = BTreeSet::new();
    for error in validator.iter_errors(value).take(PLACES) {
        gather(&error, 0, &mut found);
    }
    found
}

/// Whether an error says of a place that all of the value there is something else.
fn is_of_another_kind(error: &ValidationError<'_>, place: &str, depth: usize) -> bool {
    use ValidationErrorKind::{AnyOf, Constant, Enum, FalseSchema, OneOfNotValid, Type};
    let within =
        |errors: &Vec<ValidationError<'static>>| errors.iter().any(|error| is_of_another_kind(error, place, depth + 1));
    error.instance_path().as_str() == place
        && match error.kind() {
            Type { .. } | Constant { .. } | Enum { .. } | FalseSchema => true,
            AnyOf { context } | OneOfNotValid { context } => depth <= DEPTH && context.iter().all(within),
            _ => false,
        }
}

struct Mender<'m> {
    validator: &'m Validator,
    sent: &'m Value,
    values: usize,
    is_open: &'m dyn Fn(&str, &Value) -> bool,
}

impl Mender<'_> {
    /// Mends all places that any alternative complains of.
    fn all(&self, what: &dyn Fn(&Value) -> bool) -> Option<Value> {
        let mut places = Vec::new();
        let mut now = self.sent.clone();
        for _ in 0..ROUNDS {
            let mut found = BTreeSet::new();
            for error in self.validator.iter_errors(&now).take(PLACES) {
                note(&error, 0, &mut found);
            }
            let before = places.len();
            for place in found {
                if places.len() < PLACES
                    && now.pointer(&place).is_some_and(what)
                    && (self.is_open)(&place, &now)
                    && mend(&mut now, &place)
                {
                    places.push(place);
                }
            }
            if places.len() == before {
                return None;
            }
            if self.validator.is_valid(&now) {
                return settled(self.validator, self.sent, places, self.values);
            }
        }
        None
    }

    /// Mends for one alternative at a time.
    fn one_by_one(&self) -> Option<Value> {
        let mut places = Vec::new();
        let mut now = self.sent.clone();
        let mut left = WORK / self.values.max(1);
        for _ in 0..ROUNDS {
            let errors: Vec<(String, Vec<Plan>)> = self
                .validator
                .iter_errors(&now)
                .take(PLACES)
                .map(|error| (error.instance_path().as_str().to_owned(), plans(&error, &now, 0)))
                .collect();
            let before = places.len();
            for (at, plans) in errors {
                let mut first = None;
                let mut chosen = None;
                for plan in plans {
                    left = left.checked_sub(1)?;
                    let mut tried = now.clone();
                    let mended = plan
                        .iter()
                        .all(|place| (self.is_open)(place, &tried) && mend(&mut tried, place));
                    if plan.is_empty() || !mended {
                        continue;
                    }
                    let fits = !self.validator.iter_errors(&tried).take(PLACES).any(|error| {
                        let place = error.instance_path().as_str();
                        place
                            .strip_prefix(&*at)
                            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                    });
                    if fits {
                        chosen = Some((plan, tried));
                        break;
                    }
                    first.get_or_insert((plan, tried));
                }
                if let Some((plan, value)) = chosen.or(first) {
                    places.extend(plan);
                    now = value;
                }
            }
            if places.len() == before || places.len() > PLACES {
                return None;
            }
            if self.validator.is_valid(&now) {
                return settled(self.validator, self.sent, places, self.values);
            }
        }
        None
    }
}

/// Places to mend together.
type Plan = BTreeSet<String>;

/// The ways to take away an error, as far as it shows. None when there is no way.
fn plans(error: &ValidationError<'_>, value: &Value, depth: usize) -> Vec<Plan> {
    use ValidationErrorKind::{
        AnyOf, Constant, Contains, Enum, FalseSchema, Not, OneOfMultipleValid, OneOfNotValid, Type, UnevaluatedItems,
        UnevaluatedProperties, UniqueItems,
    };
    let place = error.instance_path().as_str();
    let here = || match value.pointer(place) {
        Some(Value::Null | Value::String(_)) => vec![Plan::from([place.to_owned()])],
        _ => Vec::new(),
    };
    match error.kind() {
        AnyOf { context } | OneOfNotValid { context } | OneOfMultipleValid { context } => {
            let mut ways = here();
            for errors in context {
                if depth >= DEPTH || ways.len() >= PLANS {
                    break;
                }
                let mut together = vec![Plan::new()];
                for error in errors {
                    let each = plans(error, value, depth + 1);
                    let mut next = Vec::new();
                    for plan in &together {
                        for more in &each {
                            if next.len() < PLANS {
                                next.push(plan.union(more).cloned().collect());
                            }
                        }
                    }
                    together = next;
                }
                ways.extend(together);
            }
            ways
        }
        Type { .. } | Enum { .. } | Constant { .. } | FalseSchema | Not { .. } => here(),
        // They may follow from another error.
        Contains | UnevaluatedItems { .. } | UnevaluatedProperties { .. } | UniqueItems => vec![Plan::new()],
        _ => Vec::new(),
    }
}

/// Only what had to be mended: an alternative that was not meant complains as well.
fn settled(validator: &Validator, sent: &Value, mut places: Vec<String>, values: usize) -> Option<Value> {
    if places.len().saturating_mul(values) > WORK {
        return None;
    }
    let apply = |places: &[String], without: Option<usize>| {
        let mut value = sent.clone();
        for (index, place) in places.iter().enumerate() {
            if Some(index) != without {
                mend(&mut value, place);
            }
        }
        value
    };
    for index in (0..places.len()).rev() {
        if validator.is_valid(&apply(&places, Some(index))) {
            places.remove(index);
        }
    }
    let value = apply(&places, None);
    validator.is_valid(&value).then_some(value)
}

/// The places that an error is about, those of alternatives included.
fn note(error: &ValidationError<'_>, depth: usize, found: &mut BTreeSet<String>) {
    use ValidationErrorKind::{AnyOf, Constant, Enum, FalseSchema, Not, OneOfMultipleValid, OneOfNotValid, Type};
    if found.len() >= PLACES || depth > DEPTH {
        return;
    }
    match error.kind() {
        AnyOf { context } | OneOfNotValid { context } | OneOfMultipleValid { context } => {
            found.insert(error.instance_path().as_str().to_owned());
            for error in context.iter().flatten() {
                note(error, depth + 1, found);
            }
        }
        Type { .. } | Enum { .. } | Constant { .. } | FalseSchema | Not { .. } => {
            found.insert(error.instance_path().as_str().to_owned());
        }
        _ => {}
    }
}

/// Takes a `null` out of its object, or puts the value of a JSON text in its place.
fn mend(value: &mut Value, place: &str) -> bool {
    let Some((parent, key)) = place.rsplit_once('/') else {
        return false;
    };
    let key = key.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(place) {
        Some(Value::Null) => match value.pointer_mut(parent) {
            Some(Value::Object(map)) => map.shift_remove(&key).is_some(),
            _ => false,
        },
        Some(target) => {
            let Some(read) = target.as_str().and_then(|text| parse_strictly(text).ok()) else {
                return false;
            };
            *target = read;
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::registry::{CompiledTool, ToolBuilder};

    use super::*;

    fn tool(property: &Value) -> CompiledTool {
        let schema = json!({"type": "object", "required": ["needed"],
            "properties": {"f": property, "needed": {"anyOf": [{"type": "integer"}, {"type": "array"}]}},
            "$defs": {"Free": {"type": "object"}, "Leaf": {"type": "object", "properties": {"x": {"type": "string"}}}}});
        let tool = ToolBuilder::new("tool")
            .summary("Does it.")
            .input_schema(schema)
            .build();
        CompiledTool::new(tool.unwrap(), |_| Ok(()))
    }

    fn built(property: &Value, sent: &Value) -> Option<Value> {
        let sent = json!({"f": sent, "needed": 1});
        let built = tool(property).build(sent.as_object().unwrap().clone()).ok()?;
        assert_eq!(Value::from(built.original().clone()), sent, "what was sent is kept");
        Some(built.input().get("f").cloned().unwrap_or(json!("absent")))
    }

    #[test]
    fn what_declarations_ask_for_is_read_as_it_was_meant() {
        let optional = json!({"anyOf": [{"type": "object"}, {"type": "null"}]});
        let text = json!("{\"a\":1}");
        for (property, sent, meant) in [
            (&optional, &text, json!({"a": 1})),
            (&optional, &json!(null), json!(null)),
            (&json!({"type": ["object", "null"]}), &text, json!({"a": 1})),
            (&json!({"$ref": "#/$defs/Free"}), &text, json!({"a": 1})),
            (&json!({"$ref": "#/$defs/Leaf"}), &json!({"x": null}), json!({})),
            (&json!({"$ref": "#/$defs/Leaf"}), &json!("{\"x\":null}"), json!({})),
            (
                &json!({"anyOf": [{"$ref": "#/$defs/Leaf"}, {"type": "null"}]}),
                &json!({"x": null}),
                json!({}),
            ),
            (&json!({"not": {"type": "null"}}), &json!(null), json!("absent")),
            (&json!({"enum": [1, "a", null]}), &json!("1"), json!(1)),
            (&json!({"enum": [1, "a", null]}), &json!("\"a\""), json!("a")),
        ] {
            assert_eq!(built(property, sent), Some(meant), "{property} {sent}");
        }
    }

    #[test]
    fn what_is_valid_or_stays_wrong_is_left_alone() {
        let both = json!({"anyOf": [{"type": "string"}, {"type": "object"}]});
        assert_eq!(built(&both, &json!("{\"a\":1}")), Some(json!("{\"a\":1}")));
        let nullable = json!({"anyOf": [{"type": "integer"}, {"type": "null"}]});
        assert_eq!(built(&nullable, &json!(null)), Some(json!(null)));
        for (property, sent) in [
            (&nullable, json!("{\"a\":1}")),
            (&nullable, json!("{\"a\":1,\"a\":2}")),
            (&json!({"$ref": "#/$defs/Leaf"}), json!({"x": 1, "y": null})),
        ] {
            assert_eq!(built(property, &sent), None, "{property} {sent}");
        }
        let error = tool(&nullable).build(json!({"needed": null}).as_object().unwrap().clone());
        assert!(error.is_err(), "a null of a required field is no absence");
        // Nothing is read for one alternative where another one was meant.
        let two = json!({"anyOf": [
            {"$ref": "#/$defs/Leaf"},
            {"type": "object", "required": ["x"], "properties": {"x": {"type": ["array", "null"]}, "n": {"type": "integer"}}}]});
        assert_eq!(built(&two, &json!({"x": null, "n": null})), Some(json!({"x": null})));
    }
}
