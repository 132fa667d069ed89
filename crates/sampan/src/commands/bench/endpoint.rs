//! [`Endpoint`]: the address of a server, with its TLS configuration and credentials.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use http::{HeaderValue, Uri};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::kubeconfig::Access;
use tls::{Identity, Trust};

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
                (Some((Arc::new(client_config(access)?), name)), 443)
            }
            Some("http") => (None, 80),
            _ => bail!("{url:?} is neither http nor https"),
        };
        let authorization = match &access.token {
            Some(token) => Some(
                HeaderValue::from_str(&format!("Bearer {token}"))
                    .context("the token has characters that a header cannot have")?,
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

fn client_config(access: &Access) -> Result<ClientConfig> {
    let trust = match &access.certificate_authority {
        _ if access.insecure => Trust::Insecure,
        Some(pem) => Trust::CaBundle(text(pem)),
        None => bail!("the kubeconfig has no certificate authority to trust {} by", access.server),
    };
    let identity = access.identity.as_ref();
    let identity =
        identity.map(|it| Identity { certificate: text(&it.certificate), key: text(&it.key) });
    let mut config = tls::client_config(&trust, identity.as_ref())
        .context("the certificates of the kubeconfig cannot be used")?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn text(pem: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(pem).into()
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
