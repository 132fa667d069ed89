//! The critical extensions of a certificate, which is invalid if one of them is not processed.

use rustls::CertificateError;
use x509_parser::extensions::{GeneralName, NameConstraints, ParsedExtension};
use x509_parser::prelude::X509Certificate;

/// Refuses a certificate with a critical extension that neither this crate nor rustls processes.
// Upstream: crypto/x509 Certificate.isValid, parser.go processExtensions
pub(crate) fn check_critical(certificate: &X509Certificate<'_>) -> Result<(), CertificateError> {
    let mut critical = certificate.extensions().iter().filter(|extension| extension.critical);
    if critical.all(|extension| is_processed(extension.parsed_extension())) {
        Ok(())
    } else {
        Err(CertificateError::UnhandledCriticalExtension)
    }
}

/// Whether a certificate may have this extension marked as critical.
fn is_processed(extension: &ParsedExtension<'_>) -> bool {
    match extension {
        ParsedExtension::KeyUsage(_)
        | ParsedExtension::ExtendedKeyUsage(_)
        | ParsedExtension::BasicConstraints(_)
        | ParsedExtension::CRLDistributionPoints(_)
        // No verifier requires a policy. Only policy constraints do, and these are refused.
        | ParsedExtension::CertificatePolicies(_)
        | ParsedExtension::PolicyMappings(_)
        | ParsedExtension::InhibitAnyPolicy(_) => true,
        ParsedExtension::SubjectAlternativeName(names) => names.general_names.iter().any(is_known),
        ParsedExtension::NameConstraints(constraints) => constrains_known_names(constraints),
        _ => false,
    }
}

fn constrains_known_names(constraints: &NameConstraints<'_>) -> bool {
    let trees = [&constraints.permitted_subtrees, &constraints.excluded_subtrees];
    trees.into_iter().flatten().flatten().all(|tree| is_known(&tree.base))
}

/// Whether names of this kind are compared.
fn is_known(name: &GeneralName<'_>) -> bool {
    matches!(
        name,
        GeneralName::DNSName(_)
            | GeneralName::IPAddress(_)
            | GeneralName::RFC822Name(_)
            | GeneralName::URI(_)
    )
}
