//! [`Discovery`]: what a server serves, and the resource that a user's word means.

use http::Method;
use http::header::ACCEPT;

use crate::error::Error;
use crate::session::{Session, decode};
use machinery::fields::{flag, list, text, texts};
use machinery::{GroupVersion, Value};

/// Aggregated discovery, or else the list of groups.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// A resource that the server serves in one version.
#[derive(Debug, Clone, Default)]
pub(crate) struct ApiResource {
    pub group: String,
    pub version: String,
    /// `deployments`
    pub name: String,
    /// `deployment`
    pub singular: String,
    /// `Deployment`
    pub kind: String,
    pub is_namespaced: bool,
    pub verbs: Vec<String>,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub subresources: Vec<String>,
}

impl ApiResource {
    /// `apps/v1`
    pub(crate) fn api_version(&self) -> String {
        GroupVersion::new(&self.group, &self.version).to_string()
    }

    /// `deployments.apps`
    pub(crate) fn full_name(&self) -> String {
        with_group(&self.name, &self.group)
    }

    /// `deployment.apps`, as in `deployment.apps/web created`.
    pub(crate) fn kind_name(&self) -> String {
        with_group(&self.kind.to_lowercase(), &self.group)
    }

    /// The path of the collection, in a namespace or in all.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        match namespace.filter(|_| self.is_namespaced) {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.name),
            None => format!("{root}/{}", self.name),
        }
    }

    /// Whether the server serves this verb.
    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|it| it == verb)
    }

    /// Whether a word in lower case is one of its names.
    fn is_named(&self, word: &str) -> bool {
        self.name == word || self.singular == word || self.kind.to_lowercase() == word
    }
}

fn with_group(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    /// In the order of the server: its preferred groups first, in a group the preferred version.
    pub resources: Vec<ApiResource>,
    /// The group versions, in the same order.
    pub versions: Vec<GroupVersion>,
}

impl Discovery {
    /// Asks the server.
    pub(crate) async fn fetch(session: &Session) -> Result<Self, Error> {
        let mut discovery = Self::default();
        for root in ["/api", "/apis"] {
            let headers = [(ACCEPT, AGGREGATED)];
            let response = session.send(Method::GET, root, &headers, Vec::new()).await?;
            let found = decode(&session.read(response).await?)?;
            match text(&found, "kind") {
                "APIGroupDiscoveryList" => discovery.add_aggregated(&found),
                "APIVersions" => {
                    for version in texts(&found, "versions") {
                        discovery.fetch_version(session, GroupVersion::new("", version)).await?;
                    }
                }
                _ => {
                    for group in list(&found, "groups") {
                        for version in ordered_versions(group) {
                            let version = GroupVersion::new(text(group, "name"), version);
                            discovery.fetch_version(session, version).await?;
                        }
                    }
                }
            }
        }
        Ok(discovery)
    }

    fn add_aggregated(&mut self, found: &Value) {
        for group in list(found, "items") {
            for version in list(group, "versions") {
                let (group, name) = (text(&group["metadata"], "name"), text(version, "version"));
                self.versions.push(GroupVersion::new(group, name));
                for resource in list(version, "resources") {
                    let kind = &resource["responseKind"];
                    let subresources = list(resource, "subresources").iter();
                    self.resources.push(ApiResource {
                        group: group.to_owned(),
                        version: name.to_owned(),
                        name: text(resource, "resource").to_owned(),
                        singular: text(resource, "singularResource").to_owned(),
                        kind: text(kind, "kind").to_owned(),
                        is_namespaced: text(resource, "scope") == "Namespaced",
                        verbs: words(resource, "verbs"),
                        short_names: words(resource, "shortNames"),
                        categories: words(resource, "categories"),
                        subresources: subresources
                            .map(|it| text(it, "subresource").to_owned())
                            .collect(),
                    });
                }
            }
        }
    }

    /// Reads the resources of a version from a server without aggregated discovery. A version that
    /// cannot be read, such as that of another server that is down, has none.
    async fn fetch_version(
        &mut self,
        session: &Session,
        version: GroupVersion,
    ) -> Result<(), Error> {
        let root = if version.group.is_empty() { "/api/" } else { "/apis/" };
        let found = match session.get(&format!("{root}{version}")).await {
            Ok(found) => found,
            Err(Error::Server(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        for resource in list(&found, "resources") {
            let name = text(resource, "name");
            if let Some((parent, subresource)) = name.split_once('/') {
                let parent = self.resources.iter_mut().rfind(|it| it.name == parent);
                if let Some(parent) = parent {
                    parent.subresources.push(subresource.to_owned());
                }
                continue;
            }
            self.resources.push(ApiResource {
                group: version.group.clone(),
                version: version.version.clone(),
                name: name.to_owned(),
                singular: text(resource, "singularName").to_owned(),
                kind: text(resource, "kind").to_owned(),
                is_namespaced: flag(resource, "namespaced"),
                verbs: words(resource, "verbs"),
                short_names: words(resource, "shortNames"),
                categories: words(resource, "categories"),
                subresources: Vec::new(),
            });
        }
        self.versions.push(version);
        Ok(())
    }

    /// The resource that a word means: `pods`, `po`, `deployments.apps`, `deployments.v1.apps`.
    pub(crate) fn resource(&self, word: &str) -> Result<&ApiResource, Error> {
        let lower = word.to_lowercase();
        let (name, rest) = lower.split_once('.').unwrap_or((&lower, ""));
        if let Some((version, group)) = rest.split_once('.') {
            let in_version = |it: &&ApiResource| it.version == version && it.group == group;
            if let Some(found) = self.named(name, in_version) {
                return Ok(found);
            }
        }
        let found = if rest.is_empty() {
            self.named(name, |_| true)
        } else {
            let exact = self.named(name, |it| it.group == rest);
            exact.or_else(|| self.named(name, |it| it.group.starts_with(rest)))
        };
        found.ok_or_else(|| {
            Error::message(format!("the server doesn't have a resource type {name:?}"))
        })
    }

    /// The first resource with this name, among those that qualify. A full name precedes a short one.
    fn named(&self, name: &str, qualifies: impl Fn(&&ApiResource) -> bool) -> Option<&ApiResource> {
        let found = self.resources.iter().find(|it| it.is_named(name) && qualifies(it));
        found.or_else(|| {
            let is_short = |it: &&ApiResource| it.short_names.iter().any(|short| short == name);
            self.resources.iter().find(|it| is_short(it) && qualifies(it))
        })
    }

    /// The resources that a category such as `all` stands for, each in its preferred version.
    pub(crate) fn category(&self, word: &str) -> Vec<&ApiResource> {
        let mut found: Vec<&ApiResource> = Vec::new();
        for it in &self.resources {
            let is_new = !found.iter().any(|seen| seen.group == it.group && seen.name == it.name);
            if is_new && it.categories.iter().any(|category| category == word) {
                found.push(it);
            }
        }
        found
    }

    /// The resource of a kind in a version.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&ApiResource> {
        self.resources.iter().find(|it| it.kind == kind && it.api_version() == api_version)
    }
}

fn words(value: &Value, key: &str) -> Vec<String> {
    texts(value, key).map(str::to_owned).collect()
}

/// The versions of a group, the preferred one first.
fn ordered_versions(group: &Value) -> Vec<&str> {
    let preferred = text(&group["preferredVersion"], "version");
    let others = list(group, "versions").iter().map(|it| text(it, "version"));
    let preferred = Some(preferred).filter(|it| !it.is_empty());
    preferred.into_iter().chain(others.filter(|it| Some(*it) != preferred)).collect()
}
