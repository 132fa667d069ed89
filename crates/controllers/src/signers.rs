//! [`Signers`]: functions that sign with the keys of the plane, which controllers do not have.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The account and the secret of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSubject {
    /// The namespace of the account and of the secret.
    pub namespace: String,
    /// The name of the account.
    pub account: String,
    /// The uid of the account.
    pub account_uid: String,
    /// The name of the secret.
    pub secret: String,
}

/// A certificate signing request that was approved and validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedRequest {
    /// The request, in PEM.
    pub request: Vec<u8>,
    /// The usages of the key, by Kubernetes' names.
    pub usages: Vec<String>,
    /// The lifetime of the certificate.
    pub lifetime: Duration,
}

/// The reason why nothing was signed.
pub type SignError = Box<dyn Error + Send + Sync>;

/// Returns the token of a service account for a secret.
pub type SignToken = Arc<dyn Fn(&TokenSubject) -> Result<String, SignError> + Send + Sync>;

/// Returns the certificate for a request, in PEM.
pub type SignCertificate = Arc<dyn Fn(&ApprovedRequest) -> Result<String, SignError> + Send + Sync>;

/// See the [module documentation](self).
#[derive(Clone)]
pub struct Signers {
    /// Signs tokens of service accounts.
    pub token: SignToken,
    /// Signs certificates of clients and of kubelets.
    pub certificate: SignCertificate,
    /// The common names with which the plane's authority certifies proxies. They may name any user to
    /// extension API servers, so no request gets a certificate with one of them.
    pub proxy_names: Vec<String>,
}

impl fmt::Debug for Signers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signers")
    }
}
