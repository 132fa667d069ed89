//! Large patches and YAML bodies.

use std::fmt::Write;

use http::Method;

use super::{TestRequest, check, plane_with, sizes};
use crate::objects::{CONFIG_MAPS, config_map};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::{JSON_PATCH, STRATEGIC_MERGE_PATCH};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

fn ports(count: usize) -> Value {
    (0..count).map(|n| json!({"name": format!("p{n}"), "port": n + 1, "protocol": "TCP"})).collect()
}

#[tokio::test]
async fn a_strategic_merge_with_set_element_order_takes_linear_time() {
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": ports(4000)}});
    let plane = plane_with(SERVICES, &service).await;
    check(&plane, 200, 1000, |n| {
        let order: Value = (0..n).rev().map(|it| json!({"port": it + 1})).collect();
        let reversed: Value =
            (0..n).rev().map(|it| json!({"port": it + 1, "nodePort": 0})).collect();
        let patch = json!({"spec": {"$setElementOrder/ports": order, "ports": reversed}});
        let path = format!("{SERVICES}/a?dryRun=All");
        TestRequest::new(Method::PATCH, path, STRATEGIC_MERGE_PATCH, patch.to_string())
    })
    .await;
}

#[tokio::test]
async fn a_strategic_merge_that_deletes_takes_linear_time() {
    const SIZE: usize = 2000;
    let plane = TestEnv::start().await;
    for n in sizes(SIZE) {
        let name = format!("a{n}");
        let service = json!({"metadata": {"name": name}, "spec": {"ports": ports(n)}});
        plane.create(SERVICES, &service).await;
    }
    check(&plane, 200, SIZE, |n| {
        let deleted: Value = (1..n).map(|it| json!({"port": it + 1, "$patch": "delete"})).collect();
        let patch = json!({"spec": {"ports": deleted}});
        let path = format!("{SERVICES}/a{n}?dryRun=All");
        TestRequest::new(Method::PATCH, path, STRATEGIC_MERGE_PATCH, patch.to_string())
    })
    .await;
}

#[tokio::test]
async fn json_patch_operations_on_a_large_value_take_linear_time() {
    let large: String = "x".repeat(200_000);
    let plane = plane_with(CONFIG_MAPS, &config_map("a", &json!({"k": large}))).await;
    check(&plane, 200, 1000, |n| {
        let back_and_forth = (0..n).flat_map(|_| {
            [
                json!({"op": "move", "from": "/data", "path": "/binaryData"}),
                json!({"op": "move", "from": "/binaryData", "path": "/data"}),
            ]
        });
        let patch: Value = back_and_forth.collect();
        let path = format!("{CONFIG_MAPS}/a?dryRun=All");
        TestRequest::new(Method::PATCH, path, JSON_PATCH, patch.to_string())
    })
    .await;
}

#[tokio::test]
async fn aliases_and_merges_in_yaml_take_linear_time() {
    let plane = TestEnv::start().await;
    let send = |yaml: String| {
        TestRequest::new(
            Method::POST,
            format!("{CONFIG_MAPS}?dryRun=All"),
            "application/yaml",
            yaml,
        )
    };
    check(&plane, 201, 5000, |n| {
        let mut yaml = "metadata: {name: a}\ndata:\n  a: &a v\n".to_owned();
        (0..n).for_each(|it| writeln!(yaml, "  k{it}: *a").unwrap());
        send(yaml)
    })
    .await;
    check(&plane, 201, 2000, |n| {
        let mut yaml = "metadata: {name: a}\ndata:\n".to_owned();
        (0..n).for_each(|it| writeln!(yaml, "  k{it}: &a{it} v{it}").unwrap());
        send(yaml)
    })
    .await;
    check(&plane, 201, 1000, |n| {
        let mut yaml = "metadata: {name: a, labels: &l {a: b}}\ndata:\n".to_owned();
        (0..n).for_each(|_| yaml += "  <<: *l\n");
        send(yaml)
    })
    .await;
    check(&plane, 201, 20_000, |n| send(format!("{}metadata: {{name: a}}\n", "# x\n".repeat(n))))
        .await;
    check(&plane, 400, 50_000, |n| send("[".repeat(n))).await;
    check(&plane, 400, 50_000, |n| send("? ".repeat(n))).await;
    check(&plane, 400, 20_000, |n| send("- ".repeat(n))).await;
}

#[tokio::test]
async fn a_patch_with_unknown_fields_of_a_pod_takes_linear_time() {
    let pod =
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let plane = plane_with(PODS, &pod).await;
    check(&plane, 422, 2000, |n| {
        let operations: Value = (0..n)
            .map(|it| json!({"op": "add", "path": format!("/spec/containers/0/x{it}"), "value": 1}))
            .chain([json!({"op": "add", "path": "/spec/containers/0/image", "value": 1})])
            .collect();
        let path = format!("{PODS}/a?dryRun=All");
        TestRequest::new(Method::PATCH, path, JSON_PATCH, operations.to_string())
    })
    .await;
}
