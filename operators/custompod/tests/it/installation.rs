//! The manifests of an operator on a server with RBAC, and [`Operator`], which has the rights of its
//! service account.

use std::time::Duration;

use apiserver::auth::authentication::User;
use apiserver::{AuthorizerConfig, Config, Server};
use machinery::Value;
use machinery::codec::yaml;
use runtime::keel::Tasks;
use runtime::kube_core::{ApiResource, DynamicObject, GroupVersionKind};
use runtime::{Manager, ManagerOptions, prelude::*};

/// The longest wait of a test that fails.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// RBAC, and the admission plugin that needs the most rights of an operator.
pub(crate) fn strict(config: &mut Config) {
    config.authorizers.push(AuthorizerConfig::Rbac);
    config.enabled_plugins.push("OwnerReferencesPermissionEnforcement".to_owned());
}

/// The object in a YAML document.
pub(crate) fn decode(document: &str) -> Value {
    yaml::decode(document.as_bytes()).unwrap().value
}

/// Creates objects, and waits until those of created CRDs can be.
pub(crate) async fn install(client: &Client, documents: &[String]) {
    for document in documents {
        let object: DynamicObject = serde_json::from_value(decode(document)).unwrap();
        api(client, &object).create(&PostParams::default(), &object).await.unwrap();
        if object.types.as_ref().unwrap().kind == "CustomResourceDefinition" {
            wait_until_served(client, &object.data["spec"]).await;
        }
    }
}

fn api(client: &Client, object: &DynamicObject) -> Api<DynamicObject> {
    let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
    let resource = ApiResource::from_gvk(&kind);
    match object.metadata.namespace.as_deref() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn wait_until_served(client: &Client, spec: &Value) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let kind = GroupVersionKind {
        group: text(&spec["group"]),
        version: text(&spec["versions"][0]["name"]),
        kind: text(&spec["names"]["kind"]),
    };
    let resource = ApiResource::from_gvk_with_plural(&kind, &text(&spec["names"]["plural"]));
    let objects = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let polling = async {
        while objects.list(&ListParams::default()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, polling).await.expect("the CRD is served");
}

/// A client that is the service account `name` in the namespace `operators`.
pub(crate) fn client_of(server: &Server, name: &str) -> Client {
    let groups = ["system:serviceaccounts", "system:serviceaccounts:operators"];
    let groups = groups.map(str::to_owned).to_vec();
    let user = User::authenticated(&format!("system:serviceaccount:operators:{name}"), "", groups);
    Client::new(server.in_process_client().for_user(user), "default")
}

/// An operator that can be stopped or killed.
pub(crate) struct Operator {
    pub(crate) manager: Manager,
    tasks: Tasks,
}

impl Operator {
    pub(crate) fn start(
        client: Client,
        options: ManagerOptions,
        add: impl FnOnce(&Manager),
    ) -> Self {
        let tasks = Tasks::new();
        let options = ManagerOptions { handles_signals: false, ..options };
        let manager = Manager::with_tasks(client, options, &tasks);
        add(&manager);
        let running = manager.clone();
        // A leader that was killed is replaced; then its run may end with an error.
        tasks.spawn("manager", async move { running.run().await });
        Self { manager, tasks }
    }

    /// Stops the operator at whatever step it is, as a crash does.
    pub(crate) async fn kill(self) {
        // The tasks are aborted, so the result is an error.
        let _ = self.tasks.stop(Duration::ZERO).await;
    }

    /// Stops the operator as SIGTERM does.
    pub(crate) async fn stop(self) {
        self.manager.stop();
        self.tasks.stop(LIMIT).await.unwrap();
    }
}
