//! `serviceaccounts/token`: creates a signed token for a service account. Tokens are not stored.

use http::Response;

use super::subresource;
use crate::admission;
use crate::auth::authentication::service_account::{Claims, Reference, ServiceAccountSettings};
use crate::endpoints::context::RequestContext;
use crate::http::body::Body;
use crate::http::response;
use crate::registry::field_manager;
use crate::request::options::WriteOptions;
use machinery::field_path::quote;
use machinery::{
    ErrorList, GroupKind, GroupResource, GroupVersion, Object, Path, Status, Value, json, timestamp,
};
use types::resource::Subresource;

const HOUR: i64 = 60 * 60;

/// The lifetime of a token, in seconds, if the request does not specify one.
const DEFAULT_LIFETIME: i64 = HOUR;

/// The minimum lifetime of a token.
const MIN_LIFETIME: i64 = 10 * 60;

/// The maximum lifetime of a token.
const MAX_LIFETIME: i64 = 1 << 32;

/// The lifetime that the admission plugin `ServiceAccount` requests for mounted tokens. It is extended
/// to a year. Upstream: `WarnOnlyBoundTokenExpirationSeconds`.
const WARN_ONLY_LIFETIME: i64 = HOUR + 7;
const EXTENDED_LIFETIME: i64 = 365 * 24 * HOUR;

/// The audit annotation with the ID of the token, which identifies the credential of its user.
const ISSUED_CREDENTIAL_ID: &str = "authentication.kubernetes.io/issued-credential-id";

/// Responds with a token for the named service account.
pub(crate) async fn create(
    cx: &RequestContext,
    body: &[u8],
    subresource: &Subresource,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions")?;
    let validation = options.field_validation();
    let mut request =
        subresource::decode_with_defaults(cx, body, subresource, validation, set_defaults)?;
    check_name(cx, &request)?;
    let attributes = subresource::attributes(cx, &mut request, subresource, &options).await?;
    admission::validate_namespace(&cx.plane.admission, &cx.scope, &request)?;
    field_manager::subresource_object::track(&cx.scope, &mut request);
    admission::mutate_subresource(&attributes, &mut request).await?;
    let account = cx.find()?.object();
    check_uid(&request, &account)?;
    complete(cx, &mut request, &account);
    validate_expiration(&request)?;
    admission::validate_subresource(&attributes, &request).await?;
    let now = cx.scope.storage.clock.now().seconds();
    let bound = bound_object_claims(cx, &request).await?;
    let seconds = shorten_expiration(cx, &mut request);
    let mut claims = Claims {
        namespace: account.namespace().to_owned(),
        name: account.name().to_owned(),
        uid: account.uid().to_owned(),
        audiences: audiences(&request),
        issued: now,
        not_before: now,
        expires: now + seconds,
        id: cx.scope.storage.entropy.uuid(),
        ..bound
    };
    // Upstream: the token stays valid longer for pods that do not reload it before it expires.
    let is_for_server =
        claims.audiences.iter().all(|it| cx.plane.authenticator.audiences().contains(it));
    if settings(cx).extends_expiration
        && claims.pod.is_some()
        && seconds == WARN_ONLY_LIFETIME
        && is_for_server
    {
        claims.warn_after = Some(claims.expires);
        claims.expires = now + EXTENDED_LIFETIME;
    }
    let token = cx.plane.authenticator.signer.sign(&claims);
    let token = token.ok_or_else(|| Status::internal("cannot sign a token"))?;
    if let Some(audit) = &cx.scope.audit {
        audit.annotate(ISSUED_CREDENTIAL_ID, &claims.credential_id());
    }
    let expires = timestamp::format_seconds(now + seconds);
    let status = json!({"token": token, "expirationTimestamp": expires});
    request.map_mut().insert("status".to_owned(), status);
    Ok(response::document(201, cx.accepted, &request.into_value()))
}

fn set_defaults(request: &mut Object) {
    let seconds = request.map_at(&["spec"]).entry("expirationSeconds").or_insert(Value::Null);
    if seconds.is_null() {
        *seconds = DEFAULT_LIFETIME.into();
    }
}

/// Fails if the request is for another service account than that of the path.
fn check_name(cx: &RequestContext, request: &Object) -> Result<(), Status> {
    if request.name().is_empty() || request.name() == cx.scope.path.name {
        return Ok(());
    }
    let mut errors = ErrorList::new();
    let path = Path::root("metadata");
    let detail = "must match the service account name if specified";
    errors.invalid(&path.child("name"), request.name(), detail);
    Err(Status::invalid(&kind(), &cx.scope.path.name, &errors))
}

/// Fails if the request is for a deleted service account of the same name.
fn check_uid(request: &Object, account: &Object) -> Result<(), Status> {
    let (requested, found) = (request.uid(), account.uid());
    if requested.is_empty() || requested == found {
        return Ok(());
    }
    let what = GroupResource::new("authentication.k8s.io", "TokenRequest");
    let why = format!(
        "the UID in the token request ({requested}) does not match the UID of the service account ({found})"
    );
    Err(Status::conflict(&what, account.name(), &why))
}

/// The claims about the object to which the token is bound, if there is one.
///
/// Upstream: registry/core/serviceaccount/storage/token.go.
async fn bound_object_claims(cx: &RequestContext, request: &Object) -> Result<Claims, Status> {
    let mut claims = Claims::default();
    let Some(reference) = request.get(&["spec", "boundObjectRef"]).filter(|it| it.is_object())
    else {
        return Ok(claims);
    };
    let text = |key: &str| reference[key].as_str().unwrap_or_default();
    let (name, api_version) = (text("name"), text("apiVersion"));
    let group_version = api_version.parse().unwrap_or_else(|_| GroupVersion::new("", api_version));
    let kind = match (group_version.group.as_str(), text("kind")) {
        ("", kind @ ("Pod" | "Node" | "Secret")) => kind,
        (group, kind) => {
            let version = group_version.version;
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    };
    // Upstream: the storage of each kind builds its key.
    if name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    cx.scope.catch_up().await?;
    let object = match kind {
        "Pod" => find_object(cx, "pods", cx.scope.namespace(), name)?,
        "Node" => find_object(cx, "nodes", "", name)?,
        _ => find_object(cx, "secrets", cx.scope.namespace(), name)?,
    };
    let account = &cx.scope.path.name;
    if kind == "Pod" && object.str_at(&["spec", "serviceAccountName"]) != account {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
            quote(account)
        )));
    }
    let uid = text("uid");
    if !uid.is_empty() && uid != object.uid() {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(&GroupResource::new("", kind), name, &why));
    }
    let found = Some(Reference { name: name.to_owned(), uid: object.uid().to_owned() });
    match kind {
        "Pod" => {
            claims.pod = found;
            claims.node = node_of(cx, &object);
        }
        "Node" => claims.node = found,
        _ => claims.secret = found,
    }
    Ok(claims)
}

/// The node of a pod; a missing node has a name and no uid.
fn node_of(cx: &RequestContext, pod: &Object) -> Option<Reference> {
    let name = pod.str_at(&["spec", "nodeName"]);
    let uid = find_object(cx, "nodes", "", name).map(|it| it.uid().to_owned()).unwrap_or_default();
    (!name.is_empty()).then(|| Reference { name: name.to_owned(), uid })
}

/// Finds an object of the core group.
fn find_object(
    cx: &RequestContext,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Result<Object, Status> {
    let catalog = cx.scope.storage.catalog.load();
    let served = catalog.resource("", resource);
    let found = served.and_then(|it| it.cache.get(&it.key(namespace, name)));
    let what = GroupResource::new("", resource);
    Ok(found.ok_or_else(|| Status::not_found(&what, name))?.object())
}

/// Sets the fields that the service account and the server determine.
fn complete(cx: &RequestContext, request: &mut Object, account: &Object) {
    for (field, value) in [
        ("name", account.name()),
        ("namespace", account.namespace()),
        ("uid", account.uid()),
        ("creationTimestamp", &cx.scope.storage.now()),
    ] {
        request.set_meta(field, value);
    }
    let requested = audiences(request);
    let spec = request.map_at(&["spec"]);
    if requested.is_empty() {
        spec.insert("audiences".to_owned(), json!(cx.plane.authenticator.audiences()));
    }
    spec.entry("boundObjectRef").or_insert(Value::Null);
    let status = json!({"token": "", "expirationTimestamp": null});
    request.map_mut().insert("status".to_owned(), status);
}

fn kind() -> GroupKind {
    GroupKind::new("authentication.k8s.io", "TokenRequest")
}

fn audiences(request: &Object) -> Vec<String> {
    let items = request.get(&["spec", "audiences"]).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

fn settings(cx: &RequestContext) -> &ServiceAccountSettings {
    &cx.plane.authenticator.signer.settings
}

/// The requested lifetime of the token, in seconds.
fn requested_expiration(request: &Object) -> i64 {
    let requested = request.get(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
    requested.unwrap_or(DEFAULT_LIFETIME)
}

/// Shortens the lifetime of the token to the configured maximum, and returns it in seconds.
fn shorten_expiration(cx: &RequestContext, request: &mut Object) -> i64 {
    let requested = requested_expiration(request);
    let maximum = settings(cx).max_expiration.and_then(|it| i64::try_from(it.as_secs()).ok());
    let Some(maximum) = maximum.filter(|it| requested > *it) else { return requested };
    cx.scope.warn(format!(
        "requested expiration of {requested} seconds shortened to {maximum} seconds"
    ));
    request.map_at(&["spec"]).insert("expirationSeconds".to_owned(), maximum.into());
    maximum
}

/// Validates the lifetime of the token.
fn validate_expiration(request: &Object) -> Result<(), Status> {
    let seconds = requested_expiration(request);
    let spec = Path::root("spec");
    let path = spec.child("expirationSeconds");
    let mut errors = ErrorList::new();
    if seconds < MIN_LIFETIME {
        errors.invalid(&path, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > MAX_LIFETIME {
        errors.invalid(&path, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&kind(), "", &errors))
}
