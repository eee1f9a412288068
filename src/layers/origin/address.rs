//! Reads hosts, authorities and origins strictly.
//!
//! `http::uri::Authority` reads `127.0.0.1:80.evil.com` as the host `127.0.0.1`, and other readers fold `0x7f.1`,
//! `localhost.` or `[::ffff:127.0.0.1]` into something else than was written. Here text has one reading or none.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A host. Names compare without case, addresses as numbers.
#[derive(Clone, Copy, Debug)]
pub(in crate::layers) enum Host<N> {
    Name(N),
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl<N: AsRef<str>> Host<N> {
    pub(in crate::layers) fn same<M: AsRef<str>>(&self, other: &Host<M>) -> bool {
        match (self, other) {
            (Self::Name(this), Host::Name(other)) => this.as_ref().eq_ignore_ascii_case(other.as_ref()),
            (Self::V4(this), Host::V4(other)) => this == other,
            (Self::V6(this), Host::V6(other)) => this == other,
            _ => false,
        }
    }

    pub(in crate::layers) fn is_local(&self) -> bool {
        match self {
            Self::Name(name) => name.as_ref().eq_ignore_ascii_case("localhost"),
            Self::V4(address) => *address == Ipv4Addr::LOCALHOST,
            Self::V6(address) => *address == Ipv6Addr::LOCALHOST,
        }
    }
}

impl Host<&str> {
    fn owned(self) -> Host<String> {
        match self {
            Self::Name(name) => Host::Name(name.to_ascii_lowercase()),
            Self::V4(address) => Host::V4(address),
            Self::V6(address) => Host::V6(address),
        }
    }
}

impl<N: AsRef<str>> fmt::Display for Host<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name.as_ref()),
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => write!(f, "[{address}]"),
        }
    }
}

/// `host [":" port]`, as in `Host` and `:authority`.
#[derive(Clone, Copy, Debug)]
pub(in crate::layers) struct Address<N> {
    pub(in crate::layers) host: Host<N>,
    pub(in crate::layers) port: Option<u16>,
}

impl<'a> Address<&'a str> {
    pub(in crate::layers) fn parse(text: &'a str) -> Option<Self> {
        let (host, rest) = if let Some(rest) = text.strip_prefix('[') {
            let (address, rest) = rest.split_once(']')?;
            (Host::V6(address.parse().ok()?), rest)
        } else {
            let end = text.find(':').unwrap_or(text.len());
            (name_or_v4(&text[..end])?, &text[end..])
        };
        let port = match rest.strip_prefix(':') {
            Some(digits) => Some(port(digits)?),
            None if rest.is_empty() => None,
            None => return None,
        };
        Some(Self { host, port })
    }

    pub(in crate::layers) fn owned(self) -> Address<String> {
        Address { host: self.host.owned(), port: self.port }
    }
}

fn name_or_v4(text: &str) -> Option<Host<&str>> {
    if text.len() > 253 {
        return None;
    }
    // The length of the label that is being read.
    let mut label = 0;
    for byte in text.bytes() {
        match byte {
            b'.' if label > 0 => label = 0,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' if label < 63 => label += 1,
            _ => return None,
        }
    }
    if label == 0 {
        return None;
    }
    // What ends in a number is an address to a browser, however it is spelled; only the plain spelling is one here.
    let last = &text.as_bytes()[text.len() - label..];
    let hexadecimal = matches!(last, [b'0', b'x' | b'X', _, ..]);
    if last.iter().all(u8::is_ascii_digit) || hexadecimal {
        return text.parse().ok().map(Host::V4);
    }
    Some(Host::Name(text))
}

/// A port in its one spelling: 1 to 65535, no leading zero.
fn port(digits: &str) -> Option<u16> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    plain.then(|| digits.parse().ok()).flatten()
}

/// The port that is meant where none is written.
pub(in crate::layers) fn default_port(scheme: &str) -> Option<u16> {
    if scheme.eq_ignore_ascii_case("http") {
        Some(80)
    } else if scheme.eq_ignore_ascii_case("https") {
        Some(443)
    } else {
        None
    }
}

/// `scheme "://" host [":" port]`, as in `Origin`.
#[derive(Clone, Copy, Debug)]
pub(in crate::layers) struct Origin<N> {
    pub(in crate::layers) scheme: N,
    /// The port is the scheme's default where none was written.
    pub(in crate::layers) address: Address<N>,
}

impl<'a> Origin<&'a str> {
    pub(in crate::layers) fn parse(text: &'a str) -> Option<Self> {
        let (scheme, address) = text.split_once("://")?;
        let fine = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        if !fine || !scheme.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return None;
        }
        let mut address = Address::parse(address)?;
        address.port = address.port.or(default_port(scheme));
        Some(Self { scheme, address })
    }

    pub(in crate::layers) fn owned(self) -> Origin<String> {
        Origin { scheme: self.scheme.to_ascii_lowercase(), address: self.address.owned() }
    }
}

impl<N: AsRef<str>> Origin<N> {
    pub(in crate::layers) fn same<M: AsRef<str>>(&self, other: &Origin<M>) -> bool {
        self.scheme.as_ref().eq_ignore_ascii_case(other.scheme.as_ref())
            && self.address.port == other.address.port
            && self.address.host.same(&other.address.host)
    }

    /// An http or https page of this machine, on any port.
    pub(in crate::layers) fn is_local(&self) -> bool {
        default_port(self.scheme.as_ref()).is_some() && self.address.host.is_local()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> Option<String> {
        let address = Address::parse(text)?.owned();
        Some(match address.port {
            Some(port) => format!("{}:{port}", address.host),
            None => address.host.to_string(),
        })
    }

    #[test]
    fn an_address_has_one_spelling() {
        for (text, read) in [
            ("localhost", "localhost"),
            ("LocalHost:3000", "localhost:3000"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]", "[::1]"),
            ("[0:0:0:0:0:0:0:1]:8080", "[::1]:8080"),
            ("[::FFFF:127.0.0.1]", "[::ffff:127.0.0.1]"),
            ("api-1.example.com:65535", "api-1.example.com:65535"),
            ("my_host", "my_host"),
            ("3com.example", "3com.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(read), "{text}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_not_read() {
        for text in [
            "",
            ":80",
            "localhost:",
            "localhost:0",
            "localhost:080",
            "localhost:+80",
            "localhost:65536",
            "localhost:99999999999999999999",
            "localhost:80:80",
            "127.0.0.1:80.evil.com",
            "localhost.",
            ".localhost",
            "a..b",
            "127.1",
            "127.0.0.01",
            "0x7f.0.0.1",
            "0x7f000001",
            "a.0x1",
            "2130706433",
            "127.0.0.1.1",
            "user@localhost",
            "user:pass@localhost:80",
            "localhost@evil.com",
            "localhost/",
            "localhost/x",
            "localhost?x",
            "localhost#x",
            "localhost\\x",
            "local host",
            " localhost",
            "localhost ",
            "localhost,evil.com",
            "local%68ost",
            "löcalhost",
            "[::1",
            "::1",
            "[::1]80",
            "[::1]:",
            "[::1%25lo]",
            "[::1%lo]",
            "[localhost]",
            "[127.0.0.1]",
            "[]",
            "[v1.x]",
            "*",
            "*.example.com",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
        assert_eq!(shown(&"a.".repeat(127)), None);
        assert_eq!(shown(&"a".repeat(64)), None);
    }

    #[test]
    fn an_origin_is_a_scheme_a_host_and_a_port() {
        let same = |left: &str, right: &str| {
            let (left, right) = (Origin::parse(left).unwrap(), Origin::parse(right).unwrap());
            assert_eq!(left.same(&right), right.owned().same(&left));
            left.same(&right)
        };
        assert!(same("http://a.example", "HTTP://A.example:80"));
        assert!(same("https://a.example:443", "https://a.example"));
        assert!(same("http://[::1]:3000", "http://[0:0::1]:3000"));
        assert!(same("chrome-extension://abcdef", "chrome-extension://abcdef"));
        assert!(!same("http://a.example", "https://a.example"));
        assert!(!same("http://a.example:443", "https://a.example"));
        assert!(!same("http://a.example:81", "http://a.example"));
        assert!(!same("http://b.example", "http://a.example"));
        for text in [
            "",
            "null",
            "localhost",
            "//localhost",
            "://localhost",
            "http:/localhost",
            "http:localhost",
            "http://",
            "http://localhost/",
            "http://localhost/path",
            "http://user@localhost",
            "http://localhost http://evil.com",
            "http://localhost, http://evil.com",
            "file://",
            "1http://localhost",
            "ht tp://localhost",
            "data:text/html,x",
            "about:blank",
        ] {
            assert!(Origin::parse(text).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_parsing_panic(text in ".{0,24}") {
            let _ = Address::parse(&text);
            let _ = Origin::parse(&text);
        }

        #[test]
        fn what_is_read_as_local_is_spelled_as_local(text in "[\\[\\]:.@/%a-z0-9]{0,6}(localhost|127\\.0\\.0\\.1|\\[::1\\])[\\[\\]:.@/%a-z0-9]{0,6}") {
            if let Some(address) = Address::parse(&text) && address.host.is_local() {
                    let spelled = ["localhost", "127.0.0.1", "[::1]"].into_iter().find(|host| text.starts_with(host));
                    prop_assert!(spelled.is_some(), "{}", text);
                    let rest = &text[spelled.unwrap().len()..];
                    prop_assert!(rest.is_empty() || rest[1..].parse::<u16>().is_ok(), "{}", text);
            }
        }
    }
}
