//! When two JSON values are the same.
//!
//! Answers for equality by value, in which `24` and `24.0` are one number. Leaves out everything else about values.

use serde_json::{Number, Value};

/// Whether two values are equal as JSON Schema understands it: numbers by their mathematical value, objects whatever the
/// order of their keys.
pub fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => same_number(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, one)| other.get(key).is_some_and(|other| same(one, other)))
        }
        (one, other) => one == other,
    }
}

fn same_number(one: &Number, other: &Number) -> bool {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one == other,
        _ => false,
    }
}

/// The number without a loss, when it is whole and not larger than any of ours.
fn whole(number: &Number) -> Option<i128> {
    if let Some(whole) = number.as_i64() {
        return Some(whole.into());
    }
    if let Some(whole) = number.as_u64() {
        return Some(whole.into());
    }
    let float = number.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is not whole or not within the range is thrown away; else the cast is exact"
    )]
    (float.fract() == 0.0 && float.abs() < 2_f64.powi(120)).then_some(float as i128)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_compared_by_value_and_without_a_loss() {
        for (one, other) in [
            (json!(24), json!(24.0)),
            (json!(0), json!(-0.0)),
            (json!(10_000_000_000_000_000_000_u64), json!(1e19)),
            (json!({"a": [1, 2.0], "b": "x"}), json!({"b": "x", "a": [1.0, 2]})),
            (json!(0.5), json!(0.5)),
        ] {
            assert!(same(&one, &other), "{one} {other}");
        }
        for (one, other) in [
            (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992.0)),
            (json!(24), json!("24")),
            (json!(24), json!(24.5)),
            (json!(1e300), json!(1)),
            (json!([1]), json!([1, 1])),
            (json!({"a": 1}), json!({"b": 1})),
        ] {
            assert!(!same(&one, &other), "{one} {other}");
        }
    }
}
