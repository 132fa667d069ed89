//! [`Endpoint`]: the address of a server, with its TLS configuration and credentials.

use crate::kubeconfig::Access;
use anyhow::{Context, Result, bail};
use apiserver::outbound::insecure_verifier::InsecureVerifier;
use http::{HeaderValue, Uri};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::net::IpAddr;
use std::sync::Arc;

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// The URL to which request paths are appended.
    pub url: String,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port of the server.
    pub port: u16,
    /// None for HTTP/2 without TLS.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// The `Authorization` header, if the credentials are a token.
    pub authorization: Option<HeaderValue>,
}

impl Endpoint {
    /// The server of a kubeconfig's context.
    pub(crate) fn new(access: &Access) -> Result<Self> {
        let url = access.server.trim_end_matches('/').to_owned();
        let uri: Uri = url.parse().with_context(|| format!("{url:?} is not a URL"))?;
        let Some(host) = uri.host() else { bail!("{url:?} names no host") };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let (tls, default_port) = match uri.scheme_str() {
            Some("https") => {
                let name = access.tls_server_name.as_ref().unwrap_or(&host).clone();
                let name = ServerName::try_from(name).context("the server's name is not valid")?;
                (Some((Arc::new(tls(access)?), name)), 443)
            }
            Some("http") => (None, 80),
            _ => bail!("{url:?} is neither http nor https"),
        };
        let authorization = match &access.token {
            Some(token) => Some(
                HeaderValue::from_str(&format!("Bearer {token}"))
                    .context("the token is not fit for a header")?,
            ),
            None => None,
        };
        Ok(Self { host, port: uri.port_u16().unwrap_or(default_port), url, tls, authorization })
    }

    /// Whether the server is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host == "localhost" || self.host.ends_with(".localhost"),
        }
    }
}

fn tls(access: &Access) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = match &access.certificate_authority {
        _ if access.insecure => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(InsecureVerifier::new(provider))),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                roots.add(certificate.context("the certificate authority is not valid PEM")?)?;
            }
            builder.with_root_certificates(roots)
        }
        None => bail!("the kubeconfig has no certificate authority to trust {} by", access.server),
    };
    let mut config = match &access.identity {
        Some(identity) => {
            let certificates = CertificateDer::pem_slice_iter(&identity.certificate)
                .collect::<Result<_, _>>()
                .context("the client certificate is not valid PEM")?;
            let key = PrivateKeyDer::from_pem_slice(&identity.key)
                .context("the client key is not valid PEM")?;
            builder.with_client_auth_cert(certificates, key)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(server: &str) -> Result<Endpoint> {
        Endpoint::new(&Access {
            server: server.to_owned(),
            certificate_authority: None,
            tls_server_name: None,
            insecure: true,
            identity: None,
            token: Some("secret".to_owned()),
            namespace: "default".to_owned(),
        })
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for near in ["https://127.0.0.1:6443", "https://[::1]:6443", "http://localhost:8080/"] {
            assert!(endpoint(near).unwrap().is_loopback(), "{near}");
        }
        for far in ["https://10.0.0.1:6443", "https://prod.example", "https://localhost.example"] {
            assert!(!endpoint(far).unwrap().is_loopback(), "{far}");
        }
    }

    #[test]
    fn a_url_is_split_into_host_and_port() {
        let parts = endpoint("https://[::1]:6443/").unwrap();
        assert_eq!(
            (parts.url.as_str(), parts.host.as_str(), parts.port),
            ("https://[::1]:6443", "::1", 6443)
        );
        assert_eq!(parts.authorization.unwrap(), "Bearer secret");
        assert_eq!(endpoint("https://a.example").unwrap().port, 443);
        assert!(endpoint("http://a.example").unwrap().tls.is_none());
        assert!(endpoint("ftp://a.example").is_err());
        assert!(endpoint("a.example").is_err());
    }
}
