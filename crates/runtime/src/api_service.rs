//! [`ApiService`]: an API server as a [managed client](crate::Manager::managed_client) reaches it.
//!
//! A `kube::Client` passes each request through the queue of a task. A managed client over another
//! client has two such queues; over the service of a server in this process it has one.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube_client::Client;
use kube_client::client::Body;
use tower_service::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type SendRequest = dyn Fn(Request<Body>) -> SendFuture + Send + Sync;
type SendFuture = BoxFuture<'static, kube_client::Result<Response<ResponseBody>>>;

/// The body of any service.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, kube_client::Error>;

/// A body that is in memory.
pub(crate) fn response_body(bytes: Bytes) -> ResponseBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// See the [module documentation](self). Cheap to clone.
#[derive(Clone)]
pub struct ApiService {
    send: Arc<SendRequest>,
    namespace: Arc<str>,
}

impl ApiService {
    /// A service such as an API server in this process. `namespace` is the default namespace.
    ///
    /// ```no_run
    /// # use runtime::{ApiService, Client, Manager};
    /// fn client_of(manager: &Manager, server: &apiserver::Server) -> Client {
    ///     manager.managed_client(ApiService::new(server.in_process_client(), "default"))
    /// }
    /// ```
    pub fn new<S, B>(service: S, namespace: &str) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let failed = |error: S::Error| kube_client::Error::Service(error.into());
        let send = move |request| {
            let mut service = service.clone();
            let sent = async move {
                poll_fn(|context| service.poll_ready(context)).await.map_err(failed)?;
                let response = service.call(request).await.map_err(failed)?;
                let broken = |error: B::Error| kube_client::Error::Service(error.into());
                Ok(response.map(|body| body.map_err(broken).boxed_unsync()))
            };
            Box::pin(sent) as SendFuture
        };
        Self { send: Arc::new(send), namespace: namespace.into() }
    }

    /// A client that sends its requests to this server.
    ///
    /// ```no_run
    /// # use runtime::{ApiService, Client};
    /// fn client_of(server: &apiserver::Server) -> Client {
    ///     ApiService::new(server.in_process_client(), "default").client()
    /// }
    /// ```
    pub fn client(&self) -> Client {
        Client::new(self.clone(), self.default_namespace())
    }

    /// The same server, to which `send` sends the requests.
    pub(crate) fn with_send<F>(
        &self,
        send: impl Fn(Self, Request<Body>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = kube_client::Result<Response<ResponseBody>>> + Send + 'static,
    {
        let inner = self.clone();
        let send = move |request| Box::pin(send(inner.clone(), request)) as SendFuture;
        Self { send: Arc::new(send), namespace: Arc::clone(&self.namespace) }
    }

    /// The namespace of requests that name none.
    pub(crate) fn default_namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) async fn send(
        &self,
        request: Request<Body>,
    ) -> kube_client::Result<Response<ResponseBody>> {
        (self.send)(request).await
    }
}

impl Service<Request<Body>> for ApiService {
    type Response = Response<ResponseBody>;
    type Error = kube_client::Error;
    type Future = SendFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> SendFuture {
        (self.send)(request)
    }
}

impl From<Client> for ApiService {
    fn from(client: Client) -> Self {
        let namespace = client.default_namespace().into();
        let send = move |request| {
            let client = client.clone();
            Box::pin(async move {
                let response = client.send(request).await?;
                Ok(response.map(BodyExt::boxed_unsync))
            }) as SendFuture
        };
        Self { send: Arc::new(send), namespace }
    }
}

impl fmt::Debug for ApiService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiService").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}
