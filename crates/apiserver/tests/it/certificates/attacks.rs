//! Client certificates that are not accepted, and versions of TLS that are not.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{TestAuthority, builder, client_params, connect, connect_with, present, user};
use apiserver::auth::authentication::client_authorities::ClientAuthorities;
use apiserver::auth::authentication::token::TokenFile;
use apiserver::certificates::tls_settings::TlsSettings;
use keel::Clock;
use machinery::json;
use testenv::TestEnv;
use tls::Certified;

const HOUR: Duration = Duration::from_hours(1);

/// The present time since 1970.
fn since_epoch() -> Duration {
    Duration::from_secs(u64::try_from(Clock::system().now().seconds()).unwrap())
}

async fn plane(clients: &TestAuthority) -> TestEnv {
    let clients = ClientAuthorities::new(clients.certificate.clone());
    let set = |config: &mut apiserver::Config| {
        config.client_authorities = clients;
        config.tokens = TokenFile::parse("t-bob,bob,1\n").unwrap();
    };
    builder().config(set).start().await
}

const TOKEN: (&str, &str) = ("Authorization", "Bearer t-bob");

/// The parameters of a certificate that ends at this time from now on.
fn until(end: Duration) -> CertificateParams {
    let mut params = client_params("alice");
    params.not_after = rcgen::date_time_ymd(1970, 1, 1) + since_epoch() + end;
    params
}

/// The parameters of a certificate whose validity begins in an hour.
fn in_an_hour() -> CertificateParams {
    let mut params = client_params("alice");
    params.not_before = rcgen::date_time_ymd(1970, 1, 1) + since_epoch() + HOUR;
    params
}

#[tokio::test]
async fn a_certificate_that_is_not_accepted_does_not_outweigh_a_token() {
    let clients = TestAuthority::new("clients");
    let plane = plane(&clients).await;
    let mut expired = client_params("alice");
    expired.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let foreign = TestAuthority::new("clients").sign(&client_params("alice"));
    for client in [clients.sign(&expired), foreign] {
        let mut connection = connect(&plane, Some(&client)).await.unwrap();
        assert_eq!(connection.user().await, Some(Err(401)));
        assert_eq!(connection.user_with(&[TOKEN]).await, Some(Ok("bob".to_owned())));
        let wrong = ("Authorization", "Bearer t-eve");
        assert_eq!(connection.user_with(&[wrong]).await, Some(Err(401)));
    }
    let mut valid = connect(&plane, Some(&clients.sign(&client_params("alice")))).await.unwrap();
    assert_eq!(valid.user_with(&[TOKEN]).await, Some(Ok("alice".to_owned())));
    drop(valid);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_resumed_session_gives_no_more_rights_than_its_certificate() {
    let clients = TestAuthority::new("clients");
    let plane = plane(&clients).await;
    let settings = |client: &Certified, version| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(tls::InsecureVerifier::new(Arc::clone(&provider)));
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        present(&mut config, client);
        Arc::new(config)
    };
    let alice = clients.sign(&until(HOUR));
    let foreign = TestAuthority::new("clients").sign(&client_params("alice"));
    let connect = async |config: &Arc<rustls::ClientConfig>| {
        let mut connection = connect_with(&plane, "localhost", Arc::clone(config)).await.unwrap();
        (connection.user().await.unwrap(), connection.is_resumed)
    };
    let mut of_alice = Vec::new();
    for version in [&TLS12, &TLS13] {
        let foreign = settings(&foreign, version);
        assert_eq!(connect(&foreign).await, (Err(401), false), "{version:?}");
        assert_eq!(connect(&foreign).await, (Err(401), true), "{version:?}");
        let alice = settings(&alice, version);
        assert_eq!(connect(&alice).await, (Ok("alice".to_owned()), false), "{version:?}");
        assert_eq!(connect(&alice).await, (Ok("alice".to_owned()), true), "{version:?}");
        of_alice.push(alice);
    }
    plane.advance(2 * HOUR);
    for alice in &of_alice {
        assert_eq!(connect(alice).await, (Err(401), true), "the certificate has ended");
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_certificate_begins_on_an_open_connection() {
    let clients = TestAuthority::new("clients");
    let plane = plane(&clients).await;
    let mut connection = connect(&plane, Some(&clients.sign(&in_an_hour()))).await.unwrap();
    assert_eq!(connection.user().await, Some(Err(401)));
    plane.advance(2 * HOUR);
    assert_eq!(connection.user().await, Some(Ok("alice".to_owned())));
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn only_a_valid_certificate_of_an_accepted_authority_names_a_user() {
    let clients = TestAuthority::new("clients");
    let plane = plane(&clients).await;
    let alice = || client_params("alice");
    let with = |mut params: CertificateParams, change: fn(&mut CertificateParams)| {
        change(&mut params);
        params
    };
    assert_eq!(user(&plane, Some(&clients.sign(&alice()))).await, Some(Ok("alice".to_owned())));

    let other = TestAuthority::new("clients").sign(&alice());
    assert_eq!(
        user(&plane, Some(&other)).await,
        Some(Err(401)),
        "another authority of the same name"
    );

    let key = KeyPair::generate().unwrap();
    let own = alice().self_signed(&key).unwrap().pem();
    let own = Certified { certificate: own, key: key.serialize_pem() };
    assert_eq!(user(&plane, Some(&own)).await, Some(Err(401)), "self-signed");

    let mut expired = alice();
    expired.not_after = rcgen::date_time_ymd(1970, 1, 1) + since_epoch() - HOUR;
    assert_eq!(user(&plane, Some(&clients.sign(&expired))).await, Some(Err(401)), "expired");

    assert_eq!(
        user(&plane, Some(&clients.sign(&in_an_hour()))).await,
        Some(Err(401)),
        "not yet valid"
    );

    let server_only = with(alice(), |it| {
        it.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    assert_eq!(
        user(&plane, Some(&clients.sign(&server_only))).await,
        Some(Err(401)),
        "for servers only"
    );

    let stolen = Certified {
        certificate: clients.sign(&alice()).certificate,
        key: clients.sign(&client_params("mallory")).key,
    };
    assert_eq!(user(&plane, Some(&stolen)).await, None, "without its key");

    let not_an_authority = clients.sign(&client_params("mallory"));
    let key = KeyPair::from_pem(&not_an_authority.key).unwrap();
    let issuer = rcgen::Issuer::new(client_params("mallory"), key);
    let key = KeyPair::generate().unwrap();
    let forged = alice().signed_by(&key, &issuer).unwrap().pem() + &not_an_authority.certificate;
    let forged = Certified { certificate: forged, key: key.serialize_pem() };
    assert_eq!(user(&plane, Some(&forged)).await, Some(Err(401)), "signed by a user");

    assert_eq!(user(&plane, None).await, Some(Err(403)), "others are served meanwhile");
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn the_credential_of_a_user_is_the_fingerprint_of_the_certificate() {
    let clients = TestAuthority::new("clients");
    let plane = plane(&clients).await;
    let alice = clients.sign(&client_params("alice"));
    let der = CertificateDer::from_pem_slice(alice.certificate.as_bytes()).unwrap();
    let digest = ring::digest::digest(&ring::digest::SHA256, &der);
    let hex: Vec<String> = digest.as_ref().iter().map(|it| format!("{it:02x}")).collect();
    let id = format!("X509SHA256={}", hex.concat());
    let (_, user) = connect(&plane, Some(&alice)).await.unwrap().user_info(&[]).await.unwrap();
    let extra = json!({"authentication.kubernetes.io/credential-id": [id]});
    assert_eq!(user["extra"], extra);
}

#[tokio::test]
async fn an_intermediate_authority_must_be_presented() {
    let clients = TestAuthority::new("clients");
    let plane = plane(&clients).await;
    let intermediate = clients.intermediate("team");
    let leaf = intermediate.sign(&client_params("alice"));
    assert_eq!(user(&plane, Some(&leaf)).await, Some(Err(401)), "alone");
    let chain = Certified { certificate: leaf.certificate + &intermediate.certificate, ..leaf };
    assert_eq!(user(&plane, Some(&chain)).await, Some(Ok("alice".to_owned())));
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_certificate_without_a_name_has_no_rights() {
    let clients = TestAuthority::new("clients");
    let plane = plane(&clients).await;
    let mut masters = client_params("");
    masters.distinguished_name.push(DnType::OrganizationName, "system:masters");
    assert_eq!(user(&plane, Some(&clients.sign(&masters))).await, Some(Err(403)));
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_certificate_ends_on_an_open_connection() {
    let clients = TestAuthority::new("clients");
    let plane = plane(&clients).await;
    let mut connection = connect(&plane, Some(&clients.sign(&until(HOUR)))).await.unwrap();
    assert_eq!(connection.user().await, Some(Ok("alice".to_owned())));
    plane.advance(2 * HOUR);
    assert_eq!(connection.user().await, Some(Err(401)));
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn the_remaining_lifetime_of_client_certificates_is_measured() {
    let clients = TestAuthority::new("clients");
    let plane = plane(&clients).await;
    user(&plane, Some(&clients.sign(&until(HOUR * 3 / 4)))).await.unwrap().unwrap();
    let metrics = plane.get_as("/metrics", "*/*").await;
    let metrics = String::from_utf8(metrics.bytes.to_vec()).unwrap();
    let bucket = |limit: &str, count: u8| {
        format!("apiserver_client_certificate_expiration_seconds_bucket{{le=\"{limit}\"}} {count}")
    };
    for line in [bucket("1800.0", 0), bucket("3600.0", 1)] {
        assert!(metrics.contains(&line), "{line}");
    }
    plane.stop().await.unwrap();
}

/// The first seven bytes that the server sends after these.
async fn answer(plane: &TestEnv, bytes: &[u8]) -> [u8; 7] {
    let mut stream = TcpStream::connect(plane.server().address().unwrap()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn tls_1_1_is_refused() {
    let plane = builder().start().await;
    // A client hello of TLS 1.`minor - 1` with a cipher suite, a group and a signature algorithm that
    // the server has.
    let hello = |minor: u8| {
        let mut hello = vec![0x16, 3, 1, 0, 63, 1, 0, 0, 59, 3, minor];
        hello.extend([7; 32]);
        hello.extend([0, 0, 2, 0xc0, 0x2b, 1, 0, 0, 16]);
        hello.extend([0, 13, 0, 4, 0, 2, 4, 3, 0, 10, 0, 4, 0, 2, 0, 0x17]);
        hello
    };
    assert_eq!(answer(&plane, &hello(3)).await[0], 22, "TLS 1.2: the handshake goes on");
    let [kind, .., level, description] = answer(&plane, &hello(2)).await;
    assert_eq!((kind, level, description), (21, 2, 70), "the alert protocol_version");
    let metrics = plane.get_as("/metrics", "*/*").await;
    let metrics = String::from_utf8(metrics.bytes.to_vec()).unwrap();
    let failed = metrics.lines().find_map(|it| {
        it.strip_prefix("apiserver_tls_handshake_errors_total ")?.parse::<u32>().ok()
    });
    assert!(failed.unwrap() >= 1);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn the_lowest_version_can_be_1_3_and_cipher_suites_can_be_chosen() {
    let connects = async |settings: TlsSettings, suite: Option<&str>| {
        let plane = builder().config(|config| config.tls = settings).start().await;
        let mut provider = rustls::crypto::ring::default_provider();
        if let Some(suite) = suite {
            provider.cipher_suites.retain(|it| format!("{:?}", it.suite()) == suite);
        }
        let config = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_protocol_versions(&[&TLS12])
            .unwrap();
        let mut roots = rustls::RootCertStore::empty();
        let authority = plane.server().authority();
        let authority = PemObject::from_pem_slice(authority.as_bytes());
        roots.add(authority.unwrap()).unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(plane.server().address().unwrap()).await.unwrap();
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let is_connected = connector.connect(name, stream).await.is_ok();
        plane.stop().await.unwrap();
        is_connected
    };
    let (aes, chacha) = (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    );
    assert!(connects(TlsSettings::default(), None).await);
    let min_version = "VersionTLS13".parse().unwrap();
    assert!(!connects(TlsSettings { min_version, ..TlsSettings::default() }, None).await);
    let only_aes =
        || TlsSettings { cipher_suites: vec![aes.parse().unwrap()], ..TlsSettings::default() };
    assert!(connects(only_aes(), Some(aes)).await);
    assert!(!connects(only_aes(), Some(chacha)).await);
}
