//! The one door to typify: reduced schemas in, Rust items out.
//!
//! Leaves out what is kept of the items (`render`).

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use indexmap::IndexMap;
use serde_json::{Value, json};
use typify::{TypeSpace, TypeSpaceSettings};

use super::shape::Shape;

/// Runs typify over the reduced schemas.
pub(super) fn file<'a>(made: impl Iterator<Item = &'a Shape>, used: &'a BTreeSet<String>) -> Result<syn::File, String> {
    let mut settings = TypeSpaceSettings::default();
    settings.with_map_type("::std::collections::BTreeMap");
    let mut definitions: IndexMap<&str, Value> =
        made.map(|shape| (shape.name.as_str(), shape.reduced.clone())).collect();
    for shared in used {
        if !definitions.contains_key(shared.as_str()) {
            settings.with_replacement(shared, format!("crate::types::{shared}"), std::iter::empty());
            definitions.insert(shared, json!({ "type": "string" }));
        }
    }
    let definitions = definitions
        .into_iter()
        .map(|(name, schema)| {
            Ok((
                name.to_owned(),
                serde_json::from_value(schema).map_err(|e| e.to_string())?,
            ))
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
    syn::parse2(tokens).map_err(|error| format!("typify's output is not Rust: {error}"))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "it panicked".to_owned())
}
