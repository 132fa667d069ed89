//! Tests of the TLS handshake.

use std::sync::Mutex;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use tls_config::{TlsContent, TlsParameters};
use tokio_rustls::TlsConnector;

use super::*;
use crate::certificates::Authority;
use crate::certificates::tls_settings::TlsSettings;
use keel::Timestamp;
use tls::Certified;

/// Records the authorities that a server lists, and presents no certificate.
#[derive(Debug, Default)]
struct RecordedAuthorities(Mutex<Vec<String>>);

impl ResolvesClientCert for RecordedAuthorities {
    fn resolve(
        &self,
        root_hint_subjects: &[&[u8]],
        _: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        let text = |it: &&[u8]| String::from_utf8_lossy(it).into_owned();
        *self.0.lock().unwrap() = root_hint_subjects.iter().map(text).collect();
        None
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The certificate of a new authority, in PEM.
fn authority(common_name: &str) -> String {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

/// The acceptor of a server with this certificate, whose clients have these authorities.
fn acceptor(serving: Certified, clients: String) -> TlsAcceptor {
    let content = TlsContent { serving, named: Vec::new(), clients, proxies: String::new() };
    let parameters = TlsParameters {
        settings: TlsSettings::default(),
        request_header: None,
        clock: Clock::system(),
    };
    TlsConfig::new(&content, &parameters).unwrap().acceptor(None)
}

#[tokio::test]
async fn a_certificate_request_lists_all_authorities() {
    let now = Timestamp::from_seconds(Clock::system().now().seconds());
    let own = Authority::new(now).unwrap();
    let certified = own.serving(&["localhost"], &[], now).unwrap();
    let bundle = [own.certificate(), &authority("older"), &authority("newer")].concat();
    let acceptor = acceptor(certified, bundle);

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(own.certificate().as_bytes()).unwrap()).unwrap();
    let recorded = Arc::new(RecordedAuthorities::default());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::clone(&recorded) as Arc<dyn ResolvesClientCert>);
    let (client, server) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from("localhost").unwrap();
    let (connected, accepted) = tokio::join!(
        TlsConnector::from(Arc::new(config)).connect(name, client),
        acceptor.accept(server),
    );
    connected.unwrap();
    accepted.unwrap();
    let recorded = recorded.0.lock().unwrap();
    assert_eq!(recorded.len(), 3, "{recorded:?}");
    for name in ["sampan-ca", "older", "newer"] {
        assert!(recorded.iter().any(|it| it.contains(name)), "{name}: {recorded:?}");
    }
}
