//! [`Connector`]: connects and performs the TLS handshake, within a time limit.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use tower_service::Service;

use crate::dialer::{DialedStream, Dialer};
use crate::transport::BoxError;
use tls::{HttpsConnector, Stream};

/// The timeout of a handshake, as in Go.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// See the [module documentation](self).
#[derive(Clone)]
pub(crate) struct Connector {
    inner: HttpsConnector<Dialer>,
    timeout: Duration,
}

/// The server was not reached, or did not finish the handshake in time.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect to {server} within {} s", timeout.as_secs())]
pub(crate) struct ConnectTimeout {
    server: Uri,
    timeout: Duration,
}

type Connected = Stream<TokioIo<DialedStream>>;

impl Connector {
    /// A connector with the handshake timeout in addition to `dial_timeout`, the time limit of the
    /// dialer for all addresses together.
    pub(crate) fn new(inner: HttpsConnector<Dialer>, dial_timeout: Option<Duration>) -> Self {
        let timeout = dial_timeout.map_or(Duration::MAX, |it| it.saturating_add(HANDSHAKE_TIMEOUT));
        Self { inner, timeout }
    }
}

impl Service<Uri> for Connector {
    type Response = Connected;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Connected, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let (connecting, timeout) = (self.inner.call(server.clone()), self.timeout);
        Box::pin(async move {
            let connected = tokio::time::timeout(timeout, connecting).await;
            connected.unwrap_or_else(|_| Err(ConnectTimeout { server, timeout }.into()))
        })
    }
}
