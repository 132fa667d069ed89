//! The objects that the operator needs in a cluster, as YAML.

use crate::{Mode, Options};

const NAMESPACE: &str = include_str!("../config/namespace.yaml");
const SERVICE_ACCOUNT: &str = include_str!("../config/service_account.yaml");
const CONFIG_ROLE: &str = include_str!("../config/config_role.yaml");
const LEASE_ROLE: &str = include_str!("../config/lease_role.yaml");
const WEBHOOK_ROLES: &str = include_str!("../config/webhook_roles.yaml");
const WEBHOOK: &str = include_str!("../config/webhook.yaml");
const INITIALIZER_ROLE: &str = include_str!("../config/initializer_role.yaml");
const INITIALIZER: &str = include_str!("../config/initializer.yaml");
const POLICY_ROLE: &str = include_str!("../config/policy_role.yaml");

/// The objects for the default options. `webhook_url` is the address at which the API server reaches
/// the webhook server, such as `https://localhost:9444`.
///
/// ```
/// let documents = sidecar_operator::manifests("https://localhost:9444");
/// assert!(documents.iter().any(|document| document.contains("url: https://localhost:9444/inject")));
/// ```
pub fn manifests(webhook_url: &str) -> Vec<String> {
    manifests_of(&Options::default(), webhook_url)
}

/// The objects for these options.
///
/// ```
/// use sidecar_operator::{Mode, Options, manifests_of};
///
/// let options = Options { mode: Mode::Initializer, ..Options::default() };
/// let documents = manifests_of(&options, "");
/// assert!(documents.iter().any(|document| document.contains("kind: InitializerConfiguration")));
/// ```
pub fn manifests_of(options: &Options, webhook_url: &str) -> Vec<String> {
    let of_mode: &[&str] = match options.mode {
        Mode::Initializer => &[INITIALIZER_ROLE, INITIALIZER],
        Mode::Webhook => &[WEBHOOK_ROLES, WEBHOOK],
        Mode::Policy => &[POLICY_ROLE],
    };
    let files = [NAMESPACE, SERVICE_ACCOUNT, CONFIG_ROLE, LEASE_ROLE].iter().chain(of_mode);
    let documents = files.flat_map(|file| file.split("\n---\n"));
    let filled = documents.map(|document| {
        let document = document.replace("CONFIG_NAMESPACE", &options.config_namespace);
        document.replace("WEBHOOK_URL", webhook_url)
    });
    filled.collect()
}
