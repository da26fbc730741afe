//! How a call's outcome reads on the wire.
//!
//! Answers for content, structured content and errors, for clients that show a model only one of them. Leaves out the call.

use std::fmt::Write as _;

use rmcp::model::{CallToolResult, ContentBlock, ErrorData, MetaObject};
use serde_json::{Value, json};

use crate::call::{CallOutcome, Passed, with_causes};

/// The longest error text that a client shows a model in full, with room to spare.
const ERROR_TEXT_LIMIT: usize = 4_000;

/// A call's outcome on the wire. Some clients show a model only the structured content, others only the text, and on
/// an error all of them only the text: so the text always says everything.
pub(super) fn answer(outcome: CallOutcome) -> Result<CallToolResult, ErrorData> {
    Ok(match outcome {
        CallOutcome::Success(value @ Value::Object(_)) => CallToolResult::structured(value),
        // Structured content is an object, by the protocol.
        CallOutcome::Success(Value::String(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
        CallOutcome::Success(value) => CallToolResult::success(vec![ContentBlock::text(value.to_string())]),
        CallOutcome::Passed(answer) => passed(answer),
        CallOutcome::Expected(body) => failed(match serde_json::to_string(&body) {
            Ok(text) => text,
            Err(error) => format!(
                "{}: {} (its details cannot be written as JSON: {error})",
                body.code, body.reason
            ),
        }),
        CallOutcome::Invalid(error) => failed(shortened(&error.with_pointers().to_string(), ERROR_TEXT_LIMIT)),
        CallOutcome::Sandbox { message, hint } => failed(match hint {
            Some(hint) => format!("{message}\n{hint}"),
            None => message,
        }),
        CallOutcome::Internal {
            message,
            chain,
            error_id,
            hint,
        } => failed(format!(
            "internal error: {}\nerror_id: {error_id}\n{hint} Do not retry blindly. Go on with other work, or say that this \
             needs a person, and give the error_id.",
            shortened(&with_causes(&message, &chain), ERROR_TEXT_LIMIT / 2)
        )),
        // Only a client that is asked in this way gets here, and it is asked before.
        CallOutcome::NeedsApproval(ask) => failed(format!("{}: a person must allow it first", ask.reason)),
        CallOutcome::Cancelled => failed("the call was cancelled before it was done".into()),
        CallOutcome::UnknownTool { name, nearest } => {
            let name = shortened(&name, 64);
            let mut message = format!("unknown tool {name:?}");
            if !nearest.is_empty() {
                let _ = write!(message, ": did you mean {}?", nearest.join(", "));
            }
            return Err(ErrorData::invalid_params(
                message,
                Some(json!({ "name": name, "nearest": nearest })),
            ));
        }
    })
}

/// The answer of another server, in the types of the protocol library. What it does not know becomes text, and so does
/// data that stands nowhere else for clients that show a model only the text.
fn passed(answer: Passed) -> CallToolResult {
    let text = data_as_text(&answer);
    let block = |value: Value| {
        let text = value.to_string();
        serde_json::from_value(value).unwrap_or_else(|_| ContentBlock::text(text))
    };
    let content = answer.content.into_iter().map(block);
    let content = content.chain(text.map(ContentBlock::text)).collect();
    let mut result = if answer.is_error {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = answer.structured_content;
    result.meta = answer.meta.map(MetaObject);
    result
}

/// The data of an answer as JSON where its texts do not have it: an answer has none, or it is an error, of which some
/// clients show nothing else.
fn data_as_text(answer: &Passed) -> Option<String> {
    let data = answer.structured_content.as_ref()?;
    let texts = || answer.content.iter().filter_map(|block| block.get("text")?.as_str());
    let is_missing = if answer.is_error {
        // Only what looks like the data is read.
        !texts().any(|text| {
            text.trim_start().starts_with('{') && serde_json::from_str(text).is_ok_and(|said: Value| said == *data)
        })
    } else {
        texts().all(|text| text.trim().is_empty())
    };
    is_missing.then(|| data.to_string())
}

fn failed(text: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// At most `limit` characters of a text, the last of them an ellipsis when something is missing.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    // No text has more characters than bytes.
    if text.len() <= limit || text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(content: Value, data: Value, is_error: bool) -> Vec<String> {
        let Value::Array(content) = content else {
            panic!("a list")
        };
        let answer = Passed {
            content,
            structured_content: Some(data),
            is_error,
            ..Passed::default()
        };
        let result = serde_json::to_value(passed(answer)).unwrap();
        assert_eq!(result["structuredContent"], json!({ "a": 1 }));
        let blocks = result["content"].as_array().unwrap().iter();
        blocks
            .map(|block| block["text"].as_str().unwrap_or("?").to_owned())
            .collect()
    }

    #[test]
    fn data_without_a_text_is_told_as_text_too_and_on_an_error_always() {
        let (data, text) = (json!({ "a": 1 }), |text: &str| json!({ "type": "text", "text": text }));
        let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
        for (content, is_error, expected) in [
            (json!([]), false, &[r#"{"a":1}"#][..]),
            (json!([text(" ")]), false, &[" ", r#"{"a":1}"#]),
            (json!([image]), false, &["?", r#"{"a":1}"#]),
            (json!([text("one")]), false, &["one"]),
            (json!([text("it failed")]), true, &["it failed", r#"{"a":1}"#]),
            (json!([text("{ \"a\": 1 }")]), true, &["{ \"a\": 1 }"]),
            (json!([]), true, &[r#"{"a":1}"#]),
        ] {
            assert_eq!(
                texts(content.clone(), data.clone(), is_error),
                expected,
                "{content} {is_error}"
            );
        }
    }
}
