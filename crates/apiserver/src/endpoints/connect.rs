//! Subresources that connect to a node: logs, exec, attach, port-forward, proxy.
//!
//! This server does not connect to nodes. Its responses are those of kube-apiserver up to the point
//! of the connection, and then those of a failed connection.
//!
//! Simulated nodes (`crates/node`) run no containers, so there is nothing to connect to: the log of
//! their pods is one line that says so, and other connections fail with a message that says so. A
//! node is simulated if it has the label `sampan.dev/simulated=true`, or KWOK's label or annotation
//! `kwok.x-k8s.io/node=fake`.

use std::net::IpAddr;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};

use super::subresource::kind_of;
use crate::admission;
use crate::admission::{Attributes, Operation, OperationOptions};
use crate::auth::authorization;
use crate::auth::authorization::ResourceAttributes;
use crate::endpoints::context::RequestContext;
use crate::http::body::Body;
use crate::http::response;
use crate::outbound::service::{ServiceError, ServiceReference, ServiceResolver};
use crate::request::Verb;
use crate::request::options::{parse_int, parse_uint};
use kinds::core::node::{is_simulated, kubelet};
use kinds::core::pod::container_name;
use kinds::core::pod::log_options::LogOptions;
use machinery::field_path::quote;
use machinery::{GroupKind, GroupVersionKind, Map, Object, Status, Value, json};
use types::resource::Subresource;

/// Says why a connection to a pod, a service or a node fails.
const NO_CONNECTIONS: &str = "this server does not connect to nodes";

/// Admits the connection and fails with the most specific error.
pub(crate) async fn connect(
    cx: &RequestContext,
    subresource: &Subresource,
) -> Result<Response<Body>, Status> {
    cx.scope.catch_up().await?;
    // Reading a log is not admitted as a connection.
    if subresource.kind != cx.scope.resource().kind {
        if cx.query.get("dryRun").is_some() {
            return Err(Status::bad_request("dryRun is not supported"));
        }
        let kind = kind_of(cx, subresource);
        let mut options = options(cx, &kind)?;
        let attributes = Attributes::of_subresource(
            &cx.plane.admission,
            &cx.scope,
            Operation::Connect,
            kind,
            OperationOptions::None,
        );
        admission::admit_subresource(&attributes, &mut options).await?;
        if matches!(subresource.name, "attach" | "exec" | "portforward") {
            authorize_stream(cx).await?;
        }
    }
    respond(cx, subresource.name)
}

/// Requires the permission to create the stream, whatever the method: a WebSocket begins with GET, so
/// that a user who may only read pods and their subresources could run commands.
///
/// Upstream: registry/core/pod/rest `ensureAuthorizedForVerb`
async fn authorize_stream(cx: &RequestContext) -> Result<(), Status> {
    if cx.scope.verb == Verb::Create {
        return Ok(());
    }
    let stream = ResourceAttributes::from(&cx.scope.path);
    let creation =
        authorization::Attributes::of_resource(&cx.scope.user, Verb::Create.as_str(), stream);
    let decision = cx.plane.authorizers.decide(&creation).await;
    if decision.is_allowed() {
        return Ok(());
    }
    if let Some(error) = decision.evaluation_error() {
        return Err(Status::unclassified(error));
    }
    Err(Status::forbidden(&cx.scope.group_resource(), &cx.scope.path.name, decision.reason()))
}

/// The query as an options object of the subresource's kind. Parameters that the kind does not have
/// are ignored.
fn options(cx: &RequestContext, kind: &GroupVersionKind) -> Result<Object, Status> {
    let mut options = Map::new();
    let mut set = |field: &str, value: Value| options.insert(field.to_owned(), value);
    match kind.kind.as_str() {
        "PodExecOptions" | "PodAttachOptions" => {
            for flag in ["stdin", "stdout", "stderr", "tty"] {
                if cx.query.flag(flag) {
                    set(flag, true.into());
                }
            }
            let container = cx.query.text("container");
            if !container.is_empty() {
                set("container", container.into());
            }
            let command: Vec<&str> = cx.query.all("command").collect();
            if kind.kind == "PodExecOptions" && !command.is_empty() {
                set("command", json!(command));
            }
        }
        "PodPortForwardOptions" => {
            let listed = cx.query.all("ports").flat_map(|it| it.split(','));
            let ports = listed.map(parse_port).collect::<Result<Vec<_>, _>>()?;
            if !ports.is_empty() {
                set("ports", json!(ports));
            }
        }
        _ => {
            set("path", format!("/{}", cx.scope.path.subpath).into());
        }
    }
    let mut options = Object::new(options);
    options.set_type(&kind.group_version().to_string(), &kind.kind);
    Ok(options)
}

/// Parses a port. Upstream: `meta/v1/conversion.go`, `Convert_Slice_string_To_Slice_int32`.
fn parse_port(text: &str) -> Result<u16, Status> {
    parse_uint(text).map_err(|why| Status::bad_request(format!("cannot convert to []int32: {why}")))
}

/// The response to an admitted connection.
fn respond(cx: &RequestContext, subresource: &str) -> Result<Response<Body>, Status> {
    match (cx.scope.resource().plural.as_str(), subresource) {
        ("pods", "log") => log(cx),
        ("pods", "proxy") => Err(pod_proxy_error(cx)),
        ("pods", _) => Err(stream_error(cx, subresource)),
        ("services", _) => Err(service_proxy_error(cx)),
        _ => Err(node_proxy_error(cx)),
    }
}

/// The message for an address to which this server does not connect.
fn dial_error(address: &str) -> String {
    format!("dial tcp {address}: {NO_CONNECTIONS}")
}

/// The response to a request for a log. Upstream: `registry/core/pod/strategy.go`, `LogLocation`.
fn log(cx: &RequestContext) -> Result<Response<Body>, Status> {
    let options =
        LogOptions::parse(|it| cx.query.get(it), parse_int).map_err(Status::bad_request)?;
    let errors = options.validate();
    if !errors.is_empty() {
        let what = GroupKind::new("", "PodLogOptions");
        return Err(Status::invalid(&what, &cx.scope.path.name, &errors));
    }
    let pod = cx.find()?.object();
    let container = container_name::choose(&pod, cx.query.text("container"));
    let container = container.map_err(Status::bad_request)?;
    let node = pod.str_at(&["spec", "nodeName"]);
    if node.is_empty() {
        // Upstream: the log of a pod that is not scheduled is empty.
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response::set_not_cacheable(response.headers_mut());
        return Ok(response);
    }
    let node = find_node(cx, node)?;
    if is_simulated(&node) {
        check_log_status(&pod, &container, cx.query.flag("previous"))?;
        return Ok(simulated_log(&pod, &container));
    }
    let address = kubelet::address(&node).map_err(Status::unclassified)?;
    let mut path = format!("containerLogs/{}/{}/{container}", pod.namespace(), pod.name());
    let query = options.kubelet_query(|it| cx.query.flag(it));
    if !query.is_empty() {
        path = format!("{path}?{query}");
    }
    let why = dial_error(&address);
    Err(Status::unclassified(format!("Get \"https://{address}/{path}\": {why}")))
}

/// The error for exec, attach and port-forward. Upstream: `registry/core/pod/strategy.go`,
/// `streamLocation` and `PortForwardLocation`.
fn stream_error(cx: &RequestContext, subresource: &str) -> Status {
    let located = || {
        let pod = cx.find()?.object();
        if subresource != "portforward" {
            let container = container_name::choose(&pod, cx.query.text("container"));
            container.map_err(Status::bad_request)?;
        }
        match pod.str_at(&["spec", "nodeName"]) {
            "" => {
                let name = pod.name();
                Err(Status::bad_request(format!("pod {name} does not have a host assigned")))
            }
            node => {
                let node = find_node(cx, node)?;
                if is_simulated(&node) {
                    let message =
                        simulated_message(&pod, &format!("{subresource} is not possible"));
                    return Err(Status::bad_request(message));
                }
                kubelet::address(&node).map_err(Status::unclassified)
            }
        }
    };
    match located() {
        Err(status) => status,
        Ok(_) if !cx.upgrade => Status::bad_request("Upgrade request required"),
        Ok(address) => {
            let why = dial_error(&address);
            Status::unclassified(format!("error dialing backend: {why}"))
        }
    }
}

/// The error for a proxy to a pod. Upstream: `registry/core/pod/strategy.go`, `ResourceLocation`.
fn pod_proxy_error(cx: &RequestContext) -> Status {
    let Some((name, port)) = name_and_port(&cx.scope.path.name) else {
        return Status::bad_request(format!("invalid pod request {}", quote(&cx.scope.path.name)));
    };
    let pod = match find_object(cx, name) {
        Ok(pod) => pod,
        Err(status) => return status,
    };
    let first = pod.get(&["status", "podIPs"]).and_then(|it| it.get(0)?["ip"].as_str());
    let ip = first.unwrap_or_else(|| pod.str_at(&["status", "podIP"]));
    if !ip.parse().is_ok_and(is_global) {
        return Status::bad_request("address not allowed");
    }
    let containers = pod.get(&["spec", "containers"]).and_then(Value::as_array);
    let mut ports = containers.into_iter().flatten().filter_map(|it| {
        it["ports"].as_array()?.first()?["containerPort"].as_i64().map(|it| it.to_string())
    });
    let port = if port.is_empty() { ports.next().unwrap_or_default() } else { port.to_owned() };
    unreachable_error(&if port.is_empty() { ip.to_owned() } else { format!("{ip}:{port}") })
}

/// The error for a proxy to a service. Upstream: `registry/core/service/storage/storage.go`,
/// `ResourceLocation`.
fn service_proxy_error(cx: &RequestContext) -> Status {
    let Some((name, port)) = name_and_port(&cx.scope.path.name) else {
        return Status::bad_request(format!(
            "invalid service request {}",
            quote(&cx.scope.path.name)
        ));
    };
    let found = find_object(cx, name);
    let service = found.as_ref().ok();
    let ports = service.and_then(|it| it.get(&["spec", "ports"])?.as_array());
    let mut ports = ports.into_iter().flatten();
    let port = match port.parse::<i64>() {
        Ok(number) => {
            let port = ports.find(|it| it["port"] == number);
            if port.is_none() {
                let missing = format!("no service port {number} found for service {}", quote(name));
                return found.err().unwrap_or_else(|| Status::unavailable(missing));
            }
            port
        }
        Err(_) => ports.find(|it| it["name"].as_str().unwrap_or_default() == port),
    };
    let resolved = port.and_then(|it| it["port"].as_u64()?.try_into().ok()).map(|port| {
        let namespace = cx.scope.namespace().to_owned();
        let (name, path) = (name.to_owned(), String::new());
        let reference = ServiceReference { namespace, name, port, path };
        cx.scope.storage.addresses(&reference)
    });
    match resolved {
        Some(Ok(addresses)) if !addresses.is_empty() => unreachable_error(&addresses[0]),
        Some(Err(error @ ServiceError::Simulated(_))) => {
            Status::unavailable(format!("error trying to reach service: {error}"))
        }
        _ => Status::unavailable(format!("no endpoints available for service {}", quote(name))),
    }
}

/// The error for a proxy to a node. Upstream: `registry/core/node/strategy.go`, `ResourceLocation`.
fn node_proxy_error(cx: &RequestContext) -> Status {
    let Some((name, port)) = name_and_port(&cx.scope.path.name) else {
        return Status::bad_request(format!("invalid node request {}", quote(&cx.scope.path.name)));
    };
    let node = match find_node(cx, name) {
        Err(status) => return status,
        Ok(node) if is_simulated(&node) => {
            let why = format!("node {} is simulated: {NO_CONNECTIONS}", quote(name));
            return Status::unavailable(format!("error trying to reach service: {why}"));
        }
        Ok(node) => node,
    };
    match kubelet::address(&node) {
        Err(message) => Status::unclassified(message),
        Ok(address) => {
            let (host, kubelet_port) = address.rsplit_once(':').unwrap_or((&address, ""));
            let ip = host.trim_matches(['[', ']']).parse();
            if ip.is_ok_and(|it| !is_global(it)) {
                return Status::bad_request("address not allowed");
            }
            let port = if port.is_empty() { kubelet_port } else { port };
            unreachable_error(&format!("{host}:{port}"))
        }
    }
}

/// Whether a proxy may connect to an address. Upstream: Go's `IP.IsGlobalUnicast`.
fn is_global(address: IpAddr) -> bool {
    let (is_link_local, is_broadcast) = match address {
        IpAddr::V4(address) => (address.is_link_local(), address.is_broadcast()),
        IpAddr::V6(address) => (address.is_unicast_link_local(), false),
    };
    let is_special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    !is_special && !is_link_local && !is_broadcast
}

fn unreachable_error(address: &str) -> Status {
    let why = dial_error(address);
    Status::unavailable(format!("error trying to reach service: {why}"))
}

/// Parses `name`, `name:port` or `scheme:name:port`; None for anything else.
fn name_and_port(text: &str) -> Option<(&str, &str)> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [name] if !name.is_empty() => Some((name, "")),
        [name, port] if !name.is_empty() => Some((name, port)),
        ["" | "http" | "https", name, port] if !name.is_empty() => Some((name, port)),
        _ => None,
    }
}

/// The object of the resource with this name, which is only a part of the name in the path.
fn find_object(cx: &RequestContext, name: &str) -> Result<Object, Status> {
    let found = cx.scope.served.cache.get(&cx.scope.served.key(cx.scope.namespace(), name));
    found.map(|it| it.object()).ok_or_else(|| Status::not_found(&cx.scope.group_resource(), name))
}

/// The node with this name.
fn find_node(cx: &RequestContext, node: &str) -> Result<Object, Status> {
    let catalog = cx.scope.storage.catalog.load();
    let nodes = catalog.resource("", "nodes");
    let found = nodes.and_then(|it| it.cache.get(&it.key("", node)));
    // Upstream: for a missing node of a pod, the error names the resource `pods`.
    Ok(found.ok_or_else(|| Status::not_found(&cx.scope.group_resource(), node))?.object())
}

/// The message for a pod on a simulated node.
fn simulated_message(pod: &Object, why: &str) -> String {
    let node = pod.str_at(&["spec", "nodeName"]);
    format!("pod {} is simulated (node {}): {why}", quote(pod.name()), quote(node))
}

/// Refuses a request for the log of a container that has not run, or of its former run if there was
/// none. Upstream: `pkg/kubelet/kubelet_pods.go`, `validateContainerLogStatus`.
fn check_log_status(pod: &Object, container: &str, is_previous: bool) -> Result<(), Status> {
    let fields = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let all = fields.iter().filter_map(|field| pod.get(&["status", field])?.as_array());
    let status = all.flatten().find(|it| it["name"] == container);
    let last = status.and_then(|it| it["lastState"]["terminated"]["containerID"].as_str());
    let was_restarted = last.is_some_and(|id| !id.is_empty());
    let what = format!("container {} in pod {}", quote(container), quote(pod.name()));
    if is_previous && !was_restarted {
        return Err(Status::bad_request(format!("previous terminated {what} not found")));
    }
    let waiting = status.and_then(|it| it["state"]["waiting"]["reason"].as_str());
    let why = match waiting {
        Some(reason) if !was_restarted => match reason {
            "ErrImagePull" => "image can't be pulled",
            "ImagePullBackOff" => "trying and failing to pull image",
            reason => reason,
        },
        _ => return Ok(()),
    };
    Err(Status::bad_request(format!("{what} is waiting to start: {why}")))
}

/// The log of a container on a simulated node.
fn simulated_log(pod: &Object, container: &str) -> Response<Body> {
    let why = format!("container {} does not run and has no log", quote(container));
    let mut response = Response::new(Body::from(simulated_message(pod, &why) + "\n"));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response::set_not_cacheable(headers);
    response
}
