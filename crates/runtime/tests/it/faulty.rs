//! [`FaultyClient`]: an in-process client with simulated faults. A test decides the outcome of each
//! request.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use tower_service::Service;

use apiserver::InProcessClient;
use runtime::kube_client::client::Body;

type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// It is served.
    Served,
    /// The response has this code, and with a Retry-After of one second if the code is 429.
    Refused(u16),
    /// It is served, and the connection breaks before the response.
    ResponseLost,
    /// It is served, and the connection breaks within the response.
    ResponseCut,
    /// It fails without a response, and is served later by
    /// [`serve_held`](FaultyClient::serve_held).
    Held,
    /// The held requests are served, and then this one.
    ServedAfterHeld,
    /// It does not arrive at the server, and never gets a response.
    NoResponse,
}

type Decide = Box<dyn FnMut(&Method, &str) -> RequestOutcome + Send>;

/// See the [module documentation](self). Clones share their faults.
#[derive(Clone)]
pub(crate) struct FaultyClient {
    client: InProcessClient,
    decide: Arc<Mutex<Decide>>,
    held: Arc<Mutex<Vec<Request<Body>>>>,
}

impl FaultyClient {
    /// A client without faults.
    pub(crate) fn new(client: InProcessClient) -> Self {
        let decide: Decide = Box::new(|_, _| RequestOutcome::Served);
        Self { client, decide: Arc::new(Mutex::new(decide)), held: Arc::default() }
    }

    /// Serves the held requests, and returns the codes of their responses.
    pub(crate) async fn serve_held(&self) -> Vec<u16> {
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        let (mut client, mut codes) = (self.client.clone(), Vec::new());
        for request in held {
            codes.push(client.call(request).await.unwrap().status().as_u16());
        }
        codes
    }

    /// From now on, `decide` returns the outcome of a request by its method, and by its path and query.
    pub(crate) fn decide(
        &self,
        decide: impl FnMut(&Method, &str) -> RequestOutcome + Send + 'static,
    ) {
        *self.decide.lock().unwrap() = Box::new(decide);
    }
}

impl Service<Request<Body>> for FaultyClient {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let target = request.uri().path_and_query().unwrap().as_str().to_owned();
        let outcome = self.decide.lock().unwrap()(request.method(), &target);
        let served = match outcome {
            RequestOutcome::Refused(_) | RequestOutcome::NoResponse => None,
            RequestOutcome::Served
            | RequestOutcome::ResponseLost
            | RequestOutcome::ResponseCut
            | RequestOutcome::ServedAfterHeld => Some(self.client.call(request)),
            RequestOutcome::Held => {
                self.held.lock().unwrap().push(request);
                None
            }
        };
        let faulty = self.clone();
        Box::pin(async move {
            if outcome == RequestOutcome::ServedAfterHeld {
                faulty.serve_held().await;
            }
            match (served, outcome) {
                (Some(served), RequestOutcome::Served | RequestOutcome::ServedAfterHeld) => {
                    Ok(served.await?.map(|body| body.map_err(Into::into).boxed_unsync()))
                }
                (Some(served), RequestOutcome::ResponseCut) => {
                    let cut: Result<Frame<Bytes>, BoxError> = Err("the connection broke".into());
                    let body = StreamBody::new(stream::iter([cut])).boxed_unsync();
                    Ok(served.await?.map(|_| body))
                }
                (Some(served), _) => {
                    drop(served.await?);
                    Err("the connection broke".into())
                }
                (None, RequestOutcome::Refused(code)) => {
                    let mut response =
                        Response::new(Full::from("no").map_err(Into::into).boxed_unsync());
                    *response.status_mut() = StatusCode::from_u16(code)?;
                    if code == 429 {
                        response.headers_mut().insert("retry-after", "1".parse()?);
                    }
                    Ok(response)
                }
                (None, RequestOutcome::Held) => Err("no response".into()),
                (None, _) => std::future::pending().await,
            }
        })
    }
}
