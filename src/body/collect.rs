//! Reads a body into one piece of memory.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes};
use http_body::Body;

use crate::body::BoxError;

/// A declared length is believed up to here when memory is reserved; beyond it the bytes have to come first.
const TRUSTED_LENGTH: usize = 64 * 1024;

/// What has been read of a body.
#[derive(Debug)]
pub(crate) struct Collect {
    read: Read,
    max: usize,
}

#[derive(Debug)]
enum Read {
    Nothing,
    /// One frame, as it came. Most bodies are that.
    Frame(Bytes),
    /// The frames so far, copied together: frames may be as small as a byte, and each keeps the buffer alive that
    /// it was read into.
    Copied(Vec<u8>),
}

/// Why a body was not read to its end.
#[derive(Debug)]
pub(crate) enum Failure {
    TooLarge,
    Broken(BoxError),
}

impl Collect {
    /// Takes bodies of up to `max` bytes.
    pub(crate) const fn new(max: usize) -> Self {
        Self { read: Read::Nothing, max }
    }

    fn len(&self) -> usize {
        match &self.read {
            Read::Nothing => 0,
            Read::Frame(bytes) => bytes.len(),
            Read::Copied(bytes) => bytes.len(),
        }
    }

    /// Reads on; the result is all of the body.
    pub(crate) fn poll<B>(
        &mut self,
        mut body: Pin<&mut B>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, Failure>>
    where
        B: Body,
        B::Error: Into<BoxError>,
    {
        loop {
            let data = match ready!(body.as_mut().poll_frame(cx)) {
                None => return Poll::Ready(Ok(self.take())),
                Some(Err(error)) => return Poll::Ready(Err(Failure::Broken(error.into()))),
                // Trailers mean nothing here.
                Some(Ok(frame)) => frame.into_data().ok(),
            };
            if let Some(data) = data {
                if data.remaining() > self.max - self.len() {
                    return Poll::Ready(Err(Failure::TooLarge));
                }
                self.push(data, body.size_hint().lower());
            }
            // Saves asking once more.
            if body.is_end_stream() {
                return Poll::Ready(Ok(self.take()));
            }
        }
    }

    /// Adds a frame; `more` is how many bytes are said to follow.
    fn push(&mut self, mut data: impl Buf, more: u64) {
        let len = data.remaining();
        if len == 0 {
            return;
        }
        match &mut self.read {
            Read::Nothing => self.read = Read::Frame(data.copy_to_bytes(len)),
            Read::Frame(first) => {
                let more = usize::try_from(more).unwrap_or(usize::MAX).min(TRUSTED_LENGTH);
                let mut bytes = Vec::with_capacity(first.len() + len + more);
                bytes.extend_from_slice(first);
                bytes.put(data);
                self.read = Read::Copied(bytes);
            }
            Read::Copied(bytes) => bytes.put(data),
        }
    }

    fn take(&mut self) -> Bytes {
        match std::mem::replace(&mut self.read, Read::Nothing) {
            Read::Nothing => Bytes::new(),
            Read::Frame(bytes) => bytes,
            Read::Copied(bytes) => bytes.into(),
        }
    }
}
