//! The lifecycle of CRDs, from their creation to the deletion of their objects.

use std::time::Duration;

use crate::objects::{CRDS, THINGS, any_schema, thing, thing_crd};
use machinery::{Value, json};
use testenv::TestEnv;

/// The path of the CRD of things.
const CRD_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";

/// The status of a condition.
fn condition<'a>(crd: &'a Value, kind: &str) -> &'a str {
    let all = crd["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let found = all.iter().find(|it| it["type"] == kind);
    found.and_then(|it| it["status"].as_str()).unwrap_or_default()
}

/// The CRD of things with other names.
fn crd_named(plural: &str, kind: &str) -> Value {
    let mut crd = thing_crd(&any_schema());
    crd["metadata"]["name"] = format!("{plural}.example.com").into();
    crd["spec"]["names"] = json!({"plural": plural, "kind": kind});
    crd
}

#[tokio::test]
async fn a_crd_is_established_and_its_kind_is_served() {
    let plane = TestEnv::start().await;
    assert_eq!(plane.get(THINGS).await, (404, json!("404 page not found\n")));
    plane.install_crd(&thing_crd(&any_schema())).await;
    let crd = plane.read(CRD_PATH).await;
    assert_eq!(condition(&crd, "NamesAccepted"), "True");
    assert_eq!(condition(&crd, "Established"), "True");
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(crd["spec"]["names"]["listKind"], "ThingList");
    let groups = plane.read("/apis").await;
    let found = groups["groups"].as_array().unwrap().iter().any(|it| it["name"] == "example.com");
    assert!(found, "{groups}");
    let created = plane.create(THINGS, &thing("a", &json!({"any": "thing"}))).await;
    assert_eq!((&created["kind"], &created["spec"]["any"]), (&json!("Thing"), &json!("thing")));
    assert_eq!(plane.read(THINGS).await["kind"], "ThingList");
}

#[tokio::test]
async fn a_crd_with_conflicting_names_is_established_when_they_are_free() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    plane.create(CRDS, &crd_named("others", "Thing")).await;
    let others = format!("{CRDS}/others.example.com");
    let refused = plane.until(&others, |_, it| condition(it, "NamesAccepted") == "False").await;
    assert_eq!(condition(&refused, "Established"), "False");
    assert_eq!(plane.get("/apis/example.com/v1/others").await.0, 404);
    assert_eq!(plane.delete(CRD_PATH).await.0, 200);
    plane.until(&others, |_, it| condition(it, "Established") == "True").await;
    plane.until("/apis/example.com/v1/others", |code, _| code == 200).await;
}

#[tokio::test]
async fn all_errors_of_an_invalid_crd_are_reported() {
    let plane = TestEnv::start().await;
    let mut crd = thing_crd(&json!({"type": "object", "properties": {"spec": {}}}));
    crd["metadata"]["name"] = "wrong.example.com".into();
    crd["spec"]["versions"][0]["storage"] = false.into();
    let (code, status) = plane.post(CRDS, &crd).await;
    assert_eq!(code, 422);
    let causes = status["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes.iter().map(|it| it["field"].as_str().unwrap()).collect();
    for expected in
        ["metadata.name", "spec.versions", "spec.validation.openAPIV3Schema.properties[spec].type"]
    {
        assert!(fields.contains(&expected), "{expected} is not in {fields:?}");
    }
}

#[tokio::test]
async fn a_new_default_applies_to_stored_objects() {
    let plane = TestEnv::start().await;
    let schema = |size: Value| {
        json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"size": size}}}})
    };
    plane.install_crd(&thing_crd(&schema(json!({"type": "integer"})))).await;
    let path = format!("{THINGS}/a");
    let created = plane.create(THINGS, &thing("a", &json!({}))).await;
    assert_eq!(created["spec"], json!({}));
    let mut versions = thing_crd(&schema(json!({"type": "integer", "default": 3})));
    let patch = json!({"spec": {"versions": versions["spec"]["versions"].take()}});
    plane.merge(CRD_PATH, &patch).await;
    let shown = plane.until(&path, |_, it| it["spec"]["size"] == 3).await;
    assert_eq!(shown["metadata"], created["metadata"], "the stored object was not written");
    assert_eq!(plane.read(THINGS).await["items"][0]["spec"]["size"], 3);
}

#[tokio::test]
async fn an_object_is_served_in_the_served_versions_only() {
    let plane = TestEnv::start().await;
    let mut crd = thing_crd(&any_schema());
    let mut version = crd["spec"]["versions"][0].clone();
    version["storage"] = false.into();
    for (name, served) in [("v2", true), ("v3", false)] {
        version["name"] = name.into();
        version["served"] = served.into();
        crd["spec"]["versions"].as_array_mut().unwrap().push(version.clone());
    }
    plane.install_crd(&crd).await;
    let created = plane.create(THINGS, &thing("a", &json!({"k": "v"}))).await;
    let other = plane.read("/apis/example.com/v2/namespaces/default/things/a").await;
    assert_eq!(other["apiVersion"], "example.com/v2");
    assert_eq!((&other["spec"], &other["metadata"]), (&created["spec"], &created["metadata"]));
    let (code, _) = plane.get("/apis/example.com/v3/namespaces/default/things/a").await;
    assert_eq!(code, 404);
    let group = plane.read("/apis/example.com").await;
    assert_eq!(group["preferredVersion"]["version"], "v2");
    assert_eq!(group["versions"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn an_object_is_validated_in_its_version_and_pruned_in_others() {
    let plane = TestEnv::start().await;
    let schema = |own: &str| {
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "both": {"type": "string"}, own: {"type": "string"}}, "required": [own]}}})
    };
    let mut crd = thing_crd(&schema("first"));
    let mut version = crd["spec"]["versions"][0].clone();
    version["storage"] = false.into();
    version["name"] = "v2".into();
    version["schema"]["openAPIV3Schema"] = schema("second");
    crd["spec"]["versions"].as_array_mut().unwrap().push(version);
    plane.install_crd(&crd).await;
    let second = "/apis/example.com/v2/namespaces/default/things";
    let sent = |spec: Value| {
        let mut sent = thing("a", &spec);
        sent["apiVersion"] = "example.com/v2".into();
        sent
    };
    let (code, status) = plane.post(second, &sent(json!({"both": "x", "first": "x"}))).await;
    let field = &status["details"]["causes"][0]["field"];
    assert_eq!((code, field), (422, &json!("spec.second")));
    let created = plane.create(second, &sent(json!({"both": "x", "second": "x"}))).await;
    assert_eq!(created["spec"], json!({"both": "x"}), "the stored version has no `second`");
    plane.create(THINGS, &thing("b", &json!({"both": "x", "first": "x"}))).await;
    assert_eq!(plane.read(second).await["items"][1]["spec"], json!({"both": "x"}));
}

#[tokio::test]
async fn a_terminating_crd_refuses_creates_and_is_deleted_after_its_objects() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    plane.create(THINGS, &thing("free", &json!({}))).await;
    let mut held = thing("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/mine"]);
    plane.create(THINGS, &held).await;
    assert_eq!(plane.delete(CRD_PATH).await.0, 200);

    let path = format!("{THINGS}/held");
    plane.until(&path, |_, it| it["metadata"]["deletionTimestamp"].is_string()).await;
    plane.until(&format!("{THINGS}/free"), |code, _| code == 404).await;
    let crd = plane.read(CRD_PATH).await;
    assert_eq!(condition(&crd, "Terminating"), "True");
    let (code, status) = plane.post(THINGS, &thing("new", &json!({}))).await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));

    plane.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
    plane.advance(Duration::from_secs(1));
    plane.until(CRD_PATH, |code, _| code == 404).await;
    plane.until(THINGS, |code, _| code == 404).await;
}

#[tokio::test]
async fn a_watch_ends_when_its_crd_is_deleted() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    plane.create(THINGS, &thing("a", &json!({}))).await;
    let mut watch = plane.watch(&format!("{THINGS}?watch=1")).await;
    assert_eq!(watch.next_summary().await, "ADDED a");
    plane.delete(CRD_PATH).await;
    assert_eq!(watch.next_summary().await, "DELETED a");
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn a_recreated_crd_has_no_earlier_history() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    let created = plane.create(THINGS, &thing("a", &json!({}))).await;
    let revision = created["metadata"]["resourceVersion"].as_str().unwrap();
    plane.delete(&format!("{CRDS}/things.example.com")).await;
    plane.until(THINGS, |code, _| code == 404).await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    let mut watch = plane.watch(&format!("{THINGS}?watch=1&resourceVersion={revision}")).await;
    let error = watch.expect("ERROR").await;
    assert_eq!((&error["code"], &error["reason"]), (&json!(410), &json!("Expired")));
}

#[tokio::test]
async fn a_recreated_crd_has_no_earlier_objects() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    plane.create(THINGS, &thing("a", &json!({}))).await;
    plane.delete(CRD_PATH).await;
    plane.until(CRD_PATH, |code, _| code == 404).await;
    plane.until(THINGS, |code, _| code == 404).await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    assert_eq!(plane.read(THINGS).await["items"], json!([]));
}

#[tokio::test]
async fn the_status_subresource_separates_status_from_spec() {
    let plane = TestEnv::start().await;
    let mut crd = thing_crd(&any_schema());
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    plane.install_crd(&crd).await;
    let path = format!("{THINGS}/a");
    let mut sent = thing("a", &json!({"size": 1}));
    sent["status"] = json!({"ready": true});
    let created = plane.create(THINGS, &sent).await;
    assert_eq!((created.get("status"), &created["metadata"]["generation"]), (None, &json!(1)));
    let both = json!({"spec": {"size": 2}, "status": {"ready": true}});
    let main = plane.merge(&path, &both).await;
    assert_eq!((&main["spec"]["size"], main.get("status")), (&json!(2), None));
    assert_eq!(main["metadata"]["generation"], 2);
    let both = json!({"spec": {"size": 3}, "status": {"ready": true}});
    let status = plane.merge(&format!("{path}/status"), &both).await;
    assert_eq!((&status["spec"]["size"], &status["status"]["ready"]), (&json!(2), &json!(true)));
    assert_eq!(status["metadata"]["generation"], 2);
}

#[tokio::test]
async fn scale_uses_the_paths_of_the_crd() {
    let plane = TestEnv::start().await;
    let mut crd = thing_crd(&any_schema());
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}});
    plane.install_crd(&crd).await;
    plane.create(THINGS, &thing("a", &json!({"size": 2}))).await;
    let path = format!("{THINGS}/a/scale");
    assert_eq!(plane.read(&path).await["spec"]["replicas"], 2);
    plane.merge(&path, &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(plane.read(&format!("{THINGS}/a")).await["spec"]["size"], 5);
}

#[tokio::test]
async fn a_v1beta1_crd_is_served_in_both_versions() {
    const OLD: &str = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";
    let plane = TestEnv::start().await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"size": {"type": "integer"}}}}});
    let old = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "version": "v1", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "validation": {"openAPIV3Schema": schema},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "JSONPath": ".spec.size"}]},
    });
    plane.create(OLD, &old).await;
    plane.until(THINGS, |code, _| code == 200).await;
    let new = plane.read(CRD_PATH).await;
    let version = &new["spec"]["versions"][0];
    assert_eq!(version["schema"]["openAPIV3Schema"], schema);
    assert_eq!(version["additionalPrinterColumns"][0]["jsonPath"], ".spec.size");
    let shown = plane.read(&format!("{OLD}/things.example.com")).await;
    assert_eq!(shown["spec"]["version"], "v1");
    assert_eq!(shown["spec"]["validation"], old["spec"]["validation"]);
    assert_eq!(shown["spec"]["additionalPrinterColumns"], old["spec"]["additionalPrinterColumns"]);
    assert_eq!(plane.post(THINGS, &thing("a", &json!({"size": "large"}))).await.0, 422);
}

#[tokio::test]
async fn discovery_has_the_storage_version_hash() {
    let plane = TestEnv::start().await;
    let hash = async |path: &str, name: &str| {
        let list = plane.read(path).await;
        let resources = list["resources"].as_array().unwrap();
        let found = resources.iter().find(|it| it["name"] == name).unwrap();
        found["storageVersionHash"].clone()
    };
    // Responses of upstream for built-in kinds.
    for (path, name, expect) in [
        ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", "jfWCUB31mvA="),
        ("/apis/autoscaling/v1", "horizontalpodautoscalers", "qwQve8ut294="),
        ("/apis/autoscaling/v2", "horizontalpodautoscalers", "qwQve8ut294="),
        ("/apis/events.k8s.io/v1", "events", "r2yiGXH7wu8="),
    ] {
        assert_eq!(hash(path, name).await, expect, "{path}");
    }
    let mut crd = thing_crd(&any_schema());
    let mut stored = crd["spec"]["versions"][0].clone();
    stored["name"] = "v2".into();
    stored["served"] = false.into();
    crd["spec"]["versions"][0]["storage"] = false.into();
    crd["spec"]["versions"].as_array_mut().unwrap().push(stored);
    plane.install_crd(&crd).await;
    assert_eq!(hash("/apis/example.com/v1", "things").await, Value::Null, "v2 is not served");
}
