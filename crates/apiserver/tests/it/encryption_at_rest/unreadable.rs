//! Objects that cannot be decrypted.

use std::sync::Arc;

use super::{Disk, SECRETS, for_secrets, identity, key, provider, secret};
use crate::objects::{CONFIG_MAPS, config_map};
use keel::{Clock, Tasks};
use machinery::{Value, json};
use store::{Expect, Memory, Options, Store};
use testenv::{START, TestEnv};

const OTHER_SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap()
}

/// A disk with the secret `a` of the default namespace, encrypted with `key1`.
async fn disk_with_secret() -> Disk {
    let disk = Disk::new();
    let plane = disk.start_with(&for_secrets(&[provider("aesgcm", &[key("key1", 1)])])).await;
    plane.create(SECRETS, &secret("a")).await;
    plane.create(CONFIG_MAPS, &config_map("b", &json!({}))).await;
    plane.stop().await.unwrap();
    disk
}

#[tokio::test]
async fn an_object_without_its_key_fails_and_the_others_do_not() {
    let disk = disk_with_secret().await;
    let plane = disk.start_with(&for_secrets(&[provider("aesgcm", &[key("key2", 2)])])).await;
    let path = format!("{SECRETS}/a");
    let why = "no matching key was found for the provided AES transformer";
    let in_list = format!(
        "Internal error occurred: unable to transform key \"/registry/secrets/default/a\": {why}"
    );
    let (code, status) = plane.get(&path).await;
    assert_eq!((code, message(&status)), (500, &*format!("Internal error occurred: {why}")));
    for list in [SECRETS, "/api/v1/secrets", "/api/v1/secrets?watch=1&resourceVersion=1"] {
        let (code, status) = plane.get(list).await;
        assert_eq!((code, message(&status)), (500, &*in_list), "{list}");
    }
    // Writes of the object fail as well: nothing is lost by accident.
    assert_eq!(plane.put(&path, &secret("a")).await.0, 500);
    assert_eq!(plane.delete(&path).await.0, 500);
    assert_eq!(plane.delete(SECRETS).await.0, 500);
    let (code, status) = plane.post(SECRETS, &secret("a")).await;
    assert_eq!((code, message(&status)), (409, "secrets \"a\" already exists"));
    // Other objects, other namespaces and other kinds are served.
    plane.create(SECRETS, &secret("b")).await;
    plane.read(&format!("{SECRETS}/b")).await;
    plane.create(OTHER_SECRETS, &secret("c")).await;
    assert_eq!(plane.read(OTHER_SECRETS).await["items"][0]["metadata"]["name"], "c");
    assert_eq!(plane.read(&format!("{CONFIG_MAPS}/b")).await["metadata"]["name"], "b");
    plane.stop().await.unwrap();

    // With the key, all of it is there.
    let both = provider("aesgcm", &[key("key2", 2), key("key1", 1)]);
    let plane = disk.start_with(&for_secrets(&[both])).await;
    assert_eq!(plane.read(SECRETS).await["items"].as_array().unwrap().len(), 2);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_plane_whose_namespaces_are_encrypted_names_that_when_it_has_no_key() {
    let disk = Disk::new();
    let all = json!([{"resources": ["*.*"], "providers": [provider("aesgcm", &[key("key1", 1)])]}]);
    disk.start_with(&all).await.stop().await.unwrap();
    let error = TestEnv::builder().data_dir(&disk.path("data")).try_start().await.err().unwrap();
    let message = error.to_string();
    let why = "identity transformer tried to read encrypted data";
    assert!(message.starts_with("cannot decrypt the stored objects: /registry/namespaces/"));
    assert!(message.ends_with(why), "{message}");
    disk.start_with(&all).await.stop().await.unwrap();
}

#[tokio::test]
async fn every_misconfiguration_has_the_message_of_kube_apiserver() {
    let disk = disk_with_secret().await;
    let cases = [
        (provider("aesgcm", &[key("key1", 9)]), "cipher: message authentication failed"),
        (provider("aescbc", &[key("key1", 1)]), "no matching prefix found"),
        (identity(), "no matching prefix found"),
    ];
    for (provider, why) in cases {
        let plane = disk.start_with(&for_secrets(&[provider])).await;
        let (code, status) = plane.get(&format!("{SECRETS}/a")).await;
        assert_eq!((code, message(&status)), (500, &*format!("Internal error occurred: {why}")));
        plane.stop().await.unwrap();
    }
    let plane = disk.start_without().await;
    let (_, status) = plane.get(&format!("{SECRETS}/a")).await;
    let why = "identity transformer tried to read encrypted data";
    assert_eq!(message(&status), format!("Internal error occurred: {why}"));
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn plaintext_is_refused_unless_identity_is_a_provider() {
    let disk = Disk::new();
    let plane = disk.start_without().await;
    plane.create(SECRETS, &secret("a")).await;
    plane.stop().await.unwrap();
    let plane = disk.start_with(&for_secrets(&[provider("aesgcm", &[key("key1", 1)])])).await;
    let (code, status) = plane.get(&format!("{SECRETS}/a")).await;
    let why = "Internal error occurred: no matching prefix found";
    assert_eq!((code, message(&status)), (500, why));
    plane.stop().await.unwrap();
}

/// A plane in memory, its store, and the tasks of the store.
async fn plane_in_memory() -> (TestEnv, Arc<dyn Store>, Tasks) {
    let (clock, tasks) = (Clock::manual(START), Tasks::new());
    let store: Arc<dyn Store> = Memory::open(Options::default(), &clock, &tasks);
    let plane = TestEnv::builder().clock(clock).store(Arc::clone(&store)).start().await;
    (plane, store, tasks)
}

#[tokio::test]
async fn a_watch_does_not_report_an_object_that_becomes_unreadable_as_deleted() {
    let (plane, store, _tasks) = plane_in_memory().await;
    let created = plane.create(SECRETS, &secret("a")).await;
    let from = created["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = plane.watch(&format!("{SECRETS}?watch=1&resourceVersion={from}")).await;
    let key = "/registry/secrets/default/a";
    let value = "k8s:enc:aesgcm:v1:other-plane:…";
    store.put(key, value.into(), Expect::Any, None).await.unwrap();
    let error = watch.expect("ERROR").await;
    assert_eq!((&error["code"], &error["reason"]), (&json!(410), &json!("Expired")));
    let (code, status) = plane.get(SECRETS).await;
    assert_eq!(
        (code, message(&status)),
        (
            500,
            "Internal error occurred: unable to transform key \"/registry/secrets/default/a\": identity transformer tried to read encrypted data"
        )
    );
    // The deletion by the other plane ends it.
    store.delete(key, Expect::Any).await.unwrap();
    assert_eq!(plane.read(SECRETS).await["items"], json!([]));
}

#[tokio::test]
async fn admission_does_not_go_on_without_its_configuration() {
    const GROUP: &str = "/registry/admissionregistration.k8s.io";
    for resource in [
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicybindings",
    ] {
        let (plane, store, _tasks) = plane_in_memory().await;
        plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
        let keys = [format!("/registry/{resource}/a"), format!("{GROUP}/{resource}/a")];
        for key in keys {
            let value = "k8s:enc:aesgcm:v1:lost:…";
            store.put(&key, value.into(), Expect::Any, None).await.unwrap();
        }
        plane.read(CONFIG_MAPS).await;
        let (code, status) = plane.post(CONFIG_MAPS, &config_map("b", &json!({}))).await;
        assert_eq!(code, 500, "{resource}: {status}");
        assert!(message(&status).contains("unable to transform key"), "{resource}: {status}");
    }
}

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, address: Option<&str>) -> Value {
    let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    if let Some(address) = address {
        service["spec"]["clusterIP"] = address.into();
    }
    service
}

/// Stores a value at `key` that cannot be decrypted.
async fn put_unreadable(plane: &TestEnv, store: &Arc<dyn Store>, key: &str) {
    store.put(key, "k8s:enc:aesgcm:v1:lost:…".into(), Expect::Any, None).await.unwrap();
    // A list has all earlier writes.
    plane.read(CONFIG_MAPS).await;
}

async fn refused(plane: &TestEnv, path: &str, object: &Value, key: &str) {
    let (code, status) = plane.post(path, object).await;
    let expected = format!(
        "Internal error occurred: unable to transform key \"{key}\": identity transformer tried to read encrypted data"
    );
    assert_eq!((code, message(&status)), (500, &*expected));
}

#[tokio::test]
async fn limits_that_cannot_be_read_refuse_what_they_may_limit() {
    let claim = json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    for resource in ["limitranges", "resourcequotas"] {
        let (plane, store, _tasks) = plane_in_memory().await;
        let key = format!("/registry/{resource}/default/x");
        put_unreadable(&plane, &store, &key).await;
        refused(&plane, CLAIMS, &claim, &key).await;
        plane.create(&CLAIMS.replace("default", "kube-system"), &claim).await;
        store.delete(&key, Expect::Any).await.unwrap();
        plane.read(CONFIG_MAPS).await;
        plane.create(CLAIMS, &claim).await;
    }
}

#[tokio::test]
async fn a_quota_does_not_go_on_without_the_usage_of_an_object() {
    let (plane, store, _tasks) = plane_in_memory().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"secrets": "2"}}});
    let path = "/api/v1/namespaces/default/resourcequotas";
    plane.create(path, &quota).await;
    plane.create(SECRETS, &secret("a")).await;
    let is_counted = |_, quota: &Value| quota["status"]["used"]["secrets"] == "1";
    plane.until(&format!("{path}/q"), is_counted).await;
    let key = "/registry/secrets/default/a";
    put_unreadable(&plane, &store, key).await;
    refused(&plane, SECRETS, &secret("b"), key).await;
    plane.create(OTHER_SECRETS, &secret("b")).await;
    plane.create(CONFIG_MAPS, &config_map("b", &json!({}))).await;
    let quota = plane.read(&format!("{path}/q")).await;
    assert_eq!(quota["status"]["used"]["secrets"], "1", "the last known usage");
}

#[tokio::test]
async fn no_service_gets_an_address_while_another_one_cannot_be_read() {
    let (plane, store, _tasks) = plane_in_memory().await;
    let first = plane.create(SERVICES, &service("a", None)).await;
    let address = first["spec"]["clusterIP"].as_str().unwrap();
    let key = "/registry/services/specs/default/a";
    put_unreadable(&plane, &store, key).await;
    for address in [None, Some(address)] {
        refused(&plane, SERVICES, &service("b", address), key).await;
    }
    plane.create(SERVICES, &service("c", Some("None"))).await;
    store.delete(key, Expect::Any).await.unwrap();
    plane.read(SERVICES).await;
    plane.create(SERVICES, &service("b", Some(address))).await;
}
