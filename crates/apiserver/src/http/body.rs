//! [`Body`]: the body of a response: bytes in memory, chunks that are encoded while the client
//! reads, or a stream of events.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{Stream, StreamExt};
use http_body::{Frame, SizeHint};

/// See the [module documentation](self).
pub enum Body {
    /// Chunks that are sent in order.
    Chunks(VecDeque<Bytes>),
    /// Bytes that remain in memory after they are sent, such as a document that all clients
    /// receive.
    Shared(Bytes),
    /// Chunks that are encoded when the client reads them, so that an unread response uses little
    /// memory.
    Lazy(LazyChunks),
    /// Chunks from a stream; the end of the stream is the end of the body.
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, Truncated>> + Send>>),
}

/// The body must not be terminated, so that the client detects that the rest is missing. Over
/// HTTP/1.1 the connection is closed within the body, and over HTTP/2 the stream is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the response of another server is truncated")]
pub struct Truncated;

/// Chunks that are encoded on demand.
pub struct LazyChunks {
    chunks: Box<dyn Iterator<Item = Bytes> + Send>,
    /// The approximate total size in bytes.
    pub(crate) estimate: usize,
}

impl Iterator for LazyChunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.chunks.next()
    }
}

impl Body {
    /// A body of about `estimate` bytes whose chunks are encoded while they are sent.
    pub(crate) fn lazy(
        estimate: usize,
        chunks: impl Iterator<Item = Bytes> + Send + 'static,
    ) -> Self {
        Self::Lazy(LazyChunks { chunks: Box::new(chunks), estimate })
    }

    /// Drops `guard` once the body is sent. For a body that is already in memory, `guard` is
    /// dropped at once.
    pub(crate) fn with_guard(self, guard: impl Send + 'static) -> Self {
        match self {
            Self::Chunks(_) | Self::Shared(_) => self,
            Self::Lazy(LazyChunks { mut chunks, estimate }) => {
                let next = move || {
                    let _guard = &guard;
                    chunks.next()
                };
                Self::lazy(estimate, std::iter::from_fn(next))
            }
            Self::Stream(stream) => Self::try_stream(stream.inspect(move |_| {
                let _guard = &guard;
            })),
        }
    }

    /// A body of length zero.
    pub fn empty() -> Self {
        Self::Chunks(VecDeque::new())
    }

    /// A body whose chunks come from a stream.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::try_stream(stream.map(Ok))
    }

    /// A body whose chunks come from a stream that may fail.
    pub(crate) fn try_stream(
        stream: impl Stream<Item = Result<Bytes, Truncated>> + Send + 'static,
    ) -> Self {
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
    type Error = Truncated;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        match &mut *self {
            Self::Chunks(chunks) => Poll::Ready(chunks.pop_front().map(|it| Ok(Frame::data(it)))),
            Self::Shared(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Shared(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Lazy(chunks) => Poll::Ready(chunks.next().map(|it| Ok(Frame::data(it)))),
            Self::Stream(stream) => {
                stream.poll_next_unpin(cx).map(|next| next.map(|it| it.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Chunks(chunks) => chunks.is_empty(),
            Self::Shared(bytes) => bytes.is_empty(),
            Self::Lazy(_) | Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Chunks(chunks) => {
                SizeHint::with_exact(chunks.iter().map(|it| it.len() as u64).sum())
            }
            Self::Shared(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Lazy(_) | Self::Stream(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Chunks(chunks) => write!(f, "Chunks({})", chunks.len()),
            Self::Shared(bytes) => write!(f, "Shared({})", bytes.len()),
            Self::Lazy(chunks) => write!(f, "Lazy({})", chunks.estimate),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}
