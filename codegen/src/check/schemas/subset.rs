//! The portable subset of JSON Schema: its keywords, what each fits, and what to write instead of the others.
//!
//! Answers for the tables and for reading the keys of a schema by them. Leaves out the values of the keys.

use std::collections::HashMap;

use crate::pointer::child;
use crate::report::Report;
use crate::specs::Doc;
use crate::suggest::{list, nearest};
use crate::yaml::{Entry, Node};

/// What a schema is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Input,
    Output,
    Payload,
    Details,
    Shared,
}

/// Where in a schema a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    Root,
    /// A shared type.
    Type,
    Property,
    Item,
    /// The value of a map.
    Entry,
}

pub(super) const TYPES: &[&str] = &["object", "array", "string", "integer", "number", "boolean"];

/// Each keyword of the subset with the types that it fits; none means all.
pub(super) const KEYWORDS: &[(&str, &[&str])] = &[
    ("type", &[]),
    ("$ref", &[]),
    ("title", &[]),
    ("description", &[]),
    ("default", &[]),
    ("enum", &["string"]),
    ("properties", &["object"]),
    ("required", &["object"]),
    ("additionalProperties", &["object"]),
    ("items", &["array"]),
    ("minItems", &["array"]),
    ("maxItems", &["array"]),
    ("uniqueItems", &["array"]),
    ("minLength", &["string"]),
    ("maxLength", &["string"]),
    ("pattern", &["string"]),
    ("minimum", &["integer", "number"]),
    ("maximum", &["integer", "number"]),
];

/// Keywords of JSON Schema that are outside the subset, with what to do instead.
const FOREIGN: &[(&str, &str)] = &[
    ("oneOf", RULES),
    ("anyOf", RULES),
    ("allOf", "write the properties out in one schema"),
    ("not", RULES),
    ("if", RULES),
    ("then", RULES),
    ("else", RULES),
    ("const", "write `enum` with one text"),
    ("$defs", SHARED),
    ("definitions", SHARED),
    ("$schema", "leave it out: specs are read by one dialect"),
    ("$id", "leave it out"),
    ("$anchor", SHARED),
    ("$dynamicRef", SHARED),
    ("$comment", "write a YAML comment"),
    (
        "format",
        "use `pattern`, or say it in `description` and check it in the handler",
    ),
    ("patternProperties", MAPS),
    ("propertyNames", MAPS),
    ("minProperties", HANDLER),
    ("maxProperties", HANDLER),
    ("exclusiveMinimum", "use `minimum`"),
    ("exclusiveMaximum", "use `maximum`"),
    ("multipleOf", HANDLER),
    ("contains", HANDLER),
    ("minContains", HANDLER),
    ("maxContains", HANDLER),
    ("prefixItems", "write an object with a property for each part"),
    ("additionalItems", "write an object with a property for each part"),
    ("dependencies", RULES),
    ("dependentRequired", RULES),
    ("dependentSchemas", RULES),
    ("unevaluatedItems", "use `items`"),
    ("unevaluatedProperties", "use `additionalProperties`"),
    ("contentEncoding", HANDLER),
    ("contentMediaType", HANDLER),
    ("contentSchema", HANDLER),
    ("nullable", "leave the field optional; an absent field is `null` enough"),
    ("example", "write it under `examples` of the tool"),
    ("examples", "write them under `examples` of the tool"),
    ("deprecated", "say it in `description`"),
    ("readOnly", "say it in `description`"),
    ("writeOnly", "say it in `description`"),
];
const RULES: &str = "say constraints between fields under `rules` of the tool";
const SHARED: &str = "put the type into `types.yaml` and write `$ref: Name`";
const MAPS: &str = "use `additionalProperties` with a schema of the values";
const HANDLER: &str = "say it in `description` and check it in the handler";

/// Keywords that may stand beside `$ref`.
pub(super) const BESIDE_REF: &[&str] = &[
    "$ref",
    "description",
    "default",
    "additionalProperties",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
];

/// A keyword as it is written: a slip of the pen is read as what was meant.
pub(super) struct Word<'a> {
    pub(super) node: &'a Node,
    pub(super) pointer: String,
}

/// Sorts the keys of a schema; unknown ones are reported.
pub(super) fn sort_keys<'n>(
    doc: Doc<'_>,
    entries: &'n [Entry],
    pointer: &str,
    report: &mut Report,
) -> HashMap<&'static str, Word<'n>> {
    let mut words = HashMap::new();
    let is_known = |key: &str| KEYWORDS.iter().find(|(name, _)| *name == key).map(|(name, _)| *name);
    for entry in entries {
        let below = child(pointer, &entry.key);
        let word = Word {
            node: &entry.value,
            pointer: below.clone(),
        };
        if let Some(name) = is_known(&entry.key) {
            words.entry(name).or_insert(word);
        } else if let Some((name, help)) = FOREIGN.iter().find(|(name, _)| *name == entry.key) {
            let message = format!("`{name}` is outside the portable subset of JSON Schema");
            report.key(doc, &below, message, (*help).to_owned());
        } else {
            let free = KEYWORDS
                .iter()
                .map(|(name, _)| *name)
                .filter(|name| entries.iter().all(|one| one.key != *name));
            let meant = nearest(&entry.key, free).and_then(is_known);
            let help = match meant {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!(
                    "known: {}",
                    list(&KEYWORDS.iter().map(|(name, _)| *name).collect::<Vec<_>>())
                ),
            };
            report.key(doc, &below, format!("unknown keyword `{}`", entry.key), help);
            if let Some(meant) = meant {
                words.entry(meant).or_insert(word);
            }
        }
    }
    words
}

/// What to use in place of a keyword that does not fit.
pub(super) fn instead(name: &str, kind: &str) -> String {
    let is_low = name.starts_with("min");
    let other = match (name, kind) {
        ("minimum" | "maximum" | "minItems" | "maxItems", "string") => {
            if is_low {
                "minLength"
            } else {
                "maxLength"
            }
        }
        ("minimum" | "maximum" | "minLength" | "maxLength", "array") => {
            if is_low {
                "minItems"
            } else {
                "maxItems"
            }
        }
        ("minItems" | "maxItems" | "minLength" | "maxLength", "integer" | "number") => {
            if is_low {
                "minimum"
            } else {
                "maximum"
            }
        }
        ("enum", "integer") => return "use `minimum` and `maximum`, or texts".into(),
        ("enum" | "pattern", "array") => return format!("put `{name}` into `items`"),
        _ => return "remove it".into(),
    };
    format!("use `{other}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_of_the_subset_is_in_the_schema_for_editors() {
        let editor: Vec<&str> = crate::editor::TYPES["definitions"][crate::model::PORTABLE]["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        for (name, _) in KEYWORDS {
            assert!(editor.contains(name), "{name}");
        }
        assert_eq!(editor.len(), KEYWORDS.len());
    }
}
