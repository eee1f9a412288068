use serde_json::json;

use super::{
    AnnotationFault::{
        Duplicate, Empty, NotAString, NotAToken, NotPrimitive, Root, TooDeep, TooLong, TooMany, Unreachable,
    },
    *,
};

fn text(name: &str) -> Value {
    json!({"type": "string", "x-mcp-header": name})
}

#[allow(clippy::needless_pass_by_value, reason = "so that tests can write json!(…) without a borrow")]
fn declared(schema: Value) -> ParamHeaders {
    ParamHeaders::from_schema(&schema).expect("a valid schema")
}

#[allow(clippy::needless_pass_by_value, reason = "so that tests can write json!(…) without a borrow")]
#[track_caller]
fn invalid(schema: Value, pointer: &str, fault: AnnotationFault) {
    let error = ParamHeaders::from_schema(&schema).expect_err("an invalid schema");
    assert_eq!((error.pointer(), error.fault()), (pointer, &fault), "{schema}");
}

fn unreachable(keyword: &str) -> AnnotationFault {
    Unreachable { keyword: keyword.into() }
}

#[test]
fn the_example_of_the_specification_declares_its_region() {
    let declared = declared(json!({
        "type": "object",
        "properties": {
            "region": {"type": "string", "description": "The region to query", "x-mcp-header": "Region"},
            "query": {"type": "string", "description": "The SQL query to execute"},
        },
        "required": ["region", "query"],
    }));
    let [region] = declared.as_slice() else { panic!("{declared:?}") };
    assert_eq!(region.header(), "mcp-param-region");
    assert_eq!(region.name(), "Region");
    assert_eq!(region.kind(), ParamKind::String);
    assert!(region.path().eq(["region"]));
}

#[test]
fn each_of_the_three_types_can_be_mirrored() {
    for (name, kind) in
        [("string", ParamKind::String), ("integer", ParamKind::Integer), ("boolean", ParamKind::Boolean)]
    {
        let declared = declared(json!({"properties": {"a": {"type": name, "x-mcp-header": "A"}}}));
        assert_eq!(declared.as_slice()[0].kind(), kind);
    }
}

#[test]
fn a_schema_that_is_absent_or_no_object_declares_nothing() {
    assert!(ParamHeaders::default().is_empty());
    for schema in [json!(true), json!(false), json!(null), json!("x-mcp-header"), json!([text("A")])] {
        assert!(declared(schema).is_empty());
    }
}

#[test]
fn a_schema_without_annotations_declares_nothing() {
    assert!(
        declared(json!({"type": "object", "properties": {"a": {"type": "number"}, "b": true}})).is_empty()
    );
}

#[test]
fn a_parameter_inside_objects_is_reached_through_properties() {
    let declared = declared(json!({"properties": {
        "where": {"type": "object", "properties": {"cloud": {"properties": {"region": text("Region")}}}},
    }}));
    assert!(declared.as_slice()[0].path().eq(["where", "cloud", "region"]));
}

#[test]
fn declarations_come_in_the_order_of_the_search() {
    let declared = declared(json!({"properties": {
        "a": {"type": "string", "x-mcp-header": "One", "properties": {"z": text("Two")}},
        "b": text("Three"),
    }}));
    assert_eq!(
        declared.as_slice().iter().map(ParamHeader::name).collect::<Vec<_>>(),
        ["One", "Two", "Three"]
    );
}

#[test]
fn declarations_in_one_object_share_its_name() {
    let declared =
        declared(json!({"properties": {"outer": {"properties": {"a": text("A"), "b": text("B")}}}}));
    let [a, b] = declared.as_slice() else { panic!("{declared:?}") };
    assert!(Arc::ptr_eq(&a.path[0], &b.path[0]));
}

#[test]
fn every_token_character_can_be_in_a_name() {
    let name = "!#$%&'*+-.^_`|~09azAZ";
    let declared = declared(json!({"properties": {"a": text(name)}}));
    assert_eq!(declared.as_slice()[0].name(), name);
    assert_eq!(declared.as_slice()[0].header().as_str(), format!("mcp-param-{}", name.to_lowercase()));
}

#[test]
fn the_root_cannot_be_annotated() {
    invalid(text("A"), "", Root);
    invalid(json!({"type": "object", "x-mcp-header": null}), "", Root);
}

#[test]
fn an_annotation_anywhere_but_below_properties_alone_is_invalid() {
    for keyword in [
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ] {
        invalid(json!({keyword: text("A")}), &format!("/{keyword}"), unreachable(keyword));
    }
    for keyword in ["allOf", "anyOf", "items", "oneOf", "prefixItems"] {
        invalid(json!({keyword: [true, text("A")]}), &format!("/{keyword}/1"), unreachable(keyword));
    }
    for keyword in ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"] {
        invalid(json!({keyword: {"k": text("A")}}), &format!("/{keyword}/k"), unreachable(keyword));
    }
}

#[test]
fn properties_below_another_keyword_do_not_make_an_annotation_reachable() {
    invalid(
        json!({"properties": {"list": {"items": {"properties": {"a": text("A")}}}}}),
        "/properties/list/items/properties/a",
        unreachable("items"),
    );
    invalid(
        json!({"allOf": [{"properties": {"a": text("A")}}]}),
        "/allOf/0/properties/a",
        unreachable("allOf"),
    );
}

#[test]
fn another_keyword_below_properties_does_not_either() {
    invalid(
        json!({"properties": {"a": {"anyOf": [text("A"), {"type": "null"}]}}}),
        "/properties/a/anyOf/0",
        unreachable("anyOf"),
    );
}

#[test]
fn a_reference_is_not_followed_but_its_target_is_searched_where_it_is() {
    let by_reference = json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": text("A")}});
    invalid(by_reference, "/$defs/a", unreachable("$defs"));
    assert!(declared(json!({"properties": {"a": {"$ref": "#"}}})).is_empty());
}

#[test]
fn an_annotation_beside_a_reference_needs_its_own_type() {
    let beside = json!({"properties": {"a": {"$ref": "#/$defs/a", "x-mcp-header": "A"}}});
    invalid(beside, "/properties/a", NotPrimitive { found: None });
}

#[test]
fn data_in_a_schema_is_not_searched() {
    for keyword in ["default", "examples", "const", "enum", "x-other", "required"] {
        assert!(declared(json!({"properties": {"a": {keyword: text("A")}}})).is_empty(), "{keyword}");
        assert!(declared(json!({"properties": {"a": {keyword: [text("A")]}}})).is_empty(), "{keyword}");
    }
}

#[test]
fn a_property_with_the_name_of_the_annotation_is_a_property() {
    assert!(declared(json!({"properties": {"x-mcp-header": {"type": "number"}}})).is_empty());
    let both = declared(json!({"properties": {"x-mcp-header": text("A")}}));
    assert!(both.as_slice()[0].path().eq(["x-mcp-header"]));
}

#[test]
fn a_property_with_the_name_of_a_keyword_is_a_property() {
    let schema =
        json!({"properties": {"items": text("A"), "properties": {"properties": {"not": text("B")}}}});
    let declared = declared(schema);
    assert!(declared.as_slice()[0].path().eq(["items"]));
    assert!(declared.as_slice()[1].path().eq(["properties", "not"]));
}

#[test]
fn an_annotation_that_is_no_string_is_invalid() {
    for annotation in [json!(null), json!(true), json!(1), json!([]), json!({}), json!(["A"])] {
        let schema = json!({"properties": {"a": {"type": "string", "x-mcp-header": annotation}}});
        invalid(schema, "/properties/a", NotAString);
    }
}

#[test]
fn an_empty_name_is_invalid() {
    invalid(json!({"properties": {"a": text("")}}), "/properties/a", Empty);
}

#[test]
fn a_name_that_is_no_token_is_invalid() {
    for character in "\0\t\n\r \u{7F}\"(),/:;<=>?@[\\]{}é世".chars() {
        for name in [format!("A{character}"), format!("{character}A"), character.to_string()] {
            invalid(json!({"properties": {"a": text(&name)}}), "/properties/a", NotAToken { character });
        }
    }
}

#[test]
fn a_name_that_no_header_can_have_is_invalid() {
    invalid(json!({"properties": {"a": text(&"a".repeat(70_000))}}), "/properties/a", TooLong);
}

#[test]
fn a_type_other_than_the_three_is_invalid() {
    for kind in ["number", "object", "array", "null", "String", ""] {
        let schema = json!({"properties": {"a": {"type": kind, "x-mcp-header": "A"}}});
        invalid(schema, "/properties/a", NotPrimitive { found: Some(kind.into()) });
    }
}

#[test]
fn a_type_that_is_absent_or_no_single_name_is_invalid() {
    invalid(
        json!({"properties": {"a": {"x-mcp-header": "A"}}}),
        "/properties/a",
        NotPrimitive { found: None },
    );
    for kind in [json!(["string"]), json!(["string", "null"]), json!(null), json!({"const": "string"})] {
        let schema = json!({"properties": {"a": {"type": kind, "x-mcp-header": "A"}}});
        invalid(schema, "/properties/a", NotPrimitive { found: None });
    }
}

#[test]
fn a_name_used_twice_is_invalid_whatever_its_case() {
    let duplicate = |name: &str, first: &str| Duplicate { name: name.into(), first: first.into() };
    invalid(
        json!({"properties": {"a": text("Region"), "b": text("Region")}}),
        "/properties/b",
        duplicate("Region", "/properties/a"),
    );
    invalid(
        json!({"properties": {"a": {"properties": {"x/y": text("Region")}}, "b": text("REGION")}}),
        "/properties/b",
        duplicate("REGION", "/properties/a/properties/x~1y"),
    );
}

#[test]
fn the_first_fault_of_an_annotation_is_position_then_text_then_token_then_type_then_uniqueness() {
    let below = |schema: Value| json!({"properties": {"a": text("A"), "b": schema}});
    invalid(json!({"items": {"x-mcp-header": ""}}), "/items", unreachable("items"));
    invalid(below(json!({"type": "number", "x-mcp-header": 1})), "/properties/b", NotAString);
    invalid(below(json!({"type": "number", "x-mcp-header": ""})), "/properties/b", Empty);
    let no_token = NotAToken { character: ' ' };
    invalid(below(json!({"type": "number", "x-mcp-header": "a a"})), "/properties/b", no_token);
    let number = NotPrimitive { found: Some("number".into()) };
    invalid(below(json!({"type": "number", "x-mcp-header": "a"})), "/properties/b", number);
}

#[test]
fn a_schema_is_checked_before_those_inside_it_and_properties_before_other_keywords() {
    invalid(
        json!({"properties": {"a": {"x-mcp-header": "", "properties": {"b": text("")}}}}),
        "/properties/a",
        Empty,
    );
    invalid(json!({"allOf": [text("A")], "properties": {"z": text("")}}), "/properties/z", Empty);
    invalid(
        json!({"properties": {"a": {"items": text("A")}, "b": text("")}}),
        "/properties/a/items",
        unreachable("items"),
    );
}

#[test]
fn a_pointer_escapes_what_rfc_6901_escapes() {
    invalid(json!({"properties": {"a/b~c": text("")}}), "/properties/a~1b~0c", Empty);
    invalid(json!({"properties": {"": text("")}}), "/properties/", Empty);
}

/// Not with `json!`, which would copy the value with a recursion of its own.
fn object(member: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(member.to_owned(), value)]))
}

/// Wraps a schema `levels` times.
fn nested(levels: usize, inner: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(inner, |schema, _| wrap(schema))
}

#[test]
fn a_schema_is_searched_to_the_depth_that_json_text_can_have() {
    let not = |schema| object("not", schema);
    invalid(nested(127, text("A"), not), &"/not".repeat(127), unreachable("not"));
    let property = |schema| object("properties", object("p", schema));
    assert_eq!(declared(nested(128, text("A"), property)).as_slice()[0].path().len(), 128);
}

#[test]
fn a_schema_that_is_nested_too_deeply_is_invalid_with_or_without_an_annotation() {
    for wrap in [|schema| object("not", schema), |schema| object("allOf", Value::Array(vec![schema]))] {
        let schema = nested(1_000, json!({}), wrap);
        let error = ParamHeaders::from_schema(&schema).unwrap_err();
        assert_eq!(error.fault(), &TooDeep);
    }
}

#[test]
fn data_may_be_nested_as_deeply_as_it_likes() {
    let data = nested(1_000, json!({}), |inner| object("not", inner));
    assert!(declared(object("default", data)).is_empty());
}

#[test]
fn more_annotations_than_a_request_can_have_headers_are_invalid() {
    let many = |count: usize| {
        let properties: Map<_, _> = (0..count).map(|n| (format!("{n:04}"), text(&n.to_string()))).collect();
        json!({"properties": properties})
    };
    assert_eq!(declared(many(256)).as_slice().len(), 256);
    invalid(many(257), "/properties/0256", TooMany);
}

#[test]
fn an_error_says_where_what_and_what_to_do() {
    let error = ParamHeaders::from_schema(&json!({"properties": {"a": text("Reg ion")}})).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("/properties/a") && said.contains("' '") && said.contains("use ASCII"), "{said}");
    let error = ParamHeaders::from_schema(&text("A")).unwrap_err().to_string();
    assert!(error.contains("root of the schema"), "{error}");
    let number = json!({"properties": {"a": {"type": "number", "x-mcp-header": "A"}}});
    let error = ParamHeaders::from_schema(&number).unwrap_err().to_string();
    assert!(error.contains("`number`") && error.contains("`integer`"), "{error}");
}

#[test]
fn an_error_shows_no_control_characters_and_not_much_of_a_long_name() {
    let long = format!("a\n\u{1b}[31m{}", "b".repeat(10_000));
    let error = ParamHeaders::from_schema(&json!({"properties": {long: text("")}})).unwrap_err().to_string();
    assert!(error.len() < 250 && error.contains('…') && !error.contains(char::is_control), "{error}");
}
