//! Requests for all objects of a kind whenever the certificates that clients of the plane trust change.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::controller_context::ControllerContext;
use runtime::informer::SharedInformer;
use runtime::{Mapper, Request};

/// The number of requests that wait for the controller; more are sent as it takes them.
const CAPACITY: usize = 64;

/// The requests to which `mapper` maps the cached `objects`, after each change of the certificates.
pub(crate) fn requests(
    cx: &ControllerContext,
    objects: &SharedInformer,
    mapper: Mapper,
) -> mpsc::Receiver<Request> {
    let (requests, changed) = mpsc::channel(CAPACITY);
    let mut root_ca = cx.options.root_ca.clone();
    let objects = Arc::clone(objects.indexer());
    let requesting = async move {
        while root_ca.changed().await.is_ok() {
            root_ca.borrow_and_update();
            for request in objects.list().iter().flat_map(|it| mapper.map(it)) {
                // The controller has stopped.
                if requests.send(request).await.is_err() {
                    return;
                }
            }
        }
    };
    let stop = cx.tasks().shutdown();
    cx.tasks().spawn("root-ca-changes", async move {
        tokio::select! {
            () = requesting => {}
            () = stop => {}
        }
    });
    changed
}
