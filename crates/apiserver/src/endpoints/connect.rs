//! Subresources that lead to a node: logs, exec, attach, port-forward, proxy.
//!
//! Their nodes are not connected to this server yet, and what cannot be reached is said to be so.

use super::subresource::kind_of;
use crate::admission::{self, Attempt, Operation};
use crate::body::Body;
use crate::context::Cx;
use crate::options::parse_i64;
use http::Response;
use kinds::resource::Subresource;
use machinery::{GroupVersionKind, Map, Object, Status, json};

/// Fails in the way that says most about why, if the connection would be allowed.
pub(crate) async fn connect(cx: &Cx, subresource: &Subresource) -> Result<Response<Body>, Status> {
    cx.catch_up().await?;
    // Reading a log is no connection.
    if subresource.kind != cx.resource().kind {
        let kind = kind_of(cx, subresource);
        let mut options = options(cx, &kind)?;
        let attempt = Attempt::below(cx, Operation::Connect, kind, false);
        admission::admit_sent(&attempt, &mut options).await?;
    }
    let object = cx.current().await?.object();
    Err(unreachable_because(cx, &object))
}

/// What is asked for, as an object of the kind that the subresource has for it.
fn options(cx: &Cx, kind: &GroupVersionKind) -> Result<Object, Status> {
    let mut options = Map::new();
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if cx.query.flag(flag) {
            options.insert(flag.to_owned(), true.into());
        }
    }
    let mut texts = vec![("container", cx.query.text("container").to_owned())];
    if kind.kind.ends_with("ProxyOptions") {
        texts.push(("path", format!("/{}", cx.target.rest)));
    }
    for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        options.insert(field.to_owned(), text.into());
    }
    let command: Vec<&str> = cx.query.all("command").collect();
    let ports = cx.query.all("ports").map(parse_i64).collect::<Result<Vec<_>, _>>()?;
    for (field, list) in [("command", json!(command)), ("ports", json!(ports))] {
        if list.as_array().is_some_and(|it| !it.is_empty()) {
            options.insert(field.to_owned(), list);
        }
    }
    let mut options = Object::new(options);
    options.set_type(&kind.group_version().to_string(), &kind.kind);
    Ok(options)
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
