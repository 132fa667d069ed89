//! Invalid input and hostile clients: the response is that of Kubernetes, other clients are served,
//! and the plane neither crashes nor uses much more memory.

mod bodies;
mod floods;
mod nesting;
mod paths;
mod queries;
mod long_queries;
mod identities;
mod three_identities;
mod connections;
mod half_open;
mod slow_clients;
mod http2;
mod unread_responses;
mod unsent_bodies;
mod unknown_names;
mod stalled_watchers;
mod overload;
mod schemas;
mod faulty_servers;

use std::fs;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::time::Instant;

use crate::http::{Client, Credentials, Response};
use crate::plane::Plane;
use machinery::Value;

/// The collection that most attacks use.
const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// The limit of additional memory after an attack, in KiB.
const GROWTH_MAX: u64 = 150 << 10;

/// The limit of waiting for a state.
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// A CRD of the cluster-scoped kind Trap with a schema.
fn traps(schema: &Value) -> Value {
    machinery::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "traps.hostile.example.dev"},
        "spec": {
            "group": "hostile.example.dev", "scope": "Cluster",
            "names": {"plural": "traps", "kind": "Trap"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// A plane under attack, and one of its clients.
struct AttackedPlane {
    plane: Plane,
    client: Client,
    /// The resident memory before the attack, in KiB.
    before: u64,
}

impl AttackedPlane {
    fn start() -> Self {
        Self::of(Plane::in_memory())
    }

    /// Starts a plane with the users alice and bob, who have no rights; their tokens are their names.
    fn start_with_users() -> Self {
        Self::of(Plane::with_tokens("alice,alice,1\nbob,bob,2\n"))
    }

    fn of(plane: Plane) -> Self {
        let mut client = plane.client();
        assert_eq!(client.send("GET", "/readyz", None).unwrap().0, 200);
        let before = resident_kib(&plane);
        Self { plane, client, before }
    }

    /// A client with another TLS configuration.
    fn client_with(&self, tls: impl FnOnce(&Credentials) -> ClientConfig) -> Client {
        Client::with_tls(&self.plane.url, tls(&Credentials::read(&self.plane.kubeconfig)))
    }

    /// A client without a certificate.
    fn anonymous_client(&self) -> Client {
        self.client_with(Credentials::anonymous_tls)
    }

    /// Sends a body of a media type.
    fn send(&mut self, method: &str, path: &str, media: &str, body: &[u8]) -> Response {
        self.client.exchange(method, path, &[("content-type", media)], body).unwrap()
    }

    /// Sends an object and expects success.
    fn send_accepted(&mut self, method: &str, path: &str, object: &Value) -> Value {
        let (code, response) = self.client.send(method, path, Some(object)).unwrap();
        assert!(code < 300, "{method} {path}: {code} {response}");
        response
    }

    /// Creates a CRD and waits until its kind is served.
    fn create_crd(&mut self, crd: &Value) {
        self.send_accepted("POST", CRDS, crd);
        let path = format!("{CRDS}/{}", crd["metadata"]["name"].as_str().unwrap());
        self.until(&path, |crd| {
            crd["status"]["conditions"].as_array().is_some_and(|it| {
                it.iter().any(|it| it["type"] == "Established" && it["status"] == "True")
            })
        });
    }

    /// Reads an object repeatedly until it meets a condition.
    fn until(&mut self, path: &str, condition: impl Fn(&Value) -> bool) {
        let since = Instant::now();
        loop {
            let (_, object) = self.client.send("GET", path, None).unwrap();
            if condition(&object) {
                return;
            }
            assert!(since.elapsed() < WAIT_TIMEOUT, "{path} is still {object}");
        }
    }

    /// Checks that the plane responds, accepts objects, and does not use much more memory.
    fn assert_healthy(mut self) {
        // The old connection was idle during the attack, and is closed after a long one.
        self.client = self.plane.client();
        let (code, response) = self.client.send("GET", "/readyz", None).unwrap();
        assert_eq!((code, response.as_str()), (200, Some("ok")));
        let object = machinery::json!({"metadata": {"generateName": "after-"}});
        self.send_accepted("POST", COLLECTION, &object);
        let after = resident_kib(&self.plane);
        assert!(after < self.before + GROWTH_MAX, "from {} to {after} KiB", self.before);
        assert_eq!(self.plane.process.try_wait().unwrap(), None, "the plane has ended");
    }
}

/// The resident memory of a plane, in KiB.
fn resident_kib(plane: &Plane) -> u64 {
    memory(plane, "VmRSS:")
}

/// A memory figure of a plane's process in `/proc`, in KiB.
fn memory(plane: &Plane, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", plane.process.id())).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Checks the code and the reason of an error response, and returns its message.
#[track_caller]
fn refusal(response: &Response, code: u16, reason: &str) -> String {
    let found = response.body["reason"].as_str().unwrap_or_default();
    assert_eq!((response.code, found), (code, reason), "{}", response.body);
    assert_eq!(response.body["code"], code, "{}", response.body);
    assert_eq!(response.body["status"], "Failure", "{}", response.body);
    response.body["message"].as_str().unwrap().to_owned()
}

/// Checks the code, the reason and the message of an error response.
#[track_caller]
fn assert_refused(response: &Response, code: u16, reason: &str, message: &str) {
    assert_eq!(refusal(response, code, reason), message);
}
