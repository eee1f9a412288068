//! What never reaches the inner service, and in which order it is found.

use http::Method;

use super::*;

const LAYER: EndpointLayer = EndpointLayer::new().with_max_body_bytes(100);

/// A body that must not be read.
struct Unread;

impl http_body::Body for Unread {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        panic!("the body was read");
    }
}

fn unread() -> Request<Unread> {
    post("").map(|_| Unread)
}

/// A request of `len` bytes.
fn padded(len: usize) -> String {
    format!("{PING:len$}")
}

#[tokio::test]
async fn a_declared_length_above_the_limit_is_refused_unread_and_before_all_else() {
    for value in ["101", "18446744073709551616", "5, 101"] {
        assert_refused(LAYER, with(unread(), "content-length", value), 413, 413, None).await;
    }
    let repeated = with(with(unread(), "content-length", "5"), "content-length", "101");
    assert_refused(LAYER, repeated, 413, 413, None).await;
    let mut get = with(unread(), "content-length", "101");
    *get.method_mut() = Method::GET;
    get.headers_mut().remove("content-type");
    assert_refused(LAYER, get, 413, 413, None).await;
    // What the body itself says counts as much as the header.
    assert_refused(LAYER, post(padded(101)), 413, 413, None).await;
}

#[tokio::test]
async fn every_method_but_post_is_refused_with_the_one_that_is_allowed() {
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "post", "QUERY"] {
        let mut request = unread();
        *request.method_mut() = method.parse().unwrap();
        let parts = assert_refused(LAYER, request, 405, 405, None).await;
        assert_eq!(parts.headers["allow"], "POST", "{method}");
    }
    let mut request = unread();
    *request.method_mut() = Method::HEAD;
    let inner = empty();
    let (parts, body) = send(LAYER.layer(inner.clone()), request).await;
    assert_eq!((parts.status.as_u16(), &*body, inner.calls()), (405, "", 0));
    assert_eq!(parts.headers["allow"], "POST");
    assert_eq!(parts.headers["content-type"], "application/json");
}

#[tokio::test]
async fn anything_but_one_plain_json_media_type_is_refused() {
    let mut missing = unread();
    missing.headers_mut().remove("content-type");
    assert_refused(LAYER, missing, 415, 415, None).await;
    for value in ["application/jsonx", "text/plain; a=application/json", "application/json, text/plain", ""] {
        let mut request = unread();
        request.headers_mut().insert("content-type", value.parse().unwrap());
        let parts = assert_refused(LAYER, request, 415, 415, None).await;
        assert_eq!(parts.headers["accept"], "application/json");
    }
    assert_refused(LAYER, with(unread(), "content-type", "application/json"), 415, 415, None).await;
    for value in ["gzip", "identity, br"] {
        let request = with(unread(), "content-encoding", value);
        let parts = assert_refused(LAYER, request, 415, 415, None).await;
        assert_eq!(parts.headers["accept-encoding"], "identity");
    }
}

#[tokio::test]
async fn a_client_that_can_read_neither_framing_is_refused() {
    for value in ["text/html", "*/*;q=0", "application/json;q=0, text/event-stream;q=0.0"] {
        assert_refused(LAYER, with(unread(), "accept", value), 406, 406, None).await;
    }
    let request = with(with(unread(), "accept", "application/json;q=0"), "accept", "image/*");
    assert_refused(LAYER, request, 406, 406, None).await;
}

#[tokio::test]
async fn listening_without_an_event_stream_is_refused_with_the_id() {
    let request = with(post(LISTEN), "accept", "application/json");
    assert_refused(LAYER, request, 406, 406, Some("\"l\"")).await;
    let request = with(post(LISTEN), "accept", "*/*, text/event-stream;q=0");
    assert_refused(LAYER, request, 406, 406, Some("\"l\"")).await;
    for accept in ["text/*", "*/*", "text/event-stream"] {
        let inner = empty();
        send(LAYER.layer(inner.clone()), with(post(LISTEN), "accept", accept)).await;
        assert_eq!(inner.calls(), 1, "{accept}");
    }
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_passes_however_it_is_cut() {
    let body = padded(100);
    for size in [1, 33, 99, 100] {
        let frames = Frames::new(body.as_bytes().chunks(size).map(Bytes::copy_from_slice));
        let inner = empty();
        let (parts, answer) = send(LAYER.layer(inner.clone()), frames.into_post()).await;
        assert_eq!((parts.status.as_u16(), inner.calls()), (200, 1), "{size}: {answer}");
    }
    let inner = empty();
    send(LAYER.layer(inner.clone()), with(post(body), "content-length", "100")).await;
    assert_eq!(inner.calls(), 1);
}

#[tokio::test]
async fn a_byte_more_than_the_limit_is_refused_whatever_was_declared() {
    for size in [1, 33, 100, 101] {
        for declared in [None, Some("5"), Some("0"), Some("100"), Some("x")] {
            let frames = Frames::new(padded(101).as_bytes().chunks(size).map(Bytes::copy_from_slice));
            let mut request = frames.into_post();
            if let Some(declared) = declared {
                request = with(request, "content-length", declared);
            }
            assert_refused(LAYER, request, 413, 413, None).await;
        }
    }
    assert_refused(LAYER.with_max_body_bytes(0), Frames::new(["x"]).into_post(), 413, 413, None).await;
}

#[tokio::test]
async fn reading_stops_as_soon_as_the_limit_is_passed() {
    let frames = Frames::new(std::iter::repeat_n("0123456789", 1000));
    let polled = Arc::clone(&frames.polled);
    assert_refused(LAYER, frames.into_post(), 413, 413, None).await;
    assert_eq!(polled.load(Ordering::Relaxed), 11);
}

#[tokio::test]
async fn what_is_not_json_is_refused_without_an_id() {
    let cut = &PING[..PING.len() - 1];
    for body in ["", " ", "{", "nul", cut, "{\"id\":7,}", "{} {}", "\u{feff}{}"] {
        assert_refused(LAYER, post(body), 400, -32700, None).await;
    }
    assert_refused(LAYER, post(&b"{\"id\":\"\xff\"}"[..]), 400, -32700, None).await;
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    assert_refused(EndpointLayer::new(), post(deep), 400, -32700, None).await;
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_parse_error() {
    let frames = Frames::new([PING]).then(Err("connection reset".into()));
    assert_refused(LAYER, frames.into_post(), 400, -32700, None).await;
}

#[tokio::test]
async fn what_is_not_one_request_or_notification_is_refused() {
    for body in [
        "[]",
        "[{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}]",
        "null",
        "\"ping\"",
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0"}"#,
    ] {
        assert_refused(LAYER, post(body), 400, -32600, None).await;
    }
}

#[tokio::test]
async fn an_id_that_could_be_read_is_in_the_refusal() {
    for body in [
        r#"{"jsonrpc":"2.0","id":7}"#,
        r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#,
        r#"{"id":7,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"ping","method":"pong"}"#,
    ] {
        assert_refused(LAYER, post(body), 400, -32600, Some("7")).await;
    }
    let body = r#"{"jsonrpc":"2.0","id":"é","method":"ping","params":{"_meta":[]}}"#;
    assert_refused(LAYER, post(body), 400, -32602, Some("\"é\"")).await;
}

#[tokio::test]
async fn the_first_fault_in_the_order_is_the_one_that_is_told() {
    let request = |body: &'static [u8]| Frames::new([body]).into_post();
    let long = &[b'['; 200];
    let mut all = request(long);
    *all.method_mut() = Method::PUT;
    for (name, value) in [
        ("content-length", "200"),
        ("content-encoding", "gzip"),
        ("accept", "image/png"),
        ("content-type", "x/y"),
    ] {
        all.headers_mut().insert(name, value.parse().unwrap());
    }
    let mut faults = vec![all];
    // Each mends the first fault that the one before has.
    let mut mend = |change: &dyn Fn(&mut Request<Frames>)| {
        let last = faults.last().unwrap();
        let mut next = request(long);
        *next.method_mut() = last.method().clone();
        *next.headers_mut() = last.headers().clone();
        change(&mut next);
        faults.push(next);
    };
    mend(&|request| drop(request.headers_mut().remove("content-length")));
    mend(&|request| *request.method_mut() = Method::POST);
    mend(&|request| drop(request.headers_mut().insert("content-type", "application/json".parse().unwrap())));
    mend(&|request| drop(request.headers_mut().remove("content-encoding")));
    mend(&|request| drop(request.headers_mut().insert("accept", "application/json".parse().unwrap())));
    mend(&|other| *other.body_mut() = request(&[b'['; 50]).into_body());
    mend(&|other| *other.body_mut() = request(b"[]").into_body());
    mend(&|other| *other.body_mut() = request(LISTEN.as_bytes()).into_body());
    let expected = [
        (413, 413, None),
        (405, 405, None),
        (415, 415, None),
        (415, 415, None),
        (406, 406, None),
        (413, 413, None),
        (400, -32700, None),
        (400, -32600, None),
        (406, 406, Some("\"l\"")),
    ];
    assert_eq!(faults.len(), expected.len());
    for (request, (status, code, id)) in faults.into_iter().zip(expected) {
        assert_refused(LAYER, request, status, code, id).await;
    }
}
