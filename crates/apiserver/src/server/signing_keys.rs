//! [`SigningKeys`]: signs with the keys of a plane, for components in the same process that must not
//! have the keys themselves.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::auth::authentication::service_account::LegacyClaims;
use crate::certificates;
use crate::extensions::aggregation::FRONT_PROXY;
use crate::plane::Plane;

/// See the [module documentation](self).
#[derive(Clone)]
pub struct SigningKeys(Arc<Plane>);

impl SigningKeys {
    pub(super) fn new(plane: Arc<Plane>) -> Self {
        Self(plane)
    }

    /// A token of a service account for a secret; None if the system's source of randomness failed.
    pub fn sign_legacy_token(&self, claims: &LegacyClaims) -> Option<String> {
        self.0.authenticator.signer.sign_legacy(claims)
    }

    /// The common names that aggregated API servers take for proxies if the plane's authority has
    /// certified them.
    pub fn proxy_names(&self) -> Vec<String> {
        let configured = self.0.request_header.iter().flat_map(|it| it.allowed_names.clone());
        configured.chain([FRONT_PROXY.to_owned()]).collect()
    }

    /// A certificate in PEM for a certificate signing request in PEM. The usages have Kubernetes'
    /// names.
    pub fn sign_certificate(
        &self,
        request: &[u8],
        usages: &[String],
        lifetime: Duration,
    ) -> Result<String, certificates::Error> {
        let storage = &self.0.storage;
        let now = storage.clock.now();
        self.0.authority.load().sign_request(request, usages, lifetime, now, &storage.entropy)
    }
}

impl fmt::Debug for SigningKeys {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKeys")
    }
}
