//! `serviceaccounts/token`: a token for a service account, signed and not stored.

use crate::admission;
use crate::answer;
use crate::authentication::service_account::{Claims, ISSUER};
use crate::body::Body;
use crate::context::Cx;
use crate::options::WriteOptions;
use crate::ownership;
use http::Response;
use kinds::resource::Subresource;
use machinery::{Faults, GroupKind, GroupResource, Object, Path, Status, Value, json, timestamp};

/// How long a token lives if nobody says.
const HOUR: i64 = 60 * 60;

/// The shortest life that may be asked for.
const SHORTEST: i64 = 10 * 60;

/// The longest.
const LONGEST: i64 = 1 << 32;

/// Answers with a token for the named account.
pub(crate) async fn create(
    cx: &Cx,
    body: &[u8],
    subresource: &Subresource,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions")?;
    let mut request = super::subresource::posted(cx, body, subresource, options.field_validation)?;
    check_name(cx, &request)?;
    let attempt =
        super::subresource::attempt(cx, &mut request, subresource, options.dry_run).await?;
    admission::judge_namespace(cx, &request)?;
    let seconds = request.map_at(&["spec"]).entry("expirationSeconds").or_insert(Value::Null);
    if seconds.is_null() {
        *seconds = HOUR.into();
    }
    ownership::sent::track(cx, &mut request);
    admission::mutate_sent(&attempt, &mut request).await?;
    let account = cx.found()?.object();
    check_uid(&request, &account)?;
    complete(cx, &mut request, &account);
    let seconds = validated(&request)?;
    admission::judge_sent(&attempt, &request).await?;
    let audiences = texts(&request);
    let now = cx.plane.clock.now().seconds();
    let claims = Claims {
        namespace: account.namespace().to_owned(),
        name: account.name().to_owned(),
        uid: account.uid().to_owned(),
        audiences,
        issued: now,
        expires: now + seconds,
        id: cx.plane.entropy.uuid(),
    };
    let token = cx.plane.authenticator.signer.sign(&claims);
    let token = token.ok_or_else(|| Status::internal("cannot sign a token"))?;
    let expires = timestamp::format_seconds(claims.expires);
    let status = json!({"token": token, "expirationTimestamp": expires});
    request.map_mut().insert("status".to_owned(), status);
    Ok(answer::document(201, cx.accepted, &request.into_value()))
}

/// Fails if the request is for another account than the path's.
fn check_name(cx: &Cx, request: &Object) -> Result<(), Status> {
    if request.name().is_empty() || request.name() == cx.target.name {
        return Ok(());
    }
    let mut faults = Faults::new();
    let path = Path::root("metadata");
    let detail = "must match the service account name if specified";
    faults.invalid(&path.child("name"), request.name(), detail);
    Err(Status::invalid(&kind(), &cx.target.name, &faults))
}

/// Fails if the request is for an account that had the name before.
fn check_uid(request: &Object, account: &Object) -> Result<(), Status> {
    let (asked, found) = (request.uid(), account.uid());
    if asked.is_empty() || asked == found {
        return Ok(());
    }
    let what = GroupResource::new("authentication.k8s.io", "TokenRequest");
    let why = format!(
        "the UID in the token request ({asked}) does not match the UID of the service account ({found})"
    );
    Err(Status::conflict(&what, account.name(), &why))
}

/// Fills in what the account and the server know.
fn complete(cx: &Cx, request: &mut Object, account: &Object) {
    for (field, value) in [
        ("name", account.name()),
        ("namespace", account.namespace()),
        ("uid", account.uid()),
        ("creationTimestamp", &cx.plane.now()),
    ] {
        request.set_meta(field, value);
    }
    let asked = texts(request);
    let spec = request.map_at(&["spec"]);
    if asked.is_empty() {
        spec.insert("audiences".to_owned(), json!([ISSUER]));
    }
    spec.entry("boundObjectRef").or_insert(Value::Null);
    let status = json!({"token": "", "expirationTimestamp": null});
    request.map_mut().insert("status".to_owned(), status);
}

fn kind() -> GroupKind {
    GroupKind::new("authentication.k8s.io", "TokenRequest")
}

fn texts(request: &Object) -> Vec<String> {
    let items = request.get(&["spec", "audiences"]).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

/// How many seconds the token is to live.
fn validated(request: &Object) -> Result<i64, Status> {
    let asked = request.get(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
    let seconds = asked.unwrap_or(HOUR);
    let spec = Path::root("spec");
    let path = spec.child("expirationSeconds");
    let mut faults = Faults::new();
    if seconds < SHORTEST {
        faults.invalid(&path, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > LONGEST {
        faults.invalid(&path, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    // A token that would outlive what it is bound to is worse than none.
    if request.get(&["spec", "boundObjectRef"]).is_some_and(|it| !it.is_null()) {
        faults.forbidden(&spec.child("boundObjectRef"), "bound tokens are not served yet");
    }
    if faults.is_empty() {
        return Ok(seconds);
    }
    Err(Status::invalid(&kind(), "", &faults))
}
