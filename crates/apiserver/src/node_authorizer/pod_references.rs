//! [`PodReferences`]: the node of a pod, and the objects that the pod refers to.
//!
//! Upstream: api/v1/pod `VisitPodSecretNames` and `VisitPodConfigmapNames`, and `AddPod` of the graph

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::relations::{ObjectKey, Referenced};

/// The fields of a pod that refer to other objects. A list is null if it was written so.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PodReferences {
    metadata: Metadata,
    spec: PodSpec,
    status: Option<PodStatus>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
    service_account_name: Option<String>,
    image_pull_secrets: Option<Vec<Name>>,
    init_containers: Option<Vec<Container>>,
    containers: Option<Vec<Container>>,
    ephemeral_containers: Option<Vec<Container>>,
    volumes: Option<Vec<Volume>>,
    resource_claims: Option<Vec<ResourceClaim>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    resource_claim_statuses: Option<Vec<ResourceClaim>>,
    extended_resource_claim_status: Option<ResourceClaim>,
}

/// A claim of a pod, or its status.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ResourceClaim {
    name: String,
    #[serde(rename = "resourceClaimName")]
    object_name: Option<String>,
    #[serde(rename = "resourceClaimTemplateName")]
    template_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Name {
    name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    env_from: Option<Vec<Environment>>,
    env: Option<Vec<Variable>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Variable {
    value_from: Option<Environment>,
}

/// A source of one or of many variables.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Environment {
    #[serde(alias = "secretKeyRef")]
    secret_ref: Option<Name>,
    #[serde(alias = "configMapKeyRef")]
    config_map_ref: Option<Name>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    name: String,
    azure_file: Option<Source>,
    cephfs: Option<Source>,
    cinder: Option<Source>,
    #[serde(rename = "flexVolume")]
    flex: Option<Source>,
    rbd: Option<Source>,
    secret: Option<Source>,
    #[serde(rename = "scaleIO")]
    scale_io: Option<Source>,
    iscsi: Option<Source>,
    storageos: Option<Source>,
    csi: Option<Source>,
    config_map: Option<Name>,
    projected: Option<Projected>,
    persistent_volume_claim: Option<Claim>,
    ephemeral: Option<IgnoredAny>,
}

/// The source of a volume, with the name of its secret in the field of its kind.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Source {
    secret_name: Option<String>,
    secret_ref: Option<Name>,
    node_publish_secret_ref: Option<Name>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Claim {
    claim_name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Projected {
    sources: Option<Vec<ProjectedSource>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ProjectedSource {
    secret: Option<Name>,
    config_map: Option<Name>,
}

/// Collects the references of one pod.
struct Collector<'a> {
    namespace: &'a str,
    found: Vec<ObjectKey>,
}

impl Collector<'_> {
    fn add(&mut self, kind: Referenced, name: Option<&str>) {
        if let Some(name) = name.filter(|it| !it.is_empty()) {
            self.found.push(ObjectKey::new(kind, self.namespace, name));
        }
    }

    fn add_named(&mut self, kind: Referenced, reference: Option<&Name>) {
        self.add(kind, reference.and_then(|it| it.name.as_deref()));
    }
}

impl PodReferences {
    /// The node of the pod.
    pub(super) fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|it| !it.is_empty())
    }

    /// The objects to which the pod refers, without repetition. A mirror pod grants its node nothing,
    /// since the node has created it.
    pub(super) fn keys(&self, namespace: &str, pod_name: &str) -> Vec<ObjectKey> {
        if self.metadata.annotations.as_ref().is_some_and(|it| it.mirror.is_some()) {
            return Vec::new();
        }
        let mut collector = Collector { namespace, found: Vec::new() };
        let spec = &self.spec;
        collector.add(Referenced::ServiceAccount, spec.service_account_name.as_deref());
        for secret in spec.image_pull_secrets.iter().flatten() {
            collector.add_named(Referenced::Secret, Some(secret));
        }
        let containers = [&spec.init_containers, &spec.containers, &spec.ephemeral_containers];
        for container in containers.into_iter().flatten().flatten() {
            let variables = container.env.iter().flatten();
            let sources = variables.filter_map(|it| it.value_from.as_ref());
            for source in sources.chain(container.env_from.iter().flatten()) {
                collector.add_named(Referenced::Secret, source.secret_ref.as_ref());
                collector.add_named(Referenced::ConfigMap, source.config_map_ref.as_ref());
            }
        }
        for volume in spec.volumes.iter().flatten() {
            volume.collect(pod_name, &mut collector);
        }
        self.collect_resource_claims(&mut collector);
        let mut found = collector.found;
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Adds the claims for devices. The claim of a template has its name in the status.
    fn collect_resource_claims(&self, collector: &mut Collector<'_>) {
        let statuses = self.status.iter().flat_map(|it| &it.resource_claim_statuses).flatten();
        for claim in self.spec.resource_claims.iter().flatten() {
            let name = match (&claim.object_name, &claim.template_name) {
                (Some(name), _) => Some(name),
                (None, Some(_)) => statuses
                    .clone()
                    .find(|it| it.name == claim.name)
                    .and_then(|it| it.object_name.as_ref()),
                (None, None) => None,
            };
            collector.add(Referenced::ResourceClaim, name.map(String::as_str));
        }
        let extended =
            self.status.as_ref().and_then(|it| it.extended_resource_claim_status.as_ref());
        let name = extended.and_then(|it| it.object_name.as_deref());
        collector.add(Referenced::ResourceClaim, name);
    }
}

impl Volume {
    fn collect(&self, pod_name: &str, collector: &mut Collector<'_>) {
        let named = [&self.azure_file, &self.secret];
        for source in named.into_iter().flatten() {
            collector.add(Referenced::Secret, source.secret_name.as_deref());
        }
        let referring = [
            &self.cephfs,
            &self.cinder,
            &self.flex,
            &self.rbd,
            &self.scale_io,
            &self.iscsi,
            &self.storageos,
        ];
        for source in referring.into_iter().flatten() {
            collector.add_named(Referenced::Secret, source.secret_ref.as_ref());
        }
        if let Some(csi) = &self.csi {
            collector.add_named(Referenced::Secret, csi.node_publish_secret_ref.as_ref());
        }
        collector.add_named(Referenced::ConfigMap, self.config_map.as_ref());
        for source in self.projected.iter().flat_map(|it| &it.sources).flatten() {
            collector.add_named(Referenced::Secret, source.secret.as_ref());
            collector.add_named(Referenced::ConfigMap, source.config_map.as_ref());
        }
        if let Some(claim) = &self.persistent_volume_claim {
            collector.add(Referenced::VolumeClaim, Some(&claim.claim_name));
        } else if self.ephemeral.is_some() {
            let claim = format!("{pod_name}-{}", self.name);
            collector.add(Referenced::VolumeClaim, Some(&claim));
        }
    }
}
