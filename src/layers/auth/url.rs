//! URLs, read strictly and never rewritten.

use crate::layers::origin::address::Address;

/// An absolute URL, taken apart but not changed.
pub(super) struct Url<'a> {
    scheme: &'a str,
    /// Scheme and authority.
    pub(super) origin: &'a str,
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    is_local: bool,
}

impl<'a> Url<'a> {
    /// `None` if it is not an `http` or `https` URL, or has a user, a fragment or characters that no URL has.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
            || !rest.bytes().all(|byte| matches!(byte, b'!'..=b'~') && !b"\"#<>\\^`{|}".contains(&byte))
        {
            return None;
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let address = Address::parse(&rest[..end])?;
        let (path, query) = match rest[end..].split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (&rest[end..], None),
        };
        let origin = &text[..text.len() - rest.len() + end];
        Some(Self { scheme, origin, path, query, is_local: address.host.is_local() })
    }

    /// Whether what travels there can be neither read nor changed on the way.
    pub(super) fn is_safe(&self) -> bool {
        self.scheme.eq_ignore_ascii_case("https") || self.is_local
    }
}
