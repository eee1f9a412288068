//! What must hold for any input. Fuzzing runs it on new inputs, the tests on those that fuzzing has found interesting.

use std::sync::LazyLock;

use mcp_layers::layers::request_state::{Binding, StateKey, StateKeys, StateSealer};
use mcp_layers::message::Message;
use mcp_layers::protocol::mirror::{ParamKind, decode, encode, matches};
use mcp_layers::sse::{Error, Event, Reader, write_event};
use serde_json::Value;

/// Any body is parsed or refused, and what is parsed is what `serde_json` reads.
pub(crate) fn message(body: &[u8]) {
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
    edited
        .edit_params(|params| params.set("edited", &true).expect("is JSON"))
        .expect("`_meta` is still an object");
    let again = Message::parse(edited.bytes()).expect("what we write we read");
    assert_eq!((again.method(), again.id()), (message.method(), message.id()));
}

static SEALER: LazyLock<StateSealer> = LazyLock::new(|| {
    let key = StateKey::new(&[7; 32]).expect("32 bytes");
    StateSealer::new(StateKeys::new([key]).expect("one key"), "fuzz")
});

/// No text opens that was not sealed, nor one that was and then changed; no arguments make binding to them fail badly.
///
/// The input is what to change and how, in three bytes, then the arguments, and on a line of its own the text.
pub(crate) fn open_state(input: &[u8]) {
    let Some((&[high, low, flip], input)) = input.split_first_chunk() else { return };
    let Ok(input) = std::str::from_utf8(input) else { return };
    let (arguments, text) = input.split_once('\n').unwrap_or(("{}", input));
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
    );
    let Ok(message) = Message::parse(body) else { return };
    let Ok(binding) = Binding::new(&message, None) else { return };
    assert!(SEALER.open(text, &binding).is_err());

    let Ok(sealed) = SEALER.seal(text, &binding, None) else { return };
    assert_eq!(SEALER.open(&sealed, &binding).expect("was just sealed").state, text);

    let mut changed = sealed.into_bytes();
    let at = usize::from(u16::from_be_bytes([high, low])) % changed.len();
    changed[at] ^= flip;
    if let (true, Ok(changed)) = (flip != 0, String::from_utf8(changed)) {
        assert!(SEALER.open(&changed, &binding).is_err());
    }
}

/// Any header value is decoded or refused, and what is encoded decodes to itself.
pub(crate) fn sentinel(field: &[u8]) {
    if let Ok(text) = decode(field) {
        assert_eq!(decode(encode(&text).as_bytes()).as_deref(), Ok(&*text));
    }
    if let Ok(text) = std::str::from_utf8(field) {
        assert_eq!(decode(encode(text).as_bytes()).as_deref(), Ok(text));
    }
    // The first line is a header, the second a JSON value.
    let mut lines = field.splitn(2, |byte| *byte == b'\n');
    let (header, body) = (lines.next(), lines.next().and_then(|line| std::str::from_utf8(line).ok()));
    if let Some(body) = body {
        let is_value =
            serde_json::from_str::<&serde_json::value::RawValue>(body).is_ok_and(|raw| raw.get() == body);
        if is_value {
            for kind in [ParamKind::String, ParamKind::Integer, ParamKind::Boolean] {
                let _ = matches(kind, Some(body), header);
            }
        }
    }
}

/// Any stream is read or refused, and how it is cut into chunks makes no difference.
pub(crate) fn sse(input: &[u8]) {
    let Some((&size, stream)) = input.split_first() else { return };
    let whole = read(std::iter::once(stream));
    assert_eq!(read(stream.chunks(usize::from(size).max(1))), whole);
    assert_eq!(read(stream.chunks(1)), whole);
    for event in whole.0 {
        // What we write ourselves is one line of JSON.
        let text = serde_json::Value::from(&*event.data).to_string();
        let mut written = String::new();
        write_event(&mut written, |out| out.push_str(&text));
        let mut reader = Reader::new(1 << 20);
        let mut again = Vec::new();
        reader.push(written.as_bytes(), &mut again).expect("is short");
        assert_eq!(again.iter().map(|event| &*event.data).collect::<Vec<_>>(), [text.as_str()]);
    }
}

fn read<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<Event>, Result<(), Error>) {
    let mut reader = Reader::new(64);
    let mut events = Vec::new();
    for chunk in chunks {
        if let Err(error) = reader.push(chunk, &mut events) {
            return (events, Err(error));
        }
    }
    (events, Ok(()))
}
