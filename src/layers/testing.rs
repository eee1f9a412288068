//! What the tests of the layers share.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use serde_json::Value;
use tower::{Layer, Service, ServiceExt as _, service_fn};

use crate::message::{Answer, Message, RawObject, Reply};

/// What a layer made of one request: the answer, and whether the inner service was called.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) calls: usize,
}

impl Outcome {
    /// Asserts that the request passed.
    #[track_caller]
    pub(super) fn passed(&self) {
        assert_eq!((self.status, self.calls), (200, 1), "{self:?}");
    }

    /// Asserts a refusal of the request with id 7, the inner service not called. Returns the message.
    #[track_caller]
    pub(super) fn refused(&self, status: u16, code: i64, data: Option<Value>) -> String {
        self.refused_as(Some(Value::from(7)), status, code, data)
    }

    /// Asserts a refusal with this id, the inner service not called. Returns the message.
    #[track_caller]
    pub(super) fn refused_as(
        &self,
        id: Option<Value>,
        status: u16,
        code: i64,
        data: Option<Value>,
    ) -> String {
        let mut expected = serde_json::json!({"jsonrpc": "2.0", "error": {"code": code}});
        let message = self.body["error"]["message"].clone();
        expected["error"]["message"] = message.clone();
        if let Some(data) = data {
            expected["error"]["data"] = data;
        }
        if let Some(id) = id {
            expected["id"] = id;
        }
        assert_eq!((self.status, self.calls, &self.body), (status, 0, &expected));
        message.as_str().expect("a message").to_owned()
    }
}

/// Sends `request` through a policy layer to a service that answers with an empty result.
pub(super) async fn send<L>(layer: &L, request: Request<Message>) -> Outcome
where
    L: Layer<Inner>,
    L::Service: Service<Request<Message>, Response = Response<Reply>, Error = Infallible>,
{
    send_to(layer, request, |_| Reply::Answer(Answer::result(Some(7.into()), RawObject::new()))).await
}

type Inner = tower::util::BoxCloneService<Request<Message>, Response<Reply>, Infallible>;

/// Sends `request` through a policy layer to a service that answers with what `reply` makes.
pub(super) async fn send_to<L>(
    layer: &L,
    request: Request<Message>,
    reply: impl Fn(&Request<Message>) -> Reply + Clone + Send + Sync + 'static,
) -> Outcome
where
    L: Layer<Inner>,
    L::Service: Service<Request<Message>, Response = Response<Reply>, Error = Infallible>,
{
    let calls = Arc::new(AtomicUsize::new(0));
    let inner = service_fn({
        let calls = Arc::clone(&calls);
        move |request: Request<Message>| {
            calls.fetch_add(1, Ordering::Relaxed);
            let reply = reply(&request);
            async { Ok(Response::new(reply)) }
        }
    });
    let response =
        layer.layer(Inner::new(inner)).oneshot(request).await.unwrap_or_else(|never| match never {});
    let status = response.status().as_u16();
    let body = match response.body() {
        Reply::Answer(answer) => serde_json::from_str(&answer.to_string()).expect("an answer is JSON"),
        _ => Value::Null,
    };
    Outcome { status, body, calls: calls.load(Ordering::Relaxed) }
}

/// A request for the JSON text `body` with these header lines.
pub(super) fn request<'a>(
    body: &str,
    headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Request<Message> {
    let mut builder = Request::post("/mcp");
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    builder.body(Message::parse(body.to_owned()).expect("a message")).expect("a request")
}

/// What is logged while `work` runs.
pub(super) fn logged(work: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, work);
    String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
}
