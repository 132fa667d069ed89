//! Encryption at rest: what is on the disk, what is read from it, and what happens when keys change.

mod kms;
mod kms_plugin;
mod reload;
mod unreadable;

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;

use crate::objects::{CONFIG_MAPS, CRDS, THINGS, any_schema, config_map, thing, thing_crd};
use apiserver::encryption::EncryptionSettings;
use keel::{Clock, Tasks};
use machinery::{Value, json};
use store::{Embedded, Options, Store};
use testenv::{START, TestEnv};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// The text that must not be on the disk, as it is in JSON.
const NEEDLE: &str = "bmVlZGxlLWluLWEtaGF5c3RhY2s=";

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"password": NEEDLE}})
}

/// A key of 32 bytes.
fn key(name: &str, byte: u8) -> Value {
    json!({"name": name, "secret": STANDARD.encode([byte; 32])})
}

/// A provider with keys.
fn provider(kind: &str, keys: &[Value]) -> Value {
    json!({kind: {"keys": keys}})
}

fn identity() -> Value {
    json!({"identity": {}})
}

/// A rule for secrets.
fn for_secrets(providers: &[Value]) -> Value {
    json!([{"resources": ["secrets"], "providers": providers}])
}

/// A data directory, and a file of encryption providers.
struct Disk {
    directory: TempDir,
    reloads: bool,
}

impl Disk {
    fn new() -> Self {
        Self { directory: TempDir::new().unwrap(), reloads: false }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn config_file(&self) -> PathBuf {
        self.path("encryption.yaml")
    }

    /// Writes the file.
    fn configure(&self, rules: &Value) {
        let file = json!({
            "kind": "EncryptionConfiguration",
            "apiVersion": "apiserver.config.k8s.io/v1",
            "resources": rules,
        });
        std::fs::write(self.config_file(), file.to_string()).unwrap();
    }

    /// A plane with the providers of the file.
    async fn start(&self) -> TestEnv {
        self.try_start().await.unwrap()
    }

    async fn try_start(&self) -> Result<TestEnv, apiserver::server::Error> {
        let settings = EncryptionSettings { path: self.config_file(), reloads: self.reloads };
        let builder = TestEnv::builder().data_dir(&self.path("data"));
        builder.config(|config| config.encryption = Some(settings)).try_start().await
    }

    /// A plane with the providers of `rules`.
    async fn start_with(&self, rules: &Value) -> TestEnv {
        self.configure(rules);
        self.start().await
    }

    /// A plane without encryption.
    async fn start_without(&self) -> TestEnv {
        TestEnv::builder().data_dir(&self.path("data")).start().await
    }

    /// The stored bytes at `key`, while no plane runs.
    async fn stored(&self, key: &str) -> Vec<u8> {
        let (clock, tasks) = (Clock::manual(START), Tasks::new());
        let store =
            Embedded::open(&self.path("data/store"), Options::default(), &clock, &tasks).unwrap();
        let record = store.get(key).await.unwrap().unwrap();
        store.close().await.unwrap();
        tasks.stop(std::time::Duration::from_secs(10)).await.unwrap();
        record.value.to_vec()
    }

    /// The beginning of the stored bytes of the secret `a`.
    async fn stored_prefix(&self) -> String {
        self.prefix_of("/registry/secrets/default/a").await
    }

    /// The beginning of stored bytes, up to the name of the key.
    async fn prefix_of(&self, key: &str) -> String {
        let stored = self.stored(key).await;
        let text = String::from_utf8_lossy(&stored);
        if text.starts_with('{') {
            return "{".to_owned();
        }
        text.split(':').take(5).collect::<Vec<_>>().join(":")
    }

    /// The files of the data directory that contain `needle`.
    fn files_with(&self, needle: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        search(&self.path("data"), needle.as_bytes(), &mut found);
        found
    }
}

fn search(directory: &Path, needle: &[u8], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path, needle, found);
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        if bytes.windows(needle.len()).any(|it| it == needle) {
            found.push(path);
        }
    }
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

/// Sends the object `path` as it is, and returns whether that was a write.
async fn is_rewritten(plane: &TestEnv, path: &str) -> bool {
    let before = plane.read(path).await;
    let (code, after) = plane.put(path, &before).await;
    assert_eq!(code, 200, "{after}");
    assert_eq!(after["data"], before["data"]);
    version(&before) != version(&after)
}

#[tokio::test]
async fn what_is_on_the_disk_is_encrypted_and_read_after_a_restart() {
    for kind in ["aescbc", "aesgcm", "secretbox"] {
        let disk = Disk::new();
        let rules = for_secrets(&[provider(kind, &[key("key1", 1)])]);
        let plane = disk.start_with(&rules).await;
        let created = plane.create(SECRETS, &secret("a")).await;
        plane.merge(&format!("{SECRETS}/a"), &json!({"metadata": {"labels": {"b": "c"}}})).await;
        plane.create(CONFIG_MAPS, &config_map("open", &json!({"b": "plainly-visible"}))).await;
        // The log of the running plane, not only its database.
        assert_eq!(disk.files_with(NEEDLE), [] as [PathBuf; 0], "{kind}");
        plane.stop().await.unwrap();

        assert_eq!(disk.files_with(NEEDLE), [] as [PathBuf; 0], "{kind}");
        assert!(!disk.files_with("plainly-visible").is_empty(), "{kind}");
        let prefix = format!("k8s:enc:{kind}:v1:key1");
        assert!(!disk.files_with(&prefix).is_empty(), "{kind}");
        assert_eq!(disk.stored_prefix().await, prefix);

        let plane = disk.start().await;
        let read = plane.read(&format!("{SECRETS}/a")).await;
        assert_eq!(
            (&read["data"], &read["metadata"]["uid"]),
            (&created["data"], &created["metadata"]["uid"])
        );
        let list = plane.read(&format!("{SECRETS}?labelSelector=b=c")).await;
        assert_eq!(list["items"][0]["data"]["password"], NEEDLE);
        // The history from before the restart is decrypted, too.
        let from = version(&created);
        let mut watch = plane.watch(&format!("{SECRETS}?watch=1&resourceVersion={from}")).await;
        let event = watch.expect("MODIFIED").await;
        assert_eq!(event["data"]["password"], NEEDLE);
        plane.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_new_key_encrypts_what_is_written_and_old_keys_decrypt() {
    let disk = Disk::new();
    let (key1, key2) = (key("key1", 1), key("key2", 2));
    let path = format!("{SECRETS}/a");
    let plane =
        disk.start_with(&for_secrets(&[provider("aescbc", std::slice::from_ref(&key1))])).await;
    plane.create(SECRETS, &secret("a")).await;
    assert!(!is_rewritten(&plane, &path).await);
    plane.stop().await.unwrap();

    let both = provider("aescbc", &[key2.clone(), key1]);
    let plane = disk.start_with(&for_secrets(&[both])).await;
    assert_eq!(plane.read(&path).await["data"]["password"], NEEDLE);
    assert!(is_rewritten(&plane, &path).await);
    assert!(!is_rewritten(&plane, &path).await);
    plane.stop().await.unwrap();
    assert_eq!(disk.stored_prefix().await, "k8s:enc:aescbc:v1:key2");

    let plane = disk.start_with(&for_secrets(&[provider("aescbc", &[key2])])).await;
    assert_eq!(plane.read(&path).await["data"]["password"], NEEDLE);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_dry_run_does_not_rewrite() {
    let disk = Disk::new();
    let path = format!("{SECRETS}/a");
    let plane = disk.start_without().await;
    plane.create(SECRETS, &secret("a")).await;
    plane.stop().await.unwrap();
    let rules = for_secrets(&[provider("aesgcm", &[key("key1", 1)]), identity()]);
    let plane = disk.start_with(&rules).await;
    let before = plane.read(&path).await;
    let (code, after) = plane.put(&format!("{path}?dryRun=All"), &before).await;
    assert_eq!((code, version(&after)), (200, version(&before)));
    plane.stop().await.unwrap();
    assert_eq!(disk.stored_prefix().await, "{");
}

#[tokio::test]
async fn identity_reads_plaintext_and_if_it_is_first_ends_encryption() {
    let disk = Disk::new();
    let path = format!("{SECRETS}/a");
    let encrypting = provider("secretbox", &[key("key1", 1)]);
    let plane = disk.start_without().await;
    plane.create(SECRETS, &secret("a")).await;
    plane.stop().await.unwrap();
    assert_eq!(disk.stored_prefix().await, "{");
    assert!(!disk.files_with(NEEDLE).is_empty());

    let plane = disk.start_with(&for_secrets(&[encrypting.clone(), identity()])).await;
    assert!(is_rewritten(&plane, &path).await);
    plane.stop().await.unwrap();
    assert_eq!(disk.stored_prefix().await, "k8s:enc:secretbox:v1:key1");

    let plane = disk.start_with(&for_secrets(&[identity(), encrypting])).await;
    assert!(is_rewritten(&plane, &path).await);
    plane.stop().await.unwrap();
    assert_eq!(disk.stored_prefix().await, "{");
}

#[tokio::test]
async fn the_most_specific_rule_applies() {
    let disk = Disk::new();
    let named = |name: &str| [provider("aesgcm", &[key(name, 1)])];
    let plane = disk
        .start_with(&json!([
            {"resources": ["configmaps"], "providers": named("one")},
            {"resources": ["*."], "providers": named("core")},
            {"resources": ["things.example.com"], "providers": named("things")},
            {"resources": ["*.*"], "providers": named("all")},
        ]))
        .await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    plane.create(SECRETS, &secret("a")).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    plane.create(leases, &json!({"metadata": {"name": "a"}})).await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    plane.create(THINGS, &thing("a", &json!({"b": 1}))).await;
    plane.stop().await.unwrap();
    for (key, name) in [
        ("/registry/configmaps/default/a", "one"),
        ("/registry/secrets/default/a", "core"),
        ("/registry/namespaces/default", "core"),
        ("/registry/leases/default/a", "all"),
        ("/registry/example.com/things/default/a", "things"),
        ("/registry/apiextensions.k8s.io/customresourcedefinitions/things.example.com", "all"),
    ] {
        assert_eq!(disk.prefix_of(key).await, format!("k8s:enc:aesgcm:v1:{name}"), "{key}");
    }
    let plane = disk.start().await;
    assert_eq!(plane.read(&format!("{THINGS}/a")).await["spec"]["b"], 1);
    assert_eq!(plane.read(CRDS).await["items"].as_array().unwrap().len(), 1);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn an_invalid_file_prevents_the_start_and_shows_no_key() {
    let disk = Disk::new();
    let short = json!({"name": "a", "secret": "c2VjcmV0LXNlY3JldA=="});
    let aescbc = provider("aescbc", &[key("key1", 1)]);
    let cases = [
        (
            for_secrets(&[provider("aescbc", &[short])]),
            "resources[0].providers[0].aescbc.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 13, expected one of [16 24 32]",
        ),
        (
            json!([
                {"resources": ["*."], "providers": [aescbc]},
                {"resources": ["secrets"], "providers": [aescbc]},
            ]),
            "resource \"secrets\" is masked by earlier rule \"*.\"",
        ),
    ];
    for (rules, expected) in cases {
        disk.configure(&rules);
        let error = disk.try_start().await.err().unwrap();
        let message = keel::message_with_causes(&error);
        assert!(message.ends_with(expected), "{message}");
        assert!(!format!("{error:?}").contains("c2VjcmV0"), "{error:?}");
    }
    std::fs::remove_file(disk.config_file()).unwrap();
    let error = disk.try_start().await.err().unwrap();
    let message = keel::message_with_causes(&error);
    assert!(
        message.contains("cannot read the encryption provider configuration file"),
        "{message}"
    );
}
