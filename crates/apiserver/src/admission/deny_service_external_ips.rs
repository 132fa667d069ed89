//! `DenyServiceExternalIPs`: a service claims no addresses from outside, which may be anybody's.

use super::Attributes;
use kinds::core::service::has_new_external_ips;
use machinery::{Object, Status};

/// Refuses a service that claims more of them than it had.
pub(super) fn validate(attributes: &Attributes<'_>, service: &Object) -> Result<(), Status> {
    if !attributes.is_of("", "services") || !has_new_external_ips(service, attributes.old) {
        return Ok(());
    }
    Err(attributes.forbidden(service, "Use of external IPs is denied by admission control"))
}
