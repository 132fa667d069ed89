//! The revisions of a DaemonSet.

use std::sync::Arc;

use super::Context;
use super::view::{DaemonSetView, PodView};
use crate::api_requests;
use crate::controller_history::{REVISION_LABEL, RevisionOwner, RevisionView, live_revisions};
use runtime::{Failure, kube_client};

/// The revisions of a set.
pub(super) struct Revisions {
    /// The revision of the present template.
    current: Arc<RevisionView>,
    /// The others, old ones first.
    old: Vec<Arc<RevisionView>>,
    /// The number of collisions of hashes.
    pub collision_count: Option<i32>,
}

impl Revisions {
    /// The hash of the present template's revision.
    pub(super) fn hash(&self) -> &str {
        self.current.hash(REVISION_LABEL)
    }
}

impl Context {
    /// The revisions of the set, of which that of the present template may be new; `None` if nothing
    /// can be created in the namespace any more.
    pub(super) async fn resolve_history(
        &self,
        set: &DaemonSetView,
        owner: &RevisionOwner<'_>,
        pods: &[Arc<PodView>],
    ) -> Result<Option<Revisions>, Failure> {
        let mut revisions = self.history.claim(owner).await?;
        self.merge_equal_revisions(set, &mut revisions, pods).await?;
        let mut collisions = set.status.collision_count.unwrap_or(0);
        let found = self.history.update_revision(owner, &mut revisions, &mut collisions).await;
        let current = match found {
            Err(error) if api_requests::is_namespace_terminating(&error) => return Ok(None),
            found => found?,
        };
        // It is the last one.
        revisions.pop();
        let is_counted = collisions > 0 || set.status.collision_count.is_some();
        let collision_count = is_counted.then_some(collisions);
        Ok(Some(Revisions { current, old: revisions, collision_count }))
    }

    /// Keeps only the last of several revisions of the present template, to which their pods are
    /// assigned.
    async fn merge_equal_revisions(
        &self,
        set: &DaemonSetView,
        revisions: &mut Vec<Arc<RevisionView>>,
        pods: &[Arc<PodView>],
    ) -> Result<(), kube_client::Error> {
        let is_equal = |it: &Arc<RevisionView>| it.has_template(&set.spec.template);
        let Some(kept) = revisions.iter().rfind(|it| is_equal(it)).map(Arc::clone) else {
            return Ok(());
        };
        let is_duplicate =
            |it: &Arc<RevisionView>| is_equal(it) && it.metadata.uid != kept.metadata.uid;
        let duplicates: Vec<_> = revisions.iter().filter(|it| is_duplicate(it)).cloned().collect();
        for revision in &duplicates {
            let hash = revision.hash(REVISION_LABEL);
            let has_hash = |pod: &&Arc<PodView>| {
                pod.metadata.labels.get(REVISION_LABEL).is_some_and(|label| label == hash)
            };
            for pod in pods.iter().filter(has_hash) {
                self.history.relabel_pod(&pod.metadata, kept.hash(REVISION_LABEL)).await?;
            }
            self.history.delete(revision).await?;
        }
        revisions.retain(|it| !is_duplicate(it));
        Ok(())
    }

    /// Deletes old revisions that no pod has, beyond the limit of the set.
    pub(super) async fn truncate_history(
        &self,
        set: &DaemonSetView,
        revisions: &Revisions,
        pods: &[Arc<PodView>],
    ) -> Result<(), kube_client::Error> {
        let in_use = live_revisions(pods.iter().map(|pod| &pod.metadata));
        let is_live = |revision: &RevisionView| in_use.contains(revision.hash(REVISION_LABEL));
        let limit = set.spec.revision_history_limit;
        self.history.truncate(&revisions.old, limit, is_live).await
    }
}
