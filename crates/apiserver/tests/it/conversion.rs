//! Custom resources with a conversion webhook.

use http::Method;

use crate::conversion_server::{ConversionCall, ConversionReply, ConversionServer};
use crate::https::Https;
use crate::objects::{CONFIG_MAPS, CRDS, any_schema, config_map, thing_crd};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::{JSON, JSON_PATCH, MERGE_PATCH, TABLE};

pub(crate) const V1: &str = "/apis/example.com/v1/namespaces/default/gates";
pub(crate) const V2: &str = "/apis/example.com/v2/namespaces/default/gates";
const CRD_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gates.example.com";
const APPLY: &str = "application/apply-patch+yaml";

/// The CRD of gates, with the storage version `storage`.
fn gates(conversion: &Value, storage: &str) -> Value {
    let schema = |fields: Value| {
        json!({"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": fields},
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}})
    };
    let replicas = json!({"type": "integer", "default": 1});
    let subresources = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    let v1 = json!({"endpoint": {"type": "string"}, "replicas": replicas});
    let v2 = json!({"host": {"type": "string"}, "replicas": replicas,
        "port": {"type": "integer", "maximum": 9999}});
    json!({
        "metadata": {"name": "gates.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gates", "singular": "gate", "kind": "Gate"},
            "conversion": conversion,
            "versions": [
                {"name": "v1", "served": true, "storage": storage == "v1", "schema": schema(v1),
                    "subresources": subresources,
                    "additionalPrinterColumns":
                        [{"name": "Endpoint", "type": "string", "jsonPath": ".spec.endpoint"}]},
                {"name": "v2", "served": true, "storage": storage == "v2", "schema": schema(v2),
                    "subresources": subresources,
                    "selectableFields": [{"jsonPath": ".spec.host"}],
                    "additionalPrinterColumns":
                        [{"name": "Port", "type": "integer", "jsonPath": ".spec.port"}]},
            ],
        },
    })
}

/// A plane with the CRD of gates, stored in v1, and its conversion webhook.
pub(crate) async fn start() -> (TestEnv, ConversionServer) {
    let (plane, webhook) = (TestEnv::start().await, ConversionServer::start().await);
    plane.install_crd(&gates(&webhook.conversion(&json!(["v1"])), "v1")).await;
    (plane, webhook)
}

pub(crate) fn v1(name: &str, endpoint: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Gate", "metadata": {"name": name},
        "spec": {"endpoint": endpoint}})
}

pub(crate) fn v2(name: &str, host: &str, port: u16) -> Value {
    json!({"apiVersion": "example.com/v2", "kind": "Gate", "metadata": {"name": name},
        "spec": {"host": host, "port": port}})
}

/// The number of objects in each call.
fn sizes(calls: &[ConversionCall]) -> Vec<usize> {
    calls.iter().map(|it| it.objects).collect()
}

pub(crate) fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect()
}

/// Changes the storage version to v2, and waits until it is in effect.
async fn store_in_v2(plane: &TestEnv) {
    let hash = |resources: &Value| resources["resources"][0]["storageVersionHash"].clone();
    let before = hash(&plane.read("/apis/example.com/v2").await);
    let patch = json!([{"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true}]);
    let (code, crd) = plane.patch(CRD_PATH, JSON_PATCH, &patch).await;
    assert_eq!(code, 200, "{crd}");
    assert_eq!(crd["status"]["storedVersions"], json!(["v1", "v2"]));
    plane.until("/apis/example.com/v2", |_, found| hash(found) != before).await;
}

#[tokio::test]
async fn an_object_is_served_in_each_version_as_converted() {
    let (plane, webhook) = start().await;
    let created = plane.create(V2, &v2("a", "h", 80)).await;
    assert_eq!(created["apiVersion"], "example.com/v2");
    assert_eq!(created["spec"], json!({"host": "h", "port": 80, "replicas": 1}));
    // One conversion to the storage version, and one for the response.
    let desired: Vec<String> = webhook.calls().into_iter().map(|it| it.desired).collect();
    assert_eq!(desired, ["v1", "v2"]);

    let seen = plane.read(&format!("{V1}/a")).await;
    assert_eq!(seen["apiVersion"], "example.com/v1");
    assert_eq!(seen["spec"], json!({"endpoint": "h:80", "replicas": 1}));
    assert_eq!(seen["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(seen["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    assert_eq!(webhook.calls(), [], "v1 is the storage version");

    let patched = plane.merge(&format!("{V2}/a"), &json!({"spec": {"port": 81}})).await;
    assert_eq!(patched["spec"]["port"], 81);
    assert_eq!(patched["metadata"]["generation"], 2);
    let mut seen = plane.read(&format!("{V1}/a")).await;
    assert_eq!(seen["spec"]["endpoint"], "h:81");

    seen["spec"]["endpoint"] = "i:82".into();
    let (code, put) = plane.put(&format!("{V1}/a"), &seen).await;
    assert_eq!((code, &put["spec"]["endpoint"]), (200, &json!("i:82")));
    let seen = plane.read(&format!("{V2}/a")).await;
    assert_eq!(seen["spec"], json!({"host": "i", "port": 82, "replicas": 1}));
    assert_eq!(plane.delete(&format!("{V2}/a")).await.0, 200);
    assert_eq!(plane.get(&format!("{V1}/a")).await.0, 404);
}

#[tokio::test]
async fn an_object_is_validated_by_the_schema_of_its_version() {
    let (plane, _webhook) = start().await;
    let (code, status) = plane.post(V2, &v2("a", "h", 10_000)).await;
    assert_eq!(code, 422);
    assert_eq!(status["details"]["causes"][0]["field"], "spec.port");
    plane.create(V1, &v1("a", "h:10000")).await;
    let read = plane.read(&format!("{V2}/a")).await;
    assert_eq!(read["spec"]["port"], 10_000);
}

#[tokio::test]
async fn a_list_of_a_hundred_objects_is_one_call() {
    let (plane, webhook) = start().await;
    for index in 0..100 {
        plane.create(V1, &v1(&format!("g{index:03}"), "h:1")).await;
    }
    assert_eq!(webhook.calls(), []);
    let list = plane.read(V2).await;
    assert_eq!(names(&list).len(), 100);
    assert!(list["items"].as_array().unwrap().iter().all(|it| it["spec"]["port"] == 1));
    let expected =
        ConversionCall { review: "v1".to_owned(), desired: "v2".to_owned(), objects: 100 };
    assert_eq!(webhook.calls(), [expected]);
    plane.read(V2).await;
    plane.read(&format!("{V2}/g007?resourceVersion=0")).await;
    assert_eq!(webhook.calls(), [], "the converted objects are cached");
    plane.read(&format!("{V2}/g007")).await;
    assert_eq!(
        sizes(&webhook.calls()),
        [1],
        "a read without resourceVersion=0 does not use the cache"
    );
    plane.merge(&format!("{V1}/g007"), &json!({"spec": {"endpoint": "h:2"}})).await;
    assert_eq!(names(&plane.read(&format!("{V2}?limit=30")).await).len(), 30);
    assert_eq!(sizes(&webhook.calls()), [1], "only the changed object is converted");
    assert_eq!(plane.delete(V2).await.0, 200);
    assert_eq!(webhook.calls(), [], "the list and its objects were converted before");
    assert_eq!(names(&plane.read(V2).await), Vec::<&str>::new());
}

#[tokio::test]
async fn v1beta1_conversion_reviews_are_supported() {
    let (plane, webhook) = (TestEnv::start().await, ConversionServer::start().await);
    let conversion = webhook.conversion(&json!(["v2", "v1beta1", "v1"]));
    plane.install_crd(&gates(&conversion, "v1")).await;
    plane.create(V1, &v1("a", "h:1")).await;
    assert_eq!(plane.read(&format!("{V2}/a")).await["spec"]["host"], "h");
    assert_eq!(webhook.calls()[0].review, "v1beta1");
}

#[tokio::test]
async fn watchers_share_conversions() {
    let (plane, webhook) = start().await;
    plane.create(V1, &v1("old", "h:1")).await;
    let mut watches = Vec::new();
    for _ in 0..5 {
        let mut watch = plane.watch(&format!("{V2}?watch=true")).await;
        assert_eq!(watch.expect("ADDED").await["spec"]["port"], 1);
        watches.push(watch);
    }
    assert_eq!(sizes(&webhook.calls()), [1]);
    plane.create(V1, &v1("new", "h:2")).await;
    plane.merge(&format!("{V1}/new"), &json!({"spec": {"endpoint": "h:3"}})).await;
    plane.delete(&format!("{V1}/new")).await;
    for watch in &mut watches {
        assert_eq!(watch.expect("ADDED").await["spec"]["port"], 2);
        assert_eq!(watch.expect("MODIFIED").await["spec"]["port"], 3);
        let gone = watch.expect("DELETED").await;
        assert_eq!(
            (&gone["apiVersion"], &gone["spec"]["port"]),
            (&json!("example.com/v2"), &json!(3))
        );
    }
    let converted: usize = sizes(&webhook.calls()).iter().sum();
    assert_eq!(converted, 2, "each state is converted once for all watches");
}

#[tokio::test]
async fn a_selector_matches_converted_objects() {
    let (plane, webhook) = start().await;
    plane.create(V1, &v1("a", "h:1")).await;
    plane.create(V1, &v1("b", "i:1")).await;
    assert_eq!(names(&plane.read(&format!("{V2}?fieldSelector=spec.host%3Di")).await), ["b"]);
    assert_eq!(names(&plane.read(&format!("{V2}?labelSelector=seen-in%3Dv2")).await), ["a", "b"]);
    assert_eq!(names(&plane.read(&format!("{V1}?labelSelector=seen-in%3Dv2")).await).len(), 0);
    let path = format!("{V2}?watch=true&fieldSelector=spec.host%3Di");
    let mut watch = plane.watch(&path).await;
    assert_eq!(watch.next_summary().await, "ADDED b");
    plane.merge(&format!("{V1}/a"), &json!({"spec": {"endpoint": "i:1"}})).await;
    assert_eq!(watch.next_summary().await, "ADDED a");
    plane.merge(&format!("{V1}/b"), &json!({"spec": {"endpoint": "h:1"}})).await;
    assert_eq!(watch.next_summary().await, "DELETED b");
    assert!(sizes(&webhook.calls()).len() <= 4);
}

#[tokio::test]
async fn tables_and_metadata_show_converted_objects() {
    let (plane, _webhook) = start().await;
    plane.create(V1, &v1("a", "h:7")).await;
    let cells = |table: &Value| table["rows"][0]["cells"].clone();
    assert_eq!(cells(&plane.get_as(V1, TABLE).await.value()), json!(["a", "h:7"]));
    assert_eq!(cells(&plane.get_as(V2, TABLE).await.value()), json!(["a", 7]));
    assert_eq!(cells(&plane.get_as(&format!("{V2}/a"), TABLE).await.value()), json!(["a", 7]));
    let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let metadata = plane.get_as(&format!("{V2}/a"), partial).await.value();
    assert_eq!(metadata["metadata"]["labels"], json!({"seen-in": "v2"}));
}

#[tokio::test]
async fn status_and_scale_are_converted() {
    let (plane, _webhook) = start().await;
    plane.create(V1, &v1("a", "h:1")).await;
    let status = json!({"status": {"replicas": 3}, "spec": {"port": 2}});
    let (code, changed) = plane.patch(&format!("{V2}/a/status"), MERGE_PATCH, &status).await;
    assert_eq!((code, &changed["status"]["replicas"]), (200, &json!(3)));
    assert_eq!(changed["spec"]["port"], 1);
    let scale = plane.merge(&format!("{V2}/a/scale"), &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(
        (&scale["spec"], &scale["status"]),
        (&json!({"replicas": 5}), &json!({"replicas": 3}))
    );
    let seen = plane.read(&format!("{V1}/a")).await;
    assert_eq!(seen["spec"], json!({"endpoint": "h:1", "replicas": 5}));
    assert_eq!(plane.read(&format!("{V2}/a/scale")).await["spec"]["replicas"], 5);
}

#[tokio::test]
async fn managed_fields_are_recorded_for_each_version() {
    let (plane, _webhook) = start().await;
    let apply = async |version: &str, manager: &str, config: &Value| {
        let path = format!("{version}/a?fieldManager={manager}");
        plane.patch(&path, APPLY, config).await
    };
    assert_eq!(apply(V1, "one", &v1("a", "h:1")).await.0, 201);
    let (code, applied) = apply(V1, "one", &v1("a", "h:2")).await;
    assert_eq!((code, &applied["spec"]["endpoint"]), (200, &json!("h:2")));
    let (code, status) = apply(V2, "two", &v2("a", "h", 3)).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")), "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains(r#"conflict with "one": .spec.endpoint"#), "{message}");
    let (code, applied) = apply(V2, "two&force=true", &v2("a", "h", 3)).await;
    assert_eq!((code, &applied["spec"]["port"]), (200, &json!(3)));
    let managers = applied["metadata"]["managedFields"].as_array().unwrap();
    let versions: Vec<(&str, &str)> = managers
        .iter()
        .map(|it| (it["manager"].as_str().unwrap(), it["apiVersion"].as_str().unwrap()))
        .collect();
    assert_eq!(versions, [("two", "example.com/v2")], "manager `one` has lost its only field");
}

/// Binds a policy that denies config maps with a message about its parameter, a gate in v2.
async fn bind_policy_with_gate_params(plane: &TestEnv, reference: &Value) {
    const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["configmaps"]});
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "paramKind": {"apiVersion": "example.com/v2", "kind": "Gate"},
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false",
            "messageExpression": "params.spec.host + ' ' + string(params.spec.port)"}]}});
    plane.create(&format!("{GROUP}/validatingadmissionpolicies"), &policy).await;
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p",
        "validationActions": ["Deny"], "paramRef": reference}});
    plane.create(&format!("{GROUP}/validatingadmissionpolicybindings"), &binding).await;
}

#[tokio::test]
async fn a_policy_gets_converted_parameters() {
    let (plane, webhook) = start().await;
    plane.create(V1, &v1("a", "here:80")).await;
    // The conversion to v2 adds this label.
    let selector = json!({"matchLabels": {"seen-in": "v2"}});
    bind_policy_with_gate_params(
        &plane,
        &json!({"selector": selector, "parameterNotFoundAction": "Deny"}),
    )
    .await;
    webhook.calls();
    for _ in 0..2 {
        let (code, refused) = plane.post(CONFIG_MAPS, &config_map("m", &json!({}))).await;
        let message = "configmaps \"m\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: here 80";
        assert_eq!((code, refused["message"].as_str().unwrap()), (422, message));
    }
    assert_eq!(sizes(&webhook.calls()), [1], "the converted parameter is cached");
}

#[tokio::test]
async fn parameters_that_cannot_be_converted_fail_their_binding() {
    let (plane, webhook) = start().await;
    plane.create(V1, &v1("a", "here:80")).await;
    bind_policy_with_gate_params(&plane, &json!({"name": "a", "parameterNotFoundAction": "Deny"}))
        .await;
    webhook.set_reply(ConversionReply::Failure);
    let (code, refused) = plane.post(CONFIG_MAPS, &config_map("m", &json!({}))).await;
    let message = refused["message"].as_str().unwrap();
    assert!(code == 422 && message.contains("failed to configure binding: "), "{message}");
    assert!(message.ends_with("not today"), "{message}");
}

#[tokio::test]
async fn objects_of_several_stored_versions_are_read_and_written() {
    let (plane, webhook) = start().await;
    plane.create(V1, &v1("a", "h:1")).await;
    plane.create(V1, &v1("b", "h:2")).await;
    store_in_v2(&plane).await;
    plane.create(V2, &v2("c", "h", 3)).await;
    webhook.calls();
    let ports = |list: &Value| -> Vec<Value> {
        list["items"].as_array().unwrap().iter().map(|it| it["spec"]["port"].clone()).collect()
    };
    assert_eq!(ports(&plane.read(V2).await), [json!(1), json!(2), json!(3)]);
    assert_eq!(sizes(&webhook.calls()), [2], "`c` is stored in v2");
    let list = plane.read(V1).await;
    assert_eq!(list["items"][2]["spec"]["endpoint"], "h:3");
    assert_eq!(sizes(&webhook.calls()), [1]);

    // A write without changes migrates an object to the storage version.
    let before = plane.read(&format!("{V2}/a")).await;
    let (code, after) = plane.put(&format!("{V2}/a"), &before).await;
    assert_eq!(code, 200);
    assert_ne!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(after["metadata"]["generation"], 1);
    let (_, again) = plane.put(&format!("{V2}/a"), &after).await;
    assert_eq!(again["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    webhook.calls();
    plane.read(&format!("{V2}/a")).await;
    assert_eq!(webhook.calls(), []);
}

#[tokio::test]
async fn a_version_in_stored_versions_cannot_be_removed_from_the_spec() {
    let (plane, _webhook) = start().await;
    store_in_v2(&plane).await;
    let drop_v1 = json!([{"op": "remove", "path": "/spec/versions/0"}]);
    let (code, status) = plane.patch(CRD_PATH, JSON_PATCH, &drop_v1).await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["field"]),
        (422, &json!("status.storedVersions[0]"))
    );
    let status = json!({"status": {"storedVersions": ["v2"]}});
    plane.merge(&format!("{CRD_PATH}/status"), &status).await;
    let (code, crd) = plane.patch(CRD_PATH, JSON_PATCH, &drop_v1).await;
    assert_eq!((code, &crd["status"]["storedVersions"]), (200, &json!(["v2"])));
}

#[tokio::test]
async fn a_failing_webhook_fails_every_verb_that_needs_it() {
    let (plane, webhook) = start().await;
    plane.create(V1, &v1("a", "h:1")).await;
    let mut watch = plane.watch(&format!("{V2}?watch=true")).await;
    watch.expect("ADDED").await;
    plane.merge(&format!("{V1}/a"), &json!({"spec": {"endpoint": "h:2"}})).await;
    watch.expect("MODIFIED").await;
    webhook.set_reply(ConversionReply::Failure);
    plane.merge(&format!("{V1}/a"), &json!({"spec": {"endpoint": "h:3"}})).await;
    let why = "conversion webhook for example.com/v1, Kind=Gate failed: not today";
    let error = watch.expect("ERROR").await;
    assert_eq!((&error["message"], &error["reason"]), (&json!(why), &json!("InternalError")));
    assert!(watch.next().await.is_none());
    let path = format!("{V2}/a");
    for (code, status) in [
        plane.get(&path).await,
        plane.get(V2).await,
        plane.put(&path, &v2("a", "h", 4)).await,
        plane.patch(&path, MERGE_PATCH, &json!({"spec": {"port": 4}})).await,
        plane.delete(&path).await,
        plane.delete(V2).await,
        plane.get(&format!("{path}/scale")).await,
    ] {
        assert_eq!((code, &status["message"]), (500, &json!(why)));
    }
    let (code, status) = plane.post(V2, &v2("b", "h", 4)).await;
    let why = "conversion webhook for example.com/v2, Kind=Gate failed: not today";
    assert_eq!((code, &status["message"]), (500, &json!(why)));
    assert_eq!(plane.read(&format!("{V1}/a")).await["spec"]["endpoint"], "h:3");
    assert_eq!(plane.get(&format!("{V1}/b")).await.0, 404);
}

#[tokio::test]
async fn metrics_count_conversion_requests_by_result() {
    let (plane, webhook) = start().await;
    plane.create(V1, &v1("a", "here:80")).await;
    for reply in [
        ConversionReply::Converted,
        ConversionReply::InternalError,
        ConversionReply::NotJson,
        ConversionReply::MissingObject,
        ConversionReply::Renamed,
    ] {
        webhook.set_reply(reply);
        // Conversions are cached until the object changes.
        let label = json!({"metadata": {"labels": {"reply": format!("{reply:?}")}}});
        plane.merge(&format!("{V1}/a"), &label).await;
        plane.get(&format!("{V2}/a")).await;
    }
    let metrics = plane.get("/metrics").await.1;
    let of = |result: &str, failure: &str| {
        format!(
            "apiserver_conversion_webhook_request_total{{result=\"{result}\",failure_type=\"{failure}\"}} 1\n"
        )
    };
    let versions = "crd_name=\"gates.example.com\",from_version=\"v1\",to_version=\"v2\"";
    for counted in [
        of("success", ""),
        of("failure", "conversion_webhook_call_failure"),
        of("failure", "conversion_webhook_malformed_response_failure"),
        of("failure", "conversion_webhook_partial_response_failure"),
        of("failure", "conversion_webhook_invalid_converted_object_failure"),
        format!(
            "apiserver_crd_conversion_webhook_duration_seconds_count{{{versions},succeeded=\"true\"}} 1\n"
        ),
        format!(
            "apiserver_crd_conversion_webhook_duration_seconds_count{{{versions},succeeded=\"false\"}} 4\n"
        ),
    ] {
        assert!(metrics.as_str().unwrap().contains(&counted), "{counted}: {metrics}");
    }
}

#[tokio::test]
async fn an_invalid_conversion_response_is_an_error() {
    let (plane, webhook) = start().await;
    plane.create(V1, &v1("a", "h:1")).await;
    let what = "conversion webhook for example.com/v1, Kind=Gate";
    for (reply, why) in [
        (ConversionReply::NotJson, "failed: couldn't get version/kind; json parse error: "),
        (
            ConversionReply::InternalError,
            r#"failed: an error on the server ("broken") has prevented"#,
        ),
        (ConversionReply::TooLarge, "failed: Post "),
        (ConversionReply::OtherUid, r#"failed: expected response.uid=""#),
        (ConversionReply::MissingObject, "returned 0 objects, expected 1"),
        (
            ConversionReply::Renamed,
            "returned invalid object: must have the same name: a != renamed",
        ),
        (
            ConversionReply::Unconverted,
            "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v1)",
        ),
    ] {
        webhook.set_reply(reply);
        let (code, status) = plane.get(&format!("{V2}/a")).await;
        let message = status["message"].as_str().unwrap();
        assert_eq!(code, 500, "{reply:?}");
        assert!(message.starts_with(&format!("{what} {why}")), "{reply:?}: {message}");
    }
    webhook.set_reply(ConversionReply::Converted);
    assert_eq!(plane.read(&format!("{V2}/a")).await["spec"]["port"], 1);
}

#[tokio::test]
async fn a_hanging_conversion_webhook_delays_no_other_request() {
    let (plane, webhook) = start().await;
    plane.create(V1, &v1("a", "h:1")).await;
    let mut stuck = plane.watch(&format!("{V2}?watch=true")).await;
    stuck.expect("ADDED").await;
    let mut watch = plane.watch(&format!("{V1}?watch=true")).await;
    watch.expect("ADDED").await;
    webhook.called().await;
    webhook.set_reply(ConversionReply::Never);
    let others = async {
        plane.merge(&format!("{V1}/a"), &json!({"spec": {"replicas": 2}})).await;
        webhook.called().await;
        watch.expect("MODIFIED").await;
        let path = format!("{V2}/a?timeout=1s");
        let ends = async {
            // The deletion of one CRD waits for the webhook, the creation of the other one does not.
            store_in_v2(&plane).await;
            assert_eq!(plane.delete(CRD_PATH).await.0, 200);
            plane.install_crd(&thing_crd(&any_schema())).await;
        };
        tokio::join!(plane.get(&path), ends).0
    };
    let (code, status) = tokio::select! {
        answer = others => answer,
        event = stuck.next() => panic!("an event without a conversion: {event:?}"),
    };
    assert_eq!((code, &status["reason"]), (504, &json!("Timeout")));
    drop(stuck);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_changed_conversion_webhook_takes_effect_immediately() {
    let (plane, webhook) = start().await;
    let other = ConversionServer::start().await;
    plane.create(V1, &v1("a", "h:1")).await;
    plane.read(&format!("{V2}/a")).await;
    webhook.set_reply(ConversionReply::Failure);
    let patch = json!({"spec": {"conversion": other.conversion(&json!(["v1"]))}});
    plane.merge(CRD_PATH, &patch).await;
    plane.until(&format!("{V2}/a"), |_, _| !other.calls().is_empty()).await;
    assert_eq!(plane.read(&format!("{V2}/a")).await["spec"]["port"], 1);
}

#[tokio::test]
async fn a_conversion_webhook_can_be_behind_a_service() {
    let (plane, webhook) = (TestEnv::start().await, ConversionServer::start().await);
    let mut conversion = webhook.conversion(&json!(["v1"]));
    let config = &mut conversion["webhook"]["clientConfig"];
    config.as_object_mut().unwrap().remove("url");
    config["service"] = json!({"namespace": "default", "name": "hook", "path": "/convert",
        "port": webhook.https.address.port()});
    plane.install_crd(&gates(&conversion, "v1")).await;
    plane.create(V1, &v1("a", "h:1")).await;
    let (code, status) = plane.get(&format!("{V2}/a")).await;
    let message = status["message"].as_str().unwrap();
    assert!(code == 500 && message.ends_with(r#": service "hook" not found"#), "{message}");
    plane.create("/api/v1/namespaces/default/services", &Https::service("hook")).await;
    assert_eq!(plane.read(&format!("{V2}/a")).await["spec"]["port"], 1);
}

#[tokio::test]
async fn a_conversion_webhook_with_an_untrusted_certificate_is_not_called() {
    let (plane, webhook) = (TestEnv::start().await, ConversionServer::start().await);
    let mut conversion = webhook.conversion(&json!(["v1"]));
    conversion["webhook"]["clientConfig"].as_object_mut().unwrap().remove("caBundle");
    plane.install_crd(&gates(&conversion, "v1")).await;
    plane.create(V1, &v1("a", "h:1")).await;
    let (code, status) = plane.get(&format!("{V2}/a")).await;
    let message = status["message"].as_str().unwrap();
    assert_eq!(code, 500);
    assert!(message.ends_with("x509: certificate signed by unknown authority"), "{message}");
    assert_eq!(webhook.calls(), []);
}

#[tokio::test]
async fn without_a_webhook_versions_are_pruned_by_their_schemas() {
    let plane = TestEnv::start().await;
    plane.install_crd(&gates(&json!({"strategy": "None"}), "v1")).await;
    plane.create(V1, &v1("a", "h:1")).await;
    assert_eq!(plane.read(&format!("{V2}/a")).await["spec"], json!({"replicas": 1}));
    let mut watch = plane.watch(&format!("{V2}?watch=true")).await;
    assert_eq!(watch.expect("ADDED").await["spec"], json!({"replicas": 1}));
    let reply = plane.send(Method::GET, V2, JSON, "").await;
    assert_eq!(reply.value()["items"][0]["spec"], json!({"replicas": 1}));
    assert_eq!(plane.read(&format!("{V1}/a")).await["spec"]["endpoint"], "h:1");
    assert!(plane.read(CRDS).await["items"].is_array());
}
