//! A client whose writes are fenced and counted. The informers show them when the watch delivers them.

use http::Method;
use kube_client::{Client, Error};

use crate::ApiService;
use crate::fence::Fence;
use crate::metrics::requests::Requests;

/// See the [module documentation](self).
pub(crate) fn fenced(service: &ApiService, requests: &Requests, fence: &Fence) -> Client {
    let (requests, fence) = (requests.clone(), fence.clone());
    let fenced = service.with_send(move |service, request| {
        let (requests, fence) = (requests.clone(), fence.clone());
        async move {
            let is_read = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
            let sent = requests.send(&service, request);
            if is_read {
                return sent.await;
            }
            fence.check().map_err(|error| Error::Service(error.into()))?;
            let written = fence.await_write(sent).await;
            written.map_err(|error| error.downcast().map_or_else(Error::Service, |it| *it))
        }
    });
    fenced.client()
}
