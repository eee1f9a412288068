use super::*;

fn fault(text: &str) -> (Fault, Option<String>, String) {
    let error = Message::parse(text.to_owned()).expect_err(text);
    (error.fault, error.id().map(ToString::to_string), error.to_string())
}

#[test]
fn the_id_is_kept_byte_for_byte() {
    for id in ["0", "-7", "18446744073709551616", "\"\"", "\"a\\u0041\\\"\""] {
        let text = format!(r#"{{"jsonrpc":"2.0","id": {id} ,"method":"m"}}"#);
        assert_eq!(Message::parse(text).unwrap().id().unwrap().text(), id);
    }
}

#[test]
fn an_id_of_another_kind_is_refused_and_not_echoed() {
    for id in ["null", "true", "1.5", "1.0", "1e3", "[1]", "{}"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        let (fault, id, reason) = fault(&text);
        assert_eq!((fault, id), (Fault::Invalid, None), "{text}");
        assert!(reason.contains("`id`"), "{reason}");
    }
}

#[test]
fn a_message_without_id_is_a_notification() {
    let message = Message::parse(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#).unwrap();
    assert!(message.is_notification());
    assert_eq!((message.params().is_none(), message.meta().is_none()), (true, true));
}

#[test]
fn what_is_not_json_is_a_syntax_fault_without_id() {
    for text in [
        "",
        " ",
        "{",
        "nul",
        "{\"id\":1,}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"} x",
        "\u{feff}{}",
    ] {
        let (fault, id, _) = fault(text);
        assert_eq!((fault, id), (Fault::Syntax, None), "{text}");
    }
    assert_eq!(Message::parse(&b"{\"a\":\"\xff\"}"[..]).unwrap_err().fault, Fault::Syntax);
}

#[test]
fn an_error_of_shape_is_told_only_once_the_text_is_known_to_be_json() {
    assert_eq!(fault(r#"{"jsonrpc":"1.0","id":null,"#).0, Fault::Syntax);
    assert_eq!(fault("[1,").0, Fault::Syntax);
}

#[test]
fn batches_scalars_and_responses_are_refused() {
    for text in [
        "[]",
        r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#,
        "1",
        "null",
        "\"a\"",
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#,
    ] {
        let (fault, id, _) = fault(text);
        assert_eq!((fault, id), (Fault::Invalid, None), "{text}");
    }
    assert!(fault("[]").2.contains("batches"));
}

#[test]
fn a_wrong_envelope_is_refused_with_the_id() {
    for text in [
        r#"{"id":1,"method":"m"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#,
        // The id comes last.
        r#"{"method":"m","params":7,"jsonrpc":"2.0","id":1}"#,
    ] {
        let (fault, id, _) = fault(text);
        assert_eq!((fault, id.as_deref()), (Fault::Invalid, Some("1")), "{text}");
    }
}

#[test]
fn a_member_named_twice_is_refused_in_the_envelope_in_params_and_in_meta() {
    for (text, name) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","method":"m"}"#, "method"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{},"params":{}}"#, "params"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{},"p\u0061rams":[]}"#, "params"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","x":1,"x":1}"#, "x"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"a","name":"b"}}"#, "name"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{},"_meta":{}}}"#, "_meta"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"k":1,"\u006b":2}}}"#, "k"),
    ] {
        let (fault, id, reason) = fault(text);
        assert_eq!((fault, id.as_deref()), (Fault::Invalid, Some("1")), "{text}");
        assert!(reason.contains(&format!("`{name}`")), "{reason}");
    }
    assert_eq!(fault(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#).1, None);
}

#[test]
fn a_meta_that_is_no_object_is_a_fault_of_params() {
    for meta in ["1", "null", "[]", "\"a\""] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":"x","method":"m","params":{{"_meta":{meta}}}}}"#);
        let (fault, id, _) = fault(&text);
        assert_eq!((fault, id.as_deref()), (Fault::Meta, Some("\"x\"")), "{text}");
    }
}

#[test]
fn nesting_counts_from_the_envelope_on() {
    let nested = |levels: usize| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"a":{}{}}}}}"#,
            "[".repeat(levels),
            "]".repeat(levels)
        )
    };
    assert!(Message::parse(nested(126)).is_ok());
    assert_eq!(fault(&nested(127)).0, Fault::Syntax);
    assert_eq!(fault(&nested(100_000)).0, Fault::Syntax);
}

#[test]
fn too_many_members_are_refused() {
    let members: Vec<_> = (0..1025).map(|n| format!("\"{n}\":0")).collect();
    let text = |members: &[String]| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{{}}}}}"#, members.join(","))
    };
    assert!(Message::parse(text(&members[..1024])).is_ok());
    assert_eq!(fault(&text(&members)).0, Fault::Invalid);
}

#[test]
fn the_target_is_what_the_method_says_it_is() {
    let target = |method: &str, params: &str| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        Message::parse(text).unwrap().target().map(str::to_owned)
    };
    let params = r#"{"name":"caf\u00e9","uri":"a://b","taskId":"t"}"#;
    assert_eq!(target("tools/call", params).as_deref(), Some("café"));
    assert_eq!(target("prompts/get", params).as_deref(), Some("café"));
    assert_eq!(target("resources/read", params).as_deref(), Some("a://b"));
    assert_eq!(target("tasks/get", params).as_deref(), Some("t"));
    assert_eq!(target("tools/list", params), None);
    assert_eq!(target("tools/call", r#"{"name":1}"#), None);
    assert_eq!(target("tools/call", "{}"), None);
}

#[test]
fn an_unedited_message_gives_its_own_bytes() {
    let text = r#" {"method":"m", "jsonrpc":"2.0","id":1, "params":{"a": 1.0}, "x": [] } "#;
    let message = Message::parse(text).unwrap();
    assert_eq!(message.bytes(), text);
    assert!(!message.is_edited());
}

#[test]
fn an_edited_message_keeps_what_was_not_edited() {
    let text = r#"{"method":"m\n","jsonrpc":"2.0","id":"\u0041","params":{"a": 1.0,"_meta":{"k":1}}}"#;
    let mut message = Message::parse(text).unwrap();
    let copy = message.clone();
    message.edit_params(|params| params.set_raw("b", Raw("2e0"))).unwrap();
    assert_eq!(
        message.bytes(),
        r#"{"jsonrpc":"2.0","id":"\u0041","method":"m\n","params":{"a":1.0,"_meta":{"k":1},"b":2e0}}"#
    );
    assert_eq!(copy.bytes(), text, "a clone is not edited along");
    assert_eq!(Message::parse(message.bytes()).unwrap().method(), "m\n");
}

#[test]
fn meta_follows_an_edit_and_a_bad_edit_changes_nothing() {
    let mut message =
        Message::parse(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"k":1}}}"#).unwrap();
    message.edit_params(|params| params.set_raw("_meta", Raw(r#"{"k":2}"#))).unwrap();
    assert_eq!(message.meta().unwrap().get("k").unwrap().text(), "2");
    assert!(message.edit_params(|params| params.set_raw("_meta", Raw("1"))).is_err());
    assert_eq!(message.meta().unwrap().get("k").unwrap().text(), "2");
    assert_eq!(message.param("_meta").unwrap().text(), r#"{"k":2}"#);
}

#[test]
fn debug_output_shows_no_parameters() {
    let message = Message::parse(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"k":"secret"}}}"#,
    )
    .unwrap();
    let shown = format!("{message:?}");
    assert!(shown.contains("tools/call") && !shown.contains("secret"), "{shown}");
}

#[test]
fn debug_output_of_parts_shows_no_values_and_not_all_of_a_long_id() {
    let object = RawObject::parse(r#"{"name":"secret"}"#).unwrap();
    let error = ErrorObject::new(1, "m").with_data("secret").unwrap();
    let answer = Answer::result(Some(RequestId::from("i".repeat(1000))), object.clone());
    for shown in [
        format!("{object:?}"),
        format!("{:?}", object.get("name").unwrap()),
        format!("{error:?}"),
        format!("{answer:?}"),
    ] {
        assert!(!shown.contains("secret") && shown.len() < 200, "{shown}");
    }
}

proptest::proptest! {
    #[test]
    fn any_body_is_parsed_or_refused_without_a_panic(body in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
        let _ = Message::parse(body);
    }

    #[test]
    fn text_and_arguments_of_any_shape_survive(id in proptest::num::i128::ANY, key in ".{0,8}", text in ".{0,16}") {
        let arguments = serde_json::json!({ key: [text, { "n": 1.5 }] }).to_string();
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
        );
        let message = Message::parse(body).unwrap();
        proptest::prop_assert_eq!(message.id().unwrap().text(), id.to_string());
        proptest::prop_assert_eq!(message.arguments().unwrap().text(), arguments);
    }
}
