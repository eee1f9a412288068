//! `cargo fuzz run sse`: any stream is read or refused, and how it is cut into chunks makes no difference.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_layers::sse::{Error, Event, Reader, write_event};

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

fuzz_target!(|input: &[u8]| {
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
});
