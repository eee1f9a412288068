//! Edits of any kind in any order, against a plain list of members.

use proptest::prelude::*;

use super::*;
use crate::message::{Answer, RequestId};

/// A change of an object.
#[derive(Clone, Debug)]
enum Edit {
    Number(&'static str, u64),
    Raw(&'static str, &'static str),
    Remove(&'static str),
    Front(&'static str),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let name = proptest::sample::select(&["a", "b", "c\n", "d"][..]);
    let value = proptest::sample::select(&["1.0", "{\"x\": [1]}", "\"}\""][..]);
    let edit = prop_oneof![
        (name.clone(), 0_u64..3_000_000).prop_map(|(name, number)| Edit::Number(name, number)),
        (name.clone(), value).prop_map(|(name, value)| Edit::Raw(name, value)),
        name.clone().prop_map(Edit::Remove),
        name.prop_map(Edit::Front),
    ];
    proptest::collection::vec(edit, 0..5)
}

proptest! {
    #[test]
    fn edits_do_to_an_object_what_they_do_to_a_list_of_members(
        order in Just(vec![("\"a\"", "a"), ("\"b\" ", "b"), ("\"c\\n\"", "c\n"), ("\"e\"", "e")]).prop_shuffle(),
        count in 0_usize..5,
        around in proptest::sample::select(&[("", ""), ("{\"result\":", "}"), ("[", ", 1]")][..]),
        edits in edits(),
        at_least in 1_usize..20,
    ) {
        let members = &order[..count];
        let text: Vec<_> = members.iter().map(|(name, _)| format!(" {name}:\t[1.0, {name}]")).collect();
        let mut model: Vec<_> =
            members.iter().map(|(name, decoded)| ((*decoded).to_owned(), format!("[1.0, {name}]"))).collect();
        let text = format!("{{{} }}", text.join(","));
        let source = ByteString::from(format!("{}{text}{}", around.0, around.1));
        let start = around.0.len();
        let mut object = RawObject::parse(source.slice_ref(&source[start..start + text.len()])).unwrap();
        if around.1 == "}" {
            // As if it had been read from inside of an answer.
            object = RawObject::on(source.clone());
            object.read(&mut scanner_at(&source, start), 1, usize::MAX, |_, _| Ok(None)).unwrap();
        }
        for edit in &edits {
            let place = |name: &str| model.iter().position(|(other, _)| other == name);
            match *edit {
                Edit::Number(name, number) => {
                    object.set_number(name, number);
                    put(&mut model, name, &number.to_string());
                }
                Edit::Raw(name, value) => {
                    object.set_raw(name, Raw(value));
                    put(&mut model, name, value);
                }
                Edit::Remove(name) => {
                    prop_assert_eq!(object.remove(name), place(name).is_some());
                    model.retain(|(other, _)| other != name);
                }
                Edit::Front(name) => {
                    object = object.detached(name).unwrap();
                    if let Some(at) = place(name) {
                        model[..=at].rotate_right(1);
                    }
                }
            }
            let found: Vec<_> = object.iter().map(|(name, value)| (name.to_owned(), value.text().to_owned())).collect();
            prop_assert_eq!(&found, &model);
            for (name, value) in &model {
                prop_assert_eq!(object.get(name).map(Raw::text), Some(value.as_str()));
                let shared = object.get_shared(name);
                prop_assert_eq!(shared.as_deref(), Some(value.as_str()));
            }
        }
        let written = object.to_string();
        if edits.is_empty() {
            prop_assert_eq!(&written, &text);
        }
        let read = RawObject::parse(written.clone()).unwrap();
        let read: Vec<_> = read.iter().map(|(name, value)| (name.to_owned(), value.text().to_owned())).collect();
        prop_assert_eq!(&read, &model);
        if !written.contains('\\') {
            prop_assert_eq!(written.len(), object.written_len());
        }
        // A piece that is given away belongs where it is said to.
        if let Some(Piece { place, text, closes }) = object.longest(at_least) {
            let mut around = String::new();
            let gap = object.write_around(Some(place), &mut around);
            let piece = if closes { text.strip_suffix('}').unwrap() } else { &text };
            around.insert_str(gap, piece);
            prop_assert_eq!(&around, &written);
            prop_assert!(text.len() >= at_least);
        }
        let answer = Answer::result(Some(RequestId::from(7)), object);
        prop_assert_eq!(answer.to_string(), format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{written}}}"));
    }
}

/// A scanner that stands at `start`.
fn scanner_at(text: &str, start: usize) -> Scanner<'_> {
    let mut scanner = Scanner::new(text);
    for _ in 0..start {
        scanner.pass();
    }
    scanner
}

fn put(model: &mut Vec<(String, String)>, name: &str, value: &str) {
    match model.iter_mut().find(|(other, _)| other == name) {
        Some((_, old)) => value.clone_into(old),
        None => model.push((name.to_owned(), value.to_owned())),
    }
}
