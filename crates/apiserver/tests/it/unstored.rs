//! What is sent and not stored: reviews, orders to pods, requests for tokens. Who may change or
//! refuse them, and what the answers say.

use crate::client::{Client, TABLE};
use crate::plane::Plane;
use http::Method;
use machinery::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// A plane in which a policy tells of every request that it sees.
async fn observed() -> Plane {
    const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
    let plane = Plane::start().await;
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"],
        "resources": ["*/*"]});
    let told = "request.operation + ' ' + request.resource.resource + \
        (has(request.subResource) ? '/' + request.subResource : '') + ' ' + request.name + ' ' + \
        object.kind + (has(object.metadata.uid) ? ' with uid' : '')";
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "messageExpression": told}]}});
    plane.create(&format!("{GROUP}/validatingadmissionpolicies"), &policy).await;
    let binding = json!({"metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Warn"]}});
    plane.create(&format!("{GROUP}/validatingadmissionpolicybindings"), &binding).await;
    plane
}

/// The code of the answer, and what the policy told.
async fn told(client: &Client, path: &str, body: &Value) -> (u16, Vec<String>) {
    let reply = client.send(Method::POST, path, "application/json", body.to_string()).await;
    let warnings = reply.warnings().into_iter();
    let told = warnings.filter_map(|it| Some(it.split_once("binding 'b': ")?.1.to_owned()));
    (reply.code, told.collect())
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn binding(name: &str) -> Value {
    json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}})
}

#[tokio::test]
async fn reviews_are_out_of_everybodys_reach() {
    let plane = observed().await;
    let attributes = json!({"path": "/", "verb": "get"});
    for (path, spec) in [
        (TOKEN_REVIEWS, json!({"token": "t"})),
        (ACCESS_REVIEWS, json!({"user": "u", "nonResourceAttributes": attributes})),
    ] {
        assert_eq!(told(&plane, path, &json!({"spec": spec})).await, (201, Vec::new()), "{path}");
    }
}

#[tokio::test]
async fn orders_are_admitted_as_what_they_are() {
    let plane = observed().await;
    for name in ["a", "b"] {
        plane.create(PODS, &pod(name)).await;
    }
    let below = format!("{PODS}/a/binding");
    let seen = vec!["CREATE pods/binding a Binding".to_owned()];
    assert_eq!(told(&plane, &below, &binding("a")).await, (201, seen));
    let seen = vec!["CREATE bindings b Binding".to_owned()];
    let collection = "/api/v1/namespaces/default/bindings";
    assert_eq!(told(&plane, collection, &binding("b")).await, (201, seen));
    assert_eq!(plane.read(&format!("{PODS}/b")).await["spec"]["nodeName"], "n");
}

#[tokio::test]
async fn a_token_is_judged_when_its_account_is_known() {
    let plane = observed().await;
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "a"}})).await;
    let seen = vec!["CREATE serviceaccounts/token a TokenRequest with uid".to_owned()];
    assert_eq!(told(&plane, &format!("{ACCOUNTS}/a/token"), &json!({})).await, (201, seen));
    let nobody = told(&plane, &format!("{ACCOUNTS}/nobody/token"), &json!({})).await;
    assert_eq!(nobody, (404, Vec::new()));
}

#[tokio::test]
async fn a_token_is_for_the_account_that_the_request_means() {
    let plane = Plane::start().await;
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
async fn a_binding_names_its_pod_and_may_insist_on_its_state() {
    let plane = Plane::start().await;
    let created = plane.create(PODS, &pod("a")).await;
    let path = format!("{PODS}/a/binding");
    let (code, refused) = plane.post(&path, &binding("b")).await;
    let told = "name in URL does not match name in Binding object";
    assert_eq!((code, refused["message"].as_str().unwrap()), (400, told));
    let mut stale = binding("a");
    stale["metadata"]["resourceVersion"] = "1".into();
    let (code, refused) = plane.post(&path, &stale).await;
    assert!(refused["message"].as_str().unwrap().contains("ResourceVersion in precondition: 1"));
    assert_eq!(code, 409);
    plane.create(&path, &binding("a")).await;
    // Where a pod runs is nobody's field.
    let bound = plane.read(&format!("{PODS}/a")).await;
    assert_eq!(bound["metadata"]["managedFields"], created["metadata"]["managedFields"]);
}

#[tokio::test]
async fn a_review_repeats_the_question_and_whose_it_is() {
    let plane = Plane::start().await;
    let review = json!({"metadata": {"namespace": "x"}, "spec": {"token": "t"}});
    let answer = plane.create(TOKEN_REVIEWS, &review).await;
    assert_eq!(answer["metadata"].get("namespace"), None);
    let owned = &answer["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(owned, &json!({"f:spec": {"f:token": {}}}));
    let (code, refused) = plane.post(TOKEN_REVIEWS, &json!({"spec": {}})).await;
    let told = "token is required for TokenReview in authentication";
    assert_eq!((code, refused["message"].as_str().unwrap()), (400, told));
    let named = json!({"metadata": {"name": "q"},
        "spec": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}}});
    let (code, refused) = plane.post(ACCESS_REVIEWS, &named).await;
    assert_eq!((code, &refused["details"]["causes"][0]["field"]), (422, &json!("metadata")));
}

#[tokio::test]
async fn a_webhook_for_reviews_is_told_that_it_waits_in_vain() {
    let plane = Plane::start().await;
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
        let told = "webhooks[0].rules[2]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect";
        assert_eq!((reply.code, reply.warnings()), (201, vec![told.to_owned()]));
        let (code, refused) =
            plane.post(&path, &json!({"metadata": {"name": "a.static.k8s.io"}})).await;
        assert_eq!(
            (code, &refused["details"]["causes"][0]["field"]),
            (422, &json!("metadata.name"))
        );
    }
}

#[tokio::test]
async fn components_are_listed_with_their_health() {
    let plane = Plane::start().await;
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
