//! `serviceaccounts/token`: a token for a service account, signed and not stored.

use crate::admission;
use crate::answer;
use crate::authentication::service_account::{Claims, ISSUER};
use crate::body::Body;
use crate::context::Cx;
use crate::options::WriteOptions;
use http::Response;
use kinds::resource::Subresource;
use machinery::{Faults, GroupKind, Object, Path, Status, Value, json, timestamp};

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
    let dry_run = WriteOptions::parse(&cx.query, "CreateOptions")?.dry_run;
    let mut request = super::subresource::posted(cx, body, subresource)?;
    super::subresource::check_name(cx, &request)?;
    cx.catch_up().await?;
    admission::judge_namespace(cx, &request)?;
    super::subresource::admit(cx, &mut request, subresource, dry_run).await?;
    let seconds = validated(&request)?;
    let account = cx.found()?.object();
    let audiences = match texts(&request) {
        asked if asked.is_empty() => vec![ISSUER.to_owned()],
        asked => asked,
    };
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
    let spec = request.map_at(&["spec"]);
    spec.insert("audiences".to_owned(), json!(claims.audiences));
    spec.insert("expirationSeconds".to_owned(), seconds.into());
    spec.entry("boundObjectRef").or_insert(Value::Null);
    let answer = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": account.name(), "namespace": account.namespace(),
            "uid": cx.plane.entropy.uuid(), "creationTimestamp": cx.plane.now()},
        "spec": request.map()["spec"],
        "status": {"token": token,
            "expirationTimestamp": timestamp::format_seconds(claims.expires)},
    });
    Ok(answer::document(201, cx.accepted, &answer))
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
    let kind = GroupKind::new("authentication.k8s.io", "TokenRequest");
    Err(Status::invalid(&kind, "", &faults))
}
