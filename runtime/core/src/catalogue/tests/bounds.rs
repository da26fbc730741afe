//! Each bound, exactly at it and one beyond: the numbers are those that are documented.

use serde_json::{Map, Value, json};

use crate::catalogue::testing::{catalogue, deferred, host, names, offered, texts, tool_search, with_schema};
use crate::catalogue::{Catalogue, Maximum, Offered, Phase, Reason};

/// A schema with so many bytes as JSON.
fn schema_of(bytes: usize) -> Value {
    let bare = json!({"type": "object", "title": ""}).to_string().len();
    let schema = json!({"type": "object", "title": "x".repeat(bytes - bare)});
    assert_eq!(schema.to_string().len(), bytes);
    schema
}

/// Why the only tool of a list is set aside.
fn set_aside(tool: Offered) -> Option<String> {
    let catalogue = catalogue();
    let replaced = catalogue.replace_dynamic("git", vec![tool], |_| ()).unwrap();
    replaced
        .quarantined
        .first()
        .map(|quarantined| quarantined.reason.clone())
}

#[test]
fn a_tool_at_a_bound_is_served_and_one_beyond_it_is_set_aside() {
    let named = |length: usize| offered(&"é".repeat(length));
    let described = |bytes: usize| Offered {
        description: Some("d".repeat(bytes)),
        ..offered("a")
    };
    let taking = |bytes: usize| with_schema("a", schema_of(bytes));
    let giving = |bytes: usize| Offered {
        output_schema: Some(schema_of(bytes)),
        ..offered("a")
    };
    let bounds: [(&dyn Fn(usize) -> Offered, usize); 4] = [
        (&named, 256),
        (&described, 16_384),
        (&taking, 262_144),
        (&giving, 262_144),
    ];
    for (tool, bound) in bounds {
        assert_eq!(set_aside(tool(bound)), None);
        let reason = set_aside(tool(bound + 1)).expect("one more is too much");
        let numbers = [bound + 1, bound].map(|number| number.to_string());
        assert!(numbers.iter().all(|number| reason.contains(&**number)), "{reason}");
    }
}

#[test]
fn a_title_at_the_bound_is_shown_and_a_longer_one_gives_way_to_the_name() {
    let titled = |length: usize| {
        let catalogue = catalogue();
        let tool = Offered {
            title: Some("é".repeat(length)),
            ..offered("a")
        };
        catalogue.replace_dynamic("git", vec![tool], |_| ()).unwrap();
        catalogue.get("git__a").unwrap().definition().title.to_string()
    };
    assert_eq!(titled(256), "é".repeat(256));
    assert_eq!(titled(257), "a");
}

#[test]
fn a_list_at_the_bounds_is_taken_and_one_beyond_them_is_refused() {
    let many = |count: usize| (0..count).map(|n| offered(&format!("t{n}"))).collect();
    let reasons = |list: Vec<Offered>| {
        let refused = catalogue().replace_dynamic("git", list, |_| ()).err();
        refused.map_or(Vec::new(), |refused| refused.reasons)
    };
    assert_eq!(reasons(many(1_000)), []);
    assert_eq!(reasons(many(1_001)), [Reason::TooMany { tools: 1_001 }]);
    let list = |bytes: usize| {
        let mut list: Vec<Offered> = (10..26)
            .map(|n| with_schema(&format!("t{n}"), schema_of(250_000)))
            .collect();
        list.push(with_schema("last", schema_of(100)));
        let size = |list: &[Offered]| list.iter().map(|tool| json!(tool).to_string().len()).sum::<usize>();
        let more = bytes - size(&list);
        list[16].input_schema = schema_of(100 + more);
        assert_eq!(size(&list), bytes);
        list
    };
    assert_eq!(reasons(list(4_194_304)), []);
    assert_eq!(reasons(list(4_194_305)), [Reason::TooLarge { bytes: 4_194_305 }]);
}

#[test]
fn one_search_loads_20_tools_and_no_more() {
    let catalogue = catalogue();
    catalogue.register(tool_search(), ()).unwrap();
    for n in 10..35 {
        let tool = deferred(&format!("file_{n}"), devloop_contract::tool::Kind::ReadOnly);
        catalogue.register(tool, ()).unwrap();
    }
    let most = Maximum::try_from(20).unwrap();
    assert_eq!(catalogue.tool_search("file", most, Phase::Act).loaded.len(), 20);
    let all: Vec<String> = (10..35).map(|n| format!("file_{n}")).collect();
    let found = catalogue.tool_search(&format!("select:{}", all.join(",")), most, Phase::Act);
    assert_eq!((found.tools.len(), found.omitted.len()), (20, 5));
    assert!(Maximum::try_from(21).is_err());
    let one = Maximum::try_from(1).unwrap();
    assert_eq!(catalogue.tool_search("file", one, Phase::Act).tools.len(), 1);
    assert!(Maximum::try_from(0).is_err());
}

#[test]
fn a_query_has_32_words_and_a_schema_is_searched_eight_levels_deep() {
    let catalogue = catalogue();
    let nested = |levels: usize| {
        let innermost = json!({"type": "string", "description": "needle"});
        (0..levels).fold(
            innermost,
            |inner, _| json!({"type": "object", "properties": {"a": inner}}),
        )
    };
    let found = |catalogue: &Catalogue, query: &str| names(&catalogue.search(query)).len();
    // The outermost level is the input itself.
    let deep = host("deep").input_schema(nested(9)).build().unwrap();
    catalogue.register(deep, ()).unwrap();
    assert_eq!(found(&catalogue, "needle"), 1);
    let deeper = host("deeper").input_schema(nested(10)).build().unwrap();
    catalogue.register(deeper, ()).unwrap();
    assert_eq!(found(&catalogue, "needle"), 1);
    let other = |words: usize| (0..words).map(|n| format!("word{n} ")).collect::<Vec<_>>().concat();
    assert_eq!(found(&catalogue, &format!("{}deeper", other(31))), 1);
    assert_eq!(found(&catalogue, &format!("{}deeper", other(32))), 0);
}

#[test]
fn a_listener_may_be_256_changes_behind() {
    let catalogue = catalogue();
    let listener = catalogue.subscribe();
    let register = |n: usize| catalogue.register(host(&format!("t{n}")).build().unwrap(), ()).unwrap();
    let heard = || {
        std::iter::from_fn(|| listener.try_recv())
            .map(|change| change.revision)
            .collect::<Vec<u64>>()
    };
    (0..256).for_each(register);
    assert_eq!(heard(), (1..=256).collect::<Vec<u64>>());
    (256..513).for_each(register);
    assert_eq!(heard(), (258..=513).collect::<Vec<u64>>());
}

#[test]
fn whatever_a_server_says_anew_of_a_tool_is_an_update() {
    let said = |change: &dyn Fn(&mut Offered)| {
        let catalogue = catalogue();
        let mut tool = Offered {
            title: Some("A".to_owned()),
            output_schema: Some(json!({"type": "object"})),
            annotations: Some(Map::from_iter([("destructiveHint".to_owned(), json!(true))])),
            ..offered("a")
        };
        catalogue.replace_dynamic("git", vec![tool.clone()], |_| ()).unwrap();
        change(&mut tool);
        let replaced = catalogue.replace_dynamic("git", vec![tool], |_| ()).unwrap();
        (texts(&replaced.updated).len(), texts(&replaced.kept).len())
    };
    assert_eq!(said(&|_| ()), (0, 1));
    let annotate = |tool: &mut Offered, name: &str, value: Value| {
        tool.annotations.as_mut().unwrap().insert(name.to_owned(), value);
    };
    let changes: [fn(&mut Offered); 7] = [
        |tool| tool.title = Some("B".to_owned()),
        |tool| tool.title = None,
        |tool| tool.description = None,
        |tool| tool.input_schema = json!({"type": "object"}),
        |tool| tool.output_schema = None,
        |tool| tool.output_schema = Some(json!({"type": "object", "title": "x"})),
        |tool| tool.annotations = None,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        assert_eq!(said(&change), (1, 0), "the change {at}");
    }
    assert_eq!(said(&|tool| annotate(tool, "destructiveHint", json!(false))), (1, 0));
    // What changes neither its kind nor any of its hints.
    assert_eq!(said(&|tool| annotate(tool, "vendor", json!(1))), (1, 0));
}
