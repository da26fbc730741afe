//! Texts of servers, which may be as long as they like and hold what they like, and errors of the protocol library.

use std::error::Error;
use std::iter::successors;

use serde_json::Value;

/// An error and its causes.
pub(super) fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |&error| error.source())
}

/// At most so many characters; control characters are written out.
pub(super) fn cut(text: &str, chars: usize) -> String {
    let mut short = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == chars {
            short.push('…');
            break;
        }
        if c.is_control() && !matches!(c, '\n' | '\t') {
            short.extend(c.escape_unicode());
        } else {
            short.push(c);
        }
    }
    short
}

/// A value as it is, or its beginning as a text when it is large.
pub(super) fn cut_json(value: Value, chars: usize) -> Value {
    let text = match &value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.len() <= chars {
        value
    } else {
        Value::String(cut(&text, chars))
    }
}
