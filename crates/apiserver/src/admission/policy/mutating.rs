//! Policies that change what is to be stored.
//!
//! A policy that is `IfNeeded` is asked once more if something was changed after it. That is known
//! only when all who change things have had their turn, so they are asked in rounds:
//!
//! ```text
//! first round    a (IfNeeded)  b (Never)  c changes the object     a may have missed something
//! second round   a
//! ```

use super::definition::{self, Binding, Bindings, Definition, Failure, Invocation, Seen};
use super::patch::{Error, Mutation, Target};
use super::{Refusal, refusal_name};
use crate::admission::Attributes;
use crate::admission::matching::Matched;
use crate::cache::watch_cache::Snapshot;
use crate::registry::conversion;
use crate::registry::shape;
use machinery::field_path::quote;
use machinery::status::Cause;
use machinery::{Object, Reason, Status, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A policy, compiled.
pub(super) struct Policy {
    definition: Definition,
    mutations: Vec<Mutation>,
    /// Whether it is asked again when others changed something after it.
    again: bool,
}

/// Policies by their names.
pub(super) type Policies = BTreeMap<String, Arc<Policy>>;

/// All policies.
pub(super) fn compile(snapshot: &Snapshot) -> Policies {
    definition::by_name(snapshot, Policy::of)
}

impl Policy {
    fn of(object: &Object) -> Self {
        let (definition, compiler) = Definition::of(object);
        let mutations = object.get(&["spec", "mutations"]).and_then(Value::as_array);
        let mutations = mutations.into_iter().flatten().map(|it| Mutation::of(it, &compiler));
        Self {
            mutations: mutations.collect(),
            again: object.str_at(&["spec", "reinvocationPolicy"]) == "IfNeeded",
            definition,
        }
    }
}

/// Policy, binding and parameter (its namespace and name).
type Key = (String, String, String, String);

/// What is remembered from the first round to the second.
#[derive(Default)]
pub(crate) struct Rounds {
    is_second: bool,
    /// Those that may be asked again, as long as nothing was changed after them.
    asked: BTreeSet<Key>,
    /// Those that are to be asked again.
    missed_something: BTreeSet<Key>,
    /// What the first round left, if that matters to anybody.
    left: Option<Object>,
}

impl Rounds {
    fn something_changed(&mut self) {
        self.missed_something.append(&mut self.asked);
    }
}

/// A policy's turn.
struct Turn<'a> {
    policy: &'a Policy,
    binding: &'a Binding,
    matched: Matched,
    params: Option<Object>,
}

impl Turn<'_> {
    fn key(&self) -> Key {
        let params = |part: fn(&Object) -> &str| {
            self.params.as_ref().map(part).unwrap_or_default().to_owned()
        };
        (
            self.policy.definition.name.clone(),
            self.binding.name.clone(),
            params(Object::namespace),
            params(Object::name),
        )
    }
}

/// One round: asks all policies. Tells whether something was changed.
pub(super) async fn round(
    policies: &Policies,
    bindings: &Bindings,
    attributes: &Attributes<'_>,
    object: &mut Object,
    rounds: &mut Rounds,
) -> Result<bool, Status> {
    let mut failures: Vec<Refusal> = Vec::new();
    // Who is asked is settled before anything changes.
    let mut turns = Vec::new();
    for (name, bindings) in bindings {
        let Some(policy) = policies.get(name) else { continue };
        let definition = &policy.definition;
        for invocation in definition.invocations(bindings, attributes, Some(object)).await {
            match invocation {
                Invocation::Ready { binding, matched, params } => {
                    turns.push(Turn { policy, binding, matched, params });
                }
                Invocation::Misconfigured { binding, why } => {
                    failures.extend(failure(definition, binding, &why, Reason::Forbidden));
                }
            }
        }
    }
    if rounds.is_second && rounds.left.as_ref().is_some_and(|left| left != object) {
        rounds.something_changed();
    }
    let mut changed = false;
    for turn in &turns {
        changed |= take(turn, attributes, object, rounds, &mut failures).await?;
    }
    // Upstream: at the end of a round a change counts as one that nobody has seen yet, not even
    // those who made it.
    if changed {
        rounds.something_changed();
    }
    rounds.is_second = true;
    rounds.left = (!rounds.asked.is_empty()).then(|| object.clone());
    let Some(first) = failures.first() else { return Ok(changed) };
    let mut status =
        Status::forbidden(&attributes.scope.what(), refusal_name(attributes, Some(object)), "");
    status.message.clone_from(&first.message);
    status.reason = first.reason;
    let cause = |it: Refusal| Cause { message: it.message, ..Cause::default() };
    let causes = failures.into_iter().map(cause);
    status.details.get_or_insert_default().causes.extend(causes);
    Err(status)
}

/// Lets one policy change the object, if it is its turn.
async fn take(
    turn: &Turn<'_>,
    attributes: &Attributes<'_>,
    object: &mut Object,
    rounds: &mut Rounds,
    failures: &mut Vec<Refusal>,
) -> Result<bool, Status> {
    let definition = &turn.policy.definition;
    let seen = Seen::new(attributes, &turn.matched).await?;
    let binding = Some(turn.binding);
    let mut fail = |why: &str| failures.extend(failure(definition, binding, why, Reason::Invalid));
    let params = turn.params.as_ref();
    let shown = seen.object(attributes, object).await?;
    match definition.holds(&seen.evaluation(attributes, definition, Some(&shown), params)) {
        Ok(true) => {}
        Ok(false) => return Ok(false),
        Err(why) => {
            fail(&why);
            return Ok(false);
        }
    }
    let key = turn.key();
    if rounds.is_second && !rounds.missed_something.contains(&key) {
        return Ok(false);
    }
    let scope = attributes.scope;
    let served = &scope.served;
    let mut changed = false;
    for mutation in &turn.policy.mutations {
        let shown = seen.object(attributes, object).await?;
        let made = {
            let evaluation = seen.evaluation(attributes, definition, Some(&shown), params);
            let target = match &attributes.kind {
                Some(kind) => Target::Sent(kind),
                None => Target::Stored(served, turn.matched.version),
            };
            mutation.apply(&evaluation, &target, &shown)
        };
        match made {
            Ok(made) => {
                let made = if attributes.kind.is_some() {
                    made
                } else {
                    let working = conversion::working_version(scope);
                    let made = conversion::object(scope, working, made).await?;
                    shape::working(scope, made)
                };
                changed |= made != *object;
                *object = made;
            }
            Err(Error::Policy(why)) => fail(&why),
            Err(Error::Request(status)) => return Err(status),
        }
    }
    if changed {
        rounds.something_changed();
    }
    if turn.policy.again {
        rounds.asked.insert(key);
    }
    Ok(changed)
}

/// What the client is told of a failure, unless it is to be ignored.
fn failure(
    definition: &Definition,
    binding: Option<&Binding>,
    why: &str,
    reason: Reason,
) -> Option<Refusal> {
    if definition.failure == Failure::Ignore {
        return None;
    }
    let policy = &definition.name;
    let message = match binding {
        Some(binding) => {
            format!("policy '{policy}' with binding '{}' denied request: {why}", binding.name)
        }
        None => format!("policy {} denied request: {why}", quote(policy)),
    };
    Some(Refusal { message, reason })
}
