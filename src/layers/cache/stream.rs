//! Answers that come at the end of a stream.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use http::{Response, StatusCode};

use super::fill::Learnt;
use super::query::Query;
use super::response_cache::{Found, ResponseCache};
use super::statistics::count;
use crate::message::{Answer, Event, Reply, ReplyStream};
use crate::store::CacheStore;

/// Turns a stream that holds nothing but an answer into the answer. From one with notifications, which only the one
/// who asked may see, the cache learns when the answer passes, and in its place goes the expired entry that was
/// `found` if the answer is no better.
pub(super) async fn open<S: CacheStore>(
    cache: &ResponseCache<S>,
    query: &Query,
    found: &Found,
    response: Response<Reply>,
) -> Response<Reply> {
    let (parts, reply) = response.into_parts();
    let reply = match reply {
        Reply::Stream(mut stream) => match poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await {
            Some(Event::Answer(answer)) => Reply::Answer(answer),
            first => {
                if query.refresh {
                    // The stream may break off, or nobody may wait for its end.
                    cache.forget_all(query).await;
                }
                let (cache, query, mut found) = (cache.clone(), query.clone(), found.clone());
                let status = parts.status;
                if status != StatusCode::OK {
                    // It has been said that this failed: no result can follow.
                    found.stale = None;
                }
                let keep = move |answer: Answer| -> Keeping {
                    Box::pin(async move {
                        let Learnt::Stale(hit) = cache.learn(&query, found, status, &answer).await else {
                            return answer;
                        };
                        count(&cache.counters().stale);
                        hit.into_answer(answer.id().cloned())
                    })
                };
                let state = State::Passing(stream, Some(Box::new(keep)));
                Reply::Stream(ReplyStream::new(Kept { first, state }))
            }
        },
        reply => reply,
    };
    Response::from_parts(parts, reply)
}

type Keeping = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A stream whose answer is kept before it goes on.
struct Kept {
    first: Option<Event>,
    state: State,
}

enum State {
    Passing(ReplyStream, Option<Box<dyn FnOnce(Answer) -> Keeping + Send>>),
    Keeping(Keeping),
    Done,
}

impl Stream for Kept {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        loop {
            match &mut self.state {
                State::Passing(stream, keep) => match ready!(Pin::new(stream).poll_next(cx)) {
                    Some(Event::Answer(answer)) => {
                        let Some(keep) = keep.take() else { return Poll::Ready(Some(Event::Answer(answer))) };
                        self.state = State::Keeping(keep(answer));
                    }
                    event => return Poll::Ready(event),
                },
                State::Keeping(keeping) => {
                    let answer = ready!(keeping.as_mut().poll(cx));
                    self.state = State::Done;
                    return Poll::Ready(Some(Event::Answer(answer)));
                }
                State::Done => return Poll::Ready(None),
            }
        }
    }
}
