//! Bad input and hostile clients: whatever comes in, the answer is the one that Kubernetes gives,
//! everybody else is served, and the plane neither dies nor swells.

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
mod unread_answers;
mod unsent_bodies;
mod made_up_names;
mod stalled_watchers;
mod schemas;
mod neighbors;

use crate::http::{Answer, Client, Credentials};
use crate::plane::Plane;
use machinery::Value;
use rustls::ClientConfig;
use std::fs;
use std::time::Duration;
use tokio::time::Instant;

/// What most attacks aim at.
const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// So much more memory, in KiB, may be in use after an attack.
const GROWTH_MAX: u64 = 150 << 10;

/// What has not come by then does not come.
const PATIENCE: Duration = Duration::from_mins(1);

/// A definition of a kind Trap, whose objects have no namespace, with this schema.
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

/// A plane that is attacked, and one of its clients.
struct Siege {
    plane: Plane,
    client: Client,
    before: u64,
}

impl Siege {
    fn begin() -> Self {
        Self::of(Plane::in_memory())
    }

    /// The same for a plane that knows alice and bob, who have no rights, by their names as tokens.
    fn begin_with_users() -> Self {
        Self::of(Plane::with_tokens("alice,alice,1\nbob,bob,2\n"))
    }

    fn of(plane: Plane) -> Self {
        let mut client = plane.client();
        assert_eq!(client.send("GET", "/readyz", None).unwrap().0, 200);
        let before = resident(&plane);
        Self { plane, client, before }
    }

    /// A client whose TLS is not the usual one.
    fn client_with(&self, tls: impl FnOnce(&Credentials) -> ClientConfig) -> Client {
        Client::with_tls(&self.plane.url, tls(&Credentials::read(&self.plane.kubeconfig)))
    }

    /// A client without a certificate.
    fn stranger(&self) -> Client {
        self.client_with(Credentials::anonymous_tls)
    }

    /// Sends a body of a media type.
    fn send(&mut self, method: &str, path: &str, media: &str, body: &[u8]) -> Answer {
        self.client.exchange(method, path, &[("content-type", media)], body).unwrap()
    }

    /// Sends an object and expects it to be taken.
    fn accepted(&mut self, method: &str, path: &str, object: &Value) -> Value {
        let (code, answer) = self.client.send(method, path, Some(object)).unwrap();
        assert!(code < 300, "{method} {path}: {code} {answer}");
        answer
    }

    /// Creates a definition and waits until its kind is served.
    fn define(&mut self, definition: &Value) {
        self.accepted("POST", DEFINITIONS, definition);
        let path = format!("{DEFINITIONS}/{}", definition["metadata"]["name"].as_str().unwrap());
        self.until(&path, |definition| {
            definition["status"]["conditions"].as_array().is_some_and(|it| {
                it.iter().any(|it| it["type"] == "Established" && it["status"] == "True")
            })
        });
    }

    /// Reads an object again and again until it is as it should be.
    fn until(&mut self, path: &str, wanted: impl Fn(&Value) -> bool) {
        let since = Instant::now();
        loop {
            let (_, object) = self.client.send("GET", path, None).unwrap();
            if wanted(&object) {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{path} is still {object}");
        }
    }

    /// The plane is well: it answers, takes objects, and has not grown much.
    fn survived(mut self) {
        // The old connection was idle while others attacked, and is closed if that took long.
        self.client = self.plane.client();
        let (code, answer) = self.client.send("GET", "/readyz", None).unwrap();
        assert_eq!((code, answer.as_str()), (200, Some("ok")));
        let object = machinery::json!({"metadata": {"generateName": "after-"}});
        self.accepted("POST", COLLECTION, &object);
        let after = resident(&self.plane);
        assert!(after < self.before + GROWTH_MAX, "from {} to {after} KiB", self.before);
        assert_eq!(self.plane.process.try_wait().unwrap(), None, "it has ended");
    }
}

/// The memory that a plane uses, in KiB.
fn resident(plane: &Plane) -> u64 {
    memory(plane, "VmRSS:")
}

/// A line about memory of what the kernel says of a plane's process, in KiB.
fn memory(plane: &Plane, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", plane.process.id())).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// An answer is a failure with this code and reason; how it is worded is given back.
#[track_caller]
fn refusal(answer: &Answer, code: u16, reason: &str) -> String {
    let found = answer.body["reason"].as_str().unwrap_or_default();
    assert_eq!((answer.code, found), (code, reason), "{}", answer.body);
    assert_eq!(answer.body["code"], code, "{}", answer.body);
    assert_eq!(answer.body["status"], "Failure", "{}", answer.body);
    answer.body["message"].as_str().unwrap().to_owned()
}

/// The same with the exact words.
#[track_caller]
fn assert_refused(answer: &Answer, code: u16, reason: &str, message: &str) {
    assert_eq!(refusal(answer, code, reason), message);
}
