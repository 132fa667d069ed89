//! What a plane with encryption at rest says at its start.

use std::fs;
use std::io::read_to_string;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::plane::Plane;
use machinery::json;

const LIMIT: Duration = Duration::from_mins(1);

/// Starts a plane whose key has this name, creates a Secret if there is none yet, kills the plane, and
/// returns what it has logged.
fn log_of_start(directory: &Path, key: &str) -> String {
    let config = directory.join("encryption.yaml");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - resources: [secrets, secretz, things.example.com]\n  providers:\n  - aesgcm:\n      \
         keys: [{{name: {key}, secret: MDEyMzQ1Njc4OWFiY2RlZg==}}]\n"
    );
    fs::write(&config, text).unwrap();
    let arguments = ["--encryption-provider-config", config.to_str().unwrap()];
    let (plane, log) = Plane::with_log(directory, &arguments);
    let secret = json!({"metadata": {"name": "a"}});
    let path = "/api/v1/namespaces/default/secrets";
    plane.client().send("POST", path, Some(&secret)).unwrap();
    plane.kill();
    read_to_string(log).unwrap()
}

#[test]
fn a_missing_key_is_logged_once_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_of_start(directory.path(), "key1");
    assert!(!log.contains("cannot be decrypted"), "{log}");
    let log = log_of_start(directory.path(), "key2");
    let lines: Vec<&str> = log.lines().filter(|it| it.contains("cannot be decrypted")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    let advice = "add their key to the file of --encryption-provider-config";
    assert!(lines[0].contains(advice) && lines[0].contains("docs/encryption.md"), "{log}");
}

#[test]
fn controllers_that_do_not_read_secrets_work_while_one_cannot_be_decrypted() {
    let directory = tempfile::tempdir().unwrap();
    log_of_start(directory.path(), "key1");
    let arguments = ["--controllers", "*", "--nodes", "1"];
    let (plane, _log) = Plane::with_log(directory.path(), &arguments);
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]}}}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    plane.client().send("POST", path, Some(&deployment)).unwrap();
    let path = format!("{path}/web");
    let is_ready = || {
        let (_, found) = plane.client().send("GET", &path, None).unwrap();
        found["status"]["readyReplicas"] == 1
    };
    let deadline = Instant::now() + LIMIT;
    while !is_ready() {
        assert!(Instant::now() < deadline, "the deployment is not ready");
    }
    plane.kill();
}

#[test]
fn a_rule_with_a_misspelled_resource_is_logged() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_of_start(directory.path(), "key1");
    let lines: Vec<&str> = log.lines().filter(|it| it.contains("names a resource")).collect();
    assert_eq!(lines.len(), 1, "custom resources may exist later: {log}");
    assert!(lines[0].contains("resource=secretz"), "{log}");
    assert!(lines[0].contains("are stored in plaintext"), "{log}");
}
