//! [`TestEnv::install`]: the manifests of an operator, and the wait for its webhooks.

use http::Method;

use crate::env::{CRDS, TestEnv, list_path};
use machinery::Value;
use machinery::codec::yaml;

/// The media type of server-side apply.
const APPLY: &str = "application/apply-patch+yaml";

/// The collections of configurations of webhooks.
const WEBHOOKS: [&str; 2] = [
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
];

impl TestEnv {
    /// Applies the objects of YAML or JSON documents in their order, as `kubectl apply --server-side`
    /// does, and waits until the objects of their CRDs can be created. Objects without a namespace
    /// are in `default`. Unknown fields are refused.
    ///
    /// ```
    /// # use testenv::TestEnv;
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let env = TestEnv::builder().rbac().start().await;
    /// env.install(
    ///     "
    /// apiVersion: v1
    /// kind: Namespace
    /// metadata: {name: operators}
    /// ---
    /// apiVersion: v1
    /// kind: ServiceAccount
    /// metadata: {name: site, namespace: operators}
    /// ",
    /// )
    /// .await;
    /// env.read("/api/v1/namespaces/operators/serviceaccounts/site").await;
    /// # });
    /// ```
    pub async fn install(&self, documents: &str) {
        let documents = yaml::documents(documents);
        let documents = documents.unwrap_or_else(|error| panic!("not valid YAML: {error}"));
        for object in documents.into_iter().map(|document| document.value) {
            if object.is_null() {
                continue;
            }
            let path = self.path_of(&object).await;
            let path = format!("{path}?fieldManager=testenv&force=true&fieldValidation=Strict");
            let response = self.send(Method::PATCH, &path, APPLY, object.to_string()).await;
            assert!(response.code < 300, "apply {path}: {} {}", response.code, response.value());
            if object["kind"] == "CustomResourceDefinition" {
                self.until(&list_path(&object), |code, _| code == 200).await;
            }
        }
    }

    /// Waits until each webhook of the plane, for admission or for conversion, has the CA with which
    /// it is verified. The manager of an operator writes it after it has begun to serve the webhook.
    ///
    /// ```
    /// # use {machinery::json, testenv::TestEnv};
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let env = TestEnv::start().await;
    /// // Here, an operator serves webhooks, and the test installs their configuration.
    /// env.wait_for_ca_bundles().await;
    /// # });
    /// ```
    pub async fn wait_for_ca_bundles(&self) {
        for path in WEBHOOKS {
            self.until(path, |_, configurations| {
                let webhooks = items(configurations).flat_map(|it| array(&it["webhooks"]));
                webhooks.into_iter().all(|webhook| is_trusted(&webhook["clientConfig"]))
            })
            .await;
        }
        self.until(CRDS, |_, crds| {
            let conversions = items(crds).map(|crd| &crd["spec"]["conversion"]);
            let mut webhooks = conversions.filter(|it| it["strategy"] == "Webhook");
            webhooks.all(|it| is_trusted(&it["webhook"]["clientConfig"]))
        })
        .await;
    }

    /// The path of an object of any kind that is served.
    async fn path_of(&self, object: &Value) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let root = if version.contains('/') { "/apis" } else { "/api" };
        let resources = self.read(&format!("{root}/{version}")).await;
        let resource = array(&resources["resources"]).find(|resource| {
            resource["kind"] == kind.as_str() && !text(&resource["name"]).contains('/')
        });
        let resource = resource.unwrap_or_else(|| panic!("{version} has no kind {kind:?}"));
        let (plural, metadata) = (text(&resource["name"]), &object["metadata"]);
        let name = text(&metadata["name"]);
        if resource["namespaced"] == false {
            return format!("{root}/{version}/{plural}/{name}");
        }
        let namespace = metadata["namespace"].as_str().unwrap_or("default");
        format!("{root}/{version}/namespaces/{namespace}/{plural}/{name}")
    }
}

fn is_trusted(client_config: &Value) -> bool {
    client_config["caBundle"].as_str().is_some_and(|bundle| !bundle.is_empty())
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    array(&list["items"])
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
