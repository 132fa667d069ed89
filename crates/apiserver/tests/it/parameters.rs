//! Unusual parameters and headers, with the responses of Kubernetes.

use http::Method;

use crate::objects::{MAPS, THINGS, anything, map, thing, things};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::{JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH};

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap()
}

#[tokio::test]
async fn an_empty_number_counts_as_absent() {
    let plane = TestEnv::start().await;
    let empty = "strconv.ParseInt: parsing \"\": invalid syntax";
    for parameter in ["limit", "timeoutSeconds"] {
        let (code, status) = plane.get(&format!("{MAPS}?{parameter}=")).await;
        assert_eq!((code, message(&status)), (400, empty), "{parameter}");
    }
    let (code, status) = plane.delete(&format!("{MAPS}/a?gracePeriodSeconds=")).await;
    assert_eq!((code, message(&status)), (400, empty));
}

#[tokio::test]
async fn an_invalid_timeout_is_refused() {
    let plane = TestEnv::start().await;
    let (code, status) = plane.get(&format!("{MAPS}?timeout=soon")).await;
    let expect = "invalid timeout specified in the request URL - time: invalid duration \"soon\"";
    assert_eq!((code, message(&status)), (400, expect));
}

#[tokio::test]
async fn the_export_parameter_is_refused() {
    let plane = TestEnv::start().await;
    plane.create(MAPS, &map("a", &json!({}))).await;
    let (code, status) = plane.get(&format!("{MAPS}/a?export=true")).await;
    let expect = "the export parameter, deprecated since v1.14, is no longer supported";
    assert_eq!((code, message(&status)), (400, expect));
    plane.read(&format!("{MAPS}/a?export=false")).await;
}

#[tokio::test]
async fn delete_options_in_the_body_replace_those_in_the_query() {
    let plane = TestEnv::start().await;
    plane.create(MAPS, &map("a", &json!({}))).await;
    let path = format!("{MAPS}/a");
    plane.delete_with(&format!("{path}?dryRun=All"), &json!({"dryRun": ["All"]})).await;
    plane.read(&path).await;
    plane.delete_with(&format!("{path}?dryRun=All"), &json!({})).await;
    assert_eq!(plane.get(&path).await.0, 404);
}

#[tokio::test]
async fn preconditions_are_read_from_the_query() {
    let plane = TestEnv::start().await;
    let created = plane.create(MAPS, &map("a", &json!({}))).await;
    let uid = created["metadata"]["uid"].as_str().unwrap();
    for odd in ["uid=x", "resourceVersion=1"] {
        assert_eq!(plane.delete(&format!("{MAPS}/a?{odd}")).await.0, 409, "{odd}");
        assert_eq!(plane.delete(&format!("{MAPS}?{odd}&labelSelector=")).await.0, 409, "{odd}");
    }
    assert_eq!(plane.delete(&format!("{MAPS}/a?uid={uid}")).await.0, 200);
}

#[tokio::test]
async fn a_readable_object_is_not_deleted_as_unreadable() {
    let plane = TestEnv::start().await;
    plane.create(MAPS, &map("a", &json!({}))).await;
    let option = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let (code, status) = plane.delete(&format!("{MAPS}/a?{option}=true")).await;
    assert_eq!(code, 409);
    assert!(message(&status).ends_with("the object is decodable from storage"), "{status}");
    let (code, status) = plane.delete(&format!("{MAPS}?{option}=true")).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!(option)));
    let both = json!({option: true, "gracePeriodSeconds": 1});
    let (code, status) = plane.delete_with(&format!("{MAPS}/a"), &both).await;
    assert_eq!(code, 422);
    assert!(message(&status).ends_with("cannot be set together with .gracePeriodSeconds"));
    plane.read(&format!("{MAPS}/a")).await;
}

#[tokio::test]
async fn a_patch_of_a_missing_object_is_not_found_before_it_is_decoded() {
    let plane = TestEnv::start().await;
    for (media, patch) in [
        (MERGE_PATCH, json!([])),
        (MERGE_PATCH, Value::Null),
        (STRATEGIC_MERGE_PATCH, json!("x")),
        (JSON_PATCH, json!({})),
    ] {
        let (code, status) = plane.patch(&format!("{MAPS}/nothing"), media, &patch).await;
        assert_eq!(code, 404, "{media} {patch}: {status}");
    }
}

#[tokio::test]
async fn field_validation_applies_to_patches() {
    let plane = TestEnv::start().await;
    plane.create(MAPS, &map("a", &json!({}))).await;
    let path = format!("{MAPS}/a");
    let ignoring = format!("{path}?fieldValidation=Ignore");
    let cases = [
        (
            JSON_PATCH,
            json!({}),
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ),
        (
            MERGE_PATCH,
            json!("x"),
            "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}",
            "Invalid JSON Patch",
        ),
    ];
    for (media, patch, expected, ignored) in cases {
        assert_eq!(message(&plane.patch(&path, media, &patch).await.1), expected);
        assert_eq!(message(&plane.patch(&ignoring, media, &patch).await.1), ignored);
    }
    let odd = json!([{"op": "add", "path": "/data", "value": {"k": "v"}, "foo": 1}]);
    let (code, status) =
        plane.patch(&format!("{path}?fieldValidation=Strict"), JSON_PATCH, &odd).await;
    assert_eq!(code, 422);
    let expect = "strict decoding error: json patch unknown field \"[0].foo\"";
    assert!(message(&status).ends_with(expect), "{status}");
}

#[tokio::test]
async fn an_invalid_strategic_patch_has_gos_message() {
    let plane = TestEnv::start().await;
    plane.create(MAPS, &map("a", &json!({}))).await;
    let path = format!("{MAPS}/a");
    for (patch, expect) in [
        (json!({"data": {"k": 5}}), "\"map[data:map[k:5]]\": cannot convert int64 to string"),
        (json!({"data": []}), "\"map[data:[]]\": cannot restore map from slice"),
        (json!({"metadata": []}), "\"map[metadata:[]]\": cannot restore struct from: slice"),
        (json!({"immutable": 1}), "\"map[immutable:1]\": unrecognized type: bool"),
    ] {
        let (code, status) = plane.patch(&path, STRATEGIC_MERGE_PATCH, &patch).await;
        assert_eq!(code, 422);
        assert!(message(&status).ends_with(expect), "{status}");
    }
}

#[tokio::test]
async fn a_namespace_mismatch_is_reported_before_a_name_mismatch() {
    let plane = TestEnv::start().await;
    let elsewhere = json!({"metadata": {"name": "b", "namespace": "elsewhere"}});
    let (code, status) = plane.put(&format!("{MAPS}/a"), &elsewhere).await;
    assert_eq!(code, 400);
    assert!(message(&status).starts_with("the namespace of the provided object"), "{status}");
}

#[tokio::test]
async fn an_unsupported_response_format_is_refused_last() {
    const LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    const ONE: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let plane = TestEnv::start().await;
    plane.install_crd(&things(&anything())).await;
    plane.create(THINGS, &thing("a", &json!({}))).await;
    assert_eq!(plane.get_as(&format!("{THINGS}/nothing"), LIST).await.code, 404);
    let found = plane.get_as(&format!("{THINGS}/a"), LIST).await;
    assert_eq!((found.code, message(&found.value())), (500, "content is not a list"));
    plane.create(MAPS, &map("a", &json!({}))).await;
    let found = plane.get_as(&format!("{MAPS}/a"), LIST).await;
    assert!(message(&found.value()).ends_with("(*core.ConfigMap)"));
    assert_eq!(found.code, 406);
    plane.delete(&format!("{MAPS}/a")).await;
    let found = plane.get_as(THINGS, ONE).await;
    assert!(message(&found.value()).ends_with("(*unstructured.UnstructuredList)"));
    assert_eq!(plane.get_as(MAPS, LIST).await.value()["items"], Value::Null);
}

#[tokio::test]
async fn a_scale_body_must_be_a_scale() {
    let plane = TestEnv::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    plane
        .create(
            deployments,
            &json!({"metadata": {"name": "a"}, "spec": {"replicas": 1, "template": template,
                "selector": {"matchLabels": {"a": "b"}}}}),
        )
        .await;
    let path = format!("{deployments}/a/scale");
    let other = json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "a"}});
    let (code, status) = plane.put(&path, &other).await;
    let expect = "Deployment in version \"v1\" cannot be handled as a Scale: converting (v1.Deployment) to (autoscaling.Scale): unknown conversion";
    assert_eq!((code, message(&status)), (400, expect));
    let (code, status) =
        plane.patch(&path, STRATEGIC_MERGE_PATCH, &json!({"spec": {"replicas": "x"}})).await;
    assert_eq!(code, 422);
    assert!(message(&status).ends_with("unrecognized type: int32"), "{status}");
}

#[tokio::test]
async fn malformed_paths_are_not_found() {
    let plane = TestEnv::start().await;
    for (path, expect) in [
        ("//api", "404 page not found\n"),
        ("/apis//apps", "404 page not found\n"),
        ("/healthz/", "404 page not found\n"),
        ("/api/v1/%zz", "400 Bad Request"),
    ] {
        let reply = plane.send(Method::GET, path, "", "").await;
        assert_eq!(String::from_utf8_lossy(&reply.bytes), expect, "{path}");
    }
    for path in ["/api/v1//namespaces", "/api/v1/namespaces/default/namespaces", "/version/x"] {
        let (code, status) = plane.get(path).await;
        assert_eq!((code, &status["kind"]), (404, &json!("Status")), "{path}");
    }
    assert_eq!(plane.get("/api/v1/namespaces/default//").await.0, 200);
}

#[tokio::test]
async fn head_is_supported_for_reads_only() {
    let plane = TestEnv::start().await;
    plane.install_crd(&things(&anything())).await;
    let head = async |path: &str| plane.send(Method::HEAD, path, "", "").await.code;
    assert_eq!(head(MAPS).await, 405);
    assert_eq!(head("/version").await, 405);
    assert_eq!(head(THINGS).await, 200);
    assert_eq!(head("/apis").await, 200);
}

#[tokio::test]
async fn the_finalize_subresource_cannot_be_read() {
    let plane = TestEnv::start().await;
    assert_eq!(plane.get("/api/v1/namespaces/default/finalize").await.0, 405);
    let document = plane.read("/api/v1").await;
    let all = document["resources"].as_array().unwrap();
    let finalize = all.iter().find(|it| it["name"] == "namespaces/finalize").unwrap();
    assert_eq!(finalize["verbs"], json!(["update"]));
}

#[tokio::test]
async fn health_checks_can_be_excluded() {
    let plane = TestEnv::start().await;
    let reply = plane.send(Method::GET, "/livez?verbose&exclude=ping&exclude=x", "", "").await;
    let expect = "[+]ping excluded: ok\n[+]etcd ok\n[+]watch-cache ok\nwarn: some health checks cannot be excluded: no matches for \"x\"\nlivez check passed\n";
    assert_eq!(String::from_utf8_lossy(&reply.bytes), expect);
}

#[tokio::test]
async fn a_refused_impersonation_names_the_missing_permission() {
    let plane = TestEnv::start().await;
    let acting = plane.unauthenticated().with_header("impersonate-user", "bob");
    let reply = acting.send(Method::GET, MAPS, "", "").await;
    assert_eq!(reply.headers["x-content-type-options"], "nosniff");
    let expect = "configmaps is forbidden: User \"system:anonymous\" cannot impersonate-on:user-info:list resource \"configmaps\" in API group \"\" in the namespace \"default\"";
    assert_eq!(message(&reply.value()), expect);
    let nameless = plane.unauthenticated().with_header("impersonate-group", "dev");
    let (code, status) = nameless.get(MAPS).await;
    let expect = "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"dev\"}, Extra:map[string][]string(nil)} without impersonating a user name";
    assert_eq!((code, message(&status)), (400, expect));
}

#[tokio::test]
async fn a_watch_with_an_elapsed_timeout_is_empty() {
    let plane = TestEnv::start().await;
    plane.create(MAPS, &map("a", &json!({}))).await;
    let path = format!("{MAPS}?watch=1&timeoutSeconds=-1");
    assert!(plane.send(Method::GET, &path, "", "").await.bytes.is_empty());
}

#[tokio::test]
async fn events_ignore_propagation_policies() {
    let plane = TestEnv::start().await;
    let events = "/api/v1/namespaces/default/events";
    let about = json!({"metadata": {"name": "e"},
        "involvedObject": {"namespace": "default", "kind": "Pod", "name": "p"}});
    plane.create(events, &about).await;
    let path = format!("{events}/e");
    assert_eq!(plane.delete(&format!("{path}?propagationPolicy=Orphan")).await.0, 200);
    assert_eq!(plane.get(&path).await.0, 404);
}

#[tokio::test]
async fn a_token_review_requires_a_token() {
    let plane = TestEnv::start().await;
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let (code, status) = plane.post(reviews, &json!({"spec": {}})).await;
    assert_eq!(code, 400);
    assert_eq!(message(&status), "token is required for TokenReview in authentication");
}

#[tokio::test]
async fn an_empty_table_with_times_has_null_rows() {
    const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let plane = TestEnv::start().await;
    let rows = async |path: &str| plane.get_as(path, TABLE).await.value()["rows"].clone();
    assert_eq!(rows("/api/v1/namespaces/default/limitranges").await, Value::Null);
    assert_eq!(rows("/api/v1/namespaces/default/pods").await, json!([]));
}

#[tokio::test]
async fn the_path_name_of_a_create_of_a_custom_resource_is_ignored() {
    let plane = TestEnv::start().await;
    plane.install_crd(&things(&anything())).await;
    let created = plane.create(&format!("{THINGS}/other"), &thing("a", &json!({}))).await;
    assert_eq!(created["metadata"]["name"], "a");
    assert_eq!(plane.post(&format!("{MAPS}/other"), &map("a", &json!({}))).await.0, 405);
}

#[tokio::test]
async fn delete_options_must_have_their_kind() {
    let plane = TestEnv::start().await;
    for (kind, expect) in [
        ("Status", "converting (v1.Status) to (v1.DeleteOptions): unknown conversion"),
        ("Foo", "no kind \"Foo\" is registered for version \"v1\" in scheme"),
    ] {
        let odd = json!({"kind": kind, "apiVersion": "v1"});
        let (code, status) = plane.delete_with(&format!("{MAPS}/a"), &odd).await;
        assert_eq!(code, 400);
        assert!(message(&status).starts_with(expect), "{status}");
    }
}
