//! Large metadata: managed fields, owner references, finalizers, labels.

use http::Method;

use super::{TestRequest, check, plane_with, sizes};
use crate::objects::{CONFIG_MAPS, config_map};
use apiserver::auth::authentication::User;
use machinery::{Map, Value, json};
use testenv::TestEnv;
use testenv::media_type::{JSON, MERGE_PATCH};

/// `count` managers, each of a separate field.
fn managers(count: usize, operation: &str) -> Value {
    let one = |n: usize| {
        json!({"manager": format!("m{n}"), "operation": operation, "apiVersion": "v1",
            "time": "2024-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {format!("f:k{n}"): {}}}})
    };
    (0..count).map(one).collect()
}

/// `count` managers, each of a separate field that the object does not have.
fn managers_of_absent_fields(count: usize, api_version: &str) -> Value {
    let one = |n: usize| {
        json!({"manager": format!("m{n}"), "operation": "Update", "apiVersion": api_version,
            "fieldsType": "FieldsV1", "fieldsV1": {format!("f:z{n}"): {}}})
    };
    (0..count).map(one).collect()
}

/// `count` entries of a map.
fn entries(count: usize, value: &str) -> Value {
    Value::Object((0..count).map(|n| (format!("k{n}"), value.into())).collect::<Map<_, _>>())
}

fn managed_map(count: usize, operation: &str) -> Value {
    json!({"metadata": {"name": "a", "managedFields": managers(count, operation)},
        "data": entries(count, "v")})
}

#[tokio::test]
async fn a_create_with_many_update_managers_takes_linear_time() {
    let plane = TestEnv::start().await;
    check(&plane, 201, 6000, |n| {
        let managers = managers_of_absent_fields(n, "v1");
        TestRequest::post(
            CONFIG_MAPS,
            &json!({"metadata": {"name": "a", "managedFields": managers}}),
        )
    })
    .await;
}

#[tokio::test]
async fn a_create_with_many_apply_managers_takes_linear_time() {
    let plane = TestEnv::start().await;
    check(&plane, 201, 2000, |n| TestRequest::post(CONFIG_MAPS, &managed_map(n, "Apply"))).await;
}

#[tokio::test]
async fn a_review_with_many_managers_takes_linear_time() {
    let plane = TestEnv::start().await;
    let user = User { name: "u".to_owned(), ..User::default() };
    let user = plane.as_user(User { groups: vec!["system:authenticated".to_owned()], ..user });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    check(&user, 201, 5000, |n| {
        let metadata =
            json!({"managedFields": managers_of_absent_fields(n, "authorization.k8s.io/v1")});
        TestRequest::post(
            path,
            &json!({"metadata": metadata, "spec": {"nonResourceAttributes": {}}}),
        )
    })
    .await;
}

#[tokio::test]
async fn changes_of_fields_of_many_managers_take_linear_time() {
    let plane = plane_with(CONFIG_MAPS, &config_map("a", &entries(8000, "v"))).await;
    check(&plane, 200, 2000, |n| {
        let mut changed = managed_map(n, "Apply");
        changed["data"] = entries(n, "w");
        TestRequest::new(
            Method::PUT,
            format!("{CONFIG_MAPS}/a?dryRun=All"),
            JSON,
            changed.to_string(),
        )
    })
    .await;
}

#[tokio::test]
async fn an_apply_that_conflicts_with_many_managers_takes_linear_time() {
    const SIZE: usize = 2000;
    let plane = TestEnv::start().await;
    for n in sizes(SIZE) {
        let mut live = managed_map(n, "Apply");
        live["metadata"]["name"] = format!("a{n}").into();
        plane.create(CONFIG_MAPS, &live).await;
    }
    for (force, code) in [("true", 200), ("false", 409)] {
        check(&plane, code, SIZE, |n| {
            let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("a{n}")}, "data": entries(n, "w")});
            let path = format!("{CONFIG_MAPS}/a{n}?dryRun=All&fieldManager=x&force={force}");
            TestRequest::new(
                Method::PATCH,
                path,
                "application/apply-patch+yaml",
                config.to_string(),
            )
        })
        .await;
    }
}

#[tokio::test]
async fn unsorted_managed_fields_take_linear_time() {
    let plane = TestEnv::start().await;
    check(&plane, 201, 25_000, |n| {
        let fields: Map<String, Value> =
            (0..n).map(|it| (format!("v:{}", it * 7), json!({}))).collect();
        let manager = json!({"manager": "m", "operation": "Apply", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:finalizers": fields}}});
        TestRequest::post(
            CONFIG_MAPS,
            &json!({"metadata": {"name": "a", "managedFields": [manager]}}),
        )
    })
    .await;
}

#[tokio::test]
async fn many_owner_references_take_linear_time() {
    let plane = TestEnv::start().await;
    let owner = |n: usize, is_controller: bool| {
        json!({"apiVersion": "v1", "kind": "Pod", "name": format!("p{n}"), "uid": format!("u{n}"),
            "controller": is_controller, "blockOwnerDeletion": true})
    };
    let with_owners = |owners: Value| json!({"metadata": {"name": "a", "ownerReferences": owners}});
    check(&plane, 201, 2000, |n| {
        TestRequest::post(CONFIG_MAPS, &with_owners((0..n).map(|it| owner(it, false)).collect()))
    })
    .await;
    check(&plane, 201, 2000, |n| {
        TestRequest::post(CONFIG_MAPS, &with_owners((0..n).map(|_| owner(7, false)).collect()))
    })
    .await;
    check(&plane, 422, 1000, |n| {
        TestRequest::post(CONFIG_MAPS, &with_owners((0..n).map(|it| owner(it, true)).collect()))
    })
    .await;
}

#[tokio::test]
async fn many_finalizers_initializers_and_labels_take_linear_time() {
    let plane = TestEnv::start().await;
    let with = |field: &str, value: Value| json!({"metadata": {"name": "a", field: value}});
    let finalizers =
        |n: usize| (0..n).map(|it| Value::from(format!("a.b/{it}"))).collect::<Value>();
    check(&plane, 201, 5000, |n| {
        TestRequest::post(CONFIG_MAPS, &with("finalizers", finalizers(n)))
    })
    .await;
    check(&plane, 201, 5000, |n| TestRequest::post(CONFIG_MAPS, &with("labels", entries(n, "v"))))
        .await;
    check(&plane, 201, 2000, |n| {
        TestRequest::post(CONFIG_MAPS, &with("annotations", entries(n, "v")))
    })
    .await;
    check(&plane, 201, 10_000, |n| {
        let pending: Value = (0..n).map(|it| json!({"name": format!("a{it}")})).collect();
        TestRequest::post(CONFIG_MAPS, &with("initializers", json!({"pending": pending})))
    })
    .await;
}

#[tokio::test]
async fn adding_many_finalizers_to_a_terminating_object_is_refused_in_linear_time() {
    let finalizers: Value = (0..8000).map(|it| Value::from(format!("a.b/{it}"))).collect();
    let plane =
        plane_with(CONFIG_MAPS, &json!({"metadata": {"name": "a", "finalizers": finalizers}}))
            .await;
    plane.delete(&format!("{CONFIG_MAPS}/a")).await;
    check(&plane, 422, 2000, |n| {
        let finalizers: Value = (0..n).map(|it| Value::from(format!("c.d/{it}"))).collect();
        let patch = json!({"metadata": {"finalizers": finalizers}});
        TestRequest::new(
            Method::PATCH,
            format!("{CONFIG_MAPS}/a?dryRun=All"),
            MERGE_PATCH,
            patch.to_string(),
        )
    })
    .await;
}

#[tokio::test]
async fn errors_at_a_long_field_path_take_linear_time() {
    let plane = TestEnv::start().await;
    check(&plane, 422, 50_000, |n| {
        let long = "x".repeat(n);
        let keys: Map<String, Value> =
            (0..n / 20).map(|it| (format!("{it}:"), Value::from("v"))).collect();
        let mut map = config_map("a", &Value::Object(keys));
        map["metadata"]["labels"] = json!({long: "v"});
        TestRequest::post(CONFIG_MAPS, &map)
    })
    .await;
}
