//! The shared types of `types.yaml`: each judged, and no type inside itself.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::rust_names::RustNames;
use super::subset::{At, Role};
use super::walk::Judge;
use crate::model::{Schema, TypesSpec};
use crate::pointer::child;
use crate::specs::Specs;

/// Judges the shared types and returns them cleaned, without circles.
pub(super) fn types(judge: &mut Judge<'_>, specs: &Specs) -> TypesSpec {
    let doc = judge.shared;
    let mut types = TypesSpec::default();
    let mut edges: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for name in specs.types.spec.types.keys() {
        let pointer = child("/types", name);
        let Some(node) = doc.tree.pointer(&pointer) else {
            continue;
        };
        let schema = judge.schema(doc, node, &pointer, Role::Shared, At::Type);
        let out = judge.deferred.references.iter().filter(|reference| {
            let at = &reference.pointer;
            at.starts_with(&format!("{pointer}/")) || *at == pointer
        });
        edges.insert(
            name.clone(),
            out.map(|reference| (reference.to.clone(), reference.pointer.clone()))
                .collect(),
        );
        types.types.insert(name.clone(), schema);
    }
    let mut finished = HashSet::new();
    let names: Vec<String> = types.types.keys().cloned().collect();
    for name in &names {
        circles(judge, name, &edges, &mut Vec::new(), &mut finished, &mut types);
    }
    let mut seen = RustNames::new(&types, Vec::new());
    for (name, schema) in &types.types {
        seen.walk(doc, schema, &child("/types", name), name, judge.report);
    }
    judge.settle(doc, &types);
    types
}

/// Follows references depth first; one that leads back is reported and cut.
fn circles(
    judge: &mut Judge<'_>,
    name: &str,
    edges: &BTreeMap<String, Vec<(String, String)>>,
    open: &mut Vec<String>,
    finished: &mut HashSet<String>,
    types: &mut TypesSpec,
) {
    if finished.contains(name) {
        return;
    }
    open.push(name.to_owned());
    for (target, at) in edges.get(name).into_iter().flatten() {
        if let Some(start) = open.iter().position(|one| one == target) {
            let mut circle: Vec<&str> = open[start..].iter().map(String::as_str).collect();
            circle.push(target);
            let message = format!("the type `{target}` contains itself: {}", circle.join(" → "));
            let help = "types are written out where they are used; break the circle, for example by an id".to_owned();
            judge.report.key(judge.shared, &child(at, "$ref"), message, help);
            let below = at.strip_prefix(&child("/types", name)).unwrap_or_default();
            if let Some(schema) = types.types.get_mut(name) {
                cut(schema, below);
            }
        } else {
            circles(judge, target, edges, open, finished, types);
        }
    }
    open.pop();
    finished.insert(name.to_owned());
}

/// Replaces the schema at a pointer by one that allows everything.
fn cut(schema: &mut Schema, pointer: &str) {
    if pointer.is_empty() {
        schema.clear();
        return;
    }
    let mut whole = Value::Object(std::mem::take(schema));
    if let Some(inner) = whole.pointer_mut(pointer) {
        *inner = json!({});
    }
    if let Value::Object(whole) = whole {
        *schema = whole;
    }
}
