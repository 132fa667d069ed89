//! Admission webhooks: others who change or judge what is to be stored, over the network.
//!
//! Those who change objects are asked one after the other, by the name of their configuration and
//! their place in it, and each sees what the ones before it have made of the object. Those who
//! judge are asked all at once. No lock is held and no seat taken while the server waits for them,
//! so they may ask it whatever they like.

mod call;
mod conditions;
mod hook;
mod invocation;
mod metrics;
mod patch;
mod review;
mod rounds;

pub(crate) use conditions::validate as validate_configuration;
pub(crate) use metrics::WebhookMetrics;
pub(super) use rounds::Rounds;

use super::Attributes;
use crate::cache::snapshot_value::SnapshotValue;
use crate::cache::watch_cache::Snapshot;
use call::Fault;
use futures_util::future::join_all;
use hook::Hook;
use invocation::Invocation;
use machinery::{Object, Status};
use metrics::{Asked, Kind, Rejection};
use tokio::time::Instant;

const GROUP: &str = "admissionregistration.k8s.io";

/// The webhooks of a plane, by what they do.
pub(crate) struct Webhooks {
    mutating: SnapshotValue<Vec<Hook>>,
    validating: SnapshotValue<Vec<Hook>>,
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            mutating: SnapshotValue::new(GROUP, "mutatingwebhookconfigurations", hooks),
            validating: SnapshotValue::new(GROUP, "validatingwebhookconfigurations", hooks),
        }
    }
}

/// All webhooks in the order in which they are asked: keys are in the order of names.
fn hooks(snapshot: &Snapshot) -> Vec<Hook> {
    snapshot.entries.values().flat_map(|it| Hook::all_of(&it.object_as_stored())).collect()
}

/// Lets webhooks change the object; if there is none, since it is to be removed, they can only
/// refuse.
pub(super) async fn mutate(
    attributes: &Attributes<'_>,
    object: Option<&mut Object>,
    rounds: &mut Rounds,
) -> Result<(), Status> {
    let scope = attributes.scope;
    let hooks = rounds.hooks(|| attributes.admission.webhooks.mutating.current(&scope.storage));
    if hooks.is_empty() {
        return Ok(());
    }
    // In a box: requests that no webhook sees need not have room for it.
    Box::pin(mutate_by(&hooks, attributes, object, rounds)).await
}

async fn mutate_by(
    hooks: &[Hook],
    attributes: &Attributes<'_>,
    mut object: Option<&mut Object>,
    rounds: &mut Rounds,
) -> Result<(), Status> {
    let scope = attributes.scope;
    let mut loan = None;
    for (index, hook) in hooks.iter().enumerate() {
        let Some(invocation) = Invocation::of(hook, attributes, object.as_deref()).await? else {
            continue;
        };
        if !rounds.is_due(index) {
            continue;
        }
        loan.get_or_insert_with(|| scope.seat.lend());
        let started = Instant::now();
        let answered = match call::ask(hook, attributes, &invocation, Kind::Mutating).await {
            Ok(verdict) => patch::apply(hook, attributes, invocation, verdict).await,
            Err(fault) => Err(fault),
        };
        let changed = settle(hook, attributes, Kind::Mutating, started, answered)?.flatten();
        rounds.asked(index, hook.reinvoked, changed.is_some());
        if let Some((object, changed)) = object.as_deref_mut().zip(changed) {
            *object = changed;
        }
    }
    Ok(())
}

/// Asks webhooks whether the object may be stored, or, if there is none, be removed.
pub(super) async fn validate(
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Result<(), Status> {
    let scope = attributes.scope;
    let hooks = attributes.admission.webhooks.validating.current(&scope.storage);
    if hooks.is_empty() {
        return Ok(());
    }
    Box::pin(validate_by(&hooks, attributes, object)).await
}

async fn validate_by(
    hooks: &[Hook],
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Result<(), Status> {
    let scope = attributes.scope;
    let mut asked = Vec::new();
    for hook in hooks {
        let Some(invocation) = Invocation::of(hook, attributes, object).await? else { continue };
        asked.push(async move {
            let started = Instant::now();
            let answered = call::ask(hook, attributes, &invocation, Kind::Validating).await;
            settle(hook, attributes, Kind::Validating, started, answered).map(|_| ())
        });
    }
    if asked.is_empty() {
        return Ok(());
    }
    let _loan = scope.seat.lend();
    // Upstream: all are heard, though the first refusal would do.
    join_all(asked).await.into_iter().collect()
}

/// Counts what came of asking, and decides what it means: None if the webhook did not answer and
/// need not.
fn settle<T>(
    hook: &Hook,
    attributes: &Attributes<'_>,
    kind: Kind,
    started: Instant,
    answered: Result<T, Fault>,
) -> Result<Option<T>, Status> {
    let metrics = &attributes.admission.webhook_metrics;
    let (name, operation) = (hook.name.as_str(), attributes.operation.as_str());
    let asked = Asked { name, kind, operation, took: started.elapsed() };
    let reject = |why: Rejection, code: u16| metrics.observe(&asked, Some(why), code);
    match answered {
        Ok(answer) => {
            metrics.observe(&asked, None, 200);
            Ok(Some(answer))
        }
        Err(Fault::Calling(error)) if hook.fails_open => {
            let configuration = &hook.configuration;
            tracing::warn!(webhook = name, configuration, %error, "a webhook failed and is ignored");
            metrics.fail_open(name, kind);
            metrics.observe(&asked, None, error.code());
            Ok(None)
        }
        Err(Fault::Calling(error)) => {
            let configuration = &hook.configuration;
            tracing::warn!(webhook = name, configuration, %error, "a webhook failed");
            reject(Rejection::NotAsked, error.code());
            Err(Status::internal(format!("failed calling webhook {name:?}: {error}")))
        }
        Err(Fault::Refused(status)) => {
            reject(Rejection::Refused, status.code);
            Err(*status)
        }
        Err(Fault::Ours(status)) => {
            reject(Rejection::NotUnderstood, 0);
            Err(*status)
        }
    }
}
