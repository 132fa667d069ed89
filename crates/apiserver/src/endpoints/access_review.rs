//! Access reviews: the decision of the authorizers on the attributes that a review has.

mod selector_attributes;

use crate::auth::authentication::User;
use crate::auth::authorization::{Attributes, Authorizers, Decision, ResourceAttributes};
use machinery::{ErrorList, GroupKind, Object, Path, Status, Value, json};

/// The user whose access is reviewed.
pub(super) fn reviewed_user(review: &Object) -> User {
    let texts = |value: Option<&Value>| -> Vec<String> {
        let items = value.and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
    };
    let extra = review.get(&["spec", "extra"]).and_then(Value::as_object).into_iter().flatten();
    User {
        name: review.str_at(&["spec", "user"]).to_owned(),
        uid: review.str_at(&["spec", "uid"]).to_owned(),
        groups: texts(review.get(&["spec", "groups"])),
        extra: extra.map(|(key, values)| (key.clone(), texts(Some(values)))).collect(),
        ..User::default()
    }
}

/// `nonResourceAttributes` in an error, with Go's field names.
fn go_non_resource_attributes(attributes: Option<&Value>) -> Value {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    attributes.map_or(Value::Null, |it| json!({"Path": text(it, "path"), "Verb": text(it, "verb")}))
}

/// The attributes of this field, if the review has them.
fn attributes<'a>(review: &'a Object, field: &str) -> Option<&'a Value> {
    review.get(&["spec", field]).filter(|it| it.is_object())
}

/// Validates a review of the access of `user`.
fn validate(review: &Object, user: &User, review_namespace: &str, errors: &mut ErrorList) {
    let spec = Path::root("spec");
    let resource = attributes(review, "resourceAttributes");
    let non_resource = attributes(review, "nonResourceAttributes");
    if resource.is_some() == non_resource.is_some() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.invalid(&spec, go_non_resource_attributes(non_resource), detail);
    }
    if user.name.is_empty() && user.groups.is_empty() {
        let detail = "at least one of user or group must be specified";
        errors.invalid(&spec.child("user"), "", detail);
    }
    if let Some(resource) = resource {
        selector_attributes::validate(resource, errors);
    }
    let metadata = review.metadata().into_iter().flatten();
    if metadata.map(|(key, _)| key).any(|key| key != "managedFields" && key != "namespace") {
        let exception = if review_namespace.is_empty() { "" } else { " except for namespace" };
        let metadata = review.metadata().cloned().unwrap_or_default();
        errors.invalid(&Path::root("metadata"), metadata, &format!("must be empty{exception}"));
    }
    if !review_namespace.is_empty() {
        let found = review.str_at(&["spec", "resourceAttributes", "namespace"]);
        let place = spec.child("resourceAttributes");
        if resource.is_some() && found != review_namespace {
            errors.invalid(&place.child("namespace"), found, "must match metadata.namespace");
        }
        if non_resource.is_some() {
            let detail = "disallowed on this kind of request";
            errors.invalid(
                &spec.child("nonResourceAttributes"),
                go_non_resource_attributes(non_resource),
                detail,
            );
        }
    }
}

/// The status of an access review for `user`. A review in a namespace is restricted to that
/// namespace.
pub(super) async fn review(
    authorizers: &Authorizers,
    review: &Object,
    user: &User,
    review_namespace: &str,
) -> Result<Value, Status> {
    let mut errors = ErrorList::new();
    validate(review, user, review_namespace, &mut errors);
    if !errors.is_empty() {
        // Upstream: the error has no kind.
        let group = GroupKind::new("authorization.k8s.io", "");
        return Err(Status::invalid(&group, "", &errors));
    }
    let resource = attributes(review, "resourceAttributes");
    let non_resource = attributes(review, "nonResourceAttributes");
    let text = |from: Option<&Value>, key: &str| {
        from.and_then(|it| it.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (verb, path) = (text(resource.or(non_resource), "verb"), text(non_resource, "path"));
    let fields = ["group", "version", "resource", "subresource", "namespace", "name"];
    let [group, version, plural, subresource, namespace, name] =
        fields.map(|it| text(resource, it));
    // Upstream: an empty version stands for all versions.
    let version = if version.is_empty() { "*".to_owned() } else { version };
    let selectors = resource.and_then(selector_attributes::requirements);
    let reviewed = Attributes {
        user,
        verb: &verb,
        resource: resource.map(|_| ResourceAttributes {
            group: &group,
            version: &version,
            resource: &plural,
            subresource: &subresource,
            namespace: &namespace,
            name: &name,
            selectors: selectors.as_ref(),
        }),
        path: &path,
    };
    let decision = authorizers.decide(&reviewed).await;
    let mut status = json!({"allowed": decision.is_allowed()});
    if matches!(decision, Decision::Deny { .. }) {
        status["denied"] = true.into();
    }
    if !decision.reason().is_empty() {
        status["reason"] = decision.reason().into();
    }
    let mut evaluation_errors: Vec<String> =
        decision.evaluation_error().map(ToOwned::to_owned).into_iter().collect();
    evaluation_errors.extend(resource.into_iter().flat_map(selector_attributes::parse_errors));
    if !evaluation_errors.is_empty() {
        status["evaluationError"] = evaluation_errors.join("; ").into();
    }
    Ok(status)
}
