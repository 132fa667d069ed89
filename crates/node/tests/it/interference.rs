//! Connections of nodes on which requests of an administrator are served before some others.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use kube_client::client::Body;
use tower_service::Service;

use apiserver::auth::authentication::User;
use apiserver::in_process::InProcessClient;
use runtime::{ApiService, Connect, Identity};
use testenv::TestEnv;

/// Returns the requests that are served before a request.
type Before = dyn Fn(&Request<Body>) -> Vec<Request<Body>> + Send + Sync;

/// Connects nodes to a plane; `before` returns the requests that are served before each request.
pub(crate) fn connect(
    env: &TestEnv,
    before: impl Fn(&Request<Body>) -> Vec<Request<Body>> + Send + Sync + 'static,
) -> Connect {
    let (administrator, before): (_, Arc<Before>) =
        (env.server().in_process_client(), Arc::new(before));
    Arc::new(move |identity: &Identity| {
        let user = User::component(&identity.user, identity.groups.clone());
        let (client, administrator) = (administrator.for_user(user), administrator.clone());
        let before = Arc::clone(&before);
        ApiService::new(Connection { client, administrator, before }, "default")
    })
}

#[derive(Clone)]
struct Connection {
    client: InProcessClient,
    administrator: InProcessClient,
    before: Arc<Before>,
}

impl Service<Request<Body>> for Connection {
    type Response = Response<apiserver::http::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut client, mut administrator) = (self.client.clone(), self.administrator.clone());
        let before = (self.before)(&request);
        Box::pin(async move {
            for first in before {
                let code = administrator.call(first).await?.status();
                assert!(code.is_success(), "the request before another one: {code}");
            }
            client.call(request).await
        })
    }
}
