//! The readings of a URI.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

/// One way to understand a URI.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reading<'a> {
    pub(super) text: Cow<'a, str>,
    /// Whether what needs the default is to be asked of it where no rule is about it.
    pub(super) by_default: bool,
}

/// How a URI may be understood: as it is written, and as a reader would that decodes escapes, resolves dots, takes `\`
/// for `/`, several slashes for one and ignores case; with the authority as such, and as a segment of the path; with and
/// without what many readers do not look at (the query, the fragment, who the user is, a port that has no meaning).
///
/// What is asked of a resource is asked for each reading, so another way of writing a URI never needs less. It holds
/// for what is not [ambiguous](is_ambiguous).
pub(super) fn readings(uri: &str) -> Vec<Reading<'_>> {
    let mut readings = vec![Reading { text: Cow::Borrowed(uri), by_default: true }];
    if is_plain(uri) {
        return readings;
    }
    for (at, text) in texts(uri, &decode(uri)).enumerate() {
        for keep_authority in [true, false] {
            let loose = loose(&text, keep_authority, false);
            if !readings.iter().any(|reading| reading.text == loose) {
                readings.push(Reading { text: loose.into(), by_default: at == 0 });
            }
        }
    }
    readings
}

/// What a reader may start from: the URI as it is written, and what is left where the end of its authority is looked for
/// in that, after taking `\` for `/`, or after decoding.
fn texts(uri: &str, decoded: &str) -> impl Iterator<Item = String> {
    let slashed = |text: &str| bare(&text.replace('\\', "/"));
    [Some(uri.to_owned()), bare(uri), slashed(uri), slashed(decoded)].into_iter().flatten()
}

/// The loose reading of a rule's own text. That of a beginning is the beginning of the loose readings of what begins so.
pub(super) fn loosened(rule: &str, is_prefix: bool) -> String {
    loose(rule, true, is_prefix)
}

/// True if readers differ about the URI in ways that no list of readings covers. It is then not known what it needs.
pub(super) fn is_ambiguous(uri: &str) -> bool {
    if has_blanks(uri) {
        return true;
    }
    let decoded = decode(uri);
    if decoded.contains('\0') {
        // Some readers end there.
        return true;
    }
    let goes_up = decoded.split(['/', '\\', '?', '#', ':']).any(|segment| segment.trim_matches(' ') == "..");
    let Some((_, rest)) = uri.split_once(':') else {
        return goes_up || uri.contains(['%', '\\']) || uri.contains("//");
    };
    // Where dots lead depends on what is done first: decoding, merging, cutting off the query, or resolving them.
    let path = rest.strip_prefix("//").unwrap_or(rest);
    goes_up && (uri.contains(['%', '\\', '?', '#']) || path.contains("//"))
        || texts(uri, &decoded).any(|text| has_odd_authority(&loose(&text, true, false)))
}

/// True for control characters, which some readers drop, and for spaces at the ends, which some trim.
pub(super) fn has_blanks(uri: &str) -> bool {
    uri.starts_with(' ') || uri.ends_with(' ') || uri.bytes().any(|byte| byte.is_ascii_control())
}

/// True if readers fold the host to another text, or the port: `0x7f.1`, `[0::1]`, other letters than ASCII.
fn has_odd_authority(loose: &str) -> bool {
    let Some((scheme, rest)) = loose.split_once("://") else { return false };
    if !is_web(scheme) {
        return false;
    }
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !authority.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let is_odd_port = |port: &str| port.starts_with('0') || !port.bytes().all(|digit| digit.is_ascii_digit());
    let is_odd_host = match host.strip_prefix('[') {
        Some(rest) => {
            let host = rest.strip_suffix(']').unwrap_or_default();
            host.parse::<Ipv6Addr>().ok().is_none_or(|address| address.to_string() != host)
        }
        None => {
            let is_number =
                host.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_digit()));
            is_number && host.parse::<Ipv4Addr>().is_err()
        }
    };
    let is_no_host = host.is_empty() || host.contains('@') || host.ends_with('.');
    !authority.is_ascii() || port.is_some_and(is_odd_port) || is_odd_host || is_no_host
}

/// True if every reader reads the same; false if that takes more than a look.
fn is_plain(uri: &str) -> bool {
    let is_odd = |byte: u8| {
        byte.is_ascii_uppercase() || byte <= b' ' || matches!(byte, b'%' | b'\\' | b'?' | b'#' | b'@' | 0x7F)
    };
    let Some((scheme, rest)) = uri.split_once(':') else { return false };
    let after = rest.trim_start_matches('/');
    let slashes = rest.len() - after.len();
    let authority = if slashes == 2 { after.split('/').next().unwrap_or_default() } else { "" };
    let has_usual_start = match scheme {
        "file" => slashes == 3,
        scheme if is_web(scheme) => slashes == 2 && after.contains('/'),
        _ => slashes <= 3,
    };
    has_usual_start
        && !uri.bytes().any(is_odd)
        && !after.starts_with('.')
        && !after.contains("/.")
        && !after.contains("//")
        && !authority.contains(':')
        && !authority.ends_with('.')
}

/// The schemes that the URL standard calls special, `file` aside.
fn is_web(scheme: &str) -> bool {
    default_port(scheme).is_some()
}

fn default_port(scheme: &str) -> Option<&'static str> {
    Some(match scheme {
        "http" | "ws" => "80",
        "https" | "wss" => "443",
        "ftp" => "21",
        _ => return None,
    })
}

/// Splits what follows the scheme into the authority, if there is one, and the rest.
fn split_authority<'a>(scheme: &str, rest: &'a str) -> (Option<&'a str>, &'a str) {
    let after = if is_web(scheme) {
        rest.trim_start_matches('/')
    } else if let Some(after) = rest.strip_prefix("//") {
        after
    } else {
        return (None, rest);
    };
    let (authority, path) = after.split_at(after.find(['/', '?', '#']).unwrap_or(after.len()));
    (Some(authority), path)
}

/// The URI without query, fragment, user, the host of a file, and a port that the scheme knows nothing of; `None` if it
/// has none of them.
fn bare(uri: &str) -> Option<String> {
    let cut = uri.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = cut.split_once(':')?;
    let scheme = scheme.to_ascii_lowercase();
    let bare = match split_authority(&scheme, rest) {
        (None, path) => format!("{scheme}:{path}"),
        (Some(authority), path) => {
            let host = authority.rsplit('@').next().unwrap_or_default();
            let host = match host.rsplit_once(':') {
                _ if scheme == "file" => "",
                Some((name, port))
                    if !is_web(&scheme) && port.bytes().all(|digit| digit.is_ascii_digit()) =>
                {
                    name
                }
                _ => host,
            };
            format!("{scheme}://{host}{path}")
        }
    };
    (bare != uri).then_some(bare)
}

fn loose(uri: &str, keep_authority: bool, is_prefix: bool) -> String {
    let mut text = decode(uri);
    text.make_ascii_lowercase();
    let text = text.replace('\\', "/");
    let text = text.trim_matches(' ');
    let Some((scheme, rest)) = text.split_once(':') else { return text.to_owned() };
    let (authority, path) = match split_authority(scheme, rest) {
        (Some(_), _) if !keep_authority => {
            (Some(""), if is_web(scheme) { rest.trim_start_matches('/') } else { &rest[2..] })
        }
        (Some(authority), path) => {
            (Some(loose_authority(scheme, authority, is_prefix && path.is_empty())), path)
        }
        // A file needs none.
        (None, path) if scheme == "file" => (Some(""), path),
        (None, path) => (None, path),
    };
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut out = match authority {
        Some(authority) => format!("{scheme}://{authority}"),
        None => format!("{scheme}:"),
    };
    let has_root = match authority {
        None => path.starts_with('/'),
        Some(_) if !keep_authority && scheme != "file" => path.starts_with('/'),
        Some(_) if path.is_empty() => !is_prefix && (is_web(scheme) || scheme == "file"),
        Some(_) => true,
    };
    if has_root {
        out.push('/');
    }
    out.push_str(&segments.join("/"));
    if !segments.is_empty() && ["/", "/.", "/.."].iter().any(|end| path.ends_with(end)) {
        out.push('/');
    }
    out
}

/// The host, and the port where it is not the scheme's own. Of what ends within the authority, no port: it might go on.
fn loose_authority<'a>(scheme: &str, authority: &'a str, is_unfinished: bool) -> &'a str {
    let (mut host, is_file) = (authority, scheme == "file");
    if is_file && is_unfinished {
        return "";
    }
    if is_web(scheme) || is_file {
        host = host.rsplit('@').next().unwrap_or_default();
    }
    loop {
        let before = host.len();
        host = host.trim_start_matches(' ').trim_end_matches(['.', ' ']);
        if let Some((name, port)) = host.rsplit_once(':')
            && port.bytes().all(|digit| digit.is_ascii_digit())
        {
            let number = port.trim_start_matches('0');
            if number.is_empty() || is_unfinished || default_port(scheme) == Some(number) {
                host = name;
            }
        }
        if host.len() == before {
            return match host {
                "localhost" if is_file => "",
                // There is no such host, and without it the path would be read as one.
                "" if is_web(scheme) && !is_unfinished => authority,
                host => host,
            };
        }
    }
}

/// Decodes until nothing is left to decode, and drops control characters but for NUL, in one pass: what is written so far
/// holds no escape, so that only its end can become one.
fn decode(text: &str) -> String {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let digit = |byte: u8| char::from(byte).to_digit(16);
    for byte in text.bytes() {
        if byte.is_ascii_control() {
            continue;
        }
        out.push(byte);
        while let [.., b'%', high, low] = out[..]
            && let (Some(high), Some(low)) = (digit(high), digit(low))
        {
            out.truncate(out.len() - 3);
            // Two hexadecimal digits make a byte.
            let byte = u8::try_from(high << 4 | low).unwrap_or_default();
            if byte == 0 || !byte.is_ascii_control() {
                out.push(byte);
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(uri: &str) -> Vec<String> {
        readings(uri).into_iter().map(|reading| reading.text.into_owned()).collect()
    }

    #[test]
    fn a_plain_uri_has_one_reading() {
        for uri in ["file:///a/b.txt", "note://1", "note://a/b", "urn:x:y", "https://h/p/"] {
            assert!(is_plain(uri) && !is_ambiguous(uri), "{uri}");
            assert_eq!(read(uri), [uri]);
            assert_eq!(loosened(uri, false), uri);
        }
    }

    #[test]
    fn other_spellings_have_the_plain_reading_too() {
        for uri in [
            "file:///public/../secret/x",
            "file:///%73ecret/x",
            "file:///%2573ecret/x",
            "file:///%2525252525252573ecret/x",
            "file:///%2%3573ecret/x",
            "FILE:///Secret/x",
            "file:///secret%2Fx",
            "file:///secret\\x",
            "file:////secret//x",
            "file:///./secret/./x",
            "%66ile:///secret/x",
            "file:/secret/x",
            "file:secret/x",
            "file:\\secret\\x",
            "file://localhost/secret/x",
            "file://LOCALHOST./secret/x",
            "file://localhost:80/secret/x",
            "file://%6cocalhost/secret/x",
            "file://u@localhost/secret/x",
            "file://elsewhere/secret/x",
            "file:///secret/x?",
            "file:///%73ecret/x#y",
        ] {
            assert!(!is_ambiguous(uri), "{uri}");
            assert!(read(uri).contains(&"file:///secret/x".to_owned()), "{uri}: {:?}", read(uri));
        }
        for uri in [
            "https://h:443/x",
            "https://h:0443/x",
            "https://h:/x",
            "https://h./x",
            "https://h.:443/x",
            "https://u@h/x",
            "https://u:p@h:443/x",
            "https://a%2fb@h/x",
            "https://a%3fb@h/x",
            "https://a\\b@h/x",
            "https:/h/x",
            "https:h/x",
            "https:////h/x",
            "https:\\\\h\\x",
            "https:%2f%2fu@h/x",
            "https:\\//y%2fu:p@h/x",
        ] {
            assert!(!is_ambiguous(uri), "{uri}");
            assert!(read(uri).contains(&"https://h/x".to_owned()), "{uri}: {:?}", read(uri));
        }
        assert!(read("https://h").contains(&"https://h/".to_owned()));
        assert!(read("https://h?x").contains(&"https://h/".to_owned()));
        assert!(read("note://closed:1/x").contains(&"note://closed/x".to_owned()));
        assert!(read("note://u@closed/x").contains(&"note://closed/x".to_owned()));
        assert!(read("note://public/../secret").contains(&"note://secret".to_owned()));
        assert!(read("note://public/../secret").contains(&"note://public/secret".to_owned()));
    }

    #[test]
    fn what_readers_differ_about_is_ambiguous() {
        for uri in [
            " file:///x",
            "file:///x ",
            "file:///se\tcret/x",
            "file:///x\n",
            "fi\rle:///x",
            "file:///\0x",
            "file:///\u{7f}x",
            "file:///%73ecret/x?/../../public/y",
            "file:///public?/../../secret/x",
            "file:///%73ecret/x%2f../../public",
            "file:///%73ecret//../public",
            "file:///a%252f%252e%252e/x",
            "file:///public/%2e%2e/secret/x",
            "file:///public/../secret/%2e/../x",
            "file:///s%65cret/..%20",
            "file:///s%65cret/.%00./x",
            "file:///secret/x%00.txt",
            "file:///secret/x%2500.txt",
            "file:///a\\..\\x",
            "file:////a/../x",
            "file%3a///x",
            "../x",
            "https://0x7f.1/x",
            "https://127.1/x",
            "https://2130706433/x",
            "https://[0::1]/x",
            "https://h:08080/x",
            "https://u@0x7f.1/x",
            "https://:443/x",
            "https://a%2fb@127.1/x",
            "https://\u{ff48}/x",
        ] {
            assert!(is_ambiguous(uri), "{uri:?}");
        }
        for uri in [
            "https://127.0.0.1:8080/x",
            "https://[::1]/x",
            "note:///a b/é",
            "note",
            "file:///a..b/..c",
            "q://a%0ab%20",
        ] {
            assert!(!is_ambiguous(uri), "{uri}");
        }
    }

    #[test]
    fn escapes_in_escapes_end() {
        let uri = format!("a:%{}41", "25".repeat(1_000_000));
        assert_eq!(loosened(&uri, false), "a:a");
        assert!(readings(&uri).len() <= 3);
    }

    /// Pieces of which odd spellings are made.
    fn odd_uri() -> impl Strategy<Value = String> {
        let pieces = prop::sample::select(vec![
            "file",
            "https",
            "note",
            ":",
            ":",
            "/",
            "/",
            "//",
            "\\",
            ".",
            "..",
            "%",
            "25",
            "2",
            "e",
            "2f",
            "%2e",
            "%5c",
            "%3a",
            "%ff",
            "41",
            "@",
            "?",
            "#",
            "localhost",
            "h",
            "X",
            "443",
            "0",
            " ",
            "\t",
            "é",
            "[",
            "]",
        ]);
        prop::collection::vec(pieces, 0..16).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn the_loose_reading_of_a_loose_reading_is_itself(uri in odd_uri(), is_prefix: bool) {
            let once = loosened(&uri, is_prefix);
            prop_assert_eq!(loosened(&once, is_prefix), once);
        }

        #[test]
        fn what_is_plain_reads_as_it_is_written(uri in odd_uri()) {
            if is_plain(&uri) {
                prop_assert_eq!(loosened(&uri, false), uri.clone());
                prop_assert_eq!(loose(&uri, false, false), uri);
            }
        }
    }
}
