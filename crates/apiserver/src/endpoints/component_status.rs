//! `componentstatuses`: the health of the store, and of the scheduler and the controller manager on
//! this machine.
//!
//! Upstream: `registry/core/componentstatus`. The two programs are probed at their default ports, unless
//! they run in this process.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use http::{Request, Response};
use http_body_util::Full;
use tokio::time::{Instant, timeout_at};

use super::selection::Selection;
use crate::endpoints::context::RequestContext;
use crate::endpoints::object_response;
use crate::endpoints::table;
use crate::http::body::Body;
use crate::http::negotiation::Representation;
use crate::http::response;
use crate::outbound::{Destination, Error};
use machinery::{GroupResource, Object, Status, Value, json};
use tls::Trust;

/// The components that are probed over the network, with their ports.
const PROBED_COMPONENTS: [(&str, u16); 2] = [("controller-manager", 10257), ("scheduler", 10259)];

/// The name of the store.
const ETCD: &str = "etcd-0";

/// The timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum size of the response to a probe, in bytes.
const MAX_RESPONSE: usize = 10 << 10;

/// Responds with one component or with all of them.
pub(super) async fn serve(cx: &RequestContext) -> Result<Response<Body>, Status> {
    if !cx.scope.path.name.is_empty() {
        let mut object = component(cx, &cx.scope.path.name).await?;
        object.set_type("v1", "ComponentStatus");
        return Ok(object_response::object(cx, 200, object));
    }
    let selection = Selection::parse(cx)?;
    let names = PROBED_COMPONENTS.map(|(name, _)| name).into_iter().chain([ETCD]);
    let mut components = try_join_all(names.map(|name| component(cx, name))).await?;
    components.retain(|it| selection.matches_unstored(it));
    if cx.accepted.representation == Representation::Table {
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
    let port = PROBED_COMPONENTS.iter().find(|(known, _)| *known == name).map(|(_, port)| *port);
    let in_process = cx.plane.health_checks.of_component(name);
    let condition = match port {
        Some(port) => {
            let result = match in_process {
                Some(check) => check().map(|()| "ok".to_owned()),
                None => probe(cx, port).await,
            };
            let status = if result.is_ok() { "True" } else { "False" };
            let (Ok(message) | Err(message)) = result;
            json!({"type": "Healthy", "status": status, "message": message})
        }
        None if name == ETCD => match cx.scope.storage.store.check_health(PROBE_TIMEOUT).await {
            Ok(()) => json!({"type": "Healthy", "status": "True", "message": "ok"}),
            Err(error) => {
                json!({"type": "Healthy", "status": "False", "error": error.to_string()})
            }
        },
        // Upstream: the error has the resource in the singular.
        None => return Err(Status::not_found(&GroupResource::new("", "componentstatus"), name)),
    };
    let object = json!({"metadata": {"name": name}, "conditions": [condition]});
    Ok(Object::from_value(object).unwrap_or_default())
}

/// The message of a healthy component on this machine, or the reason why it is unhealthy.
async fn probe(cx: &RequestContext, port: u16) -> Result<String, String> {
    let url = format!("https://127.0.0.1:{port}/healthz");
    let failed = |why: &dyn std::fmt::Display| format!("Get \"{url}\": {why}");
    let to = Destination::of_url("127.0.0.1".to_owned(), Trust::Insecure);
    let request = Request::get(&url).body(Full::<Bytes>::default());
    let request = request.map_err(|error| failed(&error))?;
    let deadline = Instant::now() + PROBE_TIMEOUT;
    let call = cx.scope.storage.outbound.call(&to, request, MAX_RESPONSE, deadline);
    let response = timeout_at(deadline, call).await;
    let response = response.map_err(|_| failed(&"context deadline exceeded"))?;
    let response = response.map_err(|error: Error| failed(&error))?;
    if response.status().is_success() {
        return Ok(String::from_utf8_lossy(response.body()).into_owned());
    }
    Err(format!("HTTP probe failed with statuscode: {}", response.status().as_u16()))
}
