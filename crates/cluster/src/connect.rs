//! Clients of the API server for the components in its process.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response};
use kube_client::client::Body;
use tower_service::Service;

use apiserver::auth::authentication::User;
use apiserver::{InProcessClient, Server};
use runtime::{ApiService, Connect, Identity};

/// Connects components, which act as their users.
pub fn connect(client: InProcessClient) -> Connect {
    Arc::new(move |identity: &Identity| {
        let user = User::component(&identity.user, identity.groups.clone());
        let agent = HeaderValue::from_static(identity.program);
        ApiService::new(Component { client: client.for_user(user), agent }, "default")
    })
}

/// A client for requests of the process itself, which are those of no component and of no person.
pub fn loopback(server: &Server) -> kube_client::Client {
    let agent = HeaderValue::from_static("sampan");
    kube_client::Client::new(Component { client: server.loopback_client(), agent }, "default")
}

/// An in-process client with a user agent.
#[derive(Clone)]
struct Component {
    client: InProcessClient,
    agent: HeaderValue,
}

impl Service<Request<Body>> for Component {
    type Response = Response<apiserver::http::body::Body>;
    type Error = std::convert::Infallible;
    type Future = <InProcessClient as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<Body>>::poll_ready(&mut self.client, cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.headers_mut().insert(USER_AGENT, self.agent.clone());
        self.client.call(request)
    }
}
