//! Objects that are not stored: reviews, bindings, token requests. Their admission and responses.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::Method;

use machinery::{Value, json};
use testenv::media_type::TABLE;
use testenv::{Client, TestEnv};

const PODS: &str = "/api/v1/namespaces/default/pods";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// A plane with a policy that adds a warning with the attributes of the request to every response.
async fn plane_with_warning_policy() -> TestEnv {
    const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
    let plane = TestEnv::start().await;
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"],
        "resources": ["*/*"]});
    let message = "request.operation + ' ' + request.resource.resource + \
        (has(request.subResource) ? '/' + request.subResource : '') + ' ' + request.name + ' ' + \
        object.kind + (has(object.metadata.uid) ? ' with uid' : '')";
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "messageExpression": message}]}});
    plane.create(&format!("{GROUP}/validatingadmissionpolicies"), &policy).await;
    let binding = json!({"metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Warn"]}});
    plane.create(&format!("{GROUP}/validatingadmissionpolicybindings"), &binding).await;
    plane
}

/// Posts an object, and returns the code of the response and the warnings of the policy.
async fn post_with_warnings(client: &Client, path: &str, body: &Value) -> (u16, Vec<String>) {
    let reply = client.send(Method::POST, path, "application/json", body.to_string()).await;
    let warnings = reply.warnings().into_iter();
    let of_policy = warnings.filter_map(|it| Some(it.split_once("binding 'b': ")?.1.to_owned()));
    (reply.code, of_policy.collect())
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn binding(name: &str) -> Value {
    json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}})
}

#[tokio::test]
async fn reviews_are_not_sent_to_admission_policies() {
    let plane = plane_with_warning_policy().await;
    let attributes = json!({"path": "/", "verb": "get"});
    for (path, spec) in [
        (TOKEN_REVIEWS, json!({"token": "t"})),
        (ACCESS_REVIEWS, json!({"user": "u", "nonResourceAttributes": attributes})),
    ] {
        assert_eq!(
            post_with_warnings(&plane, path, &json!({"spec": spec})).await,
            (201, Vec::new()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn bindings_pass_admission_with_their_resource() {
    let plane = plane_with_warning_policy().await;
    for name in ["a", "b"] {
        plane.create(PODS, &pod(name)).await;
    }
    let below = format!("{PODS}/a/binding");
    let seen = vec!["CREATE pods/binding a Binding".to_owned()];
    assert_eq!(post_with_warnings(&plane, &below, &binding("a")).await, (201, seen));
    let seen = vec!["CREATE bindings b Binding".to_owned()];
    let collection = "/api/v1/namespaces/default/bindings";
    assert_eq!(post_with_warnings(&plane, collection, &binding("b")).await, (201, seen));
    assert_eq!(plane.read(&format!("{PODS}/b")).await["spec"]["nodeName"], "n");
}

#[tokio::test]
async fn a_token_request_is_admitted_after_its_account_is_found() {
    let plane = plane_with_warning_policy().await;
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "a"}})).await;
    let seen = vec!["CREATE serviceaccounts/token a TokenRequest with uid".to_owned()];
    assert_eq!(
        post_with_warnings(&plane, &format!("{ACCOUNTS}/a/token"), &json!({})).await,
        (201, seen)
    );
    let nobody = post_with_warnings(&plane, &format!("{ACCOUNTS}/nobody/token"), &json!({})).await;
    assert_eq!(nobody, (404, Vec::new()));
}

#[tokio::test]
async fn a_token_request_must_match_its_account() {
    let plane = TestEnv::start().await;
    let account = plane.create(ACCOUNTS, &json!({"metadata": {"name": "a"}})).await;
    let path = format!("{ACCOUNTS}/a/token");
    let answer = plane.create(&path, &json!({"spec": {"foo": 1}})).await;
    assert_eq!(answer["metadata"]["uid"], account["metadata"]["uid"]);
    assert_eq!(answer["spec"].get("foo"), None);
    let owned = &answer["metadata"]["managedFields"][0];
    assert_eq!(owned["fieldsV1"], json!({"f:spec": {"f:expirationSeconds": {}}}));
    assert_eq!(owned["subresource"], "token");
    for (metadata, code) in
        [(json!({"name": "b"}), 422), (json!({"namespace": "b"}), 400), (json!({"uid": "b"}), 409)]
    {
        let (found, refused) = plane.post(&path, &json!({"metadata": metadata})).await;
        assert_eq!(found, code, "{refused}");
    }
}

#[tokio::test]
async fn a_binding_must_name_its_pod_and_supports_preconditions() {
    let plane = TestEnv::start().await;
    let created = plane.create(PODS, &pod("a")).await;
    let path = format!("{PODS}/a/binding");
    let (code, refused) = plane.post(&path, &binding("b")).await;
    let expected = "name in URL does not match name in Binding object";
    assert_eq!((code, refused["message"].as_str().unwrap()), (400, expected));
    let mut stale = binding("a");
    stale["metadata"]["resourceVersion"] = "1".into();
    let (code, refused) = plane.post(&path, &stale).await;
    assert!(refused["message"].as_str().unwrap().contains("ResourceVersion in precondition: 1"));
    assert_eq!(code, 409);
    plane.create(&path, &binding("a")).await;
    // The node name of a binding has no field manager.
    let bound = plane.read(&format!("{PODS}/a")).await;
    assert_eq!(bound["metadata"]["managedFields"], created["metadata"]["managedFields"]);
}

#[tokio::test]
async fn a_token_review_drops_its_namespace_and_an_access_review_refuses_metadata() {
    let plane = TestEnv::start().await;
    let review = json!({"metadata": {"namespace": "x"}, "spec": {"token": "t"}});
    let answer = plane.create(TOKEN_REVIEWS, &review).await;
    assert_eq!(answer["metadata"].get("namespace"), None);
    let owned = &answer["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(owned, &json!({"f:spec": {"f:token": {}}}));
    let (code, refused) = plane.post(TOKEN_REVIEWS, &json!({"spec": {}})).await;
    let expected = "token is required for TokenReview in authentication";
    assert_eq!((code, refused["message"].as_str().unwrap()), (400, expected));
    let named = json!({"metadata": {"name": "q"},
        "spec": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}}});
    let (code, refused) = plane.post(ACCESS_REVIEWS, &named).await;
    assert_eq!((code, &refused["details"]["causes"][0]["field"]), (422, &json!("metadata")));
}

#[tokio::test]
async fn a_webhook_for_reviews_gets_a_warning() {
    let plane = TestEnv::start().await;
    let rule = |group: &str, resource: &str| {
        json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["*"],
            "resources": [resource]})
    };
    let hook = json!({"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://x.y/z"}, "rules": [rule("", "pods"),
            rule("*", "tokenreviews"), rule("authentication.k8s.io", "tokenreviews")]});
    for kind in ["validating", "mutating"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations");
        let body = json!({"metadata": {"name": "w"}, "webhooks": [hook]}).to_string();
        let reply = plane.send(Method::POST, &path, "application/json", body).await;
        let expected = "webhooks[0].rules[2]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect";
        assert_eq!((reply.code, reply.warnings()), (201, vec![expected.to_owned()]));
        let (code, refused) =
            plane.post(&path, &json!({"metadata": {"name": "a.static.k8s.io"}})).await;
        assert_eq!(
            (code, &refused["details"]["causes"][0]["field"]),
            (422, &json!("metadata.name"))
        );
    }
}

/// A token for the account `a`, with a spec of the request.
async fn token(plane: &TestEnv, spec: &Value) -> (u16, Value) {
    plane.post(&format!("{ACCOUNTS}/a/token"), &json!({"spec": spec})).await
}

/// The status of a token review.
async fn review(plane: &TestEnv, token: &str) -> Value {
    plane.create(TOKEN_REVIEWS, &json!({"spec": {"token": token}})).await["status"].clone()
}

/// The claims of a token.
fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

#[tokio::test]
async fn a_token_bound_to_a_pod_is_invalid_after_its_deletion() {
    let plane = TestEnv::start().await;
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "a"}})).await;
    let node = plane.create("/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    let mut sent = pod("p");
    sent["spec"]["serviceAccountName"] = "a".into();
    sent["spec"]["nodeName"] = "n".into();
    let pod = plane.create(PODS, &sent).await;
    let reference = json!({"kind": "Pod", "apiVersion": "v1", "name": "p"});
    let spec = json!({"expirationSeconds": 3607, "boundObjectRef": reference});
    let (code, request) = token(&plane, &spec).await;
    assert_eq!((code, &request["spec"]["boundObjectRef"]), (201, &reference));
    assert_eq!(request["status"]["expirationTimestamp"], "2024-01-01T01:00:07Z");
    let text = request["status"]["token"].as_str().unwrap();
    let claims = claims(text);
    let named = |object: &Value| json!({"name": object["metadata"]["name"], "uid": object["metadata"]["uid"]});
    assert_eq!(claims["kubernetes.io"]["pod"], named(&pod));
    assert_eq!(claims["kubernetes.io"]["node"], named(&node));
    let seconds = |key: &Value| key.as_i64().unwrap() - claims["iat"].as_i64().unwrap();
    assert_eq!(seconds(&claims["exp"]), 365 * 24 * 3600);
    assert_eq!(seconds(&claims["kubernetes.io"]["warnafter"]), 3607);

    let good = review(&plane, text).await;
    let extra = |key: &str| &good["user"]["extra"][format!("authentication.kubernetes.io/{key}")];
    assert_eq!((&good["authenticated"], extra("pod-name")), (&json!(true), &json!(["p"])));
    assert_eq!(extra("node-uid"), &json!([node["metadata"]["uid"]]));

    plane.delete_with(&format!("{PODS}/p"), &json!({"gracePeriodSeconds": 0})).await;
    let why = "[invalid bearer token, service account token has been invalidated]";
    assert_eq!(review(&plane, text).await, json!({"user": {}, "error": why}));
    assert_eq!(plane.bearer(text).get(PODS).await.0, 401);
    let again = plane.create(PODS, &sent).await;
    let why = format!(
        "[invalid bearer token, pod UID ({}) does not match service account pod ref claim ({})]",
        again["metadata"]["uid"].as_str().unwrap(),
        pod["metadata"]["uid"].as_str().unwrap(),
    );
    assert_eq!(review(&plane, text).await["error"], why);
}

#[tokio::test]
async fn a_token_bound_to_a_secret_is_invalid_after_its_deletion() {
    let plane = TestEnv::start().await;
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "a"}})).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    plane.create(secrets, &json!({"metadata": {"name": "s"}})).await;
    let reference = json!({"kind": "Secret", "apiVersion": "v1", "name": "s"});
    let (_, request) = token(&plane, &json!({"boundObjectRef": reference})).await;
    let text = request["status"]["token"].as_str().unwrap();
    assert_eq!(claims(text)["kubernetes.io"]["secret"]["name"], "s");
    assert_eq!(review(&plane, text).await["authenticated"], true);
    plane.delete(&format!("{secrets}/s")).await;
    let why = "[invalid bearer token, service account token has been invalidated]";
    assert_eq!(review(&plane, text).await["error"], why);
}

#[tokio::test]
async fn a_token_can_be_bound_only_to_existing_objects_of_its_account() {
    let plane = TestEnv::start().await;
    for name in ["a", "default"] {
        let (code, _) = plane.post(ACCOUNTS, &json!({"metadata": {"name": name}})).await;
        assert!(matches!(code, 201 | 409), "{code}");
    }
    plane.create(PODS, &pod("p")).await;
    plane.create("/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    for (kind, api_version, name, uid, code, message) in [
        ("Pod", "v1", "none", "", 404, "pods \"none\" not found"),
        ("Secret", "v1", "none", "", 404, "secrets \"none\" not found"),
        (
            "ConfigMap",
            "v1",
            "x",
            "",
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (
            "Deployment",
            "apps/v1",
            "x",
            "",
            400,
            "cannot bind token to object of type apps/v1, Kind=Deployment",
        ),
        (
            "Pod",
            "v1",
            "p",
            "",
            400,
            "cannot bind token for serviceaccount \"a\" to pod running with different serviceaccount name.",
        ),
        (
            "Node",
            "v1",
            "n",
            "x",
            409,
            "Operation cannot be fulfilled on Node \"n\": the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated",
        ),
    ] {
        let reference = json!({"kind": kind, "apiVersion": api_version, "name": name, "uid": uid});
        let (found, answer) = token(&plane, &json!({"boundObjectRef": reference})).await;
        assert_eq!((found, answer["message"].as_str()), (code, Some(message)));
    }
    let reference = json!({"kind": "Node", "apiVersion": "v1", "name": "n"});
    assert_eq!(token(&plane, &json!({"boundObjectRef": reference})).await.0, 201);
}

#[tokio::test]
async fn a_token_review_has_the_reason_of_a_refusal() {
    let plane = TestEnv::start().await;
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(review(&plane, "nonsense").await["error"], "invalid bearer token");
    let (_, request) = token(&plane, &json!({"audiences": ["x", "y"]})).await;
    let text = request["status"]["token"].as_str().unwrap();
    let audiences = r#"[invalid bearer token, token audiences ["x" "y"] is invalid for the target audiences ["https://kubernetes.default.svc"]]"#;
    assert_eq!(review(&plane, text).await["error"], audiences);
    let (_, for_server) = token(&plane, &json!({})).await;
    let for_server = for_server["status"]["token"].as_str().unwrap();
    plane.advance(Duration::from_secs(3661));
    let expired = "[invalid bearer token, service account token has expired]";
    assert_eq!(review(&plane, for_server).await["error"], expired);
    // Upstream: pkg/serviceaccount/jwt.go compares the audiences before it validates the claims.
    assert_eq!(review(&plane, text).await["error"], audiences);
}

#[tokio::test]
async fn component_statuses_are_listed() {
    let plane = TestEnv::start().await;
    let path = "/api/v1/componentstatuses";
    let list = plane.read(path).await;
    let names: Vec<&Value> =
        list["items"].as_array().unwrap().iter().map(|it| &it["metadata"]["name"]).collect();
    assert_eq!(names, ["controller-manager", "scheduler", "etcd-0"]);
    let table = plane.get_as(path, TABLE).await.value();
    let columns = table["columnDefinitions"].as_array().unwrap();
    let columns: Vec<&Value> = columns.iter().map(|it| &it["name"]).collect();
    assert_eq!(columns, ["Name", "Status", "Message", "Error"]);
    assert_eq!(table["rows"][2]["cells"], json!(["etcd-0", "Healthy", "ok", ""]));
    let one = plane.read(&format!("{path}/etcd-0")).await;
    let healthy = json!([{"type": "Healthy", "status": "True", "message": "ok"}]);
    assert_eq!(one["conditions"], healthy);
    let selected = plane.read(&format!("{path}?labelSelector=a%3Db")).await;
    assert_eq!(selected["items"], json!([]));
    let (code, missing) = plane.get(&format!("{path}/x")).await;
    assert_eq!((code, &missing["message"]), (404, &json!("componentstatus \"x\" not found")));
}

#[tokio::test]
async fn reviews_have_no_table() {
    let plane = TestEnv::start().await;
    let client = plane.with_header("accept", TABLE);
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let reply = client.send(Method::POST, path, "application/json", review.to_string()).await;
    assert_eq!(reply.code, 406);
    assert_eq!(reply.value()["reason"], "NotAcceptable");
    let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let client = plane.with_header("accept", metadata);
    let reply = client.send(Method::POST, path, "application/json", review.to_string()).await;
    assert_eq!((reply.code, &reply.value()["kind"]), (201, &json!("PartialObjectMetadata")));
}
