//! Services: every address and node port is allocated once.

use std::collections::HashSet;

use futures_util::future::join_all;
use tokio::task::JoinSet;

use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::MERGE_PATCH;

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, spec: &Value) -> Value {
    let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    machinery::patch::merge::apply(&mut service["spec"], spec);
    service
}

fn text<'a>(service: &'a Value, field: &str) -> &'a str {
    service["spec"][field].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_services_get_different_addresses_and_ports() {
    let plane = TestEnv::start().await;
    let mut creators = JoinSet::new();
    for index in 0..50 {
        let client = plane.clone();
        creators.spawn(async move {
            let sent = service(&format!("s{index}"), &json!({"type": "NodePort"}));
            let created = client.create(SERVICES, &sent).await;
            (
                text(&created, "clusterIP").to_owned(),
                created["spec"]["ports"][0]["nodePort"].as_i64(),
            )
        });
    }
    let allocated = creators.join_all().await;
    let addresses: HashSet<&String> = allocated.iter().map(|(address, _)| address).collect();
    assert_eq!(addresses.len(), 50);
    assert!(
        addresses.iter().all(|it| it.starts_with("10.0.0.") && *it != "10.0.0.1"),
        "{addresses:?}"
    );
    let ports: HashSet<i64> = allocated.iter().filter_map(|(_, port)| *port).collect();
    assert_eq!(ports.len(), 50);
    assert!(ports.iter().all(|it| (30_000..=32_767).contains(it)), "{ports:?}");
}

async fn start_with_cidr(cidr: &str) -> TestEnv {
    TestEnv::builder().config(|config| config.service_cidr = cidr.into()).start().await
}

#[tokio::test]
async fn one_of_many_requests_for_the_same_address_succeeds() {
    let plane = TestEnv::start().await;
    for spec in [
        json!({"clusterIP": "10.0.0.77"}),
        json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30077}]}),
    ] {
        let sent: Vec<Value> = (0..10).map(|index| service(&format!("s{index}"), &spec)).collect();
        let answers = join_all(sent.iter().map(|it| plane.post(SERVICES, it))).await;
        let mut codes: Vec<u16> = answers.iter().map(|(code, _)| *code).collect();
        codes.sort_unstable();
        assert_eq!(
            (codes[0], codes[1..].iter().all(|it| *it == 422)),
            (201, true),
            "{codes:?} {spec}"
        );
        plane.delete(SERVICES).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_that_ends_while_others_read_the_services_keeps_its_address_and_port() {
    const ROUNDS: usize = 4;
    let plane = start_with_cidr("10.0.0.0/16").await;
    for index in 0..300 {
        plane.create(SERVICES, &service(&format!("s{index}"), &json!({}))).await;
    }
    for round in 0..ROUNDS {
        let address = format!("10.0.200.{}", round + 1);
        let spec = json!({"type": "NodePort", "clusterIP": address,
            "ports": [{"port": 80, "nodePort": 31000 + round}]});
        let mut creators = JoinSet::new();
        for index in 0..16 {
            let (client, sent) = (plane.clone(), service(&format!("same-{round}-{index}"), &spec));
            creators.spawn(async move { client.post(SERVICES, &sent).await.0 });
        }
        let codes = creators.join_all().await;
        let created = codes.iter().filter(|code| **code == 201).count();
        assert_eq!(created, 1, "round {round}: {codes:?}");
    }
}

#[tokio::test]
async fn allocated_and_out_of_range_addresses_are_refused() {
    let plane = TestEnv::start().await;
    let port = json!({"type": "NodePort", "clusterIP": "10.0.0.9",
        "ports": [{"port": 80, "nodePort": 30009}]});
    plane.create(SERVICES, &service("first", &port)).await;
    for (spec, field) in [
        (json!({"clusterIP": "10.0.0.9"}), "spec.clusterIPs"),
        (json!({"clusterIP": "10.0.0.1"}), "spec.clusterIPs"),
        (json!({"clusterIP": "10.9.0.1"}), "spec.clusterIPs"),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30009}]}),
            "spec.ports[0].nodePort",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            "spec.ports[0].nodePort",
        ),
    ] {
        let (code, status) = plane.post(SERVICES, &service("second", &spec)).await;
        assert_eq!(
            (code, &status["details"]["causes"][0]["field"]),
            (422, &json!(field)),
            "{status}"
        );
    }
}

#[tokio::test]
async fn a_deletion_frees_addresses_and_ports() {
    let plane = TestEnv::start().await;
    let first = plane.create(SERVICES, &service("first", &json!({"type": "NodePort"}))).await;
    let port = &first["spec"]["ports"][0]["nodePort"];
    let same = json!({"type": "NodePort", "clusterIP": text(&first, "clusterIP"),
        "ports": [{"port": 80, "nodePort": port}]});
    assert_eq!(plane.post(SERVICES, &service("second", &same)).await.0, 422);
    plane.delete(&format!("{SERVICES}/first")).await;
    let second = plane.create(SERVICES, &service("second", &same)).await;
    assert_eq!(text(&second, "clusterIP"), text(&first, "clusterIP"));
}

#[tokio::test]
async fn a_full_network_refuses_services_until_an_address_is_free() {
    let plane = start_with_cidr("10.3.0.0/29").await;
    for index in 0..5 {
        plane.create(SERVICES, &service(&format!("s{index}"), &json!({}))).await;
    }
    let (code, status) = plane.post(SERVICES, &service("late", &json!({}))).await;
    assert_eq!((code, &status["reason"]), (500, &json!("InternalError")));
    let freed = plane.read(&format!("{SERVICES}/s3")).await;
    plane.delete(&format!("{SERVICES}/s3")).await;
    let late = plane.create(SERVICES, &service("late", &json!({}))).await;
    assert_eq!(text(&late, "clusterIP"), text(&freed, "clusterIP"));
}

#[tokio::test]
async fn dry_runs_and_refused_requests_allocate_nothing() {
    let plane = start_with_cidr("10.3.0.0/29").await;
    for _ in 0..20 {
        plane.create(&format!("{SERVICES}?dryRun=All"), &service("dry", &json!({}))).await;
        let wrong = service("wrong", &json!({"ports": [{"port": -1}]}));
        assert_eq!(plane.post(SERVICES, &wrong).await.0, 422);
    }
    for index in 0..5 {
        plane.create(SERVICES, &service(&format!("s{index}"), &json!({}))).await;
    }
}

#[tokio::test]
async fn a_dry_run_returns_addresses_and_ports_that_are_never_allocated() {
    let plane = TestEnv::start().await;
    let taken = json!({"type": "NodePort", "clusterIP": "10.0.0.9",
        "ports": [{"port": 80, "nodePort": 30009}]});
    plane.create(SERVICES, &service("first", &taken)).await;
    let path = format!("{SERVICES}?dryRun=All");
    let ports = |shown: &Value| {
        let ports = shown["spec"]["ports"].as_array().unwrap().iter();
        ports.map(|it| it["nodePort"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    let several = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [
        {"name": "a", "port": 80}, {"name": "b", "port": 81},
        {"name": "c", "port": 80, "protocol": "UDP"}, {"name": "d", "port": 82, "nodePort": 80}]});
    let shown = plane.create(&path, &service("dry", &several)).await;
    assert_eq!(
        (text(&shown, "clusterIP"), ports(&shown)),
        ("10.0.0.0", vec![32769, 32770, 32769, 80])
    );
    assert_eq!(shown["spec"]["healthCheckNodePort"], 32771);
    // A conflict of addresses is detected at allocation.
    let same = plane.create(&path, &service("dry", &json!({"clusterIP": "10.0.0.9"}))).await;
    assert_eq!(text(&same, "clusterIP"), "10.0.0.9");
    for (spec, why) in [
        (
            json!({"clusterIP": "10.9.0.1"}),
            "spec.clusterIPs: Invalid value: [\"10.9.0.1\"]: failed to allocate IP 10.9.0.1: the provided IP (10.9.0.1) is not in the valid range. The range of valid IPs is 10.0.0.0/24",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30009}]}),
            "spec.ports[0].nodePort: Invalid value: 30009: provided port is already allocated",
        ),
    ] {
        let (code, status) = plane.post(&path, &service("dry", &spec)).await;
        let why = format!("Service \"dry\" is invalid: {why}");
        assert_eq!((code, status["message"].as_str()), (422, Some(why.as_str())));
    }
    let first = format!("{SERVICES}/first?dryRun=All");
    let patch = json!({"spec": {"ports": [{"name": "a", "port": 80, "nodePort": 30009},
        {"name": "b", "port": 81}, {"name": "c", "port": 81, "protocol": "UDP"}]}});
    assert_eq!(ports(&plane.merge(&first, &patch).await), [30009, 32769, 32770]);
    // TCP and UDP can share a node port only at creation.
    let changed = ports(&plane.merge(&format!("{SERVICES}/first"), &patch).await);
    assert_ne!(changed[1], changed[2]);
}

#[tokio::test]
async fn an_update_keeps_addresses_and_allocates_new_ports() {
    let plane = TestEnv::start().await;
    let path = format!("{SERVICES}/a");
    let created = plane.create(SERVICES, &service("a", &json!({}))).await;
    assert_eq!(created["spec"]["ports"][0].get("nodePort"), None);
    let opened = plane.merge(&path, &json!({"spec": {"type": "NodePort"}})).await;
    assert_eq!(text(&opened, "clusterIP"), text(&created, "clusterIP"));
    let port = opened["spec"]["ports"][0]["nodePort"].clone();
    assert!(port.is_i64(), "{opened}");
    let touched = plane.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(touched["spec"], opened["spec"]);
    let closed =
        plane.merge(&path, &json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}})).await;
    assert_eq!(closed["spec"]["ports"][0].get("nodePort"), None);
    let other = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    plane.create(SERVICES, &service("b", &other)).await;
}

#[tokio::test]
async fn a_headless_service_has_no_address() {
    let plane = TestEnv::start().await;
    let created = plane.create(SERVICES, &service("a", &json!({"clusterIP": "None"}))).await;
    assert_eq!(
        (text(&created, "clusterIP"), &created["spec"]["clusterIPs"]),
        ("None", &json!(["None"]))
    );
    let other = plane.create(SERVICES, &service("b", &json!({"clusterIP": "None"}))).await;
    assert_eq!(text(&other, "clusterIP"), "None");
}

#[tokio::test]
async fn a_service_that_becomes_an_external_name_releases_its_addresses() {
    let plane = TestEnv::start().await;
    let to_name = json!({"spec": {"type": "ExternalName", "externalName": "x.y"}});
    let mut to_name_without_address = to_name.clone();
    to_name_without_address["spec"]["clusterIP"] = "".into();
    for (name, patch) in [("a", to_name), ("b", to_name_without_address)] {
        plane.create(SERVICES, &service(name, &json!({}))).await;
        let (code, patched) = plane.patch(&format!("{SERVICES}/{name}"), MERGE_PATCH, &patch).await;
        assert_eq!(code, 200, "{patched}");
        let port = json!({"port": 80, "protocol": "TCP", "targetPort": 80});
        assert_eq!(
            patched["spec"],
            json!({"type": "ExternalName", "externalName": "x.y", "sessionAffinity": "None",
                "ports": [port]})
        );
    }
}

#[tokio::test]
async fn an_address_outside_of_the_range_is_refused() {
    let plane = TestEnv::start().await;
    for address in ["192.168.1.1", "10.0.1.1", "10.0.0.0", "10.0.0.255"] {
        let sent = service("s", &json!({"clusterIP": address}));
        let (code, answer) = plane.post(SERVICES, &sent).await;
        let why = format!(
            "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"{address}\"]: failed to allocate IP {address}: the provided network does not match the current range"
        );
        assert_eq!((code, answer["message"].as_str()), (422, Some(why.as_str())));
    }
}

#[tokio::test]
async fn a_port_for_health_checks_outside_of_the_range_is_refused() {
    let plane = TestEnv::start().await;
    let balanced = |name: &str, port: u16| {
        let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local",
            "healthCheckNodePort": port});
        service(name, &spec)
    };
    plane.create(SERVICES, &balanced("a", 30123)).await;
    for (port, why) in [
        (80, "provided port is not in the valid range. The range of valid ports is 30000-32767"),
        (30123, "provided port is already allocated"),
    ] {
        let (code, answer) = plane.post(SERVICES, &balanced("b", port)).await;
        let why = format!(
            "Internal error occurred: failed to allocate requested HealthCheck NodePort {port}: {why}"
        );
        assert_eq!((code, answer["message"].as_str()), (500, Some(why.as_str())));
    }
}

#[tokio::test]
async fn the_error_names_the_first_unavailable_port() {
    const RANGE: &str =
        "provided port is not in the valid range. The range of valid ports is 30000-32767";
    const ALLOCATED: &str = "provided port is already allocated";
    let plane = TestEnv::start().await;
    let node_ports = |ports: Value| json!({"type": "NodePort", "ports": ports});
    for (spec, why) in [
        // The responses are those of kube-apiserver.
        (
            node_ports(json!([{"name": "a", "port": 80, "nodePort": 30555},
                {"name": "b", "port": 81, "nodePort": 30555, "protocol": "UDP"}])),
            format!("spec.ports[1].nodePort: Invalid value: 30555: {ALLOCATED}"),
        ),
        (
            node_ports(json!([{"name": "a", "port": 80, "nodePort": 80},
                {"name": "b", "port": 81, "nodePort": 81}])),
            format!("spec.ports[0].nodePort: Invalid value: 80: {RANGE}"),
        ),
        (
            node_ports(json!([{"name": "a", "port": 80},
                {"name": "b", "port": 80, "nodePort": 81, "protocol": "UDP"}])),
            format!("spec.ports[0].nodePort: Invalid value: 81: {RANGE}"),
        ),
        (
            json!({"type": "NodePort", "clusterIP": "192.168.77.1",
                "ports": [{"port": 80, "nodePort": 80}]}),
            "spec.clusterIPs: Invalid value: [\"192.168.77.1\"]: failed to allocate IP 192.168.77.1: the provided network does not match the current range".to_owned(),
        ),
    ] {
        let (code, answer) = plane.post(SERVICES, &service("a", &spec)).await;
        let why = format!("Service \"a\" is invalid: {why}");
        assert_eq!((code, answer["message"].as_str()), (422, Some(why.as_str())));
    }
    let same = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 30556, "ports": [{"port": 80, "nodePort": 30556}]});
    let (code, answer) = plane.post(SERVICES, &service("a", &same)).await;
    let why = format!(
        "Internal error occurred: failed to allocate requested HealthCheck NodePort 30556: {ALLOCATED}"
    );
    assert_eq!((code, answer["message"].as_str()), (500, Some(why.as_str())));
    let both = node_ports(json!([{"name": "a", "port": 80, "nodePort": 30555},
        {"name": "b", "port": 80, "nodePort": 30555, "protocol": "UDP"}]));
    plane.create(SERVICES, &service("a", &both)).await;
}
