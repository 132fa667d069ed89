//! Authorization of users for signers of certificates.

use super::Attributes;
use crate::auth::authorization;
use crate::auth::authorization::ResourceAttributes;

pub(super) const GROUP: &str = "certificates.k8s.io";

/// Whether the user may use the verb on the signer, or on all signers of its domain.
///
/// Upstream: pkg/certauthorization `IsAuthorizedForSignerName`
pub(super) async fn is_authorized(attributes: &Attributes<'_>, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer, &format!("{domain}/*")] {
        let signer = ResourceAttributes {
            group: GROUP,
            version: "*",
            resource: "signers",
            name,
            ..ResourceAttributes::default()
        };
        let user = &attributes.scope.user;
        let use_of_signer = authorization::Attributes::of_resource(user, verb, signer);
        if attributes.admission.authorizers.decide(&use_of_signer).await.is_allowed() {
            return true;
        }
    }
    false
}
