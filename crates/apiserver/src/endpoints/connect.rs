//! Subresources that lead to a node: logs, exec, attach, port-forward, proxy.
//!
//! Their nodes are not connected to this server yet, and what cannot be reached is said to be so.

use crate::body::Body;
use crate::context::Cx;
use crate::errors;
use http::Response;
use machinery::{Object, Status};

/// Fails in the way that says most about why.
pub(crate) async fn connect(cx: &Cx) -> Result<Response<Body>, Status> {
    let name = &cx.target.name;
    let caught_up = cx.plane.cache.catch_up().await;
    caught_up.map_err(|it| errors::of_store(&cx.what(), name, &it))?;
    let object = cx.served.cache.get(&cx.key()).ok_or_else(|| cx.not_found())?.object();
    Err(unreachable_because(cx, &object))
}

fn unreachable_because(cx: &Cx, object: &Object) -> Status {
    let name = object.name();
    let kind = cx.resource().kind.to_lowercase();
    if kind == "pod" && object.str_at(&["spec", "nodeName"]).is_empty() {
        return Status::bad_request(format!("pod {name} does not have a host assigned"));
    }
    Status::unavailable(format!(
        "{kind} {name} cannot be reached: no node is connected to this server"
    ))
}
