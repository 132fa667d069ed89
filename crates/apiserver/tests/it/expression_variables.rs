//! The variables of each expression of webhooks and policies, which are those of kube-apiserver 1.37.

use machinery::{Value, json};
use testenv::TestEnv;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A webhook configuration with a condition.
fn webhook(kind: &str, expression: &str) -> (String, Value) {
    let hook = json!({"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://x.y/z"},
        "matchConditions": [{"name": "c", "expression": expression}]});
    let configuration = json!({"metadata": {"name": "p"}, "webhooks": [hook]});
    (format!("{kind}webhookconfigurations"), configuration)
}

/// Policies with the expression in each field.
fn policies(expression: &str, has_params: bool) -> Vec<(String, Value)> {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["pods"]});
    let variable = |name: &str, expression: &str| json!({"name": name, "expression": expression});
    let (before, after) = (variable("before", "1"), variable("after", "1"));
    let between = json!([before, variable("own", expression), after]);
    let conditions = json!([{"name": "c", "expression": expression}]);
    let text = format!("({expression}) ? 'a' : 'b'");
    let nothing = json!([{"expression": "true"}]);
    let applied = |expression: &str| {
        json!([{"patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": expression}}])
    };
    let patch = format!("({expression}) ? [JSONPatch{{op: 'test', path: '/a'}}] : []");
    let patched = json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}]);
    let validating = [
        json!({"matchConditions": conditions, "validations": nothing}),
        json!({"validations": [{"expression": expression}]}),
        json!({"validations": [{"expression": "true", "messageExpression": text}]}),
        json!({"auditAnnotations": [{"key": "k", "valueExpression": text}]}),
        json!({"variables": between, "validations": nothing}),
    ];
    let mutating = [
        json!({"matchConditions": conditions, "mutations": applied("Object{}")}),
        json!({"variables": between, "mutations": applied("Object{}")}),
        json!({"mutations": patched}),
        json!({"mutations": applied(&format!("({expression}) ? Object{{}} : Object{{}}"))}),
    ];
    let complete = |kind: &str, spec: Value| {
        let mut whole = json!({"matchConstraints": {"resourceRules": [rule]},
            "variables": [before, after]});
        if has_params {
            whole["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        }
        if kind == "mutating" {
            whole["reinvocationPolicy"] = "Never".into();
        }
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let policy = json!({"metadata": {"name": "p"}, "spec": whole});
        (format!("{kind}admissionpolicies"), policy)
    };
    let validating = validating.into_iter().map(|spec| complete("validating", spec));
    let mutating = mutating.into_iter().map(|spec| complete("mutating", spec));
    validating.chain(mutating).collect()
}

/// One character for each field in which the expression is sent: `+` if it is accepted there, `-` if
/// it is refused. Blanks separate the kinds of objects.
async fn accepted(plane: &TestEnv, expression: &str) -> String {
    let mut signs = String::new();
    let webhooks = [webhook("validating", expression), webhook("mutating", expression)];
    let places =
        webhooks.into_iter().chain(policies(expression, false)).chain(policies(expression, true));
    for (index, (plural, object)) in places.enumerate() {
        if matches!(index, 2 | 7 | 11 | 16) {
            signs.push(' ');
        }
        let (code, _) = plane.post(&format!("{GROUP}/{plural}?dryRun=All"), &object).await;
        signs.push(match code {
            201 => '+',
            422 => '-',
            _ => '?',
        });
    }
    signs
}

#[tokio::test]
async fn each_expression_has_the_variables_of_upstream() {
    let plane = TestEnv::start().await;
    for (expression, expected) in [
        // Conditions of webhooks; condition, validation, message, annotation and variable of a
        // validating policy; condition, variable, patch and configuration of a mutating one; the
        // same of policies with parameters.
        ("object == null", "++ +++++ ++++ +++++ ++++"),
        ("oldObject == null", "++ +++++ ++++ +++++ ++++"),
        ("request.name == 'x'", "++ +++++ ++++ +++++ ++++"),
        ("request.object == null", "-- ----- ---- ----- ----"),
        ("namespaceObject == null", "++ +++++ ++++ +++++ ++++"),
        ("namespaceObject.metadata.name == 'x'", "++ +++++ ++++ +++++ ++++"),
        ("namespaceObject.metadata.ownerReferences == null", "-- ----- ---- ----- ----"),
        ("params == null", "-- ----- ---- +++++ ++++"),
        ("variables.before == 1", "-- -++++ -+++ -++++ -+++"),
        ("variables.after == 1", "-- -+++- --++ -+++- --++"),
        ("authorizer.path('/').check('get').allowed()", "++ ++-++ ++++ ++-++ ++++"),
        ("authorizer.requestResource.check('get').allowed()", "++ ++-++ ++++ ++-++ ++++"),
        ("Object{} == null", "-- ----- --++ ----- --++"),
        ("JSONPatch{op: 'test'} == null", "-- ----- --++ ----- --++"),
        ("self == null", "-- ----- ---- ----- ----"),
    ] {
        assert_eq!(accepted(&plane, expression).await, expected, "{expression}");
    }
}
