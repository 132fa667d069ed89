//! The policy: a controller that writes a `MutatingAdmissionPolicy` with the sidecar of the `ConfigMap`,
//! and its binding. The API server evaluates it, whether the operator runs or not.
//!
//! Without a valid configuration, the last policy stays. Without a `ConfigMap`, the policy is deleted.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::config::{ConfigError, ConfigSource, only};
use crate::controller::{ConfigReporter, REPORTER};
use crate::expression;
use crate::sidecar::Sidecar;
use crate::{CONFIG_MAP, INJECTION};
use runtime::DynamicKind;
use runtime::kube_core::{ApiResource, DynamicObject, GroupVersionKind};
use runtime::prelude::*;

const API_VERSION: &str = "admissionregistration.k8s.io/v1";

struct Context {
    reporter: ConfigReporter,
    policies: Api<DynamicObject>,
    bindings: Api<DynamicObject>,
}

/// Writes the policy when the `ConfigMap` changes, and when somebody else changes the policy.
pub(crate) fn controller(manager: &Manager, config: &ConfigSource) -> Controller {
    let policies = kind("MutatingAdmissionPolicy", "mutatingadmissionpolicies");
    let bindings = kind("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings");
    let request = Request::new(config.namespace(), CONFIG_MAP);
    let to_config = Mapper::custom(move |_| vec![request.clone()]);
    let context = Context {
        reporter: ConfigReporter::new(manager, config),
        policies: policies.api(&manager.client(), ""),
        bindings: bindings.api(&manager.client(), ""),
    };
    Controller::for_::<ConfigMap>()
        .selecting(config.selection())
        .watches_dynamic(&policies, to_config.clone())
        .selecting(only(INJECTION))
        .watches_dynamic(&bindings, to_config)
        .selecting(only(INJECTION))
        .reconcile(reconcile, context)
}

async fn reconcile(_: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    if let Err(ConfigError::NoConfigMap(_)) = cx.reporter.config.read() {
        cx.bindings.delete(INJECTION, &DeleteParams::default()).await.ignore_not_found()?;
        cx.policies.delete(INJECTION, &DeleteParams::default()).await.ignore_not_found()?;
        cx.reporter.read("there is no policy, and new pods get no sidecar");
        return Ok(Action::Done);
    }
    let Some(sidecar) = cx.reporter.read("new pods get the sidecar of the last valid one, if any")
    else {
        return Ok(Action::Done);
    };
    match cx.apply(&sidecar).await {
        Ok(()) => {
            cx.reporter.accept(&sidecar);
            Ok(Action::Done)
        }
        Err(failure) => {
            let message = format!("{failure}; new pods get the sidecar of the last policy, if any");
            cx.reporter.warn("PolicyFailed", &message);
            Err(failure)
        }
    }
}

impl Context {
    /// Writes the policy and its binding.
    async fn apply(&self, sidecar: &Sidecar) -> Result<(), Failure> {
        let params = PatchParams::apply(REPORTER).force();
        // In this order, and deletions in the other one: a binding without its policy refuses requests.
        for (api, object) in [(&self.policies, policy(sidecar)), (&self.bindings, binding())] {
            api.patch(INJECTION, &params, &Patch::Apply(object)).await?;
        }
        Ok(())
    }
}

fn kind(kind: &str, plural: &str) -> DynamicKind {
    let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
    DynamicKind::cluster_scoped(ApiResource::from_gvk_with_plural(&kind, plural))
}

fn policy(sidecar: &Sidecar) -> Value {
    let containers = sidecar.containers().iter().map(expression::add_container);
    let volumes = sidecar.volumes().iter().map(expression::add_volume);
    let mutation = |expression: String| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
    json!({
        "apiVersion": API_VERSION,
        "kind": "MutatingAdmissionPolicy",
        "metadata": metadata(),
        "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["pods"]}]},
            "matchConditions": [
                {"name": "requested", "expression": expression::is_requested()},
                {"name": "missing", "expression": expression::is_missing(sidecar.containers())},
            ],
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "mutations": containers.chain(volumes).map(mutation).collect::<Vec<_>>(),
        },
    })
}

fn binding() -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": metadata(),
        "spec": {"policyName": INJECTION},
    })
}

fn metadata() -> Value {
    json!({"name": INJECTION, "labels": {"app.kubernetes.io/managed-by": REPORTER}})
}
