//! `root-ca-certificate-publisher-controller`: every namespace has the config map `kube-root-ca.crt`
//! with the certificates that clients of the plane trust. It is restored when it was changed or
//! deleted, and in all namespaces when the certificates change.
//!
//! It reads namespaces and these config maps, and creates and updates config maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::api_requests::{self, has_code, is_namespace_terminating};
use crate::controller_context::{ControllerContext, selecting_field};
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::metadata::Metadata;
use crate::root_ca_changes;
use crate::service_account::{NamespaceView, namespace_of_object};
use machinery::PolicyRule;
use runtime::informer::ObjectEvent;
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, Predicate, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "root-ca-certificate-publisher-controller",
    aliases: &["root-ca-cert-publisher"],
    user: ControllerUser::ServiceAccount("root-ca-cert-publisher"),
    rules: &[PolicyRule::new(&[""], &["configmaps"], &["create", "update"])],
    start,
};

const NAME: &str = "kube-root-ca.crt";

const DESCRIPTION_ANNOTATION: &str = "kubernetes.io/description";

const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConfigMapView {
    metadata: Metadata,
    data: BTreeMap<String, String>,
}

struct State {
    client: Client,
    root_ca: watch::Receiver<String>,
    namespaces: Lister<NamespaceView>,
    maps: Lister<ConfigMapView>,
}

fn start(cx: &ControllerContext) {
    let selection = selecting_field("metadata.name", NAME);
    let namespaces = cx.manager.informer::<Namespace>();
    let changed = root_ca_changes::requests(cx, &namespaces, Mapper::itself());
    let state = State {
        client: cx.client.clone(),
        root_ca: cx.options.root_ca.clone(),
        namespaces: namespaces.lister(),
        maps: cx.manager.informer_selecting::<ConfigMap>(&selection).lister(),
    };
    let controller = Controller::for_::<Namespace>()
        .named(cx.name)
        .watches::<ConfigMap>(namespace_of_object())
        .selecting(selection)
        .channel(changed)
        .when(Predicate::custom(|event| !matches!(event, ObjectEvent::Added { .. })))
        .reconcile(reconcile, state);
    cx.manager.add(controller);
}

async fn reconcile(request: Request, cx: Arc<State>) -> Result<Action, Failure> {
    let namespace = request.name();
    if !cx.namespaces.get_key(&request)?.is_some_and(|namespace| namespace.is_active()) {
        return Ok(Action::Done);
    }
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let Some(map) = cx.maps.get(namespace, NAME)? else {
        let annotations = BTreeMap::from([(DESCRIPTION_ANNOTATION, DESCRIPTION)]);
        let map = cx.config_map(&json!({"name": NAME, "annotations": annotations}));
        return match api_requests::create::<Value>(&cx.client, &path, &map).await {
            Ok(_) => Ok(Action::Done),
            Err(error) if is_namespace_terminating(&error) => Ok(Action::Done),
            Err(error) if has_code(&error, 404) => Ok(Action::Done),
            Err(error) => Err(error.into()),
        };
    };
    let has_description =
        map.metadata.annotations.get(DESCRIPTION_ANNOTATION).is_some_and(|text| !text.is_empty());
    let is_intact = map.data.len() == 1 && map.data.get("ca.crt") == Some(&*cx.root_ca.borrow());
    if is_intact && has_description {
        return Ok(Action::Done);
    }
    let mut metadata = map.metadata;
    metadata.annotations.insert(DESCRIPTION_ANNOTATION.to_owned(), DESCRIPTION.to_owned());
    let path = format!("{path}/{NAME}");
    api_requests::replace::<Value>(&cx.client, &path, &cx.config_map(&metadata.to_update()))
        .await?;
    Ok(Action::Done)
}

impl State {
    fn config_map(&self, metadata: &Value) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"ca.crt": *self.root_ca.borrow()},
        })
    }
}
