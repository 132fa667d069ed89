//! Kinds that are asked rather than stored: whose token, who am I, may they, what may I.

use crate::answer;
use crate::authentication::User;
use crate::authentication::service_account::ISSUER;
use crate::authorization::{self, authorize};
use crate::body::Body;
use crate::context::Cx;
use crate::decode;
use crate::door::Door;
use crate::options::WriteOptions;
use crate::request::{RequestInfo, Target, Verb};
use http::{Request, Response};
use http_body_util::Full;
use kinds::resource::Question;
use machinery::{Faults, GroupKind, Object, Path, Status, Value, json};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::collections::BTreeMap;
use std::sync::Arc;
use tower_service::Service;

/// Answers the question that the body is.
pub(crate) async fn ask(
    cx: &Cx,
    body: &[u8],
    question: Question,
) -> Result<Response<Body>, Status> {
    if question == Question::Components {
        return components(cx);
    }
    let options = WriteOptions::parse(&cx.query, "CreateOptions")?;
    let mut object = decode::object(cx, body, options.field_validation)?;
    let status = match question {
        Question::Token if object.str_at(&["spec", "token"]).is_empty() => {
            let why = "token is required for TokenReview in authentication";
            return Err(Status::bad_request(why));
        }
        Question::Token => token(cx, &object),
        Question::SelfSubject => {
            object.set_meta("creationTimestamp", cx.plane.now());
            json!({"userInfo": cx.user.to_info()})
        }
        Question::Access | Question::LocalAccess => {
            access(&object, &subject(&object), cx.namespace())?
        }
        Question::SelfAccess => access(&object, &cx.user, "")?,
        Question::Binding => return bind(cx, object).await,
        Question::Components => return components(cx),
        Question::SelfRules => {
            if object.str_at(&["spec", "namespace"]).is_empty() {
                return Err(Status::bad_request("no namespace on request"));
            }
            // Upstream: the answer does not repeat the question.
            object.map_mut().insert("spec".to_owned(), json!({}));
            authorization::rules(&cx.user)
        }
    };
    object.map_mut().insert("status".to_owned(), status);
    Ok(answer::object(cx, 201, object))
}

/// Passes an order to the pod that it is about, as the same user.
async fn bind(cx: &Cx, binding: Object) -> Result<Response<Body>, Status> {
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}/binding",
        cx.namespace(),
        utf8_percent_encode(binding.name(), NON_ALPHANUMERIC),
    );
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(Full::from(binding.into_value().to_string()))
        .map_err(|error| Status::bad_request(error.to_string()))?;
    match Door::new(Arc::clone(&cx.plane), cx.user.clone()).call(request).await {
        Ok(response) => Ok(response),
        Err(never) => match never {},
    }
}

/// The only component there is besides the server that answers: its store.
fn components(cx: &Cx) -> Result<Response<Body>, Status> {
    cx.warn("v1 ComponentStatus is deprecated in v1.19+".to_owned());
    let condition = json!({"type": "Healthy", "status": "True", "message": "ok"});
    let store = json!({"metadata": {"name": "etcd-0"}, "conditions": [condition]});
    let mut object = Object::from_value(store).unwrap_or_default();
    if cx.target.name.is_empty() {
        let list = json!({
            "kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {},
            "items": [object.into_value()],
        });
        return Ok(answer::document(200, cx.accepted, &list));
    }
    if cx.target.name != object.name() {
        return Err(cx.not_found());
    }
    object.set_type("v1", "ComponentStatus");
    Ok(answer::object(cx, 200, object))
}

/// Whose token it is.
fn token(cx: &Cx, review: &Object) -> Value {
    let nobody = || json!({"user": {}, "error": "invalid bearer token"});
    let Some((user, audiences)) = cx.plane.whose_token(review.str_at(&["spec", "token"])) else {
        return nobody();
    };
    let asked = review.get(&["spec", "audiences"]).and_then(Value::as_array);
    let asked: Vec<&str> = asked.into_iter().flatten().filter_map(Value::as_str).collect();
    let asked = if asked.is_empty() { vec![ISSUER] } else { asked };
    let shared: Vec<&str> =
        asked.into_iter().filter(|it| audiences.iter().any(|audience| audience == it)).collect();
    if shared.is_empty() {
        return nobody();
    }
    json!({"authenticated": true, "user": user.to_info(), "audiences": shared})
}

/// About whom a review asks.
fn subject(review: &Object) -> User {
    let groups = review.get(&["spec", "groups"]).and_then(Value::as_array);
    User {
        name: review.str_at(&["spec", "user"]).to_owned(),
        uid: review.str_at(&["spec", "uid"]).to_owned(),
        groups: groups
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(ToOwned::to_owned)
            .collect(),
        extra: BTreeMap::new(),
    }
}

/// Whether `user` may do what the review asks, which may be bound to one namespace.
fn access(review: &Object, user: &User, bound: &str) -> Result<Value, Status> {
    let mut faults = Faults::new();
    let spec = Path::root("spec");
    let resource = review.get(&["spec", "resourceAttributes"]).filter(|it| it.is_object());
    let path = review.get(&["spec", "nonResourceAttributes"]).filter(|it| it.is_object());
    if resource.is_some() == path.is_some() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        faults.invalid(&spec, Value::Null, detail);
    }
    if !bound.is_empty() {
        let found = review.str_at(&["spec", "resourceAttributes", "namespace"]);
        let place = spec.child("resourceAttributes");
        if found != bound {
            faults.invalid(&place.child("namespace"), found, "must match metadata.namespace");
        }
        if path.is_some() {
            faults.invalid(
                &spec.child("nonResourceAttributes"),
                Value::Null,
                "disallowed on this kind of request",
            );
        }
    }
    if user.name.is_empty() && user.groups.is_empty() {
        let detail = "at least one of user or group must be specified";
        faults.invalid(&spec.child("user"), "", detail);
    }
    if !faults.is_empty() {
        // Upstream: the kind is not named.
        let group = GroupKind::new("authorization.k8s.io", "");
        return Err(Status::invalid(&group, "", &faults));
    }
    let text = |from: Option<&Value>, key: &str| {
        from.and_then(|it| it.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let target = resource.map(|_| Target {
        group: text(resource, "group"),
        version: text(resource, "version"),
        namespace: text(resource, "namespace"),
        resource: text(resource, "resource"),
        name: text(resource, "name"),
        subresource: text(resource, "subresource"),
        rest: String::new(),
    });
    let info = RequestInfo {
        verb: Verb::parse(&text(resource.or(path), "verb")),
        path: text(path, "path"),
        target,
    };
    Ok(json!({"allowed": authorize(user, &info).is_ok()}))
}
