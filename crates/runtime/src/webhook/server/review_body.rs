//! [`ReviewBody`]: the body of a response, which keeps the reservation of its request until it was
//! written.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::connections::PendingRequest;
use super::request_limits::Reservation;

/// The length of a part. The HTTP library asks for the next part when it has written the previous ones.
const PART: usize = 64 << 10;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct ReviewBody {
    bytes: Bytes,
    _reservation: Option<Reservation>,
    _request: PendingRequest,
}

impl ReviewBody {
    pub(super) fn new(
        bytes: Bytes,
        reservation: Option<Reservation>,
        request: PendingRequest,
    ) -> Self {
        Self { bytes, _reservation: reservation, _request: request }
    }
}

impl Body for ReviewBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.bytes.len().min(PART);
        Poll::Ready(Some(Ok(Frame::data(self.bytes.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}
