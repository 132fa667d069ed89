//! Measures the deletion of many dependents and of a full namespace, on a server in the same process
//! that writes to disk.
//!
//! ```text
//! cargo run --release -p sampan-controllers --example deletion_speed [number of objects]
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a measurement ends with a panic, and prints its results"
)]

#[path = "../tests/it/crash.rs"]
#[allow(dead_code, reason = "only tests use it")]
mod crash;
#[path = "../tests/it/plane.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod plane;

use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::time::Instant;

use plane::Plane;
use testenv::TestEnv;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CUSTOM_KINDS: usize = 45;
const BUILT_IN: [&str; 5] = [
    "/api/v1/namespaces/full/configmaps",
    "/api/v1/namespaces/full/secrets",
    "/api/v1/namespaces/full/serviceaccounts",
    "/apis/coordination.k8s.io/v1/namespaces/full/leases",
    "/apis/apps/v1/namespaces/full/controllerrevisions",
];

#[tokio::main]
async fn main() {
    let count = std::env::args().nth(1).map_or(10_000, |it| it.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let builder = TestEnv::builder().system_clock().data_dir(directory.path());
    let controllers = ["garbage-collector-controller", "namespace-controller"];
    let plane = Plane::start_with(builder, &controllers).await;
    for policy in ["Background", "Foreground", "Orphan"] {
        delete_dependents(&plane, count, policy).await;
    }
    for kind in 0..CUSTOM_KINDS {
        plane.install_crd(&crd(kind)).await;
    }
    delete_namespace(&plane, count, CUSTOM_KINDS + BUILT_IN.len()).await;
    delete_namespace(&plane, count, 1).await;
    plane.stop().await;
}

async fn delete_dependents(plane: &Plane, count: usize, policy: &str) {
    let owner = plane.create(MAPS, &json!({"metadata": {"name": "owner"}})).await;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true});
    let objects = (0..count).map(|number| {
        let metadata = json!({"name": format!("child-{number}"), "ownerReferences": [reference],
            "labels": {"child": "yes"}});
        (MAPS.to_owned(), json!({"metadata": metadata}))
    });
    let creation = Measurement::start();
    create_all(plane, objects.collect()).await;
    let creation = creation.end();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let deletion = Measurement::start();
    let options = json!({"propagationPolicy": policy});
    assert_eq!(plane.delete_with(&format!("{MAPS}/owner"), &options).await.0, 200);
    let owners = format!("{MAPS}/owner");
    until(plane, &owners, |code, _| code == 404).await;
    if policy != "Orphan" {
        let children = format!("{MAPS}?labelSelector=child&limit=1");
        until(plane, &children, |_, list| list["items"].as_array().unwrap().is_empty()).await;
    }
    println!("{count} dependents, {policy}: created in {creation}, removed in {}", deletion.end());
    if policy == "Orphan" {
        assert_eq!(plane.delete(&format!("{MAPS}?labelSelector=child")).await.0, 200);
    }
}

async fn delete_namespace(plane: &Plane, count: usize, kinds: usize) {
    plane.create("/api/v1/namespaces", &json!({"metadata": {"name": "full"}})).await;
    let mut objects = Vec::new();
    for number in 0..count {
        let name = format!("object-{number}");
        let metadata = json!({"name": name});
        let kind = number % kinds;
        objects.push(match kind.checked_sub(CUSTOM_KINDS) {
            None => (
                format!("/apis/example.com/v1/namespaces/full/things{kind}"),
                json!({"apiVersion": "example.com/v1", "kind": format!("Thing{kind}"), "metadata": metadata}),
            ),
            Some(4) => (BUILT_IN[4].to_owned(), json!({"metadata": metadata, "revision": 1, "data": {}})),
            Some(index) => (BUILT_IN[index].to_owned(), json!({"metadata": metadata})),
        });
    }
    create_all(plane, objects).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let deletion = Measurement::start();
    assert_eq!(plane.delete("/api/v1/namespaces/full").await.0, 200);
    until(plane, "/api/v1/namespaces/full", |code, _| code == 404).await;
    println!("a namespace with {count} objects of {kinds} kinds: removed in {}", deletion.end());
}

async fn create_all(plane: &Plane, objects: Vec<(String, Value)>) {
    let creations = objects.into_iter().map(|(path, object)| {
        let client = plane.client();
        async move { client.create(&path, &object).await }
    });
    stream::iter(creations).buffer_unordered(64).for_each(|_| async {}).await;
}

async fn until(plane: &Plane, path: &str, is_expected: impl Fn(u16, &Value) -> bool) {
    loop {
        let (code, found) = plane.get(path).await;
        if is_expected(code, &found) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn crd(kind: usize) -> Value {
    json!({
        "metadata": {"name": format!("things{kind}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": format!("things{kind}"), "kind": format!("Thing{kind}")},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

/// Wall-clock and processor time.
struct Measurement {
    began: Instant,
    processor_ticks: u64,
}

impl Measurement {
    fn start() -> Self {
        Self { began: Instant::now(), processor_ticks: processor_ticks() }
    }

    fn end(&self) -> String {
        let ticks = processor_ticks() - self.processor_ticks;
        format!("{:?} ({} ms of processor time)", self.began.elapsed(), ticks * 10)
    }
}

/// The processor time of this process, in hundredths of a second.
fn processor_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
