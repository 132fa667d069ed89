//! Subresources that lead to a node: logs, exec, attach, port-forward, proxy.
//!
//! Their nodes are not connected to this server yet, and what cannot be reached is said to be so.

use crate::body::Body;
use crate::context::Cx;
use http::Response;
use machinery::{Object, Status};

/// Fails in the way that says most about why.
pub(crate) async fn connect(cx: &Cx) -> Result<Response<Body>, Status> {
    let object = cx.current().await?.object();
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
