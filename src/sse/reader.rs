//! Takes an event stream apart, chunk by chunk.

use std::fmt;
use std::time::Duration;

use bytestring::ByteString;

/// A line buffer larger than this is given back once its line has been read.
const KEEP_LINE_CAPACITY: usize = 16 * 1024;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The name of the event; `None` is what the standard calls `message`.
    pub event: Option<ByteString>,
    /// The `data` lines, joined by line feeds.
    pub data: ByteString,
    /// The last id that the stream has set, by this event or an earlier one.
    pub id: Option<ByteString>,
}

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An event, or a line, is longer than the reader allows.
    TooLong,
    /// A line is not UTF-8.
    NotUtf8,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "an event of the stream is too long",
            Self::NotUtf8 => "the event stream is not valid UTF-8",
        })
    }
}

impl std::error::Error for Error {}

/// An incremental reader of Server-Sent Events.
///
/// Chunks may be split anywhere, inside characters and line ends too; the events do not depend on it. What stands
/// behind the last blank line is not an event yet, and is dropped with the reader.
#[derive(Debug)]
pub struct Reader {
    max_event_bytes: usize,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_cr: bool,
    /// No line has been read yet: the next may begin with a byte order mark.
    at_start: bool,
    /// `None` until the event has a `data` line, which may be empty.
    data: Option<String>,
    event: Option<ByteString>,
    id: Option<ByteString>,
    retry: Option<Duration>,
    failed: Option<Error>,
}

impl Reader {
    /// A reader at the start of a stream.
    ///
    /// It fails when the data of an event, together with the line being read, would be longer than
    /// `max_event_bytes`. That also bounds its memory.
    #[must_use]
    pub const fn new(max_event_bytes: usize) -> Self {
        Self {
            max_event_bytes,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            data: None,
            event: None,
            id: None,
            retry: None,
            failed: None,
        }
    }

    /// How long the stream asks to wait before reconnecting, if it does.
    #[must_use]
    pub const fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Reads the next bytes of the stream and appends the events that they complete to `events`.
    ///
    /// # Errors
    /// If the stream cannot be read on. The events before the fault have been appended; every later call fails
    /// in the same way.
    pub fn push(&mut self, chunk: &[u8], events: &mut impl Extend<Event>) -> Result<(), Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let read = self.read(chunk, events);
        if let Err(error) = read {
            self.failed = Some(error);
            self.line = Vec::new();
            self.data = None;
        }
        read
    }

    fn read(&mut self, mut rest: &[u8], events: &mut impl Extend<Event>) -> Result<(), Error> {
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|&byte| matches!(byte, b'\n' | b'\r'));
            let part = &rest[..end.unwrap_or(rest.len())];
            let held = self.data.as_ref().map_or(0, String::len) + self.line.len();
            if part.len() > self.max_event_bytes.saturating_sub(held) {
                return Err(Error::TooLong);
            }
            let Some(end) = end else {
                self.line.extend_from_slice(part);
                break;
            };
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            let done = if self.line.is_empty() {
                self.end_line(part)
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(part);
                let done = self.end_line(&line);
                if line.capacity() <= KEEP_LINE_CAPACITY {
                    line.clear();
                    self.line = line;
                }
                done
            };
            if let Some(event) = done? {
                events.extend([event]);
            }
        }
        Ok(())
    }

    /// Takes one line in; a blank one completes the event.
    fn end_line(&mut self, line: &[u8]) -> Result<Option<Event>, Error> {
        let mut line = std::str::from_utf8(line).map_err(|_| Error::NotUtf8)?;
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            let event = self.event.take();
            return Ok(self.data.take().map(|data| Event { event, data: data.into(), id: self.id.clone() }));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                None => self.data = Some(value.to_owned()),
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
            },
            "event" => self.event = (!value.is_empty()).then(|| value.into()),
            "id" if !value.contains('\0') => self.id = (!value.is_empty()).then(|| value.into()),
            // The standard takes digits only, and `parse` would also take a sign.
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                if let Ok(millis) = value.parse() {
                    self.retry = Some(Duration::from_millis(millis));
                }
            }
            // Comments have an empty field name; unknown fields are ignored alike.
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(chunks: &[&[u8]]) -> Result<Vec<Event>, Error> {
        let (mut reader, mut events) = (Reader::new(100), Vec::new());
        for chunk in chunks {
            reader.push(chunk, &mut events)?;
        }
        Ok(events)
    }

    fn data(stream: &str) -> Vec<String> {
        read(&[stream.as_bytes()]).unwrap().iter().map(|event| event.data.to_string()).collect()
    }

    #[test]
    fn every_line_end_is_one_line_end() {
        for end in ["\n", "\r", "\r\n"] {
            let stream = ["data: a", "data: b", "", "data: c", "", ""].join(end);
            assert_eq!(data(&stream), ["a\nb", "c"], "{end:?}");
        }
        assert_eq!(data("data: a\r\n\ndata: b\n\r\n"), ["a", "b"]);
        assert_eq!(data("data: a\r\r\ndata: b\n\r"), ["a", "b"]);
    }

    #[test]
    fn a_line_feed_belongs_to_the_carriage_return_of_the_chunk_before() {
        let events = read(&[b"data: a\r", b"\ndata: b\r", b"", b"\n\r", b"\n"]).unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].data, "a\nb");
    }

    #[test]
    fn an_event_without_its_blank_line_is_not_dispatched() {
        assert_eq!(data("data: a\n\ndata: b\n"), ["a"]);
        assert_eq!(data("data: a\n\ndata: b"), ["a"]);
    }

    #[test]
    fn the_examples_of_the_standard_are_read_as_it_says() {
        assert_eq!(data("data: YHOO\ndata: +2\ndata: 10\n\n"), ["YHOO\n+2\n10"]);
        assert_eq!(data("data\n\ndata\ndata\n\ndata:"), ["", "\n"]);
        assert_eq!(data("data:test\n\ndata: test\n\n"), ["test", "test"]);
        let stream =
            b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n";
        let events = read(&[stream]).unwrap();
        let ids: Vec<_> = events.iter().map(|event| event.id.as_deref()).collect();
        assert_eq!(ids, [Some("1"), None, None]);
        assert_eq!(events[2].data, " third event");
    }

    #[test]
    fn a_name_is_for_one_event_and_an_id_for_all_that_follow() {
        let events =
            read(&[b"event: x\nid: 7\ndata: a\n\ndata: b\n\nevent: y\n\nid: 8\0\ndata: c\n\n"]).unwrap();
        let seen: Vec<_> = events.iter().map(|e| (e.event.as_deref(), e.id.as_deref(), &*e.data)).collect();
        assert_eq!(seen, [(Some("x"), Some("7"), "a"), (None, Some("7"), "b"), (None, Some("7"), "c")]);
    }

    #[test]
    fn comments_and_unknown_fields_are_ignored() {
        assert_eq!(data(":\n: ping\nData: x\n data: x\nfoo\ndatax: y\ndata: a\n:b\n\n:\n\n"), ["a"]);
    }

    #[test]
    fn only_digits_are_a_retry() {
        let mut reader = Reader::new(100);
        let mut push = |line: &[u8]| {
            reader.push(line, &mut Vec::new()).unwrap();
            reader.retry()
        };
        for line in [&b"retry\n"[..], b"retry: +5\n", b"retry: 5s\n", b"retry: 99999999999999999999999\n"] {
            assert_eq!(push(line), None, "{line:?}");
        }
        assert_eq!(push(b"retry: 1500\n"), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn one_byte_order_mark_at_the_start_is_skipped() {
        assert_eq!(data("\u{feff}data: a\n\n"), ["a"]);
        let events = read(&[b"\xef", b"\xbb", b"\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n"]).unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(data("\u{feff}\u{feff}data: a\n\n"), [""; 0]);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_an_error_and_stay_one() {
        let (mut reader, mut events) = (Reader::new(100), Vec::new());
        assert_eq!(reader.push(b"data: a\n\ndata: \xff\n\ndata: b\n\n", &mut events), Err(Error::NotUtf8));
        assert_eq!(events.len(), 1);
        assert_eq!(reader.push(b"data: c\n\n", &mut events), Err(Error::NotUtf8));
        assert_eq!(events.len(), 1);
        assert_eq!(read(&[b": \xc3\n"]), Err(Error::NotUtf8));
        assert_eq!(read(&[b"data: \xc3", b"\xa9\n\n"]).unwrap()[0].data, "é");
    }

    #[test]
    fn an_event_may_be_as_long_as_allowed_and_no_longer() {
        let line = format!("data: {}", "x".repeat(94));
        assert_eq!(data(&format!("{line}\n\n{line}\n\n")).len(), 2);
        assert_eq!(read(&[format!("{line}x").as_bytes()]), Err(Error::TooLong));
        assert_eq!(read(&[line.as_bytes(), b"x"]), Err(Error::TooLong));
        // Each of a hundred empty lines adds a line feed.
        assert_eq!(read(&["data\n".repeat(200).as_bytes()]), Err(Error::TooLong));
        // Comments pass by and are not counted.
        assert_eq!(data(&format!("{}data: a\n\n", ": comment\n".repeat(100))), ["a"]);
    }

    #[test]
    fn a_long_line_costs_the_same_per_byte_when_it_comes_byte_by_byte() {
        const LEN: usize = 4 << 20;
        let (mut reader, mut events) = (Reader::new(LEN + 6), Vec::new());
        reader.push(b"data: ", &mut events).unwrap();
        for _ in 0..LEN {
            reader.push(b"x", &mut events).unwrap();
        }
        reader.push(b"\n\n", &mut events).unwrap();
        assert_eq!(events[0].data.len(), LEN);
        assert!(reader.line.capacity() <= KEEP_LINE_CAPACITY);
    }

    /// Mostly what means something to the reader, so that short streams are interesting.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let token = prop_oneof![
            4 => Just(b"\n".to_vec()),
            2 => Just(b"\r".to_vec()),
            2 => Just(b"\r\n".to_vec()),
            4 => Just(b"data: ".to_vec()),
            2 => Just(b"data".to_vec()),
            1 => Just(b"event: x".to_vec()),
            1 => Just(b"id: 1".to_vec()),
            1 => Just(b"retry: 1".to_vec()),
            1 => Just(b":".to_vec()),
            1 => Just("\u{feff}é".as_bytes().to_vec()),
            2 => "[a-c ]{0,30}".prop_map(String::into_bytes),
            1 => prop::collection::vec(any::<u8>(), 0..3),
        ];
        prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn the_events_do_not_depend_on_the_chunks(
            stream in stream(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        ) {
            let all = |chunks: &mut dyn Iterator<Item = &[u8]>| {
                let (mut reader, mut events) = (Reader::new(60), Vec::new());
                let mut failed = Ok(());
                for chunk in chunks {
                    failed = reader.push(chunk, &mut events);
                }
                (events, failed, reader.retry())
            };
            let whole = all(&mut std::iter::once(&stream[..]));
            prop_assert_eq!(&whole, &all(&mut stream.chunks(1)));
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            at.extend([0, stream.len()]);
            at.sort_unstable();
            prop_assert_eq!(&whole, &all(&mut at.windows(2).map(|pair| &stream[pair[0]..pair[1]])));
        }
    }
}
