//! [`CertificateRequestView`]: a certificate signing request as the certificate controllers read it,
//! and [`ParsedRequest`], the fields of the PKCS#10 request in it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::{FromDer, X509CertificationRequest};

use crate::metadata::Metadata;

/// The signer of client certificates for the API server.
pub(crate) const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The signer of client certificates of kubelets.
pub(crate) const KUBELET_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of serving certificates of kubelets.
pub(crate) const KUBELET_SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
/// The signer of requests of earlier versions of the API, without restrictions.
pub(crate) const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CertificateRequestView {
    /// The metadata.
    pub metadata: Metadata,
    /// The request and the requestor.
    pub spec: RequestSpec,
    /// The approval and the certificate.
    pub status: RequestStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RequestSpec {
    /// The PKCS#10 request in PEM.
    pub request: ByteString,
    pub signer_name: String,
    pub expiration_seconds: Option<u32>,
    pub usages: Vec<String>,
    pub username: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RequestStatus {
    pub conditions: Vec<RequestCondition>,
    /// The issued certificate in PEM.
    pub certificate: ByteString,
}

/// A condition of a request: `Approved`, `Denied` or `Failed`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RequestCondition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

impl CertificateRequestView {
    /// Whether the request has a condition of this type.
    pub(crate) fn has_condition(&self, type_: &str) -> bool {
        self.status.conditions.iter().any(|condition| condition.type_ == type_)
    }

    /// Whether a certificate was issued.
    pub(crate) fn is_issued(&self) -> bool {
        !self.status.certificate.0.is_empty()
    }

    /// The path of the request.
    pub(crate) fn path(&self) -> String {
        let name = &self.metadata.name;
        format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}")
    }

    /// The fields of the PKCS#10 request.
    pub(crate) fn parse(&self) -> Result<ParsedRequest, UnreadableRequest> {
        ParsedRequest::parse(&self.spec.request.0)
            .ok_or_else(|| UnreadableRequest(self.metadata.name.clone()))
    }
}

/// A request that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("unable to parse csr {0:?}")]
pub(crate) struct UnreadableRequest(String);

/// The fields of a PKCS#10 request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ParsedRequest {
    /// The last common name of the subject, which upstream uses.
    pub common_name: String,
    /// The number of common names.
    pub common_names: usize,
    pub organizations: Vec<String>,
    pub dns_names: usize,
    pub email_addresses: usize,
    pub ip_addresses: usize,
    pub uris: usize,
}

const NODE_PREFIX: &str = "system:node:";
const KUBELET_CLIENT_USAGES: [&str; 3] = ["client auth", "digital signature", "key encipherment"];
const KUBELET_SERVING_USAGES: [&str; 3] = ["digital signature", "key encipherment", "server auth"];

impl ParsedRequest {
    fn parse(pem: &[u8]) -> Option<Self> {
        let (_, pem) = parse_x509_pem(pem).ok()?;
        if pem.label != "CERTIFICATE REQUEST" {
            return None;
        }
        let (_, request) = X509CertificationRequest::from_der(&pem.contents).ok()?;
        let subject = &request.certification_request_info.subject;
        let mut parsed = Self::default();
        for name in subject.iter_common_name() {
            name.as_str().ok()?.clone_into(&mut parsed.common_name);
            parsed.common_names += 1;
        }
        for organization in subject.iter_organization() {
            parsed.organizations.push(organization.as_str().ok()?.to_owned());
        }
        for extension in request.requested_extensions().into_iter().flatten() {
            let ParsedExtension::SubjectAlternativeName(names) = extension else { continue };
            for name in &names.general_names {
                match name {
                    GeneralName::DNSName(_) => parsed.dns_names += 1,
                    GeneralName::RFC822Name(_) => parsed.email_addresses += 1,
                    GeneralName::IPAddress(_) => parsed.ip_addresses += 1,
                    GeneralName::URI(_) => parsed.uris += 1,
                    _ => {}
                }
            }
        }
        Some(parsed)
    }

    /// Validates a request for a client certificate of a kubelet. The error is upstream's message.
    pub(crate) fn validate_kubelet_client(&self, usages: &[String]) -> Result<(), String> {
        let refused = |why: &str| Err(why.to_owned());
        if self.organizations != ["system:nodes"] {
            return refused("subject organization is not system:nodes");
        }
        if self.dns_names > 0 {
            return refused("DNS subjectAltNames are not allowed");
        }
        if self.email_addresses > 0 {
            return refused("Email subjectAltNames are not allowed");
        }
        if self.ip_addresses > 0 {
            return refused("IP subjectAltNames are not allowed");
        }
        if self.uris > 0 {
            return refused("URI subjectAltNames are not allowed");
        }
        if !self.common_name.starts_with(NODE_PREFIX) {
            return refused("subject common name does not begin with system:node:");
        }
        check_usages(usages, KUBELET_CLIENT_USAGES)
    }

    /// Validates a request for a serving certificate of a kubelet.
    pub(crate) fn validate_kubelet_serving(&self, usages: &[String]) -> Result<(), String> {
        let refused = |why: &str| Err(why.to_owned());
        if self.organizations != ["system:nodes"] {
            return refused("subject organization is not system:nodes");
        }
        if self.dns_names == 0 && self.ip_addresses == 0 {
            return refused("DNS or IP subjectAltName is required");
        }
        if self.email_addresses > 0 {
            return refused("Email subjectAltNames are not allowed");
        }
        if self.uris > 0 {
            return refused("URI subjectAltNames are not allowed");
        }
        check_usages(usages, KUBELET_SERVING_USAGES)?;
        if !self.common_name.starts_with(NODE_PREFIX) {
            return refused("subject common name does not begin with system:node:");
        }
        Ok(())
    }
}

/// Validates that the usages are exactly the required ones; key encipherment is optional, since only
/// RSA keys have it.
fn check_usages(usages: &[String], required: [&str; 3]) -> Result<(), String> {
    let required = BTreeSet::from(required);
    let mut found: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    found.insert("key encipherment");
    if found == required {
        return Ok(());
    }
    let required: Vec<&str> = required.into_iter().collect();
    Err(format!("usages did not match [{}]", required.join(" ")))
}

/// Validates the usages of a client certificate.
pub(crate) fn validate_client_usages(usages: &[String]) -> Result<(), String> {
    for usage in usages {
        if !KUBELET_CLIENT_USAGES.contains(&usage.as_str()) {
            return Err(format!("invalid usage for client certificate: {usage}"));
        }
    }
    if !usages.iter().any(|usage| usage == "client auth") {
        return Err("missing required usage for client certificate: client auth".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usages(usages: &[&str]) -> Vec<String> {
        usages.iter().map(|usage| (*usage).to_owned()).collect()
    }

    fn node() -> ParsedRequest {
        ParsedRequest {
            common_name: "system:node:n".to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            ..ParsedRequest::default()
        }
    }

    #[test]
    fn a_client_certificate_of_a_kubelet_has_no_alternative_names() {
        let client = usages(&["client auth", "digital signature"]);
        let check = |request: ParsedRequest| request.validate_kubelet_client(&client);
        assert_eq!(check(node()), Ok(()));
        let refused = |why: &str| Err(why.to_owned());
        let request = ParsedRequest { dns_names: 1, ..node() };
        assert_eq!(check(request), refused("DNS subjectAltNames are not allowed"));
        let request = ParsedRequest { ip_addresses: 1, ..node() };
        assert_eq!(check(request), refused("IP subjectAltNames are not allowed"));
        let request = ParsedRequest { organizations: Vec::new(), ..node() };
        assert_eq!(check(request), refused("subject organization is not system:nodes"));
        let request = ParsedRequest { common_name: "n".to_owned(), ..node() };
        assert_eq!(check(request), refused("subject common name does not begin with system:node:"));
        let why = "usages did not match [client auth digital signature key encipherment]";
        assert_eq!(node().validate_kubelet_client(&usages(&["client auth"])), refused(why));
    }

    #[test]
    fn a_serving_certificate_of_a_kubelet_has_an_address() {
        let serving = usages(&["server auth", "digital signature", "key encipherment"]);
        let why = "DNS or IP subjectAltName is required".to_owned();
        assert_eq!(node().validate_kubelet_serving(&serving), Err(why));
        let request = ParsedRequest { ip_addresses: 1, ..node() };
        assert_eq!(request.validate_kubelet_serving(&serving), Ok(()));
    }

    #[test]
    fn a_client_certificate_has_the_usage_of_a_client() {
        assert_eq!(validate_client_usages(&usages(&["client auth", "digital signature"])), Ok(()));
        let why = "invalid usage for client certificate: server auth".to_owned();
        assert_eq!(validate_client_usages(&usages(&["client auth", "server auth"])), Err(why));
        let why = "missing required usage for client certificate: client auth".to_owned();
        assert_eq!(validate_client_usages(&usages(&["digital signature"])), Err(why));
    }
}
