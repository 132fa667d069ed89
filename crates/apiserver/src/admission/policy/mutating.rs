//! Policies that mutate objects.
//!
//! A policy with the reinvocation policy `IfNeeded` is evaluated again if the object changes after
//! its evaluation. All mutating plugins and webhooks run in between, so policies are evaluated in
//! two rounds:
//!
//! ```text
//! first round    a (IfNeeded)  b (Never)  c changes the object     a has not seen the change
//! second round   a
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::patch::{Mutation, MutationError, PatchTarget};
use super::policy_spec::{
    self, Binding, FailurePolicy, PolicyBindings, PolicyInvocation, PolicySpec, VersionedAttributes,
};
use super::{Denial, denied_name};
use crate::admission::Attributes;
use crate::admission::matching::MatchedResource;
use crate::cache::watch_cache::Snapshot;
use crate::registry::conversion;
use crate::registry::shape;
use machinery::field_path::quote;
use machinery::status::Cause;
use machinery::{Object, Reason, Status, Value};

/// A compiled policy.
pub(super) struct MutatingPolicy {
    spec: PolicySpec,
    mutations: Vec<Mutation>,
    /// Whether the policy is evaluated again if the object changes after its evaluation.
    reinvoke_if_needed: bool,
}

/// The policies by their names.
pub(super) type MutatingPolicies = BTreeMap<String, Arc<MutatingPolicy>>;

/// Compiles all policies.
pub(super) fn compile(snapshot: &Snapshot) -> MutatingPolicies {
    policy_spec::by_name(snapshot, MutatingPolicy::of)
}

impl MutatingPolicy {
    fn of(object: &Object) -> Self {
        let (spec, compiler) = PolicySpec::of(object);
        let mutations = object.get(&["spec", "mutations"]).and_then(Value::as_array);
        let mutations = mutations.into_iter().flatten().map(|it| Mutation::of(it, &compiler));
        Self {
            mutations: mutations.collect(),
            reinvoke_if_needed: object.str_at(&["spec", "reinvocationPolicy"]) == "IfNeeded",
            spec,
        }
    }
}

/// The names of a policy and its binding, and the namespace and name of a parameter.
type InvocationKey = (String, String, String, String);

/// The state that the second round needs from the first.
#[derive(Default)]
pub(crate) struct PolicyReinvokeContext {
    is_reinvoke: bool,
    /// Invocations with `IfNeeded` after which the object has not changed.
    previously_invoked: BTreeSet<InvocationKey>,
    /// Invocations that are repeated in the second round.
    to_reinvoke: BTreeSet<InvocationKey>,
    /// The object after the first round; None if no invocation can be repeated.
    last_output: Option<Object>,
}

impl PolicyReinvokeContext {
    fn require_reinvocation(&mut self) {
        self.to_reinvoke.append(&mut self.previously_invoked);
    }
}

/// An invocation of a policy with a binding and a parameter.
struct ReadyInvocation<'a> {
    policy: &'a MutatingPolicy,
    binding: &'a Binding,
    matched: MatchedResource,
    params: Option<Object>,
}

impl ReadyInvocation<'_> {
    fn key(&self) -> InvocationKey {
        let params = |part: fn(&Object) -> &str| {
            self.params.as_ref().map(part).unwrap_or_default().to_owned()
        };
        (
            self.policy.spec.name.clone(),
            self.binding.name.clone(),
            params(Object::namespace),
            params(Object::name),
        )
    }
}

/// Evaluates all policies once. Returns whether a policy changed the object.
pub(super) async fn mutate_all(
    policies: &MutatingPolicies,
    bindings: &PolicyBindings,
    attributes: &Attributes<'_>,
    object: &mut Object,
    reinvocation: &mut PolicyReinvokeContext,
) -> Result<bool, Status> {
    let mut failures: Vec<Denial> = Vec::new();
    // The invocations are determined before any policy changes the object.
    let mut invocations = Vec::new();
    for (name, bindings) in bindings {
        let Some(policy) = policies.get(name) else { continue };
        let policy_spec = &policy.spec;
        for invocation in policy_spec.invocations(bindings, attributes, Some(object)).await {
            match invocation {
                PolicyInvocation::Ready { binding, matched, params } => {
                    invocations.push(ReadyInvocation { policy, binding, matched, params });
                }
                PolicyInvocation::Misconfigured { binding, why } => {
                    failures.extend(failure(policy_spec, binding, &why, Reason::Forbidden));
                }
            }
        }
    }
    if reinvocation.is_reinvoke
        && reinvocation.last_output.as_ref().is_some_and(|last_output| last_output != object)
    {
        reinvocation.require_reinvocation();
    }
    let mut changed = false;
    for invocation in &invocations {
        changed |= invoke(invocation, attributes, object, reinvocation, &mut failures).await?;
    }
    // Upstream: at the end of a round, a change marks all policies for reinvocation, including
    // those that made the change.
    if changed {
        reinvocation.require_reinvocation();
    }
    reinvocation.is_reinvoke = true;
    reinvocation.last_output =
        (!reinvocation.previously_invoked.is_empty()).then(|| object.clone());
    let Some(first) = failures.first() else { return Ok(changed) };
    let mut status = Status::forbidden(
        &attributes.scope.group_resource(),
        denied_name(attributes, Some(object)),
        "",
    );
    status.message.clone_from(&first.message);
    status.reason = first.reason;
    let cause = |it: Denial| Cause { message: it.message, ..Cause::default() };
    let causes = failures.into_iter().map(cause);
    status.details.get_or_insert_default().causes.extend(causes);
    Err(status)
}

/// Applies one policy to the object, unless it need not be repeated in the second round.
async fn invoke(
    invocation: &ReadyInvocation<'_>,
    attributes: &Attributes<'_>,
    object: &mut Object,
    reinvocation: &mut PolicyReinvokeContext,
    failures: &mut Vec<Denial>,
) -> Result<bool, Status> {
    let policy_spec = &invocation.policy.spec;
    let versioned = VersionedAttributes::new(attributes, &invocation.matched).await?;
    let binding = Some(invocation.binding);
    let mut fail = |why: &str| failures.extend(failure(policy_spec, binding, why, Reason::Invalid));
    let params = invocation.params.as_ref();
    let versioned_object = versioned.object(attributes, object).await?;
    match policy_spec.matches_conditions(&versioned.evaluation(
        attributes,
        policy_spec,
        Some(&versioned_object),
        params,
    )) {
        Ok(true) => {}
        Ok(false) => return Ok(false),
        Err(why) => {
            fail(&why);
            return Ok(false);
        }
    }
    let key = invocation.key();
    if reinvocation.is_reinvoke && !reinvocation.to_reinvoke.contains(&key) {
        return Ok(false);
    }
    let scope = attributes.scope;
    let served = &scope.served;
    let mut changed = false;
    for mutation in &invocation.policy.mutations {
        let versioned_object = versioned.object(attributes, object).await?;
        let mutated = {
            let evaluation =
                versioned.evaluation(attributes, policy_spec, Some(&versioned_object), params);
            let target = match &attributes.kind {
                Some(kind) => PatchTarget::Subresource(kind),
                None => PatchTarget::Resource(served, invocation.matched.version),
            };
            mutation.apply(&evaluation, &target, &versioned_object)
        };
        match mutated {
            Ok(mutated) => {
                let mutated = if attributes.kind.is_some() {
                    mutated
                } else {
                    let memory_version = conversion::memory_version(scope);
                    let mutated = conversion::object(scope, memory_version, mutated).await?;
                    shape::to_memory_version(scope, mutated)
                };
                changed |= mutated != *object;
                *object = mutated;
            }
            Err(MutationError::Policy(why)) => fail(&why),
            Err(MutationError::Request(status)) => return Err(status),
        }
    }
    if changed {
        reinvocation.require_reinvocation();
    }
    if invocation.policy.reinvoke_if_needed {
        reinvocation.previously_invoked.insert(key);
    }
    Ok(changed)
}

/// The denial for a failed policy; None if its failure policy is `Ignore`.
fn failure(
    policy_spec: &PolicySpec,
    binding: Option<&Binding>,
    why: &str,
    reason: Reason,
) -> Option<Denial> {
    if policy_spec.failure_policy == FailurePolicy::Ignore {
        return None;
    }
    let policy = &policy_spec.name;
    let message = match binding {
        Some(binding) => {
            format!("policy '{policy}' with binding '{}' denied request: {why}", binding.name)
        }
        None => format!("policy {} denied request: {why}", quote(policy)),
    };
    Some(Denial { message, reason })
}
