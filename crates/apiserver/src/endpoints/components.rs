//! `componentstatuses`: whether the store, and a scheduler and a controller manager on this machine,
//! are healthy.
//!
//! Upstream: `registry/core/componentstatus`. The two programs are asked at their usual ports.

use super::selection::Selection;
use crate::endpoints::answer;
use crate::endpoints::context::RequestContext;
use crate::endpoints::table;
use crate::http::body::Body;
use crate::http::negotiation::Form;
use crate::http::response;
use crate::outbound::{Destination, Error, Trust};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use machinery::{GroupResource, Object, Status, Value, json};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The components that are asked over the network, with their ports.
const PROBED: [(&str, u16); 2] = [("controller-manager", 10257), ("scheduler", 10259)];

/// The store.
const STORE: &str = "etcd-0";

/// How long a component may take to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The answer of a component may be this long.
const MAX_ANSWER: usize = 10 << 10;

/// Answers with one component, or with all of them.
pub(super) async fn answer(cx: &RequestContext) -> Result<Response<Body>, Status> {
    cx.scope.warn("v1 ComponentStatus is deprecated in v1.19+".to_owned());
    if !cx.scope.path.name.is_empty() {
        let mut object = component(cx, &cx.scope.path.name).await?;
        object.set_type("v1", "ComponentStatus");
        return Ok(answer::object(cx, 200, object));
    }
    let selection = Selection::parse(cx)?;
    let (one, other) = tokio::join!(component(cx, PROBED[0].0), component(cx, PROBED[1].0));
    let mut components = vec![one?, other?, component(cx, STORE).await?];
    components.retain(|it| selection.matches_unstored(it));
    if cx.accepted.form == Form::Table {
        let table = table::table(cx, &json!({}), components)?;
        return Ok(response::serialized(200, cx.accepted, &table));
    }
    let items: Vec<Value> = components.into_iter().map(Object::into_value).collect();
    let list = json!({
        "kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items,
    });
    Ok(response::document(200, cx.accepted, &list))
}

async fn component(cx: &RequestContext, name: &str) -> Result<Object, Status> {
    let port = PROBED.iter().find(|(known, _)| *known == name).map(|(_, port)| *port);
    let health = match port {
        Some(port) => probe(cx, port).await,
        None if name == STORE => Ok("ok".to_owned()),
        // Upstream: the resource is named in the singular.
        None => return Err(Status::not_found(&GroupResource::new("", "componentstatus"), name)),
    };
    let (status, message) = match health {
        Ok(message) => ("True", message),
        Err(message) => ("False", message),
    };
    let condition = json!({"type": "Healthy", "status": status, "message": message});
    let object = json!({"metadata": {"name": name}, "conditions": [condition]});
    Ok(Object::from_value(object).unwrap_or_default())
}

/// What a component on this machine says of its health, or why it is not healthy.
async fn probe(cx: &RequestContext, port: u16) -> Result<String, String> {
    let url = format!("https://127.0.0.1:{port}/healthz");
    let failed = |why: &dyn std::fmt::Display| format!("Get \"{url}\": {why}");
    let to = Destination {
        server_name: "127.0.0.1".to_owned(),
        addresses: Vec::new(),
        trust: Trust::Insecure,
        identity: None,
    };
    let request = Request::get(&url).body(Full::<Bytes>::default());
    let request = request.map_err(|error| failed(&error))?;
    let deadline = Instant::now() + PROBE_TIMEOUT;
    let call = cx.scope.storage.outbound.call(&to, request, MAX_ANSWER, deadline);
    let answer = timeout_at(deadline, call).await;
    let answer = answer.map_err(|_| failed(&"context deadline exceeded"))?;
    let answer = answer.map_err(|error: Error| failed(&error))?;
    if answer.status().is_success() {
        return Ok(String::from_utf8_lossy(answer.body()).into_owned());
    }
    Err(format!("HTTP probe failed with statuscode: {}", answer.status().as_u16()))
}
