//! Kinds that are not stored: token, subject, access and rules reviews, bindings, component
//! statuses.

use http::Response;

use super::{binding, component_status};
use crate::auth::authentication::User;
use crate::auth::authentication::service_account::{ISSUER, TokenError};
use crate::auth::authorization::{Attributes, Authorizers, Decision, ResourceAttributes};
use crate::endpoints::context::RequestContext;
use crate::endpoints::decode;
use crate::endpoints::object_response;
use crate::http::body::Body;
use crate::registry::field_manager;
use crate::request::options::WriteOptions;
use machinery::field_path::quote;
use machinery::{ErrorList, GroupKind, Object, Path, Status, Value, json};
use types::resource::UnstoredKind;

/// Serves a request for an unstored kind.
pub(crate) async fn serve(
    cx: &RequestContext,
    body: &[u8],
    kind: UnstoredKind,
) -> Result<Response<Body>, Status> {
    if kind == UnstoredKind::ComponentStatus {
        return component_status::serve(cx).await;
    }
    let options = WriteOptions::parse(&cx.query, "CreateOptions")?;
    let mut object = decode::object(cx, body, options.field_validation())?;
    super::create::check_namespace(cx, &object)?;
    for field in ["namespace", "uid", "creationTimestamp", "deletionTimestamp", "selfLink"] {
        object.remove_meta(field);
    }
    if !cx.scope.namespace().is_empty() {
        object.set_meta("namespace", cx.scope.namespace());
    }
    field_manager::track(&cx.scope, None, &mut object).await;
    // Upstream: reviews are exempt from admission policies and webhooks, since a faulty one could
    // disable the cluster.
    let status = match kind {
        UnstoredKind::TokenReview => review_token(cx, &object).await?,
        UnstoredKind::SelfSubjectReview => {
            // Upstream: the response to this review, and to a rules review, does not contain the
            // request.
            object.map_mut().insert("metadata".to_owned(), json!({}));
            object.set_meta("creationTimestamp", cx.scope.storage.now());
            json!({"userInfo": cx.scope.user.to_info()})
        }
        UnstoredKind::SubjectAccessReview | UnstoredKind::LocalSubjectAccessReview => {
            review_access(
                &cx.plane.authorizers,
                &object,
                &reviewed_user(&object),
                cx.scope.namespace(),
            )
            .await?
        }
        UnstoredKind::SelfSubjectAccessReview => {
            review_access(&cx.plane.authorizers, &object, &cx.scope.user, "").await?
        }
        UnstoredKind::Binding => return binding::bind(cx, object, &options).await,
        UnstoredKind::ComponentStatus => unreachable!("component statuses are served above"),
        UnstoredKind::SelfSubjectRulesReview => {
            let namespace = object.str_at(&["spec", "namespace"]).to_owned();
            if namespace.is_empty() {
                return Err(Status::bad_request("no namespace on request"));
            }
            object.map_mut().insert("metadata".to_owned(), json!({}));
            object.map_mut().insert("spec".to_owned(), json!({}));
            cx.plane.authorizers.rules(&cx.scope.user, &namespace)
        }
    };
    object.map_mut().insert("status".to_owned(), status);
    Ok(object_response::object(cx, 201, object))
}

/// The status of a `TokenReview`.
async fn review_token(cx: &RequestContext, review: &Object) -> Result<Value, Status> {
    let token = review.str_at(&["spec", "token"]);
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    // The cache must reflect a deletion of the object to which the token is bound.
    cx.scope.catch_up().await?;
    let (user, audiences) = match cx.plane.authenticate_token(token) {
        Ok(found) => found,
        Err(why) => return Ok(json!({"user": {}, "error": why.to_string()})),
    };
    let requested = review.get(&["spec", "audiences"]).and_then(Value::as_array);
    let requested: Vec<&str> = requested.into_iter().flatten().filter_map(Value::as_str).collect();
    let wanted = if requested.is_empty() { vec![ISSUER] } else { requested };
    let common: Vec<&str> = wanted
        .iter()
        .copied()
        .filter(|it| audiences.iter().any(|audience| audience == it))
        .collect();
    if common.is_empty() {
        let why = format!(
            "token audiences {} is invalid for the target audiences {}",
            go_list(audiences.iter().map(String::as_str)),
            go_list(wanted.iter().copied()),
        );
        let error = TokenError::Invalid(why).to_string();
        return Ok(json!({"user": {}, "error": error}));
    }
    Ok(json!({"authenticated": true, "user": user.to_info(), "audiences": common}))
}

/// Formats a list of strings as Go does with `%q`.
fn go_list<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = texts.map(quote).collect();
    format!("[{}]", quoted.join(" "))
}

/// The user whose access is reviewed.
fn reviewed_user(review: &Object) -> User {
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
    }
}

/// `nonResourceAttributes` in an error, with Go's field names.
fn go_non_resource_attributes(attributes: Option<&Value>) -> Value {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    attributes.map_or(Value::Null, |it| json!({"Path": text(it, "path"), "Verb": text(it, "verb")}))
}

/// The status of an access review for `user`. A review in a namespace is restricted to that
/// namespace.
async fn review_access(
    authorizers: &Authorizers,
    review: &Object,
    user: &User,
    review_namespace: &str,
) -> Result<Value, Status> {
    let mut errors = ErrorList::new();
    let spec = Path::root("spec");
    let resource = review.get(&["spec", "resourceAttributes"]).filter(|it| it.is_object());
    let non_resource = review.get(&["spec", "nonResourceAttributes"]).filter(|it| it.is_object());
    if resource.is_some() == non_resource.is_some() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.invalid(&spec, go_non_resource_attributes(non_resource), detail);
    }
    if user.name.is_empty() && user.groups.is_empty() {
        let detail = "at least one of user or group must be specified";
        errors.invalid(&spec.child("user"), "", detail);
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
    if !errors.is_empty() {
        // Upstream: the error has no kind.
        let group = GroupKind::new("authorization.k8s.io", "");
        return Err(Status::invalid(&group, "", &errors));
    }
    let text = |from: Option<&Value>, key: &str| {
        from.and_then(|it| it.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (verb, path) = (text(resource.or(non_resource), "verb"), text(non_resource, "path"));
    let fields = ["group", "version", "resource", "subresource", "namespace", "name"];
    let [group, version, plural, subresource, namespace, name] =
        fields.map(|it| text(resource, it));
    // Upstream: an empty version stands for all versions.
    let version = if version.is_empty() { "*".to_owned() } else { version };
    let attributes = Attributes {
        user,
        verb: &verb,
        resource: resource.map(|_| ResourceAttributes {
            group: &group,
            version: &version,
            resource: &plural,
            subresource: &subresource,
            namespace: &namespace,
            name: &name,
        }),
        path: &path,
    };
    let decision = authorizers.decide(&attributes).await;
    let mut status = json!({"allowed": decision.is_allowed()});
    if matches!(decision, Decision::Deny(_)) {
        status["denied"] = true.into();
    }
    if !decision.reason().is_empty() {
        status["reason"] = decision.reason().into();
    }
    if let Some(error) = decision.evaluation_error() {
        status["evaluationError"] = error.into();
    }
    Ok(status)
}
