//! The body of an answer: whole, or streamed as a region sends it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Frame, SizeHint};

use crate::http::exchange::Failure;

pub enum Body {
    /// All of it is here; `None` once it was given out.
    Whole(Option<Bytes>),
    /// As it arrives from a region, with how it broke off, which is reported one poll later.
    Streamed(Pin<Box<dyn Stream<Item = Result<Bytes, Failure>> + Send>>, Option<Failure>),
}

/// A stream that keeps something until it is dropped.
struct Keeping<T>(BoxStream, T);

type BoxStream = Pin<Box<dyn Stream<Item = Result<Bytes, Failure>> + Send>>;

impl<T: Unpin> Stream for Keeping<T> {
    type Item = Result<Bytes, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl Body {
    /// Keeps `kept` until a streamed body has been sent.
    #[must_use]
    pub fn keeping<T: Send + Unpin + 'static>(self, kept: impl FnOnce() -> T) -> Self {
        match self {
            Self::Whole(whole) => Self::Whole(whole),
            Self::Streamed(stream, broken) => Self::Streamed(Box::pin(Keeping(stream, kept())), broken),
        }
    }

    pub const fn empty() -> Self {
        Self::Whole(None)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match &mut *self {
            Self::Whole(whole) => {
                Poll::Ready(whole.take().filter(|bytes| !bytes.is_empty()).map(|b| Ok(Frame::data(b))))
            }
            Self::Streamed(_, broken @ Some(_)) => Poll::Ready(broken.take().map(Err)),
            Self::Streamed(stream, broken) => match ready!(stream.as_mut().poll_next(cx)) {
                // When a body breaks off, hyper drops what it has not sent yet. The extra poll lets
                // it send that first, as far as the socket takes it at once, so that the caller
                // sees a truncated answer and not none.
                Some(Err(failure)) => {
                    *broken = Some(failure);
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                chunk => Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data))),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(whole) if whole.as_ref().is_none_or(Bytes::is_empty))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => SizeHint::with_exact(whole.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Streamed(..) => SizeHint::default(),
        }
    }
}

/// Marks an answer to a request whose body was not read: over HTTP/1.1 the connection cannot be
/// used any further.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyUnread;

/// Mark of an answer of our own to a caller that did not prove who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialRefused {
    /// Nobody could judge its token, which may be good: its connection is not ended for that.
    Unjudged,
    Cheap,
    /// A signature had to be verified before.
    Costly,
}
