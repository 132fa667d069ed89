//! [`Case`]: a kind and a manifest of it.

use std::collections::BTreeSet;

use apiserver::Fairness;
use kinds::runtime_config::RuntimeConfig;
use machinery::codec::yaml;
use machinery::{Value, json};
use testenv::media_type::MERGE_PATCH;
use testenv::{Client, TestEnv};
use types::Resource;
use types::resource::Version;

/// See the [module documentation](self).
pub(super) struct Case {
    pub(super) resource: Resource,
    /// The manifest without its status.
    pub(super) manifest: Value,
    /// The status in the manifest.
    pub(super) status: Option<Value>,
}

/// The setting that turns on all versions of all kinds.
const ALL: &str = "api/all=true";

/// A plane that serves all kinds.
pub(super) async fn plane() -> TestEnv {
    let builder = TestEnv::builder().config(|config| {
        config.runtime_config = vec![ALL.to_owned()];
        // Otherwise the server writes the status of flow schemas.
        config.fairness = Fairness::Disabled;
    });
    builder.start().await
}

fn all_kinds() -> Vec<Resource> {
    let mut kinds = kinds::table::builtin();
    RuntimeConfig::parse(&[ALL]).unwrap().apply(&mut kinds).unwrap();
    kinds
}

/// All cases, in the order of the table.
pub(super) fn cases() -> Vec<Case> {
    let mut manifests = manifests();
    let stored = all_kinds().into_iter().filter(|it| it.strategy.unstored.is_none());
    let cases = stored.filter_map(|resource| {
        let of = |it: &Value| {
            it["kind"] == *resource.kind
                && served(&resource).any(|(name, _)| it["apiVersion"] == name)
        };
        let mut manifest = manifests.remove(manifests.iter().position(of)?);
        let status = manifest.as_object_mut().unwrap().remove("status");
        Some(Case { resource, manifest, status })
    });
    cases.collect()
}

fn manifests() -> Vec<Value> {
    let documents = yaml::documents(include_str!("../minimal.yaml")).unwrap();
    documents.into_iter().map(|it| it.value).collect()
}

fn served(resource: &Resource) -> impl Iterator<Item = (String, &Version)> {
    let served = resource.versions.iter().filter(|it| it.served);
    served.map(|it| (resource.api_version(it), it))
}

impl Case {
    /// The name in failure messages.
    pub(super) fn name(&self) -> String {
        self.resource.group_kind().to_string()
    }

    /// The served versions, by `apiVersion`.
    pub(super) fn versions(&self) -> Vec<(String, &Version)> {
        served(&self.resource).collect()
    }

    /// The `apiVersion` of the manifest.
    pub(super) fn api_version(&self) -> &str {
        self.manifest["apiVersion"].as_str().unwrap()
    }

    /// The version of the manifest.
    pub(super) fn version(&self) -> &Version {
        self.versions().into_iter().find(|(name, _)| name == self.api_version()).unwrap().1
    }

    /// The path of the collection in a version.
    pub(super) fn collection_in(&self, api_version: &str) -> String {
        let root = if api_version.contains('/') { "/apis" } else { "/api" };
        let namespace = if self.resource.namespaced { "/namespaces/default" } else { "" };
        format!("{root}/{api_version}{namespace}/{}", self.resource.plural)
    }

    /// The path of the collection in the version of the manifest.
    pub(super) fn collection(&self) -> String {
        self.collection_in(self.api_version())
    }

    /// The name of the object.
    pub(super) fn object_name(&self) -> &str {
        self.manifest["metadata"]["name"].as_str().unwrap()
    }

    /// The path of the object in a version.
    pub(super) fn path_in(&self, api_version: &str) -> String {
        format!("{}/{}", self.collection_in(api_version), self.object_name())
    }

    /// The path of the object in the version of the manifest.
    pub(super) fn path(&self) -> String {
        self.path_in(self.api_version())
    }

    /// Creates the object.
    pub(super) async fn create(&self, client: &Client) -> Value {
        let (code, created) = client.post(&self.collection(), &self.manifest).await;
        assert_eq!(code, 201, "{}: {created}", self.name());
        created
    }

    /// Creates the object and returns it after the server's own writes: the server sets the status
    /// of a CRD after its creation.
    pub(super) async fn create_and_settle(&self, client: &Client) -> Value {
        self.create(client).await;
        let is_crd = self.resource.kind == "CustomResourceDefinition";
        let settled = |object: &Value| {
            let conditions = object["status"]["conditions"].as_array();
            !is_crd || conditions.is_some_and(|it| it.iter().any(is_established))
        };
        client.until(&self.path(), |_, object| settled(object)).await
    }

    /// Deletes the object and removes its finalizers.
    pub(super) async fn remove(&self, client: &Client) {
        let (code, answer) = client.delete(&self.path()).await;
        assert_eq!(code, 200, "{}: {answer}", self.name());
        let (code, held) = client.get(&self.path()).await;
        if code == 404 {
            return;
        }
        assert!(held["metadata"]["deletionTimestamp"].is_string(), "{}: {held}", self.name());
        if self.resource.kind == "Namespace" {
            let mut finalized = held;
            finalized["spec"] = json!({});
            let (code, answer) = client.put(&format!("{}/finalize", self.path()), &finalized).await;
            assert_eq!(code, 200, "{}: {answer}", self.name());
        } else {
            // The controller of the finalizer may remove it concurrently.
            let patch = json!({"metadata": {"finalizers": null}});
            let (code, answer) = client.patch(&self.path(), MERGE_PATCH, &patch).await;
            assert!(matches!(code, 200 | 404), "{}: {answer}", self.name());
        }
        client.until(&self.path(), |code, _| code == 404).await;
    }
}

fn is_established(condition: &Value) -> bool {
    condition["type"] == "Established" && condition["status"] == "True"
}

#[test]
fn each_kind_has_one_manifest_and_each_manifest_a_kind() {
    let of = |api_version: &str, kind: &str| format!("{api_version} {kind}");
    let mut written: Vec<String> = manifests()
        .iter()
        .map(|it| of(it["apiVersion"].as_str().unwrap(), it["kind"].as_str().unwrap()))
        .collect();
    let used: BTreeSet<String> =
        cases().iter().map(|it| of(it.api_version(), &it.resource.kind)).collect();
    written.retain(|it| !used.contains(it));
    assert_eq!(
        written,
        Vec::<String>::new(),
        "these manifests have no built-in kind, or the kind of another manifest"
    );
    let kinds: BTreeSet<String> = cases().iter().map(Case::name).collect();
    let missing: Vec<String> = all_kinds()
        .iter()
        .filter(|it| it.strategy.unstored.is_none())
        .map(|it| it.group_kind().to_string())
        .filter(|it| !kinds.contains(it))
        .collect();
    assert_eq!(missing, Vec::<String>::new(), "these kinds have no manifest");
}

#[test]
fn each_kind_with_a_status_has_one_in_its_manifest() {
    for case in cases() {
        assert_eq!(case.version().status, case.status.is_some(), "{}", case.name());
    }
}
