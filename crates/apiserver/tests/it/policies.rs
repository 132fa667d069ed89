//! Admission policies: expressions that validate and mutate objects.

mod changing;

use http::Method;

use crate::objects::{MAPS, THINGS, labeled, map, thing, things};
use machinery::{Value, json};
use testenv::media_type::{JSON, MERGE_PATCH};
use testenv::{Response, TestEnv};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const MUTATING_BINDINGS: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";

/// The `matchConstraints` of a policy for config maps.
fn about_maps() -> Value {
    json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}]})
}

/// A policy for config maps, with further fields of its spec.
fn policy(name: &str, spec: &Value) -> Value {
    let mut policy =
        json!({"metadata": {"name": name}, "spec": {"matchConstraints": about_maps()}});
    for (key, value) in spec.as_object().unwrap() {
        policy["spec"][key] = value.clone();
    }
    policy
}

/// The binding of the policy, with further fields of its spec.
fn binding(name: &str, spec: &Value) -> Value {
    let mut binding = json!({"metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]}});
    for (key, value) in spec.as_object().unwrap() {
        binding["spec"][key] = value.clone();
    }
    binding
}

/// A plane with a bound policy for config maps.
async fn governed(spec: &Value) -> TestEnv {
    let plane = TestEnv::start().await;
    govern(&plane, "p", spec).await;
    plane
}

async fn govern(plane: &TestEnv, name: &str, spec: &Value) {
    plane.create(POLICIES, &policy(name, spec)).await;
    plane.create(BINDINGS, &binding(name, &json!({}))).await;
}

/// A plane with a bound mutating policy for config maps.
async fn mutated(mutations: &Value) -> TestEnv {
    let plane = TestEnv::start().await;
    let spec = json!({"reinvocationPolicy": "Never", "mutations": mutations});
    mutate(&plane, "p", &spec).await;
    plane
}

async fn mutate(plane: &TestEnv, name: &str, spec: &Value) {
    plane.create(MUTATING, &policy(name, spec)).await;
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    plane.create(MUTATING_BINDINGS, &binding).await;
}

fn applied(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patched(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// The code and the message of a denial, without the common prefix of the denials of policy `p`.
async fn refusal(plane: &TestEnv, object: &Value) -> (u16, String) {
    let (code, status) = plane.post(MAPS, object).await;
    let message = status["message"].as_str().unwrap_or_else(|| panic!("not refused: {status}"));
    let reason = message.split_once("denied request: ").map_or(message, |(_, reason)| reason);
    (code, reason.to_owned())
}

/// The error of a policy that cannot be stored.
async fn refused(plane: &TestEnv, path: &str, policy: &Value) -> Vec<String> {
    let (code, status) = plane.post(path, policy).await;
    assert_eq!(code, 422, "{status}");
    let causes = status["details"]["causes"].as_array().unwrap().iter();
    let line = |it: &Value| {
        let message = it["message"].as_str().unwrap().lines().next().unwrap().to_owned();
        format!("{}: {message}", it["field"].as_str().unwrap())
    };
    causes.map(line).collect()
}

async fn sent(plane: &TestEnv, object: &Value) -> Response {
    plane.send(Method::POST, MAPS, JSON, object.to_string()).await
}

#[tokio::test]
async fn the_first_denial_has_the_message_of_its_policy() {
    let plane = governed(&json!({"validations": [
        {"expression": "object.metadata.name != 'x'", "message": "not x"},
        {"expression": "object.data.size() < 2 ", "reason": "Forbidden"},
        {"expression": "'a' in object.data", "message": "no a",
            "messageExpression": "'only ' + object.data.map(k, k).join(',')"},
    ]}))
    .await;
    let one = map("a", &json!({"b": "1"}));
    let (code, status) = plane.post(MAPS, &one).await;
    let expected = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: only b";
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
    assert_eq!(status["message"], format!("configmaps \"a\" is forbidden: {expected}"));
    assert_eq!(status["details"]["causes"], json!([{"message": expected}]));
    let two = map("a", &json!({"b": "1", "c": "1"}));
    let expected = (403, "failed expression: object.data.size() < 2".to_owned());
    assert_eq!(refusal(&plane, &two).await, expected);
    plane.create(MAPS, &map("a", &json!({"a": "1"}))).await;
}

#[tokio::test]
async fn a_validation_action_can_be_a_warning() {
    let plane =
        governed(&json!({"validations": [{"expression": "false", "message": "never"}]})).await;
    let path = format!("{BINDINGS}/p");
    plane.merge(&path, &json!({"spec": {"validationActions": ["Warn", "Audit"]}})).await;
    let reply = sent(&plane, &map("a", &json!({}))).await;
    assert_eq!(reply.code, 201);
    let expected = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': never";
    assert_eq!(reply.warnings(), [expected]);
}

#[tokio::test]
async fn an_expression_over_the_cost_budget_is_stopped() {
    let endless = "[1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(b, \
        [1, 2, 3, 4, 5, 6, 7, 8, 9].all(c, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(d, \
        [1, 2, 3, 4, 5, 6, 7, 8, 9].all(e, [1, 2, 3, 4, 5, 6, 7, 8, 9].all(f, a + b > 0))))))";
    let plane = governed(&json!({"validations": [{"expression": endless}]})).await;
    let object = map("a", &json!({}));
    let why = format!(
        "expression '{endless}' resulted in error: operation cancelled: actual cost limit exceeded"
    );
    assert_eq!(refusal(&plane, &object).await, (422, why));

    // Each uses most of the budget of an expression, and together they exceed the total budget.
    let asks = "authorizer.path('/a').check('get').allowed() && \
        authorizer.path('/b').check('get').allowed()";
    let many = json!({"spec": {"validations": vec![json!({"expression": asks}); 15]}});
    plane.merge(&format!("{POLICIES}/p"), &many).await;
    let why = "validation failed due to running out of cost budget, no further validation rules will be run";
    assert_eq!(refusal(&plane, &object).await, (422, why.to_owned()));

    plane.merge(&format!("{POLICIES}/p"), &json!({"spec": {"failurePolicy": "Ignore"}})).await;
    plane.create(MAPS, &object).await;
}

#[tokio::test]
async fn the_failure_policy_decides_on_errors() {
    let spec = |failure| json!({"failurePolicy": failure, "validations": [{"expression": "object.data.a == 'x'"}]});
    let plane = governed(&spec("Fail")).await;
    let object = map("a", &json!({}));
    let why = "expression 'object.data.a == 'x'' resulted in error: no such key: data";
    assert_eq!(refusal(&plane, &object).await, (422, why.to_owned()));
    let plane = governed(&spec("Ignore")).await;
    plane.create(MAPS, &object).await;
}

#[tokio::test]
async fn variables_are_evaluated_lazily() {
    let plane = governed(&json!({
        "variables": [
            {"name": "data", "expression": "object.?data.orValue({})"},
            {"name": "broken", "expression": "object.nothing"},
            {"name": "count", "expression": "variables.data.size()"},
        ],
        "validations": [{"expression": "variables.count < 2 || variables.broken == 1"}],
    }))
    .await;
    plane.create(MAPS, &map("a", &json!({"one": "1"}))).await;
    let expected = "expression 'variables.count < 2 || variables.broken == 1' resulted in error: \
        composited variable \"broken\" fails to evaluate: no such key: nothing";
    let two = map("b", &json!({"one": "1", "two": "2"}));
    assert_eq!(refusal(&plane, &two).await, (422, expected.to_owned()));
}

#[tokio::test]
async fn a_policy_can_use_request_namespace_and_authorizer() {
    let plane = governed(&json!({"validations": [
        {"expression": "request.operation == 'CREATE' ? oldObject == null : oldObject.data.n == '1'"},
        {"expression": "request.kind.kind == 'ConfigMap' && request.resource.version == 'v1'"},
        {"expression": "request.name == object.metadata.name && request.namespace == 'default'"},
        {"expression": "'system:masters' in request.userInfo.groups && request.dryRun == false"},
        {"expression": "namespaceObject.metadata.name == 'default'"},
        {"expression": "namespaceObject.status.phase == 'Active'"},
        {"expression": "authorizer.group('').resource('pods').namespace('x').check('get').allowed()"},
        {"expression": "authorizer.requestResource.check('delete').allowed()"},
        {"expression": "!authorizer.serviceAccount('a', 'b').path('/metrics').check('get').allowed()"},
    ]}))
    .await;
    plane.create(MAPS, &map("a", &json!({"n": "1"}))).await;
    plane.merge(&format!("{MAPS}/a"), &json!({"data": {"n": "2"}})).await;
    let (code, status) =
        plane.patch(&format!("{MAPS}/a"), MERGE_PATCH, &json!({"data": {"n": "3"}})).await;
    assert_eq!(code, 422, "{status}");
}

#[tokio::test]
async fn match_conditions_skip_a_policy() {
    let plane = governed(&json!({
        "matchConditions": [
            {"name": "broken", "expression": "object.data.nothing == ''"},
            {"name": "not-a", "expression": "object.metadata.name != 'a'"},
        ],
        "validations": [{"expression": "false", "message": "never"}],
    }))
    .await;
    plane.create(MAPS, &map("a", &json!({}))).await;
    let expected = "expression 'object.data.nothing == ''' resulted in error: no such key: data";
    assert_eq!(refusal(&plane, &map("b", &json!({}))).await, (422, expected.to_owned()));
}

#[tokio::test]
async fn match_constraints_select_requests() {
    let plane = governed(&json!({
        "matchConstraints": {
            "objectSelector": {"matchLabels": {"watched": "yes"}},
            "resourceRules": [{"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"],
                "operations": ["*"], "resources": ["*"]},
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
                "resources": ["configmaps"]}],
            "excludeResourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"],
                "operations": ["*"], "resources": ["*"], "resourceNames": ["free"]}],
        },
        "validations": [{"expression": "false",
            "messageExpression": "request.resource.group + ' ' + object.apiVersion"}],
    }))
    .await;
    plane.create(MAPS, &labeled("a", "watched", "no")).await;
    plane.create(MAPS, &labeled("free", "watched", "yes")).await;
    assert_eq!(refusal(&plane, &labeled("b", "watched", "yes")).await, (422, "v1".to_owned()));
    // An event is the same object in both groups.
    let mut event = labeled("e", "watched", "yes");
    event["involvedObject"] = json!({"namespace": "default"});
    let (code, status) = plane.post("/api/v1/namespaces/default/events", &event).await;
    assert_eq!(code, 422, "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.ends_with("denied request: events.k8s.io events.k8s.io/v1"), "{message}");
}

#[tokio::test]
async fn a_binding_restricts_its_policy() {
    let plane = TestEnv::start().await;
    plane.create(POLICIES, &policy("p", &json!({"validations": [{"expression": "false"}]}))).await;
    let narrow =
        json!({"matchResources": {"namespaceSelector": {"matchLabels": {"strict": "yes"}}}});
    plane.create(BINDINGS, &binding("p", &narrow)).await;
    plane.create(MAPS, &map("a", &json!({}))).await;
    let strict = json!({"metadata": {"name": "strict", "labels": {"strict": "yes"}}});
    plane.create("/api/v1/namespaces", &strict).await;
    let (code, _) = plane.post("/api/v1/namespaces/strict/configmaps", &map("a", &json!({}))).await;
    assert_eq!(code, 422);
}

#[tokio::test]
async fn a_namespace_selector_matches_the_labels_of_a_namespace_itself() {
    let namespaces = json!({
        "namespaceSelector": {"matchLabels": {"strict": "yes"}},
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
            "resources": ["namespaces"], "scope": "Cluster"}],
    });
    let plane = governed(&json!({"matchConstraints": namespaces, "validations": [
        {"expression": "namespaceObject == null && request.namespace == 'a'"}]}))
    .await;
    let namespace = |name: &str, strict: &str| json!({"metadata": {"name": name, "labels": {"strict": strict}}});
    plane.create("/api/v1/namespaces", &namespace("a", "yes")).await;
    plane.create("/api/v1/namespaces", &namespace("b", "no")).await;
    assert_eq!(plane.post("/api/v1/namespaces", &namespace("c", "yes")).await.0, 422);
    let label = json!({"metadata": {"labels": {"strict": "yes"}}});
    let (code, _) = plane.patch("/api/v1/namespaces/b", MERGE_PATCH, &label).await;
    assert_eq!(code, 422);
}

#[tokio::test]
async fn match_policy_exact_excludes_other_versions() {
    let exact = |policy: &str| {
        json!({"matchConstraints": {"matchPolicy": policy, "resourceRules": [
            {"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "operations": ["*"],
                "resources": ["events"]}]},
            "validations": [{"expression": "false"}]})
    };
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    for (policy, expected) in [("Exact", 201), ("Equivalent", 422)] {
        let plane = governed(&exact(policy)).await;
        let (code, _) = plane.post("/api/v1/namespaces/default/events", &event).await;
        assert_eq!(code, expected, "{policy}");
    }
}

#[tokio::test]
async fn policies_are_not_subject_to_policies() {
    let everything = json!({"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"],
        "operations": ["*"], "resources": ["*"]}]});
    let plane = governed(&json!({"matchConstraints": everything,
        "validations": [{"expression": "false"}]}))
    .await;
    assert_eq!(plane.post(MAPS, &map("a", &json!({}))).await.0, 422);
    assert_eq!(plane.delete(&format!("{BINDINGS}/p")).await.0, 200);
    plane.create(MAPS, &map("a", &json!({}))).await;
}

#[tokio::test]
async fn parameters_are_selected_by_name_or_labels() {
    let plane = TestEnv::start().await;
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"}, "validations": [
        {"expression": "object.data.size() <= int(params.metadata.labels.max)",
            "messageExpression": "'more than ' + params.metadata.name"}]});
    plane.create(POLICIES, &policy("p", &spec)).await;
    let by_name = json!({"paramRef": {"name": "two", "parameterNotFoundAction": "Deny"}});
    plane.create(BINDINGS, &binding("p", &by_name)).await;
    let three = map("a", &json!({"a": "", "b": "", "c": ""}));
    let expected = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert_eq!(refusal(&plane, &three).await, (422, expected.to_owned()));
    let secrets = "/api/v1/namespaces/default/secrets";
    for (name, max) in [("four", "4"), ("two", "2")] {
        let labels = json!({"max": max, "kind": "limit"});
        plane.create(secrets, &json!({"metadata": {"name": name, "labels": labels}})).await;
    }
    assert_eq!(refusal(&plane, &three).await, (422, "more than two".to_owned()));
    let select = |kind: &str| {
        json!({"spec": {"paramRef": {"name": null, "parameterNotFoundAction": "Allow",
            "selector": {"matchLabels": {"kind": kind}}}}})
    };
    plane.merge(&format!("{BINDINGS}/p"), &select("limit")).await;
    assert_eq!(refusal(&plane, &three).await, (422, "more than two".to_owned()));
    plane.merge(&format!("{BINDINGS}/p"), &select("other")).await;
    plane.create(MAPS, &three).await;
}

#[tokio::test]
async fn a_policy_with_an_unknown_parameter_kind_denies_all_requests() {
    let plane = governed(&json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"},
        "validations": [{"expression": "true"}]}))
    .await;
    let (code, status) = plane.post(MAPS, &map("a", &json!({}))).await;
    assert_eq!(code, 422);
    assert_eq!(
        status["message"],
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'"
    );
}

#[tokio::test]
async fn an_audit_annotation_that_fails_is_a_failure() {
    let annotate = |expression: &str| json!({"auditAnnotations": [{"key": "size", "valueExpression": expression}]});
    let plane = governed(&annotate("string(object.data.size())")).await;
    plane.create(MAPS, &map("a", &json!({"a": "b"}))).await;
    let expected = "expression 'string(object.data.size())' resulted in error: no such key: data";
    assert_eq!(refusal(&plane, &map("b", &json!({}))).await, (422, expected.to_owned()));
}

#[tokio::test]
async fn deletes_are_validated_with_the_old_object() {
    let deletion = json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
        "operations": ["DELETE"], "resources": ["configmaps"]}]});
    let plane = governed(&json!({"matchConstraints": deletion,
        "validations": [{"expression": "object == null && !('keep' in oldObject.data)"}]}))
    .await;
    plane.create(MAPS, &map("a", &json!({"keep": ""}))).await;
    plane.create(MAPS, &map("b", &json!({"go": ""}))).await;
    assert_eq!(plane.delete(&format!("{MAPS}/a")).await.0, 422);
    assert_eq!(plane.delete(&format!("{MAPS}/b")).await.0, 200);
}

#[tokio::test]
async fn a_policy_with_invalid_expressions_is_refused() {
    let plane = TestEnv::start().await;
    let spec = json!({
        "matchConditions": [{"name": "c", "expression": " variables.n == 1"}],
        "variables": [{"name": "n", "expression": "params.n"}, {"name": "m", "expression": "1"}],
        "validations": [
            {"expression": "variables.m", "messageExpression": "authorizer.path('/') == null"},
            {"expression": "variables.other == 1"},
        ],
        "auditAnnotations": [{"key": "k", "valueExpression": "1"}],
    });
    assert_eq!(
        refused(&plane, POLICIES, &policy("p", &spec)).await,
        [
            "spec.matchConditions[0].expression: Invalid value: \"variables.n == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables' (in container '')",
            "spec.variables[0].expression: Invalid value: \"params.n\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')",
            "spec.validations[0].expression: Invalid value: \"variables.m\": must evaluate to bool but got int",
            "spec.validations[0].messageExpression: Invalid value: \"authorizer.path('/') == null\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')",
            "spec.validations[1].expression: Invalid value: \"variables.other == 1\": compilation failed: ERROR: <input>:1:10: undefined field 'other'",
            "spec.auditAnnotations[0].valueExpression: Invalid value: \"1\": must evaluate to one of [string null_type] but got int",
        ]
    );
    let spec = json!({"reinvocationPolicy": "Never", "mutations": [
        applied("{'data': {}}"), patched("[]"), patched("[JSONPatch{op: 1}]"), applied("Object{}"),
    ]});
    assert_eq!(
        refused(&plane, MUTATING, &policy("p", &spec)).await,
        [
            "spec.mutations[0].applyConfiguration.expression: Invalid value: \"{'data': {}}\": must evaluate to Object but got map(string, map(dyn, dyn))",
            "spec.mutations[1].jsonPatch.expression: Invalid value: \"[]\": must evaluate to list(JSONPatch) but got list(dyn)",
            "spec.mutations[2].jsonPatch.expression: Invalid value: \"[JSONPatch{op: 1}]\": compilation failed: ERROR: <input>:1:14: expected type of field 'op' is 'string' but provided type is 'int'",
        ]
    );
}

#[tokio::test]
async fn policies_apply_to_custom_resources() {
    let plane = TestEnv::start().await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}}}});
    plane.install_crd(&things(&schema)).await;
    let about = json!({"resourceRules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"],
        "operations": ["*"], "resources": ["things"]}]});
    let judging = json!({"matchConstraints": about, "validations": [
        {"expression": "object.spec.size < 5 && object.spec.color == 'red'"}]});
    govern(&plane, "p", &judging).await;
    let about = json!({"resourceRules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"],
        "operations": ["CREATE"], "resources": ["things"]}]});
    let changing = json!({"matchConstraints": about, "reinvocationPolicy": "Never",
        "mutations": [applied("Object{spec: Object.spec{color: 'red'}}")]});
    mutate(&plane, "p", &changing).await;
    let created = plane.create(THINGS, &thing("a", &json!({"size": 1}))).await;
    assert_eq!(created["spec"], json!({"size": 1, "color": "red"}));
    assert_eq!(plane.post(THINGS, &thing("b", &json!({"size": 5}))).await.0, 422);
}

#[tokio::test]
async fn a_changed_policy_applies_to_the_next_request() {
    let plane = governed(&json!({"validations": [{"expression": "false"}]})).await;
    assert_eq!(plane.post(MAPS, &map("a", &json!({}))).await.0, 422);
    let open = json!({"spec": {"validations": [{"expression": "true"}]}});
    plane.merge(&format!("{POLICIES}/p"), &open).await;
    plane.create(MAPS, &map("a", &json!({}))).await;
    assert_eq!(plane.delete(&format!("{POLICIES}/p")).await.0, 200);
    plane.create(MAPS, &map("b", &json!({}))).await;
}

#[tokio::test]
async fn many_variables_can_depend_on_each_other() {
    // Each variable has the maximum depth of an expression and uses the previous one.
    let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(120), "][0]".repeat(120));
    let mut variables = vec![json!({"name": "v0", "expression": "1"})];
    for index in 1..100 {
        let expression = deep(&format!("variables.v{}", index - 1));
        variables.push(json!({"name": format!("v{index}"), "expression": expression}));
    }
    let plane = governed(&json!({"variables": variables, "validations": [
        {"expression": "variables.v99 != 1", "messageExpression": "string(variables.v99)"}]}))
    .await;
    assert_eq!(refusal(&plane, &map("a", &json!({}))).await, (422, "1".to_owned()));
}

#[tokio::test]
async fn a_variable_that_depends_on_itself_fails() {
    let plane = governed(&json!({
        "variables": [{"name": "a", "expression": "1"}, {"name": "a", "expression": "variables.a"}],
        "validations": [{"expression": "variables.a == 1"}],
    }))
    .await;
    let (code, message) = refusal(&plane, &map("a", &json!({}))).await;
    assert_eq!(code, 422);
    assert!(message.ends_with("it depends on itself"), "{message}");
}

#[tokio::test]
async fn a_collection_delete_has_no_name_in_its_request() {
    let about = json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
        "operations": ["DELETE"], "resources": ["configmaps"]}]});
    let plane = governed(&json!({"matchConstraints": about, "validations": [
        {"expression": "has(object.metadata) || has(request.name)"}]}))
    .await;
    plane.create(MAPS, &labeled("a", "l", "1")).await;
    let (code, status) = plane.delete(&format!("{MAPS}?labelSelector=l")).await;
    let expected = "configmaps \"Unknown\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: has(object.metadata) || has(request.name)";
    assert_eq!((code, status["message"].as_str().unwrap()), (422, expected));
    let (code, status) = plane.delete(&format!("{MAPS}/a")).await;
    assert_eq!(code, 200, "{status}");
}
