//! [`Server`]: starts and stops a plane.

mod authentication;
mod authorization;
mod authority_rotation;
mod data_directory;
mod error;
mod follow_encryption;
mod keys;
mod serving_tls;
pub mod bootstrap;
pub mod signing_keys;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::admission;
use crate::admission::{Admission, Plugins};
use crate::audit;
use crate::audit::Auditor;
use crate::auth::attempt_metrics::AttemptMetrics;
use crate::auth::authentication::Authenticator;
use crate::auth::authorization::masters;
use crate::auth::impersonation::LastModes;
use crate::auth::metrics::{ServiceAccountMetrics, TlsMetrics};
use crate::cache::watch_cache::WatchCache;
use crate::certificates;
use crate::certificates::Authority;
use crate::chain::Chain;
use crate::config::{Config, StoreConfig};
use crate::encryption::{EncryptedStore, Encryption};
use crate::extensions::aggregation;
use crate::extensions::aggregation::Aggregation;
use crate::extensions::crd;
use crate::flow_control::FlowControl;
use crate::in_process::InProcessClient;
use crate::in_process::handler::Handler;
use crate::in_process::loopback;
use crate::in_process::loopback::LoopbackClient;
use crate::listen;
use crate::listen::ListenerState;
use crate::metrics::Metrics;
use crate::outbound::Outbound;
use crate::plane::Plane;
use crate::plane::health_checks::{CheckScope, HealthCheck, HealthChecks, NamedCheck};
use crate::rbac::rule_resolver::RuleResolver;
use crate::registry::service_address::{ServiceAddresses, ServiceAllocator};
use crate::storage::Storage;
use crate::storage::catalog::{Catalog, ServedResource};
use crate::storage::conversion::ConversionMetrics;
use crate::storage::hooks::Hooks;
use crate::storage::service_resolver::ResolvedServices;
use bootstrap::{kubernetes_endpoints, legacy_token_tracking};
use keel::{Entropy, Offload, Tasks, UncleanStop};
use keys::Keys;
use kinds::runtime_config::RuntimeConfig;
use schema::PatternPool;
use serving_tls::ServingTls;
use signing_keys::SigningKeys;
use store::{Embedded, Memory, Options, Store};
use tls::Certified;
use types::Resource;

pub use error::Error;

/// The time limit for the tasks of a plane to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// A running plane.
pub struct Server {
    chain: Arc<Chain>,
    address: Option<SocketAddr>,
    /// The store and the watch cache outlive the tasks that use them.
    store_tasks: Tasks,
}

impl Server {
    /// Starts a plane and returns when it is ready.
    pub async fn start(config: Config) -> Result<Self, Error> {
        Self::start_with(config, open_store, Keys::open).await
    }

    /// Starts a plane on a store that the caller has opened, instead of the one of `config`. The store
    /// is closed when the plane stops; certificates and keys are kept in memory.
    pub async fn start_on(config: Config, store: Arc<dyn Store>) -> Result<Self, Error> {
        Self::start_with(config, |_, _| Ok(store), Keys::generate).await
    }

    /// The plane.
    #[cfg(test)]
    pub(crate) fn plane(&self) -> &Arc<Plane> {
        &self.chain.plane
    }

    async fn start_with(
        config: Config,
        open_store: impl FnOnce(&Config, &Tasks) -> Result<Arc<dyn Store>, Error>,
        open_keys: fn(&Config) -> Result<Keys, Error>,
    ) -> Result<Self, Error> {
        // Before anything is opened, so that an invalid configuration is reported at once.
        let plugins = Plugins::select(
            &config.enabled_plugins,
            &config.disabled_plugins,
            config.require_service_accounts,
        )?;
        let mut builtin = kinds::table::builtin();
        let (tasks, store_tasks) = (Tasks::new(), Tasks::new());
        let encryption = Encryption::start(
            config.encryption.as_ref(),
            &builtin,
            &config.clock,
            &config.entropy,
            &store_tasks,
        )
        .await?;
        RuntimeConfig::parse(&config.runtime_config)?.apply(&mut builtin)?;
        let service_allocator = ServiceAllocator::new(&config.service_cidr)?;
        kubernetes_endpoints::check_address(config.advertise_address)?;
        let listener = match config.listen {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        let address = listener.as_ref().and_then(|it| it.local_addr().ok());
        let store = encryption.wrap(open_store(&config, &store_tasks)?);
        let parts = PlaneParts {
            store: Arc::clone(&store),
            encryption,
            store_tasks: store_tasks.clone(),
            tasks: tasks.clone(),
            plugins,
            builtin,
            service_allocator,
            addresses: Addresses::new(&config, address),
        };
        // Kept until the tasks have stopped, which make requests.
        let mut running = None;
        let started = Box::pin(async {
            let chain = running.insert(start_plane(&config, open_keys(&config)?, parts).await?);
            if let (Some(listener), Some(address)) = (listener, address) {
                serve(chain, &config, listener, address)?;
            }
            Ok::<_, Error>(Arc::clone(chain))
        })
        .await;
        match started {
            Ok(chain) => {
                let plane = &chain.plane;
                plane.ready.store(true, Ordering::Release);
                aggregation::start(&plane.aggregation, plane.loopback.clone());
                Ok(Self { chain, address, store_tasks })
            }
            Err(error) => {
                if let Err(unclean) = close(&tasks, &*store, &store_tasks).await {
                    tracing::warn!(%unclean, "a plane that did not start did not stop in time");
                }
                Err(error)
            }
        }
    }

    /// The address on which the plane listens; None if it has no listener.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The certificates of the plane's authority and of those that it has replaced, which clients
    /// trust, in PEM.
    pub fn authority(&self) -> String {
        self.chain.plane.root_bundle.borrow().clone()
    }

    /// The same certificates, and their changes.
    pub fn watch_authority(&self) -> watch::Receiver<String> {
        self.chain.plane.root_bundle.subscribe()
    }

    /// The same certificates once the listener uses them: from then on it accepts certificates of the
    /// new authority.
    pub fn watch_served_authority(&self) -> watch::Receiver<String> {
        self.chain.plane.served_bundle.subscribe()
    }

    /// A client certificate of a member of `system:masters`.
    pub fn admin(&self) -> Result<Certified, certificates::Error> {
        let now = self.chain.plane.storage.clock.now();
        self.chain.plane.authority.load().client("sampan-admin", &masters::GROUPS, now)
    }

    /// Signs with the keys of the plane, for controllers that must not have the keys.
    pub fn signing_keys(&self) -> SigningKeys {
        SigningKeys::new(Arc::clone(&self.chain.plane))
    }

    /// An in-process client of a member of `system:masters`, the user of [`admin`](Self::admin).
    pub fn in_process_client(&self) -> InProcessClient {
        let handler: Arc<dyn Handler> = Arc::<Chain>::clone(&self.chain);
        InProcessClient::new(handler, masters::member("sampan-admin"))
    }

    /// An in-process client for requests of the process itself. Its user may do everything, and is the
    /// one of the server's own requests, so that nobody takes them for those of a person.
    pub fn loopback_client(&self) -> InProcessClient {
        let handler: Arc<dyn Handler> = Arc::<Chain>::clone(&self.chain);
        InProcessClient::new(handler, loopback::user())
    }

    /// The root of the tasks of components in this process, such as controllers, which leave a thread
    /// to users while any is active ([`keel::ThreadShare`]). They are not stopped with the server.
    pub fn component_tasks(&self) -> Tasks {
        Tasks::within(Arc::clone(&self.chain.plane.flow_control.component_threads))
    }

    /// Adds a check to `/healthz`, `/livez` and `/readyz`, or replaces the one with this name. It
    /// returns the reason if it fails, and must not block.
    ///
    /// ```no_run
    /// # fn example(server: &apiserver::Server) {
    /// server.add_health_check("disk", || Err("full".to_owned()));
    /// # }
    /// ```
    pub fn add_health_check(
        &self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.add_check(name, CheckScope::Health, Arc::new(check));
    }

    /// Adds a check to `/readyz` only, or replaces the one with this name.
    pub fn add_readiness_check(
        &self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.add_check(name, CheckScope::Readiness, Arc::new(check));
    }

    /// Adds the health of a component that runs in this process: `componentstatuses` shows
    /// `scheduler` or `controller-manager` with it, instead of asking the port of another process.
    ///
    /// ```no_run
    /// # fn example(server: &apiserver::Server) {
    /// server.add_component_check("scheduler", || Ok(()));
    /// # }
    /// ```
    pub fn add_component_check(
        &self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.add_check(name, CheckScope::Component, Arc::new(check));
    }

    fn add_check(&self, name: &str, scope: CheckScope, check: HealthCheck) {
        self.chain.plane.health_checks.add(NamedCheck { name: name.to_owned(), scope, check });
    }

    /// Adds a source of metrics in Prometheus' text format to `/metrics`. Families that the server or
    /// an earlier source has are left out.
    ///
    /// ```no_run
    /// # fn example(server: &apiserver::Server) {
    /// server.add_metrics(|| "# TYPE answers gauge\nanswers 42\n".to_owned());
    /// # }
    /// ```
    pub fn add_metrics(&self, source: impl Fn() -> String + Send + Sync + 'static) {
        self.chain.plane.metrics.sources.add(Box::new(source));
    }

    /// Waits for requests in progress, then stops all tasks, and the store last.
    pub async fn stop(self) -> Result<(), UncleanStop> {
        let storage = &self.chain.plane.storage;
        close(&storage.tasks, &*storage.store, &self.store_tasks).await
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::Bind { address, source })
}

/// Stops the tasks of a plane, closes its store, and stops the store's tasks.
async fn close(tasks: &Tasks, store: &dyn Store, store_tasks: &Tasks) -> Result<(), UncleanStop> {
    let stopped = tasks.stop(STOP_TIMEOUT).await;
    if let Err(error) = store.close().await {
        tracing::error!(error = error.with_causes(), "cannot close the store");
    }
    stopped.and(store_tasks.stop(STOP_TIMEOUT).await)
}

/// The number of secrets that wait for the label with the date of their use.
const USED_SECRETS: usize = 64;

/// The subdirectory of the store in the data directory.
const STORE_DIRECTORY: &str = "store";

/// A description of the process that has opened the data in `directory`, if there is one.
pub fn data_holder(directory: &Path) -> Option<String> {
    Embedded::holder(&directory.join(STORE_DIRECTORY))
}

fn open_store(config: &Config, tasks: &Tasks) -> Result<Arc<dyn Store>, Error> {
    let options = Options { quota_bytes: config.quota_bytes, ..Options::default() };
    let clock = &config.clock;
    Ok(match &config.store {
        StoreConfig::Memory => Memory::open(options, clock, tasks),
        StoreConfig::Embedded(directory) => {
            Embedded::open(&directory.join(STORE_DIRECTORY), options, clock, tasks)?
        }
    })
}

/// The components of a plane, besides its configuration and keys.
struct PlaneParts {
    store: Arc<EncryptedStore>,
    encryption: Encryption,
    store_tasks: Tasks,
    tasks: Tasks,
    plugins: Plugins,
    builtin: Vec<Resource>,
    service_allocator: ServiceAllocator,
    addresses: Addresses,
}

/// The addresses that a server names.
struct Addresses {
    /// The address for pods: of the endpoints of the service `kubernetes`.
    advertised: Option<SocketAddr>,
    /// The address of the keys that verify tokens.
    key_set: Option<SocketAddr>,
}

impl Addresses {
    fn new(config: &Config, listening: Option<SocketAddr>) -> Self {
        let configured = config.advertise_address;
        let advertised = listening.and_then(|it| kubernetes_endpoints::advertised(configured, it));
        // A server on loopback is not reached at another address.
        let local = listening.filter(|it| it.ip().is_loopback() && configured.is_none());
        Self { advertised, key_set: local.or(advertised) }
    }
}

/// Creates a plane and its initial objects. It does not listen yet.
async fn start_plane(config: &Config, keys: Keys, parts: PlaneParts) -> Result<Arc<Chain>, Error> {
    let Keys { authority, files, signer } = keys;
    let PlaneParts {
        store,
        encryption,
        store_tasks,
        tasks,
        plugins,
        builtin,
        service_allocator,
        addresses,
    } = parts;
    let mut metrics = Registry::default();
    encryption.register_metrics(&mut metrics);
    let audit = start_audit(config, &store_tasks, &mut metrics)?;
    let cache = start_cache(config, &builtin, &store, &store_tasks).await?;
    let catalog = builtin_catalog(builtin, &cache, &service_allocator, &config.entropy);
    let storage = Arc::new(storage(config, tasks, store, cache, catalog, &mut metrics));
    let front_proxy = authority_rotation::front_proxy(&authority, config.clock.now())?;
    let has_roles = authorization::has_roles(&config.authorizers);
    let rules = has_roles.then(|| Arc::new(RuleResolver::new(&storage)));
    let authorizers =
        authorization::start(&config.authorizers, rules.as_ref(), &storage, &mut metrics);
    let admission = Admission::new(plugins, authorizers.clone(), rules, &mut metrics);
    let flow_control = Arc::new(flow_control(config, &storage.tasks, &mut metrics));
    let (used_secrets, uses) = mpsc::channel(USED_SECRETS);
    let client_authorities = client_authorities(config, &authority)?;
    let issuer_discovery = authentication::issuer_discovery(&signer, addresses.key_set);
    let remote = authentication::remote_authenticators(config, &signer, &storage, &mut metrics)?;
    let authenticator = Authenticator {
        tokens: config.tokens.clone(),
        anonymous: config.anonymous.clone(),
        signer,
        used_secrets,
        remote,
        metrics: ServiceAccountMetrics::new(&mut metrics),
    };
    let chain = Arc::new_cyclic(|chain: &Weak<Chain>| {
        let loopback = LoopbackClient::new(Weak::clone(chain) as Weak<dyn Handler>);
        let plane = Plane {
            authenticator,
            issuer_discovery,
            authorizers,
            impersonation_modes: LastModes::default(),
            audit,
            has_roles,
            client_authorities: ArcSwap::from_pointee(client_authorities),
            proxy_authorities: ArcSwap::from_pointee(proxy_authorities(config)),
            tls_metrics: Arc::new(TlsMetrics::new(&mut metrics)),
            attempts: AttemptMetrics::new(&mut metrics),
            request_header: config.request_header.clone(),
            root_bundle: watch::Sender::new(authority.bundle().to_owned()),
            served_bundle: watch::Sender::new(authority.bundle().to_owned()),
            authority: ArcSwap::from_pointee(authority),
            flow_control,
            timeouts: config.timeouts,
            metrics: Metrics::new(metrics),
            admission: Arc::new(admission),
            service_allocator,
            aggregation: Arc::new(Aggregation::new(
                Arc::clone(&storage),
                front_proxy,
                config.in_process_services.clone(),
            )),
            loopback,
            storage,
            advertised: addresses.advertised,
            health_checks: HealthChecks::default(),
            ready: AtomicBool::new(false),
        };
        Chain { plane: Arc::new(plane) }
    });
    follow_encryption::spawn(&chain.plane, encryption, &store_tasks);
    start_tasks(&chain.plane, config).await?;
    let rotation = authority_rotation::run(Arc::clone(&chain.plane), files);
    chain.plane.storage.tasks.spawn("authority-rotation", rotation);
    let tracking = legacy_token_tracking::label_used_secrets(Arc::clone(&chain.plane), uses);
    chain.plane.storage.tasks.spawn("legacy-token-tracking", tracking);
    Ok(chain)
}

/// The authorities of client certificates, in PEM, none of which is one of proxies.
fn client_authorities(config: &Config, authority: &Authority) -> Result<String, Error> {
    let clients = config.client_authorities.with_own(authority.bundle());
    if let Some(settings) = &config.request_header {
        settings.check_overlap(settings.authorities.bundle(), &clients)?;
    }
    Ok(clients)
}

/// The authorities of proxies that authenticate users, in PEM.
fn proxy_authorities(config: &Config) -> String {
    let settings = config.request_header.as_ref();
    settings.map_or_else(String::new, |it| it.authorities.bundle().to_owned())
}

/// The storage of a plane, whose store and cache are open.
fn storage(
    config: &Config,
    tasks: Tasks,
    store: Arc<EncryptedStore>,
    cache: Arc<WatchCache>,
    catalog: Catalog,
    metrics: &mut Registry,
) -> Storage {
    Storage {
        clock: config.clock.clone(),
        entropy: config.entropy.clone(),
        tasks,
        offload: Offload::for_half_of_the_processors(),
        store: Arc::<EncryptedStore>::clone(&store),
        encryption: store,
        cache,
        catalog: ArcSwap::from_pointee(catalog),
        catalog_changed: watch::Sender::new(()),
        crds_served: watch::Sender::new(0),
        patterns: PatternPool::default(),
        outbound: Outbound::default(),
        resolved_services: ResolvedServices::default(),
        conversion: ConversionMetrics::new(metrics),
    }
}

/// Opens the backends of the audit log. Their tasks stop with those of the store, after all requests.
fn start_audit(
    config: &Config,
    tasks: &Tasks,
    metrics: &mut Registry,
) -> Result<Option<Arc<Auditor>>, audit::LogError> {
    Auditor::start(config.audit.as_ref(), &config.clock, &config.entropy, tasks, metrics)
}

fn flow_control(config: &Config, tasks: &Tasks, metrics: &mut Registry) -> FlowControl {
    FlowControl::new(config.max_reads, config.max_writes, config.fairness, tasks, metrics)
}

/// Starts the watch cache. Its tasks stop with those of the store, since requests that finish while
/// the plane stops still read what they have written.
async fn start_cache(
    config: &Config,
    builtin: &[Resource],
    store: &Arc<EncryptedStore>,
    tasks: &Tasks,
) -> Result<Arc<WatchCache>, Error> {
    let prefixes: Vec<String> = builtin.iter().map(|it| it.prefix.clone()).collect();
    let store = Arc::<EncryptedStore>::clone(store);
    Ok(WatchCache::start(store, &prefixes, &config.clock, tasks).await?)
}

/// The built-in resources, with their hooks.
fn builtin_catalog(
    builtin: Vec<Resource>,
    cache: &WatchCache,
    service_allocator: &ServiceAllocator,
    entropy: &Entropy,
) -> Catalog {
    let served = builtin.into_iter().map(|resource| {
        let objects = cache.get_or_create(&resource.prefix);
        let (group, plural) = (&*resource.group, &*resource.plural);
        let mut hooks = Hooks {
            validate: admission::validation_hook(group, plural)
                .or_else(|| crd::validation_hook(group)),
            validate_status: admission::status_validation_hook(group, plural),
            ..Hooks::default()
        };
        if resource.group.is_empty() && resource.plural == "services" {
            hooks.begin_write = Some(Box::new(ServiceAddresses {
                allocator: service_allocator.clone(),
                services: Arc::clone(&objects),
                prefix: resource.prefix.clone(),
                entropy: entropy.clone(),
            }));
        }
        Arc::new(ServedResource::new(resource, objects).with_hooks(hooks))
    });
    Catalog::new(served.collect())
}

/// Starts the background tasks, and creates the objects that every plane has.
async fn start_tasks(plane: &Arc<Plane>, config: &Config) -> Result<(), Error> {
    let (storage, client) = (&plane.storage, &plane.loopback);
    data_directory::spawn(plane, &config.store);
    crd::start(storage, client.clone());
    if let Some((key, reason)) = bootstrap::undecryptable_namespace(storage).await {
        return Err(Error::Undecryptable { key, reason });
    }
    bootstrap::bootstrap(plane).await?;
    storage.tasks.spawn("system-objects", bootstrap::maintain(Arc::clone(plane)));
    let flow_control = bootstrap::flow_configuration::maintain(Arc::clone(plane));
    storage.tasks.spawn("flow-control", flow_control);
    if config.writes_quota_status {
        let admission = Arc::clone(&plane.admission);
        let quotas =
            admission::run_quota_status_controller(Arc::clone(storage), admission, client.clone());
        storage.tasks.spawn("quotas", quotas);
    }
    if config.writes_policy_status {
        let policies = admission::run_policy_status_controller(Arc::clone(storage), client.clone());
        storage.tasks.spawn("policies", policies);
    }
    Ok(())
}

/// Starts to accept connections at `address`, on which `listener` listens.
fn serve(
    chain: &Arc<Chain>,
    config: &Config,
    listener: TcpListener,
    address: SocketAddr,
) -> Result<(), Error> {
    let plane = &chain.plane;
    let tls = ServingTls::new(plane, config, address.ip()).start()?;
    let listener_state = ListenerState {
        handler: Arc::<Chain>::clone(chain),
        flow_control: Arc::clone(&plane.flow_control),
        tls,
        tls_metrics: Arc::clone(&plane.tls_metrics),
        timeouts: plane.timeouts,
        clock: plane.storage.clock.clone(),
        tasks: plane.storage.tasks.clone(),
    };
    plane.storage.tasks.spawn("listen", listen::serve(listener_state, listener));
    Ok(())
}
