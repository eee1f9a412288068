//! A result that is kept.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use serde::{Deserialize, Serialize};

use super::CacheKey;
use crate::clock::Timestamp;
use crate::message::{Answer, RawObject, RequestId};

/// The first line of an encoded entry. Another layout gets another number, and is then not mistaken for this one.
const MAGIC: &str = "mcp-layers cache entry 1\n";

/// A result that is kept, with what must be known to judge whether it may be served. Cheap to clone.
#[derive(Clone)]
pub struct Entry(Arc<Inner>);

struct Inner {
    key: CacheKey,
    result: RawObject,
    stamp: Stamp,
    /// The length of the result's text.
    length: usize,
}

/// When and under what circumstances a result came.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// When the request went out, in milliseconds since 1970.
    pub(crate) requested: u64,
    /// When the result came.
    pub(crate) received: u64,
    /// For how long it was fresh from then on, in milliseconds.
    pub(crate) ttl: u64,
    /// Which cache put it there.
    pub(crate) writer: u64,
    /// How often that cache had been told of changes when the request went out.
    pub(crate) generation: u64,
}

/// Goes before the text of the result.
#[derive(Serialize, Deserialize)]
struct Header {
    key: String,
    #[serde(flatten)]
    stamp: Stamp,
}

/// Bytes that are not an entry, or not the one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEntry(&'static str);

impl fmt::Display for BadEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadEntry {}

impl Entry {
    pub(crate) fn new(key: CacheKey, stamp: Stamp, result: RawObject) -> Self {
        Self(Arc::new(Inner { key, length: result.written_len(), result, stamp }))
    }

    /// What it is found by.
    #[must_use]
    pub fn key(&self) -> &CacheKey {
        &self.0.key
    }

    /// The result as it came, without what belonged to the one response that it came in.
    #[must_use]
    pub fn result(&self) -> &RawObject {
        &self.0.result
    }

    /// When the result came.
    #[must_use]
    pub fn received(&self) -> Timestamp {
        Timestamp::from_millis(self.0.stamp.received)
    }

    /// For how long it was fresh from then on.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.0.stamp.ttl)
    }

    pub(crate) fn stamp(&self) -> &Stamp {
        &self.0.stamp
    }

    /// About how many bytes it takes, key included.
    #[must_use]
    pub fn size(&self) -> usize {
        // Stores keep the key beside the entry and perhaps in an index; what is counted for each entry and member is
        // what the structures around the texts take.
        self.0.length + 3 * self.0.key.size() + 96 * self.0.result.len() + 256
    }

    /// The answer to a request `id` which may keep it for another `remaining`. The result is not copied.
    pub(crate) fn answer(&self, id: Option<RequestId>, remaining: Duration) -> Answer {
        let mut result = self.0.result.clone();
        result.set_number("ttlMs", u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX));
        Answer::result(id, result)
    }

    /// The entry as bytes, for a store outside of this process.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let header = Header { key: hex(&self.0.key.digest()), stamp: self.0.stamp };
        let header = serde_json::to_string(&header).unwrap_or_default();
        let result = self.0.result.to_string();
        let mut out = String::with_capacity(MAGIC.len() + header.len() + 1 + result.len());
        out.push_str(MAGIC);
        out.push_str(&header);
        out.push('\n');
        out.push_str(&result);
        out.into()
    }

    /// Reads what [`encode`](Self::encode) wrote for an entry under `key`.
    ///
    /// # Errors
    /// If `bytes` are something else, are damaged, or are an entry under another key.
    pub fn decode(key: &CacheKey, bytes: impl Into<Bytes>) -> Result<Self, BadEntry> {
        let text = ByteString::try_from(bytes.into()).map_err(|_| BadEntry("it is not UTF-8"))?;
        let rest = text.strip_prefix(MAGIC).ok_or(BadEntry("it does not begin like an entry"))?;
        let (header, result) = rest.split_once('\n').ok_or(BadEntry("it ends early"))?;
        let header: Header =
            serde_json::from_str(header).map_err(|_| BadEntry("its header cannot be read"))?;
        if header.key != hex(&key.digest()) {
            return Err(BadEntry("it belongs to another key"));
        }
        let result = RawObject::parse(text.slice_ref(result))
            .map_err(|_| BadEntry("its result is not a JSON object"))?;
        Ok(Self::new(key.detached(), header.stamp, result))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut out, byte| {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

impl fmt::Debug for Entry {
    /// What it says may be private.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.0.key)
            .field("received", &self.received())
            .field("ttl", &self.ttl())
            .field("length", &self.0.length)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::contract::{entry, key};
    use super::*;

    #[test]
    fn an_entry_survives_encoding() {
        let stored = entry(&key("a", "tools/list", None, None), r#"{"tools":["\n",1.0]}"#);
        let read = Entry::decode(stored.key(), stored.encode()).unwrap();
        assert_eq!(read.result().to_string(), stored.result().to_string());
        assert_eq!((read.received(), read.ttl()), (stored.received(), stored.ttl()));
        assert_eq!(read.key(), stored.key());
        assert_eq!(read.size(), stored.size());
    }

    #[test]
    fn garbage_is_told_from_an_entry() {
        let stored = entry(&key("a", "tools/list", None, None), "{}");
        let good = stored.encode();
        let bad = |bytes: &[u8]| Entry::decode(stored.key(), bytes.to_vec()).unwrap_err().to_string();
        for end in 0..good.len() {
            bad(&good[..end]);
        }
        assert_eq!(bad(b"\xff"), "it is not UTF-8");
        assert_eq!(bad(b"{}"), "it does not begin like an entry");
        let text = String::from_utf8(good.to_vec()).unwrap();
        assert_eq!(bad(text.replace("\n{}", "\n[]").as_bytes()), "its result is not a JSON object");
        assert_eq!(bad(text.replace("\"ttl\":", "\"ttl\":-").as_bytes()), "its header cannot be read");
        let other = key("b", "tools/list", None, None);
        assert_eq!(Entry::decode(&other, good).unwrap_err(), BadEntry("it belongs to another key"));
    }
}
