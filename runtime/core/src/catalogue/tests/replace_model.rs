//! The lists of servers against a naive model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;

use crate::catalogue::testing::{catalogue, host, is_long, names, runner, texts, tool_search, with_schema};
use crate::catalogue::{Catalogue, Maximum, Offered, Phase, Reason};
use crate::registry::Definition;

/// A tool of a server: its number, and which of two descriptions it has, or that it is bad.
type Item = (u8, Form);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    One,
    Other,
    Bad,
}

#[derive(Clone, Debug)]
enum Operation {
    Replace(u8, Vec<Item>),
    Remove(u8),
    Load(u8, u8),
    /// The host takes a name.
    Register(u8),
    Unregister(u8),
}

fn operation() -> impl Strategy<Value = Operation> {
    let form = prop_oneof![6 => Just(Form::One), 3 => Just(Form::Other), 1 => Just(Form::Bad)];
    let server = 0_u8..3;
    prop_oneof![
        5 => (server.clone(), proptest::collection::vec((0_u8..8, form), 0..5))
            .prop_map(|(server, items)| Operation::Replace(server, items)),
        1 => server.clone().prop_map(Operation::Remove),
        3 => (server, 0_u8..8).prop_map(|(server, tool)| Operation::Load(server, tool)),
        1 => (0_u8..4).prop_map(Operation::Register),
        1 => (0_u8..4).prop_map(Operation::Unregister),
    ]
}

fn offered((number, form): Item) -> Offered {
    let schema = match form {
        Form::One => json!({"type": "object"}),
        Form::Other => json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        Form::Bad => json!({"type": "object", "oneOf": []}),
    };
    with_schema(&format!("t{number}"), schema)
}

fn served(server: u8, tool: u8) -> String {
    format!("s{server}__t{tool}")
}

/// What the model knows: the form of each tool by its served name, and which are loaded.
#[derive(Default)]
struct Model {
    tools: BTreeMap<String, Form>,
    loaded: BTreeSet<String>,
    host: BTreeSet<String>,
    revision: u64,
}

impl Model {
    fn of_server(&self, server: u8) -> BTreeMap<String, Form> {
        let prefix = format!("s{server}__");
        let mine = self.tools.iter().filter(|(name, _)| name.starts_with(&prefix));
        mine.map(|(name, form)| (name.clone(), *form)).collect()
    }
}

fn step(catalogue: &Catalogue, model: &mut Model, operation: Operation) -> Result<(), TestCaseError> {
    match operation {
        Operation::Replace(server, items) => {
            let result = catalogue.replace_dynamic(
                &format!("s{server}"),
                items.iter().copied().map(offered).collect(),
                |_| (),
            );
            let mut numbers = BTreeSet::new();
            let twice: BTreeSet<u8> = items.iter().map(|(n, _)| *n).filter(|n| !numbers.insert(*n)).collect();
            if twice.is_empty() {
                let replaced = result.unwrap();
                let before = model.of_server(server);
                let good: BTreeMap<String, Form> = items
                    .iter()
                    .filter(|(_, form)| *form != Form::Bad)
                    .map(|(number, form)| (served(server, *number), *form))
                    .collect();
                let pick = |keep: &dyn Fn(&String) -> bool, from: &BTreeMap<String, Form>| {
                    from.keys().filter(|name| keep(name)).cloned().collect::<Vec<_>>()
                };
                let added = pick(&|name| !before.contains_key(name), &good);
                let removed = pick(&|name| !good.contains_key(name), &before);
                let updated = pick(&|name| before.get(name).is_some_and(|form| *form != good[name]), &good);
                let kept = pick(&|name| before.get(name) == Some(&good[name]), &good);
                prop_assert_eq!(texts(&replaced.added), added.clone());
                prop_assert_eq!(texts(&replaced.removed), removed.clone());
                prop_assert_eq!(texts(&replaced.updated), updated.clone());
                prop_assert_eq!(texts(&replaced.kept), kept);
                prop_assert_eq!(replaced.quarantined.len(), items.len() - good.len());
                for name in &removed {
                    model.tools.remove(name);
                    model.loaded.remove(name);
                }
                model.tools.extend(good);
                model.revision += u64::from(!(added.is_empty() && removed.is_empty() && updated.is_empty()));
                prop_assert_eq!(replaced.revision, model.revision);
            } else {
                let reasons = result.unwrap_err().reasons;
                prop_assert_eq!(reasons.len(), twice.len());
                let duplicates = reasons.iter().all(|reason| matches!(reason, Reason::Duplicate { .. }));
                prop_assert!(duplicates);
            }
        }
        Operation::Remove(server) => {
            let gone: Vec<String> = model.of_server(server).into_keys().collect();
            let removed = catalogue.remove_dynamic(&format!("s{server}"));
            prop_assert_eq!(texts(&removed), gone.clone());
            for name in &gone {
                model.tools.remove(name);
                model.loaded.remove(name);
            }
            model.revision += u64::from(!gone.is_empty());
        }
        Operation::Load(server, tool) => {
            let name = served(server, tool);
            let found = catalogue.tool_search(&format!("select:{name}"), Maximum::default(), Phase::Act);
            prop_assert_eq!(found.tools.len(), usize::from(model.tools.contains_key(&name)));
            if model.tools.contains_key(&name) && model.loaded.insert(name) {
                model.revision += 1;
            }
        }
        Operation::Register(number) => {
            let name = format!("host_{number}");
            let is_new = model.host.insert(name.clone());
            let tool = match catalogue.get(&name) {
                Some(entry) => Definition::clone(entry.definition()),
                None => host(&name).build().unwrap(),
            };
            prop_assert_eq!(catalogue.register(tool, ()).is_ok(), is_new);
            model.revision += u64::from(is_new);
        }
        Operation::Unregister(number) => {
            let name = format!("host_{number}");
            let was = model.host.remove(&name);
            prop_assert_eq!(catalogue.unregister(&name).is_some(), was);
            model.revision += u64::from(was);
        }
    }
    let snapshot = catalogue.snapshot();
    prop_assert_eq!(snapshot.revision(), model.revision);
    prop_assert_eq!(names(snapshot.dynamic()), model.tools.keys().collect::<Vec<_>>());
    let mut shown: Vec<&str> = model.loaded.iter().chain(&model.host).map(String::as_str).collect();
    shown.push("tool_search");
    shown.sort_unstable();
    prop_assert_eq!(names(snapshot.declarations(Phase::Act)), shown);
    for (name, form) in &model.tools {
        let schema = snapshot
            .get(name)
            .unwrap()
            .definition()
            .input_schema
            .value()
            .unwrap()
            .clone();
        prop_assert_eq!(schema.get("properties").is_some(), *form == Form::Other);
    }
    Ok(())
}

#[test]
fn replacing_does_what_a_naive_model_does() {
    let operations = proptest::collection::vec(operation(), 200);
    // In the long form a million operations.
    runner(if is_long() { 100 } else { 10 })
        .run(&operations, |operations| {
            let catalogue = catalogue();
            catalogue.register(tool_search(), ()).unwrap();
            let mut model = Model {
                revision: 1,
                ..Model::default()
            };
            operations
                .into_iter()
                .try_for_each(|operation| step(&catalogue, &mut model, operation))
        })
        .unwrap();
}
