//! What a plane with encryption at rest says at its start.

use std::fs;
use std::io::read_to_string;
use std::path::Path;

use crate::plane::Plane;
use machinery::json;

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
fn a_rule_with_a_misspelled_resource_is_logged() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_of_start(directory.path(), "key1");
    let lines: Vec<&str> = log.lines().filter(|it| it.contains("names a resource")).collect();
    assert_eq!(lines.len(), 1, "custom resources may exist later: {log}");
    assert!(lines[0].contains("resource=secretz"), "{log}");
}
