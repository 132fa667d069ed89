//! Tables for `kubectl get`.

use std::time::Duration;

use crate::objects::{CONFIG_MAPS, THINGS, any_schema, config_map, thing, thing_crd};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::TABLE;

fn headings(table: &Value) -> Vec<&str> {
    let columns = table["columnDefinitions"].as_array().unwrap();
    columns.iter().map(|it| it["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn ages_are_computed_by_the_clock() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({"k": "v", "l": "w"}))).await;
    for (seconds, age) in [(0, "0s"), (65, "65s"), (600, "11m"), (3 * 3600, "3h11m")] {
        plane.advance(Duration::from_secs(seconds));
        let table = plane.get_as(CONFIG_MAPS, TABLE).await.value();
        assert_eq!(table["rows"][0]["cells"], json!(["a", 2, age]));
    }
}

#[tokio::test]
async fn include_object_selects_the_object_of_a_row() {
    let plane = TestEnv::start().await;
    let created = plane.create(CONFIG_MAPS, &config_map("a", &json!({"k": "v"}))).await;
    let row = async |include: &str| {
        let reply = plane.get_as(&format!("{CONFIG_MAPS}/a?includeObject={include}"), TABLE).await;
        (reply.code, reply.value()["rows"][0]["object"].clone())
    };
    assert_eq!(row("Object").await, (200, created.clone()));
    assert_eq!(row("None").await, (200, Value::Null));
    let metadata = row("Metadata").await.1;
    assert_eq!((&metadata["metadata"], metadata.get("data")), (&created["metadata"], None));
    assert_eq!(row("Half").await.0, 400);
}

#[tokio::test]
async fn tables_are_paginated() {
    let plane = TestEnv::start().await;
    for name in ["a", "b", "c"] {
        plane.create(CONFIG_MAPS, &config_map(name, &json!({}))).await;
    }
    let first = plane.get_as(&format!("{CONFIG_MAPS}?limit=2"), TABLE).await.value();
    assert_eq!(first["rows"].as_array().map(Vec::len), Some(2));
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest =
        plane.get_as(&format!("{CONFIG_MAPS}?limit=2&continue={token}"), TABLE).await.value();
    assert_eq!(rest["rows"][0]["cells"][0], "c");
}

#[tokio::test]
async fn flow_schemas_are_in_the_order_in_which_they_are_tried() {
    const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    let plane = TestEnv::start().await;
    for (name, precedence) in [("a", 9999), ("z", 3), ("b", 3)] {
        let spec = json!({"matchingPrecedence": precedence,
            "priorityLevelConfiguration": {"name": "workload-low"}});
        plane.create(SCHEMAS, &json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    let table = plane.get_as(SCHEMAS, TABLE).await.value();
    let rows = table["rows"].as_array().unwrap();
    let order: Vec<_> = rows
        .iter()
        .map(|row| (row["cells"][2].as_i64().unwrap(), row["cells"][0].as_str().unwrap()))
        .collect();
    assert!(order.is_sorted(), "{order:?}");
    assert!(order.contains(&(3, "b")) && order.contains(&(9999, "a")), "{order:?}");
    // A list of objects stays in the order of names.
    let list = plane.read(SCHEMAS).await;
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
}

#[tokio::test]
async fn a_row_summarizes_a_pod() {
    let plane = TestEnv::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "node",
        "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}});
    plane.create(pods, &pod).await;
    let status = json!({"status": {"phase": "Running", "podIP": "10.1.0.2", "containerStatuses": [
        {"name": "c", "ready": true, "restartCount": 2, "image": "i", "imageID": "",
            "state": {"running": {}}},
        {"name": "d", "ready": false, "restartCount": 1, "image": "i", "imageID": "",
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
    ]}});
    plane.merge(&format!("{pods}/a/status"), &status).await;
    let table = plane.get_as(pods, TABLE).await.value();
    assert_eq!(headings(&table)[..5], ["Name", "Ready", "Status", "Restarts", "Age"]);
    let cells = &table["rows"][0]["cells"];
    assert_eq!(
        cells.as_array().unwrap()[..4],
        [json!("a"), json!("1/2"), json!("CrashLoopBackOff"), json!("3")]
    );
}

#[tokio::test]
async fn a_table_has_the_columns_of_the_crd() {
    let plane = TestEnv::start().await;
    let mut crd = thing_crd(&any_schema());
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "First", "type": "string", "jsonPath": ".spec.parts[0].name", "priority": 1},
        {"name": "Since", "type": "date", "jsonPath": ".spec.since"},
    ]);
    plane.install_crd(&crd).await;
    let spec = json!({"size": 3, "parts": [{"name": "x"}, {"name": "y"}],
        "since": "2023-12-31T23:59:00Z"});
    plane.create(THINGS, &thing("a", &spec)).await;
    plane.create(THINGS, &thing("b", &json!({"size": "three"}))).await;
    let table = plane.get_as(THINGS, TABLE).await.value();
    assert_eq!(headings(&table), ["Name", "Size", "First", "Since"]);
    assert_eq!(table["columnDefinitions"][2]["priority"], 1);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 3, "x", "60s"]));
    assert_eq!(table["rows"][1]["cells"], json!(["b", null, null, null]));
}

#[tokio::test]
async fn a_crd_without_columns_shows_the_age() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    plane.create(THINGS, &thing("a", &json!({}))).await;
    plane.advance(Duration::from_secs(7));
    let table = plane.get_as(THINGS, TABLE).await.value();
    assert_eq!(headings(&table), ["Name", "Age"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", "7s"]));
}
