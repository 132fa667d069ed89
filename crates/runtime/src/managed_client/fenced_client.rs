//! A client whose writes are fenced and counted. The informers show them when the watch delivers them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use kube_client::Client;
use kube_client::client::Body;
use tower_service::Service;

use super::BoxError;
use crate::ApiService;
use crate::api_service::ResponseBody;
use crate::fence::Fence;
use crate::metrics::requests::Requests;

/// See the [module documentation](self).
pub(crate) fn fenced(service: ApiService, requests: &Requests, fence: &Fence) -> Client {
    let namespace = service.default_namespace().to_owned();
    let client = FencedClient { service, requests: requests.clone(), fence: fence.clone() };
    Client::new(client, namespace)
}

#[derive(Clone)]
struct FencedClient {
    service: ApiService,
    requests: Requests,
    fence: Fence,
}

impl Service<Request<Body>> for FencedClient {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { service, requests, fence } = self.clone();
        Box::pin(async move {
            if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
                return Ok(requests.send(&service, request).await?);
            }
            fence.check()?;
            fence.await_write(requests.send(&service, request)).await
        })
    }
}
