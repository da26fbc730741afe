//! Deferral: what is shown, what is listed, what a search loads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use devloop_contract::tool::{Exposure, Kind};
use proptest::prelude::*;

use crate::catalogue::testing::{catalogue, deferred, host, is_long, names, offered, runner, texts, tool_search};
use crate::catalogue::{Catalogue, Maximum, Phase};
use crate::registry::Definition;

fn max(number: u64) -> Maximum {
    Maximum::try_from(number).unwrap()
}

fn five() -> Catalogue {
    let catalogue = catalogue();
    let tools = [
        tool_search(),
        host("always").kind(Kind::ReadOnly).build().unwrap(),
        deferred("read_file", Kind::ReadOnly),
        deferred("write_file", Kind::Write),
        deferred("read_page", Kind::ReadOnly),
    ];
    catalogue.register_all(tools.map(|tool| (tool, ()))).unwrap();
    catalogue
}

#[test]
fn a_deferred_tool_is_listed_and_not_shown_until_it_is_loaded() {
    let catalogue = five();
    assert_eq!(names(&catalogue.declarations(Phase::Act)), ["always", "tool_search"]);
    assert_eq!(
        catalogue.deferred_listing(Phase::Act),
        "<available-deferred-tools>\nread_file\nread_page\nwrite_file\n</available-deferred-tools>"
    );
    let found = catalogue.tool_search("select:write_file", max(5), Phase::Act);
    assert_eq!(
        (names(&found.tools), texts(&found.loaded)),
        (vec!["write_file"], vec!["write_file"])
    );
    assert_eq!(
        names(&catalogue.declarations(Phase::Act)),
        ["always", "tool_search", "write_file"]
    );
    assert!(!catalogue.deferred_listing(Phase::Act).contains("write_file"));
    let again = catalogue.tool_search("select:write_file", max(5), Phase::Act);
    assert_eq!((again.tools.len(), again.loaded.len()), (1, 0));
    catalogue.tool_search("select:read_file,read_page", max(5), Phase::Act);
    assert_eq!(catalogue.deferred_listing(Phase::Act), "", "nothing is left to list");
}

#[test]
fn the_listing_is_the_same_bytes_whatever_the_order_of_registration() {
    let listing = |order: [&str; 3]| {
        let catalogue = catalogue();
        for name in order {
            catalogue.register(deferred(name, Kind::ReadOnly), ()).unwrap();
        }
        catalogue.register(tool_search(), ()).unwrap();
        catalogue.deferred_listing(Phase::Act)
    };
    assert_eq!(
        listing(["b", "a", "c"]),
        "<available-deferred-tools>\na\nb\nc\n</available-deferred-tools>"
    );
    assert_eq!(listing(["b", "a", "c"]), listing(["c", "b", "a"]));
}

#[test]
fn without_a_search_everything_permitted_is_shown_and_nothing_listed() {
    let catalogue = five();
    catalogue.unregister("tool_search");
    assert_eq!(
        names(&catalogue.declarations(Phase::Act)),
        ["always", "read_file", "read_page", "write_file"]
    );
    assert_eq!(
        names(&catalogue.declarations(Phase::Plan)),
        ["always", "read_file", "read_page"]
    );
    assert_eq!(catalogue.deferred_listing(Phase::Act), "");
    // A search that planning hides is none while planning.
    catalogue
        .register(host("tool_search").kind(Kind::Write).build().unwrap(), ())
        .unwrap();
    assert_eq!(
        names(&catalogue.declarations(Phase::Plan)),
        ["always", "read_file", "read_page"]
    );
    assert_eq!(names(&catalogue.declarations(Phase::Act)), ["always", "tool_search"]);
}

#[test]
fn a_search_that_is_deferred_itself_is_shown_all_the_same() {
    let catalogue = catalogue();
    catalogue.register(deferred("tool_search", Kind::ReadOnly), ()).unwrap();
    assert_eq!(names(&catalogue.declarations(Phase::Act)), ["tool_search"]);
    assert_eq!(catalogue.deferred_listing(Phase::Act), "");
}

#[test]
fn planning_neither_shows_nor_lists_nor_loads_what_it_hides() {
    let catalogue = five();
    assert!(!catalogue.deferred_listing(Phase::Plan).contains("write_file"));
    let found = catalogue.tool_search("select:write_file,read_file,wrte_file", max(5), Phase::Plan);
    assert_eq!(
        (names(&found.tools), texts(&found.hidden)),
        (vec!["read_file"], vec!["write_file"])
    );
    assert!(
        !found.unknown[0].nearest.contains(&"write_file".to_owned()),
        "{:?}",
        found.unknown
    );
    let found = catalogue.tool_search("file", max(5), Phase::Plan);
    assert_eq!(names(&found.tools), ["read_file"]);
    assert_eq!(
        names(&catalogue.declarations(Phase::Act)),
        ["always", "read_file", "tool_search"]
    );
    // What was loaded while acting is hidden while planning.
    catalogue.tool_search("select:write_file", max(5), Phase::Act);
    assert_eq!(
        names(&catalogue.declarations(Phase::Plan)),
        ["always", "read_file", "tool_search"]
    );
}

#[test]
fn a_search_by_words_loads_what_it_returns_and_no_more() {
    let catalogue = five();
    let found = catalogue.tool_search("read", max(1), Phase::Act);
    assert_eq!(
        (names(&found.tools), texts(&found.loaded)),
        (vec!["read_file"], vec!["read_file"])
    );
    assert!(!catalogue.snapshot().is_loaded("read_page"));
    let found = catalogue.tool_search("always", max(5), Phase::Act);
    assert_eq!(names(&found.tools), [""; 0], "what is shown need not be found");
    assert!(catalogue.tool_search("", max(5), Phase::Act).tools.is_empty());
}

#[test]
fn the_maximum_holds_for_names_and_words_and_is_five() {
    let catalogue = catalogue();
    for n in 0..9 {
        catalogue
            .register(deferred(&format!("file_{n}"), Kind::ReadOnly), ())
            .unwrap();
    }
    catalogue.register(tool_search(), ()).unwrap();
    assert_eq!(
        catalogue
            .tool_search("file", Maximum::default(), Phase::Act)
            .loaded
            .len(),
        5
    );
    let found = catalogue.tool_search("select: file_8 ,file_7,, file_8,file_6,nothing", max(2), Phase::Act);
    assert_eq!(
        (names(&found.tools), texts(&found.omitted)),
        (vec!["file_8", "file_7"], vec!["file_6"])
    );
    assert!(!catalogue.snapshot().is_loaded("file_6"));
    for wrong in [0, 21, u64::MAX] {
        let error = Maximum::try_from(wrong).unwrap_err().to_string();
        assert_eq!(error, format!("max_results is {wrong}; it must be from 1 to 20"));
    }
    assert!(Maximum::try_from(1).is_ok() && Maximum::try_from(20).is_ok());
}

#[test]
fn an_unknown_selected_name_is_told_with_the_nearest() {
    let catalogue = five();
    let found = catalogue.tool_search("select:read_fil,always,nothing_like_it", max(5), Phase::Act);
    assert_eq!(names(&found.tools), ["always"]);
    assert_eq!(found.loaded.len(), 0, "what is shown already is not loaded");
    assert_eq!(found.unknown[0].name, "read_fil");
    assert_eq!(found.unknown[0].nearest.first().map(String::as_str), Some("read_file"));
    assert_eq!(found.unknown[1].nearest, [""; 0]);
}

#[test]
fn a_long_list_of_unknown_names_is_told_and_not_explained_throughout() {
    let catalogue = five();
    let names: Vec<String> = (0..10_000).map(|n| format!("read_fil{n}")).collect();
    let found = catalogue.tool_search(&format!("select:{}", names.join(",")), max(5), Phase::Act);
    assert_eq!(found.unknown.len(), 10_000);
    assert_eq!(found.unknown.iter().filter(|one| !one.nearest.is_empty()).count(), 20);
}

#[test]
fn a_tool_is_selected_by_its_alias_once() {
    let catalogue = catalogue();
    let tool = host("long_name")
        .alias("ln")
        .exposure(Exposure::Deferred)
        .build()
        .unwrap();
    catalogue.register_all([(tool, ()), (tool_search(), ())]).unwrap();
    let found = catalogue.tool_search("select:ln,long_name", max(5), Phase::Act);
    assert_eq!(
        (names(&found.tools), texts(&found.loaded)),
        (vec!["long_name"], vec!["long_name"])
    );
}

#[test]
fn dynamic_tools_start_deferred_keep_their_state_by_name_and_lose_it_when_they_go() {
    let catalogue = catalogue();
    catalogue.register(tool_search(), ()).unwrap();
    let replace = |list: &[&str]| {
        let list = list.iter().map(|name| offered(name)).collect();
        catalogue.replace_dynamic("git", list, |_| ()).unwrap();
    };
    let shown = || names(&catalogue.declarations(Phase::Act)).join(" ");
    replace(&["a", "b"]);
    assert_eq!(shown(), "tool_search");
    catalogue.tool_search("select:git__a,git__b", max(5), Phase::Act);
    replace(&["a", "c"]);
    assert_eq!(shown(), "git__a tool_search", "c starts deferred");
    replace(&["a", "b", "c"]);
    assert_eq!(shown(), "git__a tool_search", "b has lost its state");
    catalogue.remove_dynamic("git");
    replace(&["a"]);
    assert_eq!(shown(), "tool_search");
    let tool = deferred("own", Kind::ReadOnly);
    catalogue.register(tool.clone(), ()).unwrap();
    catalogue.tool_search("select:own", max(5), Phase::Act);
    catalogue.unregister("own");
    catalogue.register(tool, ()).unwrap();
    assert_eq!(shown(), "tool_search", "a tool that comes again starts deferred");
}

/// What a naive model knows of a tool.
#[derive(Clone, Debug)]
struct Known {
    kind: Kind,
    exposure: Exposure,
    is_loaded: bool,
}

#[derive(Clone, Debug)]
enum Operation {
    Register(u8, Kind, Exposure),
    Unregister(u8),
    Select(Vec<u8>, u64, Phase),
    Words(u64, Phase),
    Fork,
}

/// Ten tools and, as the eleventh, the search.
fn name(number: u8) -> String {
    match number {
        10 => "tool_search".to_owned(),
        _ => format!("tool_{number}"),
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    let number = 0_u8..=10;
    let kind = prop_oneof![Just(Kind::ReadOnly), Just(Kind::Write), Just(Kind::Execute)];
    let exposure = prop_oneof![1 => Just(Exposure::Always), 3 => Just(Exposure::Deferred)];
    let phase = || prop_oneof![Just(Phase::Plan), Just(Phase::Act)];
    prop_oneof![
        4 => (number.clone(), kind, exposure).prop_map(|(n, kind, exposure)| Operation::Register(n, kind, exposure)),
        2 => number.clone().prop_map(Operation::Unregister),
        3 => (proptest::collection::vec(0_u8..12, 0..6), 1_u64..5, phase())
            .prop_map(|(names, most, phase)| Operation::Select(names, most, phase)),
        2 => (1_u64..5, phase()).prop_map(|(most, phase)| Operation::Words(most, phase)),
        1 => Just(Operation::Fork),
    ]
}

/// The tools of the model, each declared once: declaring compiles a schema.
fn declared(number: u8, kind: Kind, exposure: Exposure) -> Definition {
    static DECLARED: Mutex<BTreeMap<String, Definition>> = Mutex::new(BTreeMap::new());
    let key = format!("{number} {kind:?} {exposure:?}");
    let make = || host(&name(number)).kind(kind).exposure(exposure).build().unwrap();
    DECLARED.lock().unwrap().entry(key).or_insert_with(make).clone()
}

type Model = BTreeMap<String, Known>;

fn permitted(known: &Known, phase: Phase) -> bool {
    phase == Phase::Act || known.kind == Kind::ReadOnly
}

fn shown(model: &Model, phase: Phase) -> Vec<String> {
    let search = model.get("tool_search").is_some_and(|known| permitted(known, phase));
    let mut shown = Vec::new();
    for (name, known) in model {
        let hidden = search && known.exposure == Exposure::Deferred && name != "tool_search" && !known.is_loaded;
        if permitted(known, phase) && !hidden {
            shown.push(name.clone());
        }
    }
    shown
}

fn listed(model: &Model, phase: Phase) -> String {
    let shown = shown(model, phase);
    let listed: Vec<&str> = model
        .iter()
        .filter(|(name, known)| permitted(known, phase) && !shown.contains(name))
        .map(|(name, _)| name.as_str())
        .collect();
    if listed.is_empty() {
        String::new()
    } else {
        format!(
            "<available-deferred-tools>\n{}\n</available-deferred-tools>",
            listed.join("\n")
        )
    }
}

fn step(catalogue: &mut Catalogue, model: &mut Model, operation: Operation) -> Result<(), TestCaseError> {
    match operation {
        Operation::Register(number, kind, exposure) => {
            let name = name(number);
            let tool = declared(number, kind, exposure);
            let taken = model.contains_key(&name);
            prop_assert_eq!(catalogue.register(tool, ()).is_err(), taken);
            model.entry(name).or_insert(Known {
                kind,
                exposure,
                is_loaded: false,
            });
        }
        Operation::Unregister(number) => {
            let was = model.remove(&name(number)).is_some();
            prop_assert_eq!(catalogue.unregister(&name(number)).is_some(), was);
        }
        Operation::Select(numbers, most, phase) => {
            let asked: Vec<String> = numbers.iter().map(|number| name(*number)).collect();
            let found = catalogue.tool_search(&format!("select:{}", asked.join(",")), max(most), phase);
            let mut seen = BTreeSet::new();
            let (mut tools, mut unknown, mut hidden, mut omitted) = (vec![], vec![], vec![], vec![]);
            for name in asked.into_iter().filter(|name| seen.insert(name.clone())) {
                match model.get_mut(&name) {
                    None => unknown.push(name),
                    Some(known) if !permitted(known, phase) => hidden.push(name),
                    Some(_) if tools.len() as u64 == most => omitted.push(name),
                    Some(known) => {
                        known.is_loaded |= known.exposure == Exposure::Deferred && name != "tool_search";
                        tools.push(name);
                    }
                }
            }
            prop_assert_eq!(names(&found.tools), tools);
            prop_assert_eq!(
                found.unknown.into_iter().map(|one| one.name).collect::<Vec<_>>(),
                unknown
            );
            prop_assert_eq!(texts(&found.hidden), hidden);
            prop_assert_eq!(texts(&found.omitted), omitted);
        }
        Operation::Words(most, phase) => {
            // All names begin with the same word, so that order is by name.
            let found = catalogue.tool_search("tool", max(most), phase);
            let fit = |(name, known): &(&String, &mut Known)| {
                permitted(known, phase) && known.exposure == Exposure::Deferred && *name != "tool_search"
            };
            let mut tools = Vec::new();
            for (name, known) in model.iter_mut().filter(fit).take(usize::try_from(most).unwrap()) {
                known.is_loaded = true;
                tools.push(name.as_str());
            }
            prop_assert_eq!(names(&found.tools), tools);
        }
        Operation::Fork => {
            *catalogue = catalogue.fork();
            for known in model.values_mut() {
                known.is_loaded = false;
            }
        }
    }
    for phase in [Phase::Plan, Phase::Act] {
        let declared = catalogue.declarations(phase);
        prop_assert_eq!(names(&declared), shown(model, phase));
        prop_assert_eq!(catalogue.deferred_listing(phase), listed(model, phase));
    }
    Ok(())
}

#[test]
fn deferral_does_what_a_naive_model_does() {
    let operations = proptest::collection::vec(operation(), 200);
    // In the long form a million operations.
    runner(if is_long() { 100 } else { 20 })
        .run(&operations, |operations| {
            let (mut catalogue, mut model) = (catalogue(), Model::new());
            operations
                .into_iter()
                .try_for_each(|operation| step(&mut catalogue, &mut model, operation))
        })
        .unwrap();
}

/// Every sequence of four steps out of all that two tools and the search allow.
#[test]
fn deferral_is_right_after_every_short_sequence() {
    let steps = [
        Operation::Register(0, Kind::Write, Exposure::Deferred),
        Operation::Register(1, Kind::ReadOnly, Exposure::Deferred),
        Operation::Register(10, Kind::ReadOnly, Exposure::Always),
        Operation::Register(10, Kind::Write, Exposure::Always),
        Operation::Unregister(0),
        Operation::Unregister(10),
        Operation::Select(vec![0, 1], 1, Phase::Plan),
        Operation::Select(vec![0, 1], 2, Phase::Act),
        Operation::Words(1, Phase::Act),
        Operation::Fork,
    ];
    let depth = if is_long() { 6 } else { 4 };
    for code in 0..steps.len().pow(depth) {
        let (mut catalogue, mut model) = (catalogue(), Model::new());
        let mut rest = code;
        for _ in 0..depth {
            let operation = steps[rest % steps.len()].clone();
            rest /= steps.len();
            step(&mut catalogue, &mut model, operation).unwrap();
        }
    }
}

#[test]
fn a_query_by_name_may_be_written_in_any_case_and_one_of_stop_words_finds_nothing() {
    let catalogue = five();
    let found = catalogue.tool_search("SELECT:write_file", max(5), Phase::Act);
    assert_eq!(texts(&found.loaded), ["write_file"]);
    for nothing in ["the a of", "to it", "select:", " Select: , "] {
        let found = catalogue.tool_search(nothing, max(5), Phase::Act);
        assert!(
            found.tools.is_empty() && found.unknown.is_empty(),
            "{nothing}: {found:?}"
        );
    }
}
