#[cfg(feature = "cache")]
mod edits;

use super::*;

#[test]
fn what_nobody_edited_is_written_as_it_was() {
    let text = r#"{ "a" : 1.0, "b": [1e2 , "\u0041"] }"#;
    assert_eq!(RawObject::parse(text).unwrap().to_string(), text);
}

#[test]
fn an_edit_leaves_the_other_members_as_they_were() {
    let mut object = RawObject::parse(r#"{ "a" : 1.0, "b\n": 18446744073709551616 , "c": 3}"#).unwrap();
    object.set("a", &[1]).unwrap();
    assert!(object.remove("c"));
    assert!(!object.remove("c"));
    object.set_raw("d", Raw("1e2"));
    assert_eq!(object.to_string(), r#"{"a":[1],"b\n":18446744073709551616,"d":1e2}"#);
    assert_eq!(object.len(), 3);
}

#[test]
fn many_members_are_removed_in_one_pass() {
    let all: Vec<_> = (0..100_000).map(|n| format!("\"{n}\":{n}")).collect();
    let mut object = RawObject::parse(format!("{{{}}}", all.join(", "))).unwrap();
    let mut looked_at = 0;
    let removed = object.retain(|name, value| {
        looked_at += 1;
        name == "7" || value.text() == "9"
    });
    assert!(removed);
    assert_eq!((object.to_string().as_str(), looked_at), (r#"{"7":7,"9":9}"#, 100_000));
    assert!(!object.retain(|_, _| true));
}

#[cfg(feature = "cache")]
#[test]
fn a_number_is_written_with_its_digits() {
    let mut object = RawObject::parse(r#"{"a":"x"}"#).unwrap();
    for number in [0, 7, 10, 86_400_000, u64::MAX] {
        object.set_number("a", number);
        assert_eq!(object.get("a").unwrap().text(), number.to_string());
        assert_eq!(object.get_shared("a").unwrap(), number.to_string());
    }
}

#[test]
fn a_name_that_comes_twice_is_refused_however_it_is_spelled() {
    let twice = |text: &str| RawObject::parse(text.to_owned()).unwrap_err();
    assert_eq!(twice(r#"{"a":1,"b":2,"a":1}"#), NotAnObject::Duplicate("a".to_owned()));
    assert_eq!(twice(r#"{"a":1,"\u0061":1}"#), NotAnObject::Duplicate("a".to_owned()));
    let many: Vec<_> = (0..40).map(|n| format!("\"{n}\":0")).collect();
    assert!(RawObject::parse(format!("{{{}}}", many.join(","))).is_ok());
    assert_eq!(twice(&format!("{{{},\"7\":1}}", many.join(","))), NotAnObject::Duplicate("7".to_owned()));
}

#[test]
fn what_is_not_an_object_says_so() {
    assert_eq!(RawObject::parse("[]").unwrap_err(), NotAnObject::OtherKind);
    assert!(matches!(RawObject::parse("{").unwrap_err(), NotAnObject::Syntax(_)));
    assert!(matches!(RawObject::parse("{} {}").unwrap_err(), NotAnObject::Syntax(_)));
}

#[test]
fn a_member_is_opened_without_a_copy() {
    let object = RawObject::parse(r#"{"a": {"b": [1]}, "c": 1}"#).unwrap();
    let inner = object.object("a").unwrap().unwrap();
    assert_eq!(inner.get("b").unwrap().text(), "[1]");
    assert_eq!(inner.source.as_ptr(), object.get("a").unwrap().text().as_ptr());
    assert_eq!(object.object("c").unwrap().unwrap_err(), NotAnObject::OtherKind);
    assert!(object.object("d").is_none());
}
