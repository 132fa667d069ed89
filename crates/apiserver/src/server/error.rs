//! [`Error`]: the reasons why a plane does not start.

use std::net::SocketAddr;

use super::bootstrap;
use super::bootstrap::kubernetes_endpoints::InvalidAdvertiseAddress;
use crate::admission::PluginSelectionError;
use crate::audit;
use crate::auth::authentication::client_authorities;
use crate::auth::authentication::oidc;
use crate::auth::authentication::request_header;
use crate::auth::authentication::service_account;
use crate::certificates;
use crate::certificates::tls_settings::KeyPairError;
use crate::encryption::config_file;
use crate::listen;
use crate::registry::service_address::InvalidServiceCidr;
use kinds::runtime_config::RuntimeConfigError;

/// The reason why a plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cause explains what to do about the data directory.
    #[error("cannot open the store")]
    Store(#[from] store::Error),
    /// See [`config_file::Error`].
    #[error("cannot set up encryption at rest")]
    Encryption(#[from] config_file::Error),
    /// See [`certificates::Error`].
    #[error("cannot set up certificates")]
    Certificates(#[from] certificates::Error),
    /// See [`service_account::Error`].
    #[error("cannot set up service account tokens")]
    Tokens(#[from] service_account::Error),
    /// See [`request_header::Error`].
    #[error("cannot accept authenticating proxies")]
    RequestHeader(#[from] request_header::Error),
    /// See [`oidc::Error`].
    #[error("cannot accept tokens of other issuers")]
    Oidc(#[from] oidc::Error),
    /// See [`client_authorities::Error`].
    #[error("cannot accept client certificates")]
    ClientAuthorities(#[from] client_authorities::Error),
    /// Name other files.
    #[error("cannot use the serving certificate")]
    ServingCertificate(#[from] KeyPairError),
    /// Choose another address or port, or stop the process that uses it.
    #[error("cannot listen on {address}")]
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// See [`listen::Error`].
    #[error("cannot serve TLS")]
    Listen(#[from] listen::Error),
    /// Choose another network.
    #[error("cannot use the service network")]
    ServiceCidr(#[from] InvalidServiceCidr),
    /// Choose another file.
    #[error("cannot record requests")]
    Audit(#[from] audit::LogError),
    /// Choose another address.
    #[error("cannot advertise the address of the server")]
    AdvertiseAddress(#[from] InvalidAdvertiseAddress),
    /// Choose other plugins.
    #[error("cannot use these admission plugins")]
    Plugins(#[from] PluginSelectionError),
    /// Choose other versions.
    #[error("cannot use this runtime configuration")]
    RuntimeConfig(#[from] RuntimeConfigError),
    /// Start with the encryption providers with which the objects were written.
    #[error("cannot decrypt the stored objects: {key}: {reason}")]
    Undecryptable {
        /// The key of one of them in the store.
        key: String,
        /// Why it cannot be decrypted.
        reason: String,
    },
    /// See [`bootstrap::Error`].
    #[error("cannot prepare the plane")]
    Bootstrap(#[from] bootstrap::Error),
}
