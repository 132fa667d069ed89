//! The certificate of a request: PEM blocks with certificates, and nothing else between them but text.
//!
//! Upstream: `pkg/apis/certificates/validation` `validateCertificate`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::certificates::pem_blocks::pem_blocks;
use machinery::field_path::quote;
use machinery::{ErrorList, Path};

/// Validates a new certificate, which is in base64. An invalid one that is stored already can be
/// replaced by another.
pub(super) fn validate_change(new: &str, old: &str, errors: &mut ErrorList) {
    if new == old || problem(old).is_some() {
        return;
    }
    if let Some(problem) = problem(new) {
        let path = Path::root("status");
        errors.invalid(&path.child("certificate"), "<certificate data>", &problem);
    }
}

/// The reason why a certificate is invalid. A missing one is valid.
fn problem(certificate: &str) -> Option<String> {
    if certificate.is_empty() {
        return None;
    }
    let bytes = BASE64_STANDARD.decode(certificate).unwrap_or_default();
    let blocks = pem_blocks(&String::from_utf8_lossy(&bytes));
    for block in &blocks {
        if block.label != "CERTIFICATE" {
            let label = quote(&block.label);
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {label}"));
        }
        if block.has_headers {
            return Some("no PEM block headers are permitted".to_owned());
        }
        if block.content.is_empty() {
            return Some("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        // A block may have several certificates.
        let mut rest = block.content.as_slice();
        while !rest.is_empty() {
            let Ok((after, _)) = X509Certificate::from_der(rest) else {
                return Some("x509: malformed certificate".to_owned());
            };
            rest = after;
        }
    }
    blocks.is_empty().then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;

    const LEAF: &str = include_str!("../cluster_trust_bundle/leaf.pem");

    fn refused(new: &str, old: &str) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate_change(&BASE64_STANDARD.encode(new), &BASE64_STANDARD.encode(old), &mut errors);
        lines(&errors)
    }

    fn check(certificate: &str, expected: &str) {
        let line = format!("status.certificate: Invalid value: \"<certificate data>\": {expected}");
        assert_eq!(refused(certificate, ""), [line]);
    }

    #[test]
    fn a_certificate_has_pem_blocks_with_certificates_only() {
        let block = |label: &str, content: &str| {
            format!("-----BEGIN {label}-----\n{content}-----END {label}-----\n")
        };
        check("foo", "must contain at least one CERTIFICATE PEM block");
        check(
            &[LEAF, &block("FOO", "Zm9v\n")].concat(),
            r#"only CERTIFICATE PEM blocks are allowed, found "FOO""#,
        );
        check(&block("CERTIFICATE", "a: b\n\nZm9v\n"), "no PEM block headers are permitted");
        check(&block("CERTIFICATE", "Zm9v\n"), "x509: malformed certificate");
        check(&block("CERTIFICATE", ""), "found CERTIFICATE PEM block containing 0 certificates");
        assert_eq!(refused(&["text\n", LEAF, LEAF].concat(), ""), Vec::<String>::new());
        assert_eq!(refused("", ""), Vec::<String>::new());
    }

    #[test]
    fn an_invalid_certificate_that_is_stored_already_is_accepted() {
        assert_eq!(refused("foo", "foo"), Vec::<String>::new());
        assert_eq!(refused("foo", "bar"), Vec::<String>::new());
    }
}
