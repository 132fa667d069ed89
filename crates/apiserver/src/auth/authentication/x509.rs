//! The user of a verified client certificate: the common name is the user name, and the organizations
//! are the groups. The fingerprint of the certificate identifies the credential.

use std::ops::RangeInclusive;

use ring::digest::{SHA256, digest};
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate, X509Error};

use super::{CREDENTIAL_ID, User};
use keel::Timestamp;

/// A certificate whose subject cannot be read: its connection is closed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not expected: TLS has read it.
    #[error("the client certificate is not well formed")]
    Certificate(#[source] x509_parser::nom::Err<X509Error>),
    /// Use UTF-8 or printable strings for common name and organizations.
    #[error("the client certificate has a name that cannot be read")]
    Name(#[source] X509Error),
}

/// Reads the subject of a certificate that is verified; None if it has no common name. A group
/// that cannot be read makes the certificate invalid, since authorization may depend on any group.
pub fn user(der: &[u8]) -> Result<Option<User>, Error> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(Error::Certificate)?;
    let subject = certificate.subject();
    let text = |it: &AttributeTypeAndValue<'_>| it.as_str().map(str::to_owned).map_err(Error::Name);
    let groups = subject.iter_organization().map(text).collect::<Result<Vec<_>, _>>()?;
    let names = subject.iter_common_name().map(text).collect::<Result<Vec<_>, _>>()?;
    // Upstream: crypto/x509/pkix keeps the last of several common names.
    let name = names.last().filter(|it| !it.is_empty());
    Ok(name.map(|it| {
        let mut user = User::authenticated(it, "", groups);
        user.extra.insert(CREDENTIAL_ID.to_owned(), vec![credential_id(der)]);
        user
    }))
}

fn credential_id(der: &[u8]) -> String {
    let mut id = "X509SHA256=".to_owned();
    for byte in digest(&SHA256, der).as_ref() {
        id += &format!("{byte:02x}");
    }
    id
}

/// The time in which a certificate is valid, with both ends.
pub(crate) fn validity(der: &[u8]) -> Result<RangeInclusive<Timestamp>, Error> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(Error::Certificate)?;
    let validity = certificate.validity();
    let [start, end] =
        [validity.not_before, validity.not_after].map(|it| Timestamp::from_seconds(it.timestamp()));
    Ok(start..=end)
}
