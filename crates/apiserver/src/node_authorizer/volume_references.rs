//! [`VolumeReferences`]: the claim of a persistent volume, and the secrets that kubelets need to mount
//! it.
//!
//! Upstream: api/v1/persistentvolume `VisitPVSecretNames`

use serde::Deserialize;

use super::relations::{ObjectKey, Referenced};

/// The fields of a volume that refer to other objects.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct VolumeReferences {
    spec: VolumeSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct VolumeSpec {
    claim_ref: Option<Reference>,
    azure_file: Option<AzureFile>,
    cephfs: Option<Source>,
    cinder: Option<Source>,
    flex_volume: Option<Source>,
    rbd: Option<Source>,
    #[serde(rename = "scaleIO")]
    scale_io: Option<Source>,
    iscsi: Option<Source>,
    storageos: Option<Source>,
    csi: Option<Csi>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Reference {
    namespace: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct AzureFile {
    secret_name: Option<String>,
    secret_namespace: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Source {
    secret_ref: Option<Reference>,
}

/// The secrets that nodes use; a controller uses the others.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Csi {
    #[serde(rename = "nodePublishSecretRef")]
    publish: Option<Reference>,
    #[serde(rename = "nodeStageSecretRef")]
    stage: Option<Reference>,
    #[serde(rename = "nodeExpandSecretRef")]
    expand: Option<Reference>,
}

impl VolumeReferences {
    /// The claim to which the volume is bound.
    pub(super) fn claim(&self) -> Option<ObjectKey> {
        let claim = self.spec.claim_ref.as_ref()?;
        let [namespace, name] =
            [&claim.namespace, &claim.name].map(|it| it.as_deref().unwrap_or_default());
        Some(ObjectKey::new(Referenced::VolumeClaim, namespace, name))
    }

    /// The secrets. Some kinds of volumes look for them in the namespace of the claim by default.
    pub(super) fn secrets(&self) -> Vec<ObjectKey> {
        let spec = &self.spec;
        let claim_namespace = spec.claim_ref.as_ref().and_then(|it| it.namespace.as_deref());
        let mut found = Vec::new();
        let mut add = |reference: Option<(&Option<String>, &Option<String>)>, default: &str| {
            let Some((namespace, name)) = reference else { return };
            let text = |it: &'_ Option<String>| it.as_deref().unwrap_or_default().to_owned();
            let (namespace, name) = (text(namespace), text(name));
            let namespace = if namespace.is_empty() { default } else { &namespace };
            if !name.is_empty() {
                found.push(ObjectKey::new(Referenced::Secret, namespace, &name));
            }
        };
        let default = claim_namespace.unwrap_or_default();
        let file = spec.azure_file.as_ref();
        add(file.map(|it| (&it.secret_namespace, &it.secret_name)), default);
        let with_default =
            [&spec.cephfs, &spec.flex_volume, &spec.rbd, &spec.scale_io, &spec.iscsi];
        for source in with_default.into_iter().flatten() {
            add(source.secret_ref.as_ref().map(|it| (&it.namespace, &it.name)), default);
        }
        for source in [&spec.cinder, &spec.storageos].into_iter().flatten() {
            add(source.secret_ref.as_ref().map(|it| (&it.namespace, &it.name)), "");
        }
        if let Some(csi) = &spec.csi {
            let references = [&csi.publish, &csi.stage, &csi.expand];
            for reference in references {
                add(reference.as_ref().map(|it| (&it.namespace, &it.name)), "");
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
