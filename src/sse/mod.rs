//! Writes and reads Server-Sent Events.
//!
//! This module is public only so that the fuzz targets reach it: it is no part of the crate's promise and may
//! change in any release.
//!
//! # Rules
//! 1. One message is one event named `message` with one `data` line, whatever line breaks its JSON holds
//!    (`basic/transports/streamable-http`, "Receiving Messages"). Line breaks in valid JSON stand only between
//!    tokens, where they mean nothing, so the writer leaves them out.
//! 2. A comment keeps an idle stream alive; readers ignore it.
//! 3. The [`Reader`] follows the HTML standard, "Server-sent events", "Interpreting an event stream", but for two
//!    points where that standard is made for browsers: bytes that are not UTF-8 are an error instead of being
//!    replaced, and an event has a largest size.
//!
//! # Example
//! ```
//! use mcp_layers::sse::{Reader, write_event};
//!
//! let mut text = String::new();
//! write_event(&mut text, |out| out.push_str("{\"n\":\n1}"));
//! assert_eq!(text, "event: message\ndata: {\"n\":1}\n\n");
//!
//! let (mut reader, mut events) = (Reader::new(1024), Vec::new());
//! for byte in text.bytes() {
//!     reader.push(&[byte], &mut events)?;
//! }
//! assert_eq!(events.len(), 1);
//! assert_eq!(events[0].data, "{\"n\":1}");
//! # Ok::<(), mcp_layers::sse::Error>(())
//! ```

mod reader;

pub use reader::{Error, Event, Reader};

/// What an idle stream says from time to time.
pub(crate) const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

const BEFORE: &str = "event: message\ndata: ";
const AFTER: &str = "\n\n";

/// How many bytes an event has beside its JSON.
pub(crate) const EVENT_OVERHEAD: usize = BEFORE.len() + AFTER.len();

/// Appends one event to `out`. `write_json` appends its JSON, and nothing but valid JSON.
pub fn write_event(out: &mut String, write_json: impl FnOnce(&mut String)) {
    out.push_str(BEFORE);
    let start = out.len();
    write_json(out);
    // Twice `contains` for a single byte is faster than one loop that compares each byte with both.
    let json = &out.as_bytes()[start..];
    let broken = json.contains(&b'\n') || json.contains(&b'\r');
    if broken {
        let json = out.split_off(start);
        out.extend(json.split(['\n', '\r']));
    }
    out.push_str(AFTER);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(json: &str) -> String {
        let mut out = String::new();
        write_event(&mut out, |out| out.push_str(json));
        out
    }

    #[test]
    fn an_event_stays_one_event_whatever_line_breaks_its_json_holds() {
        for json in ["{\n\"a\"\r:\r\n[1,\n\n2]}", "\n{\"a\":[1,2]}", "{\"a\":[1,2]}\r\n\r\n"] {
            let text = written(json);
            assert_eq!(text, "event: message\ndata: {\"a\":[1,2]}\n\n", "{json:?}");
            assert_eq!(text.len(), "{\"a\":[1,2]}".len() + EVENT_OVERHEAD);
        }
    }

    #[test]
    fn other_white_space_and_line_separators_inside_strings_are_kept() {
        let json = "{ \"a\\n\":\t\"\u{2028}\u{85}\" }";
        assert_eq!(written(json), format!("event: message\ndata: {json}\n\n"));
    }

    #[test]
    fn a_keep_alive_comment_is_no_event() {
        let mut events = Vec::new();
        let mut reader = Reader::new(64);
        reader.push(KEEP_ALIVE, &mut events).unwrap();
        reader.push(written("1").as_bytes(), &mut events).unwrap();
        reader.push(KEEP_ALIVE, &mut events).unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].event.as_deref(), Some("message"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            messages in prop::collection::vec(any::<String>(), 0..8),
            pretty: bool,
            chunk in 1_usize..40,
        ) {
            let mut text = String::new();
            for message in &messages {
                let value = serde_json::json!({ "text": message, "n": [1, 2] });
                let json = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
                write_event(&mut text, |out| out.push_str(&json.unwrap()));
            }
            let (mut reader, mut events) = (Reader::new(1 << 20), Vec::new());
            for bytes in text.as_bytes().chunks(chunk) {
                reader.push(bytes, &mut events).unwrap();
            }
            let read: Vec<String> = events
                .iter()
                .map(|event| serde_json::from_str::<serde_json::Value>(&event.data).unwrap()["text"].as_str().unwrap().to_owned())
                .collect();
            prop_assert_eq!(read, messages);
        }
    }
}
