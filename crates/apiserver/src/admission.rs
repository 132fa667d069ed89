//! Admission: what else is changed in or held against an object before it is stored, in
//! Kubernetes' order. Mutating plugins run before validation, judging ones after it; policies, and
//! then webhooks, stand at the end of each half.

mod matching;
mod namespace_lifecycle;
mod pod_defaults;
mod policy;
mod request;
mod scaled;
mod service_address;
mod webhook;

pub(crate) use namespace_lifecycle::IMMORTAL;
pub(crate) use policy::{Policies, validate as validate_expressions};
pub use service_address::BadCidr;
pub(crate) use service_address::{Allocations, Claim};
pub(crate) use webhook::{WebhookMetrics, Webhooks, validate_conditions};

use crate::context::Cx;
use crate::options::DeleteOptions;
use crate::request::Verb;
use machinery::{GroupVersionKind, Object, Status};
use webhook::Rounds;

/// What is being done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// It is new.
    Create,
    /// It changes.
    Update,
    /// It goes.
    Delete,
    /// Somebody wants a connection to what it stands for.
    Connect,
}

impl Operation {
    /// As rules and reviews spell it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// What somebody is about to do, as far as admission looks at it. Objects are in the version
/// that verbs work in: that of the request for custom kinds, the hub for the others.
pub(crate) struct Attempt<'a> {
    /// The request.
    pub cx: &'a Cx,
    /// What it does.
    pub operation: Operation,
    /// Of the object; "" where it will be generated.
    pub name: String,
    /// The object's; the request may be about several.
    pub namespace: &'a str,
    /// The object before; None if it is new.
    pub old: Option<&'a Object>,
    /// The kind of what is sent to a subresource, where it is not the resource's own: Scale,
    /// Binding, `PodExecOptions`. Such objects have one version only.
    pub kind: Option<GroupVersionKind>,
    /// Nothing will be stored.
    pub dry_run: bool,
    /// With what a deletion was asked for.
    pub deletion: Option<&'a DeleteOptions>,
}

impl<'a> Attempt<'a> {
    fn new(cx: &'a Cx, operation: Operation, name: &str, dry_run: bool) -> Self {
        let (name, namespace) = (name.to_owned(), cx.namespace());
        Self { cx, operation, name, namespace, old: None, kind: None, dry_run, deletion: None }
    }

    /// To create `object`.
    pub(crate) fn create(cx: &'a Cx, object: &Object, dry_run: bool) -> Self {
        Self::new(cx, Operation::Create, object.name(), dry_run)
    }

    /// To change `old`.
    pub(crate) fn update(cx: &'a Cx, old: &'a Object, dry_run: bool) -> Self {
        Self { old: Some(old), ..Self::new(cx, Operation::Update, old.name(), dry_run) }
    }

    /// To delete `old`.
    pub(crate) fn delete(cx: &'a Cx, old: &'a Object, options: &'a DeleteOptions) -> Self {
        Self {
            namespace: old.namespace(),
            old: Some(old),
            deletion: Some(options),
            ..Self::new(cx, Operation::Delete, old.name(), options.dry_run)
        }
    }

    /// To send something of another kind to a subresource of the named object.
    pub(crate) fn below(
        cx: &'a Cx,
        operation: Operation,
        kind: GroupVersionKind,
        dry_run: bool,
    ) -> Self {
        Self { kind: Some(kind), ..Self::new(cx, operation, &cx.target.name, dry_run) }
    }

    /// Whether it is what the server itself does with something that was posted to a subresource,
    /// and was admitted as such.
    fn follows_from_a_post(&self) -> bool {
        self.operation == Operation::Update && self.cx.verb == Verb::Create
    }
}

/// Changes the object, or refuses it before anybody looks at it closely.
pub(crate) async fn mutate(attempt: &Attempt<'_>, object: &mut Object) -> Result<(), Status> {
    if attempt.follows_from_a_post() {
        return Ok(());
    }
    let Some(scale) = scaled::scale(attempt) else { return change(attempt, object).await };
    let old = attempt.old.map(|it| scaled::of(attempt, scale, it)).transpose()?;
    let mut shown = scaled::of(attempt, scale, object)?;
    change(&scaled::attempt(attempt, old.as_ref()), &mut shown).await?;
    scaled::put_back(scale, &shown, object);
    Ok(())
}

/// Judges what is about to be stored, or, if `object` is None, removed.
pub(crate) async fn judge(attempt: &Attempt<'_>, object: Option<&Object>) -> Result<(), Status> {
    if attempt.follows_from_a_post() {
        return Ok(());
    }
    if object.is_none() {
        namespace_lifecycle::delete(attempt)?;
        // Those who change objects may also have something against the deletion of one.
        webhook::mutate(attempt, None, &mut Rounds::default()).await?;
    }
    let Some((scale, object)) = scaled::scale(attempt).zip(object) else {
        return verdict(attempt, object).await;
    };
    let old = attempt.old.map(|it| scaled::of(attempt, scale, it)).transpose()?;
    let shown = scaled::of(attempt, scale, object)?;
    verdict(&scaled::attempt(attempt, old.as_ref()), Some(&shown)).await
}

/// What those say who cannot change the object any more.
async fn verdict(attempt: &Attempt<'_>, object: Option<&Object>) -> Result<(), Status> {
    policy::judge(attempt, object).await?;
    webhook::judge(attempt, object).await
}

/// Changes and judges what was sent to a subresource and is of a kind of its own.
pub(crate) async fn admit_below(attempt: &Attempt<'_>, object: &mut Object) -> Result<(), Status> {
    change(attempt, object).await?;
    verdict(attempt, Some(object)).await
}

/// Whether something may be made in the namespace of the request.
pub(crate) fn judge_namespace(cx: &Cx, object: &Object) -> Result<(), Status> {
    namespace_lifecycle::create(cx, object)
}

/// Lets everybody change the object who may; if a policy or a webhook did, a second time, since the
/// others have not seen what it made of the object.
async fn change(attempt: &Attempt<'_>, object: &mut Object) -> Result<(), Status> {
    let mut policies = policy::Rounds::default();
    let mut webhooks = Rounds::default();
    plugins(attempt, object)?;
    let by_policy = policy::mutate(attempt, object, &mut policies).await?;
    webhook::mutate(attempt, Some(object), &mut webhooks).await?;
    if webhooks.again(object, by_policy) {
        plugins(attempt, object)?;
        policy::mutate(attempt, object, &mut policies).await?;
        webhooks.look_again(object);
        webhook::mutate(attempt, Some(object), &mut webhooks).await?;
    }
    Ok(())
}

/// What the server itself adds to an object or has against it.
fn plugins(attempt: &Attempt<'_>, object: &mut Object) -> Result<(), Status> {
    let cx = attempt.cx;
    if attempt.operation == Operation::Create && attempt.kind.is_none() {
        namespace_lifecycle::create(cx, object)?;
        pod_defaults::create(cx, object)?;
    }
    Ok(())
}
