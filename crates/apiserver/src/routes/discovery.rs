//! Discovery of groups, versions and resources, in the plain form (a document per version) and in
//! the aggregated form (one document with an `ETag`).

mod aggregated;

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::request::Parts as Head;
use http::{HeaderMap, Response};

use crate::http::body::Body;
use crate::http::headers;
use crate::http::negotiation::{EndpointRestrictions, negotiate};
use crate::http::response;
use crate::plane::Plane;
use crate::request::Query;
use crate::storage::catalog::{Catalog, Group, ServedResource};
use machinery::{GroupVersion, Status, Value, json};
use types::resource::Conventions;

/// The verbs of custom resources whose CRD is being deleted.
const TERMINATING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];

/// Whether a request for `/api` or `/apis` accepts the aggregated form.
pub(crate) fn is_aggregated(headers: &HeaderMap) -> bool {
    aggregated::accepted_version(headers).is_some()
}

/// The discovery of a subresource.
pub(super) struct SubresourceDiscovery {
    pub name: &'static str,
    /// The group of the subresource's kind; empty for the group and version of the resource.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: String,
    pub verbs: &'static [&'static str],
}

/// `/`: the served paths.
pub(crate) fn paths(plane: &Plane) -> Response<Body> {
    let catalog = plane.storage.catalog.load();
    let has_issuer = plane.issuer_discovery.is_some();
    let mut paths: Vec<String> = Vec::new();
    paths.extend(has_issuer.then(|| "/.well-known/openid-configuration".to_owned()));
    paths.extend(["/api", "/api/v1", "/apis"].map(str::to_owned));
    for group in with_remotes(plane, &catalog).iter().filter(|it| !it.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.listed().map(|it| format!("/apis/{}/{it}", group.name)));
    }
    let health = ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3"];
    paths.extend(health.map(str::to_owned));
    paths.extend(has_issuer.then(|| "/openid/v1/jwks".to_owned()));
    paths.extend(["/readyz", "/version"].map(str::to_owned));
    response::indented(&json!({"paths": paths}))
}

/// Serves `/api`.
pub(crate) fn core(plane: &Plane, head: &Head, query: &Query) -> Result<Response<Body>, Status> {
    if let Some(version) = aggregated::accepted_version(&head.headers) {
        return Ok(aggregated::core(plane, version, &head.headers));
    }
    let document = json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host(head)}],
    });
    Ok(response::document(
        200,
        negotiate(&head.headers, query, EndpointRestrictions::DOCUMENT)?,
        &document,
    ))
}

/// The address that the client used to reach the server.
fn host(head: &Head) -> String {
    let authority = head.uri.authority().map_or("", http::uri::Authority::as_str);
    match headers::first(&head.headers, http::header::HOST) {
        host if host.is_empty() => authority.to_owned(),
        host => host.into_owned(),
    }
}

/// Serves `/apis`.
pub(crate) fn groups(plane: &Plane, head: &Head, query: &Query) -> Result<Response<Body>, Status> {
    if let Some(version) = aggregated::accepted_version(&head.headers) {
        return Ok(aggregated::groups(plane, version, &head.headers));
    }
    let catalog = plane.storage.catalog.load();
    let groups = with_remotes(plane, &catalog);
    let groups: Vec<Value> =
        groups.iter().filter(|it| !it.name.is_empty()).map(group_document).collect();
    let document = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
    Ok(response::document(
        200,
        negotiate(&head.headers, query, EndpointRestrictions::GROUPS)?,
        &document,
    ))
}

/// Serves `/apis/<group>`.
pub(crate) fn group(
    plane: &Plane,
    name: &str,
    head: &Head,
    query: &Query,
) -> Result<Response<Body>, Status> {
    let catalog = plane.storage.catalog.load();
    let groups = with_remotes(plane, &catalog);
    let Some(group) = groups.iter().find(|it| it.name == name) else {
        return Ok(response::page_not_found());
    };
    let mut document = group_document(group);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Ok(response::document(
        200,
        negotiate(&head.headers, query, EndpointRestrictions::GROUPS)?,
        &document,
    ))
}

/// The local groups and those of aggregated API servers, by priority.
fn with_remotes<'a>(plane: &Plane, catalog: &'a Catalog) -> Cow<'a, [Group]> {
    let remotes = plane.aggregation.remotes();
    if remotes.is_empty() {
        return Cow::Borrowed(catalog.groups());
    }
    let mut groups = catalog.groups().to_vec();
    let mut priorities: Vec<i64> = groups.iter().map(Group::priority).collect();
    let mut by_version: Vec<_> = remotes.iter().collect();
    by_version.sort_by_key(|it| std::cmp::Reverse(it.version_priority));
    for remote in by_version {
        let index = groups.iter().position(|it| it.name == remote.group).unwrap_or_else(|| {
            let (name, priority) = (&remote.group, remote.group_priority);
            let is_before =
                |(other, group): (&i64, &Group)| (-other, &group.name) < (-priority, name);
            let index = priorities
                .iter()
                .zip(&groups)
                .position(|it| !is_before(it))
                .unwrap_or(groups.len());
            priorities.insert(index, priority);
            groups.insert(index, Group::new(name, &Conventions::CUSTOM));
            index
        });
        let versions = &mut groups[index].versions;
        if !versions.contains(&remote.version) {
            versions.push(remote.version.clone());
        }
    }
    Cow::Owned(groups)
}

fn group_document(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .listed()
        .map(|it| {
            let group_version = GroupVersion::new(&group.name, it).to_string();
            json!({"groupVersion": group_version, "version": it})
        })
        .collect();
    json!({"name": group.name, "preferredVersion": versions[0], "versions": versions})
}

/// Serves `/api/v1`, `/apis/<group>/<version>`.
pub(crate) fn resources(
    plane: &Plane,
    group: &str,
    version: &str,
    head: &Head,
    query: &Query,
) -> Result<Response<Body>, Status> {
    let catalog = plane.storage.catalog.load();
    if !catalog.has_version(group, version) {
        return match catalog.group(group) {
            Some(group) if !group.conventions.plain_not_found => Err(Status::no_such_resource()),
            _ => Ok(response::page_not_found()),
        };
    }
    let mut document = json!({
        "kind": "APIResourceList",
        "groupVersion": GroupVersion::new(group, version).to_string(),
        "resources": resource_list(&catalog, group, version),
    });
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Ok(response::document(
        200,
        negotiate(&head.headers, query, EndpointRestrictions::DOCUMENT)?,
        &document,
    ))
}

fn resource_list(catalog: &Catalog, group: &str, version: &str) -> Vec<Value> {
    let mut list = Vec::new();
    for (served, version) in catalog.resources(group, version) {
        let resource = &served.resource;
        let mut entry = json!({
            "name": resource.plural, "singularName": resource.singular,
            "namespaced": resource.namespaced, "kind": resource.kind, "verbs": verbs(served),
        });
        if let Some(hash) = storage_version_hash(served) {
            entry["storageVersionHash"] = hash.into();
        }
        if !resource.short_names.is_empty() {
            entry["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            entry["categories"] = json!(resource.categories);
        }
        list.push(entry);
        for subresource in subresources(served, version) {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, subresource.name), "singularName": "",
                "namespaced": resource.namespaced, "kind": subresource.kind, "verbs": subresource.verbs,
            });
            if !subresource.group.is_empty() {
                entry["group"] = subresource.group.into();
                entry["version"] = subresource.version.into();
            }
            list.push(entry);
        }
    }
    list
}

/// The verbs of a resource.
pub(super) fn verbs(served: &ServedResource) -> Vec<&'static str> {
    if served.terminating {
        return TERMINATING_VERBS.to_vec();
    }
    if let Some(kind) = served.resource.strategy.unstored {
        return kind.verbs().to_vec();
    }
    let namespaces = served.resource.group.is_empty() && served.resource.plural == "namespaces";
    let verbs = served.resource.conventions.verbs.iter().copied();
    verbs.filter(|it| !(namespaces && *it == "deletecollection")).collect()
}

/// The subresources of a resource, sorted as in Kubernetes: status before scale for custom
/// resources, by name for built-in ones.
pub(super) fn subresources(served: &ServedResource, version: usize) -> Vec<SubresourceDiscovery> {
    const OBJECT: &[&str] = &["get", "patch", "update"];
    let resource = &served.resource;
    let version = served.version(version);
    let mut all = Vec::new();
    if version.status {
        let kind = resource.kind.clone();
        all.push(SubresourceDiscovery {
            name: "status",
            group: "",
            version: "",
            kind,
            verbs: OBJECT,
        });
    }
    if version.scale.is_some() {
        let kind = "Scale".to_owned();
        all.push(SubresourceDiscovery {
            name: "scale",
            group: "autoscaling",
            version: "v1",
            kind,
            verbs: OBJECT,
        });
    }
    all.extend(resource.strategy.subresources.iter().map(|it| SubresourceDiscovery {
        name: it.name,
        group: it.group,
        version: it.version,
        kind: it.kind.to_owned(),
        verbs: it.action.verbs(),
    }));
    if resource.conventions.sorts_subresources {
        all.sort_by_key(|it| it.name);
    }
    all
}

/// A hash of the storage version, by which clients detect when to migrate stored objects. An
/// unstored kind has no hash.
///
/// Upstream: `endpoints/discovery/storageversionhash.go`; a custom resource whose storage version
/// is not served has no hash either (`customresource_discovery_controller.go`).
fn storage_version_hash(served: &ServedResource) -> Option<String> {
    let resource = &served.resource;
    let is_unserved =
        !resource.conventions.hashes_unserved_version && !resource.storage_version().served;
    if resource.strategy.unstored.is_some() || is_unserved {
        return None;
    }
    let version =
        resource.strategy.announced_storage_version.unwrap_or(&resource.storage_version().name);
    let text = format!("{}/{version}/{}", resource.group, resource.kind);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    Some(BASE64_STANDARD.encode(&digest.as_ref()[..8]))
}
