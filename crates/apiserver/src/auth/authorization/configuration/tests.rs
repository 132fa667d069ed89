//! Tests of the authorization configuration: which files are accepted, and the errors of others.

use super::super::webhook::FailurePolicy;
use super::*;
use crate::outbound::review_client::ReviewVersion;
use machinery::{Value, json};

const KUBECONFIG: &str = r#"{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k"}}],
    "clusters": [{"name": "k", "cluster": {"server": "https://a", "insecure-skip-tls-verify": true}}]}"#;

fn text(authorizers: &Value) -> String {
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": KIND, "authorizers": authorizers})
        .to_string()
}

fn error(authorizers: &Value) -> String {
    parse(&text(authorizers), &[]).unwrap_err().to_string()
}

/// A webhook with these fields besides the required ones, and its kubeconfig.
fn webhook(changes: &Value) -> (Value, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    std::fs::write(&file, KUBECONFIG).unwrap();
    let mut webhook = json!({"timeout": "3s", "subjectAccessReviewVersion": "v1",
        "failurePolicy": "Deny",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": file}});
    for (field, value) in changes.as_object().unwrap() {
        webhook[field] = value.clone();
    }
    (json!({"type": "Webhook", "name": "hook", "webhook": webhook}), directory)
}

fn webhook_error(changes: &Value) -> String {
    error(&json!([webhook(changes).0]))
}

#[test]
fn a_file_names_authorizers_in_their_order() {
    let (hook, _directory) = webhook(&json!({"cacheUnauthorizedRequests": false,
        "matchConditionSubjectAccessReviewVersion": "v1",
        "matchConditions": [{"expression": "request.user != 'a'"}]}));
    let (mut other, _other_directory) = webhook(&json!({"failurePolicy": "NoOpinion",
        "subjectAccessReviewVersion": "v1beta1", "authorizedTTL": "1m", "unauthorizedTTL": "2s"}));
    other["name"] = "other".into();
    let authorizers = json!([{"type": "Node", "name": "node"}, hook,
        {"type": "RBAC", "name": "rbac"}, other, {"type": "AlwaysDeny", "name": "alwaysdeny"}]);
    let found = parse(&text(&authorizers), &[AuthorizerType::Rbac]).unwrap();
    let types: Vec<&str> = found.iter().map(|it| it.authorizer_type().as_str()).collect();
    assert_eq!(types, ["Node", "Webhook", "RBAC", "Webhook", "AlwaysDeny"]);
    let [_, ConfiguredAuthorizer::Webhook(first), _, ConfiguredAuthorizer::Webhook(second), _] =
        found.as_slice()
    else {
        panic!("two are webhooks")
    };
    assert_eq!((first.name.as_str(), first.timeout), ("hook", Duration::from_secs(3)));
    assert_eq!((first.version, first.failure_policy), (ReviewVersion::V1, FailurePolicy::Deny));
    assert_eq!(first.authorized_ttl, Duration::from_mins(5));
    assert_eq!(first.unauthorized_ttl, Duration::ZERO);
    assert_eq!(second.version, ReviewVersion::V1beta1);
    assert_eq!(second.failure_policy, FailurePolicy::NoOpinion);
    assert_eq!(second.authorized_ttl, Duration::from_mins(1));
    assert_eq!(second.unauthorized_ttl, Duration::from_secs(2));
}

#[test]
fn authorizers_have_known_types_and_their_names() {
    let required = "authorizers: Required value: at least one authorization mode must be defined";
    assert_eq!(error(&json!([])), required);
    assert_eq!(parse("", &[]).unwrap_err().to_string(), required);
    assert_eq!(error(&json!([{"name": "a"}])), "authorizers[0].type: Required value");
    assert_eq!(
        error(&json!([{"type": "Role", "name": "a"}])),
        r#"authorizers[0].type: Unsupported value: "Role": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook""#
    );
    let node = json!({"type": "Node", "name": "node"});
    assert_eq!(error(&json!([node, node])), r#"authorizers[1].type: Duplicate value: "Node""#);
    assert_eq!(error(&json!([{"type": "Node"}])), "authorizers[0].name: Required value");
    assert_eq!(
        error(&json!([{"type": "Node", "name": "rbac"}])),
        "expected name node for authorizer Node instead of rbac"
    );
    let invalid = error(&json!([{"type": "Node", "name": "A"}]));
    assert!(invalid.contains(r#"Invalid value: "A": authorizer name is invalid: a lowercase"#));
    let (mut hook, _directory) = webhook(&json!({}));
    assert_eq!(error(&json!([hook, hook])), r#"authorizers[1].name: Duplicate value: "hook""#);
    hook["type"] = "RBAC".into();
    assert_eq!(
        error(&json!([hook])),
        r#"authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook"#
    );
    assert_eq!(
        error(&json!([{"type": "Webhook", "name": "a"}])),
        "authorizers[0].webhook: Required value: required when type=Webhook"
    );
    let missing =
        parse(&text(&json!([node])), &[AuthorizerType::AlwaysAllow, AuthorizerType::Rbac]);
    let missing = missing.unwrap_err().to_string();
    assert_eq!(missing, "missing required types: [AlwaysAllow RBAC]");
}

#[test]
fn the_fields_of_a_webhook_are_checked() {
    for (changes, expected) in [
        (json!({"timeout": null}), "timeout: Required value"),
        (json!({"timeout": "31s"}), r#"timeout: Invalid value: "31s": must be > 0s and <= 30s"#),
        (json!({"timeout": "-1s"}), r#"timeout: Invalid value: "-1s": must be > 0s and <= 30s"#),
        (json!({"authorizedTTL": "-1m"}), r#"authorizedTTL: Invalid value: "-1m0s": must be > 0s"#),
        (
            json!({"unauthorizedTTL": "-5ms"}),
            r#"unauthorizedTTL: Invalid value: "-5ms": must be > 0s"#,
        ),
        (
            json!({"subjectAccessReviewVersion": "v2"}),
            r#"subjectAccessReviewVersion: Unsupported value: "v2": supported values: "v1", "v1beta1""#,
        ),
        (json!({"failurePolicy": ""}), "failurePolicy: Required value"),
        (
            json!({"failurePolicy": "Allow"}),
            r#"failurePolicy: Unsupported value: "Allow": supported values: "NoOpinion", "Deny""#,
        ),
        (
            json!({"matchConditions": [{"expression": "true"}]}),
            "matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified",
        ),
        (
            json!({"matchConditionSubjectAccessReviewVersion": "v1",
                "matchConditions": [{"expression": "request.user"}]}),
            r#"matchConditions[0].expression: Invalid value: "request.user": must evaluate to bool but got string"#,
        ),
    ] {
        assert_eq!(webhook_error(&changes), format!("authorizers[0].{expected}"), "{changes}");
    }
}

#[test]
fn the_server_of_a_webhook_comes_from_a_kubeconfig() {
    let error = |connection: Value| webhook_error(&json!({"connectionInfo": connection}));
    assert_eq!(error(json!({})), "authorizers[0].connectionInfo.type: Required value");
    let in_cluster = error(json!({"type": "InClusterConfig"}));
    assert!(in_cluster.contains("not supported by this server"), "{in_cluster}");
    let file = |path: &str| error(json!({"type": "KubeConfigFile", "kubeConfigFile": path}));
    let field = "authorizers[0].connectionInfo.kubeConfigFile";
    assert_eq!(file(""), format!("{field}: Required value"));
    assert_eq!(file("a"), format!(r#"{field}: Invalid value: "a": must be an absolute path"#));
    assert_eq!(file("/"), format!(r#"{field}: Invalid value: "/": must be a regular file"#));
    assert!(
        file("/nowhere")
            .starts_with(&format!(r#"{field}: Invalid value: "/nowhere": error loading file: "#))
    );
}

#[test]
fn unknown_fields_kinds_and_durations_are_refused() {
    let head = "failed to load AuthorizationConfiguration from file: ";
    let unknown = webhook_error(&json!({"timeouts": "3s"}));
    let expected = r#"strict decoding error: unknown field "authorizers[0].webhook.timeouts""#;
    assert_eq!(unknown, format!("{head}{expected}"));
    let duration = webhook_error(&json!({"timeout": "3"}));
    assert!(duration.contains("time: missing unit in duration"), "{duration}");
    let kind = parse("apiVersion: v1\nkind: Secret", &[]).unwrap_err().to_string();
    assert!(kind.starts_with(&format!("{head}no kind \"Secret\"")), "{kind}");
}
