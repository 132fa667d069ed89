//! The request as webhooks and expressions see it: the `AdmissionRequest` of an `AdmissionReview`,
//! without the objects.

use super::matching::{self, Matched};
use super::{Attributes, Operation};
use crate::registry::conversion;
use crate::registry::scope::RequestScope;
use crate::request::options::{DeleteOptions, DeletionPropagation};
use machinery::{Map, Object, Status, Value, json};

/// What is asked for; `matched` says in which version the webhook or policy knows the resource.
pub(crate) fn of(attributes: &Attributes<'_>, matched: &Matched) -> Map<String, Value> {
    let scope = attributes.scope;
    let mut request = Map::new();
    // Only a review gives it one.
    request.insert("uid".to_owned(), "".into());
    let mut set = |field: &str, value: Value| {
        if value != "" {
            request.insert(field.to_owned(), value);
        }
    };
    set("kind", kind(attributes, matched.version));
    set("resource", resource(scope, matched.version));
    set("subResource", matched.subresource.as_str().into());
    set("requestKind", kind(attributes, scope.version));
    set("requestResource", resource(scope, scope.version));
    set("requestSubResource", scope.path.subresource.as_str().into());
    set("name", name(attributes).into());
    set("namespace", matching::namespace(attributes).into());
    set("operation", attributes.operation.as_str().into());
    set("userInfo", scope.user.to_info());
    set("dryRun", attributes.dry_run.into());
    set("options", options(attributes));
    request
}

fn kind(attributes: &Attributes<'_>, version: usize) -> Value {
    if let Some(kind) = &attributes.kind {
        return json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    }
    let resource = attributes.scope.resource();
    let version = &resource.versions[version];
    json!({"group": resource.group_of(version), "version": version.name, "kind": resource.kind})
}

fn resource(scope: &RequestScope, version: usize) -> Value {
    let resource = scope.resource();
    let version = &resource.versions[version];
    let group = resource.group_of(version);
    json!({"group": group, "version": version.name, "resource": resource.plural})
}

/// Upstream: the deletion of a collection names nobody, whomever it comes to.
fn name<'a>(attributes: &'a Attributes<'_>) -> &'a str {
    match attributes.operation {
        Operation::Delete => &attributes.scope.path.name,
        _ => &attributes.name,
    }
}

/// With which options, in the form in which clients send them. Those of a patch are shown as those
/// of what it comes to.
fn options(attributes: &Attributes<'_>) -> Value {
    let kind = match (attributes.operation, attributes.deletion) {
        (Operation::Connect, _) => return Value::Null,
        (_, Some(deletion)) => return delete_options(deletion),
        (Operation::Create, None) => "CreateOptions",
        (Operation::Update, None) => "UpdateOptions",
        (Operation::Delete, None) => "DeleteOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    for field in ["fieldManager", "fieldValidation"] {
        let text = attributes.scope.query.text(field);
        if !text.is_empty() {
            options[field] = text.into();
        }
    }
    if attributes.dry_run {
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
            DeletionPropagation::Background => "Background",
            DeletionPropagation::Foreground => "Foreground",
            DeletionPropagation::Orphan => "Orphan",
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
    attributes: &Attributes<'_>,
    matched: &Matched,
    object: Option<&Object>,
) -> Result<Value, Status> {
    let Some(object) = object.cloned() else { return Ok(Value::Null) };
    if attributes.kind.is_some() {
        return Ok(object.into_value());
    }
    let scope = attributes.scope;
    let shown = conversion::object(scope, matched.version, object).await?;
    Ok(shown.into_value())
}
