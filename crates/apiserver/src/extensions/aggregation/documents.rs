//! Reads the discovery and OpenAPI documents of aggregated servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use super::aggregation_controller::{AggregationController, RequestError};
use super::openapi::{MAX_DOCUMENT, OmitReason, OpenApiPart, OpenApiV2};
use super::{RemoteApiService, RemoteDocuments};
use crate::outbound;
use machinery::{Value, codec, json};

const JSON: &str = "application/json";

/// The time limit of one document.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum size of the aggregated discovery document of a server, and of its OpenAPI index.
const MAX_INDEX: usize = 1 << 20;

/// The maximum size of the resource list of one version.
const MAX_RESOURCES: usize = 256 << 10;

/// The maximum number of OpenAPI documents that are read at the same time, each of which is in memory.
pub(super) const MAX_DOWNLOADS: usize = 4;

/// The result of a request for a document.
enum DocumentResult {
    Document(Bytes),
    /// The server does not have it.
    Absent,
    /// It is larger than the limit.
    TooLarge,
    /// The request failed, so the document may exist.
    Failed,
}

/// The fields of the aggregated discovery document that are used.
#[derive(Deserialize)]
struct ApiGroupDiscoveryList<'a> {
    #[serde(borrow)]
    items: Option<Vec<ApiGroupDiscovery<'a>>>,
}

#[derive(Deserialize)]
struct ApiGroupDiscovery<'a> {
    metadata: Metadata,
    #[serde(borrow)]
    versions: Option<Vec<ApiVersionDiscovery<'a>>>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct ApiVersionDiscovery<'a> {
    version: String,
    #[serde(borrow)]
    resources: Option<&'a RawValue>,
}

/// The index of the OpenAPI v3 documents.
#[derive(Deserialize)]
struct OpenApiV3Index {
    paths: BTreeMap<String, OpenApiV3Entry>,
}

#[derive(Deserialize)]
struct OpenApiV3Entry {
    #[serde(rename = "serverRelativeURL")]
    address: String,
}

impl AggregationController {
    /// Reads the documents of a server. A document whose request fails stays as it was `before`.
    pub(super) async fn read_documents(
        &self,
        remote: &RemoteApiService,
        before: Option<&RemoteDocuments>,
    ) -> RemoteDocuments {
        let (resources, openapi_v3, openapi_v2) = tokio::join!(
            self.resources(remote),
            self.openapi_v3(remote),
            self.openapi_v2(remote, before.map(|it| &it.openapi_v2)),
        );
        let before = || before.cloned().unwrap_or_default();
        RemoteDocuments {
            resources: resources.unwrap_or_else(|| before().resources),
            openapi_v3: openapi_v3.unwrap_or_else(|| before().openapi_v3),
            openapi_v2: openapi_v2.unwrap_or_else(|| before().openapi_v2),
        }
    }

    /// The resources in the form of the aggregated discovery document; None if the request failed.
    async fn resources(&self, remote: &RemoteApiService) -> Option<Value> {
        const AGGREGATED: &str =
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        let groups = self.read(remote, "/apis", AGGREGATED, MAX_INDEX).await;
        if let DocumentResult::Document(groups) = &groups
            && let Some(resources) = resources_of(groups, remote)
        {
            return Some(resources);
        }
        match self.read(remote, &remote.path(), JSON, MAX_RESOURCES).await {
            DocumentResult::Document(plain) => {
                codec::json::decode(&plain).ok().map(|it| aggregated(&it.value, remote))
            }
            DocumentResult::Absent | DocumentResult::TooLarge => Some(Value::Null),
            DocumentResult::Failed => None,
        }
    }

    /// The path of the OpenAPI v3 document, or Some(None) if the server has none; None if the request
    /// failed.
    async fn openapi_v3(&self, remote: &RemoteApiService) -> Option<Option<String>> {
        match self.read(remote, "/openapi/v3", JSON, MAX_INDEX).await {
            DocumentResult::Document(index) => {
                let path = remote.path().trim_start_matches('/').to_owned();
                let index: Option<OpenApiV3Index> = serde_json::from_slice(&index).ok();
                Some(index.and_then(|mut it| it.paths.remove(&path)).map(|it| it.address))
            }
            DocumentResult::Absent | DocumentResult::TooLarge => Some(None),
            DocumentResult::Failed => None,
        }
    }

    /// The OpenAPI v2 document; None if the request failed.
    async fn openapi_v2(
        &self,
        remote: &RemoteApiService,
        before: Option<&OpenApiV2>,
    ) -> Option<OpenApiV2> {
        let _permit = self.downloads.acquire().await.expect("the semaphore is never closed");
        let document = match self.read(remote, "/openapi/v2", JSON, MAX_DOCUMENT).await {
            DocumentResult::Document(document) => document,
            DocumentResult::Absent => return Some(OpenApiV2::Absent),
            DocumentResult::TooLarge => return Some(OpenApiV2::Omitted(OmitReason::TooLarge)),
            DocumentResult::Failed => return None,
        };
        let part = async {
            match before {
                Some(OpenApiV2::Part(part)) if part.is_from(&document) => Ok(Arc::clone(part)),
                _ => OpenApiPart::from_document(&document, &remote.path()).map(Arc::new),
            }
        };
        Some(match self.aggregation.storage.offload.run(None, part).await {
            Ok(part) => OpenApiV2::Part(part),
            Err(why) => OpenApiV2::Omitted(why),
        })
    }

    async fn read(
        &self,
        remote: &RemoteApiService,
        path: &str,
        accept: &'static str,
        limit: usize,
    ) -> DocumentResult {
        let deadline = Instant::now() + DOCUMENT_TIMEOUT;
        match timeout_at(deadline, self.get(remote, path, accept, limit, deadline)).await {
            Ok(Ok((200, body))) => DocumentResult::Document(body),
            Ok(Ok((404 | 406, _))) => DocumentResult::Absent,
            Ok(Err(RequestError::Outbound(outbound::Error::TooLarge(_)))) => {
                DocumentResult::TooLarge
            }
            Ok(_) | Err(_) => DocumentResult::Failed,
        }
    }
}

/// The resources of the version in the aggregated discovery document of its server.
fn resources_of(groups: &[u8], remote: &RemoteApiService) -> Option<Value> {
    let groups: ApiGroupDiscoveryList<'_> = serde_json::from_slice(groups).ok()?;
    let group = groups.items?.into_iter().find(|it| it.metadata.name == remote.group)?;
    let version = group.versions?.into_iter().find(|it| it.version == remote.version)?;
    let resources = version.resources.map_or("null", RawValue::get);
    if resources.len() > MAX_RESOURCES {
        return None;
    }
    codec::json::decode(resources.as_bytes()).ok().map(|it| it.value)
}

/// Converts an `APIResourceList` to the form of the aggregated discovery document.
fn aggregated(plain: &Value, remote: &RemoteApiService) -> Value {
    let kind = |it: &Value| {
        let text = |field: &str, own: &str| match it[field].as_str() {
            Some(text) if !text.is_empty() => text.to_owned(),
            _ => own.to_owned(),
        };
        json!({
            "group": text("group", &remote.group), "version": text("version", &remote.version),
            "kind": it["kind"],
        })
    };
    let all = || plain["resources"].as_array().into_iter().flatten();
    let mut subresources: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for it in all() {
        if let Some((resource, subresource)) = name(it).split_once('/') {
            subresources.entry(resource).or_default().push(json!({
                "subresource": subresource, "responseKind": kind(it), "verbs": it["verbs"],
            }));
        }
    }
    let entries = all().filter(|it| !name(it).contains('/')).map(|it| {
        let mut entry = json!({
            "resource": it["name"], "responseKind": kind(it), "verbs": it["verbs"],
            "scope": if it["namespaced"] == true { "Namespaced" } else { "Cluster" },
            "singularResource": it["singularName"],
        });
        for field in ["shortNames", "categories"] {
            if it[field].is_array() {
                entry[field] = it[field].clone();
            }
        }
        if let Some(subresources) = subresources.remove(name(it)) {
            entry["subresources"] = subresources.into();
        }
        entry
    });
    entries.collect()
}

fn name(resource: &Value) -> &str {
    resource["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::Object;

    fn remote() -> RemoteApiService {
        let object = json!({"metadata": {"name": "v1.m.example"}, "spec": {
            "group": "m.example", "version": "v1", "service": {"namespace": "a", "name": "b"},
            "insecureSkipTLSVerify": true,
        }});
        RemoteApiService::from_object(&Object::from_value(object).unwrap()).unwrap()
    }

    #[test]
    fn a_plain_list_of_resources_becomes_a_part_of_the_aggregated_document() {
        let plain = json!({"resources": [
            {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "PodMetrics",
                "verbs": ["get", "list"], "shortNames": ["pm"]},
            {"name": "pods/scale", "namespaced": true, "kind": "Scale", "group": "autoscaling",
                "version": "v1", "verbs": ["get"]},
        ]});
        let expected = json!([{
            "resource": "pods", "singularResource": "pod", "scope": "Namespaced",
            "responseKind": {"group": "m.example", "version": "v1", "kind": "PodMetrics"},
            "verbs": ["get", "list"], "shortNames": ["pm"],
            "subresources": [{
                "subresource": "scale", "verbs": ["get"],
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
            }],
        }]);
        assert_eq!(aggregated(&plain, &remote()), expected);
    }
}
