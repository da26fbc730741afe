//! What servers offer: bounds, quarantine, names, annotations, atomic replacement.

use devloop_contract::tool::{Exposure, Kind, Parallelism};
use serde_json::{Value, json};

use crate::catalogue::testing::{catalogue, host, names, offered, texts, tool_search, with_schema};
use crate::catalogue::{BYTES, Catalogue, DESCRIPTION_BYTES, NAME_CHARS, Offered, Phase, Reason, SCHEMA_BYTES, TOOLS};
use crate::registry::{BuildError, Owner, Trust, projection};

fn many(count: usize) -> Vec<Offered> {
    (0..count).map(|n| offered(&format!("t{n}"))).collect()
}

fn reasons(catalogue: &Catalogue, list: Vec<Offered>) -> Vec<Reason> {
    let before = catalogue.snapshot();
    let refused = catalogue.replace_dynamic("git", list, |_| ()).unwrap_err();
    assert_eq!(
        names(catalogue.snapshot().all()),
        names(before.all()),
        "the list before stays"
    );
    assert_eq!(catalogue.snapshot().revision(), before.revision());
    assert!(
        refused
            .to_string()
            .starts_with("the tools of the server `git` are refused\n- ")
    );
    refused.reasons
}

#[test]
fn a_list_beyond_the_bounds_is_refused_whole_and_the_one_before_stays() {
    let catalogue = catalogue();
    catalogue.replace_dynamic("git", many(TOOLS), |_| ()).unwrap();
    assert_eq!(
        reasons(&catalogue, many(TOOLS + 1)),
        [Reason::TooMany { tools: TOOLS + 1 }]
    );
    let large = |n: usize| {
        with_schema(
            &format!("t{n}"),
            json!({"type": "object", "title": "x".repeat(250 << 10)}),
        )
    };
    let [Reason::TooLarge { bytes }] = reasons(&catalogue, (0..17).map(large).collect())[..] else {
        panic!()
    };
    assert!(bytes > BYTES);
    let twice = vec![offered("a"), offered("b"), offered("a"), offered("a"), offered("b")];
    let duplicate = |name: &str| Reason::Duplicate { name: name.to_owned() };
    assert_eq!(reasons(&catalogue, twice), [duplicate("a"), duplicate("b")]);
}

#[test]
fn a_clash_with_a_tool_of_another_owner_is_refused_whole() {
    static SEAM: devloop_contract::Tool = crate::registry::fixture::tool("git__a");
    let catalogue = catalogue();
    catalogue.register(&SEAM, ()).unwrap();
    let [Reason::Clash(clash)] = &reasons(&catalogue, vec![offered("b"), offered("a")])[..] else {
        panic!()
    };
    assert_eq!(clash.name, "git__a");
}

#[test]
fn one_bad_tool_is_set_aside_with_its_reason_and_the_rest_is_served() {
    let catalogue = catalogue();
    let deep = (0..80).fold(
        json!({"type": "string"}),
        |inner, _| json!({"type": "array", "items": inner}),
    );
    let bad = [
        (
            offered(&"n".repeat(NAME_CHARS + 1)),
            "its name has 257 characters; at most 256 are taken",
        ),
        (offered("a\u{1b}[31m"), "its name has control characters"),
        (
            offered("a\u{202e}b"),
            "its name has characters that change how others are shown",
        ),
        (offered(""), "its name is empty"),
        (
            Offered {
                description: Some("d".repeat(DESCRIPTION_BYTES + 1)),
                ..offered("long")
            },
            "its description has 16385 bytes; at most 16384 are taken",
        ),
        (
            with_schema("wide", json!({"type": "object", "title": "x".repeat(SCHEMA_BYTES)})),
            "its input schema has 262172 bytes; at most 262144 are taken",
        ),
        (
            with_schema("root_one_of", json!({"type": "object", "oneOf": [{"required": ["a"]}]})),
            "its input schema: `oneOf` at the root is dropped or refused by clients",
        ),
        (
            with_schema("text", json!({"type": "string"})),
            "its input schema: the root must have the type `object`, found \"string\"",
        ),
        (
            with_schema("untyped", json!({})),
            "its input schema: the root must have the type `object`, found none",
        ),
        (
            with_schema("flag", json!(true)),
            "its input schema: the schema must be an object",
        ),
        (
            with_schema(
                "key",
                json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b c": {}}}}}),
            ),
            "its input schema: the property \"b c\" is not of the form [a-zA-Z0-9_.-]{1,64} that providers accept",
        ),
        (
            with_schema("deep", json!({"type": "object", "properties": {"a": deep}})),
            "its input schema: nested deeper than 64 levels",
        ),
        (
            with_schema(
                "broken",
                json!({"type": "object", "properties": {"a": {"type": "strin"}}}),
            ),
            "input_schema: ",
        ),
        (
            with_schema(
                "elsewhere",
                json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/a"}}}),
            ),
            "input_schema: ",
        ),
        (
            with_schema(
                "pattern",
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            ),
            "input_schema: ",
        ),
        (
            with_schema(
                "unknown_draft",
                json!({"$schema": "http://json-schema.org/draft-03/schema#", "type": "object"}),
            ),
            "its input schema: the root: `$schema` says \"http://json-schema.org/draft-03/schema#\"",
        ),
        (
            Offered {
                output_schema: Some(json!({"type": "object", "properties": {"a": {"exclusiveMinimum": true}}})),
                ..offered("untranslatable_output")
            },
            "its output schema: /properties/a: `exclusiveMinimum` is true and there is no `minimum`",
        ),
        (
            with_schema(
                "unfillable",
                json!({"type": "object", "properties": {"p": {"type": "object", "properties": {"a": {}},
                    "required": ["zz"], "additionalProperties": false}}}),
            ),
            "its input schema: \"zz\" is required and may not be sent",
        ),
        (
            with_schema(
                "unfillable_by_patterns",
                json!({"type": "object", "properties": {"p": {"type": "object", "patternProperties": {"^a": {}},
                    "required": ["ab", "zz"], "additionalProperties": false}}}),
            ),
            "input_schema: `zz` is required and may not be sent",
        ),
    ];
    let list: Vec<Offered> = bad
        .iter()
        .map(|(tool, _)| tool.clone())
        .chain([offered("good")])
        .collect();
    let replaced = catalogue.replace_dynamic("git", list, |_| ()).unwrap();
    assert_eq!(texts(&replaced.added), ["git__good"]);
    let mut quarantined = replaced.quarantined.clone();
    assert_eq!(quarantined.len(), bad.len());
    for (tool, reason) in &bad {
        let at = quarantined.iter().position(|one| {
            one.reason.starts_with(reason) && (one.name == tool.name || one.name.len() != tool.name.len())
        });
        quarantined.remove(at.unwrap_or_else(|| panic!("{reason}: {quarantined:#?}")));
    }
    assert_eq!(catalogue.quarantined()["git"], replaced.quarantined);
    assert!(
        replaced
            .quarantined
            .iter()
            .all(|one| !one.to_string().contains('\u{1b}')),
        "a terminal obeys nothing here"
    );
    catalogue.replace_dynamic("git", vec![offered("good")], |_| ()).unwrap();
    assert!(catalogue.quarantined().is_empty());
}

#[test]
fn a_schema_that_refers_to_itself_without_end_ends() {
    let catalogue = catalogue();
    let list = vec![
        with_schema(
            "circle",
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}),
        ),
        with_schema(
            "pair",
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}},
                "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}),
        ),
        with_schema(
            "tree",
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"type": "object",
                "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}}}),
        ),
    ];
    let replaced = catalogue.replace_dynamic("git", list, |_| ()).unwrap();
    for entry in catalogue.all() {
        let arguments = json!({"a": {"below": [{"below": []}]}});
        let Value::Object(arguments) = arguments else { panic!() };
        let _ = entry.compiled().build(arguments);
    }
    assert!(texts(&replaced.added).contains(&"git__tree"));
}

#[test]
fn a_schema_whose_references_double_is_set_aside() {
    let double = |keyword: &str, turn: fn(Value) -> Value| {
        let mut shared = serde_json::Map::new();
        for n in 0..60 {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            shared.insert(format!("d{n}"), json!({keyword: [turn(next.clone()), turn(next)]}));
        }
        shared.insert("d60".into(), json!({"type": "integer"}));
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": shared})
    };
    let catalogue = catalogue();
    let list = vec![
        with_schema("all", double("allOf", |next| next)),
        with_schema("any", double("anyOf", |next| next)),
        with_schema("one", double("oneOf", |next| next)),
        with_schema("not", double("allOf", |next| json!({"not": {"not": next}}))),
    ];
    let replaced = catalogue.replace_dynamic("git", list, |_| ()).unwrap();
    assert_eq!(replaced.quarantined.len(), 4);
    assert!(
        replaced
            .quarantined
            .iter()
            .all(|one| one.reason.contains("its references multiply"))
    );
}

#[test]
fn a_title_that_could_mislead_gives_way_to_the_name() {
    let title = |title: &str, annotated: &str| {
        let catalogue = catalogue();
        let tool = Offered {
            title: Some(title.to_owned()),
            annotations: json!({"title": annotated}).as_object().cloned(),
            ..offered("read")
        };
        catalogue.replace_dynamic("git", vec![tool], |_| ()).unwrap();
        catalogue.get("git__read").unwrap().definition().title.to_string()
    };
    assert_eq!(title("Reads", "x"), "Reads");
    assert_eq!(title(&"é".repeat(256), "x"), "é".repeat(256));
    for bad in [&*"t".repeat(257), "a\nb", "a\u{1b}[31m", "a\u{202e}b", "", " "] {
        assert_eq!(title(bad, "Annotated"), "Annotated", "{bad:?}");
        assert_eq!(title(bad, bad), "read", "{bad:?}");
    }
}

#[test]
fn annotations_are_kept_and_trusted_by_nobody() {
    let catalogue = catalogue();
    let reads = Offered {
        annotations: json!({"title": "Reads", "readOnlyHint": true, "other": 1})
            .as_object()
            .cloned(),
        ..offered("read")
    };
    catalogue
        .replace_dynamic("git", vec![reads, offered("act")], |_| ())
        .unwrap();
    let read = catalogue.get("git__read").unwrap();
    let read = read.definition();
    assert_eq!((read.kind, read.trust), (Kind::ReadOnly, Trust::Untrusted));
    assert_eq!(
        (&*read.title, &*read.source, &*read.summary),
        ("Reads", "read", "Does read.")
    );
    assert_eq!(read.annotations.as_ref().unwrap()["other"], 1);
    assert_eq!(read.owner, Owner::Server("git".into()));
    assert!(read.hints.read_only && !read.hints.destructive && !read.retry_safe);
    assert_eq!(read.parallelism, Parallelism::Shared);
    let act = catalogue.get("git__act").unwrap();
    let act = act.definition();
    assert_eq!(
        (act.kind, act.trust, act.exposure),
        (Kind::Execute, Trust::Untrusted, Exposure::Deferred)
    );
    assert!(act.hints.destructive && act.hints.open_world && !act.concurrency_safe);
}

#[test]
fn a_tool_that_says_that_it_reads_and_destroys_is_believed_the_worse() {
    let catalogue = catalogue();
    let both = Offered {
        annotations: json!({"readOnlyHint": true, "destructiveHint": true})
            .as_object()
            .cloned(),
        ..offered("both")
    };
    catalogue.replace_dynamic("git", vec![both], |_| ()).unwrap();
    let both = catalogue.get("git__both").unwrap();
    let both = both.definition();
    assert_eq!((both.kind, both.concurrency_safe), (Kind::Execute, false));
    assert!(both.hints.destructive && !both.hints.read_only);
    assert_eq!(catalogue.declarations(Phase::Plan).len(), 0);
}

#[test]
fn what_a_tool_says_to_clients_is_kept_as_far_as_clients_use_it() {
    let catalogue = catalogue();
    catalogue.register(tool_search(), ()).unwrap();
    let saying = |name: &str, meta: serde_json::Value| Offered {
        meta: meta.as_object().cloned(),
        ..offered(name)
    };
    let list = |hint: &str| {
        let meta = json!({"anthropic/alwaysLoad": true, "anthropic/searchHint": hint,
            "anthropic/maxResultSizeChars": 200_000, "example.com/else": 1});
        let wrong = json!({"anthropic/alwaysLoad": "yes", "anthropic/searchHint": "a\u{202e}b",
            "anthropic/maxResultSizeChars": -1});
        vec![saying("a", meta), saying("b", wrong), offered("c")]
    };
    catalogue.replace_dynamic("s", list("ledger booking"), |_| ()).unwrap();
    assert_eq!(names(&catalogue.declarations(Phase::Act)), ["s__a", "tool_search"]);
    let listed = |name: &str| projection::mcp(catalogue.get(name).unwrap().definition()).unwrap();
    assert_eq!(
        listed("s__a")["_meta"],
        json!({"anthropic/alwaysLoad": true, "anthropic/searchHint": "ledger booking",
            "anthropic/maxResultSizeChars": 200_000})
    );
    assert_eq!(listed("s__b").get("_meta"), None);
    assert_eq!(catalogue.snapshot().search("booking")[0].name(), "s__a");
    // Another hint is another tool.
    let replaced = catalogue.replace_dynamic("s", list("invoice"), |_| ()).unwrap();
    assert_eq!(texts(&replaced.updated), ["s__a"]);
}

#[test]
fn a_tool_is_read_as_the_protocol_writes_it() {
    let listed = json!({"name": "a", "title": "A", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true},
        "outputSchema": {"type": "object"}, "_meta": {"more": 1}});
    let read: Offered = serde_json::from_value(listed).unwrap();
    assert_eq!((read.title.as_deref(), read.description), (Some("A"), None));
    assert!(read.output_schema.is_some() && read.annotations.is_some() && read.meta.is_some());
}

#[test]
fn what_is_published_is_what_is_judged_by() {
    let catalogue = catalogue();
    let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {
        "n": {"type": "integer", "exclusiveMinimum": 0, "default": 3},
        "bad": {"type": "integer", "default": "x"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "word": {"$ref": "#/definitions/word"},
        "ahead": {"type": "string", "pattern": "^(?!-)"},
    }, "definitions": {"word": {"enum": ["a", "b"]}}});
    catalogue
        .replace_dynamic("git", vec![with_schema("t", schema)], |_| ())
        .unwrap();
    let entry = catalogue.get("git__t").unwrap();
    let build = |value: Value| match value {
        Value::Object(map) => entry.compiled().build(map),
        _ => panic!(),
    };
    let made = build(json!({"maybe": null, "word": null, "n": "5.0"})).unwrap();
    assert_eq!(
        *made.input(),
        json!({"maybe": null, "n": 5}),
        "null is absence only where it is not a value"
    );
    assert_eq!(
        *build(json!({})).unwrap().input(),
        json!({"n": 3}),
        "a default that does not fit is no default"
    );
    assert_eq!(made.original()["n"], "5.0");
    assert_eq!(
        (made.name(), made.built_in().is_none(), made.retry_safe()),
        ("git__t", true, false)
    );
    let Err(BuildError::Invalid(error)) = build(json!({"n": 0, "word": "c", "other": 1, "maybe": 1, "ahead": "-"}))
    else {
        panic!()
    };
    let fields: Vec<&str> = error.problems.iter().map(|problem| &*problem.field).collect();
    for field in ["n", "word", "other", "maybe", "ahead"] {
        assert!(fields.contains(&field), "{field} is not named: {error}");
    }
    assert_eq!(fields.len(), 5, "each once: {error}");
}

#[test]
fn an_answer_may_have_more_than_its_schema_says_and_not_less() {
    let catalogue = catalogue();
    let tool = Offered {
        output_schema: Some(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})),
        ..offered("t")
    };
    catalogue
        .replace_dynamic("git", vec![tool, offered("free")], |_| ())
        .unwrap();
    let check = |name: &str, value: Value| catalogue.get(name).unwrap().compiled().check_output(&value);
    check("git__t", json!({"n": 1, "more": true})).unwrap();
    check("git__t", json!({"more": true})).unwrap_err();
    check("git__free", json!("anything")).unwrap();
}

#[test]
fn a_server_is_removed_by_owner_and_not_by_the_beginning_of_names() {
    let catalogue = catalogue();
    catalogue.register(host("git_status").build().unwrap(), ()).unwrap();
    catalogue.replace_dynamic("git", vec![offered("a")], |_| ()).unwrap();
    catalogue.replace_dynamic("git2", vec![offered("a")], |_| ()).unwrap();
    assert_eq!(texts(&catalogue.remove_dynamic("git")), ["git__a"]);
    assert_eq!(names(&catalogue.all()), ["git2__a", "git_status"]);
    assert_eq!(texts(&catalogue.remove_dynamic("git")), [""; 0]);
}

#[test]
fn replacing_keeps_what_is_the_same_and_tells_what_is_not() {
    let catalogue: Catalogue<u8> = Catalogue::new(|_| Ok(()));
    catalogue
        .replace_dynamic("git", vec![offered("same"), offered("other"), offered("gone")], |_| 1)
        .unwrap();
    let before = catalogue.get("git__same").unwrap();
    let other = with_schema(
        "other",
        json!({"type": "object", "properties": {"a": {"type": "string"}}}),
    );
    let replaced = catalogue
        .replace_dynamic("git", vec![offered("new"), other, offered("same")], |_| 2)
        .unwrap();
    assert_eq!(texts(&replaced.added), ["git__new"]);
    assert_eq!(texts(&replaced.updated), ["git__other"]);
    assert_eq!(texts(&replaced.removed), ["git__gone"]);
    assert_eq!(texts(&replaced.kept), ["git__same"]);
    let now = catalogue.get("git__same").unwrap();
    assert!(
        std::sync::Arc::ptr_eq(before.compiled(), now.compiled()),
        "nothing is compiled again"
    );
    assert_eq!(*now.runner(), 2, "calls go over the new connection");
}

#[test]
fn a_schema_of_the_output_that_no_client_takes_is_left_out_and_the_tool_is_served() {
    let catalogue = catalogue();
    let with_output = |schema| Offered {
        output_schema: Some(schema),
        ..offered("out")
    };
    for schema in [
        json!({"type": "array"}),
        json!({"type": ["object", "null"]}),
        json!({}),
        json!(true),
    ] {
        let replaced = catalogue
            .replace_dynamic("git", vec![with_output(schema)], |_| ())
            .unwrap();
        assert!(replaced.quarantined.is_empty());
        let entry = catalogue.get("git__out").unwrap();
        let tool = entry.definition();
        assert!(tool.output_schema.is_none(), "{:?}", tool.output_schema);
        assert!(tool.notes[0].contains("the type `object`"), "{:?}", tool.notes);
        assert!(
            crate::registry::projection::mcp(tool)
                .unwrap()
                .get("outputSchema")
                .is_none()
        );
    }
    let fit = catalogue.replace_dynamic("git", vec![with_output(json!({"type": "object"}))], |_| ());
    assert_eq!(texts(&fit.unwrap().updated), ["git__out"]);
    let entry = catalogue.get("git__out").unwrap();
    assert!(entry.definition().output_schema.is_some() && entry.definition().notes.is_empty());
}

/// The declarations of a served tool, in all forms.
fn assert_all_forms(entry: &crate::catalogue::Entry<()>) {
    use crate::registry::providers::{anthropic_faults, gemini_faults, mcp_faults, openai_faults};
    let tool = entry.definition();
    let none: Vec<String> = Vec::new();
    assert_eq!(mcp_faults(&projection::mcp(tool).unwrap()), none);
    assert_eq!(anthropic_faults(&projection::anthropic(tool).unwrap()), none);
    assert_eq!(openai_faults(&projection::openai(tool).unwrap().value), none);
    assert_eq!(openai_faults(&projection::openai_strict(tool).unwrap().value), none);
    assert_eq!(gemini_faults(&projection::gemini(tool).unwrap().value), none);
}

#[test]
fn tools_with_schemas_of_older_drafts_are_served_as_2020_12_in_every_form() {
    let tuple = json!({"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": false, "minItems": 2});
    let schemas = [
        json!({"type": "object", "properties": {"pair": tuple}}),
        json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": true}}}),
        json!({"type": "object", "properties": {"n": {"type": "string"}, "m": {"type": "string"}}, "dependencies": {"n": ["m"]}}),
        json!({"type": "object", "properties": {"n": {"$ref": "#/definitions/D"}}, "definitions": {"D": {"items": [{}]}}}),
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"q": {"type": "string"}}}}}),
    ];
    for draft in [
        None,
        Some("draft-04"),
        Some("draft-06"),
        Some("draft-07"),
        Some("draft/2019-09"),
    ] {
        let catalogue = catalogue();
        let list = schemas.iter().enumerate().map(|(n, schema)| {
            let mut schema = schema.clone();
            if let Some(draft) = draft {
                schema["$schema"] = json!(format!("http://json-schema.org/{draft}/schema#"));
            }
            Offered {
                output_schema: Some(schema.clone()),
                ..with_schema(&format!("t{n}"), schema)
            }
        });
        let replaced = catalogue.replace_dynamic("git", list.collect(), |_| ()).unwrap();
        assert_eq!(replaced.quarantined, [], "{draft:?}");
        for entry in catalogue.all() {
            assert_all_forms(&entry);
        }
        let build = |name: &str, value: Value| {
            let entry = catalogue.get(name).unwrap();
            entry.compiled().build(value.as_object().unwrap().clone()).is_ok()
        };
        for (name, value, fits) in [
            ("git__t0", json!({"pair": ["x", 1]}), true),
            ("git__t0", json!({"pair": ["x", 1, 2]}), false),
            ("git__t0", json!({"pair": [1, "x"]}), false),
            ("git__t1", json!({"n": 1}), true),
            ("git__t1", json!({"n": 0}), false),
            ("git__t2", json!({"n": "a", "m": "b"}), true),
            ("git__t2", json!({"n": "a"}), false),
        ] {
            assert_eq!(build(name, value.clone()), fits, "{draft:?} {name} {value}");
        }
        let output = |value: Value| {
            catalogue
                .get("git__t0")
                .unwrap()
                .compiled()
                .check_output(&value)
                .is_ok()
        };
        assert!(output(json!({"pair": ["x", 1]})) && !output(json!({"pair": [1]})));
    }
}

#[test]
fn a_tool_of_draft_04_that_requires_nothing_is_served() {
    let catalogue = catalogue();
    let draft = "http://json-schema.org/draft-04/schema#";
    let text = json!({"type": "string"});
    let list = vec![
        with_schema(
            "optional",
            json!({"$schema": draft, "type": "object", "properties": {"a": text}}),
        ),
        with_schema("bare", json!({"$schema": draft, "type": "object"})),
        with_schema(
            "nested",
            json!({"$schema": draft, "type": "object", "required": ["a"], "properties": {
                "a": {"type": "object", "properties": {"q": text}}}}),
        ),
    ];
    let replaced = catalogue.replace_dynamic("git", list, |_| ()).unwrap();
    assert_eq!((replaced.quarantined, replaced.added.len()), (Vec::new(), 3));
    let entry = catalogue.get("git__optional").unwrap();
    let built = entry.compiled().build(json!({"a": "x"}).as_object().unwrap().clone());
    assert_eq!(*built.unwrap().input(), json!({"a": "x"}));
}

#[test]
fn a_tool_that_requires_a_key_that_it_does_not_list_can_be_called() {
    let required = |more: Value| {
        let mut schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "zz"]});
        schema
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        schema
    };
    for (more, value, wrong) in [
        (json!({}), json!({"deep": [1]}), None),
        (
            json!({"additionalProperties": {"type": "integer"}}),
            json!(1),
            Some(json!("x")),
        ),
        (
            json!({"additionalProperties": false, "patternProperties": {"^z": {"type": "integer"}}}),
            json!(1),
            Some(json!("x")),
        ),
    ] {
        let (root, object) = (required(more.clone()), required(more));
        let nested = json!({"type": "object", "properties": {"o": object}, "required": ["o"]});
        let catalogue = catalogue();
        let list = vec![with_schema("root", root), with_schema("nested", nested)];
        let replaced = catalogue.replace_dynamic("git", list, |_| ()).unwrap();
        assert_eq!(replaced.quarantined, []);
        for (name, around) in [("git__root", None), ("git__nested", Some("o"))] {
            let entry = catalogue.get(name).unwrap();
            assert_all_forms(&entry);
            let build = |value: Value| {
                let value = around.map_or(value.clone(), |key| json!({ key: value }));
                entry
                    .compiled()
                    .build(value.as_object().unwrap().clone())
                    .map(|built| built.input().clone())
            };
            build(json!({"a": "x", "zz": value})).unwrap();
            build(json!({"a": "x"})).unwrap_err();
            if let Some(wrong) = &wrong {
                build(json!({"a": "x", "zz": wrong})).unwrap_err();
            }
            // Whoever is told of listed keys alone is told of it, too.
            let tool = entry.definition();
            let gemini = projection::gemini(tool).unwrap().value;
            let strict = projection::openai_strict(tool).unwrap().value;
            let place = around.map_or(String::new(), |key| format!("/properties/{key}"));
            for told in [&gemini["parameters"], &strict["function"]["parameters"]] {
                let object = told.pointer(&place).unwrap();
                assert!(object["properties"]["zz"].is_object(), "{told}");
                assert!(object["required"].as_array().unwrap().contains(&json!("zz")), "{told}");
            }
        }
    }
}

#[test]
fn a_closed_output_is_served_open() {
    let catalogue = catalogue();
    let closed = json!({"type": "object", "additionalProperties": false, "required": ["n"], "properties": {
        "n": {"type": "object", "additionalProperties": false, "properties": {"m": {"type": "integer"}}}}});
    let tool = Offered {
        output_schema: Some(closed),
        ..offered("t")
    };
    catalogue.replace_dynamic("git", vec![tool], |_| ()).unwrap();
    let entry = catalogue.get("git__t").unwrap();
    let listed = projection::mcp(entry.definition()).unwrap();
    assert!(
        !listed["outputSchema"].to_string().contains("additionalProperties"),
        "{listed}"
    );
    let published = jsonschema::draft202012::new(&listed["outputSchema"]).unwrap();
    for (output, fits) in [
        (json!({"n": {"m": 1, "new": 1}, "oversized": {"missing": {}}}), true),
        (json!({"n": {"m": "x"}}), false),
        (json!({}), false),
    ] {
        assert_eq!(published.is_valid(&output), fits, "{output}");
        assert_eq!(entry.compiled().check_output(&output).is_ok(), fits, "{output}");
    }
}

#[test]
fn a_made_up_name_is_near_to_every_way_to_write_the_original() {
    let catalogue = catalogue();
    catalogue.register(host("write_file").build().unwrap(), ()).unwrap();
    for (server, tools) in [
        ("my.srv", &["big", "list all.issues"][..]),
        ("a-very-long-server-name", &["x_of_more_than_twenty_letters"]),
        ("服务器", &["查询"]),
        ("plain", &["other"]),
    ] {
        let list = tools.iter().map(|tool| offered(tool)).collect();
        catalogue.replace_dynamic(server, list, |_| ()).unwrap();
    }
    let served = crate::catalogue::names::served;
    for (asked, server, tool) in [
        ("my_srv__big", "my.srv", "big"),
        ("my.srv__big", "my.srv", "big"),
        ("My Srv__big", "my.srv", "big"),
        ("mysrv__big", "my.srv", "big"),
        ("mysrv-aaaaaaaaaa__big", "my.srv", "big"),
        ("mcp__my_srv__big", "my.srv", "big"),
        ("mcp__devloop__my-srv__bigg", "my.srv", "big"),
        ("my_srv__list_all_issues", "my.srv", "list all.issues"),
        (
            "a-very-long-server-name__x_of_more_than_twenty_letters",
            "a-very-long-server-name",
            "x_of_more_than_twenty_letters",
        ),
        (
            "a-very-lo__x_of_more",
            "a-very-long-server-name",
            "x_of_more_than_twenty_letters",
        ),
        ("服务器__查询", "服务器", "查询"),
        ("plain__othr", "plain", "other"),
    ] {
        let nearest = catalogue.snapshot().nearest(asked);
        assert_eq!(
            nearest.first().map(String::as_str),
            Some(&*served(server, tool)),
            "{asked}: {nearest:?}"
        );
        assert!(nearest.iter().all(|one| catalogue.has(one)), "{nearest:?}");
    }
    for nothing in ["", "__", "…", "zzzzzzzz", &"é".repeat(100_000)] {
        assert_eq!(catalogue.snapshot().nearest(nothing), [""; 0], "{nothing:.9}");
    }
}
