//! Reads what the headers say a body is.

use http::header::{self, HeaderMap};

/// The media type of the body, without parameters: `None` unless one `Content-Type` line holds one of them.
pub(crate) fn essence(headers: &HeaderMap) -> Option<&[u8]> {
    let mut lines = headers.get_all(header::CONTENT_TYPE).into_iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    // What nearly everybody sends need not be taken apart.
    if line == "application/json" || line == "text/event-stream" {
        return Some(line.as_bytes());
    }
    // Behind a comma a second media type would stand, and another reader might take that one.
    let mut values = split(line.as_bytes(), b',');
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    split(value, b';').next().map(<[u8]>::trim_ascii)
}

/// True if the body says that it is JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    essence(headers).is_some_and(|essence| essence.eq_ignore_ascii_case(b"application/json"))
}

/// True if the body says that it is an event stream.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    essence(headers).is_some_and(|essence| essence.eq_ignore_ascii_case(b"text/event-stream"))
}

/// True unless the body says that it is compressed.
pub(crate) fn is_plain(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::CONTENT_ENCODING).into_iter();
    lines
        .flat_map(|line| line.as_bytes().split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .all(|coding| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity"))
}

/// Splits at `separator`, but not inside quoted strings.
pub(crate) fn split(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    value.split(move |&byte| {
        if std::mem::take(&mut escaped) {
            return false;
        }
        match byte {
            b'"' => quoted = !quoted,
            b'\\' if quoted => escaped = true,
            _ => return byte == separator && !quoted,
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: &header::HeaderName, lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (name.clone(), HeaderValue::from_bytes(line.as_bytes()).unwrap())).collect()
    }

    #[test]
    fn only_one_line_of_exactly_application_json_is_json() {
        let is = |lines: &[&str]| is_json(&headers(&header::CONTENT_TYPE, lines));
        for line in [
            "application/json",
            "Application/JSON",
            " application/json\t; charset=utf-8",
            "application/json;charset=utf-8;",
            "application/json; a=\"b, c; d\\\", text/plain\"",
        ] {
            assert!(is(&[line]), "{line}");
        }
        for line in [
            "",
            "application/jsonx",
            "application/json-rpc",
            "application/json, text/plain",
            "application/json; a=b, text/plain",
            "text/plain; a=application/json",
            "text/json",
            "application/*",
            "application/json text/plain",
            "\u{e9}application/json",
        ] {
            assert!(!is(&[line]), "{line}");
        }
        assert!(!is(&[]));
        assert!(!is(&["application/json", "application/json"]));
    }

    #[test]
    fn any_coding_but_identity_is_refused() {
        let is = |lines: &[&str]| is_plain(&headers(&header::CONTENT_ENCODING, lines));
        assert!(is(&[]) && is(&[""]) && is(&["Identity"]) && is(&["identity, identity", "identity"]));
        assert!(!is(&["gzip"]) && !is(&["identity, gzip"]) && !is(&["identity", "br"]) && !is(&["\u{e9}"]));
    }
}
