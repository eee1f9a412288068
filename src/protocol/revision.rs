//! The revisions of the protocol.

use std::fmt;

use http::Request;

use super::meta;
use super::method;
use crate::message::Message;

/// A published revision of MCP.
///
/// ```
/// use mcp_layers::protocol::{Era, Revision};
///
/// assert_eq!(Revision::from_text("2026-07-28"), Some(Revision::V2026_07_28));
/// assert_eq!(Revision::from_text("2099-01-01"), None);
/// assert_eq!(Revision::V2025_11_25.era(), Era::Legacy);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Revision {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25
    V2025_11_25,
    /// 2026-07-28
    V2026_07_28,
}

/// How a revision opens: with a handshake or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// 2025-11-25 and earlier: `initialize`, sessions, requests from the server.
    Legacy,
    /// 2026-07-28 and later: every request stands alone and says what it is in `_meta`.
    Modern,
}

/// The notation of methods that exist in some revisions only; in the order of the enumeration.
const LEGACY_ONLY: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
const ALWAYS: [&str; 8] = [
    method::COMPLETION_COMPLETE,
    method::PROMPTS_GET,
    method::PROMPTS_LIST,
    method::RESOURCES_LIST,
    method::RESOURCES_READ,
    method::RESOURCES_TEMPLATES_LIST,
    method::TOOLS_CALL,
    method::TOOLS_LIST,
];
const MODERN_ONLY: [&str; 2] = [method::SERVER_DISCOVER, method::SUBSCRIPTIONS_LISTEN];
const SERVER_TO_CLIENT: [&str; 3] = ["sampling/createMessage", "roots/list", "elicitation/create"];

impl Revision {
    /// All revisions, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The revision that is written `text`; only exact matches count.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    /// The revision as it is written on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Which era the revision belongs to.
    #[must_use]
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
    }

    /// The revision that a request speaks: what `_meta` says, unless the extensions say something else. Behind
    /// [`VersionLayer`](crate::layers::VersionLayer) it is one that the server supports.
    #[must_use]
    pub fn of(request: &Request<Message>) -> Option<Self> {
        let found = request.extensions().get().copied();
        found.or_else(|| {
            let named = request.body().meta()?.get(meta::PROTOCOL_VERSION)?;
            Self::ALL.into_iter().rev().find(|revision| named.is_str(revision.as_str()))
        })
    }

    /// Whether a revision defines a request of this name, sent by clients or by servers.
    ///
    /// ```
    /// use mcp_layers::protocol::Revision;
    ///
    /// assert!(Revision::defines("tools/call") && Revision::defines("ping") && Revision::defines("roots/list"));
    /// assert!(!Revision::defines("com.example/receipts/print"));
    /// ```
    #[must_use]
    pub fn defines(method: &str) -> bool {
        [&ALWAYS[..], &MODERN_ONLY, &LEGACY_ONLY, &SERVER_TO_CLIENT]
            .iter()
            .any(|names| names.contains(&method))
    }

    /// Whether a client may send a request of this method in this revision.
    ///
    /// Methods that no revision defines belong to extensions or applications: they are nobody's to refuse
    /// here, and the answer is true.
    #[must_use]
    pub fn has_request(self, method: &str) -> bool {
        if ALWAYS.contains(&method) {
            return true;
        }
        let modern = self.era() == Era::Modern;
        if MODERN_ONLY.contains(&method) {
            return modern;
        }
        if LEGACY_ONLY.contains(&method) {
            return !modern;
        }
        !SERVER_TO_CLIENT.contains(&method)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_text_names_a_revision() {
        for revision in Revision::ALL {
            assert_eq!(Revision::from_text(revision.as_str()), Some(revision));
        }
        for text in ["", "2026-07-28 ", "2026-7-28", "banana", "1900-01-01", "2099-01-01", "DRAFT-2026-v1"] {
            assert_eq!(Revision::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn the_handshake_and_its_companions_are_legacy_only() {
        for method in LEGACY_ONLY {
            assert!(Revision::V2025_11_25.has_request(method), "{method}");
            assert!(!Revision::V2026_07_28.has_request(method), "{method}");
        }
    }

    #[test]
    fn discovery_and_listening_are_modern_only() {
        for method in MODERN_ONLY {
            assert!(!Revision::V2025_11_25.has_request(method), "{method}");
            assert!(Revision::V2026_07_28.has_request(method), "{method}");
        }
    }

    #[test]
    fn a_client_never_sends_what_servers_ask() {
        for revision in Revision::ALL {
            for method in SERVER_TO_CLIENT {
                assert!(!revision.has_request(method), "{revision} {method}");
            }
        }
    }

    #[test]
    fn what_no_revision_defines_is_not_refused() {
        assert!(Revision::V2026_07_28.has_request("com.example/do"));
        assert!(Revision::V2026_07_28.has_request("tasks/get"));
    }
}
