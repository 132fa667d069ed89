//! The user that a verified client certificate names: common name, and organizations as groups.

use super::User;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Reads the subject of a certificate that TLS has verified; None if it names nobody.
pub fn user(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().find_map(|it| it.as_str().ok())?;
    let groups = subject
        .iter_organization()
        .filter_map(|it| it.as_str().ok())
        .map(ToOwned::to_owned)
        .collect();
    Some(User::authenticated(name, "", groups))
}
