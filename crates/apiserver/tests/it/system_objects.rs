//! System objects of every plane, which are restored after a deletion or a change.

use std::time::Duration;

use keel::Clock;
use machinery::{Value, json};
use testenv::{START, TestEnv};

const AUTHENTICATION_CONFIG_MAP: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";

#[tokio::test]
async fn a_deleted_or_edited_authentication_config_map_is_restored() {
    let plane = TestEnv::start().await;
    let complete = plane.read(AUTHENTICATION_CONFIG_MAP).await["data"].clone();
    assert_eq!(complete["client-ca-file"], plane.server().authority());

    plane.delete(AUTHENTICATION_CONFIG_MAP).await;
    plane
        .until(AUTHENTICATION_CONFIG_MAP, |code, map| code == 200 && map["data"] == complete)
        .await;

    let edited = json!({"data": {"client-ca-file": "rubbish", "mine": "x",
        "requestheader-allowed-names": null, "requestheader-group-headers": "[\"X-Group\"]"}});
    plane.merge(AUTHENTICATION_CONFIG_MAP, &edited).await;
    let mut expected = complete.clone();
    expected["requestheader-group-headers"] = json!("[\"X-Group\",\"X-Remote-Group\"]");
    plane.until(AUTHENTICATION_CONFIG_MAP, |_, map| map["data"] == expected).await;
}

#[tokio::test]
async fn a_deleted_service_of_the_server_is_created_again() {
    let plane = TestEnv::start().await;
    let first = plane.read(SERVICE).await;
    plane.delete(SERVICE).await;
    let is_new = |code: u16, service: &Value| {
        code == 200 && service["metadata"]["uid"] != first["metadata"]["uid"]
    };
    let second = plane.until(SERVICE, is_new).await;
    assert_eq!(second["spec"], first["spec"]);
}

#[tokio::test]
async fn the_network_of_services_is_an_object_which_is_restored() {
    let plane = TestEnv::start().await;
    let path = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
    let first = plane.read(path).await;
    assert_eq!(first["spec"]["cidrs"], json!(["10.0.0.0/24"]));
    let condition = &first["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Ready"), &json!("True")));
    plane.delete(path).await;
    // A deletion of another object that the server restores has it checked at once.
    plane.delete(SERVICE).await;
    let is_new = |code: u16, network: &Value| {
        code == 200
            && network["metadata"]["uid"] != first["metadata"]["uid"]
            && network["status"]["conditions"][0]["status"] == "True"
    };
    plane.until(path, is_new).await;
}

#[tokio::test]
async fn a_deleted_system_namespace_is_created_again() {
    let plane = TestEnv::start().await;
    let path = "/api/v1/namespaces/kube-node-lease";
    let first = plane.read(path).await;
    plane.delete(path).await;
    let mut last = plane.read(path).await;
    last["spec"]["finalizers"] = json!([]);
    plane.put(&format!("{path}/finalize"), &last).await;
    plane
        .until(path, |code, namespace| {
            code == 200 && namespace["metadata"]["uid"] != first["metadata"]["uid"]
        })
        .await;
}

#[tokio::test]
async fn a_start_restores_the_ports_of_the_service_and_adds_a_new_authority() {
    let directory = tempfile::tempdir().unwrap();
    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    let ports = plane.read(SERVICE).await["spec"]["ports"].clone();
    let edited = json!({"spec": {"ports": [{"name": "http", "port": 80}]}});
    plane.merge(SERVICE, &edited).await;
    let first = plane.server().authority();
    plane.stop().await.unwrap();
    for name in ["ca.crt", "ca.key"] {
        std::fs::remove_file(directory.path().join("pki").join(name)).unwrap();
    }

    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    assert_eq!(plane.read(SERVICE).await["spec"]["ports"], ports);
    let bundle = plane.read(AUTHENTICATION_CONFIG_MAP).await["data"]["client-ca-file"]
        .as_str()
        .unwrap()
        .to_owned();
    for authority in [&first, &plane.server().authority()] {
        assert!(bundle.contains(authority.lines().nth(1).unwrap()), "{bundle}");
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn an_expired_authority_is_removed_from_the_authentication_config_map() {
    const YEAR: u64 = 365 * 24 * 3600;
    let directory = tempfile::tempdir().unwrap();
    let plane = TestEnv::builder().data_dir(directory.path()).start().await;
    let first = plane.server().authority();
    plane.stop().await.unwrap();
    for name in ["ca.crt", "ca.key"] {
        std::fs::remove_file(directory.path().join("pki").join(name)).unwrap();
    }

    let later = Clock::manual(START + Duration::from_secs(5 * YEAR));
    let plane = TestEnv::builder().data_dir(directory.path()).clock(later).start().await;
    let second = plane.server().authority();
    let trusts = |map: &Value, authority: &str| {
        let bundle = map["data"]["client-ca-file"].as_str().unwrap();
        bundle.contains(authority.lines().nth(5).unwrap())
    };
    assert!(trusts(&plane.read(AUTHENTICATION_CONFIG_MAP).await, &first));
    plane.advance(Duration::from_secs(6 * YEAR));
    let is_removed = |_: u16, map: &Value| {
        plane.advance(Duration::from_secs(1));
        !trusts(map, &first)
    };
    assert!(trusts(&plane.until(AUTHENTICATION_CONFIG_MAP, is_removed).await, &second));
    plane.stop().await.unwrap();
}

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";

#[tokio::test]
async fn the_endpoints_of_the_service_have_the_address_of_the_server() {
    let address = "198.51.100.7";
    let builder = TestEnv::builder().listen();
    let plane = builder.config(|it| it.advertise_address = address.parse().ok()).start().await;
    let port = plane.server().address().unwrap().port();
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    let subsets = json!([{"addresses": [{"ip": address}], "ports": &ports}]);
    let is_correct = |code: u16, it: &Value| code == 200 && it["subsets"] == subsets;
    let endpoints = plane.until(ENDPOINTS, is_correct).await;
    let labels = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    assert_eq!(endpoints["metadata"]["labels"], labels);
    let is_complete = |code: u16, it: &Value| code == 200 && it["ports"] == ports;
    let slice = plane.until(SLICE, is_complete).await;
    assert_eq!(slice["metadata"]["labels"], json!({"kubernetes.io/service-name": "kubernetes"}));
    assert_eq!(slice["addressType"], "IPv4");
    let endpoint = json!([{"addresses": [address], "conditions": {"ready": true}}]);
    assert_eq!(slice["endpoints"], endpoint);

    // Both are checked every ten seconds, and not written again if they are correct.
    plane.advance(Duration::from_secs(10));
    let edited = plane.merge(ENDPOINTS, &json!({"subsets": null})).await;
    assert!(edited["subsets"].is_null());
    plane.delete(SLICE).await;
    plane.advance(Duration::from_secs(10));
    plane.until(ENDPOINTS, is_correct).await;
    let restored = plane.until(SLICE, is_complete).await;
    plane.advance(Duration::from_secs(10));
    plane.advance(Duration::from_secs(10));
    assert_eq!(plane.read(SLICE).await, restored);
}

#[tokio::test]
async fn a_server_that_does_not_listen_has_no_endpoints() {
    let plane = TestEnv::start().await;
    plane.advance(Duration::from_secs(10));
    assert_eq!(plane.get(ENDPOINTS).await.0, 404);
    assert_eq!(plane.get(SLICE).await.0, 404);
}

#[tokio::test]
async fn a_loopback_address_cannot_be_advertised() {
    let builder = TestEnv::builder().config(|it| it.advertise_address = "127.0.0.1".parse().ok());
    let error = builder.try_start().await.unwrap_err();
    assert_eq!(error.to_string(), "cannot advertise the address of the server");
}
