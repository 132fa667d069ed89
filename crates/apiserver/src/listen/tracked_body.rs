//! [`TrackedBody`]: the body of a response that is being sent. Its memory is counted until it is sent,
//! and its [`Progress`] is recorded.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};

use super::progress::Progress;
use crate::flow_control::{AnswerAccount, Charge, STREAM_OVERHEAD};
use crate::http::body::{Body, Truncated};

/// The maximum size of a part that is handed out. Larger chunks are split.
const MAX_PART: usize = 64 << 10;

/// See the [module documentation](self).
pub(super) struct TrackedBody {
    body: Body,
    /// The rest of a chunk that was handed out in part.
    rest: Bytes,
    /// Counts the chunks; None if they are not limited or already counted.
    account: Option<Arc<AnswerAccount>>,
    progress: Arc<Progress>,
    /// The charge for the memory of the stream itself.
    _overhead: Option<Charge>,
}

impl TrackedBody {
    /// A body that `account` counts: existing bytes from now on, others when they are produced.
    pub(super) fn new(
        mut body: Body,
        account: Option<Arc<AnswerAccount>>,
        progress: Arc<Progress>,
    ) -> Self {
        if matches!(body, Body::Stream(_)) {
            progress.set_stream();
        }
        let overhead = account.as_ref().map(|it| it.charge(STREAM_OVERHEAD));
        if let (Some(account), Body::Chunks(chunks)) = (&account, &mut body) {
            for chunk in chunks {
                *chunk = account.hold(std::mem::take(chunk));
            }
        }
        let is_produced_later = matches!(body, Body::Lazy(_) | Body::Stream(_));
        let account = account.filter(|_| is_produced_later);
        Self { body, rest: Bytes::new(), account, progress, _overhead: overhead }
    }

    /// The next part to send.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Truncated>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(truncated)) => return Poll::Ready(Some(Err(truncated))),
                None => return Poll::Ready(None),
            };
            let Ok(chunk) = frame.into_data() else { return Poll::Ready(None) };
            self.rest = match &self.account {
                Some(account) => account.hold(chunk),
                None => chunk,
            };
        }
        let length = self.rest.len().min(MAX_PART);
        Poll::Ready(Some(Ok(self.rest.split_to(length))))
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.progress.record_sent();
    }
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        self.progress.record_sent();
        let part = ready!(self.poll_part(cx));
        if matches!(part, Some(Ok(_))) {
            self.progress.record_handed_out();
        }
        Poll::Ready(part.map(|it| it.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.body.size_hint().exact() {
            Some(length) => SizeHint::with_exact(length + self.rest.len() as u64),
            None => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream::{self, StreamExt};
    use http::{Request, Response};
    use http_body_util::{BodyExt, Empty};
    use hyper::client::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use hyper_util::server::conn::auto::Builder;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn a_truncated_response_is_an_error_for_the_client() {
        let (client, server) = tokio::io::duplex(1 << 16);
        let truncate = Arc::new(Notify::new());
        let awaited = Arc::clone(&truncate);
        let service = service_fn(move |_| {
            let truncate = Arc::clone(&awaited);
            let truncated = async move {
                truncate.notified().await;
                Err(Truncated)
            };
            let first = stream::iter([Ok(Bytes::from_static(b"{"))]);
            let body = Body::try_stream(first.chain(stream::once(truncated)));
            let sent = TrackedBody::new(body, None, Arc::default());
            async move { Ok::<_, Infallible>(Response::new(sent)) }
        });
        let builder = Builder::new(TokioExecutor::new());
        let serving = builder.serve_connection(TokioIo::new(server), service);
        let requesting = async {
            let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
            let request = Request::new(Empty::<Bytes>::new());
            let response = async {
                let mut body = sender.send_request(request).await.unwrap().into_body();
                assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "{");
                truncate.notify_one();
                body.collect().await
            };
            tokio::join!(response, connection).0
        };
        let (_, response) = tokio::join!(serving, requesting);
        assert!(response.is_err(), "the response seems complete");
    }
}
