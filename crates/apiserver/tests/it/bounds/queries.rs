//! Long headers and queries.

use std::fmt::Write;

use http::Method;

use super::{TestRequest, check};
use crate::objects::{CONFIG_MAPS, config_map, labeled};
use apiserver::auth::authentication::User;
use machinery::{Map, Value, json};
use testenv::TestEnv;
use testenv::media_type::JSON;

fn get(path: String) -> TestRequest {
    TestRequest::new(Method::GET, path, JSON, String::new())
}

#[tokio::test]
async fn selectors_with_many_requirements_take_linear_time() {
    let plane = TestEnv::start().await;
    for n in 0..20 {
        plane.create(CONFIG_MAPS, &labeled(&format!("m{n}"), "a", "b")).await;
    }
    // A request's target has at most 64 KiB.
    let many = |n: usize, one: &str| {
        (0..n).map(|it| one.replace('N', &it.to_string())).collect::<String>()
    };
    check(&plane, 200, 1000, |n| {
        get(format!("{CONFIG_MAPS}?labelSelector={}a%3Db", many(n, "!kN,")))
    })
    .await;
    check(&plane, 200, 1000, |n| {
        get(format!("{CONFIG_MAPS}?labelSelector=a%20in%20({}b)", many(n, "vN,")))
    })
    .await;
    check(&plane, 200, 500, |n| {
        get(format!(
            "{CONFIG_MAPS}?fieldSelector={}metadata.name!%3Dx",
            many(n, "metadata.name!%3DN,")
        ))
    })
    .await;
    check(&plane, 200, 2000, |n| get(format!("{CONFIG_MAPS}?{}", many(n, "pN=v&")))).await;
}

/// A plane with an object for each size of [`check`]: the object `mN` has `8 * N` labels.
async fn plane_with_labels(size: usize) -> TestEnv {
    let plane = TestEnv::start().await;
    for n in super::sizes(size) {
        let labels: Map<String, Value> =
            (0..8 * n).map(|it| (format!("a{it}"), "".into())).collect();
        plane
            .create(CONFIG_MAPS, &json!({"metadata": {"name": format!("m{n}"), "labels": labels}}))
            .await;
    }
    plane
}

/// A selector of `n` requirements that the object `mN` matches.
fn selector(n: usize) -> String {
    let absent = (0..n).map(|it| format!(",!z{it}")).collect::<Vec<_>>().concat();
    format!("fieldSelector=metadata.name%3Dm{n}&labelSelector=a0{absent}")
}

#[tokio::test]
async fn selectors_of_an_object_with_many_labels_take_linear_time() {
    let plane = plane_with_labels(1000).await;
    check(&plane, 200, 1000, |n| get(format!("{CONFIG_MAPS}?{}", selector(n)))).await;
    check(&plane, 200, 1000, |n| {
        let path = format!("{CONFIG_MAPS}?dryRun=All&{}", selector(n));
        TestRequest::new(Method::DELETE, path, JSON, String::new())
    })
    .await;
}

#[tokio::test]
async fn watches_of_an_object_with_many_labels_take_linear_time() {
    let plane = plane_with_labels(1000).await;
    let mut spent = Vec::new();
    for n in super::sizes(1000) {
        let before = super::thread_cpu_time();
        let mut watch = plane.watch(&format!("{CONFIG_MAPS}?watch=1&{}", selector(n))).await;
        assert_eq!(watch.next_summary().await, format!("ADDED m{n}"));
        plane.merge(&format!("{CONFIG_MAPS}/m{n}"), &json!({"data": {"k": "v"}})).await;
        assert_eq!(watch.next_summary().await, format!("MODIFIED m{n}"));
        plane
            .merge(&format!("{CONFIG_MAPS}/m{n}"), &json!({"metadata": {"labels": {"a0": null}}}))
            .await;
        assert_eq!(watch.next_summary().await, format!("DELETED m{n}"));
        spent.push(super::thread_cpu_time().saturating_sub(before));
    }
    assert!(spent[2] <= spent[1] * super::FACTOR + super::TICKS, "{spent:?}");
}

#[tokio::test]
async fn a_list_with_many_requirements_of_many_objects_ends_at_its_deadline() {
    let plane = TestEnv::start().await;
    for n in 0..1000 {
        plane.create(CONFIG_MAPS, &config_map(&format!("m{n}"), &json!({}))).await;
    }
    let names = (0..2000).map(|it| format!("metadata.name!%3D{it},")).collect::<Vec<_>>().concat();
    let (code, answer) =
        plane.get(&format!("{CONFIG_MAPS}?timeout=1ms&fieldSelector={names}")).await;
    assert_eq!(code, 504, "{answer}");
}

#[tokio::test]
async fn an_accept_header_with_many_clauses_takes_linear_time() {
    let plane = TestEnv::start().await;
    let mut clauses = String::new();
    let mut spent = Vec::new();
    for n in 0..4000 {
        write!(clauses, "a/b{n};q=0.{n},").unwrap();
        if n == 999 || n == 3999 {
            let client = plane.as_user(User::default());
            let client = client.with_header("accept", format!("{clauses}application/json"));
            spent.push(super::cpu_time(&client, 403, &get(CONFIG_MAPS.to_owned())).await);
        }
    }
    assert!(spent[1] <= spent[0] * super::FACTOR + super::TICKS, "{spent:?}");
}
