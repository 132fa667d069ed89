//! [`Changes`]: the `EndpointSlice`s that are created, updated and deleted.

use std::sync::Arc;

use super::slice::Slice;
use crate::api_requests::{is_namespace_terminating, message};
use runtime::{Client, Failure, kube_client};

/// See the [module documentation](self).
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Changes {
    pub create: Vec<Slice>,
    pub update: Vec<Slice>,
    pub delete: Vec<Arc<Slice>>,
}

impl Changes {
    /// Adds other changes.
    pub(crate) fn extend(&mut self, other: Self) {
        self.create.extend(other.create);
        self.update.extend(other.update);
        self.delete.extend(other.delete);
    }

    /// Turns pairs of a deletion and a creation into updates, where `can_replace` allows it.
    pub(crate) fn reuse_deleted(&mut self, can_replace: impl Fn(&Slice) -> bool) {
        let mut kept = Vec::new();
        for deleted in std::mem::take(&mut self.delete) {
            let is_same_type = |slice: &Slice| slice.address_type == deleted.address_type;
            let found =
                self.create.iter().rposition(is_same_type).filter(|_| can_replace(&deleted));
            let Some(index) = found else {
                kept.push(deleted);
                continue;
            };
            let mut slice = self.create.remove(index);
            slice.metadata.take_identity(&deleted.metadata);
            self.update.push(slice);
        }
        self.delete = kept;
    }

    /// Creates, updates and deletes slices of the Service or the Endpoints `namespace/name`. Nothing is
    /// created in a namespace that is being deleted.
    pub(crate) async fn write(
        &self,
        client: &Client,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), Failure> {
        let failed = |verb: &str, slice: &str, error: &kube_client::Error| {
            let error = message(error);
            Failure::transient(format!(
                "failed to {verb} {slice}EndpointSlice for {kind} {namespace}/{name}: {error}"
            ))
        };
        for slice in &self.create {
            match slice.create(client, namespace, name).await {
                Ok(_) => {}
                Err(error) if is_namespace_terminating(&error) => return Ok(()),
                Err(error) => return Err(failed("create", "", &error)),
            }
        }
        let named = |slice: &Slice| format!("{} ", slice.metadata.name);
        for slice in &self.update {
            let updated = slice.update(client, namespace).await;
            updated.map_err(|error| failed("update", &named(slice), &error))?;
        }
        for slice in &self.delete {
            let deleted = slice.delete(client, namespace).await;
            deleted.map_err(|error| failed("delete", &named(slice), &error))?;
        }
        Ok(())
    }
}
