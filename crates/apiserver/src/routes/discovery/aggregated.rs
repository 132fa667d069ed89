//! The aggregated form of discovery: one document for all groups, built once for each catalog and
//! each change of the aggregated API servers.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{ACCEPT, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, Response};

use super::{subresources, verbs};
use crate::http::body::Body;
use crate::http::headers;
use crate::http::response;
use crate::plane::Plane;
use crate::storage::catalog::{Catalog, Group, ServedResource};
use machinery::codec::media::parse_accept;
use machinery::{Value, codec, json};
use types::Ordered;

/// The version of the aggregated form if the client prefers it to the plain form.
pub(super) fn accepted_version(headers: &HeaderMap) -> Option<&'static str> {
    for range in parse_accept(&headers::first(headers, ACCEPT)) {
        if range.subtype != "json" && range.subtype != "*" {
            continue;
        }
        match (range.param("as"), range.param("g"), range.param("v")) {
            (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => {
                return Some("v2");
            }
            (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2beta1")) => {
                return Some("v2beta1");
            }
            // The client prefers the plain form.
            (None, _, _) => return None,
            _ => {}
        }
    }
    None
}

/// Serves `/api`.
pub(super) fn core(plane: &Plane, version: &'static str, headers: &HeaderMap) -> Response<Body> {
    let catalog = plane.storage.catalog.load();
    let document = catalog.documents.aggregated_core.get_or_init(|| {
        let core = catalog.groups().iter().filter(|it| it.name.is_empty());
        document(core.map(|it| group_document(&catalog, it)))
    });
    respond(document, version, headers)
}

/// Serves `/apis`.
pub(super) fn groups(plane: &Plane, version: &'static str, headers: &HeaderMap) -> Response<Body> {
    let catalog = plane.storage.catalog.load();
    if !plane.aggregation.remotes().is_empty() {
        let document = plane.aggregation.discovery(&catalog, || {
            let groups = super::with_remotes(plane, &catalog);
            let groups = groups.iter().filter(|it| !it.name.is_empty());
            document(groups.map(|it| with_remote_resources(plane, group_document(&catalog, it))))
        });
        return respond(&document, version, headers);
    }
    let document = catalog.documents.aggregated.get_or_init(|| {
        let groups = catalog.groups().iter().filter(|it| !it.name.is_empty());
        document(groups.map(|it| group_document(&catalog, it)))
    });
    respond(document, version, headers)
}

/// The `ETag` of a document and the document.
type TaggedDocument = (String, Bytes);

fn document(items: impl Iterator<Item = Value>) -> TaggedDocument {
    let items: Vec<Value> = items.collect();
    let document = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items,
    });
    let mut bytes = Vec::new();
    codec::json::write(&mut bytes, &Ordered::document(&document));
    let bytes = Bytes::from(bytes);
    let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
    (format!("\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(digest)), bytes)
}

/// Adds the resources that aggregated API servers report for the group. Outdated resources are
/// marked as stale.
fn with_remote_resources(plane: &Plane, mut group: Value) -> Value {
    let name = group["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    for version in group["versions"].as_array_mut().into_iter().flatten() {
        let found = version["version"].as_str().unwrap_or_default();
        let Some(remote) = plane.aggregation.find(&name, found) else { continue };
        let remote_discovery = plane.aggregation.documents(&remote);
        let is_current = remote.available && remote_discovery.is_some();
        version["freshness"] = if is_current { "Current" } else { "Stale" }.into();
        version["resources"] = remote_discovery.map_or(Value::Null, |it| it.resources.clone());
    }
    group
}

fn respond((etag, bytes): &TaggedDocument, version: &str, headers: &HeaderMap) -> Response<Body> {
    let content_type =
        format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    let not_modified =
        headers.get(IF_NONE_MATCH).is_some_and(|it| it.as_bytes() == etag.as_bytes());
    let mut response = if not_modified {
        response::bytes(304, &content_type, Body::empty())
    } else if version == "v2" {
        response::bytes(200, &content_type, Body::Shared(bytes.clone()))
    } else {
        // The two versions differ only in their name.
        let text = String::from_utf8_lossy(bytes)
            .replace("apidiscovery.k8s.io/v2", "apidiscovery.k8s.io/v2beta1");
        response::bytes(200, &content_type, text)
    };
    let etag = HeaderValue::from_str(etag).expect("base64 is a valid header value");
    response.headers_mut().insert(ETAG, etag);
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

fn group_document(catalog: &Catalog, group: &Group) -> Value {
    let version_document = |version: &String, found: Vec<(&Arc<ServedResource>, usize)>| {
        let resources: Vec<Value> = found
            .into_iter()
            .map(|(served, index)| resource_document(group, version, served, index))
            .collect();
        json!({"version": version, "resources": resources, "freshness": "Current"})
    };
    let unserved = group
        .discovery_only
        .iter()
        .map(|it| version_document(it, catalog.discovery_only(&group.name, it)));
    let served =
        group.versions.iter().map(|it| version_document(it, catalog.resources(&group.name, it)));
    let versions: Vec<Value> = unserved.chain(served).collect();
    let mut metadata = json!({});
    if !group.name.is_empty() {
        metadata["name"] = group.name.clone().into();
    }
    json!({"metadata": metadata, "versions": versions})
}

fn resource_document(group: &Group, version: &str, served: &ServedResource, index: usize) -> Value {
    let resource = &served.resource;
    // Upstream: the kinds of built-in resources have no group and version, since those of the list
    // apply.
    let (group_name, version) = if resource.conventions.repeats_group_version {
        (group.name.as_str(), version)
    } else {
        ("", "")
    };
    let kind = |kind: &str| json!({"group": group_name, "version": version, "kind": kind});
    let mut entry = json!({
        "resource": resource.plural, "responseKind": kind(&resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": verbs(served),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    let subresources: Vec<Value> = subresources(served, index)
        .into_iter()
        .map(|it| {
            let response = match it.group {
                "" => kind(&it.kind),
                group => json!({"group": group, "version": it.version, "kind": it.kind}),
            };
            json!({"subresource": it.name, "responseKind": response, "verbs": it.verbs})
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}
