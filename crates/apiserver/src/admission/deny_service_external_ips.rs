//! `DenyServiceExternalIPs`: rejects external IPs of services, with which a user could intercept
//! the traffic of another host.

use super::Attributes;
use kinds::core::service::has_new_external_ips;
use machinery::{Object, Status};

/// Rejects a service with external IPs that it did not have before.
pub(super) fn validate(attributes: &Attributes<'_>, service: &Object) -> Result<(), Status> {
    if !attributes.is_of("", "services") || !has_new_external_ips(service, attributes.old) {
        return Ok(());
    }
    Err(attributes.forbidden(service, "Use of external IPs is denied by admission control"))
}
