//! How much memory a cached object takes: `cargo run --release -p sampan-informer --example memory`.
//!
//! Fills an indexer with custom resources of 1 KiB and with pods that carry managedFields, in each
//! way of keeping them, and prints the bytes that the allocator has given out for each object.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::{env, process::Command};

use informer::{Indexer, Intake, Item, Storage, Transform};
use machinery::{Value, json};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [count, what, kept] => measure(count.parse().expect("a number"), what, kept),
        [count] => measure_all(count),
        _ => measure_all("15000"),
    }
}

/// Measures each case in a process of its own: none gets the memory that another has freed.
fn measure_all(count: &str) {
    println!("{count} objects; bytes per object\n");
    println!(
        "{:<10} {:<18} {:>6} {:>6} {:>8} {:>10}",
        "objects", "kept", "JSON", "body", "memory", "all, MB"
    );
    let program = env::current_exe().expect("this program has a path");
    for what in ["resources", "pods"] {
        for kept in ["plain", "plain-stripped", "packed", "packed-stripped"] {
            let status = Command::new(&program).args([count, what, kept]).status();
            assert!(status.is_ok_and(|status| status.success()), "{what} {kept} failed");
        }
    }
}

fn measure(count: u64, what: &str, kept: &str) {
    let make = if what == "pods" { pod } else { resource };
    let storage = if kept.starts_with("packed") { Storage::Packed } else { Storage::Plain };
    let strip = kept.ends_with("stripped").then_some(Transform::StripManagedFields);
    let (intake, indexer) = (Intake::new(strip.into_iter().collect(), storage), Indexer::new());
    let admit = |number| {
        let bytes = make(number).to_string().into_bytes();
        let length = bytes.len();
        (intake.admit(Item::parse(bytes).expect("it has a name")), length)
    };
    // Once for nothing, so that what the making itself needs is there before.
    drop(admit(0));
    let (before, mut json) = (resident(), 0);
    for number in 0..count {
        let (item, length) = admit(number);
        json += length;
        indexer.insert(item);
    }
    let memory = resident().saturating_sub(before) as f64;
    let (each, json) = (memory / count as f64, json as f64 / count as f64);
    let body = indexer.list().iter().map(Item::size).sum::<usize>() as f64 / count as f64;
    println!("{what:<10} {kept:<18} {json:>6.0} {body:>6.0} {each:>8.0} {:>10.1}", memory / 1e6);
}

/// The resident set of this process, in bytes; 0 where there is no procfs.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kibibytes.unwrap_or(0) * 1024
}

/// Sixteen hexadecimal digits that differ from object to object.
fn noise(number: u64, salt: u64) -> String {
    let mixed = (number + salt * 0x1_0000).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:016x}", mixed ^ mixed >> 29)
}

fn uid(number: u64) -> String {
    let (one, two) = (noise(number, 1), noise(number, 2));
    format!("{}-{}-{}-{}-{}", &one[..8], &one[8..12], &one[12..], &two[..4], &two[4..])
}

/// A custom resource of about 1 KiB, of which a third is unlike in all objects.
fn resource(number: u64) -> Value {
    let token: String = (3..7).map(|salt| noise(number, salt)).collect();
    json!({"apiVersion": "example.com/v1", "kind": "Database", "metadata": {
        "name": format!("database-{number}"), "namespace": format!("team-{}", number % 40),
        "uid": uid(number), "resourceVersion": (100_000 + number).to_string(), "generation": 2,
        "creationTimestamp": "2026-05-01T10:00:00Z",
        "labels": {"app": format!("service-{}", number % 500), "tier": "storage"},
        "managedFields": [{"manager": "kubectl", "operation": "Apply", "apiVersion":
            "example.com/v1", "time": "2026-05-01T10:00:00Z", "fieldsType": "FieldsV1", "fieldsV1":
            {"f:metadata": {"f:labels": {"f:app": {}, "f:tier": {}}}, "f:spec": {"f:engine": {},
            "f:replicas": {}, "f:token": {}}}}]},
        "spec": {"engine": "postgres", "replicas": number % 5, "storage": {"class": "fast",
            "size": "100Gi"}, "token": token, "endpoint": format!("database-{number}.example.com:5432"), "parameters":
            {"max_connections": "200", "shared_buffers": "2GB", "work_mem": "64MB"}},
        "status": {"phase": "Ready", "observedGeneration": 2, "conditions": [{"type": "Ready",
            "status": "True", "reason": "AllReplicasReady", "message": "",
            "lastTransitionTime": "2026-05-01T10:00:07Z"}]}})
}

/// A pod as a cluster has it: made by a `ReplicaSet`, scheduled, running.
fn pod(number: u64) -> Value {
    let (app, node) = (format!("service-{}", number / 30), format!("node-{}", number % 300));
    let name = format!("{app}-{}-{}", &noise(number / 30, 7)[..10], &noise(number, 8)[..5]);
    let second = |offset: u64| {
        let second = (number * 7 + offset) % 86_400;
        format!("2026-05-01T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
    };
    let access = format!("kube-api-access-{}", &noise(number, 9)[..5]);
    let ip = format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "lastProbeTime": null,
            "lastTransitionTime": second(3), "observedGeneration": 1})
    };
    let conditions: Vec<Value> =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
            .map(condition)
            .into();
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "generateName": format!("{app}-"), "namespace":
            format!("team-{}", number / 30 % 40), "uid": uid(number), "resourceVersion":
            (500_000 + number).to_string(), "generation": 1, "creationTimestamp": second(0),
            "labels": {"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop",
                "pod-template-hash": &noise(number / 30, 7)[..10]},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app,
                "uid": uid(number / 30 + 1_000_000), "controller": true,
                "blockOwnerDeletion": true}],
            "managedFields": managed_fields(number, &ip, &second)},
        "spec": {"nodeName": node, "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler", "serviceAccountName": app, "serviceAccount": app,
            "enableServiceLinks": true, "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
            "securityContext": {}, "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": format!("registry.example.com/{app}:1.7.3"),
                "imagePullPolicy": "IfNotPresent", "env": [{"name": "SERVICE", "value": app},
                {"name": "LOG_LEVEL", "value": "info"}], "resources": {"limits": {"memory":
                "512Mi"}, "requests": {"cpu": "100m", "memory": "256Mi"}},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy":
                "File", "volumeMounts": [{"name": access, "readOnly": true, "mountPath":
                "/var/run/secrets/kubernetes.io/serviceaccount"}]}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect":
                "NoExecute", "tolerationSeconds": 300}, {"key": "node.kubernetes.io/unreachable",
                "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            "volumes": [{"name": access, "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path":
                "ca.crt"}]}}, {"downwardAPI": {"items": [{"path": "namespace", "fieldRef":
                {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]}}]},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "hostIP": format!("192.168.{}.{}", number % 300 / 250, number % 300 % 250),
            "qosClass": "Burstable", "startTime": second(1), "observedGeneration": 1,
            "conditions": conditions,
            "containerStatuses": [{"name": "main", "ready": true, "started": true,
                "restartCount": 0, "image": format!("registry.example.com/{app}:1.7.3"),
                "imageID": format!("registry.example.com/{app}@sha256:{}{}{}{}", noise(number / 30,
                1), noise(number / 30, 2), noise(number / 30, 3), noise(number / 30, 4)),
                "containerID": format!("containerd://{}{}{}{}", noise(number, 11),
                noise(number, 12), noise(number, 13), noise(number, 14)), "lastState": {},
                "state": {"running": {"startedAt": second(4)}}}]}})
}

/// Who wrote what of a pod.
fn managed_fields(number: u64, ip: &str, second: &dyn Fn(u64) -> String) -> Value {
    let owned = |key: &str| {
        json!({".": {}, format!("k:{{\"{key}\":\"main\"}}"): {".": {},
        "f:env": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {".": {},
        "f:limits": {".": {}, "f:memory": {}}, "f:requests": {".": {}, "f:cpu": {},
        "f:memory": {}}}, "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {}}})
    };
    let reported = |kind: &str| {
        json!({".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {},
        "f:observedGeneration": {}, "f:status": {}, "f:type": kind})
    };
    json!([
                {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                    "time": second(0), "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata":
                    {"f:annotations": {".": {}, "f:prometheus.io/scrape": {}}, "f:generateName": {},
                    "f:labels": {".": {}, "f:app.kubernetes.io/name": {}}, "f:ownerReferences":
                    {".": {}, format!("k:{{\"uid\":\"{}\"}}", uid(number / 30 + 1_000_000)): {}}},
                    "f:spec": {"f:containers": owned("name"), "f:dnsPolicy": {},
                    "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {},
                    "f:securityContext": {}, "f:terminationGracePeriodSeconds": {}}}},
                {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": second(4),
                    "fieldsType": "FieldsV1", "subresource": "status", "fieldsV1": {"f:status":
                    {"f:conditions": {"k:{\"type\":\"ContainersReady\"}": reported("a"),
                    "k:{\"type\":\"Initialized\"}": reported("b"), "k:{\"type\":\"Ready\"}":
                    reported("c")}, "f:containerStatuses": {}, "f:hostIP": {}, "f:phase": {},
                    "f:podIP": {}, "f:podIPs": {".": {}, format!("k:{{\"ip\":\"{ip}\"}}"):
                    {".": {}, "f:ip": {}}}, "f:startTime": {}}}}])
}
