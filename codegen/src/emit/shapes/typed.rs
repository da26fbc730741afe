//! The one door to typify: reduced schemas in, Rust items out.
//!
//! Leaves out what is kept of the items (`render`).

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};

use indexmap::IndexMap;
use proc_macro2::{Group, TokenStream, TokenTree};
use serde_json::{Value, json};
use typify::{TypeSpace, TypeSpaceSettings};

use super::REFERENCE;
use super::shape::Shape;
use crate::emit::rust;

/// The beginning of a name that no spec gives and that typify leaves as it is.
const PLACEHOLDER: &str = "DevloopShape";

/// Runs typify over the reduced schemas.
pub(super) fn file<'a>(made: impl Iterator<Item = &'a Shape>, used: &'a BTreeSet<String>) -> Result<syn::File, String> {
    let mut settings = TypeSpaceSettings::default();
    settings.with_map_type("::std::collections::BTreeMap");
    let mut definitions: IndexMap<&str, Value> =
        made.map(|shape| (shape.name.as_str(), shape.reduced.clone())).collect();
    let own: BTreeSet<&str> = definitions.keys().copied().collect();
    for shared in used {
        definitions
            .entry(shared.as_str())
            .or_insert_with(|| json!({ "type": "string" }));
    }
    // typify would change some names (`URL` to `Url`) and take others for one, so it gets numbers instead.
    let numbers: HashMap<String, String> = definitions
        .keys()
        .enumerate()
        .map(|(number, name)| ((*name).to_owned(), format!("{PLACEHOLDER}{number}")))
        .collect();
    for shared in used.iter().filter(|shared| !own.contains(shared.as_str())) {
        settings.with_replacement(&numbers[shared], format!("crate::types::{shared}"), std::iter::empty());
    }
    let definitions = definitions
        .iter()
        .map(|(name, schema)| {
            let schema = serde_json::from_value(renumbered(schema, &numbers)).map_err(|e| e.to_string())?;
            Ok((numbers[*name].clone(), schema))
        })
        .collect::<Result<Vec<(String, schemars08::schema::Schema)>, String>>()?;
    // typify panics on some schemas where it could return an error.
    let tokens = catch_unwind(AssertUnwindSafe(|| {
        let mut space = TypeSpace::new(&settings);
        space
            .add_ref_types(definitions)
            .map(|()| space.to_stream())
            .map_err(|error| error.to_string())
    }))
    .unwrap_or_else(|panic| Err(panic_text(panic.as_ref())))
    .map_err(|error| format!("typify cannot make types of this spec: {error}"))?;
    let names = numbers.into_iter().map(|(name, number)| (number, name)).collect();
    syn::parse2(named(tokens, &names)).map_err(|error| format!("typify's output is not Rust: {error}"))
}

/// A schema with its references by number.
fn renumbered(schema: &Value, numbers: &HashMap<String, String>) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(|item| renumbered(item, numbers)).collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| {
                    let target = value.as_str().and_then(|text| text.strip_prefix(REFERENCE));
                    let value = match target.and_then(|name| numbers.get(name)) {
                        Some(number) if key == "$ref" => json!(format!("{REFERENCE}{number}")),
                        _ => renumbered(value, numbers),
                    };
                    (key.clone(), value)
                })
                .collect(),
        ),
        other => other.clone(),
    }
}

/// Tokens with the names back in place of the numbers.
fn named(tokens: TokenStream, names: &HashMap<String, String>) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Ident(ident) => match names.get(&ident.to_string()) {
                Some(name) => TokenTree::Ident(rust::ident(name)),
                None => TokenTree::Ident(ident),
            },
            TokenTree::Group(group) => TokenTree::Group(Group::new(group.delimiter(), named(group.stream(), names))),
            other => other,
        })
        .collect()
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "it panicked".to_owned())
}
