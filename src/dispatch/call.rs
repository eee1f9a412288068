//! One call of a handler: polls it, and becomes a stream when the handler sends something first.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use futures_core::Stream;
use http::Response;

use super::context::Context;
use super::error::Failure;
use super::server::InFlight;
use crate::message::{Answer, Event, Message, RawObject, Reply, ReplyStream, RequestId};
use crate::rejection::Rejection;

/// What a handler comes to: the members of a result, or why there is none.
pub(super) type Outcome = Result<RawObject, Failure>;

/// A handler at work.
pub(super) type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A call in progress. Dropping it drops the handler's future, which cancels the work.
pub(super) struct Call {
    work: Work,
    context: Context,
    /// True once nothing is sent any more.
    closed: bool,
    in_flight: InFlight,
}

impl Call {
    /// Has `start` call a handler. What a handler does before it returns its future counts as its work.
    pub(super) fn start(
        start: impl FnOnce(Context) -> Result<Work, Rejection>,
        context: Context,
        in_flight: InFlight,
    ) -> Result<Self, Rejection> {
        let work = match guarded(&context, || start(context.clone())) {
            Ok(started) => started?,
            Err(failure) => Box::pin(std::future::ready(Err(failure))),
        };
        Ok(Self { work, context, closed: false, in_flight })
    }

    fn poll_work(&mut self, cx: &mut TaskContext<'_>) -> Poll<Outcome> {
        let polled = guarded(&self.context, || self.work.as_mut().poll(cx));
        polled.unwrap_or_else(|failure| Poll::Ready(Err(failure)))
    }

    fn respond(&self, outcome: Outcome) -> Response<Reply> {
        let id = self.context.message().id().cloned();
        match outcome {
            Ok(result) if result.get("requestState").is_some() && !self.context.keeps_state() => {
                tracing::error!(
                    message = ?self.context.message(),
                    "a handler gave a state that nothing protects: put RequestStateLayer above the dispatcher, or choose \
                     Builder::with_unprotected_request_state"
                );
                fail(id, Failure::internal())
            }
            Ok(mut result) => {
                self.in_flight.server().complete(&mut result);
                Response::new(Reply::Answer(Answer::result(id, result)))
            }
            Err(failure) => fail(id, failure),
        }
    }
}

fn fail(id: Option<RequestId>, failure: Failure) -> Response<Reply> {
    match failure {
        Failure::Rejected(rejection) => rejection.into_response(id),
        Failure::Error(error) => Response::new(Reply::Answer(Answer::error(id, error))),
    }
}

/// A handler that panics fails its own call and nothing else.
fn guarded<T>(context: &Context, run: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| {
        tracing::error!(message = ?context.message(), "a handler panicked");
        Failure::internal()
    })
}

impl Call {
    /// From now on nothing is sent any more; says whether something waits to be written.
    fn close(&mut self) -> bool {
        self.closed = true;
        self.context.close()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.closed {
            self.close();
        }
    }
}

/// The future of [`Dispatch`](super::Dispatch).
pub struct DispatchFuture(State);

enum State {
    Ready(Option<Box<Response<Reply>>>),
    Working(Option<Call>),
}

impl DispatchFuture {
    pub(super) fn ready(response: Response<Reply>) -> Self {
        Self(State::Ready(Some(Box::new(response))))
    }

    pub(super) fn working(call: Call) -> Self {
        Self(State::Working(Some(call)))
    }
}

impl Future for DispatchFuture {
    type Output = Result<Response<Reply>, std::convert::Infallible>;

    /// # Panics
    /// If polled after it has completed.
    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let slot = match &mut self.0 {
            State::Ready(response) => {
                return Poll::Ready(Ok(*response.take().expect("polled after completion")));
            }
            State::Working(slot) => slot,
        };
        let call = slot.as_mut().expect("polled after completion");
        let (first, response) = match call.poll_work(cx) {
            Poll::Ready(outcome) => {
                let response = call.respond(outcome);
                if !call.close() {
                    *slot = None;
                    return Poll::Ready(Ok(response));
                }
                (None, Some(response))
            }
            Poll::Pending => match call.context.poll_outbox(cx) {
                Poll::Ready(first) => (Some(first), None),
                Poll::Pending => return Poll::Pending,
            },
        };
        let stream = CallStream { call: slot.take(), first, last: response.and_then(into_answer) };
        Poll::Ready(Ok(Response::new(Reply::Stream(ReplyStream::new(stream)))))
    }
}

impl fmt::Debug for DispatchFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatchFuture").finish_non_exhaustive()
    }
}

/// Once notifications have been sent the status is 200 and cannot be changed any more.
fn into_answer(response: Response<Reply>) -> Option<Answer> {
    match response.into_body() {
        Reply::Answer(answer) => Some(answer),
        Reply::Stream(_) | Reply::Accepted => None,
    }
}

/// What a call sends, then its answer.
struct CallStream {
    /// `None` once the answer has been given.
    call: Option<Call>,
    first: Option<Message>,
    last: Option<Answer>,
}

impl Stream for CallStream {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Event>> {
        let this = &mut *self;
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(Event::Notification(first)));
        }
        let Some(call) = &mut this.call else { return Poll::Ready(None) };
        if let Poll::Ready(message) = call.context.poll_outbox(cx) {
            return Poll::Ready(Some(Event::Notification(message)));
        }
        if this.last.is_none() {
            if let Poll::Ready(outcome) = call.poll_work(cx) {
                this.last = into_answer(call.respond(outcome));
            }
            // The handler may have sent something just now, before it went on or came to its end.
            if let Poll::Ready(message) = call.context.poll_outbox(cx) {
                return Poll::Ready(Some(Event::Notification(message)));
            }
        }
        match this.last.take() {
            Some(answer) => {
                this.call = None;
                Poll::Ready(Some(Event::Answer(answer)))
            }
            None => Poll::Pending,
        }
    }
}
