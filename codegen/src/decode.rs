//! From a tree of YAML to the model, with every error of form and a place for each.
//!
//! Answers for unknown, missing and repeated keys, wrong types and unknown words, judged by the schema that schemars makes
//! of the model. What is wrong is reported and replaced by something harmless, so that the rest of the file is still
//! checked. Leaves out what the values mean, and the inside of JSON Schemas (`check::schemas`).
//!
//! The schema is walked here and not by a validator, because a validator's errors about alternatives ("not valid under
//! any of the given schemas") and misspelt keys cannot be turned back into advice, and because it mends nothing.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::model::PORTABLE;
use crate::pointer::child;
use crate::report::Report;
use crate::specs::Doc;
use crate::suggest::{list, nearest, suggest};
use crate::yaml::{Entry, Node, NodeKind};

/// Reads a tree by the schema of the model. The tree is mended where it is wrong; `None` when nothing can be made of it.
pub(crate) fn decode<T: DeserializeOwned>(
    path: &str,
    tree: &mut Node,
    schema: &Value,
    report: &mut Report,
) -> Option<T> {
    let written = tree.clone();
    let doc = Doc { path, tree: &written };
    if !matches!(tree.kind, NodeKind::Map(_)) {
        let message = match &tree.kind {
            NodeKind::Scalar(Value::Null) => "the file says nothing".to_owned(),
            other => format!("a spec is a map of keys, this is {}", found(other)),
        };
        report.value(doc, "", message, missing_keys_help(schema));
        return None;
    }
    repetitions(doc, tree, "", report);
    let definitions = schema.get("definitions").and_then(Value::as_object);
    let mut decoder = Decoder {
        doc,
        definitions,
        report,
    };
    decoder.value(tree, schema, "");
    match serde_json::from_value(tree.to_value()) {
        Ok(spec) => Some(spec),
        Err(error) => {
            report.value(doc, "", format!("the file does not fit the model: {error}"), None);
            None
        }
    }
}

/// Reports every key that stands twice in a map, and keeps the first.
fn repetitions(doc: Doc<'_>, node: &mut Node, pointer: &str, report: &mut Report) {
    match &mut node.kind {
        NodeKind::Scalar(_) => {}
        NodeKind::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                repetitions(doc, item, &format!("{pointer}/{index}"), report);
            }
        }
        NodeKind::Map(entries) => {
            let mut seen: Vec<(String, u64)> = Vec::new();
            entries.retain(|entry| {
                if let Some((_, line)) = seen.iter().find(|(key, _)| *key == entry.key) {
                    let message = format!(
                        "the key `{}` stands here a second time; the first is in line {line}",
                        entry.key
                    );
                    // The pointer of the map, not of the key: the first value is not in doubt.
                    let help = "remove one of the two".to_owned();
                    report.at(
                        doc,
                        &format!("{pointer}/{}#", entry.key),
                        entry.key_place,
                        message,
                        help,
                    );
                    return false;
                }
                seen.push((entry.key.clone(), entry.key_place.line));
                true
            });
            for entry in entries {
                let below = child(pointer, &entry.key);
                repetitions(doc, &mut entry.value, &below, report);
            }
        }
    }
}

struct Decoder<'a> {
    doc: Doc<'a>,
    definitions: Option<&'a Map<String, Value>>,
    report: &'a mut Report,
}

/// The model's schema at one place, with references followed.
enum Form<'a> {
    Anything,
    /// A JSON Schema: a map whose inside is judged elsewhere.
    Portable,
    Text,
    Flag,
    List(&'a Value),
    /// A map with fixed keys.
    Fields(&'a Value),
    /// A map with free keys.
    Map(&'a Value),
    Words(Vec<&'a str>),
    /// A map with one key out of several.
    OneKey(Vec<(&'a str, &'a Value)>),
    Alternatives(&'a [Value]),
}

impl<'a> Decoder<'a> {
    fn form(&self, schema: &'a Value) -> Form<'a> {
        if let Some(name) = schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|name| name.rsplit('/').next())
        {
            if name == PORTABLE {
                return Form::Portable;
            }
            return match self.definitions.and_then(|definitions| definitions.get(name)) {
                Some(target) => self.form(target),
                None => Form::Anything,
            };
        }
        if let Some([only]) = schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            return self.form(only);
        }
        if let Some(alternatives) = schema.get("anyOf").and_then(Value::as_array) {
            return Form::Alternatives(alternatives);
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            return Form::Words(words.iter().filter_map(Value::as_str).collect());
        }
        if let Some(alternatives) = schema.get("oneOf").and_then(Value::as_array) {
            let words: Vec<_> = alternatives
                .iter()
                .filter_map(|one| one.get("const")?.as_str())
                .collect();
            if words.len() == alternatives.len() {
                return Form::Words(words);
            }
            return Form::OneKey(
                alternatives
                    .iter()
                    .filter_map(|one| one.get("properties")?.as_object()?.iter().next())
                    .map(|(key, value)| (key.as_str(), value))
                    .collect(),
            );
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => Form::Text,
            Some("boolean") => Form::Flag,
            Some("array") => Form::List(schema.get("items").unwrap_or(&Value::Bool(true))),
            Some("object") if schema.get("properties").is_some() => Form::Fields(schema),
            Some("object") => Form::Map(schema.get("additionalProperties").unwrap_or(&Value::Bool(true))),
            _ => Form::Anything,
        }
    }

    fn value(&mut self, node: &mut Node, schema: &'a Value, pointer: &str) {
        let form = self.form(schema);
        if !fits(&form, &node.kind) {
            self.wrong_type(node, schema, pointer);
            return;
        }
        match form {
            Form::Anything | Form::Text | Form::Flag | Form::Portable => {}
            Form::List(items) => {
                if let NodeKind::List(list) = &mut node.kind {
                    for (index, item) in list.iter_mut().enumerate() {
                        self.value(item, items, &format!("{pointer}/{index}"));
                    }
                }
            }
            Form::Map(values) => {
                if let NodeKind::Map(entries) = &mut node.kind {
                    for entry in entries {
                        let below = child(pointer, &entry.key);
                        self.value(&mut entry.value, values, &below);
                    }
                }
            }
            Form::Words(words) => {
                let word = node.as_str().unwrap_or_default().to_owned();
                if !words.contains(&word.as_str()) {
                    let message = format!("unknown word `{word}`");
                    let help = suggest(&word, words.iter().copied());
                    self.report.at(self.doc, pointer, node.place, message, help);
                    self.stand_in(node, schema, pointer);
                }
            }
            Form::OneKey(keys) => self.one_key(node, schema, &keys, pointer),
            Form::Fields(schema) => self.fields(node, schema, pointer),
            Form::Alternatives(alternatives) => {
                let fitting = alternatives.iter().find(|one| fits(&self.form(one), &node.kind));
                if let Some(one) = fitting {
                    self.value(node, one, pointer);
                }
            }
        }
    }

    fn fields(&mut self, node: &mut Node, schema: &'a Value, pointer: &str) {
        let place = node.place;
        let NodeKind::Map(entries) = &mut node.kind else { return };
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return;
        };
        let is_open = schema
            .get("additionalProperties")
            .is_none_or(|more| *more != Value::Bool(false));
        let required: Vec<&str> = strings(schema.get("required"));

        let mut taken: Vec<String> = entries.iter().map(|entry| entry.key.clone()).collect();
        let mut kept = Vec::with_capacity(entries.len());
        for mut entry in std::mem::take(entries) {
            if properties.contains_key(&entry.key) || is_open {
                kept.push(entry);
                continue;
            }
            let free = properties
                .keys()
                .map(String::as_str)
                .filter(|key| !taken.iter().any(|one| one == key));
            let meant = nearest(&entry.key, free).map(str::to_owned);
            let message = format!("unknown key `{}`", entry.key);
            let help = match &meant {
                Some(meant) => Some(format!("did you mean `{meant}`?")),
                None => suggest(&entry.key, properties.keys().map(String::as_str)),
            };
            self.report
                .at(self.doc, &child(pointer, &entry.key), entry.key_place, message, help);
            // A slip of the pen is read as what was meant, so that it is not also a missing key.
            if let Some(meant) = meant {
                taken.push(meant.clone());
                if fits(&self.form(&properties[&meant]), &entry.value.kind) {
                    entry.key = meant;
                    kept.push(entry);
                } else if required.contains(&meant.as_str()) {
                    let mut value = Node {
                        place: entry.value.place,
                        kind: NodeKind::Scalar(Value::Null),
                    };
                    self.stand_in(&mut value, &properties[&meant], &child(pointer, &meant));
                    kept.push(Entry {
                        key: meant,
                        key_place: entry.key_place,
                        value,
                    });
                }
            }
        }
        for entry in &mut kept {
            if let Some(schema) = properties.get(&entry.key) {
                let below = child(pointer, &entry.key);
                self.value(&mut entry.value, schema, &below);
            }
        }
        for name in required {
            if kept.iter().any(|entry| entry.key == name) {
                continue;
            }
            let about = description(&properties[name]).map(|about| format!("`{name}`: {about}"));
            let at = if pointer.is_empty() {
                place
            } else {
                self.doc.tree.key_place(pointer)
            };
            let below = child(pointer, name);
            self.report
                .at(self.doc, &below, at, format!("the key `{name}` is missing"), about);
            let mut value = Node {
                place: at,
                kind: NodeKind::Scalar(Value::Null),
            };
            self.stand_in(&mut value, &properties[name], &below);
            kept.push(Entry {
                key: name.to_owned(),
                key_place: at,
                value,
            });
        }
        node.kind = NodeKind::Map(kept);
    }

    /// An externally tagged enum: `{exactly_one_of: […]}`.
    fn one_key(&mut self, node: &mut Node, schema: &'a Value, keys: &[(&'a str, &'a Value)], pointer: &str) {
        let names = || keys.iter().map(|(name, _)| *name);
        let NodeKind::Map(entries) = &mut node.kind else { return };
        if let [entry] = &mut entries[..] {
            if let Some((name, schema)) = keys.iter().find(|(name, _)| *name == entry.key) {
                self.value(&mut entry.value, schema, &child(pointer, name));
                return;
            }
            let message = format!("unknown key `{}`", entry.key);
            let help = suggest(&entry.key, names());
            self.report
                .at(self.doc, &child(pointer, &entry.key), entry.key_place, message, help);
        } else {
            let all: Vec<_> = names().collect();
            let message = format!("an entry here has exactly one key, this has {}", entries.len());
            self.report.at(
                self.doc,
                pointer,
                node.place,
                message,
                format!("write one of {}", list(&all)),
            );
        }
        self.stand_in(node, schema, pointer);
    }

    fn wrong_type(&mut self, node: &mut Node, schema: &'a Value, pointer: &str) {
        let message = format!("expected {}, found {}", self.expected(schema), found(&node.kind));
        let help = match (&node.kind, self.form(schema)) {
            (NodeKind::Scalar(Value::Null), _) => {
                Some("write a value, or leave the key out when it is optional".into())
            }
            (NodeKind::Scalar(Value::String(text)), Form::Flag) => nearest(text, ["true", "false"])
                .map_or(Some("write `true` or `false`".into()), |near| {
                    Some(format!("did you mean `{near}`?"))
                }),
            (NodeKind::Scalar(Value::String(text)), Form::List(_)) if !text.contains('\n') => {
                Some(format!("write a list: `[{text}]`"))
            }
            (NodeKind::Map(_), Form::Text | Form::Words(_)) => {
                Some("a text with `: ` in it, or that begins with `{`, needs quotes".into())
            }
            (NodeKind::List(_), Form::Text | Form::Words(_)) => {
                Some("write one text; one that begins with `[` needs quotes".into())
            }
            (_, Form::Text) => Some("put it in quotes".into()),
            (_, Form::Words(_)) => Some("write one of these words".into()),
            (_, Form::Flag) => Some("write `true` or `false`".into()),
            (_, Form::List(_)) => Some("write each item in a line of its own, after `- `".into()),
            (_, Form::Map(_) | Form::Fields(_) | Form::OneKey(_) | Form::Portable) => {
                Some("write each key in a line of its own: `key: value`".into())
            }
            (_, Form::Alternatives(_) | Form::Anything) => Some("specs/README.md shows what may stand here".into()),
        };
        self.report.at(self.doc, pointer, node.place, message, help);
        self.stand_in(node, schema, pointer);
    }

    /// Puts the simplest valid value in place of what could not be read.
    fn stand_in(&mut self, node: &mut Node, schema: &'a Value, pointer: &str) {
        self.report.replace(self.doc.path, pointer);
        node.kind = self.simplest(schema, node);
    }

    fn simplest(&self, schema: &'a Value, at: &Node) -> NodeKind {
        let text = |text: &str| NodeKind::Scalar(Value::String(text.to_owned()));
        let entry = |key: &str, schema: &'a Value| Entry {
            key: key.to_owned(),
            key_place: at.place,
            value: Node {
                place: at.place,
                kind: self.simplest(schema, at),
            },
        };
        match self.form(schema) {
            Form::Anything => NodeKind::Scalar(Value::Null),
            Form::Text => text(""),
            Form::Flag => NodeKind::Scalar(Value::Bool(false)),
            Form::List(_) => NodeKind::List(Vec::new()),
            Form::Portable | Form::Map(_) => NodeKind::Map(Vec::new()),
            Form::Words(words) => text(words.first().copied().unwrap_or_default()),
            Form::OneKey(keys) => NodeKind::Map(
                keys.first()
                    .map(|(key, schema)| entry(key, schema))
                    .into_iter()
                    .collect(),
            ),
            Form::Fields(schema) => NodeKind::Map(
                strings(schema.get("required"))
                    .iter()
                    .map(|name| entry(name, &schema["properties"][*name]))
                    .collect(),
            ),
            Form::Alternatives(alternatives) => alternatives
                .first()
                .map_or(NodeKind::Scalar(Value::Null), |first| self.simplest(first, at)),
        }
    }

    fn expected(&self, schema: &'a Value) -> String {
        match self.form(schema) {
            Form::Anything => "a value".into(),
            Form::Portable => "a JSON Schema (a map)".into(),
            Form::Text => "a text".into(),
            Form::Flag => "`true` or `false`".into(),
            Form::List(_) => "a list".into(),
            Form::Map(_) => "a map".into(),
            Form::Fields(schema) => {
                let names = strings(schema.get("required"));
                if names.is_empty() {
                    "a map".into()
                } else {
                    format!("a map with {}", list(&names))
                }
            }
            Form::Words(words) => format!("one of {}", list(&words)),
            Form::OneKey(keys) => {
                let names: Vec<_> = keys.iter().map(|(name, _)| *name).collect();
                format!("a map with one of {}", list(&names))
            }
            Form::Alternatives(alternatives) => alternatives
                .iter()
                .map(|one| self.expected(one))
                .collect::<Vec<_>>()
                .join(" or "),
        }
    }
}

fn description(schema: &Value) -> Option<&str> {
    schema.get("description").and_then(Value::as_str)
}

fn fits(form: &Form<'_>, kind: &NodeKind) -> bool {
    match form {
        Form::Anything => true,
        Form::Text | Form::Words(_) => matches!(kind, NodeKind::Scalar(Value::String(_))),
        Form::Flag => matches!(kind, NodeKind::Scalar(Value::Bool(_))),
        Form::List(_) => matches!(kind, NodeKind::List(_)),
        Form::Portable | Form::Map(_) | Form::Fields(_) | Form::OneKey(_) => matches!(kind, NodeKind::Map(_)),
        // The alternatives of the model are a text and a map.
        Form::Alternatives(_) => matches!(kind, NodeKind::Scalar(Value::String(_)) | NodeKind::Map(_)),
    }
}

fn found(kind: &NodeKind) -> String {
    match kind {
        NodeKind::Scalar(Value::Null) => "nothing".into(),
        NodeKind::Scalar(Value::Bool(value)) => format!("`{value}`"),
        NodeKind::Scalar(Value::Number(number)) => format!("the number {number}"),
        NodeKind::Scalar(Value::String(text)) if text.chars().count() <= 40 && !text.contains('\n') => {
            format!("the text `{text}`")
        }
        NodeKind::Scalar(_) => "a text".into(),
        NodeKind::List(_) => "a list".into(),
        NodeKind::Map(_) => "a map".into(),
    }
}

fn missing_keys_help(schema: &Value) -> Option<String> {
    let names = strings(schema.get("required"));
    (!names.is_empty()).then(|| format!("it needs {}", list(&names)))
}

fn strings(value: Option<&Value>) -> Vec<&str> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;
    use serde_json::json;

    use super::*;
    use crate::editor;
    use crate::model::{AgentSpec, EventsSpec, ToolSpec, TypesSpec};
    use crate::yaml;

    const TOOL: &str = include_str!("../tests/errors/base/tools/notes/note_add.yaml");
    const AGENT: &str = include_str!("../tests/errors/base/agents/devloop-writer.yaml");
    const EVENTS: &str = include_str!("../tests/errors/base/events.yaml");
    const TYPES: &str = include_str!("../tests/errors/base/types.yaml");

    /// The schema with the inside of JSON Schemas left open, as the decoder leaves it.
    fn loosened(schema: &Value) -> Value {
        let mut schema = schema.clone();
        schema["definitions"][PORTABLE] = json!({ "type": "object" });
        schema
    }

    fn is_decoded<T: DeserializeOwned>(tree: &Node, schema: &Value) -> bool {
        let mut report = Report::default();
        let mut tree = tree.clone();
        let decoded = decode::<T>("specs/x.yaml", &mut tree, schema, &mut report);
        let errors = report.into_errors();
        assert_eq!(
            decoded.is_none(),
            !errors.is_empty() && !matches!(tree.kind, NodeKind::Map(_)),
            "{errors:?}"
        );
        errors.is_empty()
    }

    /// Puts another value in the place of one of a tree.
    fn replace(value: &mut Value, at: &mut usize, with: &Value) {
        if *at == 0 {
            *value = with.clone();
        }
        *at = at.wrapping_sub(1);
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| replace(item, at, with)),
            Value::Object(map) => map.values_mut().for_each(|item| replace(item, at, with)),
            _ => {}
        }
    }

    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(map) => map.values().map(count).sum(),
            _ => 0,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// The decoder and a validator of JSON Schema, which knows nothing of it, accept the same.
        #[test]
        fn the_decoder_accepts_what_the_schema_allows(
            file in 0..4_usize,
            at in any::<Index>(),
            with in prop::sample::select(vec![
                json!(null), json!(true), json!(5), json!("x"), json!("write"), json!([]), json!(["x"]), json!([5]), json!({}),
                json!({"path": "x"}), json!({"summary": "x"}), json!({"exactly_one_of": ["a"]}),
                json!({"exactly_one_of": ["a"], "at_most_one_of": ["b"]}), json!({"x": "y"}), json!([[]]),
                json!({"required_if": {"field": "a", "when": "b", "is": [null, 1]}}),
            ]),
        ) {
            let (text, schema) = [
                (TOOL, &editor::TOOL), (AGENT, &editor::AGENT), (EVENTS, &editor::EVENTS), (TYPES, &editor::TYPES),
            ][file];
            let mut value = yaml::parse("specs/x.yaml", text).unwrap().to_value();
            let mut at = at.index(count(&value));
            replace(&mut value, &mut at, &with);
            // JSON is YAML.
            let tree = yaml::parse("specs/x.yaml", &value.to_string()).unwrap();
            prop_assert_eq!(&tree.to_value(), &value);
            let decoded = match file {
                0 => is_decoded::<ToolSpec>(&tree, schema),
                1 => is_decoded::<AgentSpec>(&tree, schema),
                2 => is_decoded::<EventsSpec>(&tree, schema),
                _ => is_decoded::<TypesSpec>(&tree, schema),
            };
            prop_assert_eq!(decoded, jsonschema::draft7::is_valid(&loosened(schema), &value), "{}", value);
        }
    }
}
