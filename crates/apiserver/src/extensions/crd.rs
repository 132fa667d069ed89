//! The lifecycle of a CRD: its names are accepted, its resource is added to the catalog, and its
//! objects are deleted before the CRD is deleted.
//!
//! One task watches the CRDs. It reads and writes them through the loopback client, like any other
//! client; only the catalog is changed directly.
//!
//! ```text
//! CRD      ─▶ names accepted? ─▶ established, in its stored status ─▶ in the catalog
//! deletion ─▶ objects deleted ─▶ finalizer removed ─▶ CRD deleted ─▶ removed from the catalog
//! ```
//!
//! The catalog is never ahead of the stored CRDs. While it is behind, requests wait for it ([`find`]).

mod cleanup;
mod lookup;
mod served_crd;
mod crd_controller;
mod rewrite;
mod crd_tasks;
mod schema_memory;

use std::sync::Arc;

use crate::in_process::loopback::LoopbackClient;
use crate::storage::Storage;
use crate::storage::hooks::Validate;
use crd_controller::CrdController;
use kinds::apiextensions;

pub(crate) use lookup::{catch_up, find};

/// The path of the CRDs.
const CRDS_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The validation hook of CRDs; None for another group.
pub(crate) fn validation_hook(group: &str) -> Option<Validate> {
    (group == apiextensions::GROUP).then_some(schema_memory::validate as Validate)
}

/// Adds the stored CRDs to the catalog and starts the controller that keeps it up to date.
pub(crate) fn start(storage: &Arc<Storage>, client: LoopbackClient) {
    let mut controller = CrdController::new(Arc::clone(storage), client);
    controller.refresh();
    storage.tasks.spawn("crd-controller", async move { controller.run().await });
}
