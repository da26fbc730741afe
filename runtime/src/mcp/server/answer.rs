//! How a call's outcome reads on the wire.
//!
//! Answers for content, structured content and errors, for clients that show a model only one of them. Leaves out the call.

use std::fmt::Write as _;

use rmcp::model::{CallToolResult, ContentBlock, ErrorData};
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

/// The answer of another server, in the types of the protocol library. What it does not know becomes text.
fn passed(answer: Passed) -> CallToolResult {
    let block = |value: Value| {
        let text = value.to_string();
        serde_json::from_value(value).unwrap_or_else(|_| ContentBlock::text(text))
    };
    let content = answer.content.into_iter().map(block).collect();
    let mut result = if answer.is_error {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = answer.structured_content;
    result
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
