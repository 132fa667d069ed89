//! What a plane records of its own requests.

use std::fs;

use crate::plane::Plane;
use machinery::{Value, json};

/// The events of a plane with controllers and an operator, to which no client has connected.
fn events_of_start(policy: &str) -> Vec<Value> {
    let directory = tempfile::tempdir().unwrap();
    let [policy_file, log] =
        ["policy", "log"].map(|it| directory.path().join(it).display().to_string());
    fs::write(&policy_file, policy).unwrap();
    let arguments = ["--controllers", "*", "--with", "custompod"];
    let of_audit = ["--audit-policy-file", &policy_file, "--audit-log-path", &log];
    let plane = Plane::with_arguments(directory.path(), &[&arguments[..], &of_audit].concat());
    plane.kill();
    let text = fs::read_to_string(&log).unwrap_or_default();
    // The last line may be incomplete.
    text.lines().filter_map(|it| serde_json::from_str(it).ok()).collect()
}

#[test]
fn the_policy_of_the_documentation_records_nothing_of_the_plane_itself() {
    let page = include_str!("../../../../docs/security.md");
    let (_, policy) = page.split_once("cat > audit.yaml <<EOF\n").unwrap();
    let (policy, _) = policy.split_once("EOF\n").unwrap();
    for event in events_of_start(policy) {
        let user = event["user"]["username"].as_str().unwrap();
        assert!(user.starts_with("system:serviceaccount:operators:"), "{event}");
    }
}

#[test]
fn the_requests_of_the_plane_are_those_of_no_person() {
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    let events = events_of_start(policy);
    let names = |path: &str| {
        let of_path = events.iter().filter(|it| it["requestURI"].as_str().unwrap().contains(path));
        of_path.map(|it| it["user"]["username"].clone()).collect::<Vec<Value>>()
    };
    assert!(!names("/mutatingwebhookconfigurations").is_empty(), "{events:?}");
    for event in &events {
        assert_ne!(event["user"]["username"], "sampan-admin", "{event}");
        if event["user"]["username"] == "system:apiserver" {
            let groups = json!(["system:masters", "system:authenticated"]);
            assert_eq!(
                (&event["userAgent"], &event["user"]["groups"]),
                (&json!("sampan"), &groups)
            );
        } else if event["stage"] != "RequestReceived" {
            // As in Kubernetes, the group system:masters needs no reason.
            let reason = &event["annotations"]["authorization.k8s.io/reason"];
            assert!(reason.as_str().is_some_and(|it| !it.is_empty()), "{event}");
        }
    }
}
