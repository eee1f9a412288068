//! `cargo fuzz run sentinel`: any header value is decoded or refused, and what is encoded decodes to itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_layers::protocol::mirror::{ParamKind, decode, encode, matches};

fuzz_target!(|field: &[u8]| {
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
        if serde_json::from_str::<&serde_json::value::RawValue>(body).is_ok_and(|raw| raw.get() == body) {
            for kind in [ParamKind::String, ParamKind::Integer, ParamKind::Boolean] {
                let _ = matches(kind, Some(body), header);
            }
        }
    }
});
