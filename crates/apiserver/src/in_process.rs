//! The in-process door: the whole server as a [`tower_service::Service`], for clients that live in
//! the same process. It is the same chain that a socket leads to; only the socket is missing.

use crate::auth::authentication::User;
use crate::chain;
use crate::chain::Peer;
use crate::http::body::Body;
use crate::http::request_body::BodyError;
use crate::plane::Plane;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// See the [module documentation](self). Cheap to clone; each clone acts as the same user.
#[derive(Clone)]
pub struct InProcessClient {
    plane: Arc<Plane>,
    peer: Peer,
}

impl InProcessClient {
    /// For somebody in this process.
    pub(crate) fn new(plane: Arc<Plane>, user: User) -> Self {
        Self { plane, peer: Peer { user: Some(Arc::new(user)), ..Peer::default() } }
    }

    /// For somebody at the other end of a connection.
    pub(crate) fn for_peer(plane: Arc<Plane>, peer: Peer) -> Self {
        Self { plane, peer }
    }

    /// The same door for somebody else.
    #[must_use]
    pub fn for_user(&self, user: User) -> Self {
        Self::new(Arc::clone(&self.plane), user)
    }

    /// The same door for somebody who has yet to say who they are, by a bearer token or not at all.
    #[must_use]
    pub fn unauthenticated(&self) -> Self {
        Self::for_peer(Arc::clone(&self.plane), Peer::default())
    }
}

impl<B> tower_service::Service<Request<B>> for InProcessClient
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let request = request.map(|body| body.map_err(|it| BodyError(it.into())).boxed_unsync());
        let answered = chain::serve(Arc::clone(&self.plane), self.peer.clone(), request);
        Box::pin(async move { Ok(answered.await) })
    }
}

impl std::fmt::Debug for InProcessClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcessClient").field("peer", &self.peer).finish_non_exhaustive()
    }
}
