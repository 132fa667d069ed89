//! [`Body`]: what an answer is made of: bytes that are there already, or a stream that makes them.

use bytes::Bytes;
use futures_util::stream::{Stream, StreamExt};
use http_body::{Frame, SizeHint};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// See the [module documentation](self).
pub enum Body {
    /// Bytes, sent one after the other.
    Chunks(VecDeque<Bytes>),
    /// Bytes as they come; the end of the stream is the end of the answer.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body {
    /// Nothing.
    pub fn empty() -> Self {
        Self::Chunks(VecDeque::new())
    }

    /// A body that is made while it is sent.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::Stream(Box::pin(stream))
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() { Self::empty() } else { Self::Chunks(VecDeque::from([bytes])) }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Chunks(chunks) => Poll::Ready(chunks.pop_front().map(|it| Ok(Frame::data(it)))),
            Self::Stream(stream) => {
                stream.poll_next_unpin(cx).map(|next| next.map(|it| Ok(Frame::data(it))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Chunks(chunks) if chunks.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Chunks(chunks) => {
                SizeHint::with_exact(chunks.iter().map(|it| it.len() as u64).sum())
            }
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Chunks(chunks) => write!(f, "Chunks({})", chunks.len()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}
