//! What the tests of the layers share.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::task::{Context, Poll};

use futures_core::Stream;
use http::{Request, Response};
use serde_json::Value;
use tower::{Layer, Service, ServiceExt as _, service_fn};

use crate::message::{Answer, Event, Message, RawObject, Reply, ReplyStream};

/// What a layer made of one request: the answer, and whether the inner service was called.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) status: u16,
    pub(super) body: Value,
    /// Whether the answer came at the end of a stream.
    pub(super) streamed: bool,
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
    let mut reply = response.into_body();
    let streamed = matches!(reply, Reply::Stream(_));
    let answer = match &mut reply {
        Reply::Answer(answer) => Some(answer.to_string()),
        Reply::Stream(stream) => last_of(stream).await,
        Reply::Accepted => None,
    };
    let body = answer.map(|answer| serde_json::from_str(&answer).expect("an answer is JSON"));
    let calls = calls.load(Ordering::Relaxed);
    Outcome { status, body: body.unwrap_or_default(), streamed, calls }
}

async fn last_of(stream: &mut ReplyStream) -> Option<String> {
    while let Some(event) = poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await {
        if let Event::Answer(answer) = event {
            return Some(answer.to_string());
        }
    }
    None
}

/// A stream that has this answer at its end, and nothing before.
pub(super) fn streamed(answer: Answer) -> Reply {
    struct Once(Option<Answer>);

    impl Stream for Once {
        type Item = Event;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Event>> {
            Poll::Ready(self.0.take().map(Event::Answer))
        }
    }

    Reply::Stream(ReplyStream::new(Once(Some(answer))))
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

/// What is logged while `work` runs, by this thread.
///
/// The subscriber is that of the whole process: one of a thread alone misses what another thread logs first, because
/// that it is of no interest there is remembered for all.
pub(super) fn logged(work: impl FnOnce()) -> String {
    struct Lines;

    thread_local! {
        static LINES: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
    }

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            LINES.with_borrow_mut(|lines| lines.as_mut().map_or(Ok(bytes.len()), |lines| lines.write(bytes)))
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    static BEGIN: Once = Once::new();
    BEGIN.call_once(|| {
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Lines).finish();
        tracing::subscriber::set_global_default(subscriber).expect("no other test sets one");
    });
    LINES.set(Some(Vec::new()));
    work();
    String::from_utf8(LINES.take().unwrap_or_default()).unwrap()
}
