//! [`TlsConfig`]: the certificates that a listener presents, and the authorities of its clients.
//!
//! A configuration does not change: when a file has changed, a new one replaces it for all handshakes
//! from then on. Sessions of the old one are not resumed, so that no client avoids the new authorities.
//!
//! Upstream: server/dynamiccertificates

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::UnixTime;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::certificate_roles::CertificateRoles;
use super::{Error, MAX_RECORD, verifier};
use crate::auth::authentication::request_header::RequestHeaderSettings;
use crate::certificates::tls_settings::TlsSettings;
use keel::{Clock, Timestamp};
use tls::{Certified, PossessionVerifier, serving_key};

/// See the [module documentation](self).
pub(crate) struct TlsConfig {
    acceptor: TlsAcceptor,
    /// The acceptors at addresses for which a certificate is configured. It is presented to clients
    /// that do not name a server.
    by_address: HashMap<IpAddr, TlsAcceptor>,
    /// Tells users and authenticating proxies apart.
    pub(super) roles: CertificateRoles,
}

/// What a configuration is made of, besides the settings that never change.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TlsContent {
    /// The default certificate.
    pub serving: Certified,
    /// The certificates of the settings' `named`, with the configured names.
    pub named: Vec<(Certified, Vec<String>)>,
    /// The authorities of users, in PEM.
    pub clients: String,
    /// The authorities of authenticating proxies, in PEM.
    pub proxies: String,
}

/// The settings that never change.
pub(crate) struct TlsParameters {
    /// Versions and cipher suites.
    pub settings: TlsSettings,
    /// The authenticating proxies, if there are any.
    pub request_header: Option<Arc<RequestHeaderSettings>>,
    /// The plane's clock.
    pub clock: Clock,
}

impl TlsConfig {
    /// A configuration with this content. The certificate request lists all authorities, since a client
    /// may choose its certificate by them. The handshake succeeds with any certificate whose key the
    /// client has: [`CertificateRoles`] verifies it, so that a client with an expired certificate and a
    /// token is authenticated by its token, and one without is told that it is not.
    pub(crate) fn new(content: &TlsContent, parameters: &TlsParameters) -> Result<Self, Error> {
        let resolver = CertificateResolver::new(content)?;
        let authorities = format!("{}\n{}", content.clients.trim_end(), content.proxies);
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(parameters.settings.provider()))
                .with_protocol_versions(&parameters.settings.versions())
                .map_err(Error::Tls)?
                .with_client_cert_verifier(Arc::new(PossessionVerifier::new(verifier(
                    &authorities,
                )?)))
                .with_cert_resolver(Arc::new(resolver.clone()));
        config.max_fragment_size = Some(MAX_RECORD);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.time_provider = Arc::new(PlaneTime(parameters.clock.clone()));
        let addresses = resolver.by_name.iter().filter_map(|(name, key)| {
            let address = name.parse::<IpAddr>().ok()?;
            let resolver = CertificateResolver { unnamed: Arc::clone(key), ..resolver.clone() };
            let mut config = config.clone();
            config.cert_resolver = Arc::new(resolver);
            Some((address, TlsAcceptor::from(Arc::new(config))))
        });
        Ok(Self {
            by_address: addresses.collect(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
            roles: CertificateRoles::new(content, parameters)?,
        })
    }

    /// The acceptor of a connection to this address.
    pub(super) fn acceptor(&self, address: Option<IpAddr>) -> TlsAcceptor {
        let configured = address.and_then(|it| self.by_address.get(&it.to_canonical()));
        configured.unwrap_or(&self.acceptor).clone()
    }
}

/// The time by which certificates are valid.
#[derive(Debug)]
struct PlaneTime(Clock);

impl TimeProvider for PlaneTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(unix_time(self.0.now()))
    }
}

/// A time for the verification of certificates.
pub(super) fn unix_time(time: Timestamp) -> UnixTime {
    let seconds = u64::try_from(time.seconds()).unwrap_or_default();
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

/// Chooses a certificate by the server name of a client.
#[derive(Debug, Clone)]
struct CertificateResolver {
    /// The certificates by host name in lower case, by `*.` and a domain, and by address.
    by_name: Arc<HashMap<String, Arc<CertifiedKey>>>,
    /// The certificate for other names.
    default: Arc<CertifiedKey>,
    /// The certificate for clients that do not name a server.
    unnamed: Arc<CertifiedKey>,
}

impl CertificateResolver {
    fn new(content: &TlsContent) -> Result<Self, Error> {
        let default = Arc::new(serving_key(&content.serving).map_err(Error::Certificate)?);
        let (mut extracted, mut explicit) = (HashMap::new(), HashMap::new());
        // Upstream: the first of several certificates with the same name counts, and configured names
        // come before those in certificates.
        for (certified, names) in content.named.iter().rev() {
            let key = Arc::new(serving_key(certified).map_err(Error::Certificate)?);
            for name in names {
                explicit.insert(name.to_ascii_lowercase(), Arc::clone(&key));
            }
            if names.is_empty() {
                for name in certificate_names(&key) {
                    extracted.insert(name, Arc::clone(&key));
                }
            }
        }
        extracted.extend(explicit);
        Ok(Self { by_name: Arc::new(extracted), unnamed: Arc::clone(&default), default })
    }

    fn choose(&self, name: Option<&str>) -> &Arc<CertifiedKey> {
        let Some(name) = name else { return &self.unnamed };
        if self.by_name.is_empty() {
            return &self.default;
        }
        let name = name.to_ascii_lowercase();
        let wildcard = || {
            let (_, domain) = name.split_once('.')?;
            self.by_name.get(&format!("*.{domain}"))
        };
        self.by_name.get(&name).or_else(wildcard).unwrap_or(&self.default)
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(self.choose(hello.server_name())))
    }
}

/// The host names of a certificate: its common name, unless that is an address or another text, and
/// its alternative names.
fn certificate_names(key: &CertifiedKey) -> Vec<String> {
    let Some(Ok((_, certificate))) = key.cert.first().map(|it| X509Certificate::from_der(it))
    else {
        return Vec::new();
    };
    let mut names: Vec<String> = certificate
        .subject()
        .iter_common_name()
        .filter_map(|it| it.as_str().ok())
        .filter(|it| is_host_name(it))
        .map(str::to_owned)
        .collect();
    if let Ok(Some(alternative)) = certificate.subject_alternative_name() {
        names.extend(alternative.value.general_names.iter().filter_map(|it| match it {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        }));
    }
    names
}

/// Whether a common name is a DNS name, possibly with a wildcard.
fn is_host_name(name: &str) -> bool {
    let labels = name.strip_prefix("*.").unwrap_or(name);
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.parse::<IpAddr>().is_err() && labels.split('.').all(is_label)
}
