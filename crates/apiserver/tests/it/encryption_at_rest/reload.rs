//! The file of providers changes while the plane runs.

use std::time::Duration;

use http::Method;

use super::{Disk, NEEDLE, SECRETS, for_secrets, identity, is_rewritten, key, provider, secret};
use crate::objects::{CONFIG_MAPS, config_map};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::JSON;

/// The value of the counter of reloads with this status.
async fn reloads(plane: &TestEnv, status: &str) -> u64 {
    let reply = plane.send(Method::GET, "/metrics", JSON, "").await;
    let name = format!(
        "apiserver_encryption_config_controller_automatic_reloads_total{{status=\"{status}\"}} "
    );
    let text = reply.text().to_owned();
    let line = text.lines().find_map(|it| it.strip_prefix(&name));
    line.map_or(0, |it| it.parse().unwrap())
}

/// Advances the clock until the counter of reloads has changed.
async fn wait_for_reload(plane: &TestEnv, status: &str) {
    let before = reloads(plane, status).await;
    for _ in 0..600 {
        plane.advance(Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(10)).await;
        if reloads(plane, status).await > before {
            return;
        }
    }
    panic!("the file was not read");
}

fn reloading() -> Disk {
    Disk { reloads: true, ..Disk::new() }
}

#[tokio::test]
async fn keys_are_rotated_without_a_restart() {
    let disk = reloading();
    let (key1, key2) = (key("key1", 1), key("key2", 2));
    let path = format!("{SECRETS}/a");
    let plane =
        disk.start_with(&for_secrets(&[provider("aesgcm", std::slice::from_ref(&key1))])).await;
    plane.create(SECRETS, &secret("a")).await;
    disk.configure(&for_secrets(&[provider("aesgcm", &[key2, key1])]));
    wait_for_reload(&plane, "success").await;
    assert!(is_rewritten(&plane, &path).await);
    plane.stop().await.unwrap();
    assert_eq!(disk.stored_prefix().await, "k8s:enc:aesgcm:v1:key2");
}

#[tokio::test]
async fn an_invalid_file_changes_nothing_and_is_counted() {
    let disk = reloading();
    let plane = disk.start_with(&for_secrets(&[provider("aesgcm", &[key("key1", 1)])])).await;
    std::fs::write(disk.config_file(), "kind: Pod").unwrap();
    wait_for_reload(&plane, "failure").await;
    plane.create(SECRETS, &secret("a")).await;
    assert_eq!(reloads(&plane, "success").await, 0);
    plane.stop().await.unwrap();
    assert_eq!(disk.stored_prefix().await, "k8s:enc:aesgcm:v1:key1");
}

#[tokio::test]
async fn objects_become_readable_when_their_key_is_added() {
    let disk = reloading();
    let (key1, key2) = (key("key1", 1), key("key2", 2));
    let plane =
        disk.start_with(&for_secrets(&[provider("aesgcm", std::slice::from_ref(&key1))])).await;
    plane.create(SECRETS, &secret("a")).await;
    plane.stop().await.unwrap();
    let plane =
        disk.start_with(&for_secrets(&[provider("aesgcm", std::slice::from_ref(&key2))])).await;
    assert_eq!(plane.get(SECRETS).await.0, 500);
    disk.configure(&for_secrets(&[provider("aesgcm", &[key2, key1])]));
    wait_for_reload(&plane, "success").await;
    let list = plane.until(SECRETS, |code, _| code == 200).await;
    assert_eq!(list["items"][0]["data"]["password"], NEEDLE);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn addresses_and_quotas_are_in_effect_again_when_their_key_is_added() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
    let rules = |keys: &[Value]| {
        let providers = [provider("aesgcm", keys), identity()];
        json!([{"resources": ["services", "resourcequotas"], "providers": providers}])
    };
    let service = |name: &str, address: &str| {
        json!({"metadata": {"name": name},
            "spec": {"clusterIP": address, "ports": [{"port": 80}]}})
    };
    let quota =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"hard": {"configmaps": "9"}}});
    let has_usage = |usage: &'static str| {
        move |_, quota: &Value| quota["status"]["used"]["configmaps"] == usage
    };
    let disk = reloading();
    let (key1, key2) = (key("key1", 1), key("key2", 2));
    let plane = disk.start_with(&rules(std::slice::from_ref(&key1))).await;
    let created = plane.create(SERVICES, &service("a", "")).await;
    let address = created["spec"]["clusterIP"].as_str().unwrap();
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    plane.create(QUOTAS, &quota("q")).await;
    plane.until(&format!("{QUOTAS}/q"), has_usage("1")).await;
    plane.stop().await.unwrap();

    let plane = disk.start_with(&rules(std::slice::from_ref(&key2))).await;
    // The addresses are read without the service.
    let other_services = SERVICES.replace("default", "kube-system");
    assert_eq!(plane.post(&other_services, &service("b", address)).await.0, 500);
    // The controller of quotas waits for changes of any object.
    let others = QUOTAS.replace("default", "kube-system");
    plane.create(&others, &quota("r")).await;
    plane.until(&format!("{others}/r"), |_, quota| quota["status"]["used"].is_object()).await;
    assert_eq!(plane.delete(&format!("{CONFIG_MAPS}/a")).await.0, 200);
    disk.configure(&rules(&[key2, key1]));
    wait_for_reload(&plane, "success").await;
    plane.until(&format!("{QUOTAS}/q"), has_usage("0")).await;
    let (code, status) = plane.post(&other_services, &service("b", address)).await;
    assert_eq!(code, 422, "{status}");
    assert!(status["message"].as_str().unwrap().contains("already allocated"), "{status}");
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn without_the_setting_the_file_is_read_once() {
    let disk = Disk::new();
    let plane = disk.start_with(&for_secrets(&[provider("aesgcm", &[key("key1", 1)])])).await;
    disk.configure(&for_secrets(&[provider("aesgcm", &[key("key2", 2)])]));
    for _ in 0..10 {
        plane.advance(Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    plane.create(SECRETS, &secret("a")).await;
    plane.stop().await.unwrap();
    assert_eq!(disk.stored_prefix().await, "k8s:enc:aesgcm:v1:key1");
}
