//! The request as webhooks and expressions see it: the `AdmissionRequest` of an `AdmissionReview`,
//! without the objects.

use super::matching::{self, MatchedResource};
use super::{Attributes, Operation, OperationOptions};
use crate::registry::conversion;
use crate::registry::scope::RequestScope;
use crate::request::options::{DeleteOptions, DeletionPropagation};
use machinery::{Map, Object, Status, Value, json};

/// Builds the request. `matched` has the version in which the webhook or policy matches the
/// resource.
pub(crate) fn build(attributes: &Attributes<'_>, matched: &MatchedResource) -> Map<String, Value> {
    let scope = attributes.scope;
    let mut request = Map::new();
    // The uid is set when a review is sent.
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
    set("namespace", matching::request_namespace(attributes).into());
    set("operation", attributes.operation.as_str().into());
    set("userInfo", scope.user.to_info());
    set("dryRun", attributes.options.is_dry_run().into());
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

/// Upstream: the deletion of a collection has no name, whichever object it deletes.
fn name<'a>(attributes: &'a Attributes<'_>) -> &'a str {
    match attributes.operation {
        Operation::Delete => &attributes.scope.path.name,
        _ => &attributes.name,
    }
}

/// The options of the request in the form in which clients send them. A patch has the options of
/// the create or update that it results in.
fn options(attributes: &Attributes<'_>) -> Value {
    let sent = match attributes.options {
        OperationOptions::None => return Value::Null,
        OperationOptions::Delete(deletion) => return delete_options(deletion),
        OperationOptions::Write(sent) => sent,
    };
    let is_update = attributes.operation == Operation::Update;
    let kind = if is_update { "UpdateOptions" } else { "CreateOptions" };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if !sent.field_manager.is_empty() {
        options["fieldManager"] = sent.field_manager.as_str().into();
    }
    if let Some(validation) = sent.field_validation {
        options["fieldValidation"] = validation.as_str().into();
    }
    if sent.dry_run {
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

/// The object in the matched version, or null if `object` is None.
pub(crate) async fn versioned_object(
    attributes: &Attributes<'_>,
    matched: &MatchedResource,
    object: Option<&Object>,
) -> Result<Value, Status> {
    let Some(object) = object.cloned() else { return Ok(Value::Null) };
    if attributes.kind.is_some() {
        return Ok(object.into_value());
    }
    let scope = attributes.scope;
    let versioned = conversion::object(scope, matched.version, object).await?;
    Ok(versioned.into_value())
}
