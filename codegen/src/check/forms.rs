//! Forms of names: snake, kebab and Pascal case, tags, events, versions, and what Rust reserves.
//!
//! Leaves out which form a name must have, and what the name stands for.

/// Names that Rust's prelude has, or that generated modules give to something of their own.
const RESERVED_TYPES: &[&str] = &[
    "AsMut",
    "AsRef",
    "AsyncFn",
    "AsyncFnMut",
    "AsyncFnOnce",
    "Box",
    "Clone",
    "Copy",
    "Debug",
    "Default",
    "Deserialize",
    "DoubleEndedIterator",
    "Drop",
    "Eq",
    "Err",
    "Error",
    "Event",
    "ExactSizeIterator",
    "Extend",
    "Failure",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "FromIterator",
    "Future",
    "Handler",
    "Hash",
    "Input",
    "Into",
    "IntoFuture",
    "IntoIterator",
    "Iterator",
    "None",
    "Ok",
    "Option",
    "Ord",
    "Output",
    "PartialEq",
    "PartialOrd",
    "Result",
    "Self",
    "Send",
    "Serialize",
    "Sized",
    "Some",
    "String",
    "Sync",
    "ToOwned",
    "ToString",
    "TryFrom",
    "TryInto",
    "Unpin",
    "Value",
    "Vec",
];

/// Names at the root of the generated crate, where the markers of handlers stand, too.
const RESERVED_MARKERS: &[&str] = &[
    "AGENTS",
    "AgentId",
    "AnyInput",
    "Counts",
    "Dispatched",
    "GRANTS",
    "Grant",
    "HandleAll",
    "HandlerId",
    "ToolId",
    "UnknownTool",
];

/// `^[a-z][a-z0-9_]*$`
pub(super) fn is_snake(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// `^[A-Z][A-Za-z0-9]*$`
pub(super) fn is_pascal(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Whether a Pascal-case name is one that generated code or Rust's prelude has.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED_TYPES.contains(&name)
}

/// Whether a handler's marker would have a name that generated code has already.
pub(super) fn is_reserved_marker(name: &str) -> bool {
    is_reserved(name) || RESERVED_MARKERS.contains(&name)
}

/// How a property is called in Rust: underscores at its end, and those beside another one, are lost.
pub(super) fn field_name(property: &str) -> String {
    let parts: Vec<&str> = property.split('_').filter(|part| !part.is_empty()).collect();
    parts.join("_")
}

pub(super) fn is_kebab(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

pub(super) fn is_tag(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'))
}

/// `^[a-z]+(\.[a-z_]+)+$`
pub(super) fn is_event(name: &str) -> bool {
    let mut parts = name.split('.');
    let subject = parts.next().unwrap_or_default();
    let events: Vec<_> = parts.collect();
    !subject.is_empty()
        && subject.chars().all(|c| c.is_ascii_lowercase())
        && !events.is_empty()
        && events.iter().all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        // A part of underscores alone has no name in Rust.
        && events.iter().all(|part| part.chars().any(|c| c != '_'))
}

/// Whether a name is a keyword of Rust, used or reserved.
pub(super) fn is_keyword(name: &str) -> bool {
    syn::parse_str::<syn::Ident>(name).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_names() {
        assert!(is_snake("a_1") && !is_snake("_a") && !is_snake("A") && !is_snake(""));
        assert!(is_event("agent.todo_item") && is_event("a.b.c"));
        assert!(
            !is_event("agent") && !is_event("agent.") && !is_event("a_b.c") && !is_event("a.B") && !is_event("a.__")
        );
        assert!(is_keyword("match") && is_keyword("self") && is_keyword("try") && !is_keyword("matches"));
    }
}
