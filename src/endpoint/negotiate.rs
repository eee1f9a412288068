//! Decides by the head of a request whether its body is worth reading, and what the client can read.

use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use http_body::SizeHint;

use crate::media::{self, is_plain, split};
use crate::rejection::Rejection;

/// What nearly every client sends, so that it need not be taken apart each time.
const USUAL_ACCEPT: &[u8] = b"application/json, text/event-stream";

/// Which of the two framings the client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) sse: bool,
}

/// Everything that is decided before the body is read. `size` is what the body itself says of its length.
pub(super) fn check(parts: &Parts, size: &SizeHint, max_body_bytes: usize) -> Result<Accepts, Rejection> {
    let max = u64::try_from(max_body_bytes).unwrap_or(u64::MAX);
    // A body that knows its length, such as those of hyper, knows it better than the header.
    if size.lower() > max || (size.exact().is_none() && declares_more_than(&parts.headers, max)) {
        return Err(too_large(max_body_bytes));
    }
    if parts.method != Method::POST {
        return Err(Rejection::http(
            StatusCode::METHOD_NOT_ALLOWED,
            "this endpoint takes POST only: send each message as its own POST",
        )
        .with_header(header::ALLOW, HeaderValue::from_static("POST")));
    }
    if !media::is_json(&parts.headers) {
        return Err(Rejection::http(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send the header `Content-Type: application/json`, once",
        )
        .with_header(header::ACCEPT, HeaderValue::from_static("application/json")));
    }
    if !is_plain(&parts.headers) {
        return Err(Rejection::http(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send the body as it is, without `Content-Encoding`",
        )
        .with_header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity")));
    }
    let accepts = accepts(&parts.headers);
    if !accepts.json && !accepts.sse {
        return Err(Rejection::http(
            StatusCode::NOT_ACCEPTABLE,
            "send the header `Accept: application/json, text/event-stream`",
        ));
    }
    Ok(accepts)
}

/// The refusal of a body that is too long, which the operator may have to do with.
pub(super) fn too_large(max_body_bytes: usize) -> Rejection {
    tracing::warn!(
        max_body_bytes,
        "refused a request body; `EndpointLayer::with_max_body_bytes` sets how long it may be"
    );
    Rejection::http(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body is too long: this server takes at most {max_body_bytes} bytes"),
    )
}

/// What cannot be read as a number is not judged here: the bytes are counted in any case.
fn declares_more_than(headers: &HeaderMap, max: u64) -> bool {
    let values = headers.get_all(header::CONTENT_LENGTH).into_iter();
    values.flat_map(|value| value.as_bytes().split(|&byte| byte == b',')).any(|value| {
        let digits = value.trim_ascii();
        let mut length = 0_u64;
        for digit in digits {
            if !digit.is_ascii_digit() {
                return false;
            }
            length = length.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
        }
        length > max
    })
}

/// The most specific media range that a type matches, and whether that accepts it.
#[derive(Default)]
struct Best {
    rank: u8,
    accepted: bool,
}

impl Best {
    fn see(&mut self, rank: u8, accepted: bool) {
        if rank > self.rank {
            *self = Self { rank, accepted };
        } else if rank == self.rank {
            self.accepted |= accepted;
        }
    }
}

/// Reads `Accept` (RFC 9110, section 12.5.1). No media range at all accepts everything.
fn accepts(headers: &HeaderMap) -> Accepts {
    let lines = headers.get_all(header::ACCEPT);
    if lines.iter().eq([USUAL_ACCEPT]) {
        return Accepts { json: true, sse: true };
    }
    let (mut json, mut sse) = (Best::default(), Best::default());
    let mut everything = true;
    for range in lines.iter().flat_map(|line| split(line.as_bytes(), b',')) {
        let mut parts = split(range, b';').map(<[u8]>::trim_ascii);
        let Some(name) = parts.next().filter(|name| !name.is_empty()) else { continue };
        everything = false;
        let accepted = !parts.any(has_no_weight);
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        // Some old clients write `*` for `*/*`.
        if is("*/*") || is("*") {
            json.see(1, accepted);
            sse.see(1, accepted);
        } else if is("application/*") {
            json.see(2, accepted);
        } else if is("text/*") {
            sse.see(2, accepted);
        } else if is("application/json") {
            json.see(3, accepted);
        } else if is("text/event-stream") {
            sse.see(3, accepted);
        }
    }
    Accepts { json: everything || json.accepted, sse: everything || sse.accepted }
}

/// True for `q=0`, however many zeros it has.
fn has_no_weight(parameter: &[u8]) -> bool {
    let Some(at) = parameter.iter().position(|&byte| byte == b'=') else { return false };
    let (name, value) = (parameter[..at].trim_ascii(), parameter[at + 1..].trim_ascii());
    let Some((b'0', rest)) = value.split_first() else { return false };
    let zeros = match rest.split_first() {
        None => &[],
        Some((b'.', zeros)) => zeros,
        Some(_) => return false,
    };
    name.eq_ignore_ascii_case(b"q") && zeros.iter().all(|&byte| byte == b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &header::HeaderName, lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (name.clone(), HeaderValue::from_bytes(line.as_bytes()).unwrap())).collect()
    }

    #[test]
    fn the_largest_declared_length_counts() {
        let declares = |lines: &[&str]| declares_more_than(&headers(&header::CONTENT_LENGTH, lines), 100);
        for lines in [&[][..], &["100"], &["0100"], &["-1"], &["x"], &["1e9"], &["", "7"]] {
            assert!(!declares(lines), "{lines:?}");
        }
        for lines in [&["101"][..], &["7", "101"], &["7, 101"], &["99999999999999999999999999"]] {
            assert!(declares(lines), "{lines:?}");
        }
    }

    #[test]
    fn accept_is_read_with_wildcards_weights_and_several_lines() {
        const BOTH: (bool, bool) = (true, true);
        const JSON: (bool, bool) = (true, false);
        const SSE: (bool, bool) = (false, true);
        const NONE: (bool, bool) = (false, false);
        for (lines, expected) in [
            (&[][..], BOTH),
            (&[""], BOTH),
            (&[" , "], BOTH),
            (&["application/json, text/event-stream"], BOTH),
            (&["application/json", "text/event-stream"], BOTH),
            (&["*/*"], BOTH),
            (&["text/html, *; q=.2, */*; q=.2"], BOTH),
            (&["application/json"], JSON),
            (&["APPLICATION/JSON; q=0.001"], JSON),
            (&["application/json;charset=utf-8"], JSON),
            (&["application/*"], JSON),
            (&["text/event-stream"], SSE),
            (&["text/*;q=0.5"], SSE),
            (&["text/html"], NONE),
            (&["application/xml, image/*"], NONE),
            (&["application/jsonx"], NONE),
            (&["\u{e9}"], NONE),
            (&["*/*;q=0"], NONE),
            (&["application/json;q=0"], NONE),
            (&["application/json; Q = 0.000, text/event-stream; q=0."], NONE),
            // The most specific range decides, in whatever order they stand.
            (&["*/*, application/json;q=0"], SSE),
            (&["application/json;q=0, */*"], SSE),
            (&["*/*;q=0, application/json"], JSON),
            (&["application/*;q=0, */*"], SSE),
            (&["text/*;q=0, text/event-stream"], SSE),
            (&["text/event-stream;q=0", "application/json"], JSON),
            // A comma inside quotes separates nothing, and `q` counts wherever it stands.
            (&["application/json;a=\", text/event-stream\""], JSON),
            (&["application/json;a=\"\\\"\";q=0, text/event-stream"], SSE),
            (&["application/json;aq=0;q=01"], JSON),
        ] {
            let found = accepts(&headers(&header::ACCEPT, lines));
            assert_eq!((found.json, found.sse), expected, "{lines:?}");
        }
    }
}
