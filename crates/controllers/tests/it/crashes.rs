//! [`CrashingPlane`]: a plane whose controllers stop to work after a number of writes, as if their
//! process was killed, and are started again.

use std::convert::Infallible;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use tower_service::Service;

use apiserver::auth::authentication::User;
use controllers::{ControllerManager, ControllerManagerOptions, MetricsApi, Selection};
use keel::Entropy;
use runtime::Identity;
use testenv::TestEnv;

/// See the [module documentation](self). The methods of [`TestEnv`] can be called on it.
pub(crate) struct CrashingPlane {
    env: TestEnv,
    selection: Vec<String>,
    controllers: Option<ControllerManager>,
    crash: Crash,
    restarts: u64,
}

/// The number of writes until the crash.
#[derive(Clone, Default)]
struct Crash {
    writes_left: Arc<AtomicI64>,
    /// Whether the last write is carried out, and only its response is lost.
    loses_response: bool,
}

impl CrashingPlane {
    /// A plane whose controllers do not work before the first [`restart`](Self::restart).
    pub(crate) async fn start(selection: &[&str]) -> Self {
        let roles = Arc::new(cluster::roles());
        let env = TestEnv::builder().config(|config| config.authorizers.push(roles)).start().await;
        let selection = selection.iter().map(ToString::to_string).collect();
        Self { env, selection, controllers: None, crash: Crash::default(), restarts: 0 }
    }

    /// Whether the controllers have crashed.
    pub(crate) fn has_crashed(&self) -> bool {
        self.crash.writes_left.load(Ordering::SeqCst) <= 0
    }

    /// The number of restarts.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Starts controllers that know nothing, and which crash after this number of writes. Of every
    /// second crash, the last write is carried out, but its response is lost.
    pub(crate) async fn restart(&mut self, writes: i64) {
        self.stop_controllers().await;
        self.restarts += 1;
        let loses_response = self.restarts.is_multiple_of(2);
        self.crash = Crash { writes_left: Arc::new(AtomicI64::new(writes)), loses_response };
        let (client, crash) = (self.env.server().in_process_client(), self.crash.clone());
        let connect = move |identity: &Identity| {
            let user = User::authenticated(&identity.user, "", identity.groups.clone());
            let service = Crashing { service: client.for_user(user), crash: crash.clone() };
            runtime::ApiService::new(service, "default")
        };
        self.controllers = Some(ControllerManager::start(ControllerManagerOptions {
            selection: Selection::parse(&self.selection).unwrap(),
            connect: Arc::new(connect),
            root_ca: self.env.server().authority().to_owned(),
            signers: cluster::signers(self.env.server()),
            metrics_api: MetricsApi::default(),
            simulated_storage: true,
            clock: self.env.clock().clone(),
            entropy: Entropy::seeded(self.restarts),
        }));
    }

    /// Stops the controllers and then the server.
    pub(crate) async fn stop(mut self) {
        self.stop_controllers().await;
        self.env.stop().await.unwrap();
    }

    async fn stop_controllers(&mut self) {
        if let Some(controllers) = self.controllers.take() {
            controllers.stop().await.unwrap();
        }
    }
}

impl Deref for CrashingPlane {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

/// What becomes of a request.
enum Outcome {
    Answered,
    ResponseLost,
    NotSent,
}

impl Crash {
    fn outcome<B>(&self, request: &Request<B>) -> Outcome {
        // Events are written in the background, and do not concern the state.
        let is_event = request.uri().path().ends_with("/events");
        if request.method() == Method::GET || is_event || request.uri().path().contains("/events/")
        {
            return Outcome::Answered;
        }
        match self.writes_left.fetch_sub(1, Ordering::SeqCst) {
            1 if self.loses_response => Outcome::ResponseLost,
            left if left > 0 => Outcome::Answered,
            _ => Outcome::NotSent,
        }
    }
}

/// A service whose requests fail after the crash.
#[derive(Clone)]
struct Crashing<S> {
    service: S,
    crash: Crash,
}

impl<S, B, R> Service<Request<B>> for Crashing<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = Infallible>,
    S::Future: Send + 'static,
    R: Send + 'static,
{
    type Response = Response<R>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, std::io::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        self.service.poll_ready(cx).map(|Ok(())| Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let crashed = || std::io::Error::other("the process was killed");
        let outcome = self.crash.outcome(&request);
        if matches!(outcome, Outcome::NotSent) {
            return Box::pin(async move { Err(crashed()) });
        }
        let response = self.service.call(request);
        Box::pin(async move {
            let Ok(response) = response.await;
            if matches!(outcome, Outcome::ResponseLost) { Err(crashed()) } else { Ok(response) }
        })
    }
}
