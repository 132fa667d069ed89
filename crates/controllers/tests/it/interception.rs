//! Connections of controllers on which some requests do not reach the server.

use std::convert::Infallible;
use std::future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use kube_client::client::Body;
use tower_service::Service;

use apiserver::auth::authentication::User;
use apiserver::http::body::Body as ResponseBody;
use apiserver::in_process::InProcessClient;
use runtime::{ApiService, Connect, Identity};
use testenv::TestEnv;

/// The handling of a request.
pub(crate) enum Interception {
    /// The server answers it.
    None,
    /// It is refused with this code.
    Refused(StatusCode),
    /// It is never answered.
    Unanswered,
    /// The server answers another one before it, which comes from an administrator.
    After(Box<Request<Body>>),
}

/// Connects controllers to a plane; `intercept` decides about each request.
pub(crate) fn connect(
    env: &TestEnv,
    intercept: impl Fn(&Request<Body>) -> Interception + Send + Sync + 'static,
) -> Connect {
    let (client, intercept) = (env.server().in_process_client(), Arc::new(intercept));
    Arc::new(move |identity: &Identity| {
        let user = User::component(&identity.user, identity.groups.clone());
        let (administrator, client) = (client.clone(), client.for_user(user));
        let intercept = Arc::clone(&intercept);
        ApiService::new(Connection { client, administrator, intercept }, "default")
    })
}

struct Connection<F> {
    client: InProcessClient,
    administrator: InProcessClient,
    intercept: Arc<F>,
}

impl<F> Clone for Connection<F> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            administrator: self.administrator.clone(),
            intercept: Arc::clone(&self.intercept),
        }
    }
}

impl<F: Fn(&Request<Body>) -> Interception> Service<Request<Body>> for Connection<F> {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match (self.intercept)(&request) {
            Interception::None => {
                let mut client = self.client.clone();
                Box::pin(async move { client.call(request).await })
            }
            Interception::Refused(code) => {
                let mut refused = Response::new(ResponseBody::empty());
                *refused.status_mut() = code;
                Box::pin(future::ready(Ok(refused)))
            }
            Interception::Unanswered => Box::pin(future::pending()),
            Interception::After(first) => {
                let (mut client, mut administrator) =
                    (self.client.clone(), self.administrator.clone());
                Box::pin(async move {
                    let code = administrator.call(*first).await?.status();
                    assert!(code.is_success(), "the request before another one: {code}");
                    client.call(request).await
                })
            }
        }
    }
}
