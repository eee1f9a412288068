//! Ten thousand requests, one in a hundred of which goes wrong.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use hyper::body::Incoming;
use mcp_layers::message::{Event, Reply};
use mcp_layers::upstream::HttpUpstream;
use tokio::runtime::Handle;
use tower::ServiceExt as _;

use crate::support::*;

const REQUESTS: usize = 10_000;
const CALLERS: usize = 50;

/// Two frames, or one and an end that hyper makes a broken connection of.
struct Answer {
    frames: Vec<Bytes>,
    broken: bool,
    _work: Counted,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        if !self.frames.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(self.frames.remove(0)))));
        }
        Poll::Ready(std::mem::take(&mut self.broken).then_some(Err("broken")))
    }
}

/// Every fourth answer is a stream. What goes wrong goes wrong in one of six ways.
async fn answer(request: Request<Incoming>, work: Counted) -> Result<Response<Answer>, Infallible> {
    let id = id_of(request).await;
    let number = usize::try_from(id.as_u64().unwrap()).unwrap();
    let mut status = 200;
    let mut result = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"of":{id}}}}}"#);
    let mut streamed = number % 4 == 0;
    let mut broken = false;
    if number % 100 == 99 {
        match number / 100 % 6 {
            0 => status = 500,
            1 => broken = true,
            2 => (streamed, broken) = (true, true),
            3 => result = result.replace(r#""id":"#, r#""id":1"#),
            4 => result.truncate(20),
            _ => streamed = true,
        }
    }
    let mut frames = Vec::new();
    if streamed {
        frames.push(format!("data: {PROGRESS}\n\n"));
        result = format!("data: {result}\n\n");
    }
    if broken {
        result.truncate(9);
    }
    // One stream ends without an answer, as if that was all.
    if broken || !(streamed && number % 100 == 99) {
        frames.push(result);
    }
    let frames = frames.into_iter().map(Bytes::from).collect();
    let kind = match (status, streamed) {
        (500, _) => "text/html",
        (_, true) => "text/event-stream",
        (_, false) => "application/json",
    };
    Ok(Response::builder()
        .status(status)
        .header("content-type", kind)
        .body(Answer { frames, broken, _work: work })
        .unwrap())
}

#[tokio::test]
async fn every_caller_gets_exactly_one_answer_and_nothing_is_left() {
    let work = Count::default();
    let (address, connections) = server({
        let work = work.clone();
        move |request| answer(request, work.one())
    })
    .await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    let service = upstream(HttpUpstream::new(), address);
    let (good, bad) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (service, good, bad) = (service.clone(), Arc::clone(&good), Arc::clone(&bad));
            tokio::spawn(async move {
                for number in (caller..REQUESTS).step_by(CALLERS) {
                    let text = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"x"}}"#);
                    let response = service.clone().oneshot(message(&text)).await.unwrap();
                    let status = response.status();
                    let answer = match response.into_body() {
                        Reply::Answer(answer) => answer,
                        Reply::Stream(mut stream) => loop {
                            match next(&mut stream).await {
                                Some(Event::Notification(_)) => {}
                                Some(Event::Answer(answer)) => {
                                    assert!(next(&mut stream).await.is_none());
                                    break answer;
                                }
                                None => panic!("request {number} has no answer"),
                            }
                        },
                        Reply::Accepted => panic!("request {number} has no answer"),
                    };
                    assert_eq!(answer.id().unwrap().text(), number.to_string());
                    match answer.outcome() {
                        Ok(result) => {
                            assert_eq!(status, 200);
                            assert_eq!(result.get("of").unwrap().text(), number.to_string());
                            assert_ne!(number % 100, 99);
                            good.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            assert_eq!((number % 100, error.code), (99, 502), "{error:?}");
                            bad.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!((good.load(Ordering::Relaxed), bad.load(Ordering::Relaxed)), (REQUESTS - 100, 100));
    assert_eq!(work.all(), REQUESTS, "nothing is asked twice");
    // Each failure may cost one, and some are opened in vain while another becomes free.
    assert!(connections.all() < 4 * CALLERS, "{} connections", connections.all());
    until("no work is left", || work.live() == 0).await;
    until("no more connections are kept than may be idle", || connections.live() <= 64).await;
    drop(service);
    until("no connection is left", || connections.live() == 0).await;
    until("no task is left", || Handle::current().metrics().num_alive_tasks() <= tasks).await;
}
