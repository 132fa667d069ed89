//! [`Server`]: a plane from its start to its end.

use crate::admission::{
    self, Admission, Allocations, BadCidr, BadPlugins, Plugins, Policies, Webhooks,
};
use crate::aggregation::{self, Aggregation};
use crate::authentication::service_account::{self, TokenSigner};
use crate::authentication::{Authenticator, MASTERS, User};
use crate::authorization::Authorizers;
use crate::catalog::{Catalog, Served};
use crate::certificates::{self, Authority, Certified};
use crate::config::{Config, StoreConfig};
use crate::crd;
use crate::door::Door;
use crate::flow_control::FlowControl;
use crate::metrics::Metrics;
use crate::outbound::{Identity, Outbound};
use crate::plane::Plane;
use crate::watch_cache::WatchCache;
use crate::{bootstrap, listen};
use arc_swap::ArcSwap;
use keel::{Clock, Offload, Tasks, Unclean};
use schema::PatternPool;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::{Embedded, Memory, Options, Store};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// How long a stop may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// Names under which pods and people know an API server.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// A running plane.
pub struct Server {
    plane: Arc<Plane>,
    address: Option<SocketAddr>,
    /// The store and the watch cache outlive the tasks that use them.
    store_tasks: Tasks,
}

/// Why a plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The message says what to do about the data directory.
    #[error("cannot open the store")]
    Store(#[from] store::Error),
    /// See there.
    #[error("cannot set up certificates")]
    Certificates(#[from] certificates::Error),
    /// See there.
    #[error("cannot set up service account tokens")]
    Tokens(#[from] service_account::Error),
    /// Choose another address or port, or stop who has it.
    #[error("cannot listen on {address}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// See there.
    #[error("cannot serve TLS")]
    Listen(#[from] listen::Error),
    /// Choose another network.
    #[error("cannot use the service network")]
    ServiceCidr(#[from] BadCidr),
    /// Choose other plugins.
    #[error("cannot use these admission plugins")]
    Plugins(#[from] BadPlugins),
    /// See there.
    #[error("cannot prepare the plane")]
    Bootstrap(#[from] bootstrap::Error),
}

impl Server {
    /// Starts a plane and returns when it is ready.
    pub async fn start(config: Config) -> Result<Self, Error> {
        Self::start_with(config, open).await
    }

    /// Starts a plane on a store that the caller has opened, in place of the one that `config`
    /// names. The store is closed when the plane stops; certificates and keys are kept in memory.
    pub async fn start_on(config: Config, store: Arc<dyn Store>) -> Result<Self, Error> {
        let opened = |config: &Config, _: &Tasks| {
            Ok((store, Authority::new(config.clock.now())?, TokenSigner::new()?))
        };
        Self::start_with(config, opened).await
    }

    /// The plane itself.
    #[cfg(test)]
    pub(crate) fn plane(&self) -> &Arc<Plane> {
        &self.plane
    }

    async fn start_with(
        config: Config,
        open: impl FnOnce(&Config, &Tasks) -> Result<Opened, Error>,
    ) -> Result<Self, Error> {
        let plugins = Plugins::choose(&config.enabled_plugins, &config.disabled_plugins)?;
        // Before anything is opened, so that a port that is taken is told at once.
        let listener = match config.listen {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        let store_tasks = Tasks::new();
        let now = config.clock.now();
        let (store, authority, signer) = open(&config, &store_tasks)?;
        let tasks = Tasks::new();
        let builtin = kinds::table::builtin();
        let prefixes: Vec<String> = builtin.iter().map(|it| it.prefix.clone()).collect();
        // Requests that are finished while the plane stops read what they have written.
        let cache =
            WatchCache::start(Arc::clone(&store), &prefixes, &config.clock, &store_tasks).await?;
        let served = builtin
            .into_iter()
            .map(|it| {
                let of = cache.of_prefix(&it.prefix);
                Arc::new(Served::new(it, of))
            })
            .collect();
        let front_proxy = authority.client(aggregation::FRONT_PROXY, &[], now)?;
        let front_proxy =
            Identity { certificate: front_proxy.certificate.into(), key: front_proxy.key.into() };
        let plane = Arc::new(Plane {
            clock: config.clock.clone(),
            entropy: config.entropy.clone(),
            store,
            cache,
            catalog: ArcSwap::from_pointee(Catalog::new(served)),
            patterns: PatternPool::default(),
            catalog_changed: watch::Sender::new(()),
            definitions_served: watch::Sender::new(0),
            authenticator: Authenticator { tokens: config.tokens, signer },
            authorizers: Authorizers::new(&config.authorizers),
            authority,
            flow: FlowControl::new(config.max_reads, config.max_writes),
            offload: Offload::for_half_of_the_processors(),
            timeouts: config.timeouts,
            metrics: Metrics::new(),
            admission: Admission::new(plugins),
            allocations: Allocations::new(&config.service_cidr)?,
            policies: Policies::default(),
            outbound: Outbound::default(),
            aggregation: Aggregation::new(front_proxy),
            webhooks: Webhooks::default(),
            tasks,
            ready: AtomicBool::new(false),
        });
        crd::start(&plane);
        bootstrap::bootstrap(&plane).await?;
        plane.tasks.spawn("system-objects", bootstrap::keep(Arc::clone(&plane)));
        plane.tasks.spawn("quotas", admission::keep_quotas_true(Arc::clone(&plane)));
        plane.tasks.spawn("policies", admission::keep_policies_checked(Arc::clone(&plane)));
        let address = listener.as_ref().and_then(|it| it.local_addr().ok());
        if let (Some(listener), Some(address)) = (listener, address) {
            let service_ip = plane.allocations.first_address().parse::<IpAddr>().ok();
            let addresses: Vec<IpAddr> = [IpAddr::from([127, 0, 0, 1]), address.ip()]
                .into_iter()
                .chain(service_ip)
                .chain(["::1".parse().expect("it is an address")])
                .collect();
            let certified = plane.authority.serving(&NAMES, &addresses, now)?;
            let tls = listen::tls(&certified, plane.authority.certificate())?;
            plane.tasks.spawn("listen", listen::serve(Arc::clone(&plane), listener, tls));
        }
        plane.ready.store(true, Ordering::Release);
        aggregation::start(&plane);
        Ok(Self { plane, address, store_tasks })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The certificate that clients trust, in PEM.
    pub fn authority(&self) -> &str {
        self.plane.authority.certificate()
    }

    /// A certificate for somebody who may do everything.
    pub fn admin(&self) -> Result<Certified, certificates::Error> {
        let now = self.plane.clock.now();
        self.plane.authority.client("sampan-admin", &[MASTERS], now)
    }

    /// The in-process door, for somebody who may do everything.
    pub fn door(&self) -> Door {
        let user = User::authenticated("sampan-admin", "", vec![MASTERS.to_owned()]);
        Door::new(Arc::clone(&self.plane), user)
    }

    /// Lets what is under way finish, then stops everything, the store last.
    pub async fn stop(self) -> Result<(), Unclean> {
        let stopped = self.plane.tasks.stop(PATIENCE).await;
        if let Err(error) = self.plane.store.close().await {
            tracing::error!(%error, "cannot close the store");
        }
        stopped.and(self.store_tasks.stop(PATIENCE).await)
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

type Opened = (Arc<dyn Store>, Authority, TokenSigner);

fn open(config: &Config, tasks: &Tasks) -> Result<Opened, Error> {
    let clock: &Clock = &config.clock;
    match &config.store {
        StoreConfig::Memory => {
            let store = Memory::open(Options::default(), clock, tasks);
            Ok((store, Authority::new(clock.now())?, TokenSigner::new()?))
        }
        StoreConfig::Embedded(directory) => {
            let store = Embedded::open(&directory.join("store"), Options::default(), clock, tasks)?;
            let keys = directory.join("pki");
            Ok((store, Authority::open(&keys, clock.now())?, TokenSigner::open(&keys)?))
        }
    }
}
