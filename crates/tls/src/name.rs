//! Compares the names of a certificate with that of a server, by the rules and with the messages of Go.
//!
//! Only alternative names are compared, not the common name. `*` stands for the whole first label.

use std::net::IpAddr;

use rustls::pki_types::ServerName;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::X509Certificate;

/// The number of names from which a message contains only their number.
const MAX_LISTED: usize = 100;

/// A certificate does not have the name of the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameMismatch(String);

impl NameMismatch {
    pub(crate) fn new(certificate: &X509Certificate<'_>, name: &ServerName<'_>) -> Self {
        let names = certificate.subject_alternative_name().ok().flatten();
        let host = name.to_str();
        let common_name = certificate.subject().iter_common_name().next();
        let common_name = common_name.and_then(|it| it.as_str().ok()).unwrap_or_default();
        if names.is_none() && common_name.eq_ignore_ascii_case(&host) {
            let text = "certificate relies on legacy Common Name field, use SANs instead";
            return Self(text.to_owned());
        }
        let names = names.map_or(&[][..], |it| &it.value.general_names);
        let is_address = matches!(name, ServerName::IpAddress(_));
        let listed: Vec<String> = names.iter().filter_map(|it| text(it, is_address)).collect();
        Self(match (listed.len(), is_address) {
            (0, true) => format!(
                "cannot validate certificate for {host} because it doesn't contain any IP SANs"
            ),
            (0, false) => {
                format!("certificate is not valid for any names, but wanted to match {host}")
            }
            (MAX_LISTED.., true) => {
                format!(
                    "certificate is valid for {} IP SANs, but none matched {host}",
                    listed.len()
                )
            }
            (MAX_LISTED.., false) => {
                format!("certificate is valid for {} names, but none matched {host}", listed.len())
            }
            _ => format!("certificate is valid for {}, not {host}", listed.join(", ")),
        })
    }
}

/// Whether one of the certificate's alternative names is `name`.
// Upstream: crypto/x509 VerifyHostname
pub(crate) fn matches(certificate: &X509Certificate<'_>, name: &ServerName<'_>) -> bool {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
    let host = name.to_str().to_ascii_lowercase();
    let is_address = matches!(name, ServerName::IpAddress(_));
    let mut presented = names.value.general_names.iter().filter_map(|it| text(it, is_address));
    if is_address {
        // Both have the same format, since both are formatted from bytes.
        return presented.any(|it| it == host);
    }
    let host = host.strip_suffix('.').unwrap_or(&host);
    presented.any(|it| matches_pattern(&it.to_ascii_lowercase(), host))
}

fn matches_pattern(pattern: &str, host: &str) -> bool {
    if pattern == host {
        return !host.is_empty();
    }
    let Some((star, parents)) = pattern.split_once('.') else { return false };
    let Some((label, domain)) = host.split_once('.') else { return false };
    star == "*" && !label.is_empty() && !parents.is_empty() && parents == domain
}

/// The name as text, if it is of the requested type: an address or a DNS name.
fn text(name: &GeneralName<'_>, is_address: bool) -> Option<String> {
    match name {
        GeneralName::DNSName(name) if !is_address => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) if is_address => {
            let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let address = four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            address.ok().map(|it| it.to_string())
        }
        _ => None,
    }
}
