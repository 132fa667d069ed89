//! [`Document`]: an object that an operator needs in the cluster, and what becomes of it when the plane
//! is started without the operator.
//!
//! Objects have the label `app.kubernetes.io/managed-by: sampan-up`. A webhook or an initializer of an
//! operator that does not run refuses or holds up the requests of others, so the next start removes
//! it. CRDs, roles and custom resources stay.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use kube_client::Client;
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams};

use crate::connection::explain;
use machinery::codec::yaml;
use machinery::json;
use runtime::kube_core::{ApiResource, DynamicObject, GroupVersionKind, ResourceExt, TypeMeta};
use runtime::{DynamicKind, NotFoundExt};

/// The label of all objects, and its value.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "sampan-up");

/// The label with the program of the operator.
const NAME: &str = "app.kubernetes.io/name";

/// The configurations that send requests of others to an operator: version, kind and plural.
const CONFIGURATIONS: [(&str, &str, &str); 3] = [
    ("v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    ("v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    ("v1alpha1", "InitializerConfiguration", "initializerconfigurations"),
];

/// See the [module documentation](self).
pub(super) struct Document {
    object: DynamicObject,
    kind: GroupVersionKind,
}

impl Document {
    /// Decodes a YAML document of the operator with this program.
    pub(super) fn parse(manifest: &str, program: &str) -> Result<Self> {
        let object = yaml::decode(manifest.as_bytes()).context("a manifest is not YAML")?.value;
        let mut object: DynamicObject = serde_json::from_str(&object.to_string())?;
        let (label, value) = MANAGED_BY;
        object.labels_mut().insert(label.to_owned(), value.to_owned());
        object.labels_mut().insert(NAME.to_owned(), program.to_owned());
        let TypeMeta { api_version, kind } =
            object.types.clone().context("a manifest has no kind")?;
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
        let kind = GroupVersionKind::gvk(group, version, &kind);
        Ok(Self { object, kind })
    }

    /// Creates the object, or updates the fields that the document has.
    pub(super) async fn apply(&self, client: &Client) -> Result<()> {
        let kind = DynamicKind::discover(client, &self.kind).await?;
        let name = self.object.name_any();
        let parameters = PatchParams::apply("sampan").force();
        let api = kind.api(client, self.object.metadata.namespace.as_deref().unwrap_or_default());
        let applied = api.patch(&name, &parameters, &Patch::Apply(&self.object)).await;
        applied.map(drop).map_err(explain).with_context(|| format!("cannot install {name}"))
    }
}

/// Removes the webhooks and initializers of earlier starts that are not among `documents`. Returns a
/// line about each.
pub(super) async fn remove_leftovers(
    client: &Client,
    documents: &[Document],
) -> Result<Vec<String>> {
    let wanted: BTreeSet<(&str, String)> =
        documents.iter().map(|it| (it.kind.kind.as_str(), it.object.name_any())).collect();
    let mut removed = Vec::new();
    for (version, kind, plural) in CONFIGURATIONS {
        let api = cluster_scoped("admissionregistration.k8s.io", version, kind, plural);
        let api = api.api(client, "");
        for found in api.list(&ours()).await.map_err(explain)?.items {
            let name = found.name_any();
            if wanted.contains(&(kind, name.clone())) {
                continue;
            }
            api.delete(&name, &DeleteParams::default())
                .await
                .ignore_not_found()
                .map_err(explain)?;
            removed.push(note(kind, &found));
        }
    }
    let kind = "CustomResourceDefinition";
    let crds = cluster_scoped("apiextensions.k8s.io", "v1", kind, "customresourcedefinitions");
    let crds = crds.api(client, "");
    for crd in crds.list(&ours()).await.map_err(explain)?.items {
        let name = crd.name_any();
        let converts = crd.data["spec"]["conversion"]["strategy"] == "Webhook";
        if !converts || wanted.contains(&(kind, name.clone())) {
            continue;
        }
        let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
        crds.patch(&name, &PatchParams::default(), &Patch::Merge(none)).await.map_err(explain)?;
        removed.push(note("conversion webhook", &crd));
    }
    Ok(removed)
}

/// Removes the objects that an operator wrote itself in an earlier start, with other options. Returns
/// a line about each.
pub(super) async fn remove_obsolete(
    client: &Client,
    program: &str,
    objects: &[(&str, &str, &str)],
) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for (kind, plural, name) in objects {
        let api = cluster_scoped("admissionregistration.k8s.io", "v1", kind, plural);
        let api = api.api(client, "");
        let Some(found) = api.get_opt(name).await.map_err(explain)? else { continue };
        if found.labels().get(MANAGED_BY.0).is_none_or(|it| it != program) {
            continue;
        }
        api.delete(name, &DeleteParams::default()).await.ignore_not_found().map_err(explain)?;
        removed
            .push(format!("the {kind} {name} was removed: {program} does not use it in this run"));
    }
    Ok(removed)
}

fn note(kind: &str, object: &DynamicObject) -> String {
    let name = object.name_any();
    let program = object.labels().get(NAME).map_or("an operator", String::as_str);
    format!("the {kind} {name} was removed: {program} does not use it in this run")
}

/// Selects the objects that a plane has installed.
fn ours() -> ListParams {
    let (label, value) = MANAGED_BY;
    ListParams::default().labels(&format!("{label}={value}"))
}

fn cluster_scoped(group: &str, version: &str, kind: &str, plural: &str) -> DynamicKind {
    let kind = GroupVersionKind::gvk(group, version, kind);
    DynamicKind::cluster_scoped(ApiResource::from_gvk_with_plural(&kind, plural))
}
