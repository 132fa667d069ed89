//! The objects that a cluster needs for the operator.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::WebhookClientConfig;

use crate::api::Network;
use runtime::versions::{CustomResourceDefinition, Versions};

const ACCESS: &str = include_str!("../config/access.yaml");
const WEBHOOK: &str = include_str!("../config/webhook.yaml");

/// The address of the webhooks in the files.
const LOCAL_URL: &str = "https://localhost:9443";

/// YAML documents: the CRD, the service account with its permissions, and the webhook configuration.
/// The webhooks are at `webhook_url`, such as `https://localhost:9443`.
pub fn manifests(webhook_url: &str) -> Vec<String> {
    let webhook_url = webhook_url.trim_end_matches('/');
    let crd = serde_json::to_value(crd(webhook_url)).expect("a CRD is valid JSON");
    let crd = serde_saphyr::to_string(&crd).expect("a CRD is valid YAML");
    let files = format!("{ACCESS}---\n{}", WEBHOOK.replace(LOCAL_URL, webhook_url));
    let files = files.split("---\n").map(str::to_owned);
    std::iter::once(crd).chain(files).collect()
}

/// The CRD, with a webhook at `webhook_url` that converts between the versions.
pub(crate) fn crd(webhook_url: &str) -> CustomResourceDefinition {
    let webhook = WebhookClientConfig {
        url: Some(format!("{webhook_url}/convert")),
        ..WebhookClientConfig::default()
    };
    let mut crd = Network::crd_converted_by(webhook).expect("the versions are of the same kind");
    // The one of a CRD that was created in v1beta1, such as the textbook's, is true, which v1 refuses.
    crd.spec.preserve_unknown_fields = Some(false);
    // The textbook's group ends in k8s.io, where Kubernetes demands a remark.
    let (name, value) = ("api-approved.kubernetes.io", "unapproved, an example of a textbook");
    crd.metadata.annotations = Some([(name.to_owned(), value.to_owned())].into());
    crd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crd_is_valid_and_the_file_equals_it() {
        let generated = crd(LOCAL_URL);
        runtime::crd::validate(&generated).unwrap();
        let written = include_str!("../crd/networks.yaml");
        let documents = manifests(LOCAL_URL);
        assert!(written == documents[0], "crd/networks.yaml should contain {}", documents[0]);
    }
}
