//! [`Catalog`]: the index of all served resources, built-in and custom, by path.
//!
//! A catalog is immutable: when a CRD is created, changed or deleted, a new catalog replaces it.
//! A request uses the same catalog from its beginning to its end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cache::watch_cache::ResourceCache;
use crate::storage::conversion::Conversion;
use crate::storage::creations::{Creation, Creations};
use crate::storage::documents::Documents;
use crate::storage::hooks::Hooks;
use machinery::gvk::version_priority;
use store::Revision;
use types::Resource;
use types::apply::CustomSchema;
use types::resource::{Conventions, Version};

/// A served resource and the cache of its objects.
pub(crate) struct ServedResource {
    /// The description of its kind.
    pub resource: Arc<Resource>,
    /// Its objects and their recent history.
    pub cache: Arc<ResourceCache>,
    /// The `apiVersion` of each version.
    api_versions: Vec<String>,
    /// The cache of CRDs and the key of this custom resource's CRD in it.
    crd: Option<(Arc<ResourceCache>, String)>,
    /// Whether the objects of a custom resource are being deleted because its CRD is.
    pub terminating: bool,
    /// Counts the creations of objects of a custom resource that are in progress.
    creations: Option<Arc<Creations>>,
    /// The merge schema for server-side apply of each version of a custom resource.
    apply_schemas: Vec<Arc<CustomSchema>>,
    /// Converts objects between versions.
    pub conversion: Conversion,
    /// The server's own steps in writes of this resource, beyond those of its kind.
    pub hooks: Hooks,
    /// The revision of the CRD that this was built from. Encodings made for one revision are not
    /// reused for another.
    pub crd_revision: Revision,
    /// Set when this was removed from the catalog; its watches then end.
    retired: AtomicBool,
}

impl ServedResource {
    /// Creates a resource without hooks and without a CRD.
    pub(crate) fn new(resource: Resource, cache: Arc<ResourceCache>) -> Self {
        let api_versions = resource.versions.iter().map(|it| resource.api_version(it)).collect();
        let retired = AtomicBool::new(false);
        Self {
            conversion: Conversion::built_in(&resource),
            hooks: Hooks::default(),
            crd_revision: 0,
            resource: Arc::new(resource),
            cache,
            api_versions,
            crd: None,
            terminating: false,
            creations: None,
            apply_schemas: Vec::new(),
            retired,
        }
    }

    /// Sets the hooks.
    pub(crate) fn with_hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }

    /// Sets the merge schemas for server-side apply, in the order of the versions.
    pub(crate) fn with_apply_schemas(mut self, schemas: Vec<Arc<CustomSchema>>) -> Self {
        self.apply_schemas = schemas;
        self
    }

    /// The merge schemas for server-side apply, one for each version. Empty for built-in kinds, whose
    /// types contain the merge rules.
    pub(crate) fn apply_schemas(&self) -> &[Arc<CustomSchema>] {
        &self.apply_schemas
    }

    /// Sets the conversion that its CRD declares at the revision `crd_revision`.
    pub(crate) fn with_conversion(
        mut self,
        conversion: Conversion,
        crd_revision: Revision,
    ) -> Self {
        self.conversion = conversion;
        self.crd_revision = crd_revision;
        self
    }

    /// Sets whether its objects are being deleted because its CRD is.
    pub(crate) fn with_terminating(mut self, terminating: bool) -> Self {
        self.terminating = terminating;
        self
    }

    /// Sets its CRD, which is at `key` in `crds`, and the counter of creations in progress.
    pub(crate) fn with_crd(
        mut self,
        crds: &Arc<ResourceCache>,
        key: String,
        creations: Arc<Creations>,
    ) -> Self {
        self.crd = Some((Arc::clone(crds), key));
        self.creations = Some(creations);
        self
    }

    /// The current revision of its CRD, which may be newer than the catalog: 0 for a built-in kind,
    /// None if the CRD was deleted.
    pub(crate) fn stored_crd_revision(&self) -> Option<Revision> {
        let Some((crds, key)) = &self.crd else { return Some(0) };
        crds.get(key).map(|it| it.revision)
    }

    /// Begins the creation of an object; None if its CRD is being deleted.
    pub(crate) fn begin_creation(&self) -> Option<Creation> {
        match &self.creations {
            None => Some(Creation::default()),
            Some(creations) => Creations::begin(creations),
        }
    }

    /// Ends the watches that were started on it, after they have sent the remaining events.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        self.cache.wake();
    }

    /// Whether it was removed from the catalog.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// The version with this index.
    pub(crate) fn version(&self, version: usize) -> &Version {
        &self.resource.versions[version]
    }

    /// The `apiVersion` of objects of a version.
    pub(crate) fn api_version(&self, version: usize) -> &str {
        &self.api_versions[version]
    }

    /// The store key of an object.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        let prefix = &self.resource.prefix;
        if namespace.is_empty() {
            format!("{prefix}/{name}")
        } else {
            format!("{prefix}/{namespace}/{name}")
        }
    }
}

/// The built-in groups and their priorities, in the order in which discovery lists them. A client
/// that resolves a kind by its name alone takes the first group that has it.
const GROUP_PRIORITIES: &[(&str, i64)] = &[
    ("", 18000),
    ("apiregistration.k8s.io", 17900),
    ("apps", 17800),
    ("events.k8s.io", 17750),
    ("authentication.k8s.io", 17700),
    ("authorization.k8s.io", 17600),
    ("autoscaling", 17500),
    ("batch", 17400),
    ("certificates.k8s.io", 17300),
    ("networking.k8s.io", 17200),
    ("policy", 17100),
    ("rbac.authorization.k8s.io", 17000),
    ("storage.k8s.io", 16800),
    ("admissionregistration.k8s.io", 16700),
    ("apiextensions.k8s.io", 16700),
    ("scheduling.k8s.io", 16600),
    ("coordination.k8s.io", 16500),
    ("node.k8s.io", 16300),
    ("discovery.k8s.io", 16200),
    ("resource.k8s.io", 16200),
    ("flowcontrol.apiserver.k8s.io", 16100),
    ("storagemigration.k8s.io", 15800),
];

/// The priority of a group of custom resources.
pub(crate) const CRD_GROUP_PRIORITY: i64 = 1000;

/// A group and its versions, the preferred one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// Empty for the core group.
    pub name: String,
    /// The served versions.
    pub versions: Vec<String>,
    /// The versions that CRDs add to a built-in group. Upstream: discovery lists them before the
    /// built-in versions, but requests go to the built-in API server, which does not serve them.
    pub discovery_only: Vec<String>,
    /// How its resources are served.
    pub conventions: &'static Conventions,
}

impl Group {
    /// Creates a group without versions.
    pub(crate) fn new(name: &str, conventions: &'static Conventions) -> Self {
        let name = name.to_owned();
        Self { name, versions: Vec::new(), discovery_only: Vec::new(), conventions }
    }

    /// All versions that discovery lists, the preferred one first.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &String> {
        self.discovery_only.iter().chain(&self.versions)
    }

    /// The priority in discovery; groups with a higher priority are listed first.
    pub(crate) fn priority(&self) -> i64 {
        let builtin =
            GROUP_PRIORITIES.iter().find(|(name, _)| *name == self.name).map(|(_, it)| *it);
        builtin.filter(|_| !self.conventions.dynamic).unwrap_or(CRD_GROUP_PRIORITY)
    }
}

/// By plural: the position of the resource in the catalog, and the index of the version.
type ByPlural = HashMap<String, (usize, usize)>;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Catalog {
    /// All resources, also those without a served version; the index refers to their positions.
    served: Vec<Arc<ServedResource>>,
    /// By group, version and plural.
    index: HashMap<String, HashMap<String, ByPlural>>,
    groups: Vec<Group>,
    /// The custom resources in built-in groups, which discovery lists and which are not served.
    discovery_only: Vec<Arc<ServedResource>>,
    /// Discovery and OpenAPI documents.
    pub documents: Documents,
}

impl Catalog {
    /// Builds the index. Built-in groups are listed first, by priority, then custom groups by name.
    pub(crate) fn new(served: Vec<Arc<ServedResource>>) -> Self {
        let mut catalog = Self::default();
        for (position, it) in served.iter().enumerate() {
            for (version, details) in it.resource.versions.iter().enumerate() {
                if !details.served {
                    continue;
                }
                let group = it.resource.group_of(details);
                catalog.add_version(group, &details.name, it.resource.conventions);
                catalog
                    .index
                    .entry(group.to_owned())
                    .or_default()
                    .entry(details.name.clone())
                    .or_default()
                    .insert(it.resource.plural.clone(), (position, version));
            }
        }
        for group in &mut catalog.groups {
            group.versions.sort_by(|a, b| version_priority(a, b));
        }
        catalog.groups.sort_by(|a, b| {
            let rank = |group: &Group| {
                let priority = GROUP_PRIORITIES.iter().position(|(name, _)| *name == group.name);
                (group.conventions.dynamic, priority.unwrap_or(GROUP_PRIORITIES.len()))
            };
            rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name))
        });
        catalog.served = served;
        catalog
    }

    /// Adds custom resources in built-in groups: discovery lists those of their versions that are not
    /// built-in versions.
    pub(crate) fn with_discovery_only(mut self, discovery_only: Vec<Arc<ServedResource>>) -> Self {
        for resource in discovery_only.iter().map(|it| &it.resource) {
            let Some(group) = self.groups.iter_mut().find(|it| it.name == resource.group) else {
                continue;
            };
            for version in resource.versions.iter().filter(|it| it.served) {
                if !group.listed().any(|it| *it == version.name) {
                    group.discovery_only.push(version.name.clone());
                }
            }
            group.discovery_only.sort_by(|a, b| version_priority(a, b));
        }
        self.discovery_only = discovery_only;
        self
    }

    fn add_version(&mut self, name: &str, version: &str, conventions: &'static Conventions) {
        let at = self.groups.iter().position(|it| it.name == name).unwrap_or_else(|| {
            self.groups.push(Group::new(name, conventions));
            self.groups.len() - 1
        });
        let versions = &mut self.groups[at].versions;
        if !versions.iter().any(|it| it == version) {
            versions.push(version.to_owned());
        }
    }

    /// The resource of a path, and the index of its version.
    pub(crate) fn find(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<(&Arc<ServedResource>, usize)> {
        let (position, version) = *self.index.get(group)?.get(version)?.get(plural)?;
        Some((&self.served[position], version))
    }

    /// The resource with this group and plural name, in any version.
    pub(crate) fn resource(&self, group: &str, plural: &str) -> Option<&Arc<ServedResource>> {
        self.served.iter().find(|it| it.resource.group == group && it.resource.plural == plural)
    }

    /// All resources, also those without a served version.
    pub(crate) fn served(&self) -> &[Arc<ServedResource>] {
        &self.served
    }

    /// All groups, the core group included, in the order of discovery.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// A group by its name.
    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|it| it.name == name)
    }

    /// Whether this version of the group is served.
    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.group(group).is_some_and(|it| it.versions.iter().any(|it| it == version))
    }

    /// The resources of a group's version, by name, each with the index of that version.
    pub(crate) fn resources(
        &self,
        group: &str,
        version: &str,
    ) -> Vec<(&Arc<ServedResource>, usize)> {
        let mut found: Vec<_> = self
            .index
            .get(group)
            .and_then(|it| it.get(version))
            .into_iter()
            .flat_map(HashMap::values)
            .map(|(position, version)| (&self.served[*position], *version))
            .collect();
        found.sort_by(|(a, _), (b, _)| a.resource.plural.cmp(&b.resource.plural));
        found
    }

    /// The custom resources in a version that CRDs add to a built-in group, by name, each with the index
    /// of that version.
    pub(crate) fn discovery_only(
        &self,
        group: &str,
        version: &str,
    ) -> Vec<(&Arc<ServedResource>, usize)> {
        let in_version = |it: &'_ Arc<ServedResource>| {
            let mut versions = it.resource.versions.iter();
            versions.position(|it| it.served && it.name == version)
        };
        let of_group = self.discovery_only.iter().filter(|it| it.resource.group == group);
        let mut found: Vec<_> = of_group.filter_map(|it| Some((it, in_version(it)?))).collect();
        found.sort_by(|(a, _), (b, _)| a.resource.plural.cmp(&b.resource.plural));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_listed_by_their_priority() {
        let served = kinds::table::builtin().into_iter().map(|resource| {
            let cache = Arc::new(ResourceCache::new(&resource.prefix, 0, &Arc::default()));
            Arc::new(ServedResource::new(resource, cache))
        });
        let catalog = Catalog::new(served.collect());
        let groups: Vec<&str> = catalog.groups().iter().map(|it| it.name.as_str()).collect();
        let ranked: Vec<&str> = GROUP_PRIORITIES
            .iter()
            .map(|(name, _)| *name)
            .filter(|it| groups.contains(it))
            .collect();
        assert_eq!(groups, ranked);
        assert_eq!(groups[..3], ["", "apiregistration.k8s.io", "apps"]);
    }
}
