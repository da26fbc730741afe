//! Digests: one name for equal bytes, and for equal JSON whatever the order of its keys.
//!
//! Answers for SHA-256 as lowercase hex. Leaves out what is digested and why.

use std::fmt::Write;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The SHA-256 of `bytes`, as 64 lowercase hex digits.
pub fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes.as_ref()) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The digest of a JSON value: the same for two values that differ in the order of keys alone.
///
/// Numbers count as they are written: `1` and `1.0` differ. Copies the value once.
pub fn of_json(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    sha256_hex(sorted.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_digest_is_the_standards() {
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex("abc"), abc);
    }

    #[test]
    fn the_order_of_keys_does_not_count_and_everything_else_does() {
        let one = json!({"a": 1, "b": [{"c": null, "d": "x"}]});
        let same: Value = serde_json::from_str(r#"{"b":[{"d":"x","c":null}],"a":1}"#).unwrap();
        assert_eq!(of_json(&one), of_json(&same));
        for other in [
            json!({"a": 1, "b": [{"c": null, "d": "y"}]}),
            json!({"a": 1, "b": [{"d": "x"}]}),
            json!({"a": "1", "b": [{"c": null, "d": "x"}]}),
            json!({"a": 1, "b": {"c": null, "d": "x"}}),
        ] {
            assert_ne!(of_json(&one), of_json(&other), "{other}");
        }
    }
}
