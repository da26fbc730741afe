//! Schemas by example: what each dialect makes of them, and what is lost.

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
