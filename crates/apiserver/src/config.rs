//! [`Config`]: all settings of a server.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::audit::AuditSettings;
use crate::auth::authentication::anonymous::Anonymous;
use crate::auth::authentication::client_authorities::ClientAuthorities;
use crate::auth::authentication::oidc::OidcSettings;
use crate::auth::authentication::request_header::RequestHeaderSettings;
use crate::auth::authentication::service_account::ServiceAccountSettings;
use crate::auth::authentication::token::TokenFile;
use crate::auth::authentication::token_webhook::TokenWebhookSettings;
use crate::auth::authorization::Authorizer;
use crate::auth::authorization::configuration::AuthorizationFile;
use crate::auth::authorization::webhook::WebhookAuthorizerSettings;
use crate::certificates::tls_settings::TlsSettings;
use crate::encryption::EncryptionSettings;
use crate::flow_control::Fairness;
use crate::outbound::in_process_services::InProcessServices;
use keel::{Clock, Entropy};

/// The store of a plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreConfig {
    /// Objects are in memory only, and are lost when the process ends.
    Memory,
    /// Objects are stored in this directory.
    Embedded(PathBuf),
}

/// The time-outs for clients. A client that takes longer is refused or disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// The time for the TLS handshake.
    pub handshake: Duration,
    /// The time for the head of a request, from the handshake or from the previous answer.
    pub head: Duration,
    /// The time from the head of a request to its answer, unless that is a watch.
    pub request: Duration,
    /// The time in which the client must read the next part of an answer. A watch has five times as
    /// long.
    pub answer: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            request: Duration::from_mins(1),
            answer: Duration::from_mins(1),
        }
    }
}

/// An authorizer of a plane.
#[derive(Debug, Clone)]
pub enum AuthorizerConfig {
    /// The rights of roles and their bindings. The server creates Kubernetes' own ones.
    Rbac,
    /// The rights of nodes, the users `system:node:NAME` of the group `system:nodes`: they read what
    /// their own pods refer to.
    Node,
    /// Another server.
    Webhook(Box<WebhookAuthorizerSettings>),
    /// The authorizers that a file names. They change with the file.
    File(Arc<AuthorizationFile>),
    /// An authorizer that needs nothing of the plane.
    Other(Arc<dyn Authorizer>),
}

impl<A: Authorizer + 'static> From<Arc<A>> for AuthorizerConfig {
    fn from(authorizer: Arc<A>) -> Self {
        Self::Other(authorizer)
    }
}

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub struct Config {
    /// The address to listen on; port 0 picks a free port. If None, only in-process clients can reach
    /// the server.
    pub listen: Option<SocketAddr>,
    /// The address of the endpoints of the service `kubernetes`, which pods use to reach this server.
    /// If None, it is the address on which the server listens, or, if that is a loopback address or
    /// all addresses, the one from which this machine sends.
    pub advertise_address: Option<IpAddr>,
    /// Additional host names and addresses for the serving certificate, besides the address on which
    /// the server listens and the names that every plane has.
    pub serving_names: Vec<String>,
    /// The serving certificates, versions and cipher suites of TLS.
    pub tls: TlsSettings,
    /// The store of the objects.
    pub store: StoreConfig,
    /// Encrypts stored objects, if there are settings for it.
    pub encryption: Option<EncryptionSettings>,
    /// The maximum total size of all stored objects, which are in memory, in bytes.
    pub quota_bytes: usize,
    /// The authorities whose client certificates are accepted, besides that of the plane.
    pub client_authorities: ClientAuthorities,
    /// The proxies that authenticate users, if there are any.
    pub request_header: Option<Arc<RequestHeaderSettings>>,
    /// The static bearer tokens.
    pub tokens: TokenFile,
    /// Keys, issuers and lifetimes of service account tokens.
    pub service_accounts: ServiceAccountSettings,
    /// The other issuers whose tokens are accepted, if there are any.
    pub oidc: Option<OidcSettings>,
    /// The server that is asked about tokens which this one does not accept itself, if there is one.
    pub token_webhook: Option<TokenWebhookSettings>,
    /// What becomes of requests without credentials.
    pub anonymous: Anonymous,
    /// The authorizers that are called in turn after that of `system:masters`; at most one is a file.
    /// Without [`AuthorizerConfig::Rbac`], all users have the default rules.
    pub authorizers: Vec<AuthorizerConfig>,
    /// The record of requests; None if there is none.
    pub audit: Option<AuditSettings>,
    /// The network of the cluster IPs of services.
    pub service_cidr: String,
    /// Admission plugins that are enabled besides the default ones, by Kubernetes' names. With
    /// `ServiceAccount`, the service account of a pod must exist.
    pub enabled_plugins: Vec<String>,
    /// Default admission plugins that are disabled.
    pub disabled_plugins: Vec<String>,
    /// The versions of built-in kinds that are served, if that is not the default: pairs such as
    /// `api/beta=true`, as in kube-apiserver's `--runtime-config`.
    pub runtime_config: Vec<String>,
    /// Whether the service account of a pod must exist, as in Kubernetes. Set it if a controller
    /// creates the account `default` of each namespace.
    pub require_service_accounts: bool,
    /// Whether the server writes the usage of resource quotas to their status. They are enforced in
    /// any case.
    pub writes_quota_status: bool,
    /// Whether the server checks the types of validating admission policies, and writes the result to
    /// their status.
    pub writes_policy_status: bool,
    /// The services that are functions of this process, for aggregated APIs.
    pub in_process_services: InProcessServices,
    /// Whether requests have the priority levels and fair queues of the stored objects, which share
    /// `max_reads` and `max_writes` seats together. Without them, reads and writes beyond their limit
    /// are refused.
    pub fairness: Fairness,
    /// The maximum number of concurrent reads.
    pub max_reads: usize,
    /// The maximum number of concurrent writes.
    pub max_writes: usize,
    /// The time-outs for clients.
    pub timeouts: Timeouts,
    /// The plane's clock.
    pub clock: Clock,
    /// The plane's source of uids and random suffixes.
    pub entropy: Entropy,
}

impl Default for Config {
    /// A plane in memory that does not listen.
    fn default() -> Self {
        Self {
            listen: None,
            advertise_address: None,
            serving_names: Vec::new(),
            tls: TlsSettings::default(),
            store: StoreConfig::Memory,
            encryption: None,
            quota_bytes: store::Options::default().quota_bytes,
            client_authorities: ClientAuthorities::default(),
            request_header: None,
            tokens: TokenFile::default(),
            service_accounts: ServiceAccountSettings::default(),
            oidc: None,
            token_webhook: None,
            anonymous: Anonymous::Accepted,
            authorizers: Vec::new(),
            audit: None,
            service_cidr: "10.0.0.0/24".to_owned(),
            enabled_plugins: Vec::new(),
            disabled_plugins: Vec::new(),
            runtime_config: Vec::new(),
            require_service_accounts: false,
            writes_quota_status: true,
            writes_policy_status: true,
            in_process_services: InProcessServices::default(),
            fairness: Fairness::Enabled,
            max_reads: 400,
            max_writes: 200,
            timeouts: Timeouts::default(),
            clock: Clock::system(),
            entropy: Entropy::system(),
        }
    }
}
