//! Schemas of older drafts, said in the words of 2020-12.
//!
//! Answers for one form of JSON Schema behind the door: whatever draft a schema was written in (04, 06, 07, 2019-09), what
//! is made of it is valid 2020-12 and takes the same values. Leaves out whether the schema is a good one, which the
//! validator says, and references that lead nowhere or into other documents, which stay as they are and are refused later.
//!
//! A schema that does not say its draft is read as 2020-12. A list under `items`, a truth value under `exclusiveMinimum`,
//! `dependencies` and `$recursiveRef` can mean only one thing, though, so they are translated whatever the schema says that
//! it is: widely used generators write draft-07 and do not say so.
//!
//! | older form | 2020-12 |
//! |---|---|
//! | `items: [..]`, `additionalItems` | `prefixItems`, `items` |
//! | `minimum` with `exclusiveMinimum: true` | `exclusiveMinimum` |
//! | `dependencies` | `dependentRequired`, `dependentSchemas` |
//! | `$recursiveRef: "#"` | `$ref: "#"`: in one document both lead to its root |
//! | `id`, `$id`, `$anchor`, and references by them | references by JSON Pointer |
//! | constraints beside `$ref` (until draft-07) | gone: they said nothing |
//! | words that the draft does not know | gone: they said nothing |
//!
//! `$schema` is gone as well: readers take 2020-12 where nothing is said, and some refuse a draft that they were not made for.
//! Three differences stay: to draft-04 `1.0` is no integer, and drafts 06 and 07 let a validator check `contentEncoding`
//! and `contentMediaType`.

use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{LISTS, Loss, MAPS, Notes, ONE};

/// Schemas that nest deeper are not read.
const DEEPEST: usize = 256;
/// How many places that hold no schemas references may lead to.
const ELSEWHERE: usize = 100;

/// The schema in the words of 2020-12. Idempotent.
///
/// # Errors
/// What can't be said there, with its place.
pub fn in_2020_12(schema: &Value) -> Result<Value, Loss> {
    let mut reader = Reader {
        root: schema,
        own_id: None,
        anchors: HashMap::new(),
        elsewhere: RefCell::default(),
    };
    if let Value::Object(root) = schema {
        let draft = Draft::Newest.of(root).unwrap_or(Draft::Newest);
        let own_id = draft.id(root).map(|id| id.trim_end_matches('#'));
        reader.own_id = own_id.filter(|id| !id.is_empty());
    }
    reader.find_anchors(schema, Draft::Newest, &mut String::new(), 0);
    let mut translator = Translator {
        notes: Notes::default(),
        reader: &reader,
        contained: Contained::default(),
    };
    let translated = translator.schema(schema, Draft::Newest, 0)?;
    if translator.contained.contains && translator.contained.unevaluated_items {
        return translator
            .unfit("`contains` beside `unevaluatedItems` means something else in 2019-09 than in 2020-12");
    }
    Ok(translated)
}

/// A draft, in the order of their age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Draft {
    Four,
    Six,
    Seven,
    Nineteen,
    /// 2020-12, and what says nothing.
    Newest,
}

impl Draft {
    /// The draft that a schema says, else the one around it.
    fn of(self, map: &Map<String, Value>) -> Result<Self, String> {
        let Some(said) = map.get("$schema") else {
            return Ok(self);
        };
        let name = said.as_str().unwrap_or_default().trim_end_matches('#');
        let name = name.strip_prefix("http://").or_else(|| name.strip_prefix("https://"));
        match name.and_then(|name| name.strip_prefix("json-schema.org/")) {
            Some("draft-04/schema") => Ok(Self::Four),
            Some("draft-06/schema") => Ok(Self::Six),
            Some("draft-07/schema") => Ok(Self::Seven),
            Some("draft/2019-09/schema") => Ok(Self::Nineteen),
            Some("draft/2020-12/schema" | "schema") => Ok(Self::Newest),
            _ => Err(format!(
                "`$schema` says {}, and the drafts 04, 06, 07, 2019-09 and 2020-12 are known",
                super::cut(&said.to_string())
            )),
        }
    }

    /// Whether a word says something in this draft, where it stands.
    fn knows(self, map: &Map<String, Value>, key: &str) -> bool {
        if self <= Self::Seven && map.get("$ref").is_some_and(Value::is_string) {
            return super::BESIDE_REFERENCE.contains(&key);
        }
        let since = match key {
            "const" | "contains" | "propertyNames" | "$id" => Self::Six,
            "if" | "then" | "else" => Self::Seven,
            "$anchor"
            | "$recursiveAnchor"
            | "$recursiveRef"
            | "dependentRequired"
            | "dependentSchemas"
            | "minContains"
            | "maxContains"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "contentSchema" => Self::Nineteen,
            "$dynamicAnchor" | "$dynamicRef" | "prefixItems" => Self::Newest,
            _ => Self::Four,
        };
        since <= self
    }

    /// What names a schema: `id` in draft-04, `$id` since.
    fn id(self, map: &Map<String, Value>) -> Option<&str> {
        let key = if self == Self::Four { "id" } else { "$id" };
        map.get(key).filter(|_| self.knows(map, key)).and_then(Value::as_str)
    }

    /// The name by which references find a schema wherever it stands.
    fn anchor(self, map: &Map<String, Value>) -> Option<&str> {
        let by_id = self.id(map).and_then(|id| id.strip_prefix('#'));
        let anchor = || {
            let anchor = map.get("$anchor").filter(|_| self.knows(map, "$anchor"));
            anchor.and_then(Value::as_str)
        };
        by_id
            .filter(|name| !name.is_empty() && !name.starts_with('/'))
            .or_else(anchor)
    }
}

/// Words that change each other's meaning between 2019-09 and 2020-12, if they are found in the former.
#[derive(Default)]
struct Contained {
    contains: bool,
    unevaluated_items: bool,
}

/// The schema as it was written, where references lead.
struct Reader<'s> {
    root: &'s Value,
    /// How the schema names itself.
    own_id: Option<&'s str>,
    /// The places of names, as JSON Pointers; none for a name that two have.
    anchors: HashMap<&'s str, Option<String>>,
    /// Of places that hold no schemas and that references lead to all the same, whether what is there stays as it is.
    elsewhere: RefCell<HashMap<String, bool>>,
}

impl<'s> Reader<'s> {
    fn find_anchors(&mut self, schema: &'s Value, around: Draft, place: &mut String, depth: usize) {
        let Value::Object(map) = schema else { return };
        // Deeper ones are told to be so later.
        if depth > DEEPEST {
            return;
        }
        let draft = around.of(map).unwrap_or(around);
        if let Some(anchor) = draft.anchor(map) {
            let known = self.anchors.insert(anchor, Some(place.clone()));
            if known.is_some() {
                self.anchors.insert(anchor, None);
            }
        }
        for (key, value) in map.iter().filter(|(key, _)| draft.knows(map, key)) {
            let back = place.len();
            step(place, key);
            match value {
                Value::Object(_) if ONE.contains(&key.as_str()) => self.find_anchors(value, draft, place, depth + 1),
                Value::Array(list) if LISTS.contains(&key.as_str()) => {
                    for (index, below) in list.iter().enumerate() {
                        let back = place.len();
                        step(place, &index.to_string());
                        self.find_anchors(below, draft, place, depth + 1);
                        place.truncate(back);
                    }
                }
                Value::Object(named) if MAPS.contains(&key.as_str()) => {
                    for (name, below) in named {
                        let back = place.len();
                        step(place, name);
                        self.find_anchors(below, draft, place, depth + 1);
                        place.truncate(back);
                    }
                }
                _ => {}
            }
            place.truncate(back);
        }
    }

    /// A reference, to where that what it named stands now.
    fn reference(&self, written: &str) -> Result<String, String> {
        let mut reference = written;
        if let Some(rest) = self.own_id.and_then(|id| reference.strip_prefix(id))
            && (rest.is_empty() || rest.starts_with('#'))
        {
            reference = if rest.is_empty() { "#" } else { rest };
        }
        match reference.strip_prefix('#') {
            Some("") => Ok(reference.to_owned()),
            Some(pointer) if pointer.starts_with('/') => self.moved(pointer),
            Some(name) => match self.anchors.get(name) {
                Some(Some(pointer)) => self.moved(pointer),
                Some(None) => Err(format!("two schemas have the name `{}`", super::cut(name))),
                None => Ok(written.to_owned()),
            },
            None => Ok(written.to_owned()),
        }
    }

    /// Where a JSON Pointer into the schema as it was written leads in the translated one.
    fn moved(&self, pointer: &str) -> Result<String, String> {
        let unchanged = || Ok(format!("#{pointer}"));
        let mut steps = pointer.split('/').skip(1);
        let mut there = String::from("#");
        let mut draft = Draft::Newest;
        let mut at = self.root;
        while let Some(written) = steps.next() {
            let Value::Object(map) = at else { return unchanged() };
            draft = draft.of(map)?;
            let key = written.replace("~1", "/").replace("~0", "~");
            let Some(value) = map.get(&key) else { return unchanged() };
            let says_nothing = || {
                Err(format!(
                    "a reference leads to `#{}`, which says nothing in the draft of this schema",
                    super::cut(pointer)
                ))
            };
            if !draft.knows(map, &key) {
                return says_nothing();
            }
            let is_tuple = map.get("items").is_some_and(Value::is_array);
            let (keyword, goes_on) = match (key.as_str(), value) {
                ("items", Value::Array(_)) => ("prefixItems", true),
                ("additionalItems", _) if is_tuple => ("items", false),
                ("additionalItems", _) => return says_nothing(),
                ("dependencies", Value::Object(_)) => ("dependentSchemas", true),
                (one, Value::Object(_) | Value::Bool(_)) if ONE.contains(&one) => (one, false),
                (list, Value::Array(_)) if LISTS.contains(&list) => (list, true),
                (named, Value::Object(_)) if MAPS.contains(&named) => (named, true),
                _ => {
                    // No place for schemas, so what stands there stays as it is.
                    return match self.root.pointer(pointer) {
                        Some(target) if !self.stays(pointer, target, draft) => Err(format!(
                            "a reference leads to `#{}`, where no schema is looked for: put it under `definitions`",
                            super::cut(pointer)
                        )),
                        _ => unchanged(),
                    };
                }
            };
            step(&mut there, keyword);
            at = value;
            if goes_on {
                let Some(name) = steps.next() else { return unchanged() };
                let below = match value {
                    Value::Array(list) => name.parse::<usize>().ok().and_then(|index| list.get(index)),
                    value => value.get(name.replace("~1", "/").replace("~0", "~")),
                };
                let Some(below) = below else { return unchanged() };
                there.push('/');
                there.push_str(name);
                at = below;
            }
        }
        Ok(there)
    }

    /// Whether a schema says the same in 2020-12 as it is written. Of very many nobody knows.
    fn stays(&self, pointer: &str, schema: &Value, draft: Draft) -> bool {
        let mut known = self.elsewhere.borrow_mut();
        if let Some(stays) = known.get(pointer) {
            return *stays;
        }
        if known.len() >= ELSEWHERE {
            return false;
        }
        let alone = Reader {
            root: &Value::Null,
            own_id: self.own_id,
            anchors: HashMap::new(),
            elsewhere: RefCell::default(),
        };
        let mut alone = Translator {
            notes: Notes::default(),
            reader: &alone,
            contained: Contained::default(),
        };
        let translated = alone.schema(schema, draft, 0);
        let stays = translated.is_ok_and(|translated| translated == *schema);
        known.insert(pointer.to_owned(), stays);
        stays
    }
}

struct Translator<'r, 's> {
    notes: Notes,
    reader: &'r Reader<'s>,
    contained: Contained,
}

impl Translator<'_, '_> {
    fn unfit<T>(&self, what: impl Into<String>) -> Result<T, Loss> {
        Err(Loss {
            pointer: self.notes.place.clone(),
            what: what.into(),
        })
    }

    fn below(&mut self, steps: &[&str], schema: &Value, draft: Draft, depth: usize) -> Result<Value, Loss> {
        let back = self.notes.enter(steps);
        // Left as it is on an error, which then names the place.
        let translated = self.schema(schema, draft, depth + 1)?;
        self.notes.leave(back);
        Ok(translated)
    }

    fn schema(&mut self, schema: &Value, around: Draft, depth: usize) -> Result<Value, Loss> {
        let Value::Object(map) = schema else {
            return Ok(schema.clone());
        };
        if depth > DEEPEST {
            return self.unfit(format!("nested deeper than {DEEPEST} levels"));
        }
        let draft = match around.of(map) {
            Ok(draft) => draft,
            Err(reason) => return self.unfit(reason),
        };
        if depth > 0 {
            self.check_id(map, draft)?;
        }
        let mut out = Map::new();
        for (key, value) in map.iter().filter(|(key, _)| draft.knows(map, key)) {
            self.keyword(key, value, map, &mut out, draft, depth)?;
        }
        if draft == Draft::Nineteen {
            self.contained.contains |= out.contains_key("contains");
            self.contained.unevaluated_items |= out.contains_key("unevaluatedItems");
        }
        if let Some(value) = map.get("dependencies").filter(|_| draft.knows(map, "dependencies")) {
            self.dependencies(value, &mut out, draft, depth)?;
        }
        if let Some(to) = map.get("$recursiveRef").filter(|_| draft.knows(map, "$recursiveRef")) {
            if *to != "#" {
                return self.unfit("`$recursiveRef` leads elsewhere than to `#`");
            }
            if out.contains_key("$ref") {
                let all = out.entry("allOf").or_insert_with(|| json!([]));
                if let Value::Array(all) = all {
                    all.push(json!({ "$ref": "#" }));
                }
            } else {
                out.insert("$ref".into(), to.clone());
            }
        }
        Ok(out.into())
    }

    /// A name that changes what the references below it mean can't be left out.
    fn check_id(&self, map: &Map<String, Value>, draft: Draft) -> Result<(), Loss> {
        match draft.id(map) {
            Some(id) if !id.starts_with('#') && has_reference(map) => self.unfit(format!(
                "the name `{}` makes references mean something else",
                super::cut(id)
            )),
            _ => Ok(()),
        }
    }

    fn keyword(
        &mut self,
        key: &str,
        value: &Value,
        map: &Map<String, Value>,
        out: &mut Map<String, Value>,
        draft: Draft,
        depth: usize,
    ) -> Result<(), Loss> {
        let exclusive = |bound: &str| match bound {
            "minimum" | "exclusiveMinimum" => ("minimum", "exclusiveMinimum"),
            _ => ("maximum", "exclusiveMaximum"),
        };
        let translated = match (key, value) {
            ("$schema" | "id" | "$id" | "$anchor", Value::String(_)) | ("$recursiveAnchor" | "$recursiveRef", _) => {
                return Ok(());
            }
            ("$ref", Value::String(reference)) => match self.reader.reference(reference) {
                Ok(reference) => reference.into(),
                Err(reason) => return self.unfit(reason),
            },
            ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(true)) => match map.get(exclusive(key).0) {
                Some(bound) => bound.clone(),
                None => return self.unfit(format!("`{key}` is true and there is no `{}`", exclusive(key).0)),
            },
            ("minimum" | "maximum", _) if map.get(exclusive(key).1) == Some(&Value::Bool(true)) => return Ok(()),
            ("items", Value::Array(_)) if has_prefix_items(map, draft) => {
                return self.unfit("a list under `items` beside `prefixItems` has no meaning in any draft");
            }
            ("items", Value::Array(list)) => {
                if !list.is_empty() {
                    let list = self.list(key, list, draft, depth)?;
                    out.insert("prefixItems".into(), list);
                }
                return Ok(());
            }
            ("additionalItems", _) if map.get("items").is_some_and(Value::is_array) => {
                let rest = self.below(&[key], value, draft, depth)?;
                out.insert("items".into(), rest);
                return Ok(());
            }
            // They say nothing, or are said by other words once all of these are there.
            ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(false))
            | ("additionalItems", _)
            | ("dependencies", Value::Object(_)) => return Ok(()),
            (one, Value::Object(_)) if ONE.contains(&one) => self.below(&[key], value, draft, depth)?,
            (list, Value::Array(parts)) if LISTS.contains(&list) => self.list(key, parts, draft, depth)?,
            (named, Value::Object(named_schemas)) if MAPS.contains(&named) => {
                let mut translated = Map::new();
                for (name, below) in named_schemas {
                    translated.insert(name.clone(), self.below(&[key, name], below, draft, depth)?);
                }
                translated.into()
            }
            _ => value.clone(),
        };
        out.insert(key.to_owned(), translated);
        Ok(())
    }

    fn list(&mut self, key: &str, parts: &[Value], draft: Draft, depth: usize) -> Result<Value, Loss> {
        let mut translated = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            translated.push(self.below(&[key, &index.to_string()], part, draft, depth)?);
        }
        Ok(translated.into())
    }

    /// Names that a key needs beside it, and schemas that hold where it is there: one word until draft-07, then two.
    fn dependencies(
        &mut self,
        value: &Value,
        out: &mut Map<String, Value>,
        draft: Draft,
        depth: usize,
    ) -> Result<(), Loss> {
        // What is no object the validator refuses.
        let Value::Object(dependencies) = value else {
            return Ok(());
        };
        for (name, needs) in dependencies {
            let (keyword, needs) = match needs {
                Value::Array(_) => ("dependentRequired", needs.clone()),
                schema => (
                    "dependentSchemas",
                    self.below(&["dependencies", name], schema, draft, depth)?,
                ),
            };
            let all = out.entry(keyword).or_insert_with(|| json!({}));
            let Value::Object(all) = all else {
                return self.unfit(format!("`{keyword}` must be an object"));
            };
            if all.contains_key(name) {
                return self.unfit(format!(
                    "`dependencies` and `{keyword}` both say what `{}` needs",
                    super::cut(name)
                ));
            }
            all.insert(name.clone(), needs);
        }
        Ok(())
    }
}

fn has_prefix_items(map: &Map<String, Value>, draft: Draft) -> bool {
    map.contains_key("prefixItems") && draft.knows(map, "prefixItems")
}

/// Whether there is a reference anywhere in a value.
fn has_reference(map: &Map<String, Value>) -> bool {
    fn within(value: &Value) -> bool {
        match value {
            Value::Object(map) => has_reference(map),
            Value::Array(list) => list.iter().any(within),
            _ => false,
        }
    }
    map.get("$ref").is_some_and(Value::is_string) || map.values().any(within)
}

fn step(place: &mut String, name: &str) {
    place.push('/');
    place.push_str(&name.replace('~', "~0").replace('/', "~1"));
}
