//! [`Crash`]: the connections of controllers break after a number of writes, as if their process was
//! killed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use kube_client::client::Body;
use tower_service::Service;

use apiserver::auth::authentication::User;
use apiserver::in_process::InProcessClient;
use runtime::{ApiService, Connect, Identity};
use testenv::TestEnv;

/// See the [module documentation](self). Requests after the last write fail. Clones share the number
/// of writes.
#[derive(Clone)]
pub(crate) struct Crash {
    writes_left: Arc<AtomicI64>,
    last_write: LastWrite,
}

/// What the server does with the last write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastWrite {
    /// The client has its response, and the next write is not sent.
    Answered,
    /// The server has done it, but its response is lost.
    ResponseLost,
}

impl Crash {
    /// A crash after this number of writes.
    pub(crate) fn after(writes: i64, last_write: LastWrite) -> Self {
        Self { writes_left: Arc::new(AtomicI64::new(writes)), last_write }
    }

    /// Whether the controllers have crashed: no write is left.
    pub(crate) fn has_happened(&self) -> bool {
        self.writes_left.load(Ordering::SeqCst) <= 0
    }

    /// Connects controllers to a plane until the crash.
    pub(crate) fn connect(&self, env: &TestEnv) -> Connect {
        let (client, crash) = (env.server().in_process_client(), self.clone());
        Arc::new(move |identity: &Identity| {
            let user = User::component(&identity.user, identity.groups.clone());
            let connection = Connection { client: client.for_user(user), crash: crash.clone() };
            ApiService::new(connection, "default")
        })
    }

    fn outcome(&self, request: &Request<Body>) -> Outcome {
        if !is_write(request) {
            return if self.has_happened() { Outcome::NotSent } else { Outcome::Answered };
        }
        match self.writes_left.fetch_sub(1, Ordering::SeqCst) {
            ..=0 => Outcome::NotSent,
            1 if self.last_write == LastWrite::ResponseLost => Outcome::ResponseLost,
            _ => Outcome::Answered,
        }
    }
}

/// What becomes of a request.
enum Outcome {
    Answered,
    ResponseLost,
    NotSent,
}

/// Whether a request is a write. Events are not counted: they are sent in the background, and no
/// controller reads them.
fn is_write(request: &Request<Body>) -> bool {
    let is_event = request.uri().path().split('/').any(|segment| segment == "events");
    request.method() != Method::GET && !is_event
}

/// An in-process client whose requests fail after the crash.
#[derive(Clone)]
struct Connection {
    client: InProcessClient,
    crash: Crash,
}

impl Service<Request<Body>> for Connection {
    type Response = Response<apiserver::http::body::Body>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut client = self.client.clone();
        let outcome = self.crash.outcome(&request);
        Box::pin(async move {
            if matches!(outcome, Outcome::NotSent) {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
            }
            let Ok(response) = client.call(request).await;
            match outcome {
                Outcome::ResponseLost => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
                _ => Ok(response),
            }
        })
    }
}
