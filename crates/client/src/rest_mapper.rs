//! [`RestMapper`]: maps kinds to resources by the server's discovery.
//!
//! ```no_run
//! use client::{Mapping, RestMapper, RestMapperError};
//! use machinery::GroupVersionKind;
//!
//! # async fn example(client: kube_client::Client) -> Result<(), RestMapperError> {
//! let mapper = RestMapper::new(client, &keel::Clock::system());
//! match mapper.mapping(&GroupVersionKind::new("example.com", "v1", "Site")).await {
//!     Ok(Mapping { resource, .. }) => println!("/apis/example.com/v1/{resource}"),
//!     Err(RestMapperError::NoKindMatch(kind)) => println!("{kind} is not defined yet"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The resources of a group and version are cached. If a kind is not among them, its CRD may be
//! new: discovery is repeated, at most once a second for each group version.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube_client::Client;

use keel::{Clock, Timestamp};
use machinery::{GroupKind, GroupVersion, GroupVersionKind};

/// The minimum time between two discoveries of a group version.
const MIN_DISCOVERY_INTERVAL: Duration = Duration::from_secs(1);

/// The resource of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The kind, with its group and version.
    pub kind: GroupVersionKind,
    /// The plural, `deployments`.
    pub resource: String,
    /// Whether its objects are namespaced.
    pub is_namespaced: bool,
}

/// The reason why a kind has no resource.
#[derive(Debug, thiserror::Error)]
pub enum RestMapperError {
    /// The server does not serve the kind in this version.
    #[error("the server has no resource for {0}")]
    NoKindMatch(GroupVersionKind),
    /// The server does not serve the kind in any version.
    #[error("the server has no resource for {0} in any version")]
    NoVersion(GroupKind),
    /// The server could not be asked for its resources. Try again.
    #[error("discovery failed")]
    Discovery(#[source] Box<kube_client::Error>),
}

/// See the [module documentation](self).
pub struct RestMapper {
    client: Client,
    clock: Clock,
    cache: Mutex<HashMap<GroupVersion, DiscoveredResources>>,
}

/// The resources of a group version.
struct DiscoveredResources {
    discovered_at: Timestamp,
    mappings: Vec<Mapping>,
}

/// The mapping of a kind in the cache.
enum CachedMapping {
    Found(Mapping),
    /// The cache is recent: the server does not serve the kind.
    NotServed,
    /// The cache does not have the kind, and discovery must be repeated.
    Stale,
}

impl RestMapper {
    /// A mapper with an empty cache.
    pub fn new(client: Client, clock: &Clock) -> Self {
        Self { client, clock: clock.clone(), cache: Mutex::default() }
    }

    /// The resource of a kind in this version.
    pub async fn mapping(&self, kind: &GroupVersionKind) -> Result<Mapping, RestMapperError> {
        let group_version = kind.group_version();
        match self.look_up(&group_version, kind) {
            CachedMapping::Found(mapping) => return Ok(mapping),
            CachedMapping::NotServed => return Err(RestMapperError::NoKindMatch(kind.clone())),
            CachedMapping::Stale => {}
        }
        let mappings = self.discover(&group_version).await?;
        let found = mappings.iter().find(|mapping| mapping.kind == *kind).cloned();
        let discovered = DiscoveredResources { discovered_at: self.clock.now(), mappings };
        self.lock().insert(group_version, discovered);
        found.ok_or_else(|| RestMapperError::NoKindMatch(kind.clone()))
    }

    /// The resource of a kind in the version that the server prefers.
    pub async fn preferred(&self, kind: &GroupKind) -> Result<Mapping, RestMapperError> {
        for version in self.versions(&kind.group).await? {
            let kind = GroupVersionKind::new(&kind.group, &version, &kind.kind);
            match self.mapping(&kind).await {
                Err(RestMapperError::NoKindMatch(_)) => {}
                found => return found,
            }
        }
        Err(RestMapperError::NoVersion(kind.clone()))
    }

    fn look_up(&self, group_version: &GroupVersion, kind: &GroupVersionKind) -> CachedMapping {
        let cache = self.lock();
        let Some(discovered) = cache.get(group_version) else { return CachedMapping::Stale };
        let found = discovered.mappings.iter().find(|mapping| mapping.kind == *kind);
        let now = self.clock.now();
        let is_fresh = discovered.discovered_at <= now
            && now.since(discovered.discovered_at) < MIN_DISCOVERY_INTERVAL;
        match found {
            Some(mapping) => CachedMapping::Found(mapping.clone()),
            None if is_fresh => CachedMapping::NotServed,
            None => CachedMapping::Stale,
        }
    }

    /// The mappings of a group version; none if the server does not serve it.
    async fn discover(
        &self,
        group_version: &GroupVersion,
    ) -> Result<Vec<Mapping>, RestMapperError> {
        let listed = if group_version.group.is_empty() {
            self.client.list_core_api_resources(&group_version.version).await
        } else {
            self.client.list_api_group_resources(&group_version.to_string()).await
        };
        let list = match listed {
            Ok(list) => list,
            Err(kube_client::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
            Err(error) => return Err(RestMapperError::Discovery(Box::new(error))),
        };
        // Subresources are listed beside their resource, as `pods/status`.
        let resources = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
        Ok(resources
            .map(|resource| Mapping {
                kind: GroupVersionKind::new(
                    &group_version.group,
                    &group_version.version,
                    &resource.kind,
                ),
                resource: resource.name,
                is_namespaced: resource.namespaced,
            })
            .collect())
    }

    /// The versions of a group, the preferred one first.
    async fn versions(&self, group: &str) -> Result<Vec<String>, RestMapperError> {
        let discovery = |error| RestMapperError::Discovery(Box::new(error));
        if group.is_empty() {
            let versions = self.client.list_core_api_versions().await.map_err(discovery)?;
            return Ok(versions.versions);
        }
        let groups = self.client.list_api_groups().await.map_err(discovery)?.groups;
        let found = groups.into_iter().find(|it| it.name == group);
        let Some(found) = found else { return Ok(Vec::new()) };
        let preferred = found.preferred_version.map(|version| version.version);
        let others = found.versions.into_iter().map(|version| version.version);
        let others = others.filter(|version| Some(version) != preferred.as_ref());
        Ok(preferred.clone().into_iter().chain(others.collect::<Vec<_>>()).collect())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<GroupVersion, DiscoveredResources>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
