//! Keywords that are judged by themselves: the type, the texts, the bounds, the words of an `enum`, the required fields.
//!
//! Each is copied to the cleaned schema when it is sound. Leaves out keywords that hold schemas (`walk`) and patterns
//! (`patterns`).

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::subset::{At, Role, TYPES, Word};
use crate::check::forms::{is_pascal, is_reserved, is_snake};
use crate::model::Schema;
use crate::pointer::{child, last};
use crate::report::Report;
use crate::resolve::pascal_case;
use crate::specs::Doc;
use crate::suggest::{list, suggest};
use crate::yaml::NodeKind;

/// What the call path adds to every payload.
const ADDED_TO_EVENTS: &[&str] = &["agent", "call_id", "unit_id", "ts"];

/// Lower and upper bounds.
pub(super) const BOUNDS: &[(&str, &str)] = &[
    ("minItems", "maxItems"),
    ("minLength", "maxLength"),
    ("minimum", "maximum"),
];

pub(super) fn description(
    doc: Doc<'_>,
    words: &HashMap<&str, Word<'_>>,
    pointer: &str,
    at: At,
    clean: &mut Schema,
    report: &mut Report,
) {
    let is_needed = matches!(at, At::Property | At::Type) && !words.contains_key("$ref");
    match words.get("description") {
        Some(word) => match word.node.as_str() {
            Some(text) if !text.trim().is_empty() => _ = clean.insert("description".into(), json!(text)),
            Some(_) => {
                let help = "say what it is, for the model".to_owned();
                report.value(doc, &word.pointer, "the description is empty", help);
            }
            None => {
                let help = "write a text; put it in quotes when it has a `: ` in it".to_owned();
                report.value(doc, &word.pointer, "a description is a text", help);
            }
        },
        None if is_needed => {
            let (what, name) = (if at == At::Type { "type" } else { "property" }, last(pointer));
            let help = "add `description`: what it is, for the model".to_owned();
            report.key(doc, pointer, format!("the {what} `{name}` has no description"), help);
        }
        None => {}
    }
}

pub(super) fn kind(
    doc: Doc<'_>,
    words: &HashMap<&str, Word<'_>>,
    pointer: &str,
    at: At,
    clean: &mut Schema,
    report: &mut Report,
) -> Option<String> {
    let Some(word) = words.get("type") else {
        let help = match () {
            () if words.contains_key("enum") => "add `type: string`".to_owned(),
            () if words.contains_key("properties") => "add `type: object`".to_owned(),
            () if words.contains_key("items") => "add `type: array`".to_owned(),
            () => format!("add `type`, one of {}", list(TYPES)),
        };
        report.key(doc, pointer, "a schema without `type`", help);
        return None;
    };
    match word.node.as_str() {
        Some(kind) if TYPES.contains(&kind) => {
            if at == At::Root && kind != "object" {
                let message = format!("the root is of type `{kind}`, clients take objects only");
                report.value(
                    doc,
                    &word.pointer,
                    message,
                    "write `type: object` with one property".to_owned(),
                );
                return None;
            }
            clean.insert("type".into(), json!(kind));
            return Some(kind.to_owned());
        }
        Some("null") => {
            let help = "leave the field optional; an absent field is `null` enough".to_owned();
            report.value(doc, &word.pointer, "there is no type `null`", help);
        }
        Some(kind) => {
            report.value(
                doc,
                &word.pointer,
                format!("unknown type `{kind}`"),
                suggest(kind, TYPES.iter().copied()),
            );
        }
        None if matches!(word.node.kind, NodeKind::List(_)) => {
            let help = "write one; instead of `null` leave the field optional".to_owned();
            report.value(
                doc,
                &word.pointer,
                "a list of types is outside the portable subset",
                help,
            );
        }
        None => report.value(
            doc,
            &word.pointer,
            "a type is a word",
            suggest("", TYPES.iter().copied()),
        ),
    }
    None
}

pub(super) fn title(doc: Doc<'_>, words: &BTreeMap<&str, &Word<'_>>, at: At, clean: &mut Schema, report: &mut Report) {
    let Some(word) = words.get("title") else { return };
    let title = word.node.as_str().unwrap_or_default();
    if matches!(at, At::Root | At::Type) {
        let message = "`title` names a nested type in Rust, this one has its name already";
        report.key(doc, &word.pointer, message, "remove it".to_owned());
    } else if !is_pascal(title) {
        let pascal: String = pascal_case(title).chars().filter(char::is_ascii_alphanumeric).collect();
        let help = is_pascal(&pascal).then(|| format!("write `{pascal}`"));
        let message = "a title is the name of the nested type in Rust, in Pascal case";
        report.value(
            doc,
            &word.pointer,
            message,
            help.or_else(|| Some("write it like `TodoItem`".into())),
        );
    } else if is_reserved(title) {
        report.value(
            doc,
            &word.pointer,
            format!("the name `{title}` is taken in Rust"),
            "choose another".to_owned(),
        );
    } else {
        clean.insert("title".into(), json!(title));
    }
}

pub(super) fn bounds(
    doc: Doc<'_>,
    words: &BTreeMap<&str, &Word<'_>>,
    kind: Option<&str>,
    clean: &mut Schema,
    report: &mut Report,
) {
    for &(low, high) in BOUNDS {
        for name in [low, high] {
            let Some(word) = words.get(name) else { continue };
            let value = word.node.to_value();
            let fault = if low != "minimum" {
                (value.as_u64().is_none_or(|count| count > u64::from(u32::MAX)))
                    .then(|| format!("`{name}` is a whole number from 0 to {}", u32::MAX))
            } else if kind == Some("integer") {
                value
                    .as_i64()
                    .is_none()
                    .then(|| format!("`{name}` of an integer is a whole number that fits 64 bits with sign"))
            } else {
                value.as_f64().is_none().then(|| format!("`{name}` is a number"))
            };
            match fault {
                Some(fault) => {
                    let help = format!("write such a number, or leave `{name}` out");
                    report.value(doc, &word.pointer, fault, help);
                }
                None => _ = clean.insert(name.into(), value),
            }
        }
        let number = |name: &str| clean.get(name).and_then(Value::as_f64);
        if let (Some(least), Some(most), Some(word)) = (number(low), number(high), words.get(high))
            && least > most
        {
            let message = format!("`{high}` is below `{low}`: nothing fits");
            report.value(doc, &word.pointer, message, "swap them".to_owned());
            clean.shift_remove(low);
            clean.shift_remove(high);
        }
    }
}

pub(super) fn words_of_enum(doc: Doc<'_>, words: &BTreeMap<&str, &Word<'_>>, clean: &mut Schema, report: &mut Report) {
    let Some(word) = words.get("enum") else { return };
    let NodeKind::List(items) = &word.node.kind else {
        let help = "list the allowed texts".to_owned();
        report.value(doc, &word.pointer, "`enum` is a list of texts", help);
        return;
    };
    if items.is_empty() {
        report.value(
            doc,
            &word.pointer,
            "an empty `enum` allows nothing",
            "list the allowed texts".to_owned(),
        );
        return;
    }
    let mut texts: Vec<&str> = Vec::new();
    let mut variants: HashMap<Vec<String>, &str> = HashMap::new();
    let mut is_whole = true;
    for (index, item) in items.iter().enumerate() {
        let at = format!("{}/{index}", word.pointer);
        let Some(text) = item.as_str() else {
            is_whole = false;
            report.value(
                doc,
                &at,
                "the words of an `enum` are texts",
                "put it in quotes".to_owned(),
            );
            continue;
        };
        let variant = parts(text);
        if texts.contains(&text) {
            report.value(doc, &at, format!("`{text}` is listed twice"), "remove one".to_owned());
            continue;
        }
        if variant.is_empty() || variant == ["self"] {
            let message = format!("`{text}` cannot be a name in Rust");
            report.value(doc, &at, message, "use letters and digits".to_owned());
        } else if let Some(first) = variants.get(&variant) {
            let message = format!("`{text}` and `{first}` are the same variant in Rust");
            report.value(doc, &at, message, "rename one of them".to_owned());
        } else {
            variants.insert(variant, text);
        }
        texts.push(text);
    }
    if is_whole {
        clean.insert("enum".into(), json!(texts));
    }
}

pub(super) fn property_name(doc: Doc<'_>, name: &str, pointer: &str, role: Role, at: At, report: &mut Report) {
    if !is_snake(name) || name.len() > 64 {
        let help = "use lower-case letters, digits and `_`, beginning with a letter, at most 64".to_owned();
        report.key(doc, pointer, format!("`{name}` is no name for a property"), help);
    } else if at != At::Root {
    } else if role == Role::Output && name == "ok" {
        let help = "remove it: the call path adds `ok` to every answer".to_owned();
        report.key(doc, pointer, "an output does not declare `ok`", help);
    } else if role == Role::Payload && ADDED_TO_EVENTS.contains(&name) {
        let help = format!("remove it: {} are added to every event", list(ADDED_TO_EVENTS));
        report.key(doc, pointer, format!("a payload does not declare `{name}`"), help);
    }
}

pub(super) fn required(
    doc: Doc<'_>,
    words: &BTreeMap<&str, &Word<'_>>,
    names: Option<&[&str]>,
    clean: &mut Schema,
    report: &mut Report,
) {
    let Some(word) = words.get("required") else { return };
    let NodeKind::List(items) = &word.node.kind else {
        let help = "list the names of the required fields".to_owned();
        report.value(doc, &word.pointer, "`required` is a list", help);
        return;
    };
    let mut kept: Vec<&str> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let at = format!("{}/{index}", word.pointer);
        let Some(name) = item.as_str() else {
            report.value(doc, &at, "`required` lists names", "put it in quotes".to_owned());
            continue;
        };
        if kept.contains(&name) {
            report.value(doc, &at, format!("`{name}` is listed twice"), "remove one".to_owned());
        } else if let Some(names) = names
            && !names.contains(&name)
        {
            let help = suggest(name, names.iter().copied());
            report.value(doc, &at, format!("there is no property `{name}`"), help);
        } else if names.is_none() && !words.contains_key("properties") {
            let help = "declare it under `properties`".to_owned();
            report.value(doc, &at, format!("there is no property `{name}`"), help);
        } else {
            // Of a name with a form that it may not have, an example may have either form.
            let is_whole = names.is_none_or(|names| names.iter().all(|name| is_snake(name)));
            if is_whole
                || is_snake(name) && names.is_some_and(|names| !names.iter().any(|other| same_field(other, name)))
            {
                kept.push(name);
            }
            let default = names.and_then(|_| {
                let properties = words.get("properties")?;
                let property = properties.node.get(name)?;
                property
                    .get("default")
                    .map(|_| child(&child(&properties.pointer, name), "default"))
            });
            if let Some(default) = default {
                let message = format!("`{name}` is required, its default would never be used");
                let help = "remove the default, or the name from `required`".to_owned();
                report.key(doc, &default, message, help);
            }
        }
    }
    if names.is_some() {
        clean.insert("required".into(), json!(kept));
    }
}

/// Whether two different names are one, but for a form that one of them may not have.
fn same_field(one: &str, other: &str) -> bool {
    one != other && !is_snake(one) && parts(one) == parts(other)
}

/// The words that a variant's name in Rust is made of.
fn parts(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut now = String::new();
    let mut was_lower = false;
    for c in text.chars() {
        if !c.is_alphanumeric() || (was_lower && c.is_uppercase()) {
            parts.extend((!now.is_empty()).then(|| std::mem::take(&mut now)));
        }
        if c.is_alphanumeric() {
            now.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    parts.extend((!now.is_empty()).then_some(now));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_compared_by_their_words() {
        assert_eq!(parts("fooBar-baz"), ["foo", "bar", "baz"]);
        assert_eq!(parts("FOO"), parts("foo"));
        assert!(parts("--").is_empty());
    }
}
