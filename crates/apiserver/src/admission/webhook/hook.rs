//! [`Hook`]: one webhook, with all that its configuration says worked out.

use super::conditions::Conditions;
use super::review::Version;
use crate::admission::matching::Criteria;
use crate::outbound::service::ServiceReference;
use crate::outbound::{Destination, Trust};
use crate::plane::Plane;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use machinery::{Object, Status, Value};
use std::time::Duration;

/// How long a webhook may take that does not say.
const TIMEOUT_SECONDS: u64 = 10;

/// See the [module documentation](self).
pub(super) struct Hook {
    /// For messages.
    pub name: String,
    /// Of the configuration that it is in.
    pub configuration: String,
    /// Which requests it is about.
    pub criteria: Criteria,
    /// Which of these it wants to see.
    pub conditions: Conditions,
    /// How to talk to it; None if it speaks no version of ours.
    pub review: Option<Version>,
    /// Whether it does not matter if it cannot be asked.
    pub fails_open: bool,
    /// Whether it wants to see what later ones make of the object.
    pub reinvoked: bool,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether nothing happens if it is asked about what will not be stored.
    supports_dry_run: bool,
    place: Place,
    trust: Trust,
}

enum Place {
    Url(String),
    Service(ServiceReference),
}

impl Hook {
    /// All webhooks of a configuration.
    pub(super) fn all_of(configuration: &Object) -> Vec<Self> {
        let hooks = configuration.get(&["webhooks"]).and_then(Value::as_array);
        hooks.into_iter().flatten().map(|it| Self::of(configuration.name(), it)).collect()
    }

    fn of(configuration: &str, hook: &Value) -> Self {
        let versions = hook["admissionReviewVersions"].as_array().into_iter().flatten();
        let client = &hook["clientConfig"];
        let fails_open = hook["failurePolicy"] == "Ignore";
        Self {
            name: hook["name"].as_str().unwrap_or_default().to_owned(),
            configuration: configuration.to_owned(),
            criteria: Criteria::of_webhook(hook),
            conditions: Conditions::of(hook, fails_open),
            review: versions.filter_map(Value::as_str).find_map(Version::parse),
            supports_dry_run: hook["sideEffects"] == "None"
                || hook["sideEffects"] == "NoneOnDryRun",
            fails_open,
            reinvoked: hook["reinvocationPolicy"] == "IfNeeded",
            timeout: Duration::from_secs(
                hook["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT_SECONDS),
            ),
            place: match client["url"].as_str() {
                Some(url) => Place::Url(url.to_owned()),
                None => Place::Service(ServiceReference::from_value(&client["service"])),
            },
            trust: trust(client["caBundle"].as_str().unwrap_or_default()),
        }
    }

    /// Refuses a dry run if something would happen.
    pub(super) fn check_dry_run(&self, dry_run: bool) -> Result<(), Status> {
        if !dry_run || self.supports_dry_run {
            return Ok(());
        }
        let why = format!("admission webhook {:?} does not support dry run", self.name);
        Err(Status::bad_request(why))
    }

    /// The address, with a path.
    pub(super) fn url(&self) -> String {
        match &self.place {
            Place::Url(url) => {
                let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                if rest.contains('/') { url.clone() } else { format!("{url}/") }
            }
            Place::Service(service) => {
                let path = service.path.strip_prefix('/').unwrap_or(&service.path);
                format!("{}/{path}", service.origin())
            }
        }
    }

    /// Where that leads now.
    pub(super) fn destination(&self, plane: &Plane) -> Result<Destination, String> {
        match &self.place {
            Place::Url(url) => {
                let uri: Uri = url.parse().map_err(|error| format!("Unparsable URL: {error}"))?;
                let host = uri.host().unwrap_or_default();
                let server_name = host.trim_matches(['[', ']']).to_owned();
                let trust = self.trust.clone();
                Ok(Destination { server_name, addresses: Vec::new(), trust, identity: None })
            }
            Place::Service(service) => service
                .destination(plane, self.trust.clone())
                .map_err(|nowhere| nowhere.to_string()),
        }
    }
}

/// Whom to believe, from a bundle of certificates in PEM in base64. One that cannot be read is kept
/// as what it is: a bundle without certificates.
fn trust(bundle: &str) -> Trust {
    if bundle.is_empty() {
        return Trust::System;
    }
    let pem = STANDARD.decode(bundle).unwrap_or_default();
    Trust::Authorities(String::from_utf8_lossy(&pem).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn url(client: &Value) -> String {
        Hook::of("c", &json!({"name": "a.b.c", "clientConfig": client})).url()
    }

    #[test]
    fn a_webhook_with_side_effects_refuses_dry_runs() {
        for (effects, dry_run, refused) in [
            ("None", true, false),
            ("NoneOnDryRun", true, false),
            ("Some", true, true),
            ("Unknown", true, true),
            ("Some", false, false),
        ] {
            let hook = Hook::of("c", &json!({"name": "a.b.c", "sideEffects": effects}));
            let message = "admission webhook \"a.b.c\" does not support dry run";
            let found = hook.check_dry_run(dry_run).map_err(|status| (status.code, status.message));
            let expected = if refused { Err((400, message.to_owned())) } else { Ok(()) };
            assert_eq!(found, expected, "{effects}");
        }
    }

    #[test]
    fn an_address_always_has_a_path() {
        assert_eq!(url(&json!({"url": "https://h"})), "https://h/");
        assert_eq!(url(&json!({"url": "https://h:1/x"})), "https://h:1/x");
        let service = json!({"namespace": "n", "name": "s"});
        assert_eq!(url(&json!({"service": service})), "https://s.n.svc:443/");
        let service = json!({"namespace": "n", "name": "s", "path": "/x", "port": 8443});
        assert_eq!(url(&json!({"service": service})), "https://s.n.svc:8443/x");
    }
}
