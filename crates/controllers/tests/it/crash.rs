//! A connection of controllers that breaks, as if their process had ended.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use kube_client::client::Body;
use tower_service::Service;

use apiserver::auth::authentication::User;
use apiserver::in_process::InProcessClient;
use runtime::{ApiService, Connect, Identity};
use testenv::TestEnv;

/// A connection that breaks after `writes` requests other than GET: the last of them is done, but its
/// response is lost, and later requests fail.
pub(crate) fn connect_until_crash(env: &TestEnv, writes: usize) -> Connect {
    let client = env.server().in_process_client();
    let left = Arc::new(AtomicUsize::new(writes));
    Arc::new(move |identity: &Identity| {
        let user = User::authenticated(&identity.user, "", identity.groups.clone());
        let connection = Connection { client: client.for_user(user), left: Arc::clone(&left) };
        ApiService::new(connection, "default")
    })
}

#[derive(Clone)]
struct Connection {
    client: InProcessClient,
    /// The number of writes before it breaks.
    left: Arc<AtomicUsize>,
}

impl Service<Request<Body>> for Connection {
    type Response = Response<apiserver::http::body::Body>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut client, left) = (self.client.clone(), Arc::clone(&self.left));
        Box::pin(async move {
            let is_write = request.method() != Method::GET;
            let take = |left: usize| if is_write { left.checked_sub(1) } else { Some(left) };
            let before = left.fetch_update(SeqCst, SeqCst, take).unwrap_or(0);
            if before == 0 {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
            }
            let Ok(response) = client.call(request).await;
            if is_write && before == 1 {
                return Err(io::Error::from(io::ErrorKind::ConnectionReset));
            }
            Ok(response)
        })
    }
}
