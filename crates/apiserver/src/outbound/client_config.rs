//! [`ClientConfig`]: the `clientConfig` of a webhook.

use http::Uri;

use super::service::{ServiceReference, ServiceResolver};
use super::{Destination, request_url, trust_from_ca_bundle};
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

    /// The URL of requests with a timeout, in whole seconds.
    pub(crate) fn request_url(&self, timeout: u64) -> String {
        let url = match &self.location {
            Location::Url(url) => request_url::of_client_config(url),
            Location::Service(service) => {
                request_url::join(&service.origin(), service.path.as_bytes())
            }
        };
        format!("{url}?timeout={timeout}s")
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

    #[test]
    fn requests_are_sent_to_the_cleaned_path_with_their_timeout() {
        let url = |config: &Value| ClientConfig::from_value(config).request_url(10);
        assert_eq!(url(&json!({"url": "https://a.b//c"})), "https://a.b/c?timeout=10s");
        let service =
            |path: &str| json!({"service": {"namespace": "n", "name": "s", "path": path}});
        assert_eq!(url(&service("")), "https://s.n.svc:443/?timeout=10s");
        assert_eq!(url(&service("/x//y/")), "https://s.n.svc:443/x/y?timeout=10s");
    }
}
