//! The rotation of certificates, on a manual clock.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube_client::api::DeleteParams;
use x509_parser::pem::Pem;

use crate::plane::{Plane, certificate_options, server_options, until};
use crate::{https, world};
use keel::{Tasks, Timestamp};
use runtime::webhook::{
    CertificateOptions, Certificates, ServingCertificate, ServingError, WebhookServer,
};

const DAY: u64 = 24 * 60 * 60;
const SECRET: &str = "hook-certificates";

fn text(secret: &Secret, key: &str) -> String {
    String::from_utf8(secret.data.as_ref().unwrap()[key].0.clone()).unwrap()
}

/// The number of certificates in a PEM, and the start and the end of the validity of the first.
fn read(pem: &str) -> (usize, Timestamp, Timestamp) {
    let all: Vec<Pem> = Pem::iter_from_buffer(pem.as_bytes()).map(Result::unwrap).collect();
    let first = all[0].parse_x509().unwrap();
    let at = |seconds| Timestamp::from_seconds(seconds);
    let validity = first.validity();
    (all.len(), at(validity.not_before.timestamp()), at(validity.not_after.timestamp()))
}

fn issuer(pem: &str) -> String {
    let pem = Pem::iter_from_buffer(pem.as_bytes()).next().unwrap().unwrap();
    pem.parse_x509().unwrap().issuer().to_string()
}

async fn start(plane: &Plane) -> Certificates {
    start_with_tasks(plane, &plane.tasks).await
}

async fn start_with_tasks(plane: &Plane, tasks: &Tasks) -> Certificates {
    let Plane { client, clock, entropy, .. } = plane;
    Certificates::start(client.clone(), certificate_options(), clock, entropy, tasks).await.unwrap()
}

#[tokio::test]
async fn a_missing_namespace_is_reported_with_a_remedy() {
    let plane = Plane::start().await;
    let Plane { client, clock, entropy, tasks, .. } = &plane;
    let options = CertificateOptions::of_service("missing", "hooks");
    let started = Certificates::start(client.clone(), options, clock, entropy, tasks).await;
    assert_eq!(
        started.unwrap_err().to_string(),
        "the namespace of the secret does not exist: run `kubectl create namespace missing`"
    );
}

#[tokio::test]
async fn replicas_share_the_certificates_of_the_first() {
    let plane = Plane::start().await;
    let (first, second) = tokio::join!(start(&plane), start(&plane));
    assert_eq!(*first.bundle().borrow(), *second.bundle().borrow());
    let secret = plane.api::<Secret>().get(SECRET).await.unwrap();
    assert_eq!(text(&secret, "ca.crt"), *first.bundle().borrow());
    let third = start(&plane).await;
    assert_eq!(*third.bundle().borrow(), *first.bundle().borrow());
    let after = plane.api::<Secret>().get(SECRET).await.unwrap();
    assert_eq!(after.metadata.resource_version, secret.metadata.resource_version);
}

#[tokio::test]
async fn certificates_are_rotated_before_they_expire() {
    let plane = Plane::start().await;
    let certificates = start(&plane).await;
    let secrets = plane.api::<Secret>();
    let mut secret = secrets.get(SECRET).await.unwrap();
    let (first_authority, first_issuer) =
        (text(&secret, "ca.crt"), issuer(&text(&secret, "tls.crt")));
    let mut issuers = vec![first_issuer];
    // A serving certificate is replaced within the last 30 days of its lifetime, so steps of 20 days
    // never skip the replacement.
    for _ in 0..30 {
        plane.clock.advance(Duration::from_secs(20 * DAY));
        let now = plane.clock.now();
        let (_, begins, ends) = read(&text(&secret, "tls.crt"));
        let (_, authority_begins, authority_ends) = read(&text(&secret, "ca.crt"));
        let due = |begins: Timestamp, ends: Timestamp| begins + ends.since(begins) * 2 / 3 <= now;
        assert!(now < ends, "the certificate expired before it was replaced");
        if due(begins, ends) || due(authority_begins, authority_ends) {
            let version = secret.metadata.resource_version.clone();
            secret = until(&secrets, SECRET, |it| it.metadata.resource_version != version).await;
            let issuer = issuer(&text(&secret, "tls.crt"));
            if !issuers.contains(&issuer) {
                issuers.push(issuer);
            }
        }
    }
    assert!(issuers.len() >= 2, "the CA was not replaced: {issuers:?}");
    let mut bundle = certificates.bundle();
    let last = text(&secret, "ca.crt");
    bundle.wait_for(|it| *it == last).await.unwrap();
    assert!(!last.contains(&first_authority), "an expired CA is still in the bundle");
}

#[tokio::test]
async fn a_running_server_serves_the_replacement_of_an_expired_certificate() {
    let plane = Plane::start().await;
    let certificates = start(&plane).await;
    let server = WebhookServer::new(server_options());
    let serving = certificates.serving();
    let address = server.start(&serving, &plane.clock, &plane.tasks).await.unwrap();
    let secrets = plane.api::<Secret>();
    let first = secrets.get(SECRET).await.unwrap();
    let bundle = certificates.bundle().borrow().clone();
    let ask = async || https::send(address, &bundle, &plane.clock, "/readyz", "").await;
    assert_eq!(ask().await.unwrap().0, 200);
    let mut version = first.metadata.resource_version.clone();
    for _ in 0..2 {
        plane.clock.advance(Duration::from_secs(61 * DAY));
        let replaced = until(&secrets, SECRET, |it| it.metadata.resource_version != version).await;
        version = replaced.metadata.resource_version;
    }
    let (_, _, ends) = read(&text(&first, "tls.crt"));
    assert!(ends < plane.clock.now());
    assert_eq!(ask().await.unwrap().0, 200);
}

#[tokio::test]
async fn a_new_ca_is_trusted_before_it_signs() {
    let plane = Plane::start().await;
    let certificates = start(&plane).await;
    let secrets = plane.api::<Secret>();
    let mut bundle = certificates.bundle();
    let first = bundle.borrow_and_update().clone();
    loop {
        plane.clock.advance(Duration::from_secs(DAY));
        let (_, begins, ends) = read(&first);
        if begins + ends.since(begins) * 2 / 3 <= plane.clock.now() {
            break;
        }
        let secret = secrets.get(SECRET).await.unwrap();
        let (_, begins, ends) = read(&text(&secret, "tls.crt"));
        if begins + ends.since(begins) * 2 / 3 <= plane.clock.now() {
            let version = secret.metadata.resource_version;
            until(&secrets, SECRET, |it| it.metadata.resource_version != version).await;
        }
    }
    bundle.changed().await.unwrap();
    let both = bundle.borrow().clone();
    assert_eq!(read(&both).0, 2);
    assert!(both.ends_with(&first));
    let secret = until(&secrets, SECRET, |it| text(it, "ca.crt") == both).await;
    assert_eq!(issuer(&text(&secret, "tls.crt")), issuer(&first), "the old CA still signs");
}

#[tokio::test]
async fn a_ca_is_announced_before_it_signs_after_a_long_downtime() {
    let plane = Plane::start().await;
    let secrets = plane.api::<Secret>();
    let mut first = String::new();
    // On day 270, the CA and the serving certificate are due. The latter was issued on day 200 and is
    // valid until day 290.
    for days in [0, 200, 70] {
        plane.clock.advance(Duration::from_secs(days * DAY));
        let tasks = Tasks::new();
        let certificates = start_with_tasks(&plane, &tasks).await;
        if days == 0 {
            first.clone_from(&certificates.bundle().borrow());
        }
        tasks.stop(Duration::from_secs(5)).await.unwrap();
    }
    let secret = secrets.get(SECRET).await.unwrap();
    assert_eq!(read(&text(&secret, "ca.crt")).0, 2);
    assert_eq!(issuer(&text(&secret, "tls.crt")), issuer(&first));
    for (elapsed, is_signed_by_new_ca) in
        [(Duration::from_mins(1), false), (Duration::from_hours(24), true)]
    {
        plane.clock.advance(elapsed);
        let tasks = Tasks::new();
        start_with_tasks(&plane, &tasks).await;
        tasks.stop(Duration::from_secs(5)).await.unwrap();
        let secret = secrets.get(SECRET).await.unwrap();
        let is_new = issuer(&text(&secret, "tls.crt")) != issuer(&first);
        assert_eq!(is_new, is_signed_by_new_ca, "after {elapsed:?}");
    }
}

#[tokio::test]
async fn invalid_content_of_the_secret_is_replaced() {
    let plane = Plane::start().await;
    let secrets = plane.api::<Secret>();
    let invalid = serde_json::json!({"metadata": {"name": SECRET}, "stringData": {"ca.crt": "?"}});
    let invalid = serde_json::from_value(invalid).unwrap();
    secrets.create(&kube_client::api::PostParams::default(), &invalid).await.unwrap();
    let certificates = start(&plane).await;
    assert_eq!(read(&certificates.bundle().borrow()).0, 1);
}

#[tokio::test]
async fn mounted_files_are_served_and_read_again_when_they_change() {
    let plane = Plane::start().await;
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
    let mount = |secret: &Secret| {
        std::fs::write(&certificate, text(secret, "tls.crt")).unwrap();
        std::fs::write(&key, text(secret, "tls.key")).unwrap();
    };
    let first = new_secret(&plane).await;
    std::fs::write(&certificate, text(&first, "tls.crt")).unwrap();
    let missing = ServingCertificate::from_files(&certificate, &key, &plane.clock, &plane.tasks);
    assert!(matches!(missing, Err(ServingError::File { path, .. }) if path == key));
    mount(&first);
    let serving =
        ServingCertificate::from_files(&certificate, &key, &plane.clock, &plane.tasks).unwrap();
    let server = WebhookServer::new(server_options());
    let address = server.start(&serving, &plane.clock, &plane.tasks).await.unwrap();
    let is_trusted = async |by: &Secret| {
        https::send(address, &text(by, "ca.crt"), &plane.clock, "/readyz", "").await.is_ok()
    };
    assert!(is_trusted(&first).await);

    let second = new_secret(&plane).await;
    // The new certificate with the old key, as for a moment while the files are replaced.
    std::fs::write(&certificate, text(&second, "tls.crt")).unwrap();
    for _ in 0..100 {
        plane.clock.advance(Duration::from_secs(10));
        tokio::task::yield_now().await;
    }
    assert!(
        is_trusted(&first).await && !is_trusted(&second).await,
        "the previous certificate is served"
    );
    mount(&second);
    world::until("the new certificate is served", async || {
        plane.clock.advance(Duration::from_secs(10));
        is_trusted(&second).await
    })
    .await;
    assert!(!is_trusted(&first).await);
}

/// A Secret with a new CA and a certificate that it signed.
async fn new_secret(plane: &Plane) -> Secret {
    let (secrets, tasks) = (plane.api::<Secret>(), Tasks::new());
    let _ = secrets.delete(SECRET, &DeleteParams::default()).await;
    start_with_tasks(plane, &tasks).await;
    tasks.stop(Duration::from_secs(5)).await.unwrap();
    secrets.get(SECRET).await.unwrap()
}
