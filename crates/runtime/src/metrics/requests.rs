//! [`Requests`]: the number of requests of a manager to its server, as client-go counts them, and
//! their record.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube_client::Client;
use kube_client::client::Body;

use super::Families;
use crate::ApiService;
use crate::access_record::AccessRecord;
use crate::api_service::ResponseBody;
use client::transport::Host;

/// See the [module documentation](self). Clones share their counts.
#[derive(Clone, Default)]
pub(crate) struct Requests {
    counts: Arc<Mutex<Counts>>,
    record: Option<AccessRecord>,
}

#[derive(Default)]
struct Counts {
    /// By code, host and method.
    by_kind: BTreeMap<(String, String, Method), u64>,
    /// The host of the last response; a manager has one server. Empty if it is in this process.
    host: String,
}

impl Requests {
    /// Requests that are also recorded, if there is a file for that.
    pub(crate) fn recorded_in(path: Option<PathBuf>) -> Self {
        Self { record: path.map(AccessRecord::new), ..Self::default() }
    }

    /// A client whose requests are counted.
    pub(crate) fn counting(&self, service: &ApiService) -> Client {
        let requests = self.clone();
        let counted = service.with_send(move |service, request| {
            let requests = requests.clone();
            async move { requests.send(&service, request).await }
        });
        counted.client()
    }

    /// Sends a request, and counts it.
    pub(crate) async fn send(
        &self,
        service: &ApiService,
        request: Request<Body>,
    ) -> kube_client::Result<Response<ResponseBody>> {
        let request = match &self.record {
            Some(record) => {
                let (head, body) = request.into_parts();
                let request = Request::from_parts(head, body.collect().await?.to_bytes());
                record.add(&request);
                request.map(Body::from)
            }
            None => request,
        };
        let method = request.method().clone();
        let result = service.send(request).await;
        self.count(method, result.as_ref().ok());
        result
    }

    fn count(&self, method: Method, response: Option<&Response<ResponseBody>>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let code = match response {
            Some(response) => {
                let host = response.extensions().get().map(|Host(host)| host.as_str());
                host.unwrap_or_default().clone_into(&mut counts.host);
                response.status().as_str().to_owned()
            }
            None => "<error>".to_owned(),
        };
        let kind = (code, counts.host.clone(), method);
        *counts.by_kind.entry(kind).or_default() += 1;
    }

    pub(super) fn encode(&self, families: &mut Families<'_>) -> fmt::Result {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let samples = counts.by_kind.iter().map(|((code, host, method), count)| {
            let labels =
                [("code", code.as_str()), ("host", host.as_str()), ("method", method.as_str())];
            (labels, *count)
        });
        let help = "Requests by code, method and host";
        families.counter("rest_client_requests_total", help, samples)
    }
}
