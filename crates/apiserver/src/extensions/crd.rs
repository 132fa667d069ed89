//! Definitions at work: names are accepted, resources appear in the catalog, and when a definition
//! goes, its objects go first.
//!
//! One task follows the definitions. It is a client like any other, through the in-process door;
//! only the catalog it changes directly, since that is its own.
//!
//! ```text
//! definition ─▶ names accepted? ─▶ established, in its stored status ─▶ in the catalog
//! deletion   ─▶ objects deleted ─▶ finalizer taken away ─▶ gone ─▶ out of the catalog
//! ```
//!
//! The catalog is never ahead of what is stored, and a request that comes while it is behind waits
//! for it ([`find`]).

mod cleanup;
mod lookup;
mod served_crd;
mod crd_controller;
mod rewrite;
mod crd_tasks;

pub(crate) use lookup::{catch_up, find};

use crate::cache::storage::Storage;
use crate::in_process::loopback::LoopbackClient;
use crd_controller::CrdController;
use std::sync::Arc;

/// Where definitions are.
const CRDS_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Brings the definitions that are stored into the catalog, and follows them from then on.
pub(crate) fn start(storage: &Arc<Storage>, client: LoopbackClient) {
    let mut controller = CrdController::new(Arc::clone(storage), client);
    controller.refresh();
    storage.tasks.spawn("crd-controller", async move { controller.run().await });
}
