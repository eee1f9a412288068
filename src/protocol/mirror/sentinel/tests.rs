use http::HeaderValue;
use proptest::prelude::*;

use super::*;

const SPEC_VECTORS: [(&str, &str); 5] = [
    ("us-west1", "us-west1"),
    ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
    (" padded ", "=?base64?IHBhZGRlZCA=?="),
    ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
    ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
];

#[track_caller]
fn reads(field: &str, text: &str) {
    assert_eq!(decode(field.as_bytes()).as_deref(), Ok(text), "field {field:?}");
}

#[test]
fn the_examples_of_the_specification_are_written_as_it_shows() {
    for (text, field) in SPEC_VECTORS {
        assert_eq!(encode(text), field);
    }
}

#[test]
fn the_examples_of_the_specification_are_read_back() {
    for (text, field) in SPEC_VECTORS {
        reads(field, text);
    }
}

#[test]
fn a_plain_value_is_neither_copied_when_read_nor_when_written() {
    assert!(matches!(decode(b" execute sql\t"), Ok(Cow::Borrowed("execute sql"))));
    assert!(matches!(encode("execute sql"), Cow::Borrowed("execute sql")));
}

#[test]
fn spaces_and_tabs_around_a_value_are_not_part_of_it() {
    reads(" \t us-west1\t ", "us-west1");
    reads("\t=?base64?ZWNobw==?= ", "echo");
    reads(" \t ", "");
}

#[test]
fn spaces_and_tabs_inside_a_value_are_kept() {
    reads("a \tb", "a \tb");
}

#[test]
fn case_is_kept() {
    reads("Echo", "Echo");
}

#[test]
fn a_byte_that_no_field_value_may_hold_is_invalid() {
    let allowed = |byte: u8| byte == b'\t' || (0x20..=0x7E).contains(&byte);
    for byte in (0..=u8::MAX).filter(|byte| !allowed(*byte)) {
        assert_eq!(decode(&[b' ', b'a', byte, b'b']), Err(InvalidField::Byte { byte, offset: 1 }));
    }
}

#[test]
fn raw_utf8_is_invalid_even_though_a_header_value_may_hold_it() {
    let field = HeaderValue::from_bytes("世界".as_bytes()).expect("http allows 0x80 to 0xFF");
    assert_eq!(decode(field.as_bytes()), Err(InvalidField::Byte { byte: 0xE4, offset: 0 }));
}

#[test]
fn an_encoded_value_is_decoded() {
    reads("=?base64?ZWNobw==?=", "echo");
}

#[test]
fn base64_without_its_padding_is_invalid() {
    assert_eq!(decode(b"=?base64?ZWNobw?="), Err(InvalidField::Base64));
}

#[test]
fn base64_with_surplus_padding_or_spaces_is_invalid() {
    for field in ["=?base64?ZWNobw===?=", "=?base64? ZWNobw==?=", "=?base64?ZWNo bw==?=", "=?base64?=?="] {
        assert_eq!(decode(field.as_bytes()), Err(InvalidField::Base64), "field {field:?}");
    }
}

#[test]
fn base64_with_trailing_bits_that_are_not_zero_is_invalid() {
    assert_eq!(decode(b"=?base64?ZWNobx==?="), Err(InvalidField::Base64));
}

#[test]
fn the_url_safe_alphabet_is_invalid() {
    reads("=?base64?Pj4+?=", ">>>");
    assert_eq!(decode(b"=?base64?Pj4-?="), Err(InvalidField::Base64));
}

#[test]
fn markers_in_another_case_are_literal_text() {
    reads("=?BASE64?ZWNobw==?=", "=?BASE64?ZWNobw==?=");
    reads("=?Base64?ZWNobw==?=", "=?Base64?ZWNobw==?=");
}

#[test]
fn one_marker_without_the_other_is_literal_text() {
    reads("=?base64?ZWNobw==", "=?base64?ZWNobw==");
    reads("ZWNobw==?=", "ZWNobw==?=");
    reads("x=?base64?ZWNobw==?=", "x=?base64?ZWNobw==?=");
}

#[test]
fn markers_that_overlap_are_literal_text() {
    reads("=?base64?=", "=?base64?=");
}

#[test]
fn the_empty_text_is_read_from_an_empty_field_and_from_empty_base64() {
    reads("", "");
    reads("=?base64??=", "");
}

#[test]
fn base64_of_bytes_that_are_not_utf8_is_invalid() {
    assert_eq!(decode(b"=?base64?/w==?="), Err(InvalidField::Utf8));
    // A surrogate, and an overlong slash.
    assert_eq!(decode(b"=?base64?7aCA?="), Err(InvalidField::Utf8));
    assert_eq!(decode(b"=?base64?wK8=?="), Err(InvalidField::Utf8));
}

#[test]
fn a_byte_order_mark_is_part_of_the_text() {
    reads("=?base64?77u/YQ==?=", "\u{FEFF}a");
}

#[test]
fn a_value_that_was_encoded_without_need_is_accepted() {
    reads("=?base64?dXMtd2VzdDE=?=", "us-west1");
}

#[test]
fn a_value_is_decoded_only_once() {
    reads("=?base64?PT9iYXNlNjQ/ZWNobz89?=", "=?base64?echo?=");
}

#[test]
fn the_empty_text_is_written_as_empty_base64() {
    assert_eq!(encode(""), "=?base64??=");
}

#[test]
fn an_inner_tab_is_written_as_base64() {
    assert_eq!(encode("a\tb"), "=?base64?YQli?=");
}

#[test]
fn a_text_with_both_markers_is_written_as_base64_even_when_they_overlap() {
    assert_eq!(encode("=?base64?=").as_ref(), "=?base64?PT9iYXNlNjQ/PQ==?=");
    assert_eq!(encode("=?base64??=").as_ref(), "=?base64?PT9iYXNlNjQ/Pz0=?=");
}

#[test]
fn a_text_with_one_marker_or_with_markers_in_another_case_is_written_as_it_is() {
    for text in ["=?base64?x", "x?=", "=?BASE64?x?="] {
        assert_eq!(encode(text), text);
    }
}

#[test]
fn an_error_says_what_to_send_and_repeats_nothing_of_the_value() {
    let error = decode("sécret".as_bytes()).unwrap_err().to_string();
    assert!(error.contains("0xC3 at offset 1") && error.contains("=?base64?"), "{error}");
    assert!(!error.contains("cret"), "{error}");
}

proptest! {
    #[test]
    fn any_text_survives_being_written_and_read(text in any::<String>()) {
        let field = encode(&text);
        prop_assert_eq!(decode(field.as_bytes()).unwrap(), text.as_str());
    }

    #[test]
    fn what_is_written_is_a_legal_header_value_without_edge_spaces(text in any::<String>()) {
        let field = encode(&text);
        prop_assert!(HeaderValue::from_str(&field).is_ok());
        prop_assert_eq!(trim_ows(field.as_bytes()), field.as_bytes());
    }

    #[test]
    fn no_bytes_make_reading_panic(field in any::<Vec<u8>>(), inner in any::<Vec<u8>>()) {
        let _ = decode(&field);
        let _ = decode(&[PREFIX.as_bytes(), &inner, SUFFIX.as_bytes()].concat());
    }

    #[test]
    fn no_two_encoded_fields_are_read_as_the_same_text(payload in "[A-Za-z0-9+/]{0,6}={0,2}") {
        let field = [PREFIX, &payload, SUFFIX].concat();
        if let Ok(text) = decode(field.as_bytes()) {
            prop_assert_eq!(STANDARD.encode_to_string(text.as_bytes()), payload);
        }
    }
}
