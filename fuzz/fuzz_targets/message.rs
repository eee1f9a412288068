//! `cargo fuzz run message`: any body is parsed or refused, and what is parsed is what `serde_json` reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_layers::message::Message;
use serde_json::Value;

fuzz_target!(|body: &[u8]| {
    let theirs = serde_json::from_slice::<Value>(body);
    let Ok(message) = Message::parse(body.to_vec()) else { return };
    assert_eq!(message.bytes(), body);

    // Numbers beyond `f64` are JSON, but no `Value`; all else that we accept, they do too.
    let theirs = match theirs {
        Err(error) if error.to_string().starts_with("number out of range") => return,
        other => other.expect("is JSON"),
    };
    assert_eq!(theirs["method"], message.method());
    assert_eq!(theirs.get("id").is_some(), message.id().is_some());
    if let Some(params) = message.params() {
        assert_eq!(theirs["params"].as_object().map(serde_json::Map::len), Some(params.len()));
        for (name, value) in params.iter() {
            assert_eq!(value.decode::<Value>().expect("is JSON"), theirs["params"][name]);
            let _ = (value.elements().count(), value.members().count());
        }
    }

    let mut edited = message.clone();
    edited.edit_params(|params| params.set("edited", &true).expect("is JSON")).expect("`_meta` is still an object");
    let again = Message::parse(edited.bytes()).expect("what we write we read");
    assert_eq!((again.method(), again.id()), (message.method(), message.id()));
});
