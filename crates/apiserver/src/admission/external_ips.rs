//! `DenyServiceExternalIPs`: a service claims no addresses from outside, which may be anybody's.

use super::Attempt;
use kinds::core::service::has_new_external_ips;
use machinery::{Object, Status};

/// Refuses a service that claims more of them than it had.
pub(super) fn judge(attempt: &Attempt<'_>, service: &Object) -> Result<(), Status> {
    if !attempt.is_of("", "services") || !has_new_external_ips(service, attempt.old) {
        return Ok(());
    }
    Err(attempt.forbidden(service, "Use of external IPs is denied by admission control"))
}
