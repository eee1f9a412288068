//! The one response body.

mod collect;

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

pub(crate) use self::collect::{Collect, Failure};

/// What bodies and services fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

type Inner = Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError> + Send>>;

/// The body of an HTTP response: bytes that are all there, or a stream.
///
/// ```
/// use http_body::Body as _;
/// use mcp_layers::body::Body;
///
/// let body = Body::from("{}");
/// assert_eq!(body.size_hint().exact(), Some(2));
/// ```
pub struct Body(Kind);

enum Kind {
    /// `None` once the bytes have been taken.
    Full(Option<Bytes>),
    /// Pieces that follow on each other. Those that have been taken are empty.
    Chunks([Bytes; 3]),
    Stream(Inner),
}

impl Body {
    /// A body without bytes.
    #[must_use]
    pub const fn empty() -> Self {
        Self(Kind::Full(None))
    }

    /// Wraps any body.
    pub fn new<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Kind::Stream(Box::pin(Boxed { body })))
    }
}

/// Unifies the error of a body.
#[pin_project::pin_project]
struct Boxed<B> {
    #[pin]
    body: B,
}

impl<B> http_body::Body for Boxed<B>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(self.project().body.poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.get_mut().0 {
            Kind::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Chunks(chunks) => {
                let next = chunks.iter_mut().find(|chunk| !chunk.is_empty());
                Poll::Ready(next.map(|chunk| Ok(Frame::data(mem::take(chunk)))))
            }
            Kind::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Full(bytes) => bytes.is_none(),
            Kind::Chunks(chunks) => chunks.iter().all(Bytes::is_empty),
            Kind::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Chunks(chunks) => SizeHint::with_exact(total(chunks)),
            Kind::Stream(body) => body.size_hint(),
        }
    }
}

fn total(chunks: &[Bytes]) -> u64 {
    chunks.iter().map(|chunk| chunk.len() as u64).sum()
}

/// Pieces that follow on each other, such as those of [`Answer::into_chunks`](crate::message::Answer::into_chunks).
impl From<[Bytes; 3]> for Body {
    fn from(chunks: [Bytes; 3]) -> Self {
        Self(Kind::Chunks(chunks))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(Kind::Full((!bytes.is_empty()).then_some(bytes)))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Full(bytes) => f.debug_tuple("Body").field(&bytes.as_ref().map_or(0, Bytes::len)).finish(),
            Kind::Chunks(chunks) => f.debug_tuple("Body").field(&total(chunks)).finish(),
            Kind::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;

    use super::*;

    #[test]
    fn a_body_of_chunks_knows_its_length_and_passes_over_empty_ones() {
        let chunks = ["", "abc", "de"].map(|text| Bytes::from_static(text.as_bytes()));
        let mut body = Body::from(chunks);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut lengths = Vec::new();
        loop {
            lengths.push(body.size_hint().exact().unwrap());
            assert_eq!(body.is_end_stream(), lengths.last() == Some(&0));
            match Pin::new(&mut body).poll_frame(&mut cx) {
                Poll::Ready(Some(Ok(frame))) => assert!(frame.is_data()),
                Poll::Ready(None) => break,
                _ => panic!("neither fails nor waits"),
            }
        }
        assert_eq!(lengths, [5, 2, 0]);
    }
}
