//! Attacks by each type of identity: anonymous, a user without rights, and a user with write access
//! to one namespace. No attack delays other users or makes the server retain much memory.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use super::http2::{
    AUTHORIZATION, END_HEADERS, END_STREAM, GET, HEADERS, POST, RawHttp2, ZERO_WINDOW, frame,
    request, streams,
};
use super::{AttackedPlane, COLLECTION, JSON, resident_kib};
use crate::http::Connection;
use crate::plane::Plane;
use machinery::{Value, json};

/// The maximum time that other users wait because of an attack.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The maximum memory that an attack makes the server retain, in KiB.
const RETAINED_MAX: u64 = 200 << 10;

/// The maximum size of a request.
const LARGE: usize = 3 << 20;

const TEAM: &str = "/api/v1/namespaces/team/configmaps";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// The tokens of the attackers.
const IDENTITIES: [Option<&str>; 3] = [None, Some("alice"), Some("writer")];

/// A plane on which `writer` has all rights in the namespace `team`.
fn start() -> AttackedPlane {
    let policy = json!({
        "apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy",
        "spec": {"user": "writer", "namespace": "team", "resource": "*", "apiGroup": "*"},
    });
    let tokens = "alice,alice,1\nbob,bob,2\nwriter,writer,3\n";
    let mut attacked =
        AttackedPlane::of(Plane::with_tokens_and_policies(tokens, &policy.to_string()));
    attacked.send_accepted("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "team"}}));
    attacked
}

/// Two other users who send requests, and the longest time that either has waited.
struct OtherUsers {
    stop: Arc<AtomicBool>,
    work: Vec<thread::JoinHandle<Duration>>,
}

impl OtherUsers {
    fn start(attacked: &AttackedPlane) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let admin = attacked.plane.client();
        let bob = attacked.anonymous_client();
        let work = [(admin, None, COLLECTION), (bob, Some("Bearer bob"), REVIEWS)];
        let work = work.map(|(mut client, bearer, path)| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                let mut longest = Duration::ZERO;
                while !stop.load(Ordering::Relaxed) {
                    let mut headers = vec![("content-type", JSON)];
                    headers.extend(bearer.map(|it| ("authorization", it)));
                    let since = Instant::now();
                    let object = br#"{"metadata":{"generateName":"a-"}}"#;
                    let response = client.exchange("POST", path, &headers, object);
                    let response = response.unwrap();
                    assert_eq!(response.code, 201, "{path}: {}", response.body);
                    longest = longest.max(since.elapsed());
                }
                longest
            })
        });
        Self { stop, work: work.into() }
    }

    fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.work.into_iter().map(|it| it.join().unwrap()).max().unwrap_or_default()
    }
}

/// The longest time that other users wait without an attack, which depends on the machine's load.
fn wait_without_attack(attacked: &AttackedPlane) -> Duration {
    let others = OtherUsers::start(attacked);
    let mut client = attacked.plane.client();
    for _ in 0..200 {
        client.send("GET", "/readyz", None).unwrap();
    }
    others.end()
}

/// Runs the attack with each identity; `attack` returns the connections to keep open meanwhile.
fn attack_by_each_identity<T>(
    what: &str,
    prepare: impl Fn(&mut AttackedPlane),
    attack: impl Fn(&AttackedPlane, Option<&str>) -> T,
) {
    for identity in IDENTITIES {
        let mut attacked = start();
        prepare(&mut attacked);
        let baseline = wait_without_attack(&attacked);
        let before = resident_kib(&attacked.plane);
        let others = OtherUsers::start(&attacked);
        let open = attack(&attacked, identity);
        let waited = others.end();
        let retained = resident_kib(&attacked.plane).saturating_sub(before);
        assert!(
            waited < WAIT_MAX.max(baseline * 4),
            "{what} by {identity:?}: others waited {waited:?}, {baseline:?} without an attack"
        );
        assert!(retained < RETAINED_MAX, "{what} by {identity:?}: {retained} KiB are retained");
        drop(open);
    }
}

/// Sends each body on a separate connection, and waits for all responses.
fn send_all(
    attacked: &AttackedPlane,
    identity: Option<&str>,
    path: &str,
    bodies: &[Vec<u8>],
) -> Vec<Connection> {
    let client = attacked.anonymous_client();
    let mut open: Vec<Connection> = bodies
        .iter()
        .map(|body| {
            let mut connection = client.connect().unwrap();
            let length = body.len();
            let bearer = bearer(identity);
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\n{bearer}content-type: {JSON}\r\ncontent-length: {length}\r\n\r\n"
            );
            // The server may refuse the body before it has arrived.
            let _ = connection.get_mut().write_all(head.as_bytes());
            let _ = connection.get_mut().write_all(body);
            let _ = connection.get_mut().flush();
            connection
        })
        .collect();
    for connection in &mut open {
        // The server may have closed the connection instead.
        let _ = connection.read(&mut [0; 12]);
    }
    open
}

fn bearer(identity: Option<&str>) -> String {
    identity.map(|it| format!("authorization: Bearer {it}\r\n")).unwrap_or_default()
}

/// The number of bytes in a body of [`config_map_with`] besides the value.
const ENVELOPE: usize = 200;

/// A config map with a field in its metadata.
fn config_map_with(field: &str, value: &Value) -> Vec<u8> {
    let name = format!("large-{}", field.to_lowercase());
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, field: value}})
        .to_string()
        .into_bytes()
}

/// A list of as many items as fit into a request.
fn list_of_maximum_size(item: impl Fn(usize) -> Value) -> Value {
    let mut length = ENVELOPE;
    let fits = |item: &Value| {
        length += item.to_string().len() + ",".len();
        length <= LARGE
    };
    (0..).map(item).take_while(fits).collect()
}

/// As many labels as fit into a request.
fn labels_of_maximum_size() -> Value {
    let mut length = ENVELOPE;
    let fits = |key: &String| {
        length += format!("\"{key}\":\"v\",").len();
        length <= LARGE
    };
    let keys = (0..).map(|number| format!("k{number}")).take_while(fits);
    Value::Object(keys.map(|key| (key, json!("v"))).collect())
}

#[test]
fn objects_that_are_expensive_to_decode_delay_no_other_user() {
    let managers = list_of_maximum_size(|number| {
        json!({"manager": format!("m{number}"), "operation": "Update", "apiVersion": "v1",
            "time": "2024-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {format!("f:k{number}"): {}}}})
    });
    let owners = list_of_maximum_size(
        |number| json!({"apiVersion": "v1", "kind": "Pod", "name": format!("p{number}"), "uid": format!("u{number}")}),
    );
    let finalizers = list_of_maximum_size(|number| json!(format!("example.dev/f{number}")));
    let deep = format!("{}{}", "[".repeat(LARGE / 2), "]".repeat(LARGE / 2)).into_bytes();
    let bodies = [
        config_map_with("managedFields", &managers),
        config_map_with("ownerReferences", &owners),
        config_map_with("finalizers", &finalizers),
        config_map_with("labels", &labels_of_maximum_size()),
        deep,
    ];
    for path in [TEAM, REVIEWS] {
        attack_by_each_identity(
            "large objects",
            |_| {},
            |attacked, identity| send_all(attacked, identity, path, &bodies),
        );
    }
}

#[test]
fn missing_bodies_delay_no_other_user() {
    for path in [TEAM, REVIEWS] {
        attack_by_each_identity(
            "missing bodies",
            |_| {},
            |attacked, identity| {
                let value = identity.map(|it| format!("Bearer {it}"));
                let headers: Vec<_> = value.iter().map(|it| (AUTHORIZATION, it.as_str())).collect();
                let post = request(POST, path, &headers);
                let open = |_| {
                    let mut raw = RawHttp2::connect_anonymously(attacked, &[]);
                    let requests: Vec<u8> = streams(100)
                        .flat_map(|it| frame(HEADERS, END_HEADERS, it, &post))
                        .collect();
                    // The server may have closed the connection.
                    let _ = raw.send(&requests);
                    raw
                };
                (0..5).map(open).collect::<Vec<_>>()
            },
        );
    }
}

#[test]
fn incomplete_bodies_delay_no_other_user() {
    let half = vec![b' '; LARGE - 1];
    for path in [TEAM, REVIEWS] {
        attack_by_each_identity(
            "incomplete bodies",
            |_| {},
            |attacked, identity| {
                let client = attacked.anonymous_client();
                let open = |_| {
                    let mut connection = client.connect().unwrap();
                    let bearer = bearer(identity);
                    let head = format!(
                        "POST {path} HTTP/1.1\r\nhost: x\r\n{bearer}content-length: {LARGE}\r\n\r\n"
                    );
                    let _ = connection.get_mut().write_all(head.as_bytes());
                    let _ = connection.get_mut().write_all(&half);
                    connection
                };
                (0..60).map(open).collect::<Vec<_>>()
            },
        );
    }
}

#[test]
fn unread_responses_delay_no_other_user() {
    let data = "x".repeat(100_000);
    let fill = |attacked: &mut AttackedPlane| {
        for name in 0..50 {
            let object = json!({"metadata": {"name": format!("a{name}")}, "data": {"k": data}});
            attacked.send_accepted("POST", TEAM, &object);
        }
    };
    for path in [TEAM, "/openapi/v2", "/apis"] {
        attack_by_each_identity("unread responses", fill, |attacked, identity| {
            let value = identity.map(|it| format!("Bearer {it}"));
            let headers: Vec<_> = value.iter().map(|it| (AUTHORIZATION, it.as_str())).collect();
            let get = request(GET, path, &headers);
            let open = |_| {
                let mut raw = RawHttp2::connect_anonymously(attacked, &ZERO_WINDOW);
                let flags = END_STREAM | END_HEADERS;
                let requests: Vec<u8> =
                    streams(100).flat_map(|it| frame(HEADERS, flags, it, &get)).collect();
                let _ = raw.send(&requests);
                raw
            };
            (0..5).map(open).collect::<Vec<_>>()
        });
    }
}

/// A config map of about a megabyte.
fn megabyte(number: usize, letter: &str) -> Value {
    let data = letter.repeat(1 << 20);
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("a{number}")},
        "data": {"k": data}})
}

#[test]
fn unread_lists_do_not_retain_replaced_objects() {
    let attacked = start();
    let before = resident_kib(&attacked.plane);
    let bearer = "Bearer writer";
    let headers = [("authorization", bearer), ("content-type", JSON)];
    let get = request(GET, TEAM, &[(AUTHORIZATION, bearer)]);
    let mut client = attacked.anonymous_client();
    let mut open = Vec::new();
    for round in 0..36 {
        for number in 0..12 {
            let object = megabyte(number, if round % 2 == 0 { "x" } else { "y" }).to_string();
            let (method, path) = match round {
                0 => ("POST", TEAM.to_owned()),
                _ => ("PUT", format!("{TEAM}/a{number}")),
            };
            let response = client.exchange(method, &path, &headers, object.as_bytes()).unwrap();
            assert!(response.code < 300, "{}", response.body);
        }
        let mut raw = RawHttp2::connect_anonymously(&attacked, &ZERO_WINDOW);
        raw.send(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &get)).unwrap();
        open.push(raw);
    }
    // The history, the unread lists of one user, the objects themselves, and the overhead of the
    // allocator.
    let retained = resident_kib(&attacked.plane).saturating_sub(before);
    let limit = (128 + 64 + 12 + 120) << 10;
    assert!(retained < limit, "{retained} KiB are retained");
    drop(open);
    assert_eq!(attacked.plane.client().send("GET", "/readyz", None).unwrap().0, 200);
}

#[test]
fn tables_of_large_objects_delay_no_other_user() {
    let fill = |attacked: &mut AttackedPlane| {
        for number in 0..40 {
            attacked.send_accepted("POST", TEAM, &megabyte(number, "x"));
        }
    };
    let media_types = [
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/vnd.kubernetes.protobuf",
        "application/yaml",
    ];
    attack_by_each_identity("tables", fill, |attacked, identity| {
        let value = identity.map(|it| format!("Bearer {it}"));
        let mut client = attacked.anonymous_client();
        for media_type in media_types {
            let mut headers = vec![("accept", media_type)];
            headers.extend(value.iter().map(|it| ("authorization", it.as_str())));
            client.exchange("GET", TEAM, &headers, b"").unwrap();
        }
    });
}

#[test]
fn unknown_names_delay_no_other_user() {
    let name = "x".repeat(30_000);
    attack_by_each_identity(
        "unknown names",
        |_| {},
        |attacked, identity| {
            let mut client = attacked.anonymous_client();
            let value = identity.map(|it| format!("Bearer {it}"));
            for number in 0..1000 {
                let path =
                    format!("/apis/{number}{name}/v1/namespaces/team/{number}{name}?timeout=x");
                let headers: Vec<_> =
                    value.iter().map(|it| ("authorization", it.as_str())).collect();
                assert_ne!(client.exchange("GET", &path, &headers, b"").unwrap().code, 200);
            }
        },
    );
}
