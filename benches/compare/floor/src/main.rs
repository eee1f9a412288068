//! What HTTP itself costs: reads the whole request and answers with bytes that it was given in a file.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};

/// All at once; or, if it stays open, nothing after that.
#[derive(Clone)]
struct Answer {
    bytes: Option<Bytes>,
    stays_open: bool,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.bytes.take() {
            None if self.stays_open => Poll::Pending,
            bytes => Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none() && !self.stays_open
    }

    fn size_hint(&self) -> SizeHint {
        let length = self.bytes.as_ref().map_or(0, Bytes::len) as u64;
        if self.stays_open { SizeHint::default() } else { SizeHint::with_exact(length) }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("usage: compare-floor FILE [open]");
    let stays_open = arguments.next().is_some();
    let answer = Answer { bytes: Some(std::fs::read(file).expect("a file").into()), stays_open };
    let media_type = if stays_open { "text/event-stream" } else { "application/json" };
    compare_common::serve(async move || {
        service_fn(move |request: Request<Incoming>| {
            let answer = answer.clone();
            async move {
                // Whoever answers JSON-RPC must have read the request.
                let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
                std::hint::black_box(body.is_ok());
                let mut response = Response::new(answer);
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
                Ok::<_, Infallible>(response)
            }
        })
    });
}
