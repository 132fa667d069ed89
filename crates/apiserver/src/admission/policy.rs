//! `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy`: admission by CEL expressions, without
//! calls over the network.
//!
//! ```text
//! policy  ── which requests, which expressions ─┐
//! binding ── where, with which parameters ──────┼─▶ invocation ─▶ evaluation ─▶ denial or change
//! request ── object, old object, user ──────────┘
//! ```
//!
//! Policies are compiled by the first request after a change, and cached. Without bindings, a
//! request costs one check for each kind of binding.

mod types;
mod compiler;
mod evaluation;
mod params;
mod param_authorization;
mod policy_spec;
mod validating;
mod patch;
mod mutating;
mod expressions;
mod kind_types;
mod type_checking;
mod status;

pub(super) use compiler::{Compiler, Declarations};
pub(crate) use expressions::validate as validate_policy;
pub(super) use mutating::PolicyReinvokeContext;
pub(super) use param_authorization::authorize_params;
pub(crate) use status::run_policy_status_controller;

use super::Attributes;
use crate::storage::snapshot_value::SnapshotValue;
use machinery::{Object, Reason, Status};
use policy_spec::PolicyBindings;
use validating::PolicyDecisions;

/// The compiled policies of a plane and their bindings.
pub(crate) struct Policies {
    validating: SnapshotValue<validating::ValidatingPolicies>,
    validating_bindings: SnapshotValue<PolicyBindings>,
    mutating: SnapshotValue<mutating::MutatingPolicies>,
    mutating_bindings: SnapshotValue<PolicyBindings>,
}

impl Default for Policies {
    fn default() -> Self {
        let bindings = |plural| SnapshotValue::new(GROUP, plural, policy_spec::bindings);
        Self {
            validating: SnapshotValue::new(
                GROUP,
                "validatingadmissionpolicies",
                validating::compile,
            ),
            validating_bindings: bindings("validatingadmissionpolicybindings"),
            mutating: SnapshotValue::new(GROUP, "mutatingadmissionpolicies", mutating::compile),
            mutating_bindings: bindings("mutatingadmissionpolicybindings"),
        }
    }
}

const GROUP: &str = "admissionregistration.k8s.io";

/// The message and reason with which a policy denies a request.
struct Denial {
    message: String,
    reason: Reason,
}

impl Denial {
    fn invalid(message: String) -> Self {
        Self { message, reason: Reason::Invalid }
    }
}

/// Runs the validating policies for an object that is about to be stored or, if `object` is None,
/// deleted.
pub(super) async fn validate(
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Result<(), Status> {
    let (policies, storage) = (&attributes.admission.policies, &attributes.scope.storage);
    if policies.validating_bindings.has_no_objects(storage) {
        return Ok(());
    }
    // The future is boxed to keep the future of requests without policies small.
    Box::pin(evaluate_validating_policies(attributes, object)).await
}

async fn evaluate_validating_policies(
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Result<(), Status> {
    let (policies, storage) = (&attributes.admission.policies, &attributes.scope.storage);
    let bindings = policies.validating_bindings.complete(storage)?;
    let policies = policies.validating.complete(storage)?;
    let mut decisions = PolicyDecisions::new(attributes, object);
    for (name, bindings) in bindings.iter() {
        // A binding may exist before its policy.
        if let Some(policy) = policies.get(name) {
            decisions.evaluate(policy, bindings).await?;
        }
    }
    decisions.into_result()
}

/// Runs the mutating policies. Returns whether a policy changed the object.
pub(super) async fn mutate(
    attributes: &Attributes<'_>,
    object: &mut Object,
    reinvocation: &mut PolicyReinvokeContext,
) -> Result<bool, Status> {
    let (policies, storage) = (&attributes.admission.policies, &attributes.scope.storage);
    if policies.mutating_bindings.has_no_objects(storage) {
        return Ok(false);
    }
    let bindings = policies.mutating_bindings.complete(storage)?;
    let policies = policies.mutating.complete(storage)?;
    Box::pin(mutating::mutate_all(&policies, &bindings, attributes, object, reinvocation)).await
}

/// The name of the object in a denial.
fn denied_name<'a>(attributes: &'a Attributes<'_>, object: Option<&'a Object>) -> &'a str {
    let names = [
        attributes.name.as_str(),
        object.map(Object::name).unwrap_or_default(),
        object.map(|it| it.meta_text("generateName")).unwrap_or_default(),
    ];
    names.into_iter().find(|it| !it.is_empty()).unwrap_or("Unknown")
}
