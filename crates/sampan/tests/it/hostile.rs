//! Bad input and hostile clients: whatever comes in, the answer is the one that Kubernetes gives,
//! everybody else is served, and the plane neither dies nor swells.

mod bodies;
mod floods;
mod nesting;
mod paths;
mod queries;
mod identities;
mod connections;
mod slow_clients;
mod http2;
mod stalled_watchers;

use crate::http::{Answer, Client, Credentials};
use crate::plane::Plane;
use machinery::Value;
use rustls::ClientConfig;
use std::fs;

/// What most attacks aim at.
const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// So much more memory, in KiB, may be in use after an attack.
const GROWTH_MAX: u64 = 150 << 10;

/// A plane that is attacked, and one of its clients.
struct Siege {
    plane: Plane,
    client: Client,
    before: u64,
}

impl Siege {
    fn begin() -> Self {
        let plane = Plane::in_memory();
        let mut client = plane.client();
        assert_eq!(client.send("GET", "/readyz", None).unwrap().0, 200);
        let before = resident(&plane);
        Self { plane, client, before }
    }

    /// A client whose TLS is not the usual one.
    fn client_with(&self, tls: impl FnOnce(&Credentials) -> ClientConfig) -> Client {
        Client::with_tls(&self.plane.url, tls(&Credentials::read(&self.plane.kubeconfig)))
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

    /// The plane is well: it answers, takes objects, and has not grown much.
    fn survived(mut self) {
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
    let status = fs::read_to_string(format!("/proc/{}/status", plane.process.id())).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
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
