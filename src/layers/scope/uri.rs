//! The readings of a URI.

use std::borrow::Cow;

/// So often is a text percent-decoded.
const ROUNDS: usize = 4;

/// How a URI may be understood: as it is written, and as a reader would that decodes escapes, resolves dots, takes `\`
/// for `/`, several slashes for one and ignores case; with the authority as such, and as a segment of the path.
///
/// What is asked of a resource is asked for each reading, so another way of writing a URI never needs less.
pub(super) fn readings(uri: &str) -> Vec<Cow<'_, str>> {
    let mut readings = vec![Cow::Borrowed(uri)];
    if !is_plain(uri) {
        for keep_authority in [true, false] {
            let loose = loose(uri, keep_authority);
            if !readings.contains(&Cow::Borrowed(loose.as_str())) {
                readings.push(loose.into());
            }
        }
    }
    readings
}

/// The loose reading of a rule's own text.
pub(super) fn loosened(rule: &str) -> String {
    loose(rule, true)
}

/// True if every reader reads the same.
fn is_plain(uri: &str) -> bool {
    let rest = split_scheme(uri).1;
    !uri.bytes().any(|byte| byte.is_ascii_uppercase() || matches!(byte, b'%' | b'\\'))
        && !rest.starts_with('.')
        && !rest.contains("/.")
        && !rest.trim_start_matches('/').contains("//")
        && rest.bytes().take_while(|byte| *byte == b'/').count() <= 1
}

fn split_scheme(uri: &str) -> (&str, &str) {
    let end = uri.find("://").map(|at| at + 3).or_else(|| uri.find(':').map(|at| at + 1)).unwrap_or(0);
    uri.split_at(end)
}

fn loose(uri: &str, keep_authority: bool) -> String {
    let mut text = uri.to_owned();
    for _ in 0..ROUNDS {
        match percent_decode(&text) {
            Some(decoded) => text = decoded,
            None => break,
        }
    }
    text.make_ascii_lowercase();
    let text = text.replace('\\', "/");
    let (scheme, rest) = split_scheme(&text);
    let has_authority = keep_authority && scheme.ends_with("://");
    let (authority, path) = match rest.find('/') {
        Some(at) if has_authority => rest.split_at(at),
        None if has_authority => (rest, ""),
        _ => ("", rest),
    };
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut out = format!("{scheme}{authority}");
    if path.starts_with('/') {
        out.push('/');
    }
    out.push_str(&segments.join("/"));
    if !segments.is_empty() && ["/", "/.", "/.."].iter().any(|end| path.ends_with(end)) {
        out.push('/');
    }
    out
}

/// Decodes once; `None` if there is nothing to decode.
fn percent_decode(text: &str) -> Option<String> {
    let (bytes, mut out, mut at, mut changed) = (text.as_bytes(), Vec::new(), 0, false);
    while let Some(byte) = bytes.get(at) {
        let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                // Two hexadecimal digits make a byte.
                out.push(u8::try_from(high << 4 | low).unwrap_or_default());
                at += 3;
                changed = true;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    changed.then(|| String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_uri_has_one_reading() {
        for uri in ["file:///a/b.txt", "note://1", "note://a/b?c=d#e", "urn:x:y", "https://h/p/"] {
            assert_eq!(readings(uri), [uri]);
            assert_eq!(loosened(uri), uri);
        }
    }

    #[test]
    fn other_spellings_have_the_plain_reading_too() {
        for uri in [
            "file:///public/../secret/x",
            "file:///public/%2e%2e/secret/x",
            "file:///%73ecret/x",
            "file:///%2573ecret/x",
            "FILE:///Secret/x",
            "file:///secret%2Fx",
            "file:///secret\\x",
            "file:////secret//x",
            "file:///./secret/./x",
            "file:///public?/../../secret/x",
            "%66ile:///secret/x",
        ] {
            assert!(readings(uri).contains(&Cow::Borrowed("file:///secret/x")), "{uri}: {:?}", readings(uri));
        }
        assert!(readings("note://public/../secret").contains(&Cow::Borrowed("note://secret")));
        assert!(readings("note://public/../secret").contains(&Cow::Borrowed("note://public/secret")));
    }

    #[test]
    fn escapes_in_escapes_end() {
        let uri = format!("a:%{}41", "25".repeat(100_000));
        assert!(readings(&uri).len() <= 3);
    }
}
