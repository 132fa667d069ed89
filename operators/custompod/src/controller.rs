//! The `CustomPod` resource, and its reconcile function.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use runtime::kube_core::params::Patch;
use runtime::kube_core::{ObjectMeta, Resource, params};
use runtime::{
    Action, Api, CONTROLLER_INDEX, Client, Controller, Failure, Lister, Manager, ObjectKey,
    Request, resource, schema,
};

/// The desired number of pods.
#[resource(
    group = "zhhnzw.mock.com",
    version = "v1",
    kind = "CustomPod",
    namespaced,
    status = "CustomPodStatus",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    printcolumn(name = "Wanted", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Live", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub(crate) struct CustomPodSpec {
    /// The number of pods.
    #[schemars(range(max = 100))]
    pub replicas: usize,
}

/// The pending and running pods.
#[schema]
#[derive(PartialEq, Default)]
#[serde(default)]
pub(crate) struct CustomPodStatus {
    /// The number of pods.
    pub replicas: usize,
    /// The names of the pods.
    pub pod_names: Vec<String>,
}

struct Context {
    custom_pods: Lister<CustomPod>,
    pods: Lister<Pod>,
    client: Client,
}

/// Reconciles every `CustomPod`, also when its pods change.
pub(crate) fn controller(manager: &Manager) -> Controller {
    let context =
        Context { custom_pods: manager.lister(), pods: manager.lister(), client: manager.client() };
    Controller::for_::<CustomPod>().owns::<Pod>().reconcile(reconcile, context)
}

async fn reconcile(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    let Some(custom_pod) = cx.custom_pods.get_key(&request)? else { return Ok(Action::Done) };
    if custom_pod.metadata.deletion_timestamp.is_some() {
        // The garbage collector deletes its pods.
        return Ok(Action::Done);
    }
    let pods = Api::<Pod>::namespaced(cx.client.clone(), request.namespace());
    let (wanted, live) = (custom_pod.spec.replicas, cx.live_pods(&custom_pod)?);
    let missing = wanted.saturating_sub(live.len());
    for name in cx.free_names(&request).take(missing) {
        pods.create(&params::PostParams::default(), &pod_of(&custom_pod, name)).await?;
    }
    for pod in live.iter().skip(wanted) {
        let uid = pod.metadata.uid.clone();
        let this_pod = params::Preconditions { uid, ..params::Preconditions::default() };
        pods.delete(name_of(pod), &params::DeleteParams::default().preconditions(this_pod)).await?;
    }
    cx.update_status(&request, &custom_pod).await?;
    Ok(Action::Done)
}

impl Context {
    /// The pods that are pending or running and not being deleted. The running ones are first, since
    /// pods at the end are deleted first.
    fn live_pods(&self, custom_pod: &CustomPod) -> Result<Vec<Pod>, Failure> {
        let uid = custom_pod.metadata.uid.as_deref().unwrap_or_default();
        let mut pods = self.pods.by_index(CONTROLLER_INDEX, uid)?.objects;
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        pods.retain(|pod| {
            let is_live = matches!(phase(pod).as_deref(), None | Some("Pending" | "Running"));
            // Who writes in another namespace can name the uid, too.
            let is_here = pod.metadata.namespace == custom_pod.metadata.namespace;
            is_live && is_here && pod.metadata.deletion_timestamp.is_none()
        });
        pods.sort_by_key(|pod| phase(pod).as_deref() != Some("Running"));
        Ok(pods)
    }

    /// Names that no pod has, always in the same order, so that a repeated creation of a pod fails.
    fn free_names(&self, request: &Request) -> impl Iterator<Item = String> {
        let numbered = (0..).map(|number| format!("{}-{number}", request.name()));
        numbered.filter(|name| {
            let key = ObjectKey::new(request.namespace(), name);
            self.pods.indexer().get(&key).is_none()
        })
    }

    /// Writes the status if it has changed. The cache already contains the pods that this reconcile
    /// created, and not those that it deleted.
    async fn update_status(
        &self,
        request: &Request,
        custom_pod: &CustomPod,
    ) -> Result<(), Failure> {
        let live = self.live_pods(custom_pod)?;
        let mut pod_names: Vec<_> = live.iter().map(|pod| name_of(pod).to_owned()).collect();
        pod_names.sort_unstable();
        let status = CustomPodStatus { replicas: live.len(), pod_names };
        if custom_pod.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let custom_pods = Api::<CustomPod>::namespaced(self.client.clone(), request.namespace());
        let patch = Patch::Merge(serde_json::json!({ "status": status }));
        custom_pods.patch_status(request.name(), &params::PatchParams::default(), &patch).await?;
        Ok(())
    }
}

fn name_of(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

fn pod_of(owner: &CustomPod, name: String) -> Pod {
    let app = owner.metadata.name.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(BTreeMap::from([("app".to_owned(), app)])),
            owner_references: owner.controller_owner_ref(&()).map(|reference| vec![reference]),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: vec![Container {
                name: "busybox".to_owned(),
                image: Some("busybox".to_owned()),
                command: Some(vec!["sleep".to_owned(), "3600".to_owned()]),
                ..Container::default()
            }],
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}
