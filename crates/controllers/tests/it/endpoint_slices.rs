//! The `EndpointSlice`s of services, and those that mirror `Endpoints`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::endpoint_pods::{
    PODS, SERVICES, create_node, create_pod, create_service, run_pod, set_status,
};
use crate::plane::Plane;

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// The path of the slices of the service `web`.
fn path() -> String {
    format!("{SLICES}?labelSelector=kubernetes.io/service-name=web")
}

fn items(list: &Value) -> &Vec<Value> {
    list["items"].as_array().unwrap()
}

/// The number of endpoints of each slice, sorted.
fn sizes(list: &Value) -> Vec<usize> {
    let sizes = items(list).iter().map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len));
    let mut sizes: Vec<usize> = sizes.collect();
    sizes.sort_unstable();
    sizes
}

/// A plane with the node `n`.
async fn start() -> Plane {
    let plane = Plane::start(&["endpointslice"]).await;
    create_node(&plane, "n", "z").await;
    plane
}

#[tokio::test]
async fn a_slice_has_the_state_of_the_pods() {
    let plane = start().await;
    let service = create_service(&plane, "web", &json!({})).await;
    let placeholder = plane.until(&path(), |_, list| sizes(list) == [0]).await;
    let placeholder = &items(&placeholder)[0];
    assert_eq!(placeholder["ports"], json!(null));

    run_pod(&plane, "a", "10.1.0.1", true).await;
    let list = plane.until(&path(), |_, list| sizes(list) == [1]).await;
    let slice = &items(&list)[0];
    // The empty slice was filled.
    assert_eq!(slice["metadata"]["name"], placeholder["metadata"]["name"]);
    assert!(slice["metadata"]["name"].as_str().unwrap().starts_with("web-"));
    let labels = json!({
        "team": "x",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    });
    assert_eq!(slice["metadata"]["labels"], labels);
    let owner = &slice["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], service["metadata"]["uid"]);
    assert_eq!((&owner["controller"], &owner["blockOwnerDeletion"]), (&json!(true), &json!(true)));
    assert_eq!(slice["addressType"], "IPv4");
    let ports = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
    assert_eq!(slice["ports"], ports);
    let pod = plane.read(&format!("{PODS}/a")).await;
    let target =
        json!({"kind": "Pod", "namespace": "default", "name": "a", "uid": pod["metadata"]["uid"]});
    let endpoint = json!({
        "addresses": ["10.1.0.1"],
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "nodeName": "n",
        "zone": "z",
        "targetRef": target,
    });
    assert_eq!(slice["endpoints"], json!([endpoint]));

    plane.delete(&format!("{PODS}/a")).await;
    let terminating = json!({"ready": false, "serving": true, "terminating": true});
    let is_terminating =
        |_: u16, list: &Value| list["items"][0]["endpoints"][0]["conditions"] == terminating;
    plane.until(&path(), is_terminating).await;
    plane.delete_with(&format!("{PODS}/a"), &json!({"gracePeriodSeconds": 0})).await;
    plane.until(&path(), |_, list| sizes(list) == [0]).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_change_of_a_large_service_touches_one_slice() {
    let plane = start().await;
    create_service(&plane, "web", &json!({})).await;
    for number in 0..120 {
        run_pod(&plane, &format!("p{number}"), &format!("10.1.0.{number}"), true).await;
    }
    // Changes of a service with many pods are collected for some milliseconds.
    let until = async |is_reached: &dyn Fn(&Value) -> bool| {
        let check = |_: u16, list: &Value| {
            plane.advance(Duration::from_millis(10));
            is_reached(list)
        };
        plane.until(&path(), check).await
    };
    let full = until(&|list| sizes(list).iter().sum::<usize>() == 120).await;
    assert_eq!(sizes(&full), [20, 100]);
    set_status(&plane, "p7", &["10.1.0.7"], false).await;
    let is_ready = |endpoint: &Value| endpoint["conditions"]["ready"] == true;
    let ready = |list: &Value| {
        let endpoints = items(list).iter().flat_map(|it| it["endpoints"].as_array().unwrap());
        endpoints.filter(|it| is_ready(it)).count()
    };
    let changed = until(&|list| ready(list) == 119).await;
    let versions = |list: &Value| {
        let versions = items(list).iter().map(|it| it["metadata"]["resourceVersion"].clone());
        versions.collect::<Vec<_>>()
    };
    let (before, after) = (versions(&full), versions(&changed));
    assert_eq!(before.iter().filter(|version| after.contains(version)).count(), 1);
    plane.stop().await;
}

#[tokio::test]
async fn there_are_slices_for_each_set_of_ports() {
    let plane = start().await;
    let spec = json!({
        "clusterIP": "None",
        "ports": [{"name": "http", "port": 80, "targetPort": "web"}],
    });
    create_service(&plane, "web", &spec).await;
    let ports = json!([{"name": "web", "containerPort": 7070}]);
    create_pod(&plane, "a", &json!({"hostname": "first", "subdomain": "web"})).await;
    create_pod(&plane, "b", &json!({"containers": [{"name": "c", "image": "i", "ports": ports}]}))
        .await;
    set_status(&plane, "a", &["10.1.0.1", "fd00::1"], true).await;
    set_status(&plane, "b", &["10.1.0.2"], true).await;
    let found = |list: &Value| {
        let mut found = Vec::new();
        for slice in items(list) {
            let port = &slice["ports"][0]["port"];
            for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
                found.push(format!("{} {} {port}", slice["addressType"], endpoint["addresses"][0]));
            }
        }
        found.sort_unstable();
        found
    };
    let expected = [r#""IPv4" "10.1.0.1" 9090"#, r#""IPv4" "10.1.0.2" 7070"#];
    let list = plane.until(&path(), |_, list| found(list) == expected).await;
    for slice in items(&list) {
        assert_eq!(slice["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    }
    let hostnames = items(&list).iter().flat_map(|it| it["endpoints"].as_array().unwrap().clone());
    assert_eq!(hostnames.filter(|it| it["hostname"] == "first").count(), 1);
    plane.stop().await;
}

#[tokio::test]
async fn a_service_may_prefer_close_endpoints_and_publish_all_pods() {
    let plane = start().await;
    let spec = json!({"trafficDistribution": "PreferClose", "publishNotReadyAddresses": true});
    create_service(&plane, "web", &spec).await;
    run_pod(&plane, "a", "10.1.0.1", false).await;
    let list = plane.until(&path(), |_, list| sizes(list) == [1]).await;
    let endpoint = &items(&list)[0]["endpoints"][0];
    let conditions = json!({"ready": true, "serving": false, "terminating": false});
    assert_eq!(endpoint["conditions"], conditions);
    assert_eq!(endpoint["hints"], json!({"forZones": [{"name": "z"}]}));
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_on_a_missing_node_is_added_with_the_node() {
    let plane = Plane::start(&["endpointslice"]).await;
    create_service(&plane, "web", &json!({})).await;
    run_pod(&plane, "a", "10.1.0.1", true).await;
    let message = "Error updating Endpoint Slices for Service default/web: skipping Pod a for Service default/web: Node n Not Found";
    let events = "/api/v1/namespaces/default/events";
    let has_event = |list: &Value| {
        items(list).iter().any(|event| {
            event["reason"] == "FailedToUpdateEndpointSlices" && event["message"] == message
        })
    };
    plane.until(events, |_, list| has_event(list)).await;
    create_node(&plane, "n", "z").await;
    plane.until(&path(), |_, list| sizes(list) == [1]).await;
    plane.stop().await;
}

#[tokio::test]
async fn a_changed_slice_is_restored() {
    let plane = start().await;
    create_service(&plane, "web", &json!({})).await;
    run_pod(&plane, "a", "10.1.0.1", true).await;
    let list = plane.until(&path(), |_, list| sizes(list) == [1]).await;
    let slice = format!("{SLICES}/{}", items(&list)[0]["metadata"]["name"].as_str().unwrap());
    plane.merge(&slice, &json!({"endpoints": [{"addresses": ["10.9.9.9"]}]})).await;
    let is_intact = |list: &Value| {
        sizes(list) == [1] && list["items"][0]["endpoints"][0]["addresses"][0] == "10.1.0.1"
    };
    plane.until(&path(), |_, list| is_intact(list)).await;
    assert_eq!(plane.delete(&slice).await.0, 200);
    plane.until(&path(), |_, list| is_intact(list)).await;
    plane.merge(&format!("{SERVICES}/web"), &json!({"metadata": {"labels": {"team": "y"}}})).await;
    let label = |list: &Value| list["items"][0]["metadata"]["labels"]["team"].clone();
    plane.until(&path(), |_, list| label(list) == "y").await;
    plane.stop().await;
}

#[tokio::test]
async fn endpoints_of_a_service_without_a_selector_are_mirrored() {
    let plane = Plane::start(&["endpointslicemirroring"]).await;
    let endpoints = "/api/v1/namespaces/default/endpoints";
    create_service(&plane, "web", &json!({"selector": null})).await;
    let subsets = json!([{
        "addresses": [{"ip": "10.1.0.1", "nodeName": "n"}, {"ip": "fd00::1"}],
        "notReadyAddresses": [{"ip": "10.1.0.2", "hostname": "h"}],
        "ports": [{"name": "http", "port": 8080}],
    }]);
    let object = json!({"metadata": {"name": "web", "labels": {"a": "b"}}, "subsets": subsets});
    let created = plane.create(endpoints, &object).await;
    let list = plane.until(&path(), |_, list| sizes(list) == [1, 2]).await;
    let of_family = |family: &str| {
        items(&list).iter().find(|slice| slice["addressType"] == family).unwrap().clone()
    };
    let slice = of_family("IPv4");
    let labels = json!({
        "a": "b",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    });
    assert_eq!(slice["metadata"]["labels"], labels);
    let owner = &slice["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("Endpoints"), &created["metadata"]["uid"]));
    let expected = json!([
        {"addresses": ["10.1.0.1"], "conditions": {"ready": true}, "nodeName": "n"},
        {"addresses": ["10.1.0.2"], "conditions": {"ready": false}, "hostname": "h"},
    ]);
    assert_eq!(slice["endpoints"], expected);
    assert_eq!(of_family("IPv6")["endpoints"][0]["addresses"], json!(["fd00::1"]));

    let fewer = json!({"subsets": [{"addresses": [{"ip": "10.1.0.9"}], "ports": [{"port": 1}]}]});
    plane.merge(&format!("{endpoints}/web"), &fewer).await;
    let list = plane.until(&path(), |_, list| sizes(list) == [1]).await;
    assert_eq!(items(&list)[0]["ports"][0]["port"], 1);
    assert_eq!(items(&list)[0]["metadata"]["name"], slice["metadata"]["name"]);

    let skip = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}});
    plane.merge(&format!("{endpoints}/web"), &skip).await;
    plane.until(&path(), |_, list| items(list).is_empty()).await;
    plane.stop().await;
}
