//! [`InProcessClient`]: the whole server as a [`tower_service::Service`], for clients in the same
//! process. Its requests take the same chain as those that come through a socket.

pub(crate) mod handler;
pub(crate) mod loopback;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;

use crate::auth::authentication::User;
use crate::http::body::Body;
use crate::http::request_body::BodyError;
use crate::in_process::handler::{Handler, Peer, ResponseFuture};

/// See the [module documentation](self). Cheap to clone; each clone acts as the same user.
#[derive(Clone)]
pub struct InProcessClient {
    handler: Arc<dyn Handler>,
    peer: Peer,
}

impl InProcessClient {
    /// A client that acts as `user`.
    pub(crate) fn new(handler: Arc<dyn Handler>, user: User) -> Self {
        Self { handler, peer: Peer { user: Some(Arc::new(user)), ..Peer::default() } }
    }

    /// A client at the other end of a connection.
    pub(crate) fn for_peer(handler: Arc<dyn Handler>, peer: Peer) -> Self {
        Self { handler, peer }
    }

    /// A client of the same server that acts as another user.
    #[must_use]
    pub fn for_user(&self, user: User) -> Self {
        Self::new(Arc::clone(&self.handler), user)
    }

    /// A client of the same server that is anonymous unless its requests have a bearer token.
    #[must_use]
    pub fn unauthenticated(&self) -> Self {
        Self::for_peer(Arc::clone(&self.handler), Peer::default())
    }
}

impl<B> tower_service::Service<Request<B>> for InProcessClient
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let request =
            request.map(|body| body.map_err(|error| BodyError(error.into())).boxed_unsync());
        self.handler.handle(self.peer.clone(), request)
    }
}

impl fmt::Debug for InProcessClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessClient").field("peer", &self.peer).finish_non_exhaustive()
    }
}
