//! Kinds that are not stored: token, subject, access and rules reviews, bindings, component
//! statuses.

use http::Response;

use super::{access_review, binding, component_status};
use crate::auth::authentication::Notes;
use crate::endpoints::context::RequestContext;
use crate::endpoints::decode;
use crate::endpoints::object_response;
use crate::http::body::Body;
use crate::registry::field_manager;
use crate::request::options::WriteOptions;
use machinery::{Object, Status, Value, json};
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
            let user = access_review::reviewed_user(&object);
            let namespace = cx.scope.namespace();
            access_review::review(&cx.plane.authorizers, &object, &user, namespace).await?
        }
        UnstoredKind::SelfSubjectAccessReview => {
            let user = &cx.scope.user;
            access_review::review(&cx.plane.authorizers, &object, user, "").await?
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
    let requested = strings(review.get(&["spec", "audiences"]));
    let requested = match requested.as_slice() {
        [] => cx.plane.authenticator.audiences(),
        requested => requested,
    };
    let mut notes = Notes::default();
    let found = cx.plane.authenticate_token(&cx.scope.user, token, requested, &mut notes).await;
    // Upstream: they are those of the request that asks about the token.
    if let Some(audit) = &cx.scope.audit {
        audit.annotate_all(&notes.annotations);
    }
    notes.warning_texts().into_iter().for_each(|it| cx.scope.warn(it));
    Ok(match found {
        Ok((user, audiences)) => {
            json!({"authenticated": true, "user": user.to_info(), "audiences": audiences})
        }
        Err(why) => json!({"user": {}, "error": why.to_string()}),
    })
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}
