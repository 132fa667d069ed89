//! `serviceaccount-controller`: every active namespace has the service account `default`.
//!
//! It reads namespaces and service accounts, and creates service accounts. It does not change an
//! existing account.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api_requests::{self, has_code, is_namespace_terminating};
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use machinery::PolicyRule;
use runtime::informer::{Indexer, ObjectEvent};
use runtime::{Action, Client, Controller, Failure, Lister, Mapper, ObjectKey, Predicate, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "serviceaccount-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("service-account-controller"),
    rules: &[PolicyRule::new(&[""], &["serviceaccounts"], &["create"])],
    start,
};

/// The name of the account.
const DEFAULT: &str = "default";

/// The fields of a namespace that the controllers of its standard objects read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NamespaceView {
    status: NamespaceStatusView,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamespaceStatusView {
    phase: String,
}

impl NamespaceView {
    /// Whether objects can be created in the namespace.
    pub(crate) fn is_active(&self) -> bool {
        self.status.phase == "Active"
    }
}

struct State {
    client: Client,
    namespaces: Lister<NamespaceView>,
    accounts: Arc<Indexer>,
}

fn start(cx: &ControllerContext) {
    let state = State {
        client: cx.client.clone(),
        namespaces: cx.manager.informer::<Namespace>().lister(),
        accounts: Arc::clone(cx.manager.informer::<ServiceAccount>().indexer()),
    };
    let is_deletion = Predicate::custom(|event| {
        matches!(event, ObjectEvent::Deleted { .. }) && event.item().name() == DEFAULT
    });
    let controller = Controller::for_::<Namespace>()
        .named(cx.name)
        .watches::<ServiceAccount>(namespace_of_object())
        .when(is_deletion)
        .reconcile(reconcile, state);
    cx.manager.add(controller);
}

/// Maps an object to its namespace.
pub(crate) fn namespace_of_object() -> Mapper {
    Mapper::custom(|item| vec![Request::new("", item.namespace())])
}

async fn reconcile(request: Request, cx: Arc<State>) -> Result<Action, Failure> {
    let namespace = cx.namespaces.get_key(&request)?;
    if !namespace.is_some_and(|namespace| namespace.is_active())
        || cx.accounts.get(&ObjectKey::new(request.name(), DEFAULT)).is_some()
    {
        return Ok(Action::Done);
    }
    let path = format!("/api/v1/namespaces/{}/serviceaccounts", request.name());
    let account = json!({"metadata": {"name": DEFAULT}});
    match api_requests::create::<Value>(&cx.client, &path, &account).await {
        Ok(_) => Ok(Action::Done),
        // A namespace that was deleted meanwhile is terminating or missing.
        Err(error) if is_namespace_terminating(&error) => Ok(Action::Done),
        Err(error) if has_code(&error, 409) || has_code(&error, 404) => Ok(Action::Done),
        Err(error) => Err(error.into()),
    }
}
