//! The order of fields in responses, which is that of kube-apiserver: the order of Go's declarations
//! for built-in kinds, sorted for custom ones.

use http::Method;

use crate::objects::{CONFIG_MAPS, THINGS, any_schema, thing, thing_crd};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::{JSON, TABLE};

const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

fn sent() -> Value {
    json!({"metadata": {"name": "a", "labels": {"x": "y"}, "annotations": {"b": "1", "a": "2"}},
        "data": {"k": "<&>"}, "immutable": true})
}

/// The text of the config map with `head` before the metadata.
fn text_of(head: &str, found: &Value) -> String {
    let meta = |key: &str| found["metadata"][key].as_str().unwrap().to_owned();
    let managed = r#"[{"manager":"unknown","operation":"Update","apiVersion":"v1","time":"2024-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}},"f:immutable":{},"f:metadata":{"f:annotations":{".":{},"f:a":{},"f:b":{}},"f:labels":{".":{},"f:x":{}}}}}]"#;
    format!(
        r#"{{{head}"metadata":{{"name":"a","namespace":"default","uid":"{}","resourceVersion":"{}","creationTimestamp":"2024-01-01T00:00:00Z","labels":{{"x":"y"}},"annotations":{{"a":"2","b":"1"}},"managedFields":{managed}}},"immutable":true,"data":{{"k":"\u003c\u0026\u003e"}}}}"#,
        meta("uid"),
        meta("resourceVersion"),
    )
}

#[tokio::test]
async fn built_in_objects_have_the_field_order_of_go_for_every_verb() {
    let plane = TestEnv::start().await;
    let path = format!("{CONFIG_MAPS}/a");
    let created = plane.send(Method::POST, CONFIG_MAPS, JSON, sent().to_string()).await;
    let head = r#""kind":"ConfigMap","apiVersion":"v1","#;
    let whole = text_of(head, &created.value());
    assert_eq!(created.text(), format!("{whole}\n"));
    assert_eq!(plane.get_as(&path, JSON).await.text(), format!("{whole}\n"));

    let item = text_of("", &created.value());
    let listed = plane.get_as(CONFIG_MAPS, JSON).await;
    let revision = listed.value()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let begin = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":""#;
    assert!(listed.text().starts_with(&format!(r#"{begin}{revision}"}},"items":["#)));
    assert!(listed.text().contains(&item), "{}", listed.text());

    let mut watch =
        plane.watch(&format!("{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name=a")).await;
    assert_eq!(
        watch.next_line().await.unwrap(),
        format!("{{\"type\":\"ADDED\",\"object\":{whole}}}\n")
    );

    let dry = format!("{path}?dryRun=All");
    let dry = plane.send(Method::PUT, &dry, JSON, created.value().to_string()).await;
    assert_eq!(dry.text(), format!("{whole}\n"));

    let deleted = plane.send(Method::DELETE, &path, JSON, "").await;
    assert!(
        deleted.text().starts_with(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"a","kind":"configmaps","uid":"#
        ),
        "{}",
        deleted.text()
    );
    let line = watch.next_line().await.unwrap();
    assert!(line.starts_with(r#"{"type":"DELETED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","#));
    let missing = plane.get_as(&path, JSON).await;
    assert_eq!(
        missing.text(),
        concat!(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
            r#""message":"configmaps \"a\" not found","reason":"NotFound","#,
            r#""details":{"name":"a","kind":"configmaps"},"code":404}"#,
            "\n"
        )
    );
}

#[tokio::test]
async fn partial_metadata_and_tables_have_the_field_order_of_go() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    plane.create(THINGS, &thing("t", &json!({}))).await;
    let path = format!("{THINGS}/t");
    let head = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"t","namespace":"default","uid":"#;
    assert!(plane.get_as(&path, PARTIAL).await.text().starts_with(head));
    let table = plane.get_as(&path, TABLE).await;
    let begin = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":""#;
    assert!(table.text().starts_with(begin), "{}", table.text());
    assert!(table.text().contains(
        r#""columnDefinitions":[{"name":"Name","type":"string","format":"name","description":"#
    ));
    assert!(table.text().contains(&format!(r#""rows":[{{"cells":["t","0s"],"object":{head}"#)));
}

#[tokio::test]
async fn a_custom_resource_and_a_list_of_them_are_sorted() {
    let plane = TestEnv::start().await;
    let mut crd = thing_crd(&any_schema());
    let mut second = crd["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    crd["spec"]["versions"].as_array_mut().unwrap().push(second);
    plane.install_crd(&crd).await;
    let sent = json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"b": 1.5, "a": 2},
        "data": "<", "aaa": {"metadata": {"x": 1}}, "metadata": {"name": "t"}});
    let created = plane.send(Method::POST, THINGS, JSON, sent.to_string()).await;
    let whole = created.text().trim_end();
    let begin = r#"{"aaa":{"metadata":{"x":1}},"apiVersion":"example.com/v1","data":"\u003c","kind":"Thing","metadata":{"creationTimestamp":"2024-01-01T00:00:00Z","generation":1,"managedFields":["#;
    assert!(whole.starts_with(begin), "{whole}");
    let value = created.value();
    let meta = |key: &str| value["metadata"][key].as_str().unwrap().to_owned();
    let (revision, uid) = (meta("resourceVersion"), meta("uid"));
    let end = format!(
        r#""name":"t","namespace":"default","resourceVersion":"{revision}","uid":"{uid}"}},"spec":{{"a":2,"b":1.5}}}}"#
    );
    assert!(whole.ends_with(&end), "{whole}");
    let listed = plane.get_as(THINGS, JSON).await;
    let list = format!(
        r#"{{"apiVersion":"example.com/v1","items":[{whole}],"kind":"ThingList","metadata":{{"continue":"","resourceVersion":"{}"}}}}"#,
        listed.value()["metadata"]["resourceVersion"].as_str().unwrap()
    );
    assert_eq!(listed.text().trim_end(), list);
    let other = plane.get_as("/apis/example.com/v2/namespaces/default/things/t", JSON).await;
    let expected =
        whole.replacen(r#""apiVersion":"example.com/v1""#, r#""apiVersion":"example.com/v2""#, 1);
    assert_eq!(other.text().trim_end(), expected);
}

#[tokio::test]
async fn an_indented_response_has_no_final_newline() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &sent()).await;
    let pretty = plane.get_as(&format!("{CONFIG_MAPS}/a?pretty=true"), JSON).await;
    assert!(
        pretty.text().starts_with("{\n  \"kind\": \"ConfigMap\",\n  \"apiVersion\": \"v1\",\n")
    );
    assert!(pretty.text().ends_with("\n}"));
    let version = plane.get_as("/version", JSON).await;
    assert!(version.text().starts_with("{\n  \"major\": \"1\",\n  \"minor\": "));
    assert!(version.text().ends_with("\n}"));
}

#[tokio::test]
async fn discovery_has_the_field_order_of_go() {
    let plane = TestEnv::start().await;
    let core = plane.get_as("/api/v1", JSON).await;
    assert!(
        core.text()
            .starts_with(r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"#)
    );
    let pods = r#"{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"shortNames":["po"],"categories":["all"],"storageVersionHash":"xPOwRZ+Yhw8="}"#;
    assert!(core.text().contains(pods), "{}", core.text());
    let group = plane.get_as("/apis/apps", JSON).await;
    assert_eq!(
        group.text().trim_end(),
        r#"{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}"#
    );
}
