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
//!     Err(RestMapperError::Unknown(kind)) => println!("{kind} is not defined yet"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The resources of a group and version are cached. If a kind is not among them, its CRD may be
//! new: discovery is repeated, at most once a second.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube_client::Client;

use keel::{Clock, Timestamp};
use machinery::{GroupKind, GroupVersion, GroupVersionKind};

const NOT_BEFORE: Duration = Duration::from_secs(1);

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
    Unknown(GroupVersionKind),
    /// The server does not serve the kind in any version.
    #[error("the server has no resource for {0} in any version")]
    NoVersion(GroupKind),
    /// Discovery failed.
    #[error("cannot ask the server what it serves")]
    Discovery(#[source] Box<kube_client::Error>),
}

/// See the [module documentation](self).
pub struct RestMapper {
    client: Client,
    clock: Clock,
    known: Mutex<HashMap<GroupVersion, Served>>,
}

struct Served {
    asked_at: Timestamp,
    mappings: Vec<Mapping>,
}

/// The cached mapping of a kind.
enum CachedMapping {
    Served(Mapping),
    /// The mapping is current.
    Absent,
    /// Discovery should be repeated.
    Unclear,
}

impl RestMapper {
    /// A mapper with an empty cache.
    pub fn new(client: Client, clock: &Clock) -> Self {
        Self { client, clock: clock.clone(), known: Mutex::default() }
    }

    /// The resource of a kind in this version.
    pub async fn mapping(&self, kind: &GroupVersionKind) -> Result<Mapping, RestMapperError> {
        let group_version = kind.group_version();
        match self.look_up(&group_version, kind) {
            CachedMapping::Served(mapping) => return Ok(mapping),
            CachedMapping::Absent => return Err(RestMapperError::Unknown(kind.clone())),
            CachedMapping::Unclear => {}
        }
        let mappings = self.ask(&group_version).await?;
        let found = mappings.iter().find(|mapping| mapping.kind == *kind).cloned();
        let served = Served { asked_at: self.clock.now(), mappings };
        self.lock().insert(group_version, served);
        found.ok_or_else(|| RestMapperError::Unknown(kind.clone()))
    }

    /// The resource of a kind in the version that the server prefers.
    pub async fn preferred(&self, kind: &GroupKind) -> Result<Mapping, RestMapperError> {
        for version in self.versions(&kind.group).await? {
            let kind = GroupVersionKind::new(&kind.group, &version, &kind.kind);
            match self.mapping(&kind).await {
                Err(RestMapperError::Unknown(_)) => {}
                found => return found,
            }
        }
        Err(RestMapperError::NoVersion(kind.clone()))
    }

    fn look_up(&self, group_version: &GroupVersion, kind: &GroupVersionKind) -> CachedMapping {
        let known = self.lock();
        let Some(served) = known.get(group_version) else { return CachedMapping::Unclear };
        let found = served.mappings.iter().find(|mapping| mapping.kind == *kind);
        let now = self.clock.now();
        let is_fresh = served.asked_at <= now && now.since(served.asked_at) < NOT_BEFORE;
        match found {
            Some(mapping) => CachedMapping::Served(mapping.clone()),
            None if is_fresh => CachedMapping::Absent,
            None => CachedMapping::Unclear,
        }
    }

    async fn ask(&self, group_version: &GroupVersion) -> Result<Vec<Mapping>, RestMapperError> {
        let answered = if group_version.group.is_empty() {
            self.client.list_core_api_resources(&group_version.version).await
        } else {
            self.client.list_api_group_resources(&group_version.to_string()).await
        };
        let list = match answered {
            Ok(list) => list,
            Err(kube_client::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
            Err(error) => return Err(RestMapperError::Discovery(Box::new(error))),
        };
        // Subresources are listed beside their resource, as `pods/status`.
        let whole = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
        Ok(whole
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

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<GroupVersion, Served>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
