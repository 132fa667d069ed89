//! [`Requests`]: what a manager asks of its server, counted as client-go counts it.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use client::transport::Host;
use http::{Method, Request, Response};
use kube_client::{Client, client::Body};
use tower_service::Service;

use super::{head, label, line};

/// See the [module documentation](self). Clones count together.
#[derive(Clone, Default)]
pub(crate) struct Requests(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    /// By code, host and method: as many as there are of these.
    by_kind: BTreeMap<(String, String, Method), u64>,
    /// Who answered last; a manager has one server. Empty if it is in this process.
    host: String,
}

impl Requests {
    /// The same client, with its requests counted.
    pub(crate) fn counting(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        Client::new(Counting { client, requests: self.clone() }, namespace)
    }

    /// Sends a request, and counts it.
    pub(crate) async fn send(
        &self,
        client: &Client,
        request: Request<Body>,
    ) -> kube_client::Result<Response<Body>> {
        let method = request.method().clone();
        let answered = client.send(request).await;
        self.count(method, answered.as_ref().ok());
        answered
    }

    fn count(&self, method: Method, answer: Option<&Response<Body>>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let code = match answer {
            Some(answer) => {
                let host = answer.extensions().get().map(|Host(host)| host.as_str());
                host.unwrap_or_default().clone_into(&mut counts.host);
                answer.status().as_str().to_owned()
            }
            None => "<error>".to_owned(),
        };
        let kind = (code, counts.host.clone(), method);
        *counts.by_kind.entry(kind).or_default() += 1;
    }

    pub(super) fn render(&self, text: &mut String) {
        let name = "rest_client_requests_total";
        head(text, name, "counter", "Requests by code, method and host");
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for ((code, host, method), count) in &counts.by_kind {
            let code = label("code", code);
            let (host, method) = (label("host", host), label("method", method.as_str()));
            line(text, name, &format!("{code},{host},{method}"), count);
        }
    }
}

#[derive(Clone)]
struct Counting {
    client: Client,
    requests: Requests,
}

impl Service<Request<Body>> for Counting {
    type Response = Response<Body>;
    type Error = kube_client::Error;
    type Future = Pin<Box<dyn Future<Output = kube_client::Result<Response<Body>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<kube_client::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, requests } = self.clone();
        Box::pin(async move { requests.send(&client, request).await })
    }
}
