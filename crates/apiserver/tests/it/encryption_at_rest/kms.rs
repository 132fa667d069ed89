//! The provider `kms`, with a plugin on a Unix socket.

use std::time::Duration;

use http::Method;

use super::kms_plugin::KmsPlugin;
use super::{Disk, NEEDLE, SECRETS, for_secrets, is_rewritten, secret};
use crate::objects::{CONFIG_MAPS, config_map};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::JSON;

/// A rule for secrets with the plugin of `disk`.
fn rules(disk: &Disk) -> Value {
    let endpoint = format!("unix://{}", disk.path("kms.sock").display());
    let plugin =
        json!({"apiVersion": "v2", "name": "vault", "endpoint": endpoint, "timeout": "300ms"});
    for_secrets(&[json!({"kms": plugin})])
}

fn start_plugin(disk: &Disk, key_id: &str) -> KmsPlugin {
    KmsPlugin::start(&disk.path("kms.sock"), key_id)
}

async fn health(plane: &TestEnv) -> u16 {
    plane.send(Method::GET, "/readyz/kms-providers", JSON, "").await.code
}

/// Advances the clock by `step` until `is_done`.
async fn advance_until(plane: &TestEnv, step: Duration, mut is_done: impl AsyncFnMut() -> bool) {
    for _ in 0..300 {
        if is_done().await {
            return;
        }
        plane.advance(step);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it did not happen");
}

#[tokio::test]
async fn a_plugin_encrypts_the_seed_and_decrypts_it_once_after_a_restart() {
    let disk = Disk::new();
    let plugin = start_plugin(&disk, "kek-1");
    let plane = disk.start_with(&rules(&disk)).await;
    for name in ["a", "b", "c"] {
        plane.create(SECRETS, &secret(name)).await;
    }
    assert_eq!(health(&plane).await, 200);
    assert_eq!((plugin.calls("Encrypt"), plugin.calls("Decrypt")), (1, 0));
    plane.stop().await.unwrap();
    assert_eq!(disk.files_with(NEEDLE).len(), 0);
    assert_eq!(disk.stored_prefix().await, "k8s:enc:kms:v2:vault");
    let seed = plugin.state.lock().unwrap().seeds[0].clone();
    let stored = disk.stored("/registry/secrets/default/a").await;
    assert!(!stored.windows(seed.len()).any(|it| it == seed));

    let plane = disk.start().await;
    assert_eq!(plane.read(&format!("{SECRETS}/c")).await["data"]["password"], NEEDLE);
    assert_eq!((plugin.calls("Encrypt"), plugin.calls("Decrypt")), (2, 1));
    let metrics = plane.send(Method::GET, "/metrics", JSON, "").await.text().to_owned();
    let method = |name: &str| {
        format!(
            "kms_operations_latency_seconds_count{{grpc_status_code=\"OK\",method_name=\"/v2.KeyManagementService/{name}\",provider_name=\"vault\"}} 1"
        )
    };
    for expected in [
        method("Encrypt"),
        method("Decrypt"),
        "dek_source_cache_size{provider_name=\"vault\"} 2".to_owned(),
    ] {
        let line = format!("apiserver_envelope_encryption_{expected}");
        assert!(metrics.lines().any(|it| it == line), "{line}: {metrics}");
    }
    assert!(metrics.contains("key_id_hash_total{key_id_hash=\"sha256:"));
    // The key of the plugin is the same, so nothing is stale.
    assert!(!is_rewritten(&plane, &format!("{SECRETS}/a")).await);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_changed_key_of_the_plugin_rotates_the_seed() {
    let disk = Disk::new();
    let plugin = start_plugin(&disk, "kek-1");
    let plane = disk.start_with(&rules(&disk)).await;
    let path = format!("{SECRETS}/a");
    plane.create(SECRETS, &secret("a")).await;
    plugin.state.lock().unwrap().key_id = "kek-2".to_owned();
    let rotated = async || plugin.calls("Encrypt") == 2;
    advance_until(&plane, Duration::from_secs(30), rotated).await;
    advance_until(&plane, Duration::from_secs(1), async || is_rewritten(&plane, &path).await).await;
    assert!(!is_rewritten(&plane, &path).await);
    plane.stop().await.unwrap();
    let stored = disk.stored("/registry/secrets/default/a").await;
    assert!(String::from_utf8_lossy(&stored).contains("kek-2"));
}

#[tokio::test]
async fn a_plugin_that_is_down_stops_writes_after_three_minutes_and_no_reads() {
    let disk = Disk::new();
    let plugin = start_plugin(&disk, "kek-1");
    let plane = disk.start_with(&rules(&disk)).await;
    plane.create(SECRETS, &secret("a")).await;
    plugin.stop(&disk.path("kms.sock")).await;
    plane.advance(Duration::from_secs(61));
    plane.create(SECRETS, &secret("b")).await;
    plane.advance(Duration::from_secs(181));
    let (code, status) = plane.post(SECRETS, &secret("c")).await;
    let message = status["message"].as_str().unwrap();
    assert!(code == 500 && message.contains("KMS provider vault has expired"), "{code} {message}");
    assert_eq!(plane.read(SECRETS).await["items"].as_array().unwrap().len(), 2);
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    advance_until(&plane, Duration::from_secs(10), async || health(&plane).await == 500).await;

    let _plugin = start_plugin(&disk, "kek-1");
    advance_until(&plane, Duration::from_secs(10), async || health(&plane).await == 200).await;
    plane.create(SECRETS, &secret("c")).await;
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_plane_starts_without_its_plugin_and_reads_when_it_is_there() {
    let disk = Disk::new();
    let plugin = start_plugin(&disk, "kek-1");
    let plane = disk.start_with(&rules(&disk)).await;
    plane.create(SECRETS, &secret("a")).await;
    plane.stop().await.unwrap();
    plugin.stop(&disk.path("kms.sock")).await;

    let plane = disk.start().await;
    let (code, status) = plane.get(&format!("{SECRETS}/a")).await;
    let message = status["message"].as_str().unwrap();
    assert!(code == 500 && message.contains("KMS provider vault was never healthy"), "{message}");
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(health(&plane).await, 500);

    let _plugin = start_plugin(&disk, "kek-1");
    let read = async || plane.get(SECRETS).await.0 == 200;
    advance_until(&plane, Duration::from_secs(10), read).await;
    assert_eq!(plane.read(&format!("{SECRETS}/a")).await["data"]["password"], NEEDLE);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn the_error_of_a_plugin_is_shown() {
    let disk = Disk::new();
    let plugin = start_plugin(&disk, "kek-1");
    let plane = disk.start_with(&rules(&disk)).await;
    plane.create(SECRETS, &secret("a")).await;
    plane.stop().await.unwrap();
    plugin.state.lock().unwrap().decrypt_error = Some("the key was disabled");
    let plane = disk.start().await;
    let (_, status) = plane.get(&format!("{SECRETS}/a")).await;
    let why = "Internal error occurred: failed to decrypt DEK, error: rpc error: code = FailedPrecondition desc = the key was disabled";
    assert_eq!(status["message"], why);
    assert_eq!(plugin.calls("Decrypt"), 1);
    plugin.state.lock().unwrap().decrypt_error = None;
    let read = async || plane.get(SECRETS).await.0 == 200;
    advance_until(&plane, Duration::from_secs(10), read).await;
    plane.stop().await.unwrap();
}
