//! Schemas by example: what each dialect makes of them, and what is lost. That translated drafts take the same values is
//! tested where there is a validator, in the core.

use serde_json::json;

use super::*;

#[test]
fn objects_with_properties_say_what_is_required_and_are_closed() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "object", "properties": {"b": {"type": "array", "items": {"properties": {}}}}},
        "free": {"type": "object"},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {}}},
        "said": {"type": "object", "properties": {"c": {}}, "required": ["c"], "additionalProperties": true},
    }});
    assert_eq!(
        published(&schema),
        json!({"type": "object", "required": [], "additionalProperties": false, "properties": {
            "a": {"type": "object", "required": [], "additionalProperties": false, "properties": {
                "b": {"type": "array", "items": {"properties": {}, "required": [], "additionalProperties": false}}}},
            "free": {"type": "object"},
            "map": {"type": "object", "additionalProperties":
                {"type": "object", "properties": {}, "required": [], "additionalProperties": false}},
            "said": {"type": "object", "properties": {"c": {}}, "required": ["c"], "additionalProperties": true},
        }})
    );
}

#[test]
fn a_root_without_properties_gets_them_and_stays_open() {
    assert_eq!(
        published(&json!({"type": "object"})),
        json!({"type": "object", "properties": {}, "required": [], "additionalProperties": true})
    );
}

#[test]
fn parts_of_a_composition_are_not_closed() {
    let open = json!({"type": "object", "properties": {"x": {}}, "required": []});
    let closed = json!({"type": "object", "properties": {"x": {}}, "required": [], "additionalProperties": false});
    let part = json!({"type": "object", "properties": {"x": {}}});
    let in_property = |schema: Value| json!({"type": "object", "properties": {"p": schema}});
    for (written, expected) in [
        (json!({"allOf": [part, part]}), json!({"allOf": [open, open]})),
        (
            json!({"anyOf": [part, {"type": "null"}]}),
            json!({"anyOf": [closed, {"type": "null"}]}),
        ),
        (json!({"oneOf": [part, part]}), json!({"oneOf": [closed, closed]})),
        (json!({"not": part}), json!({"not": open})),
        (
            json!({"type": "object", "properties": {"y": {}}, "anyOf": [part]}),
            json!({"type": "object", "properties": {"y": {}}, "anyOf": [open], "required": []}),
        ),
    ] {
        assert_eq!(published(&in_property(written))["properties"]["p"], expected);
    }
    // A shared type is closed when it stands for itself everywhere.
    let shared = |p: Value| json!({"type": "object", "properties": {"p": p}, "$defs": {"D": part}});
    let alone = published(&shared(json!({"$ref": "#/$defs/D"})));
    assert_eq!(alone["$defs"]["D"], closed);
    let as_part = published(&shared(json!({"allOf": [{"$ref": "#/$defs/D"}, part]})));
    assert_eq!(as_part["$defs"]["D"], open);
}

#[test]
fn annotations_of_the_runtime_are_gone_and_properties_that_look_like_them_stay() {
    let schema = json!({"type": "object", "~standard": {"v": 1}, "x-order": 3, "required": ["~a"], "properties": {
        "~a": {"type": "string", "x-note": "n", "default": {"~d": 1, "x-d": 2}},
        "x-b": {"enum": ["x-c"], "const": {"~e": 1}, "~f": true},
    }});
    assert_eq!(
        published(&schema),
        json!({"type": "object", "required": ["~a"], "properties": {
            "~a": {"type": "string", "default": {"~d": 1, "x-d": 2}},
            "x-b": {"enum": ["x-c"], "const": {"~e": 1}},
        }, "additionalProperties": false})
    );
}

#[test]
fn strict_mode_requires_every_property_and_takes_null_for_an_absent_one() {
    let schema = json!({"type": "object", "required": ["a"], "additionalProperties": false, "properties": {
        "a": {"type": "string", "minLength": 1, "pattern": "^a"},
        "b": {"type": "string", "enum": ["x", "y"], "default": "x"},
        "c": {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "integer", "minimum": 1}}}},
        "map": {"type": "object", "description": "Words", "additionalProperties": {"type": "string"}},
    }});
    let Projected { schema, losses } = openai_strict(&schema).unwrap();
    assert_eq!(
        schema,
        json!({"type": "object", "properties": {
            "a": {"type": "string", "pattern": "^a"},
            "b": {"type": ["string", "null"], "enum": ["x", "y", null]},
            "c": {"type": ["array", "null"], "items": {"type": "object", "properties": {
                "d": {"type": ["integer", "null"], "minimum": 1}}, "required": ["d"], "additionalProperties": false}},
            "map": {"type": ["string", "null"], "description": "Words. Write it as a JSON text."},
        }, "required": ["a", "b", "c", "map"], "additionalProperties": false})
    );
    let losses: Vec<String> = losses.iter().map(ToString::to_string).collect();
    assert_eq!(
        losses,
        [
            "/properties/a: `minLength` is not told",
            "/properties/b: `default` is not told",
            "/properties/map: an object without properties of its own is asked for as a JSON text",
        ]
    );
}

#[test]
fn strict_mode_says_where_it_can_say_nothing() {
    let of = |property: Value| {
        let schema = json!({"type": "object", "properties": {"p": property}});
        openai_strict(&schema).unwrap_err().to_string()
    };
    assert_eq!(
        of(json!({})),
        "/properties/p: a schema without a type is outside of strict mode"
    );
    assert_eq!(
        of(json!({"allOf": [{}, {}]})),
        "/properties/p: `allOf` is outside of strict mode"
    );
    assert_eq!(
        of(json!({"type": "array", "items": {"type": "array"}})),
        "/properties/p/items: an array without one schema for its items is outside of strict mode"
    );
    // What holds for the items after the first ones would be asked of all.
    let tuple = json!({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}});
    assert_eq!(
        of(tuple.clone()),
        "/properties/p: an array without one schema for its items is outside of strict mode"
    );
    let told = gemini(&json!({"type": "object", "properties": {"p": tuple}})).schema;
    assert_eq!(
        told["properties"]["p"],
        json!({"type": "STRING", "description": "Write it as a JSON text."})
    );
    let deep = (0..12).fold(
        json!({"type": "string"}),
        |inner, _| json!({"type": "object", "properties": {"a": inner}}),
    );
    assert!(of(deep).ends_with("objects nest deeper than the 10 levels of strict mode"));
    let listed: Vec<String> = (0..1_001).map(|n| n.to_string()).collect();
    assert!(of(json!({"type": "string", "enum": listed})).ends_with("has 1001 listed values; strict mode takes 1000"));
    assert!(openai_strict(&json!({"type": "object", "additionalProperties": {"type": "string"}})).is_err());
}

#[test]
fn gemini_gets_its_own_words() {
    let schema = json!({"type": "object", "required": ["a"], "additionalProperties": false, "properties": {
        "a": {"type": "string", "enum": ["x", "y"], "default": "x"},
        "n": {"type": "array", "minItems": 2, "uniqueItems": true, "items": {"type": "integer", "maximum": 4}},
        "m": {"anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}], "description": "Mine."},
        "t": {"$ref": "#/$defs/T"},
        "free": {"type": "object", "description": "Anything."},
        "none": {"type": "string", "enum": ["", "z"]},
    }, "$defs": {"T": {"type": "object", "description": "A tree.", "properties": {
        "below": {"type": "array", "items": {"$ref": "#/$defs/T"}}}}}});
    let Projected { schema, losses } = gemini(&schema);
    let tree = |description: &str| {
        json!({"type": "OBJECT", "description": description, "properties": {
        "below": {"type": "ARRAY", "items": {"type": "STRING", "description": "Write it as a JSON text."}}},
        "required": [], "propertyOrdering": ["below"]})
    };
    let mut mine = tree("Mine.");
    mine["nullable"] = json!(true);
    assert_eq!(
        schema,
        json!({"type": "OBJECT", "properties": {
            "a": {"type": "STRING", "format": "enum", "enum": ["x", "y"], "default": "x"},
            "n": {"type": "ARRAY", "minItems": "2", "items": {"type": "INTEGER", "maximum": 4}},
            "m": mine,
            "t": tree("A tree."),
            "free": {"type": "STRING", "description": "Anything. Write it as a JSON text."},
            "none": {"type": "STRING"},
        }, "required": ["a"], "propertyOrdering": ["a", "n", "m", "t", "free", "none"]})
    );
    assert_eq!(losses.len(), 5, "{losses:?}");
    assert_eq!(gemini(&json!({"type": "object", "properties": {}})).schema, Value::Null);
}

#[test]
fn an_output_stays_open_and_loses_annotations_alone() {
    let schema = json!({"type": "object", "~v": 1, "properties": {
        "~a": {"x-n": 1, "type": "object", "properties": {"b": {"default": {"~d": 1}}}}}});
    assert_eq!(
        published_output(&schema),
        json!({"type": "object", "properties": {
            "~a": {"type": "object", "properties": {"b": {"default": {"~d": 1}}}}}})
    );
}

#[test]
fn references_that_double_with_each_step_are_written_out_in_bounded_size() {
    let mut shared = Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        shared.insert(
            format!("d{n}"),
            json!({"type": "object", "properties": {"a": next, "b": next}}),
        );
    }
    shared.insert("d40".into(), json!({"type": "string"}));
    let schema = json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/d0"}}, "$defs": shared});
    let projected = gemini(&schema);
    assert!(projected.schema.to_string().len() < 10_000_000);
    assert!(
        projected
            .losses
            .iter()
            .any(|loss| loss.what.contains("beyond the first 10000"))
    );
    // Strict mode takes references as they are.
    assert!(openai_strict(&schema).is_ok());
}

/// The one property of a schema that says this draft, in 2020-12.
fn property_of(draft: &str, property: &Value) -> Value {
    let schema = json!({"$schema": draft, "type": "object", "properties": {"p": property}, "definitions": {"D": {"type": "string"}}});
    let translated = in_2020_12(&schema).unwrap();
    assert_eq!(in_2020_12(&translated).unwrap(), translated, "it is translated once");
    assert!(translated.get("$schema").is_none(), "{translated}");
    translated["properties"]["p"].clone()
}

const DRAFT_04: &str = "http://json-schema.org/draft-04/schema#";
const DRAFT_06: &str = "http://json-schema.org/draft-06/schema#";
const DRAFT_07: &str = "http://json-schema.org/draft-07/schema#";
const DRAFT_2019_09: &str = "https://json-schema.org/draft/2019-09/schema";
const DRAFT_2020_12: &str = "https://json-schema.org/draft/2020-12/schema";

#[test]
fn older_forms_are_said_in_the_words_of_2020_12_whatever_the_draft() {
    for draft in [
        DRAFT_04,
        DRAFT_06,
        DRAFT_07,
        DRAFT_2019_09,
        DRAFT_2020_12,
        "https://json-schema.org/schema",
    ] {
        for (written, expected) in [
            (
                json!({"type": "array", "items": [{"type": "string"}, {"items": [{}]}], "additionalItems": false, "minItems": 2}),
                json!({"type": "array", "prefixItems": [{"type": "string"}, {"prefixItems": [{}]}], "items": false, "minItems": 2}),
            ),
            (
                json!({"items": [], "additionalItems": {"items": [{}]}}),
                json!({"items": {"prefixItems": [{}]}}),
            ),
            (json!({"items": {}, "additionalItems": false}), json!({"items": {}})),
            (
                json!({"minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false}),
                json!({"exclusiveMinimum": 0, "maximum": 9}),
            ),
            (
                json!({"exclusiveMaximum": true, "maximum": 9, "minimum": 1}),
                json!({"exclusiveMaximum": 9, "minimum": 1}),
            ),
            (
                json!({"dependencies": {"a": ["b"], "c": {"items": [{}]}}}),
                json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"prefixItems": [{}]}}}),
            ),
            (json!({"$ref": "#/definitions/D"}), json!({"$ref": "#/definitions/D"})),
            // Data and names are no schemas.
            (
                json!({"enum": [{"items": [1], "id": "x"}], "default": {"$schema": "x", "dependencies": {}}}),
                json!({"enum": [{"items": [1], "id": "x"}], "default": {"$schema": "x", "dependencies": {}}}),
            ),
            (
                json!({"properties": {"id": {}, "$schema": {}, "items": {"items": [{}]}, "dependencies": {}}}),
                json!({"properties": {"id": {}, "$schema": {}, "items": {"prefixItems": [{}]}, "dependencies": {}}}),
            ),
        ] {
            assert_eq!(property_of(draft, &written), expected, "{draft}");
        }
    }
}

#[test]
fn words_that_say_nothing_in_their_draft_are_gone() {
    let all = json!({"const": 1, "contains": {}, "propertyNames": {}, "if": {}, "then": {}, "else": {}, "dependentRequired": {},
        "dependentSchemas": {}, "minContains": 1, "unevaluatedItems": {}, "prefixItems": [{}], "description": "Kept."});
    let keys = |draft| property_of(draft, &all).as_object().unwrap().len();
    assert_eq!([DRAFT_04, DRAFT_06, DRAFT_07, DRAFT_2020_12].map(keys), [1, 4, 7, 12]);
    // Until draft-07 a reference is all that a schema says.
    let beside =
        json!({"$ref": "#/definitions/D", "description": "Mine.", "maxLength": 2, "$id": "https://x.example/"});
    for draft in [DRAFT_04, DRAFT_06, DRAFT_07] {
        assert_eq!(
            property_of(draft, &beside),
            json!({"$ref": "#/definitions/D", "description": "Mine."})
        );
    }
    let applied = json!({"$ref": "#/definitions/D", "maxLength": 2});
    assert_eq!(property_of(DRAFT_2019_09, &applied), applied);
}

#[test]
fn references_follow_what_they_name() {
    let of = |schema: &Value| in_2020_12(schema).map(|schema| schema["properties"]["r"]["$ref"].clone());
    let schema = |draft: &str, reference: &str| {
        json!({"$schema": draft, "$id": "https://x.example/s#", "type": "object", "properties": {
            "t": {"type": "array", "items": [{"a/b": 1}, {"properties": {"u": {}}}], "additionalItems": {"type": "string"}},
            "r": {"$ref": reference}, "n": {"$id": "#name"}, "a": {"$anchor": "name2"}},
            "dependencies": {"t": {"properties": {"v": {}}}}, "x-more": {"plain": {}, "old": {"items": [{}]}}})
    };
    for (reference, expected) in [
        ("#", "#"),
        (
            "#/properties/t/items/1/properties/u",
            "#/properties/t/prefixItems/1/properties/u",
        ),
        ("#/properties/t/additionalItems", "#/properties/t/items"),
        ("#/dependencies/t/properties/v", "#/dependentSchemas/t/properties/v"),
        ("https://x.example/s#/properties/t", "#/properties/t"),
        ("https://x.example/s", "#"),
        ("#name", "#/properties/n"),
        ("#/x-more/plain", "#/x-more/plain"),
        // What leads nowhere is refused by others.
        ("#nobody", "#nobody"),
        ("#/properties/t/items/7", "#/properties/t/items/7"),
        ("https://elsewhere.example/", "https://elsewhere.example/"),
    ] {
        assert_eq!(of(&schema(DRAFT_07, reference)).unwrap(), expected);
    }
    assert_eq!(of(&schema(DRAFT_2019_09, "#name2")).unwrap(), "#/properties/a");
    let lost = of(&schema(DRAFT_07, "#/x-more/old")).unwrap_err().to_string();
    assert!(
        lost.starts_with("/properties/r: a reference leads to `#/x-more/old`, where no schema"),
        "{lost}"
    );
    let recursive = json!({"$schema": DRAFT_2019_09, "$recursiveAnchor": true, "type": "object", "properties": {
        "r": {"$recursiveRef": "#"}, "s": {"$recursiveRef": "#", "$ref": "#/$defs/D", "allOf": [{}]}}, "$defs": {"D": {}}});
    assert_eq!(
        in_2020_12(&recursive).unwrap(),
        json!({"type": "object", "properties": {
            "r": {"$ref": "#"}, "s": {"$ref": "#/$defs/D", "allOf": [{}, {"$ref": "#"}]}}, "$defs": {"D": {}}})
    );
}

#[test]
fn names_of_schemas_are_gone_unless_they_change_what_references_mean() {
    let four = json!({"$schema": DRAFT_04, "id": "https://x.example/", "type": "object",
        "properties": {"a": {"id": "/properties/a", "type": "string"}}});
    assert_eq!(
        in_2020_12(&four).unwrap(),
        json!({"type": "object", "properties": {"a": {"type": "string"}}})
    );
    let seven = json!({"$schema": DRAFT_07, "properties": {"a": {"$id": "#/properties/a", "items": {"$ref": "#/definitions/D"}}}});
    assert!(in_2020_12(&seven).unwrap()["properties"]["a"].get("$id").is_none());
    let other = json!({"properties": {"a": {"$id": "https://x.example/a", "items": {"$ref": "#/definitions/D"}}}});
    assert_eq!(
        in_2020_12(&other).unwrap_err().to_string(),
        "/properties/a: the name `https://x.example/a` makes references mean something else"
    );
}

#[test]
fn a_draft_inside_of_another_one_holds_for_its_part() {
    let schema = json!({"type": "object", "properties": {
        "a": {"$schema": DRAFT_04, "type": "integer", "const": 1, "minimum": 0, "exclusiveMinimum": true},
        "b": {"type": "integer", "const": 1}}});
    assert_eq!(
        in_2020_12(&schema).unwrap(),
        json!({"type": "object", "properties": {
            "a": {"type": "integer", "exclusiveMinimum": 0}, "b": {"type": "integer", "const": 1}}})
    );
}

#[test]
fn what_cannot_be_translated_is_told_with_its_place() {
    let of = |property: Value| {
        let schema = json!({"$schema": DRAFT_2019_09, "type": "object", "properties": {"p": property}});
        in_2020_12(&schema).unwrap_err().to_string()
    };
    assert_eq!(
        of(json!({"exclusiveMinimum": true})),
        "/properties/p: `exclusiveMinimum` is true and there is no `minimum`"
    );
    assert_eq!(
        of(json!({"$recursiveRef": "#/properties/p"})),
        "/properties/p: `$recursiveRef` leads elsewhere than to `#`"
    );
    assert_eq!(
        of(json!({"contains": {}, "allOf": [{"unevaluatedItems": false}]})),
        "the root: `contains` beside `unevaluatedItems` means something else in 2019-09 than in 2020-12"
    );
    assert_eq!(
        of(json!({"dependencies": {"a": ["b"]}, "dependentRequired": {"a": ["c"]}})),
        "/properties/p: `dependencies` and `dependentRequired` both say what `a` needs"
    );
    assert_eq!(
        of(json!({"$schema": "http://json-schema.org/draft-03/schema#"})),
        "/properties/p: `$schema` says \"http://json-schema.org/draft-03/schema#\", and the drafts 04, 06, 07, 2019-09 and \
         2020-12 are known"
    );
    let both = json!({"type": "array", "items": [{}], "prefixItems": [{}]});
    assert!(in_2020_12(&both).unwrap_err().what.contains("no meaning in any draft"));
    let deep = (0..300).fold(json!({}), |inner, _| json!({ "items": inner }));
    assert!(
        in_2020_12(&deep)
            .unwrap_err()
            .what
            .contains("nested deeper than 256 levels")
    );
    let elsewhere = (0..200).map(|n| (n.to_string(), json!({"$ref": format!("#/x-more/{n}")})));
    let mut many = json!({"properties": elsewhere.collect::<Map<_, _>>(), "x-more": {}});
    for n in 0..200 {
        many["x-more"][n.to_string()] = json!({});
    }
    assert!(in_2020_12(&many).is_err(), "so many are not looked at");
}

#[test]
fn a_required_key_that_is_not_listed_is_listed_as_what_may_stand_there() {
    let object = |more: Value| {
        let mut object = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "zz"]});
        object
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        object
    };
    let number = json!({"type": "integer"});
    for (more, listed) in [
        (json!({}), Some(json!({}))),
        (json!({"additionalProperties": true}), Some(json!({}))),
        (json!({"additionalProperties": number}), Some(number.clone())),
        (
            json!({"additionalProperties": number, "patternProperties": {"^z": {}}}),
            Some(json!({})),
        ),
        (
            json!({"additionalProperties": false, "patternProperties": {"^z": {}}}),
            Some(json!({})),
        ),
        (
            json!({"unevaluatedProperties": false, "if": {"properties": {"zz": {}}}}),
            None,
        ),
        (json!({"dependentRequired": {"a": ["zz", "yy"]}}), Some(json!({}))),
    ] {
        let root = object(more);
        assert_eq!(refusal(&root), None);
        let nested = json!({"type": "object", "properties": {"p": {"type": "array", "items": root}}});
        for published in [published(&root), published(&nested)["properties"]["p"]["items"].clone()] {
            assert_eq!(published["properties"].get("zz"), listed.as_ref(), "{published}");
            if root.get("dependentRequired").is_some() {
                assert_eq!(published["properties"]["yy"], json!({}));
            }
        }
    }
    // At the root, where every reader wants properties.
    let bare = json!({"type": "object", "required": ["zz"]});
    assert_eq!(
        published(&bare),
        json!({"type": "object", "required": ["zz"], "properties": {"zz": {}}, "additionalProperties": true})
    );
    assert!(gemini(&published(&bare)).schema["properties"]["zz"].is_object());
    // What would double with each step is not written again and again.
    let doubled = (0..40).fold(
        json!({"type": "string"}),
        |inner, _| json!({"type": "object", "properties": {}, "required": ["z", "y"], "additionalProperties": inner}),
    );
    assert!(published(&doubled).to_string().len() < 1_000_000);
}

#[test]
fn an_object_that_no_value_can_be_is_refused() {
    let dead = json!({"type": "object", "properties": {"a": {}}, "required": ["zz"], "additionalProperties": false});
    let in_property = |schema: Value| json!({"type": "object", "properties": {"p": schema}});
    for refused in [
        dead.clone(),
        in_property(dead.clone()),
        in_property(json!({"type": ["object", "null"], "required": ["zz"], "additionalProperties": false})),
        in_property(json!({"type": "array", "items": dead})),
        in_property(json!({"anyOf": [dead, dead]})),
        in_property(json!({"type": "object", "required": ["zz"], "unevaluatedProperties": false})),
        json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/D"}}, "$defs": {"D": dead}}),
    ] {
        assert_eq!(
            refusal(&refused).as_deref(),
            Some("\"zz\" is required and may not be sent: `properties` does not list it, and nothing else is allowed"),
            "{refused}"
        );
    }
    for taken in [
        in_property(json!({"anyOf": [dead, {"type": "null"}]})),
        in_property(json!({"not": dead})),
        in_property(json!({"anyOf": [{"type": "object", "properties": {"q": dead}}, {"type": "null"}]})),
        in_property(json!({"required": ["zz"], "additionalProperties": false})),
    ] {
        assert_eq!(refusal(&taken), None, "{taken}");
    }
    let spoken = refusal(&json!({"type": "object", "required": ["b c"]})).unwrap();
    assert!(
        spoken.contains("\"b c\", which is required, is not of the form"),
        "{spoken}"
    );
}

#[test]
fn an_object_that_may_be_null_is_published_like_any_other() {
    for kinds in [
        json!(["object", "null"]),
        json!(["null", "object"]),
        json!(["string", "object"]),
    ] {
        let schema = json!({"type": "object", "properties": {"p": {"type": kinds, "properties": {"a": {}}}}});
        let p = &published(&schema)["properties"]["p"];
        assert_eq!(
            *p,
            json!({"type": kinds, "properties": {"a": {}}, "required": [], "additionalProperties": false})
        );
    }
    let keys = json!({"type": "object", "properties": {"a": {}}, "minProperties": 2});
    assert_eq!(
        published(&keys).get("additionalProperties"),
        None,
        "closed, nothing would be one"
    );
}

#[test]
fn an_output_is_open_and_what_counts_alternatives_stays_as_it_is() {
    let closed = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false});
    let open = json!({"type": "object", "properties": {"a": {}}});
    let below =
        json!({"type": "object", "properties": {"p": closed}, "allOf": [closed], "unevaluatedProperties": false});
    assert_eq!(
        published_output(&below),
        json!({"type": "object", "properties": {"p": open}, "allOf": [open]})
    );
    let said = |schema: &Value| schema["properties"][OVERSIZED].is_object();
    let one_of =
        json!({"type": "object", "oneOf": [closed, {"$ref": "#/$defs/D"}], "$defs": {"D": closed, "E": closed}});
    let out = published_output(&one_of);
    for place in ["/oneOf/0", "/$defs/D"] {
        let part = out.pointer(place).unwrap();
        assert_eq!((&part["additionalProperties"], said(part)), (&json!(false), true));
    }
    assert_eq!(out["$defs"]["E"], closed, "it does not speak of the root");
    let map = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    assert!(said(&published_output(&map)));
    assert_eq!(published_output(&out), out);
}
