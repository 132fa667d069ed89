//! Admission webhooks: matching, calls and the effects of responses.

use http::Method;

use crate::objects::{CONFIG_MAPS, CRDS, THINGS, config_map, labeled};
use crate::webhook_server::{WebhookCall, WebhookServer, answer, patched};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::JSON;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// Configures validating webhooks.
pub(crate) async fn configure_validating_webhooks(plane: &TestEnv, name: &str, hooks: &[Value]) {
    let configuration = json!({"metadata": {"name": name}, "webhooks": hooks});
    plane.create(&format!("{GROUP}/validatingwebhookconfigurations"), &configuration).await;
}

/// Configures mutating webhooks.
pub(crate) async fn configure_mutating_webhooks(plane: &TestEnv, name: &str, hooks: &[Value]) {
    let configuration = json!({"metadata": {"name": name}, "webhooks": hooks});
    plane.create(&format!("{GROUP}/mutatingwebhookconfigurations"), &configuration).await;
}

async fn allowing_webhook() -> WebhookServer {
    WebhookServer::answering(|_| json!({"allowed": true})).await
}

/// Rules for one resource, with all operations.
fn rules(group: &str, version: &str, resource: &str) -> Value {
    json!([{"operations": ["*"], "apiGroups": [group], "apiVersions": [version],
        "resources": [resource]}])
}

#[tokio::test]
async fn a_validating_webhook_allows_or_denies() {
    let plane = TestEnv::start().await;
    let server = WebhookServer::answering(|request| {
        let status = json!({"code": 403, "reason": "TooBlue", "message": "no blue things"});
        json!({"allowed": request["name"] != "blue", "status": status})
    })
    .await;
    configure_validating_webhooks(&plane, "c", &[server.hook("a.b.c", &json!({}))]).await;
    plane.create(CONFIG_MAPS, &config_map("red", &json!({}))).await;
    let (code, status) = plane.post(CONFIG_MAPS, &config_map("blue", &json!({}))).await;
    assert_eq!(code, 403);
    assert_eq!(status["message"], "admission webhook \"a.b.c\" denied the request: no blue things");
    assert_eq!(status["reason"], "TooBlue");
    assert_eq!(plane.get(&format!("{CONFIG_MAPS}/blue")).await.0, 404);
    plane.create("/api/v1/namespaces/default/secrets", &config_map("blue", &json!({}))).await;
}

#[tokio::test]
async fn a_mutating_webhook_gets_the_namespace_of_an_update_without_one() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let server = allowing_webhook().await;
    configure_mutating_webhooks(&plane, "c", &[server.hook("a.b.c", &json!({}))]).await;
    assert_eq!(
        plane.put(&format!("{CONFIG_MAPS}/a"), &config_map("a", &json!({"k": "1"}))).await.0,
        200
    );
    let request = &server.calls()[0].review["request"];
    assert_eq!(request["object"]["metadata"]["namespace"], "default");
}

#[tokio::test]
async fn a_webhook_gets_the_request_with_old_and_new_object() {
    let plane = TestEnv::start().await;
    let server = allowing_webhook().await;
    configure_validating_webhooks(
        &plane,
        "c",
        &[server.hook("a.b.c", &json!({"timeoutSeconds": 7}))],
    )
    .await;
    plane
        .create(&format!("{CONFIG_MAPS}?fieldManager=me"), &config_map("a", &json!({"k": "1"})))
        .await;
    plane.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"k": "2"}})).await;
    plane.delete_with(&format!("{CONFIG_MAPS}/a"), &json!({"gracePeriodSeconds": 3})).await;
    let calls = server.calls();
    let [created, updated, deleted] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(created.target, "/hook?timeout=7s");
    assert_eq!(created.review["apiVersion"], "admission.k8s.io/v1");
    let request = &created.review["request"];
    assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    assert_eq!((&request["resource"], &request["requestResource"]), (&resource, &resource));
    assert_eq!((&request["name"], &request["namespace"]), (&json!("a"), &json!("default")));
    assert_eq!((&request["operation"], &request["dryRun"]), (&json!("CREATE"), &json!(false)));
    assert_eq!(request["userInfo"]["username"], "sampan-admin");
    assert_eq!(request["object"]["data"], json!({"k": "1"}));
    assert_eq!(request["object"]["metadata"]["namespace"], "default");
    assert_eq!(request["oldObject"], Value::Null);
    let options = json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1",
        "fieldManager": "me"});
    assert_eq!(request["options"], options);
    let request = &updated.review["request"];
    assert_eq!(
        (&request["operation"], &request["options"]["kind"]),
        (&json!("UPDATE"), &json!("UpdateOptions"))
    );
    assert_eq!(request["object"]["data"], json!({"k": "2"}));
    assert_eq!(request["oldObject"]["data"], json!({"k": "1"}));
    let request = &deleted.review["request"];
    assert_eq!((&request["operation"], &request["object"]), (&json!("DELETE"), &Value::Null));
    assert_eq!(request["oldObject"]["data"], json!({"k": "2"}));
    assert_eq!(request["options"]["gracePeriodSeconds"], 3);
}

#[tokio::test]
async fn a_mutating_webhook_changes_the_stored_object() {
    let plane = TestEnv::start().await;
    let server = WebhookServer::patching(|request| {
        if request["operation"] == "DELETE" {
            return json!([]);
        }
        json!([
            {"op": "add", "path": "/spec/template/spec/containers/-",
                "value": {"name": "sidecar", "image": "s", "nonsense": 1}},
        ])
    })
    .await;
    let hook = server.hook("a.b.c", &json!({"rules": rules("apps", "v1", "deployments")}));
    configure_mutating_webhooks(&plane, "c", &[hook]).await;
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "m"}]}}}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let created = plane.create(path, &deployment).await;
    let sidecar = &created["spec"]["template"]["spec"]["containers"][1];
    assert_eq!(sidecar["name"], "sidecar");
    assert_eq!(sidecar["terminationMessagePath"], "/dev/termination-log");
    assert_eq!(sidecar.get("nonsense"), None);
    assert_eq!(plane.read(&format!("{path}/web")).await["spec"], created["spec"]);
    assert_eq!(plane.delete(&format!("{path}/web")).await.0, 200);
}

#[tokio::test]
async fn a_mutated_object_is_validated() {
    let plane = TestEnv::start().await;
    let server = WebhookServer::patching(
        |_| json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "not a label!"}}]),
    )
    .await;
    configure_mutating_webhooks(&plane, "c", &[server.hook("a.b.c", &json!({}))]).await;
    let (code, status) = plane.post(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
}

/// A webhook that appends its name to `data.trace`.
async fn tracing_webhook(name: &'static str) -> WebhookServer {
    WebhookServer::patching(move |request| {
        let trace = request["object"]["data"]["trace"].as_str().unwrap_or_default();
        json!([{"op": "add", "path": "/data/trace", "value": format!("{trace}{name}")}])
    })
    .await
}

#[tokio::test]
async fn mutating_webhooks_run_in_the_order_of_their_configurations() {
    let plane = TestEnv::start().await;
    let (a, b, c) =
        (tracing_webhook("a").await, tracing_webhook("b").await, tracing_webhook("c").await);
    configure_mutating_webhooks(&plane, "z", &[c.hook("c.b.c", &json!({}))]).await;
    let hooks = [b.hook("z.b.c", &json!({})), a.hook("a.b.c", &json!({}))];
    configure_mutating_webhooks(&plane, "y", &hooks).await;
    let created = plane.create(CONFIG_MAPS, &config_map("x", &json!({"trace": ""}))).await;
    assert_eq!(created["data"]["trace"], "bac");
}

#[tokio::test]
async fn a_webhook_with_reinvocation_is_called_again_after_later_changes() {
    let plane = TestEnv::start().await;
    let (a, b) = (tracing_webhook("a").await, tracing_webhook("b").await);
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let hooks = [a.hook("a.b.c", &again), b.hook("b.b.c", &json!({}))];
    configure_mutating_webhooks(&plane, "c", &hooks).await;
    let created = plane.create(CONFIG_MAPS, &config_map("x", &json!({"trace": ""}))).await;
    assert_eq!(created["data"]["trace"], "aba");
    assert_eq!((a.calls().len(), b.calls().len()), (2, 1));
}

#[tokio::test]
async fn match_conditions_select_requests() {
    let plane = TestEnv::start().await;
    let server = allowing_webhook().await;
    let conditions = json!([
        {"name": "created", "expression": "request.operation == 'CREATE' && oldObject == null"},
        {"name": "wanted", "expression": "object.metadata.name.startsWith('w')"},
        {"name": "allowed", "expression": "authorizer.requestResource.check('create').allowed()"},
    ]);
    let hook = server.hook("a.b.c", &json!({"matchConditions": conditions}));
    configure_validating_webhooks(&plane, "c", &[hook]).await;
    plane.create(CONFIG_MAPS, &config_map("wanted", &json!({}))).await;
    plane.create(CONFIG_MAPS, &config_map("other", &json!({}))).await;
    plane.merge(&format!("{CONFIG_MAPS}/wanted"), &json!({"data": {"a": "b"}})).await;
    assert_eq!(server.names(), ["wanted"]);
}

#[tokio::test]
async fn a_failed_match_condition_is_a_failure_of_the_webhook() {
    let plane = TestEnv::start().await;
    let server = allowing_webhook().await;
    let condition = json!([{"name": "c", "expression": "object.data.absent == 'x'"}]);
    let ignored = json!({"matchConditions": condition, "failurePolicy": "Ignore"});
    configure_validating_webhooks(&plane, "a", &[server.hook("a.b.c", &ignored)]).await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({"k": "v"}))).await;
    let strict = json!({"matchConditions": condition});
    configure_validating_webhooks(&plane, "b", &[server.hook("b.b.c", &strict)]).await;
    let (code, status) = plane.post(CONFIG_MAPS, &config_map("b", &json!({"k": "v"}))).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "configmaps \"b\" is forbidden: expression 'object.data.absent == 'x'' resulted in error: no such key: absent"
    );
    assert_eq!(server.calls().len(), 0);
}

#[tokio::test]
async fn an_invalid_match_condition_is_refused() {
    let plane = TestEnv::start().await;
    let server = allowing_webhook().await;
    let condition = json!([{"name": "c", "expression": "object.x +"}]);
    let hook = server.hook("a.b.c", &json!({"matchConditions": condition}));
    let configuration = json!({"metadata": {"name": "c"}, "webhooks": [hook]});
    let path = format!("{GROUP}/validatingwebhookconfigurations");
    let (code, status) = plane.post(&path, &configuration).await;
    assert_eq!(code, 422);
    let cause = &status["details"]["causes"][0];
    assert_eq!(cause["field"], "webhooks[0].matchConditions[0].expression");
    let message = cause["message"].as_str().unwrap();
    assert!(
        message.starts_with("Invalid value: \"object.x +\": compilation failed: "),
        "{message}"
    );
}

#[tokio::test]
async fn namespace_and_object_selectors_select_requests() {
    let plane = TestEnv::start().await;
    let server = allowing_webhook().await;
    let selectors = json!({
        "namespaceSelector": {"matchLabels": {"hooked": "yes"}},
        "objectSelector": {"matchLabels": {"app": "web"}},
    });
    configure_validating_webhooks(&plane, "c", &[server.hook("a.b.c", &selectors)]).await;
    let namespace = json!({"metadata": {"name": "in", "labels": {"hooked": "yes"}}});
    plane.create("/api/v1/namespaces", &namespace).await;
    let inside = "/api/v1/namespaces/in/configmaps";
    plane.create(inside, &labeled("seen", "app", "web")).await;
    plane.create(inside, &labeled("unseen", "app", "db")).await;
    plane.create(CONFIG_MAPS, &labeled("outside", "app", "web")).await;
    // The webhook also matches the update that removes the label.
    plane.merge(&format!("{inside}/seen"), &json!({"metadata": {"labels": {"app": null}}})).await;
    assert_eq!(server.names(), ["seen", "seen"]);
}

#[tokio::test]
async fn warnings_of_a_webhook_are_sent_to_the_client() {
    let plane = TestEnv::start().await;
    let server =
        WebhookServer::answering(|_| json!({"allowed": true, "warnings": ["mind the gap"]})).await;
    configure_validating_webhooks(&plane, "c", &[server.hook("a.b.c", &json!({}))]).await;
    let body = config_map("a", &json!({})).to_string();
    let reply = plane.send(Method::POST, CONFIG_MAPS, JSON, body).await;
    assert_eq!((reply.code, reply.warnings()), (201, vec!["mind the gap".to_owned()]));
}

#[tokio::test]
async fn a_webhook_gets_the_dry_run_flag() {
    let plane = TestEnv::start().await;
    let server = allowing_webhook().await;
    configure_validating_webhooks(&plane, "c", &[server.hook("a.b.c", &json!({}))]).await;
    plane.create(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a", &json!({}))).await;
    let calls = server.calls();
    assert_eq!(calls[0].review["request"]["dryRun"], true);
    assert_eq!(calls[0].review["request"]["options"]["dryRun"], json!(["All"]));
}

#[tokio::test]
async fn a_doubled_slash_in_the_url_of_a_webhook_is_cleaned() {
    let plane = TestEnv::start().await;
    let server = allowing_webhook().await;
    let mut config = server.client_config();
    config["url"] = format!("https://127.0.0.1:{}//hook", server.port()).into();
    let hook = server.hook("a.b.c", &json!({"clientConfig": config}));
    configure_validating_webhooks(&plane, "c", &[hook]).await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(server.calls()[0].target, "/hook?timeout=10s");
}

#[tokio::test]
async fn a_webhook_can_be_behind_a_service() {
    let plane = TestEnv::start().await;
    let server = allowing_webhook().await;
    let service = json!({"metadata": {"name": "hook"},
        "spec": {"ports": [{"name": "https", "port": 443}]}});
    plane.create("/api/v1/namespaces/default/services", &service).await;
    // A host name, since endpoints with loopback addresses are refused.
    let slice = json!({
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "FQDN", "ports": [{"name": "https", "port": server.port()}],
        "endpoints": [{"addresses": ["127.0.0.1"]}],
    });
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let hook = server.hook("a.b.c", &json!({"clientConfig": server.service_config()}));
    configure_validating_webhooks(&plane, "c", &[hook]).await;
    let (code, status) = plane.post(CONFIG_MAPS, &config_map("early", &json!({}))).await;
    assert_eq!(code, 500);
    assert_eq!(
        status["message"],
        "Internal error occurred: failed calling webhook \"a.b.c\": failed to call webhook: Post \"https://hook.default.svc:443/behind?timeout=10s\": no endpoints available for service \"hook\""
    );
    plane.create(slices, &slice).await;
    plane.create(CONFIG_MAPS, &config_map("late", &json!({}))).await;
    assert_eq!(server.calls()[0].target, "/behind?timeout=10s");
}

#[tokio::test]
async fn v1beta1_reviews_are_supported() {
    let plane = TestEnv::start().await;
    let server = tracing_webhook("x").await;
    let versions = json!({"admissionReviewVersions": ["v9", "v1beta1", "v1"]});
    configure_mutating_webhooks(&plane, "c", &[server.hook("a.b.c", &versions)]).await;
    let created = plane.create(CONFIG_MAPS, &config_map("a", &json!({"trace": ""}))).await;
    assert_eq!(created["data"]["trace"], "x");
    assert_eq!(server.calls()[0].review["apiVersion"], "admission.k8s.io/v1beta1");
}

#[tokio::test]
async fn a_webhook_gets_the_object_in_its_version() {
    let plane = TestEnv::start().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": schema}})
    };
    let crd = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [version("v1", false), version("v2", true)]},
    });
    plane.create(CRDS, &crd).await;
    plane.until(THINGS, |code, _| code == 200).await;
    let server = WebhookServer::patching(
        |_| json!([{"op": "add", "path": "/spec", "value": {"seen": true}}]),
    )
    .await;
    let known = rules("example.com", "v1", "things");
    let exact = json!({"rules": known, "matchPolicy": "Exact"});
    configure_mutating_webhooks(&plane, "a", &[server.hook("a.b.c", &exact)]).await;
    let thing = |name: &str| json!({"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": name}});
    let path = THINGS.replace("v1", "v2");
    plane.create(&path, &thing("unseen")).await;
    assert_eq!(server.calls().len(), 0);
    configure_mutating_webhooks(&plane, "b", &[server.hook("b.b.c", &json!({"rules": known}))])
        .await;
    let created = plane.create(&path, &thing("seen")).await;
    assert_eq!(created["apiVersion"], "example.com/v2");
    assert_eq!(created["spec"], json!({"seen": true}));
    let request = &server.calls()[0].review["request"];
    assert_eq!(request["object"]["apiVersion"], "example.com/v1");
    assert_eq!(request["kind"]["version"], "v1");
    assert_eq!(request["requestKind"]["version"], "v2");
}

#[tokio::test]
async fn webhooks_get_the_body_of_subresource_requests() {
    let plane = TestEnv::start().await;
    let server = WebhookServer::answering(|request| {
        let scale = json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]);
        if request["kind"]["kind"] == "Scale" { patched(&scale) } else { json!({"allowed": true}) }
    })
    .await;
    let all = json!([{"operations": ["CREATE", "UPDATE", "CONNECT"], "apiGroups": ["*"],
        "apiVersions": ["*"], "resources": ["*/scale", "pods/*", "serviceaccounts/token"]}]);
    configure_mutating_webhooks(&plane, "c", &[server.hook("a.b.c", &json!({"rules": all}))]).await;
    let labels = json!({"matchLabels": {"a": "b"}});
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let set = json!({"metadata": {"name": "set"}, "spec": {"replicas": 1, "selector": labels,
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}});
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    plane.create(sets, &set).await;
    let scaled = plane.merge(&format!("{sets}/set/scale"), &json!({"spec": {"replicas": 3}})).await;
    assert_eq!(scaled["spec"]["replicas"], 5);
    assert_eq!(plane.read(&format!("{sets}/set")).await["spec"]["replicas"], 5);

    let pods = "/api/v1/namespaces/default/pods";
    plane.create(pods, &json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let (code, _) = plane.get(&format!("{pods}/p/exec?command=sh&command=-c&stdin=true")).await;
    assert_eq!(code, 400);
    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
    plane.create(&format!("{pods}/p/binding"), &binding).await;
    plane.create(&format!("{pods}/p/eviction"), &json!({"metadata": {"name": "p"}})).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    plane.create(accounts, &json!({"metadata": {"name": "robot"}})).await;
    plane.create(&format!("{accounts}/robot/token"), &json!({})).await;

    let brief = |call: WebhookCall| {
        let request = &call.review["request"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!(
            "{} {}/{} {} {}",
            text(&request["operation"]),
            text(&request["resource"]["resource"]),
            text(&request["subResource"]),
            text(&request["object"]["kind"]),
            text(&request["name"]),
        )
    };
    let calls: Vec<String> = server.calls().into_iter().map(brief).collect();
    assert_eq!(
        calls,
        [
            "UPDATE replicasets/scale Scale set",
            "CREATE pods/ Pod p",
            "CONNECT pods/exec PodExecOptions p",
            "CREATE pods/binding Binding p",
            "CREATE pods/eviction Eviction p",
            "CREATE serviceaccounts/token TokenRequest robot",
        ]
    );
    let exec = &server.calls()[2].review["request"];
    assert_eq!(exec["object"]["command"], json!(["sh", "-c"]));
    assert_eq!((&exec["object"]["stdin"], &exec["options"]), (&json!(true), &Value::Null));
    assert_eq!(server.calls()[0].review["request"]["oldObject"]["spec"]["replicas"], 1);
}

#[tokio::test]
async fn a_webhook_can_deny_connect_requests() {
    let plane = TestEnv::start().await;
    let server = WebhookServer::answering(|_| json!({"allowed": false})).await;
    let hook = server.hook("a.b.c", &json!({"rules": rules("", "v1", "pods/exec")}));
    configure_validating_webhooks(&plane, "c", &[hook]).await;
    let (code, status) = plane.get("/api/v1/namespaces/default/pods/p/exec?command=sh").await;
    assert_eq!(code, 400);
    assert_eq!(
        status["message"],
        "admission webhook \"a.b.c\" denied the request without explanation"
    );
}

#[tokio::test]
async fn a_collection_delete_calls_webhooks_for_each_object() {
    let plane = TestEnv::start().await;
    let server = WebhookServer::answering(
        |request| json!({"allowed": request["oldObject"]["metadata"]["name"] != "b"}),
    )
    .await;
    let mut deletions = rules("", "v1", "configmaps");
    deletions[0]["operations"] = json!(["DELETE"]);
    configure_validating_webhooks(
        &plane,
        "c",
        &[server.hook("a.b.c", &json!({"rules": deletions}))],
    )
    .await;
    let namespace = json!({"metadata": {"name": "in"}});
    plane.create("/api/v1/namespaces", &namespace).await;
    let inside = "/api/v1/namespaces/in/configmaps";
    for name in ["a", "b"] {
        plane.create(inside, &config_map(name, &json!({}))).await;
    }
    assert_eq!(plane.delete(inside).await.0, 400);
    assert_eq!(plane.get(&format!("{inside}/a")).await.0, 404);
    assert_eq!(plane.get(&format!("{inside}/b")).await.0, 200);
}

#[tokio::test]
async fn webhook_configurations_are_not_sent_to_webhooks() {
    let plane = TestEnv::start().await;
    let server = WebhookServer::answering(|_| json!({"allowed": false})).await;
    let hook = server.hook("a.b.c", &json!({"rules": rules("*", "*", "*")}));
    configure_validating_webhooks(&plane, "c", &[hook]).await;
    assert_eq!(plane.post(CONFIG_MAPS, &config_map("a", &json!({}))).await.0, 400);
    let path = format!("{GROUP}/validatingwebhookconfigurations/c");
    assert_eq!(plane.delete(&path).await.0, 200);
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn a_webhook_can_send_requests_during_its_call() {
    let plane = TestEnv::builder().config(|config| config.max_writes = 4).start().await;
    let client = plane.client();
    // Each call creates the next object before it returns, so all are in progress at once.
    let server = WebhookServer::start(move |review| {
        let client = client.clone();
        async move {
            let name = review["request"]["name"].as_str().unwrap();
            let number: u32 = name.strip_prefix('m').unwrap().parse().unwrap();
            if number < 20 {
                client
                    .create(CONFIG_MAPS, &config_map(&format!("m{}", number + 1), &json!({})))
                    .await;
            }
            answer(&review, &json!({"allowed": true}))
        }
    })
    .await;
    configure_validating_webhooks(&plane, "c", &[server.hook("a.b.c", &json!({}))]).await;
    plane.create(CONFIG_MAPS, &config_map("m1", &json!({}))).await;
    plane.read(&format!("{CONFIG_MAPS}/m20")).await;
}
