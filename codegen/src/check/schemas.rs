//! JSON Schemas: inside the portable subset, valid, and able to become Rust types.
//!
//! Answers for `input`, `output`, `payload`, the `details` of failures and the shared types, and for a cleaned copy of each
//! with everything wrong left out, by which later checks can judge values without repeating an error. Leaves out the values
//! of examples.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::forms::{is_pascal, is_reserved, is_snake};
use super::values::{compile, reason};
use crate::model::{FailureEntry, Schema, TypesSpec};
use crate::pointer::{child, last};
use crate::report::Report;
use crate::resolve::{self, pascal_case};
use crate::specs::{Doc, Specs};
use crate::suggest::{list, nearest, suggest};
use crate::yaml::{Entry, Node, NodeKind};

/// The schemas of one handler, cleaned and with references inlined.
pub(super) struct ToolSchemas {
    pub(super) input: Schema,
    pub(super) output: Schema,
}

/// Judges every schema. The result has one entry per handler, in order.
pub(super) fn check(specs: &Specs, report: &mut Report) -> Vec<ToolSchemas> {
    let mut judge = Judge {
        shared: specs.types.doc(),
        report,
        patterns: HashMap::new(),
        defaults: Vec::new(),
        references: Vec::new(),
    };
    let types = judge.types(specs);
    let mut tools = Vec::new();
    for tool in &specs.tools {
        let doc = tool.file.doc();
        let input = judge.root(doc, "/input", Role::Input);
        let output = judge.root(doc, "/output", Role::Output);
        let mut names = RustNames::new(&types, Scope::Beside);
        names.walk(doc, &input, "/input", "Input", judge.report);
        names.walk(doc, &output, "/output", "Output", judge.report);
        for (code, entry) in &tool.file.spec.failures {
            if matches!(entry, FailureEntry::Detail(detail) if detail.details.is_some()) {
                let pointer = child(&child("/failures", code), "details");
                let details = judge.root(doc, &pointer, Role::Details);
                names.walk(doc, &details, &pointer, &pascal_case(code), judge.report);
            }
        }
        judge.deferred(doc, &types);
        tools.push(ToolSchemas {
            input: resolve::inline(&input, &types),
            output: resolve::inline(&output, &types),
        });
    }
    let doc = specs.events.doc();
    let mut names = RustNames::new(&types, Scope::Beside);
    for name in specs.events.spec.events.keys() {
        let pointer = child(&child("/events", name), "payload");
        let payload = judge.root(doc, &pointer, Role::Payload);
        names.walk(doc, &payload, &pointer, &pascal_case(name), judge.report);
    }
    judge.deferred(doc, &types);
    tools
}

/// What a schema is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Input,
    Output,
    Payload,
    Details,
    Shared,
}

/// Where in a schema a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Root,
    /// A shared type.
    Type,
    Property,
    Item,
    /// The value of a map.
    Entry,
}

const TYPES: &[&str] = &["object", "array", "string", "integer", "number", "boolean"];

/// Each keyword of the subset with the types that it fits; none means all.
const KEYWORDS: &[(&str, &[&str])] = &[
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
const BESIDE_REF: &[&str] = &[
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

/// What the call path adds to every payload.
const ADDED_TO_EVENTS: &[&str] = &["agent", "call_id", "unit_id", "ts"];

struct Judge<'a> {
    shared: Doc<'a>,
    report: &'a mut Report,
    /// Patterns that were judged: what is wrong with them.
    patterns: HashMap<String, Option<PatternFault>>,
    /// Defaults to be judged once every type is known: where, what, by which schema.
    defaults: Vec<(String, Value, Schema)>,
    /// References to be judged once every type is known: where, to which type, whether it is closed beside the reference.
    references: Vec<(String, String, Role, Closing)>,
}

/// What stands beside a `$ref` about additional properties.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closing {
    Unsaid,
    Closed,
    Open,
}

/// The type of a shared type, when it is clear.
struct Kind(Option<String>);

/// A keyword as it is written: a slip of the pen is read as what was meant.
struct Word<'a> {
    node: &'a Node,
    pointer: String,
}

impl Judge<'_> {
    /// Judges the shared types and returns them cleaned, without circles.
    fn types(&mut self, specs: &Specs) -> TypesSpec {
        let doc = self.shared;
        let mut types = TypesSpec::default();
        let mut edges: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for name in specs.types.spec.types.keys() {
            let pointer = child("/types", name);
            let Some(node) = doc.tree.pointer(&pointer) else {
                continue;
            };
            let schema = self.schema(doc, node, &pointer, Role::Shared, At::Type);
            let out = self
                .references
                .iter()
                .filter(|(at, ..)| at.starts_with(&format!("{pointer}/")) || *at == pointer);
            edges.insert(
                name.clone(),
                out.map(|(at, target, ..)| (target.clone(), at.clone())).collect(),
            );
            types.types.insert(name.clone(), schema);
        }
        let mut finished = HashSet::new();
        let names: Vec<String> = types.types.keys().cloned().collect();
        for name in &names {
            self.circles(name, &edges, &mut Vec::new(), &mut finished, &mut types);
        }
        let mut seen = RustNames::new(&types, Scope::Types);
        for (name, schema) in &types.types {
            seen.walk(doc, schema, &child("/types", name), name, self.report);
        }
        self.deferred(doc, &types);
        types
    }

    /// Follows references depth first; one that leads back is reported and cut.
    fn circles(
        &mut self,
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
                let help =
                    "types are written out where they are used; break the circle, for example by an id".to_owned();
                self.report.key(self.shared, &child(at, "$ref"), message, help);
                let below = at.strip_prefix(&child("/types", name)).unwrap_or_default();
                if let Some(schema) = types.types.get_mut(name) {
                    cut(schema, below);
                }
            } else {
                self.circles(target, edges, open, finished, types);
            }
        }
        open.pop();
        finished.insert(name.to_owned());
    }

    /// Judges what had to wait until every type was known.
    fn deferred(&mut self, doc: Doc<'_>, types: &TypesSpec) {
        for (pointer, name, role, closing) in std::mem::take(&mut self.references) {
            let Some(schema) = types.types.get(&name) else { continue };
            let mut schema = resolve::inline(schema, types);
            match closing {
                Closing::Unsaid => {}
                Closing::Closed => _ = schema.insert("additionalProperties".into(), json!(false)),
                Closing::Open => _ = schema.shift_remove("additionalProperties"),
            }
            let wanted = if role == Role::Input {
                Closing::Closed
            } else {
                Closing::Open
            };
            if role == Role::Shared {
                continue;
            }
            let Some(inner) = first_with_other_closing(&schema, wanted, "") else {
                continue;
            };
            let what = if inner.is_empty() {
                format!("`{name}`")
            } else {
                format!("`{name}` at `{inner}`")
            };
            let (message, help) = match (wanted, inner.is_empty()) {
                (Closing::Closed, true) => (
                    format!("{what} is an open object, inputs are closed"),
                    "write `additionalProperties: false` beside the `$ref`".to_owned(),
                ),
                (Closing::Closed, false) => (
                    format!("{what} is an open object, inputs are closed"),
                    "make a closed twin of the type, or write the object out".to_owned(),
                ),
                _ => (
                    format!("{what} is a closed object, a field added later would break its readers"),
                    "write `additionalProperties: true` beside the `$ref`, or open the type".to_owned(),
                ),
            };
            self.report.key(doc, &child(&pointer, "$ref"), message, help);
        }
        for (pointer, value, schema) in std::mem::take(&mut self.defaults) {
            let schema = resolve::inline(&schema, types);
            if let Ok(validator) = compile(&schema)
                && let Err(error) = validator.validate(&value)
            {
                let at = error.instance_path().as_str().to_owned();
                let message = format!("the default does not fit its own schema: {}", reason(&error));
                self.report.value(doc, &format!("{pointer}{at}"), message, None);
            }
        }
    }

    /// Judges a schema that stands alone.
    fn root(&mut self, doc: Doc<'_>, pointer: &str, role: Role) -> Schema {
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

    /// Judges a schema and returns it cleaned.
    fn schema(&mut self, doc: Doc<'_>, node: &Node, pointer: &str, role: Role, at: At) -> Schema {
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
        let words = self.words(doc, entries, pointer);
        self.description(doc, &words, pointer, at, &mut clean);

        let kind = if let Some(word) = words.get("$ref") {
            let Some(Kind(kind)) = self.reference(doc, &words, word, role, at, &mut clean) else {
                return Map::new();
            };
            kind
        } else {
            self.kind(doc, &words, pointer, at, &mut clean)
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
        self.title(doc, &fitting, at, &mut clean);
        self.bounds(doc, &fitting, kind.as_deref(), &mut clean);
        self.words_of_enum(doc, &fitting, &mut clean);
        self.pattern(doc, &fitting, &mut clean);
        if let Some(word) = fitting.get("uniqueItems") {
            match &word.node.kind {
                NodeKind::Scalar(value @ Value::Bool(_)) => _ = clean.insert("uniqueItems".into(), value.clone()),
                _ => self
                    .report
                    .value(doc, &word.pointer, "`uniqueItems` is `true` or `false`", None),
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
        if let Some(word) = fitting.get("default") {
            if at == At::Root {
                self.report
                    .key(doc, &word.pointer, "the root has no default", "remove it".to_owned());
            } else {
                let value = word.node.to_value();
                self.defaults.push((word.pointer.clone(), value.clone(), clean.clone()));
                clean.insert("default".into(), value);
            }
        }
        clean
    }

    /// Sorts the keys of a schema; unknown ones are reported.
    fn words<'n>(&mut self, doc: Doc<'_>, entries: &'n [Entry], pointer: &str) -> HashMap<&'static str, Word<'n>> {
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
                self.report.key(doc, &below, message, (*help).to_owned());
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
                self.report
                    .key(doc, &below, format!("unknown keyword `{}`", entry.key), help);
                if let Some(meant) = meant {
                    words.entry(meant).or_insert(word);
                }
            }
        }
        words
    }

    fn description(
        &mut self,
        doc: Doc<'_>,
        words: &HashMap<&str, Word<'_>>,
        pointer: &str,
        at: At,
        clean: &mut Schema,
    ) {
        let is_needed = matches!(at, At::Property | At::Type) && !words.contains_key("$ref");
        match words.get("description") {
            Some(word) => match word.node.as_str() {
                Some(text) if !text.trim().is_empty() => _ = clean.insert("description".into(), json!(text)),
                Some(_) => {
                    let help = "say what it is, for the model".to_owned();
                    self.report.value(doc, &word.pointer, "the description is empty", help);
                }
                None => {
                    let help = "write a text; put it in quotes when it has a `: ` in it".to_owned();
                    self.report.value(doc, &word.pointer, "a description is a text", help);
                }
            },
            None if is_needed => {
                let (what, name) = (if at == At::Type { "type" } else { "property" }, last(pointer));
                let help = "add `description`: what it is, for the model".to_owned();
                self.report
                    .key(doc, pointer, format!("the {what} `{name}` has no description"), help);
            }
            None => {}
        }
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
                let help = suggest(short, all.iter().map(|entry| entry.key.as_str()));
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
        self.references
            .push((pointer.to_owned(), name.to_owned(), role, closing));
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

    fn kind(
        &mut self,
        doc: Doc<'_>,
        words: &HashMap<&str, Word<'_>>,
        pointer: &str,
        at: At,
        clean: &mut Schema,
    ) -> Option<String> {
        let Some(word) = words.get("type") else {
            let help = match () {
                () if words.contains_key("enum") => "add `type: string`".to_owned(),
                () if words.contains_key("properties") => "add `type: object`".to_owned(),
                () if words.contains_key("items") => "add `type: array`".to_owned(),
                () => format!("add `type`, one of {}", list(TYPES)),
            };
            self.report.key(doc, pointer, "a schema without `type`", help);
            return None;
        };
        match word.node.as_str() {
            Some(kind) if TYPES.contains(&kind) => {
                if at == At::Root && kind != "object" {
                    let message = format!("the root is of type `{kind}`, clients take objects only");
                    self.report.value(
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
                self.report.value(doc, &word.pointer, "there is no type `null`", help);
            }
            Some(kind) => {
                self.report.value(
                    doc,
                    &word.pointer,
                    format!("unknown type `{kind}`"),
                    suggest(kind, TYPES.iter().copied()),
                );
            }
            None if matches!(word.node.kind, NodeKind::List(_)) => {
                let help = "write one; instead of `null` leave the field optional".to_owned();
                self.report.value(
                    doc,
                    &word.pointer,
                    "a list of types is outside the portable subset",
                    help,
                );
            }
            None => self.report.value(
                doc,
                &word.pointer,
                "a type is a word",
                suggest("", TYPES.iter().copied()),
            ),
        }
        None
    }

    fn title(&mut self, doc: Doc<'_>, words: &BTreeMap<&str, &Word<'_>>, at: At, clean: &mut Schema) {
        let Some(word) = words.get("title") else { return };
        let title = word.node.as_str().unwrap_or_default();
        if matches!(at, At::Root | At::Type) {
            let message = "`title` names a nested type in Rust, this one has its name already";
            self.report.key(doc, &word.pointer, message, "remove it".to_owned());
        } else if !is_pascal(title) {
            let pascal: String = pascal_case(title).chars().filter(char::is_ascii_alphanumeric).collect();
            let help = is_pascal(&pascal).then(|| format!("write `{pascal}`"));
            let message = "a title is the name of the nested type in Rust, in Pascal case";
            self.report.value(
                doc,
                &word.pointer,
                message,
                help.or_else(|| Some("write it like `TodoItem`".into())),
            );
        } else if is_reserved(title) {
            self.report.value(
                doc,
                &word.pointer,
                format!("the name `{title}` is taken in Rust"),
                "choose another".to_owned(),
            );
        } else {
            clean.insert("title".into(), json!(title));
        }
    }

    fn bounds(&mut self, doc: Doc<'_>, words: &BTreeMap<&str, &Word<'_>>, kind: Option<&str>, clean: &mut Schema) {
        for (low, high) in [
            ("minItems", "maxItems"),
            ("minLength", "maxLength"),
            ("minimum", "maximum"),
        ] {
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
                    Some(fault) => self.report.value(doc, &word.pointer, fault, None),
                    None => _ = clean.insert(name.into(), value),
                }
            }
            let number = |name: &str| clean.get(name).and_then(Value::as_f64);
            if let (Some(least), Some(most), Some(word)) = (number(low), number(high), words.get(high))
                && least > most
            {
                let message = format!("`{high}` is below `{low}`: nothing fits");
                self.report.value(doc, &word.pointer, message, "swap them".to_owned());
                clean.shift_remove(low);
                clean.shift_remove(high);
            }
        }
    }

    fn words_of_enum(&mut self, doc: Doc<'_>, words: &BTreeMap<&str, &Word<'_>>, clean: &mut Schema) {
        let Some(word) = words.get("enum") else { return };
        let NodeKind::List(items) = &word.node.kind else {
            self.report.value(doc, &word.pointer, "`enum` is a list of texts", None);
            return;
        };
        if items.is_empty() {
            self.report.value(
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
                self.report.value(
                    doc,
                    &at,
                    "the words of an `enum` are texts",
                    "put it in quotes".to_owned(),
                );
                continue;
            };
            let variant = parts(text);
            if texts.contains(&text) {
                self.report
                    .value(doc, &at, format!("`{text}` is listed twice"), "remove one".to_owned());
                continue;
            }
            if variant.is_empty() || variant == ["self"] {
                let message = format!("`{text}` cannot be a name in Rust");
                self.report
                    .value(doc, &at, message, "use letters and digits".to_owned());
            } else if let Some(first) = variants.get(&variant) {
                let message = format!("`{text}` and `{first}` are the same variant in Rust");
                self.report.value(doc, &at, message, "rename one of them".to_owned());
            } else {
                variants.insert(variant, text);
            }
            texts.push(text);
        }
        if is_whole {
            clean.insert("enum".into(), json!(texts));
        }
    }

    fn pattern(&mut self, doc: Doc<'_>, words: &BTreeMap<&str, &Word<'_>>, clean: &mut Schema) {
        let Some(word) = words.get("pattern") else { return };
        let Some(text) = word.node.as_str() else {
            self.report
                .value(doc, &word.pointer, "a pattern is a text", "put it in quotes".to_owned());
            return;
        };
        let fault = self
            .patterns
            .entry(text.to_owned())
            .or_insert_with(|| pattern_fault(text));
        match fault {
            None => _ = clean.insert("pattern".into(), json!(text)),
            Some(fault) => {
                let (message, help) = (fault.message.clone(), fault.help.map(str::to_owned));
                let offset = fault.offset;
                self.report.inside(doc, &word.pointer, offset, message, help);
            }
        }
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
                for entry in entries {
                    let below = child(&word.pointer, &entry.key);
                    self.property_name(doc, &entry.key, &below, role, at);
                    let schema = self.schema(doc, &entry.value, &below, role, At::Property);
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
        self.required(doc, words, names.as_deref(), clean);
        self.additional(doc, words, pointer, role, at, names.is_some(), is_ref, clean);
    }

    fn property_name(&mut self, doc: Doc<'_>, name: &str, pointer: &str, role: Role, at: At) {
        if !is_snake(name) || name.len() > 64 {
            let help = "use lower-case letters, digits and `_`, beginning with a letter, at most 64".to_owned();
            self.report
                .key(doc, pointer, format!("`{name}` is no name for a property"), help);
        } else if at != At::Root {
        } else if role == Role::Output && name == "ok" {
            let help = "remove it: the call path adds `ok` to every answer".to_owned();
            self.report.key(doc, pointer, "an output does not declare `ok`", help);
        } else if role == Role::Payload && ADDED_TO_EVENTS.contains(&name) {
            let help = format!("remove it: {} are added to every event", list(ADDED_TO_EVENTS));
            self.report
                .key(doc, pointer, format!("a payload does not declare `{name}`"), help);
        }
    }

    fn required(
        &mut self,
        doc: Doc<'_>,
        words: &BTreeMap<&str, &Word<'_>>,
        names: Option<&[&str]>,
        clean: &mut Schema,
    ) {
        let Some(word) = words.get("required") else { return };
        let NodeKind::List(items) = &word.node.kind else {
            let help = "list the names of the required fields".to_owned();
            self.report.value(doc, &word.pointer, "`required` is a list", help);
            return;
        };
        let mut kept: Vec<&str> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let at = format!("{}/{index}", word.pointer);
            let Some(name) = item.as_str() else {
                self.report
                    .value(doc, &at, "`required` lists names", "put it in quotes".to_owned());
                continue;
            };
            if kept.contains(&name) {
                self.report
                    .value(doc, &at, format!("`{name}` is listed twice"), "remove one".to_owned());
            } else if let Some(names) = names
                && !names.contains(&name)
            {
                let help = suggest(name, names.iter().copied());
                self.report
                    .value(doc, &at, format!("there is no property `{name}`"), help);
            } else if names.is_none() && !words.contains_key("properties") {
                let help = "declare it under `properties`".to_owned();
                self.report
                    .value(doc, &at, format!("there is no property `{name}`"), help);
            } else {
                kept.push(name);
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
                    self.report.key(doc, &default, message, help);
                }
            }
        }
        if names.is_some() {
            clean.insert("required".into(), json!(kept));
        }
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
                None,
            ),
        }
    }
}

/// Which Rust names are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// A module beside the shared types.
    Beside,
    /// The module of the shared types itself.
    Types,
}

/// The nested types of one Rust module. A nested object or enum is called by its title, else by its parent and its property.
struct RustNames<'a> {
    types: &'a TypesSpec,
    scope: Scope,
    seen: HashMap<String, (u64, Value)>,
}

impl<'a> RustNames<'a> {
    fn new(types: &'a TypesSpec, scope: Scope) -> Self {
        Self {
            types,
            scope,
            seen: HashMap::new(),
        }
    }

    fn walk(&mut self, doc: Doc<'_>, schema: &Schema, pointer: &str, name: &str, report: &mut Report) {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (key, sub) in properties {
                let below = child(&child(pointer, "properties"), key);
                let sub = sub.as_object().cloned().unwrap_or_default();
                self.nested(doc, &sub, &below, &format!("{name}{}", pascal_case(key)), report);
            }
        }
        for key in ["items", "additionalProperties"] {
            if let Some(Value::Object(sub)) = schema.get(key) {
                let suffix = if key == "items" { "Item" } else { "Value" };
                self.nested(doc, sub, &child(pointer, key), &format!("{name}{suffix}"), report);
            }
        }
    }

    fn nested(&mut self, doc: Doc<'_>, schema: &Schema, pointer: &str, derived: &str, report: &mut Report) {
        let title = schema.get("title").and_then(Value::as_str);
        let name = title.unwrap_or(derived);
        if title.is_some() || schema.contains_key("properties") || schema.contains_key("enum") {
            let at = if title.is_some() {
                child(pointer, "title")
            } else {
                pointer.to_owned()
            };
            let place = if title.is_some() {
                doc.tree.value_place(&at)
            } else {
                doc.tree.key_place(&at)
            };
            let shape = shape(schema);
            let is_root = matches!(name, "Input" | "Output" | "Failure");
            if is_root || (self.types.types.contains_key(name) && (title.is_some() || self.scope == Scope::Types)) {
                let message = format!("the nested type would be called `{name}` like a shared one");
                let help = "use `$ref`, or give it another `title`".to_owned();
                report.at(doc, &at, place, message, help);
            } else {
                match self.seen.get(name) {
                    Some((line, other)) if *other != shape => {
                        let message =
                            format!("two different nested types are called `{name}`, the first in line {line}");
                        report.at(doc, &at, place, message, "give one of them another `title`".to_owned());
                    }
                    Some(_) => {}
                    None => _ = self.seen.insert(name.to_owned(), (place.line, shape)),
                }
            }
        }
        self.walk(doc, schema, pointer, name, report);
    }
}

/// What makes two nested types the same: everything but their texts and defaults.
fn shape(schema: &Schema) -> Value {
    let mut schema = resolve::map_subschemas(schema, &mut |sub| match shape(sub) {
        Value::Object(sub) => sub,
        _ => Map::new(),
    });
    for key in ["description", "default", "title"] {
        schema.shift_remove(key);
    }
    Value::Object(schema)
}

/// What is wrong with a regular expression, and where.
struct PatternFault {
    offset: usize,
    message: String,
    help: Option<&'static str>,
}

/// Judges a regular expression: what engines read differently is refused, then two of them compile it.
fn pattern_fault(text: &str) -> Option<PatternFault> {
    let fault = |offset: usize, message: String, help: &'static str| {
        Some(PatternFault {
            offset,
            message,
            help: Some(help),
        })
    };
    let bytes = text.as_bytes();
    let mut in_class = false;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        match bytes[at] {
            b'\\' => {
                match bytes.get(at + 1) {
                    Some(b'A' | b'z' | b'Z') => {
                        return fault(at, format!("`{}` is not ECMAScript", &rest[..2]), "write `^` and `$`");
                    }
                    Some(b'p' | b'P') => {
                        return fault(
                            at,
                            format!("`{}` differs between engines", &rest[..2]),
                            "write the characters out: `[a-z]`",
                        );
                    }
                    Some(b'1'..=b'9' | b'k') => {
                        return fault(
                            at,
                            "back references are outside the portable subset".into(),
                            "check it in the handler",
                        );
                    }
                    _ => {}
                }
                at += 1;
                // The escaped character may be a wide one.
                at += text[at..].chars().next().map_or(0, char::len_utf8);
                continue;
            }
            b'[' if in_class => {
                return fault(at, "`[` inside a class differs between engines".into(), "write `\\[`");
            }
            b'[' => in_class = true,
            b']' => in_class = false,
            b'&' if in_class && rest.starts_with("&&") => {
                return fault(
                    at,
                    "`&&` inside a class differs between engines".into(),
                    "write `&` once",
                );
            }
            b'(' if !in_class && rest.starts_with("(?") && !rest.starts_with("(?:") => {
                let what = match () {
                    () if rest.starts_with("(?=") || rest.starts_with("(?!") => "look-ahead",
                    () if rest.starts_with("(?<=") || rest.starts_with("(?<!") => "look-behind",
                    () if rest.starts_with("(?<") || rest.starts_with("(?P") => "a named group",
                    () => "a flag",
                };
                return fault(
                    at,
                    format!("{what} is outside the portable subset"),
                    "use `(…)` or `(?:…)`, or check it in the handler",
                );
            }
            _ => {}
        }
        at += 1;
        while !text.is_char_boundary(at) {
            at += 1;
        }
    }
    let unreadable = |error: String| {
        Some(PatternFault {
            offset: 0,
            message: format!("the pattern does not compile: {error}"),
            help: None,
        })
    };
    if let Err(error) = regress::Regex::with_flags(text, "u") {
        return unreadable(error.to_string());
    }
    match compile(&Map::from_iter([("pattern".to_owned(), json!(text))])) {
        Ok(_) => None,
        Err(error) => unreadable(error),
    }
}

/// What to use in place of a keyword that does not fit.
fn instead(name: &str, kind: &str) -> String {
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

/// Where the first object stands that is not closed as wanted, as a pointer.
fn first_with_other_closing(schema: &Schema, wanted: Closing, pointer: &str) -> Option<String> {
    let closing = match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => Closing::Closed,
        _ => Closing::Open,
    };
    if schema.contains_key("properties") && closing != wanted {
        return Some(pointer.to_owned());
    }
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let items = schema.get("items").map(|items| ("*", items));
    properties
        .map(|(name, sub)| (name.as_str(), sub))
        .chain(items)
        .find_map(|(name, sub)| first_with_other_closing(sub.as_object()?, wanted, &child(pointer, name)))
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

/// A copy that compiles alone.
fn without_refs(schema: &Schema) -> Schema {
    if schema.contains_key("$ref") {
        return Map::new();
    }
    resolve::map_subschemas(schema, &mut without_refs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_engines_read_alike() {
        for text in [
            r"^step-\d{3}$",
            r"\S",
            r"^(?:a|b)+$",
            r"[\[\]a-z]",
            r"^[^\s/]{1,9}$",
            "文",
            r"\\A",
        ] {
            assert!(
                pattern_fault(text).is_none(),
                "{text}: {}",
                pattern_fault(text).unwrap().message
            );
        }
        for (text, offset, part) in [
            (r"\Aab", 0, "ECMAScript"),
            (r"ab\z", 2, "ECMAScript"),
            (r"文\p{L}", 3, "differs"),
            ("a(?=b)", 1, "look-ahead"),
            ("(?<!b)a", 0, "look-behind"),
            ("(?<n>a)", 0, "named"),
            ("(?i)a", 0, "flag"),
            (r"(a)\1", 3, "back references"),
            ("[[:alpha:]]", 1, "inside a class"),
            ("[a&&b]", 2, "inside a class"),
            ("a(", 0, "compile"),
            ("a++", 0, "compile"),
            ("a{2,1}", 0, "compile"),
            ("\\", 0, "compile"),
        ] {
            let fault = pattern_fault(text).unwrap_or_else(|| panic!("{text} should not be allowed"));
            assert_eq!(fault.offset, offset, "{text}: {}", fault.message);
            assert!(fault.message.contains(part), "{text}: {}", fault.message);
        }
    }

    #[test]
    fn variants_are_compared_by_their_words() {
        assert_eq!(parts("fooBar-baz"), ["foo", "bar", "baz"]);
        assert_eq!(parts("FOO"), parts("foo"));
        assert!(parts("--").is_empty());
    }

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
