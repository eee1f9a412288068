//! What HTTP itself costs: reads the whole request and answers with bytes that it was given in a file.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};

fn main() {
    let file = std::env::args().nth(1).expect("usage: compare-floor FILE");
    let answer = Bytes::from(std::fs::read(file).expect("a file"));
    compare_common::serve(async move || {
        service_fn(move |request: Request<Incoming>| {
            let answer = answer.clone();
            async move {
                // Whoever answers JSON-RPC must have read the request.
                let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
                std::hint::black_box(body.is_ok());
                let mut response = Response::new(Full::new(answer));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                Ok::<_, Infallible>(response)
            }
        })
    });
}
