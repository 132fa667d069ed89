//! [`MetricsApi`]: metrics.k8s.io/v1beta1 for simulated pods and nodes, as metrics-server serves it
//! for real ones. `kubectl top` and the autoscaler read it.
//!
//! It is an aggregated API whose service is a function of this process:
//!
//! ```text
//! request ─▶ API server: authentication, authorization ─▶ APIService v1beta1.metrics.k8s.io
//!              its service is kube-system/simulated-metrics ─▶ MetricsApi::respond
//!              another service, such as a real metrics-server ─▶ proxied to that
//! ```
//!
//! The controller `resource-metrics-controller` gives it the caches of pods and nodes, and creates
//! the `APIService` when there is none: at once when it starts, and some seconds after a user has
//! deleted it. So a user's own `APIService` replaces it for as long as that exists.
//!
//! Reads pods and nodes. Writes that `APIService`, and the role with which people may read metrics.
//! See [`usage`] for the numbers.

mod openapi;
mod table;
pub(crate) mod usage;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, Request as HttpRequest, Response};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use percent_encoding::percent_decode_str;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::api_requests;
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use keel::{Clock, ClockInstant, Offload};
use machinery::PolicyRule;
use machinery::selector::LabelSelector;
use runtime::informer::ObjectEvent;
use runtime::{Action, Client, Controller, Failure, Lister, Predicate, Request};
use usage::UsageSource;

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "resource-metrics-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("resource-metrics-controller"),
    rules: &[
        PolicyRule::new(&["apiregistration.k8s.io"], &["apiservices"], &["create"]),
        // The right to grant what the controller itself may not do. The name of an object that is
        // created is not part of the check, so the rule cannot name the role.
        PolicyRule::new(&["rbac.authorization.k8s.io"], &["clusterroles"], &["create", "escalate"]),
    ],
    start,
};

/// The name of the role with which people may read metrics.
const READER_ROLE: &str = "system:aggregated-metrics-reader";

/// The name of the `APIService`.
const API_SERVICE: &str = "v1beta1.metrics.k8s.io";

/// The path of the group version.
const ROOT: &str = "/apis/metrics.k8s.io/v1beta1";

/// See the [module documentation](self). Clones are the same API; it answers 503 until the
/// controller has started.
#[derive(Clone, Default)]
pub struct MetricsApi {
    /// That of the controller that was started last.
    source: Arc<Mutex<Option<Arc<UsageSource>>>>,
}

impl MetricsApi {
    /// The namespace and the name of the service, for the API server.
    pub const SERVICE: (&'static str, &'static str) = ("kube-system", "simulated-metrics");

    /// Answers a request, which is already authorized.
    pub async fn respond(&self, request: HttpRequest<Bytes>) -> Response<Bytes> {
        if request.method() != Method::GET {
            let message = "the server does not allow this method on the requested resource";
            return failure(405, "MethodNotAllowed", message);
        }
        let path = request.uri().path();
        match path {
            ROOT => return json_response(200, &openapi::resource_list()),
            "/openapi/v3" => return json_response(200, &openapi::index()),
            openapi::PATH => return json_response(200, &openapi::document()),
            _ => {}
        }
        let source = self.lock().clone();
        let Some(source) = source else {
            return failure(503, "ServiceUnavailable", "the metrics are not available yet");
        };
        let below = path.strip_prefix(ROOT).map(|path| path.trim_start_matches('/'));
        let segments: Vec<&str> = below.map(|path| path.split('/').collect()).unwrap_or_default();
        let query = request.uri().query().unwrap_or_default();
        let selector = match LabelSelector::parse(&parameter(query, "labelSelector")) {
            Ok(selector) => selector,
            Err(message) => return failure(400, "BadRequest", &message),
        };
        let found = source.offloaded(async { find(&source, &segments, &selector) }).await;
        let found = match found {
            Ok(found) => found,
            Err(message) => return failure(404, "NotFound", &message),
        };
        let accept = request.headers().get(ACCEPT).and_then(|it| it.to_str().ok());
        if table::is_accepted(accept.unwrap_or_default()) {
            return json_response(200, &table::table(&found));
        }
        json_response(200, &found)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<UsageSource>>> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for MetricsApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MetricsApi")
    }
}

/// The metrics at a path; an error is the message that there are none.
fn find(
    source: &UsageSource,
    segments: &[&str],
    selector: &LabelSelector,
) -> Result<Value, String> {
    let no = |resource: &str, name: &str| format!("{resource}.metrics.k8s.io {name:?} not found");
    match *segments {
        ["nodes"] => Ok(list("NodeMetricsList", source.nodes(selector))),
        ["nodes", name] => source.node(name).ok_or_else(|| no("nodes", name)),
        ["pods"] => Ok(list("PodMetricsList", source.pods(None, selector))),
        ["namespaces", namespace, "pods"] => {
            Ok(list("PodMetricsList", source.pods(Some(namespace), selector)))
        }
        ["namespaces", namespace, "pods", name] => {
            source.pod(namespace, name).ok_or_else(|| no("pods", name))
        }
        _ => Err("the server could not find the requested resource".to_owned()),
    }
}

fn list(kind: &str, items: Vec<Value>) -> Value {
    let mut list = json!({"kind": kind, "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}});
    list["items"] = Value::Array(items);
    list
}

/// The decoded value of a query parameter; empty if there is none.
fn parameter(query: &str, name: &str) -> String {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.find(|(key, _)| *key == name).map_or("", |(_, value)| value);
    percent_decode_str(&value.replace('+', " ")).decode_utf8_lossy().into_owned()
}

fn json_response(code: u16, body: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn failure(code: u16, reason: &str, message: &str) -> Response<Bytes> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    json_response(code, &status)
}

/// The time after the deletion of the `APIService`, in which a user may create another one.
const RESTORE_DELAY: Duration = Duration::from_secs(5);

/// Creates the `APIService`, and the role with which `view`, `edit` and `admin` include its reads.
struct Registration {
    client: Client,
    api_services: Lister<Value>,
    clock: Clock,
    was_registered: AtomicBool,
    /// When it was found to be missing.
    missing_since: Mutex<Option<ClockInstant>>,
}

impl Registration {
    /// The rest of the delay, counted from the first call without an `APIService`. There is none when
    /// the plane starts.
    fn rest_of_delay(&self) -> Duration {
        if !self.was_registered.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let mut missing_since = self.missing_since.lock().unwrap_or_else(PoisonError::into_inner);
        let since = missing_since.get_or_insert_with(|| self.clock.instant());
        RESTORE_DELAY.saturating_sub(self.clock.elapsed_since(since))
    }

    fn registered(&self) {
        self.was_registered.store(true, Ordering::Relaxed);
        *self.missing_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn start(cx: &ControllerContext) {
    let source = UsageSource {
        clock: cx.clock().clone(),
        pods: cx.pods(),
        nodes: cx.manager.informer::<Node>().lister(),
        offload: Offload::for_half_of_the_processors(),
    };
    *cx.options.metrics_api.lock() = Some(Arc::new(source));
    let registration = Registration {
        client: cx.client.clone(),
        api_services: cx.manager.informer::<APIService>().lister(),
        clock: cx.clock().clone(),
        was_registered: AtomicBool::new(false),
        missing_since: Mutex::default(),
    };
    let (sender, at_start) = mpsc::channel(1);
    let _ = sender.try_send(Request::new("", API_SERVICE));
    let is_deletion = |event: &ObjectEvent| {
        matches!(event, ObjectEvent::Deleted { .. }) && event.item().name() == API_SERVICE
    };
    let controller = Controller::for_::<APIService>()
        .named(cx.name)
        .when(Predicate::custom(is_deletion))
        .channel(at_start)
        .workers(1)
        .reconcile(register, registration);
    cx.manager.add(controller);
}

async fn register(request: Request, cx: Arc<Registration>) -> Result<Action, Failure> {
    // Also beside an `APIService` of the user, or of an earlier version.
    create(&cx.client, "/apis/rbac.authorization.k8s.io/v1/clusterroles", &reader_role()).await?;
    if cx.api_services.indexer().get(&request).is_some() {
        cx.registered();
        return Ok(Action::Done);
    }
    let delay = cx.rest_of_delay();
    if !delay.is_zero() {
        return Ok(Action::RequeueAfter(delay));
    }
    let (namespace, name) = MetricsApi::SERVICE;
    let object = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": API_SERVICE},
        "spec": {
            "group": "metrics.k8s.io", "version": "v1beta1",
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"namespace": namespace, "name": name},
            // There is no connection.
            "insecureSkipTLSVerify": true,
        },
    });
    create(&cx.client, "/apis/apiregistration.k8s.io/v1/apiservices", &object).await?;
    cx.registered();
    Ok(Action::Done)
}

/// Creates an object, unless it exists.
async fn create(client: &Client, path: &str, object: &Value) -> api_requests::Result<()> {
    match api_requests::create::<IgnoredAny>(client, path, object).await {
        Err(error) if !api_requests::has_code(&error, 409) => Err(error),
        _ => Ok(()),
    }
}

/// The role that the manifest of metrics-server has.
fn reader_role() -> Value {
    let aggregated = ["view", "edit", "admin"]
        .map(|role| (format!("rbac.authorization.k8s.io/aggregate-to-{role}"), "true"));
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {
            "name": READER_ROLE, "labels": BTreeMap::from(aggregated),
        },
        "rules": [{
            "apiGroups": ["metrics.k8s.io"], "resources": ["pods", "nodes"],
            "verbs": ["get", "list", "watch"],
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_parameters_are_decoded() {
        let query = "limit=5&labelSelector=app%3Dweb%2Ctier+in+%28a%2Cb%29";
        assert_eq!(parameter(query, "labelSelector"), "app=web,tier in (a,b)");
        assert_eq!(parameter(query, "fieldSelector"), "");
    }

    #[tokio::test]
    async fn before_the_start_only_documents_are_served() {
        let api = MetricsApi::default();
        let code = |path: &str| {
            let request = HttpRequest::get(path).body(Bytes::new()).unwrap();
            let response = api.respond(request);
            async { response.await.status().as_u16() }
        };
        assert_eq!(code("/apis/metrics.k8s.io/v1beta1").await, 200);
        assert_eq!(code("/apis/metrics.k8s.io/v1beta1/nodes").await, 503);
    }
}
