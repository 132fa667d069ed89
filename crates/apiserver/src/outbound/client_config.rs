//! [`ClientConfig`]: the `clientConfig` of a webhook.

use http::Uri;

use super::service::{ServiceReference, ServiceResolver};
use super::{Destination, trust_from_ca_bundle};
use machinery::Value;
use tls::Trust;

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientConfig {
    location: Location,
    trust: Trust,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Location {
    Url(String),
    Service(ServiceReference),
}

impl ClientConfig {
    /// Reads it from JSON.
    pub(crate) fn from_value(config: &Value) -> Self {
        let location = match config["url"].as_str() {
            Some(url) => Location::Url(url.to_owned()),
            None => Location::Service(ServiceReference::from_value(&config["service"])),
        };
        Self {
            location,
            trust: trust_from_ca_bundle(config["caBundle"].as_str().unwrap_or_default()),
        }
    }

    /// The URL, which always has a path.
    pub(crate) fn url(&self) -> String {
        match &self.location {
            Location::Url(url) => {
                let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                if rest.contains('/') { url.clone() } else { format!("{url}/") }
            }
            Location::Service(service) => {
                let path = service.path.strip_prefix('/').unwrap_or(&service.path);
                format!("{}/{path}", service.origin())
            }
        }
    }

    /// The current destination. The error is a message for users.
    pub(crate) fn destination(
        &self,
        resolver: &dyn ServiceResolver,
    ) -> Result<Destination, String> {
        match &self.location {
            Location::Url(url) => {
                let uri: Uri = url.parse().map_err(|error| format!("Unparsable URL: {error}"))?;
                let host = uri.host().unwrap_or_default();
                let server_name = host.trim_matches(['[', ']']).to_owned();
                let trust = self.trust.clone();
                Ok(Destination::of_url(server_name, trust))
            }
            Location::Service(service) => {
                service.destination(resolver, self.trust.clone()).map_err(|error| error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn url(config: &Value) -> String {
        ClientConfig::from_value(config).url()
    }

    #[test]
    fn a_url_has_a_path() {
        assert_eq!(url(&json!({"url": "https://a.b:8443"})), "https://a.b:8443/");
        assert_eq!(url(&json!({"url": "https://a.b/c/d"})), "https://a.b/c/d");
        let service =
            |path: &str| json!({"service": {"namespace": "n", "name": "s", "path": path}});
        assert_eq!(url(&service("")), "https://s.n.svc:443/");
        assert_eq!(url(&service("/x")), "https://s.n.svc:443/x");
    }
}
