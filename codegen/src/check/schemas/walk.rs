//! The walk through one schema and the schemas inside it, which returns it cleaned.
//!
//! Answers for what holds schemas (`properties`, `items`, `additionalProperties`), for `$ref`, and for which keywords fit
//! the type. Leaves out the single keywords (`keywords`, `patterns`) and what must wait for every shared type
//! (`deferred`).

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use super::deferred::{Closing, Deferred, Narrowed, Preset, Reference};
use super::keywords;
use super::patterns::Patterns;
use super::subset::{At, BESIDE_REF, KEYWORDS, Role, TYPES, Word, instead, sort_keys};
use crate::check::forms::{field_name, is_pascal, is_snake};
use crate::check::values::compile;
use crate::model::{Schema, TypesSpec};
use crate::pointer::child;
use crate::report::Report;
use crate::resolve;
use crate::specs::Doc;
use crate::suggest::{list, suggest};
use crate::yaml::{Node, NodeKind};

/// Walks schemas and reports what is wrong with them.
pub(super) struct Judge<'a> {
    pub(super) shared: Doc<'a>,
    pub(super) report: &'a mut Report,
    pub(super) deferred: Deferred,
    patterns: Patterns,
}

/// The type of a shared type, when it is clear.
struct Kind(Option<String>);

impl<'a> Judge<'a> {
    pub(super) fn new(shared: Doc<'a>, report: &'a mut Report) -> Self {
        Self {
            shared,
            report,
            deferred: Deferred::default(),
            patterns: Patterns::default(),
        }
    }

    /// Judges a schema that stands alone.
    pub(super) fn root(&mut self, doc: Doc<'_>, pointer: &str, role: Role) -> Schema {
        match doc.tree.pointer(pointer) {
            Some(node) => {
                let schema = self.schema(doc, node, pointer, role, At::Root);
                // What can be seen from the outside is judged; this is the last word on what cannot.
                if let Err(error) = compile(&without_refs(&schema)) {
                    self.report
                        .key(doc, pointer, format!("this is no JSON Schema: {error}"), None);
                }
                schema
            }
            None => Map::new(),
        }
    }

    /// Judges what had to wait until every type was known.
    pub(super) fn settle(&mut self, doc: Doc<'_>, types: &TypesSpec) {
        self.deferred.settle(doc, types, self.report);
    }

    /// Judges a schema and returns it cleaned.
    pub(super) fn schema(&mut self, doc: Doc<'_>, node: &Node, pointer: &str, role: Role, at: At) -> Schema {
        let mut clean = Map::new();
        let NodeKind::Map(entries) = &node.kind else {
            let (message, help) = match &node.kind {
                NodeKind::Scalar(Value::Bool(_)) => (
                    "a schema of `true` or `false` is outside the subset",
                    "write `{ type: … }`",
                ),
                _ => ("a schema is a map", "write `{ type: … }`"),
            };
            self.report.value(doc, pointer, message, help.to_owned());
            return clean;
        };
        let words = sort_keys(doc, entries, pointer, self.report);
        keywords::description(doc, &words, pointer, at, &mut clean, self.report);

        let kind = if let Some(word) = words.get("$ref") {
            let Some(Kind(kind)) = self.reference(doc, &words, word, role, at, &mut clean) else {
                return Map::new();
            };
            kind
        } else {
            keywords::kind(doc, &words, pointer, at, &mut clean, self.report)
        };
        let is_ref = words.contains_key("$ref");

        // Keywords that say nothing about the type are left out before they are looked into.
        let mut fitting: BTreeMap<&str, &Word<'_>> = BTreeMap::new();
        for (name, types) in KEYWORDS {
            let Some(word) = words.get(name) else { continue };
            if is_ref && !BESIDE_REF.contains(name) {
                let message = format!("`{name}` cannot stand beside `$ref`");
                self.report.key(
                    doc,
                    &word.pointer,
                    message,
                    format!("beside `$ref` go {}", list(&BESIDE_REF[1..])),
                );
            } else if let Some(kind) = kind.as_deref()
                && !types.is_empty()
                && !types.contains(&kind)
            {
                let help = instead(name, kind);
                self.report.key(
                    doc,
                    &word.pointer,
                    format!("`{name}` says nothing about type `{kind}`"),
                    help,
                );
            } else {
                fitting.insert(name, word);
            }
        }
        keywords::title(doc, &fitting, at, &mut clean, self.report);
        keywords::bounds(doc, &fitting, kind.as_deref(), &mut clean, self.report);
        keywords::words_of_enum(doc, &fitting, &mut clean, self.report);
        self.patterns.judge(doc, &fitting, &mut clean, self.report);
        if let Some(word) = fitting.get("uniqueItems") {
            if let NodeKind::Scalar(value @ Value::Bool(_)) = &word.node.kind {
                clean.insert("uniqueItems".into(), value.clone());
            } else {
                let help = "write `true`, or leave it out".to_owned();
                self.report
                    .value(doc, &word.pointer, "`uniqueItems` is `true` or `false`", help);
            }
        }
        if let Some(word) = fitting.get("items") {
            let items = self.schema(doc, word.node, &word.pointer, role, At::Item);
            clean.insert("items".into(), Value::Object(items));
        } else if kind.as_deref() == Some("array") && !is_ref {
            let help = "say what an item is: `items: { type: string }`".to_owned();
            self.report.key(doc, pointer, "an array without `items`", help);
        }
        self.object(doc, &fitting, pointer, role, at, kind.as_deref(), is_ref, &mut clean);
        if is_ref
            && keywords::BOUNDS
                .iter()
                .any(|(low, high)| clean.contains_key(*low) || clean.contains_key(*high))
        {
            self.deferred.narrowed.push(Narrowed {
                pointer: pointer.to_owned(),
                schema: clean.clone(),
            });
        }
        if let Some(word) = fitting.get("default") {
            if at == At::Root {
                self.report
                    .key(doc, &word.pointer, "the root has no default", "remove it".to_owned());
            } else {
                let value = word.node.to_value();
                self.deferred.defaults.push(Preset {
                    pointer: word.pointer.clone(),
                    value: value.clone(),
                    schema: clean.clone(),
                });
                clean.insert("default".into(), value);
            }
        }
        clean
    }

    /// Judges a reference: the type of the type it names (nothing when that is unclear), or nothing at all when the
    /// reference leads nowhere.
    fn reference(
        &mut self,
        doc: Doc<'_>,
        words: &HashMap<&str, Word<'_>>,
        word: &Word<'_>,
        role: Role,
        at: At,
        clean: &mut Schema,
    ) -> Option<Kind> {
        let Some(name) = word.node.as_str() else {
            self.report.value(
                doc,
                &word.pointer,
                "`$ref` names a shared type",
                "write `$ref: Name`".to_owned(),
            );
            return None;
        };
        if at == At::Root {
            let help = "write the object out; its fields may use `$ref`".to_owned();
            self.report
                .key(doc, &word.pointer, "the root cannot be a reference", help);
            return None;
        }
        let Some(target) = self.shared.tree.get("types").and_then(|types| types.get(name)) else {
            if !self.report.may_exist("specs/types", name) {
                let all = self.shared.tree.get("types").map(Node::entries).unwrap_or_default();
                let short = name.rsplit('/').next().unwrap_or(name);
                let help = suggest(
                    short,
                    all.iter()
                        .map(|entry| entry.key.as_str())
                        .filter(|name| is_pascal(name)),
                );
                self.report
                    .value(doc, &word.pointer, format!("there is no shared type `{name}`"), help);
            }
            return None;
        };
        let closing = match words.get("additionalProperties").map(|word| &word.node.kind) {
            Some(NodeKind::Scalar(Value::Bool(false))) => Closing::Closed,
            Some(_) => Closing::Open,
            None => Closing::Unsaid,
        };
        let pointer = word.pointer.rfind('/').map_or("", |cut| &word.pointer[..cut]);
        self.deferred.references.push(Reference {
            pointer: pointer.to_owned(),
            to: name.to_owned(),
            role,
            closing,
        });
        clean.insert("$ref".into(), json!(name));
        let mut target = target;
        for _ in 0..32 {
            if let Some(kind) = target.get("type") {
                return Some(Kind(
                    kind.as_str().filter(|kind| TYPES.contains(kind)).map(str::to_owned),
                ));
            }
            let next = target.get("$ref").and_then(Node::as_str);
            match next.and_then(|next| self.shared.tree.get("types")?.get(next)) {
                Some(next) => target = next,
                None => break,
            }
        }
        Some(Kind(None))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the facts about one schema; a struct for one call would say no more"
    )]
    fn object(
        &mut self,
        doc: Doc<'_>,
        words: &BTreeMap<&str, &Word<'_>>,
        pointer: &str,
        role: Role,
        at: At,
        kind: Option<&str>,
        is_ref: bool,
        clean: &mut Schema,
    ) {
        let mut names: Option<Vec<&str>> = None;
        if let Some(word) = words.get("properties") {
            if let NodeKind::Map(entries) = &word.node.kind {
                names = Some(entries.iter().map(|entry| entry.key.as_str()).collect());
                let mut properties = Map::new();
                let mut fields: HashMap<String, &str> = HashMap::new();
                for entry in entries {
                    let below = child(&word.pointer, &entry.key);
                    if let Some(first) = fields.insert(field_name(&entry.key), &entry.key) {
                        let message = format!(
                            "the properties `{}` and `{first}` have the same name in Rust",
                            entry.key
                        );
                        self.report.key(doc, &below, message, "rename one of them".to_owned());
                    } else {
                        keywords::property_name(doc, &entry.key, &below, role, at, self.report);
                    }
                    let schema = self.schema(doc, &entry.value, &below, role, At::Property);
                    // Whoever names a misshapen field may mean the form that it should have.
                    if let Some(meant) = (!is_snake(&entry.key)).then(|| snake_case(&entry.key))
                        && !entries.iter().any(|other| other.key == meant)
                    {
                        properties.insert(meant, Value::Object(schema.clone()));
                    }
                    properties.insert(entry.key.clone(), Value::Object(schema));
                }
                clean.insert("properties".into(), Value::Object(properties));
            } else {
                let help = "write each field with its schema, or `{}`".to_owned();
                self.report.value(doc, &word.pointer, "`properties` is a map", help);
            }
        } else if at == At::Root && kind == Some("object") {
            let help = "add `properties`, `{}` when there are none".to_owned();
            self.report.key(
                doc,
                pointer,
                "the root has no `properties`, some clients drop such a tool",
                help,
            );
        }
        let known: Option<Vec<&str>> = match clean.get("properties") {
            Some(Value::Object(properties)) if names.is_some() => Some(properties.keys().map(String::as_str).collect()),
            _ => None,
        };
        let mut required = Map::new();
        keywords::required(doc, words, known.as_deref(), &mut required, self.report);
        clean.append(&mut required);
        self.additional(doc, words, pointer, role, at, names.is_some(), is_ref, clean);
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the facts about one schema; a struct for one call would say no more"
    )]
    fn additional(
        &mut self,
        doc: Doc<'_>,
        words: &BTreeMap<&str, &Word<'_>>,
        pointer: &str,
        role: Role,
        at: At,
        has_properties: bool,
        is_ref: bool,
        clean: &mut Schema,
    ) {
        let key = "additionalProperties";
        let Some(word) = words.get(key) else {
            if has_properties && role == Role::Input {
                let help = "add `additionalProperties: false`".to_owned();
                self.report
                    .key(doc, pointer, "the object is open, inputs are closed", help);
                clean.insert(key.into(), json!(false));
            }
            return;
        };
        match &word.node.kind {
            NodeKind::Scalar(Value::Bool(is_open)) if is_ref => _ = clean.insert(key.into(), json!(is_open)),
            NodeKind::Scalar(Value::Bool(false)) => {
                if !has_properties && !words.contains_key("properties") && at != At::Root {
                    let help = "add `properties`, or leave `additionalProperties` out for a free object".to_owned();
                    self.report.key(
                        doc,
                        &word.pointer,
                        "a closed object without properties is always empty",
                        help,
                    );
                } else if has_properties && !matches!(role, Role::Input | Role::Shared) {
                    let help = "remove it: a field added later must not break a reader".to_owned();
                    self.report
                        .key(doc, &word.pointer, "the object is closed, only inputs are", help);
                } else {
                    clean.insert(key.into(), json!(false));
                }
            }
            NodeKind::Scalar(Value::Bool(true)) => {
                if has_properties && role == Role::Input {
                    let help = "write `additionalProperties: false`".to_owned();
                    self.report
                        .value(doc, &word.pointer, "the object is open, inputs are closed", help);
                    clean.insert(key.into(), json!(false));
                }
            }
            NodeKind::Map(_) if has_properties || is_ref => {
                let help = "put the free keys into an object of their own".to_owned();
                self.report
                    .key(doc, &word.pointer, "an object has either fixed or free keys", help);
            }
            NodeKind::Map(_) => {
                let schema = self.schema(doc, word.node, &word.pointer, role, At::Entry);
                if let Some(kind @ ("object" | "array")) = schema.get("type").and_then(Value::as_str) {
                    let message =
                        format!("the values of a map are of type `{kind}`, only texts, numbers and flags can be");
                    let help = "use an array of objects that carry their key".to_owned();
                    self.report.value(doc, &word.pointer, message, help);
                }
                clean.insert(key.into(), Value::Object(schema));
            }
            _ => self.report.value(
                doc,
                &word.pointer,
                "`additionalProperties` is `true`, `false` or a schema",
                "write `false` where `properties` stand, `{ type: … }` for a map".to_owned(),
            ),
        }
    }
}

/// `note-text` and `noteText` as `note_text`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.extend(if c.is_alphanumeric() { c } else { '_' }.to_lowercase());
    }
    snake
}

/// A copy that compiles alone.
fn without_refs(schema: &Schema) -> Schema {
    if schema.contains_key("$ref") {
        return Map::new();
    }
    resolve::map_subschemas(schema, &mut without_refs)
}
