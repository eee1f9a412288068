use proptest::prelude::*;

use super::{
    ParamKind::{Boolean, Integer, String as Text},
    *,
};

const KINDS: [ParamKind; 3] = [Text, Integer, Boolean];

#[track_caller]
fn agrees(kind: ParamKind, body: &str, field: &str) {
    assert_eq!(matches(kind, Some(body), Some(field.as_bytes())), Ok(()), "{body} and {field:?}");
}

#[track_caller]
fn differs(kind: ParamKind, body: &str, field: &str) {
    let result = matches(kind, Some(body), Some(field.as_bytes()));
    assert_eq!(result, Err(Mismatch::Different(kind)), "{body} and {field:?}");
}

#[test]
fn no_value_and_no_header_agree() {
    for kind in KINDS {
        assert_eq!(matches(kind, None, None), Ok(()));
        assert_eq!(matches(kind, Some("null"), None), Ok(()));
    }
}

#[test]
fn a_header_for_no_value_or_null_is_refused_even_when_empty() {
    for kind in KINDS {
        for field in ["", "null", "42", "=?base64??="] {
            assert_eq!(matches(kind, None, Some(field.as_bytes())), Err(Mismatch::NoValue));
            assert_eq!(matches(kind, Some("null"), Some(field.as_bytes())), Err(Mismatch::NoValue));
        }
    }
}

#[test]
fn a_value_without_its_header_is_refused() {
    for kind in KINDS {
        for body in [r#""a""#, r#""""#, "0", "42", "true", "false"] {
            assert_eq!(matches(kind, Some(body), None), Err(Mismatch::Missing), "{body}");
        }
    }
}

#[test]
fn an_object_or_array_without_header_is_left_to_the_schema() {
    for kind in KINDS {
        for body in ["{}", "[]", r#"{"a":1}"#, "[42]"] {
            assert_eq!(matches(kind, Some(body), None), Ok(()), "{body}");
        }
    }
}

#[test]
fn an_object_or_array_with_a_header_is_refused() {
    for kind in KINDS {
        for body in ["{}", "[]", r#"{"a":1}"#, "[42]"] {
            assert_eq!(
                matches(kind, Some(body), Some(body.as_bytes())),
                Err(Mismatch::NotPrimitive),
                "{body}"
            );
        }
    }
}

#[test]
fn a_header_that_cannot_be_read_is_refused_whatever_the_value() {
    let bad = |field: &[u8], why| {
        for kind in KINDS {
            for body in [None, Some("null"), Some("{}"), Some(r#""echo""#), Some("42"), Some("true")] {
                assert_eq!(matches(kind, body, Some(field)), Err(Mismatch::Invalid(why)));
            }
        }
    };
    bad(b"=?base64?ZWNobw?=", InvalidField::Base64);
    bad(b"=?base64?/w==?=", InvalidField::Utf8);
    bad(b"echo\x80", InvalidField::Byte { byte: 0x80, offset: 4 });
}

#[test]
fn strings_agree_when_the_decoded_text_is_the_same() {
    agrees(Text, r#""us-west1""#, "us-west1");
    agrees(Text, r#""us-west1""#, " us-west1\t");
    agrees(Text, r#""us-west1""#, "=?base64?dXMtd2VzdDE=?=");
    agrees(Text, r#""Hello, 世界""#, "=?base64?SGVsbG8sIOS4lueVjA==?=");
    agrees(Text, r#"" padded ""#, "=?base64?IHBhZGRlZCA=?=");
    agrees(Text, r#""=?base64?literal?=""#, "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=");
    agrees(Text, r#""=?base64?=""#, "=?base64?=");
}

#[test]
fn strings_are_compared_case_and_all() {
    differs(Text, r#""us-west1""#, "US-WEST1");
    differs(Text, r#""us-west1""#, "us-west");
    differs(Text, r#"" padded ""#, " padded ");
    differs(Text, r#""042""#, "42");
}

#[test]
fn escapes_of_the_message_are_read_before_comparing() {
    agrees(Text, r#""line1\nline2""#, "=?base64?bGluZTEKbGluZTI=?=");
    agrees(Text, r#""\u0075s-west1""#, "us-west1");
    agrees(Text, r#""a\/b\"c\\""#, r#"a/b"c\"#);
    agrees(Text, r#""\u4e16\u754c""#, "=?base64?5LiW55WM?=");
    agrees(Text, r#""\ud83d\ude00""#, "=?base64?8J+YgA==?=");
    differs(Text, r#""a\/b""#, r"a\/b");
}

#[test]
fn a_lone_surrogate_equals_nothing() {
    for field in [r"\ud800", "", "=?base64?77+9?="] {
        differs(Text, r#""\ud800""#, field);
    }
}

#[test]
fn the_empty_string_is_an_empty_header_or_empty_base64() {
    agrees(Text, r#""""#, "");
    agrees(Text, r#""""#, "  ");
    agrees(Text, r#""""#, "=?base64??=");
    differs(Text, r#"" ""#, "");
}

#[test]
fn booleans_agree_in_lower_case_only() {
    agrees(Boolean, "true", "true");
    agrees(Boolean, "false", "false");
    agrees(Boolean, "true", "=?base64?dHJ1ZQ==?=");
    for field in ["TRUE", "True", "1", "yes", "false", "", "\"true\""] {
        differs(Boolean, "true", field);
    }
}

#[test]
fn integers_agree_as_numbers() {
    agrees(Integer, "42", "42");
    agrees(Integer, "-7", "-7");
    agrees(Integer, "42", "042");
    agrees(Integer, "0", "-0");
    agrees(Integer, "-0", "0");
    agrees(Integer, "42", "42.0");
    agrees(Integer, "42.0", "42");
    agrees(Integer, "42", "=?base64?NDI=?=");
    differs(Integer, "42", "42.5");
    differs(Integer, "42", "43");
    differs(Integer, "42", "-42");
}

#[test]
fn an_exponent_in_the_message_is_read_exactly() {
    agrees(Integer, "1e1", "10");
    agrees(Integer, "4.2e1", "42");
    agrees(Integer, "420E-1", "42.0");
    differs(Integer, "1e1", "1");
}

#[test]
fn an_integer_header_in_another_notation_is_refused() {
    for (body, field) in
        [("10", "1e1"), ("1e1", "1e1"), ("42", "+42"), ("42", "0x2a"), ("42", ""), ("42", "42.")]
    {
        differs(Integer, body, field);
    }
}

#[test]
fn integers_beyond_a_double_or_any_machine_word_are_compared_exactly() {
    agrees(Integer, "9007199254740993", "9007199254740993");
    differs(Integer, "9007199254740993", "9007199254740992");
    let long = "7".repeat(10_000);
    agrees(Integer, &long, &format!("000{long}.000"));
    differs(Integer, &long, &format!("{long}7"));
}

#[test]
fn an_absurd_exponent_differs_without_being_written_out() {
    for field in ["1", "0", "10", "1e999999999"] {
        differs(Integer, "1e999999999", field);
        differs(Integer, "1e-999999999", field);
    }
    agrees(Integer, "0e999999999", "0");
}

#[test]
fn a_string_for_an_integer_passes_with_the_same_text_only() {
    agrees(Integer, r#""42""#, "42");
    agrees(Integer, r#""forty-two""#, "forty-two");
    differs(Integer, r#""42""#, "42.0");
    differs(Integer, r#""42""#, "042");
}

#[test]
fn a_value_of_another_type_passes_with_the_same_text_only() {
    agrees(Text, "42", "42");
    agrees(Text, "true", "true");
    agrees(Boolean, r#""true""#, "true");
    agrees(Integer, "true", "true");
    differs(Text, "42", "42.0");
    differs(Boolean, "1", "true");
    differs(Integer, "true", "1");
}

#[test]
fn a_fraction_for_an_integer_is_refused_even_when_the_header_has_the_same() {
    differs(Integer, "42.5", "42.5");
    differs(Integer, "42.5", "42");
}

#[test]
fn json_spaces_around_the_value_do_not_count() {
    agrees(Text, " \n\"a\"\t", "a");
    agrees(Integer, "\r\n42 ", "42");
    assert_eq!(matches(Text, Some(" null "), None), Ok(()));
}

#[test]
fn text_that_is_no_json_value_passes_neither_as_absent_nor_as_itself() {
    for body in ["", "nul", "\"", "\"\\", "NULL", "us-west1"] {
        assert_eq!(matches(Text, Some(body), None), Err(Mismatch::Missing), "{body:?}");
        differs(Text, body, body);
    }
}

#[test]
fn an_error_says_what_to_send_and_repeats_neither_value() {
    let error = matches(Text, Some(r#""secret-a""#), Some(b"secret-b")).unwrap_err().to_string();
    assert!(error.contains("same text") && !error.contains("secret"), "{error}");
    let error = matches(Text, Some(r#""a""#), Some(b"=?base64?!?=")).unwrap_err();
    assert!(error.source().is_some() && error.to_string().contains("base64"), "{error}");
}

proptest! {
    #[test]
    fn any_string_agrees_with_its_encoded_header(text in any::<String>()) {
        let body = serde_json::to_string(&text).unwrap();
        let field = super::super::encode(&text);
        prop_assert_eq!(matches(Text, Some(&body), Some(field.as_bytes())), Ok(()));
    }

    #[test]
    fn strings_agree_exactly_when_they_are_equal(left in "[ab\\\\\"\u{e9}]{0,3}", right in "[ab\\\\\"\u{e9}]{0,3}") {
        let body = serde_json::to_string(&left).unwrap();
        let field = super::super::encode(&right);
        let agree = matches(Text, Some(&body), Some(field.as_bytes())).is_ok();
        prop_assert_eq!(agree, left == right);
    }

    #[test]
    fn integers_agree_exactly_when_they_are_equal(left in any::<i128>(), other in any::<i128>(), same in any::<bool>()) {
        let right = if same { left } else { other };
        for field in [format!("{right}"), format!("{right}.00"), format!("{right:045}")] {
            for body in [format!("{left}"), format!("{left}.0"), format!("{left}00e-2"), format!("{left}E+0")] {
                let agree = matches(Integer, Some(&body), Some(field.as_bytes())).is_ok();
                prop_assert_eq!(agree, left == right, "{} and {}", body, field);
            }
        }
    }

    #[test]
    fn nothing_makes_comparing_panic(body in any::<Option<String>>(), field in any::<Option<Vec<u8>>>()) {
        for kind in KINDS {
            let _ = matches(kind, body.as_deref(), field.as_deref());
        }
    }
}
