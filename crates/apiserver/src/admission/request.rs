//! The request as webhooks and expressions see it: the `AdmissionRequest` of an `AdmissionReview`,
//! without the objects.

use super::matching::{self, Matched};
use super::{Attempt, Operation};
use crate::context::Cx;
use crate::conversion;
use crate::options::{DeleteOptions, Propagation};
use machinery::{Map, Object, Status, Value, json};

/// What is asked for; `matched` says in which version the webhook or policy knows the resource.
pub(crate) fn of(attempt: &Attempt<'_>, matched: &Matched) -> Map<String, Value> {
    let cx = attempt.cx;
    let mut request = Map::new();
    // Only a review gives it one.
    request.insert("uid".to_owned(), "".into());
    let mut set = |field: &str, value: Value| {
        if value != "" {
            request.insert(field.to_owned(), value);
        }
    };
    set("kind", kind(attempt, matched.version));
    set("resource", resource(cx, matched.version));
    set("subResource", matched.subresource.as_str().into());
    set("requestKind", kind(attempt, cx.version));
    set("requestResource", resource(cx, cx.version));
    set("requestSubResource", cx.target.subresource.as_str().into());
    set("name", name(attempt).into());
    set("namespace", matching::namespace(attempt).into());
    set("operation", attempt.operation.as_str().into());
    set("userInfo", cx.user.to_info());
    set("dryRun", attempt.dry_run.into());
    set("options", options(attempt));
    request
}

fn kind(attempt: &Attempt<'_>, version: usize) -> Value {
    if let Some(kind) = &attempt.kind {
        return json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    }
    let resource = attempt.cx.resource();
    let version = &resource.versions[version];
    json!({"group": resource.group_of(version), "version": version.name, "kind": resource.kind})
}

fn resource(cx: &Cx, version: usize) -> Value {
    let resource = cx.resource();
    let version = &resource.versions[version];
    let group = resource.group_of(version);
    json!({"group": group, "version": version.name, "resource": resource.plural})
}

/// Upstream: the deletion of a collection names nobody, whomever it comes to.
fn name<'a>(attempt: &'a Attempt<'_>) -> &'a str {
    match attempt.operation {
        Operation::Delete => &attempt.cx.target.name,
        _ => &attempt.name,
    }
}

/// With which options, in the form in which clients send them. Those of a patch are shown as those
/// of what it comes to.
fn options(attempt: &Attempt<'_>) -> Value {
    let kind = match (attempt.operation, attempt.deletion) {
        (Operation::Connect, _) => return Value::Null,
        (_, Some(deletion)) => return delete_options(deletion),
        (Operation::Create, None) => "CreateOptions",
        (Operation::Update, None) => "UpdateOptions",
        (Operation::Delete, None) => "DeleteOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    for field in ["fieldManager", "fieldValidation"] {
        let text = attempt.cx.query.text(field);
        if !text.is_empty() {
            options[field] = text.into();
        }
    }
    if attempt.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    options
}

fn delete_options(deletion: &DeleteOptions) -> Value {
    let mut options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    if let Some(seconds) = deletion.grace_period {
        options["gracePeriodSeconds"] = seconds.into();
    }
    for (field, value) in [("uid", &deletion.uid), ("resourceVersion", &deletion.resource_version)]
    {
        if let Some(value) = value {
            options["preconditions"][field] = value.as_str().into();
        }
    }
    if let Some(propagation) = deletion.propagation {
        options["propagationPolicy"] = match propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
        .into();
    }
    if deletion.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    options
}

/// The object in the version that was matched, or null if there is none.
pub(crate) async fn shown(
    attempt: &Attempt<'_>,
    matched: &Matched,
    object: Option<&Object>,
) -> Result<Value, Status> {
    let Some(object) = object.cloned() else { return Ok(Value::Null) };
    if attempt.kind.is_some() {
        return Ok(object.into_value());
    }
    let cx = attempt.cx;
    let shown = conversion::object(&cx.plane, &cx.served, matched.version, object).await?;
    Ok(shown.into_value())
}
