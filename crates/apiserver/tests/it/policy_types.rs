//! `status.typeChecking` of a validating policy: type errors of its expressions for the matched kinds.

use crate::objects::things;
use machinery::{Value, json};
use testenv::TestEnv;

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

/// A policy for resources `group/version/resource,resource`, with further fields of its spec.
fn policy(about: &str, spec: &Value) -> Value {
    let parts: Vec<&str> = about.splitn(3, '/').collect();
    let resources: Vec<&str> = parts[2].split(',').collect();
    let mut policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {
        "resourceRules": [{"apiGroups": [parts[0]], "apiVersions": [parts[1]],
            "operations": ["CREATE"], "resources": resources}]}}});
    for (key, value) in spec.as_object().unwrap() {
        policy["spec"][key] = value.clone();
    }
    policy
}

/// The warnings, one per line: the field, the kinds and the error, without the excerpts.
async fn checked(plane: &TestEnv, policy: &Value) -> Vec<String> {
    let created = plane.create(POLICIES, policy).await;
    assert_eq!(created["status"], json!({}));
    let path = format!("{POLICIES}/p");
    let found = plane.until(&path, |_, it| it["status"]["observedGeneration"] == 1).await;
    plane.delete(&path).await;
    let warnings = found["status"]["typeChecking"]["expressionWarnings"].clone();
    let line = |it: &Value| {
        let lines = it["warning"].as_str().unwrap().lines();
        let lines: Vec<&str> = lines.filter(|it| !it.starts_with(" |") && !it.is_empty()).collect();
        format!("{}: {}", it["fieldRef"].as_str().unwrap(), lines.join("; "))
    };
    warnings.as_array().into_iter().flatten().map(line).collect()
}

/// The type errors of one validation for a resource.
async fn wrong(plane: &TestEnv, about: &str, expression: &str) -> Vec<String> {
    let policy = policy(about, &json!({"validations": [{"expression": expression}]}));
    let prefix = "spec.validations[0].expression: ";
    let all = checked(plane, &policy).await;
    all.iter().map(|it| it.strip_prefix(prefix).unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_unknown_field_is_reported_in_the_status() {
    let plane = TestEnv::start().await;
    let policy = policy(
        "apps/v1/deployments",
        &json!({"validations": [{"expression": "object.spec.replicas > 1"},
            {"expression": "true", "messageExpression": "'a' + oldObject.spec.replica"}]}),
    );
    plane.create(POLICIES, &policy).await;
    let path = format!("{POLICIES}/p");
    let found = plane.until(&path, |_, it| it["status"]["observedGeneration"] == 1).await;
    let warning = "apps/v1, Kind=Deployment: ERROR: <input>:1:21: undefined field 'replica'\n | 'a' + oldObject.spec.replica\n | ....................^\n";
    assert_eq!(
        found["status"]["typeChecking"],
        json!({"expressionWarnings":
            [{"fieldRef": "spec.validations[1].messageExpression", "warning": warning}]})
    );
    let owner = &found["metadata"]["managedFields"][0];
    assert_eq!(owner["manager"], "validatingadmissionpolicy-status");
    assert_eq!((&owner["operation"], &owner["subresource"]), (&json!("Apply"), &json!("status")));
}

#[tokio::test]
async fn a_changed_policy_is_checked_again() {
    let plane = TestEnv::start().await;
    let spec = json!({"validations": [{"expression": "object.spec.nope == 1"}]});
    plane.create(POLICIES, &policy("apps/v1/deployments", &spec)).await;
    let path = format!("{POLICIES}/p");
    plane.until(&path, |_, it| it["status"]["observedGeneration"] == 1).await;
    plane.merge(&path, &json!({"spec": {"validations": [{"expression": "true"}]}})).await;
    let found = plane.until(&path, |_, it| it["status"]["observedGeneration"] == 2).await;
    assert_eq!(found["status"], json!({"observedGeneration": 2}));
}

#[tokio::test]
async fn every_matched_kind_is_checked() {
    let plane = TestEnv::start().await;
    let replicas = "object.spec.replicas > 1";
    let undefined = |kind: &str| format!("{kind}: ERROR: <input>:1:12: undefined field 'replicas'");
    assert_eq!(
        wrong(&plane, "apps/v1/deployments,daemonsets,statefulsets", replicas).await,
        [undefined("apps/v1, Kind=DaemonSet")]
    );
    // An empty group matches all groups, and a singular name matches its plural.
    assert_eq!(
        wrong(&plane, "/v1/daemonset,pods", replicas).await,
        [[undefined("/v1, Kind=Pod"), undefined("apps/v1, Kind=DaemonSet")].join("; ")]
    );
    for unclear in ["*/v1/pods", "/*/pods", "/v1/pods/status", "/v1/*", "apps/v7/daemonsets"] {
        assert_eq!(wrong(&plane, unclear, replicas).await, [""; 0], "{unclear}");
    }
}

#[tokio::test]
async fn types_of_built_in_kinds_are_those_of_their_schemas() {
    let plane = TestEnv::start().await;
    for (expression, expected) in [
        ("object.metadata.namespace == 'a'", None),
        ("object.spec.containers[0].livenessProbe.httpGet.port == 'a'", None),
        (
            "object.metadata.creationTimestamp == 'x'",
            Some("'_==_' applied to '(timestamp, string)'"),
        ),
        ("object.metadata.labels.a == 1", Some("'_==_' applied to '(string, int)'")),
        ("object.spec.containers.all(c, c.ports == 1)", Some(".ports, int)'")),
        // IntOrString has no type in a schema.
        ("object.spec.containers[0].resources.limits.cpu == '1'", Some("undefined field 'limits'")),
        (
            "authorizer.requestResource.check('get').allowed()",
            Some("unexpected failed resolution of 'kubernetes.authorization.Authorizer'"),
        ),
    ] {
        let found = wrong(&plane, "/v1/pods", expression).await;
        let fits = match expected {
            None => found.is_empty(),
            Some(".ports, int)'") => found[0].contains("list(Pod"),
            Some(expected) => found[0].ends_with(expected),
        };
        assert!(fits, "{expression}: {found:?}");
    }
}

#[tokio::test]
async fn custom_kinds_are_checked_by_their_schemas() {
    let plane = TestEnv::start().await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"}, "any": {"x-kubernetes-preserve-unknown-fields": true},
        "inner": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true},
    }}}});
    plane.install_crd(&things(&schema)).await;
    let about = "example.com/v1/things";
    for (expression, expected) in [
        ("object.spec.size == 1 && object.metadata.labels.a == 'b'", ""),
        ("object.spec.inner.metadata.annotations.size() == 1", ""),
        ("object.spec.any == 1", "undefined field 'any'"),
        ("object.spec.size == ''", "'_==_' applied to '(int, string)'"),
        ("object.status == 1", "undefined field 'status'"),
    ] {
        let found = wrong(&plane, about, expression).await.join("");
        assert!(found.ends_with(expected) && found.is_empty() == expected.is_empty(), "{found}");
    }
}

#[tokio::test]
async fn parameters_and_variables_are_type_checked() {
    let plane = TestEnv::start().await;
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [{"name": "count", "expression": "object.spec.replicas"},
            {"name": "unclear", "expression": "object.spec.nope"}],
        "matchConditions": [{"name": "unchecked", "expression": "object.nope == 1"}],
        "validations": [{"expression": "params.data.a == 'x' && params.nope == 1"},
            {"expression": "variables.count == 'x'"}, {"expression": "variables.unclear == 1"}],
    });
    assert_eq!(
        checked(&plane, &policy("apps/v1/deployments", &spec)).await,
        [
            "spec.validations[0].expression: apps/v1, Kind=Deployment: ERROR: <input>:1:31: undefined field 'nope'",
            "spec.validations[1].expression: apps/v1, Kind=Deployment: ERROR: <input>:1:17: found no matching overload for '_==_' applied to '(int, string)'",
        ]
    );
    let unknown = json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Nothing"},
        "validations": [{"expression": "params.whatever == 1"}]});
    assert_eq!(checked(&plane, &policy("apps/v1/deployments", &unknown)).await, [""; 0]);
}
