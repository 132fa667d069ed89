//! Every attack, by each identity that an attacker may have: nobody, a user without rights, and a
//! user who may write in one namespace. None of them makes another user wait or the server keep
//! much.

use super::http2::{
    AUTHORIZATION, END_HEADERS, END_STREAM, HEADERS, Rude, SHUT, frame, request, streams,
};
use super::{COLLECTION, JSON, Siege, resident};
use crate::http::Connection;
use crate::plane::Plane;
use machinery::{Value, json};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tokio::time::Instant;

/// Nobody waits longer than this because of somebody else.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The server keeps no more than this, in KiB, because of one attack.
const KEPT_MAX: u64 = 200 << 10;

/// Requests of the largest size that is read.
const LARGE: usize = 3 << 20;

const TEAM: &str = "/api/v1/namespaces/team/configmaps";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// The identities of attackers: their tokens.
const IDENTITIES: [Option<&str>; 3] = [None, Some("alice"), Some("writer")];

/// A plane on which `writer` may do everything in the namespace `team`.
fn begin() -> Siege {
    let policy = json!({
        "apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy",
        "spec": {"user": "writer", "namespace": "team", "resource": "*", "apiGroup": "*"},
    });
    let tokens = "alice,alice,1\nbob,bob,2\nwriter,writer,3\n";
    let mut siege = Siege::of(Plane::with_tokens_and_policies(tokens, &policy.to_string()));
    siege.accepted("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "team"}}));
    siege
}

/// Two other users at work, and the longest that either of them has waited.
struct Others {
    stop: Arc<AtomicBool>,
    work: Vec<thread::JoinHandle<Duration>>,
}

impl Others {
    fn begin(siege: &Siege) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let admin = siege.plane.client();
        let bob = siege.stranger();
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
                    let answer = client.exchange("POST", path, &headers, object);
                    let answer = answer.unwrap();
                    assert_eq!(answer.code, 201, "{path}: {}", answer.body);
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

/// The longest that others wait while nobody attacks: a busy machine is not the attacker's doing.
fn wait_in_peace(siege: &Siege) -> Duration {
    let others = Others::begin(siege);
    let mut client = siege.plane.client();
    for _ in 0..200 {
        client.send("GET", "/readyz", None).unwrap();
    }
    others.end()
}

/// Has each identity attack; `attack` returns what must stay open meanwhile.
fn besiege<T>(
    what: &str,
    prepare: impl Fn(&mut Siege),
    attack: impl Fn(&Siege, Option<&str>) -> T,
) {
    for identity in IDENTITIES {
        let mut siege = begin();
        prepare(&mut siege);
        let peace = wait_in_peace(&siege);
        let before = resident(&siege.plane);
        let others = Others::begin(&siege);
        let open = attack(&siege, identity);
        let waited = others.end();
        let kept = resident(&siege.plane).saturating_sub(before);
        assert!(
            waited < WAIT_MAX.max(peace * 4),
            "{what} by {identity:?}: others waited {waited:?}, in peace {peace:?}"
        );
        assert!(kept < KEPT_MAX, "{what} by {identity:?}: {kept} KiB are kept");
        drop(open);
    }
}

/// Sends the bodies on connections of their own, and waits until all are answered.
fn send_all(
    siege: &Siege,
    identity: Option<&str>,
    path: &str,
    bodies: &[Vec<u8>],
) -> Vec<Connection> {
    let client = siege.stranger();
    let mut open: Vec<Connection> = bodies
        .iter()
        .map(|body| {
            let mut connection = client.connect().unwrap();
            let length = body.len();
            let bearer = bearer(identity);
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\n{bearer}content-type: {JSON}\r\ncontent-length: {length}\r\n\r\n"
            );
            // The server may refuse it before it is all there.
            let _ = connection.get_mut().write_all(head.as_bytes());
            let _ = connection.get_mut().write_all(body);
            let _ = connection.get_mut().flush();
            connection
        })
        .collect();
    for connection in &mut open {
        // The server may have closed it instead.
        let _ = connection.read(&mut [0; 12]);
    }
    open
}

fn bearer(identity: Option<&str>) -> String {
    identity.map(|it| format!("authorization: Bearer {it}\r\n")).unwrap_or_default()
}

/// A config map with as many of the items that `item` makes as fit into a request.
fn full(field: &str, item: impl Fn(usize) -> Value) -> Vec<u8> {
    let mut items = Vec::new();
    let mut length = 200;
    for number in 0.. {
        let item = item(number);
        length += item.to_string().len() + 1;
        if length > LARGE {
            break;
        }
        items.push(item);
    }
    let name = format!("large-{}", field.to_lowercase());
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, field: items}})
        .to_string()
        .into_bytes()
}

#[test]
fn objects_that_are_dear_to_read_hold_up_nobody() {
    let managers = full("managedFields", |number| {
        json!({"manager": format!("m{number}"), "operation": "Update", "apiVersion": "v1",
            "time": "2024-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {format!("f:k{number}"): {}}}})
    });
    let owners = full(
        "ownerReferences",
        |number| json!({"apiVersion": "v1", "kind": "Pod", "name": format!("p{number}"), "uid": format!("u{number}")}),
    );
    let finalizers = full("finalizers", |number| json!(format!("example.dev/f{number}")));
    let deep = format!("{}{}", "[".repeat(LARGE / 2), "]".repeat(LARGE / 2)).into_bytes();
    let wide = full("labels", |number| json!({format!("k{number}"): "v"}));
    let bodies = [managers, owners, finalizers, deep, wide];
    for path in [TEAM, REVIEWS] {
        besiege(
            "large objects",
            |_| {},
            |siege, identity| send_all(siege, identity, path, &bodies),
        );
    }
}

#[test]
fn bodies_that_do_not_come_hold_up_nobody() {
    for path in [TEAM, REVIEWS] {
        besiege(
            "missing bodies",
            |_| {},
            |siege, identity| {
                let value = identity.map(|it| format!("Bearer {it}"));
                let headers: Vec<_> = value.iter().map(|it| (AUTHORIZATION, it.as_str())).collect();
                let post = request(3, path, &headers);
                let open = |_| {
                    let mut rude = Rude::connect_as_stranger(siege, &[]);
                    let requests: Vec<u8> = streams(100)
                        .flat_map(|it| frame(HEADERS, END_HEADERS, it, &post))
                        .collect();
                    // The server may have had enough of it.
                    let _ = rude.send(&requests);
                    rude
                };
                (0..5).map(open).collect::<Vec<_>>()
            },
        );
    }
}

#[test]
fn halves_of_bodies_hold_up_nobody() {
    let half = vec![b' '; LARGE - 1];
    for path in [TEAM, REVIEWS] {
        besiege(
            "halves of bodies",
            |_| {},
            |siege, identity| {
                let client = siege.stranger();
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
fn answers_that_are_not_read_hold_up_nobody() {
    let data = "x".repeat(100_000);
    let fill = |siege: &mut Siege| {
        for name in 0..50 {
            let object = json!({"metadata": {"name": format!("a{name}")}, "data": {"k": data}});
            siege.accepted("POST", TEAM, &object);
        }
    };
    for path in [TEAM, "/openapi/v2", "/apis"] {
        besiege("unread answers", fill, |siege, identity| {
            let value = identity.map(|it| format!("Bearer {it}"));
            let headers: Vec<_> = value.iter().map(|it| (AUTHORIZATION, it.as_str())).collect();
            let get = request(2, path, &headers);
            let open = |_| {
                let mut rude = Rude::connect_as_stranger(siege, &SHUT);
                let flags = END_STREAM | END_HEADERS;
                let requests: Vec<u8> =
                    streams(100).flat_map(|it| frame(HEADERS, flags, it, &get)).collect();
                let _ = rude.send(&requests);
                rude
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
fn lists_that_are_not_read_do_not_keep_what_has_changed() {
    let siege = begin();
    let before = resident(&siege.plane);
    let bearer = "Bearer writer";
    let headers = [("authorization", bearer), ("content-type", JSON)];
    let get = request(2, TEAM, &[(AUTHORIZATION, bearer)]);
    let mut client = siege.stranger();
    let mut open = Vec::new();
    for round in 0..36 {
        for number in 0..12 {
            let object = megabyte(number, if round % 2 == 0 { "x" } else { "y" }).to_string();
            let (method, path) = match round {
                0 => ("POST", TEAM.to_owned()),
                _ => ("PUT", format!("{TEAM}/a{number}")),
            };
            let answer = client.exchange(method, &path, &headers, object.as_bytes()).unwrap();
            assert!(answer.code < 300, "{}", answer.body);
        }
        let mut rude = Rude::connect_as_stranger(&siege, &SHUT);
        rude.send(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &get)).unwrap();
        open.push(rude);
    }
    // The history, the lists of one user that are not read, the objects themselves, and what the
    // allocator needs besides.
    let kept = resident(&siege.plane).saturating_sub(before);
    let limit = (128 + 64 + 12 + 120) << 10;
    assert!(kept < limit, "{kept} KiB are kept");
    drop(open);
    assert_eq!(siege.plane.client().send("GET", "/readyz", None).unwrap().0, 200);
}

#[test]
fn tables_of_large_objects_hold_up_nobody() {
    let fill = |siege: &mut Siege| {
        for number in 0..40 {
            siege.accepted("POST", TEAM, &megabyte(number, "x"));
        }
    };
    let forms = [
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/vnd.kubernetes.protobuf",
        "application/yaml",
    ];
    besiege("tables", fill, |siege, identity| {
        let value = identity.map(|it| format!("Bearer {it}"));
        let mut client = siege.stranger();
        for form in forms {
            let mut headers = vec![("accept", form)];
            headers.extend(value.iter().map(|it| ("authorization", it.as_str())));
            client.exchange("GET", TEAM, &headers, b"").unwrap();
        }
    });
}

#[test]
fn names_that_are_made_up_hold_up_nobody() {
    let name = "x".repeat(30_000);
    besiege(
        "made-up names",
        |_| {},
        |siege, identity| {
            let mut client = siege.stranger();
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
