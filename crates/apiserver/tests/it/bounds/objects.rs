//! Built-in kinds with long lists.

use http::Method;

use super::{TestRequest, check, sizes};
use machinery::{Map, Value, json};
use testenv::TestEnv;
use testenv::media_type::JSON;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

fn items(count: usize, one: impl Fn(usize) -> Value) -> Value {
    (0..count).map(one).collect()
}

/// Creates an element from its number.
type One = fn(usize) -> Value;

fn pod(spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn container(n: usize) -> Value {
    json!({"name": format!("c{n}"), "image": format!("i{n}")})
}

#[tokio::test]
async fn pods_with_many_containers_take_linear_time() {
    let plane = TestEnv::start().await;
    for list in ["containers", "initContainers"] {
        check(&plane, 201, 800, |n| {
            TestRequest::post(PODS, &pod(&json!({list: items(n, container)})))
        })
        .await;
    }
    check(&plane, 201, 4000, |n| {
        let env = items(n, |it| json!({"name": format!("E{it}"), "value": "v"}));
        let container = json!({"name": "c", "image": "i", "env": env});
        TestRequest::post(PODS, &pod(&json!({"containers": [container]})))
    })
    .await;
    check(&plane, 201, 2000, |n| {
        let ports = items(n, |it| json!({"containerPort": it % 60_000 + 1, "hostPort": 0}));
        let container = json!({"name": "c", "image": "i", "ports": ports});
        TestRequest::post(PODS, &pod(&json!({"containers": [container]})))
    })
    .await;
}

#[tokio::test]
async fn pods_with_many_volumes_take_linear_time() {
    let plane = TestEnv::start().await;
    check(&plane, 201, 500, |n| {
        let volumes = items(n, |it| json!({"name": format!("v{it}"), "emptyDir": {}}));
        let mounts =
            items(n, |it| json!({"name": format!("v{it}"), "mountPath": format!("/m/{it}")}));
        let container = json!({"name": "c", "image": "i", "volumeMounts": mounts});
        TestRequest::post(PODS, &pod(&json!({"volumes": volumes, "containers": [container]})))
    })
    .await;
    for has_same_path in [true, false] {
        check(&plane, 201, 2000, |n| {
            let files = items(n, |it| {
                let path = if has_same_path { "p".to_owned() } else { format!("p{it}") };
                json!({"key": format!("k{it}"), "path": path})
            });
            let volume = json!({"name": "v", "configMap": {"name": "m", "items": files}});
            TestRequest::post(PODS, &pod(&json!({"volumes": [volume]})))
        })
        .await;
    }
}

#[tokio::test]
async fn pods_with_other_long_lists_take_linear_time() {
    let plane = TestEnv::start().await;
    let lists: [(&str, One); 7] = [
        ("tolerations", |n| json!({"key": format!("k{n}"), "operator": "Exists"})),
        (
            "topologySpreadConstraints",
            |n| json!({"maxSkew": 1, "topologyKey": format!("k{n}"), "whenUnsatisfiable": "DoNotSchedule"}),
        ),
        ("schedulingGates", |n| json!({"name": format!("g{n}")})),
        ("readinessGates", |n| json!({"conditionType": format!("g{n}")})),
        ("hostAliases", |n| json!({"ip": format!("10.0.{}.{}", n / 250, n % 250)})),
        ("imagePullSecrets", |n| json!({"name": format!("s{n}")})),
        (
            "resourceClaims",
            |n| json!({"name": format!("c{n}"), "resourceClaimName": format!("c{n}")}),
        ),
    ];
    for (list, one) in lists {
        check(&plane, 201, 1500, |n| TestRequest::post(PODS, &pod(&json!({list: items(n, one)}))))
            .await;
    }
}

#[tokio::test]
async fn a_forbidden_update_of_many_variables_takes_linear_time() {
    const SIZE: usize = 1500;
    let plane = TestEnv::start().await;
    let pod_of = |n: usize, value: &str| {
        let env = items(n, |it| json!({"name": format!("E{it}"), "value": format!("{value}{it}")}));
        let mut pod = pod(&json!({"containers": [{"name": "c", "image": "i", "env": env}]}));
        pod["metadata"]["name"] = format!("a{n}").into();
        pod
    };
    for n in sizes(SIZE) {
        plane.create(PODS, &pod_of(n, "v")).await;
    }
    check(&plane, 422, SIZE, |n| {
        let path = format!("{PODS}/a{n}?dryRun=All");
        TestRequest::new(Method::PUT, path, JSON, pod_of(n, "w").to_string())
    })
    .await;
}

#[tokio::test]
async fn services_with_many_ports_and_addresses_take_linear_time() {
    let plane = TestEnv::start().await;
    check(&plane, 201, 2000, |n| {
        let ports = items(n, |it| json!({"name": format!("p{it}"), "port": it + 1}));
        TestRequest::post(SERVICES, &json!({"metadata": {"name": "a"}, "spec": {"ports": ports}}))
    })
    .await;
    check(&plane, 201, 2000, |n| {
        let ips = items(n, |it| format!("10.1.{}.{}", it / 250, it % 250).into());
        let spec = json!({"ports": [{"port": 1}], "externalIPs": ips});
        TestRequest::post(SERVICES, &json!({"metadata": {"name": "a"}, "spec": spec}))
    })
    .await;
    check(&plane, 201, 2000, |n| {
        let addresses = items(n, |it| json!({"ip": format!("10.1.{}.{}", it / 250, it % 250)}));
        let subset = json!({"addresses": addresses, "ports": [{"port": 1}]});
        let path = "/api/v1/namespaces/default/endpoints";
        TestRequest::post(path, &json!({"metadata": {"name": "a"}, "subsets": [subset]}))
    })
    .await;
}

#[tokio::test]
async fn policies_quotas_and_roles_with_long_lists_take_linear_time() {
    let plane = TestEnv::start().await;
    check(&plane, 201, 2000, |n| {
        let ports = items(n, |it| json!({"port": it + 1}));
        let peers = items(n, |it| json!({"podSelector": {"matchLabels": {"a": format!("v{it}")}}}));
        let spec = json!({"podSelector": {}, "ingress": [{"ports": ports, "from": peers}]});
        let path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
        TestRequest::post(path, &json!({"metadata": {"name": "a"}, "spec": spec}))
    })
    .await;
    check(&plane, 422, 2000, |n| {
        let scopes = items(n, |it| format!("S{it}").into());
        let path = "/api/v1/namespaces/default/resourcequotas";
        TestRequest::post(path, &json!({"metadata": {"name": "a"}, "spec": {"scopes": scopes}}))
    })
    .await;
    check(&plane, 201, 1000, |n| {
        let rules = items(
            n,
            |it| json!({"apiGroups": [""], "resources": [format!("r{it}")], "verbs": ["get"]}),
        );
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        TestRequest::post(path, &json!({"metadata": {"name": "a"}, "rules": rules}))
    })
    .await;
}

#[tokio::test]
async fn a_response_with_very_many_errors_is_truncated() {
    let plane = TestEnv::start().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let data = |count: usize| -> Map<String, Value> {
        (0..count).map(|n| (format!("bad key {n}"), "".into())).collect()
    };
    let (code, status) =
        plane.post(maps, &json!({"metadata": {"name": "a"}, "data": data(2000)})).await;
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!((code, causes.len()), (422, 2000));

    let object = json!({"metadata": {"name": "a"}, "data": data(120_000)}).to_string();
    assert!(object.len() < 3 << 20);
    let reply = plane.send(Method::POST, maps, JSON, object).await;
    assert_eq!(reply.code, 422);
    assert!(reply.bytes.len() < 5 << 20, "{} bytes", reply.bytes.len());
    let message = reply.value()["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("(there are too many errors to show all of them)"));
}
