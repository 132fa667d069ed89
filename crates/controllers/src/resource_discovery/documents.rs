//! Reads the aggregated discovery documents of a server. A document that has not changed is neither
//! sent nor parsed again.

use std::collections::{BTreeMap, HashSet};

use http::header::{ACCEPT, ETAG, IF_NONE_MATCH};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::BodyExt;
use runtime::kube_client::client::Body;
use runtime::{Client, kube_client};
use serde::Deserialize;

use super::{ApiResource, DiscoveredResources};

const ACCEPT_AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// See the [module documentation](self).
pub(super) struct DiscoveryReader {
    client: Client,
    /// `/api` and `/apis`.
    documents: [Document; 2],
}

#[derive(Default)]
struct Document {
    path: &'static str,
    tag: Option<HeaderValue>,
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct GroupList {
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: GroupMetadata,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize, Default)]
struct GroupMetadata {
    /// Empty for the core group.
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Option<Vec<Resource>>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: String,
    response_kind: Option<ResponseKind>,
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    kind: String,
}

impl DiscoveryReader {
    pub(super) fn new(client: Client) -> Self {
        let document = |path| Document { path, ..Document::default() };
        Self { client, documents: [document("/api"), document("/apis")] }
    }

    /// The resources, if a document has changed since the last call.
    pub(super) async fn read(&mut self) -> kube_client::Result<Option<DiscoveredResources>> {
        let mut has_changed = false;
        for document in &mut self.documents {
            has_changed |= document.read(&self.client).await?;
        }
        if !has_changed {
            return Ok(None);
        }
        Ok(Some(resources_of(self.documents.iter().flat_map(|document| &document.groups))))
    }
}

impl Document {
    /// Reads the document, and returns whether it has changed.
    async fn read(&mut self, client: &Client) -> kube_client::Result<bool> {
        let mut request = Request::get(self.path).header(ACCEPT, ACCEPT_AGGREGATED);
        if let Some(tag) = &self.tag {
            request = request.header(IF_NONE_MATCH, tag);
        }
        let request = request.body(Body::empty()).map_err(kube_client::Error::HttpError)?;
        let response = client.send(request).await?;
        let status = response.status();
        if status == StatusCode::NOT_MODIFIED {
            return Ok(false);
        }
        let tag = response.headers().get(ETAG).cloned();
        let body = response.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            let status = serde_json::from_slice(&body).map_err(kube_client::Error::SerdeError)?;
            return Err(kube_client::Error::Api(Box::new(status)));
        }
        let list: GroupList =
            serde_json::from_slice(&body).map_err(kube_client::Error::SerdeError)?;
        (self.tag, self.groups) = (tag, list.items);
        Ok(true)
    }
}

/// The resources of all versions of groups, the preferred version first.
fn resources_of<'a>(groups: impl Iterator<Item = &'a Group>) -> DiscoveredResources {
    let (mut resources, mut failures) = (Vec::new(), BTreeMap::new());
    for group in groups {
        let name = &group.metadata.name;
        let mut found = HashSet::new();
        for version in &group.versions {
            let api_version = match name.as_str() {
                "" => version.version.clone(),
                name => format!("{name}/{}", version.version),
            };
            if version.freshness == "Stale" {
                let error = format!("stale GroupVersion discovery: {api_version}");
                failures.insert(api_version, error);
                continue;
            }
            for resource in version.resources.iter().flatten() {
                let Some(kind) = &resource.response_kind else { continue };
                resources.push(ApiResource {
                    group: name.clone(),
                    version: version.version.clone(),
                    api_version: api_version.clone(),
                    plural: resource.resource.clone(),
                    kind: kind.kind.clone(),
                    is_namespaced: resource.scope == "Namespaced",
                    verbs: resource.verbs.clone(),
                    is_preferred: found.insert(resource.resource.as_str()),
                });
            }
        }
    }
    DiscoveredResources::new(resources, failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discovered(groups: &str) -> DiscoveredResources {
        let list: GroupList = serde_json::from_str(&format!(r#"{{"items":[{groups}]}}"#)).unwrap();
        resources_of(list.items.iter())
    }

    #[test]
    fn the_first_version_that_has_a_resource_is_preferred() {
        let resource = |plural: &str| {
            format!(
                r#"{{"resource":"{plural}","responseKind":{{"group":"","version":"","kind":"K-{plural}"}},
                    "scope":"Namespaced","verbs":["list"]}}"#
            )
        };
        let (a, b) = (resource("as"), resource("bs"));
        let found = discovered(&format!(
            r#"{{"metadata":{{"name":"g"}},"versions":[{{"version":"v2","resources":[{a}]}},
                {{"version":"v1","resources":[{a},{b}]}}]}}"#
        ));
        let preferred: Vec<_> =
            found.preferred().map(|it| (it.api_version.as_str(), it.plural.as_str())).collect();
        assert_eq!(preferred, [("g/v2", "as"), ("g/v1", "bs")]);
        assert_eq!(found.of_kind("g/v1", "K-as").unwrap().version, "v1");
        assert!(found.of_kind("g/v2", "K-bs").is_none());
        let path = found.resources[0].object_path("n", "a b");
        assert_eq!(path, "/apis/g/v2/namespaces/n/as/a%20b");
    }

    #[test]
    fn an_outdated_group_is_a_failure() {
        let found = discovered(
            r#"{"metadata":{"name":"m"},"versions":[{"version":"v1","freshness":"Stale"}]}"#,
        );
        let message = "unable to retrieve the complete list of server APIs: m/v1: \
            stale GroupVersion discovery: m/v1";
        assert_eq!(found.failure_message().as_deref(), Some(message));
        assert!(found.failed_groups().contains("m"));
    }
}
