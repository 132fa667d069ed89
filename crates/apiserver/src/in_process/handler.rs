//! [`Handler`]: answers requests from sockets and from within the process; and [`Peer`], their sender.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};

use crate::auth::authentication::User;
use crate::flow_control::connection::Connection;
use crate::http::body::Body;
use crate::http::request_body::RequestBody;

/// The sender of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    /// The user of the client certificate, if the client has a valid one.
    pub user: Option<Arc<User>>,
    /// Whether the sender is a proxy that authenticates users.
    pub is_front_proxy: bool,
    /// Whether the client has a certificate that is not that of a user: one that is not valid, or that
    /// of a proxy.
    pub has_foreign_certificate: bool,
    /// Whether the sender is on another machine.
    pub remote: bool,
    /// The address of the sender; None within the process.
    pub address: Option<IpAddr>,
    /// The connection of the request; None within the process.
    pub connection: Option<Arc<Connection>>,
}

/// The future of a response.
pub(crate) type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// See the [module documentation](self).
pub(crate) trait Handler: Send + Sync {
    /// Answers a request. Errors and panics are answered too.
    fn handle(&self, peer: Peer, request: Request<RequestBody>) -> ResponseFuture;
}
