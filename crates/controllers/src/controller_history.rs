//! ControllerRevisions: the former templates of a StatefulSet or a DaemonSet.
//!
//! A revision contains a strategic merge patch that replaces the template of its owner, which
//! `kubectl rollout undo` sends:
//!
//! ```text
//! web-6d8f7b9c54   revision 3   data: {"spec":{"template":{…,"$patch":"replace"}}}
//! ```
//!
//! - The name contains a hash of the data. If another object has the name, the collision count of
//!   the owner is raised, which changes the hash.
//! - A template that equals that of an older revision gets no new revision: the old one gets the
//!   next number.
//! - Old revisions are deleted beyond `revisionHistoryLimit`, but never one that a pod has.
//!
//! Upstream: pkg/controller/history

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::adoption::{self, Claimer, HasMetadata};
use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::metadata::{Metadata, OwnerReference};
use crate::pod_control::TemplateMetadata;
use crate::template_hash;
use machinery::PolicyRule;
use machinery::selector::LabelSelector;
use runtime::{Client, Failure, Lister, kube_client};

/// The rights to keep a history.
pub(crate) const HISTORY_RULE: PolicyRule =
    PolicyRule::new(&["apps"], &["controllerrevisions"], &["create", "delete", "get", "patch"]);

/// The label of pods with their revision.
pub(crate) const REVISION_LABEL: &str = "controller-revision-hash";

/// The longest part of the owner's name in that of a revision.
const MAX_PREFIX: usize = 223;

/// The fields of a ControllerRevision that controllers read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RevisionView {
    /// The metadata.
    pub metadata: Metadata,
    /// The number of the revision.
    pub revision: i64,
    /// The patch.
    pub data: Value,
}

/// Reads and writes the revisions of a kind of workloads.
pub(crate) struct ControllerHistory {
    client: Client,
    revisions: Lister<RevisionView>,
    /// The label of revisions with their hash.
    hash_label: &'static str,
}

/// The owner of revisions.
#[derive(Clone, Copy)]
pub(crate) struct RevisionOwner<'a> {
    /// The metadata of the owner.
    pub metadata: &'a Metadata,
    /// The reference in its revisions.
    pub reference: &'a OwnerReference,
    /// The path of the owner.
    pub path: &'a str,
    /// Selects its revisions, as it selects its pods.
    pub selector: &'a LabelSelector,
    /// The template of its pods.
    pub template: &'a Value,
}

impl RevisionView {
    /// Whether the revision is that of a template.
    pub(crate) fn has_template(&self, template: &Value) -> bool {
        let (Some(own), Some(template)) = (self.patch(), template.as_object()) else {
            return false;
        };
        own.len() == template.len() + 1
            && own.get("$patch").is_some_and(|it| it == "replace")
            && template.iter().all(|(field, value)| own.get(field) == Some(value))
    }

    /// The template of the revision.
    pub(crate) fn template(&self) -> Value {
        let mut template = self.patch().cloned().unwrap_or_default();
        template.remove("$patch");
        Value::Object(template)
    }

    /// The hash of the revision, in the label of that name; the name of a revision without it.
    pub(crate) fn hash(&self, label: &str) -> &str {
        self.metadata.labels.get(label).unwrap_or(&self.metadata.name)
    }

    /// The order of revisions, old ones first.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let key = |it: &Self| (it.revision, it.metadata.creation_timestamp.as_ref().map(|it| it.0));
        key(self).cmp(&key(other)).then_with(|| self.metadata.name.cmp(&other.metadata.name))
    }

    fn patch(&self) -> Option<&Map<String, Value>> {
        let [spec] = only_field(&self.data, "spec")?;
        let [template] = only_field(spec, "template")?;
        template.as_object()
    }
}

/// The value of the only field of an object, if it has this name.
fn only_field<'a>(object: &'a Value, field: &str) -> Option<[&'a Value; 1]> {
    let fields = object.as_object().filter(|fields| fields.len() == 1)?;
    fields.get(field).map(|value| [value])
}

impl HasMetadata for RevisionView {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl ControllerHistory {
    /// The revisions of a controller that [owns](runtime::ControllerBuilder::owns) them.
    pub(crate) fn new(cx: &ControllerContext, hash_label: &'static str) -> Self {
        let revisions = cx.manager.informer::<ControllerRevision>();
        adoption::add_orphan_index(&revisions);
        Self { client: cx.client.clone(), revisions: revisions.lister(), hash_label }
    }

    /// The revisions of an owner, old ones first, after it has adopted orphans.
    pub(crate) async fn claim(
        &self,
        owner: &RevisionOwner<'_>,
    ) -> Result<Vec<Arc<RevisionView>>, Failure> {
        let claimer = Claimer {
            client: &self.client,
            owner: owner.metadata,
            reference: owner.reference,
            owner_path: owner.path,
            collection: ("apis/apps/v1", "controllerrevisions"),
            selector: owner.selector,
        };
        let mut revisions = claimer.claim_if(&self.revisions, |_| true).await?;
        revisions.sort_by(|one, other| one.order(other));
        Ok(revisions)
    }

    /// The revision of the owner's template, which is created if there is none, and which is the
    /// last of `revisions` afterwards. A collision raises the count.
    pub(crate) async fn update_revision(
        &self,
        owner: &RevisionOwner<'_>,
        revisions: &mut Vec<Arc<RevisionView>>,
        collision_count: &mut i32,
    ) -> Result<Arc<RevisionView>, kube_client::Error> {
        let last = revisions.last();
        if let Some(last) = last.filter(|it| it.has_template(owner.template)) {
            return Ok(Arc::clone(last));
        }
        let next = last.map_or(1, |last| last.revision.saturating_add(1));
        let equal = revisions.iter().rposition(|it| it.has_template(owner.template));
        let revision = match equal {
            Some(index) => self.renumber(&revisions.remove(index), next).await?,
            None => self.create(owner, next, collision_count).await?,
        };
        let revision = Arc::new(revision);
        revisions.push(Arc::clone(&revision));
        Ok(revision)
    }

    /// Creates the revision of the owner's template.
    async fn create(
        &self,
        owner: &RevisionOwner<'_>,
        revision: i64,
        collision_count: &mut i32,
    ) -> Result<RevisionView, kube_client::Error> {
        let data = data_of(owner.template);
        let metadata = &owner.template["metadata"];
        let template = TemplateMetadata::deserialize(metadata).unwrap_or_default();
        loop {
            let hash = hash(&data, *collision_count);
            let name = revision_name(&owner.metadata.name, &hash);
            let mut labels: BTreeMap<&str, &str> =
                template.labels.iter().map(|(key, value)| (&**key, &**value)).collect();
            labels.insert(self.hash_label, &hash);
            let object = json!({
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {
                    "name": name,
                    "labels": labels,
                    "annotations": owner.metadata.annotations,
                    "ownerReferences": [owner.reference],
                },
                "data": data,
                "revision": revision,
            });
            let path = collection(&owner.metadata.namespace);
            let created = api_requests::create(&self.client, &path, &object).await;
            match created {
                Err(error) if api_requests::has_reason(&error, "AlreadyExists") => {}
                created => return created,
            }
            let path = format!("{path}/{name}");
            let existing = api_requests::get::<RevisionView>(&self.client, &path).await?;
            let Some(existing) = existing else { continue };
            let controller = existing.metadata.controller();
            if existing.data == data && controller.is_none_or(|it| it.uid == owner.metadata.uid) {
                return Ok(existing);
            }
            *collision_count += 1;
        }
    }

    /// Changes the number of a revision.
    pub(crate) async fn renumber(
        &self,
        revision: &RevisionView,
        number: i64,
    ) -> Result<RevisionView, kube_client::Error> {
        let Metadata { uid, resource_version, .. } = &revision.metadata;
        let patch = json!({
            "metadata": {"uid": uid, "resourceVersion": resource_version},
            "revision": number,
        });
        api_requests::merge(&self.client, &path(&revision.metadata), &patch).await
    }

    /// Deletes a revision, which may have been deleted already.
    pub(crate) async fn delete(&self, revision: &RevisionView) -> Result<(), kube_client::Error> {
        let Metadata { uid, .. } = &revision.metadata;
        match api_requests::delete(&self.client, &path(&revision.metadata), uid).await {
            Err(error) if [404, 409].iter().any(|it| api_requests::has_code(&error, *it)) => Ok(()),
            deleted => deleted.map(drop),
        }
    }

    /// Deletes the oldest of `revisions` for which `is_live` is false, as long as there are more
    /// than `limit`.
    pub(crate) async fn truncate(
        &self,
        revisions: &[Arc<RevisionView>],
        limit: Option<i32>,
        is_live: impl Fn(&RevisionView) -> bool,
    ) -> Result<(), kube_client::Error> {
        for revision in surplus(revisions, limit, is_live) {
            self.delete(revision).await?;
        }
        Ok(())
    }

    /// Sets the label of a pod with its revision.
    pub(crate) async fn relabel_pod(
        &self,
        pod: &Metadata,
        hash: &str,
    ) -> Result<(), kube_client::Error> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let patch = json!({"metadata": {"uid": pod.uid, "labels": {REVISION_LABEL: hash}}});
        let patched = api_requests::merge::<IgnoredAny>(&self.client, &path, &patch).await;
        api_requests::none_if_missing(patched).map(drop)
    }
}

/// The revisions to delete, of which the oldest are first.
fn surplus(
    revisions: &[Arc<RevisionView>],
    limit: Option<i32>,
    is_live: impl Fn(&RevisionView) -> bool,
) -> Vec<&RevisionView> {
    // Upstream: a negative limit keeps all revisions.
    let Ok(limit) = usize::try_from(limit.unwrap_or(10)) else { return Vec::new() };
    let unused = revisions.iter().map(Arc::as_ref).filter(|it| !is_live(it));
    let mut unused: Vec<&RevisionView> = unused.collect();
    unused.truncate(unused.len().saturating_sub(limit));
    unused
}

/// The values of the label of pods with their revision.
pub(crate) fn live_revisions<'a>(
    pods: impl IntoIterator<Item = &'a Metadata>,
) -> BTreeSet<&'a str> {
    let labels = pods.into_iter().filter_map(|pod| pod.labels.get(REVISION_LABEL));
    labels.map(String::as_str).collect()
}

/// The patch of a template.
fn data_of(template: &Value) -> Value {
    let mut template = template.as_object().cloned().unwrap_or_default();
    template.insert("$patch".to_owned(), "replace".into());
    json!({"spec": {"template": template}})
}

fn collection(namespace: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/controllerrevisions")
}

fn path(revision: &Metadata) -> String {
    format!("{}/{}", collection(&revision.namespace), revision.name)
}

fn revision_name(owner: &str, hash: &str) -> String {
    let prefix = owner.get(..MAX_PREFIX).unwrap_or(owner);
    format!("{prefix}-{hash}")
}

/// The hash of a revision's data, as Kubernetes computes it for StatefulSets.
fn hash(data: &Value, collision_count: i32) -> String {
    // Go escapes these characters, which occur in strings only.
    let json = data.to_string();
    let json = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    let json = json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    let text = json + &collision_count.to_string();
    // FNV-1 with 32 bits.
    let hash = text
        .bytes()
        .fold(2_166_136_261_u32, |hash, byte| hash.wrapping_mul(16_777_619) ^ u32::from(byte));
    template_hash::safe_encode(&hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(name: &str, number: i64, data: Value) -> Arc<RevisionView> {
        let metadata = Metadata { name: name.to_owned(), ..Metadata::default() };
        Arc::new(RevisionView { metadata, revision: number, data })
    }

    #[test]
    fn a_revision_equals_only_the_template_that_it_was_made_of() {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}});
        let made = revision("a", 1, data_of(&template));
        assert!(made.has_template(&template));
        assert_eq!(made.template(), template);
        assert!(!made.has_template(&json!({"metadata": {}, "spec": {"containers": []}})));
        let other = json!({"spec": {"template": template, "replicas": 1}});
        assert!(!revision("b", 1, other).has_template(&template));
    }

    #[test]
    fn hashes_are_those_of_kubernetes() {
        // A revision that Kubernetes 1.34 has created.
        let template = json!({
            "metadata": {"annotations": {"test": "value"}, "labels": {"app": "foo"}},
            "spec": {
                "containers": [{
                    "image": "test", "imagePullPolicy": "Always", "name": "test", "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
                "schedulerName": "default-scheduler", "securityContext": {},
                "terminationGracePeriodSeconds": 30,
            },
        });
        let data = data_of(&template);
        assert_eq!(revision_name("test", &hash(&data, 0)), "test-776999688b");
        assert_ne!(hash(&data, 1), "776999688b");
    }

    #[test]
    fn only_unused_revisions_beyond_the_limit_are_surplus() {
        let revisions: Vec<_> =
            (1..=4).map(|number| revision(&format!("r{number}"), number, json!({}))).collect();
        let names = |limit| {
            let found = surplus(&revisions, limit, |it| it.revision == 1);
            found.iter().map(|it| it.metadata.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(Some(0)), ["r2", "r3", "r4"]);
        assert_eq!(names(Some(2)), ["r2"]);
        assert_eq!(names(Some(3)), [""; 0]);
        assert_eq!(names(Some(-1)), [""; 0]);
    }
}
