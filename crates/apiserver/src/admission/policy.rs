//! `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy`: admission by expressions, without
//! anybody to call.
//!
//! ```text
//! policy  ── which requests, which expressions ─┐
//! binding ── where, with which parameters ──────┼─▶ invocation ─▶ evaluation ─▶ verdict or change
//! request ── object, old object, who ───────────┘
//! ```
//!
//! Policies are compiled by the first request after they changed, and kept. As long as nothing is
//! bound, a request costs one look at each kind of bindings.

mod types;
mod compiler;
mod evaluation;
mod params;
mod definition;
mod validating;
mod patch;
mod mutating;
mod expressions;
mod declared;
mod type_checking;
mod status;

pub(super) use compiler::{Compiler, Use};
pub(crate) use expressions::validate as validate_policy;
pub(crate) use mutating::Rounds;
pub(crate) use status::keep_true;

use super::Attributes;
use crate::cache::snapshot_value::SnapshotValue;
use definition::Bindings;
use machinery::{Object, Reason, Status};
use validating::Verdicts;

/// The policies of a plane and their bindings, compiled.
pub(crate) struct Policies {
    validating: SnapshotValue<validating::Policies>,
    validating_bindings: SnapshotValue<Bindings>,
    mutating: SnapshotValue<mutating::Policies>,
    mutating_bindings: SnapshotValue<Bindings>,
}

impl Default for Policies {
    fn default() -> Self {
        let bindings = |plural| SnapshotValue::new(GROUP, plural, definition::bindings);
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

/// Why a policy is against a request.
struct Refusal {
    message: String,
    reason: Reason,
}

impl Refusal {
    fn invalid(message: String) -> Self {
        Self { message, reason: Reason::Invalid }
    }
}

/// Judges what is about to be stored, or, if `object` is None, removed.
pub(super) async fn validate(
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Result<(), Status> {
    let (policies, storage) = (&attributes.admission.policies, &attributes.scope.storage);
    if policies.validating_bindings.has_no_objects(storage) {
        return Ok(());
    }
    // In a box: requests that no policy sees need not have room for it.
    Box::pin(validate_by_all(attributes, object)).await
}

async fn validate_by_all(
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Result<(), Status> {
    let (policies, storage) = (&attributes.admission.policies, &attributes.scope.storage);
    let bindings = policies.validating_bindings.current(storage);
    let policies = policies.validating.current(storage);
    let mut verdicts = Verdicts::new(attributes, object);
    for (name, bindings) in bindings.iter() {
        // A binding may come before its policy.
        if let Some(policy) = policies.get(name) {
            verdicts.ask(policy, bindings).await?;
        }
    }
    verdicts.conclude()
}

/// Changes what is about to be stored, and tells whether there was something to change.
pub(super) async fn mutate(
    attributes: &Attributes<'_>,
    object: &mut Object,
    rounds: &mut Rounds,
) -> Result<bool, Status> {
    let (policies, storage) = (&attributes.admission.policies, &attributes.scope.storage);
    if policies.mutating_bindings.has_no_objects(storage) {
        return Ok(false);
    }
    let bindings = policies.mutating_bindings.current(storage);
    let policies = policies.mutating.current(storage);
    Box::pin(mutating::round(&policies, &bindings, attributes, object, rounds)).await
}

/// The name that a refusal speaks of.
fn refusal_name<'a>(attributes: &'a Attributes<'_>, object: Option<&'a Object>) -> &'a str {
    let names = [
        attributes.name.as_str(),
        object.map(Object::name).unwrap_or_default(),
        object.map(|it| it.meta_text("generateName")).unwrap_or_default(),
    ];
    names.into_iter().find(|it| !it.is_empty()).unwrap_or("Unknown")
}
