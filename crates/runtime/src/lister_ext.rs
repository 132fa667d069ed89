//! [`ListerExt`]: the cached dependents of an object.
//!
//! ```no_run
//! use k8s_openapi::api::{batch::v1::Job, core::v1::ConfigMap};
//! use runtime::{Lister, ListerExt};
//!
//! fn names(jobs: &Lister<Job>, owner: &ConfigMap) -> Vec<String> {
//!     let jobs = jobs.controlled_by(owner).objects;
//!     jobs.into_iter().filter_map(|job| job.metadata.name).collect()
//! }
//! ```

use kube_core::Resource;
use serde::de::DeserializeOwned;

use crate::CONTROLLER_INDEX;
use crate::event_source::controller_uid;
use informer::{Listed, Lister};

/// See the [module documentation](self).
pub trait ListerExt<T> {
    /// The objects whose controller is `owner`, and not an earlier object with its name, in the order
    /// of their names; none if `owner` is not stored yet.
    ///
    /// They are found by the [`CONTROLLER_INDEX`], which the first call adds if no controller owns
    /// objects of this kind.
    fn controlled_by<O: Resource>(&self, owner: &O) -> Listed<T>;
}

impl<T: DeserializeOwned> ListerExt<T> for Lister<T> {
    fn controlled_by<O: Resource>(&self, owner: &O) -> Listed<T> {
        let (metadata, indexer) = (owner.meta(), self.indexer());
        indexer.ensure_index(CONTROLLER_INDEX, controller_uid);
        let find =
            |uid: &str| indexer.by_index(CONTROLLER_INDEX, uid).expect("the index was added");
        let mut items = metadata.uid.as_deref().map(find).unwrap_or_default();
        if let Some(namespace) = &metadata.namespace {
            // An object of another namespace can name the uid, too.
            items.retain(|item| item.namespace() == namespace);
        }
        items.into_iter().collect()
    }
}
