//! What an aggregated server says of itself: its part of discovery, and its OpenAPI documents.

use super::follower::Follower;
use super::{Remote, Told};
use machinery::{Value, codec, json};
use std::sync::Arc;
use tokio::time::Instant;

impl Follower {
    /// What the server says of itself.
    pub(super) async fn ask(&self, remote: &Remote, deadline: Instant) -> Told {
        let (resources, index, v2) = tokio::join!(
            self.resources(remote, deadline),
            self.document(remote, "/openapi/v3", "application/json", deadline),
            self.document(remote, "/openapi/v2", "application/json", deadline),
        );
        let place = remote.path().trim_start_matches('/').to_owned();
        let openapi_v3 = index["paths"][&place]["serverRelativeURL"].as_str().map(str::to_owned);
        Told { resources, openapi_v3, openapi_v2: Arc::new(v2) }
    }

    async fn resources(&self, remote: &Remote, deadline: Instant) -> Value {
        const AGGREGATED: &str =
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        let all = self.document(remote, "/apis", AGGREGATED, deadline).await;
        let group = all["items"].as_array().into_iter().flatten();
        let mut group = group.filter(|it| it["metadata"]["name"] == remote.group.as_str());
        let versions = group.next().and_then(|it| it["versions"].as_array());
        let version =
            versions.and_then(|it| it.iter().find(|it| it["version"] == remote.version.as_str()));
        if let Some(version) = version {
            return version["resources"].clone();
        }
        let plain = self.document(remote, &remote.path(), "application/json", deadline).await;
        aggregated(&plain, remote)
    }

    async fn document(
        &self,
        remote: &Remote,
        path: &str,
        accept: &str,
        deadline: Instant,
    ) -> Value {
        let Ok((200, body)) = self.get(remote, path, accept, deadline).await else {
            return Value::Null;
        };
        codec::json::decode(&body).map_or(Value::Null, |it| it.value)
    }
}

/// The plain list of a version's resources in the form that the aggregated document has.
fn aggregated(plain: &Value, remote: &Remote) -> Value {
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
    let all: Vec<&Value> = plain["resources"].as_array().into_iter().flatten().collect();
    let name = |it: &Value| it["name"].as_str().unwrap_or_default().to_owned();
    let rows = all.iter().filter(|it| !name(it).contains('/')).map(|it| {
        let mut row = json!({
            "resource": it["name"], "responseKind": kind(it), "verbs": it["verbs"],
            "scope": if it["namespaced"] == true { "Namespaced" } else { "Cluster" },
            "singularResource": it["singularName"],
        });
        for field in ["shortNames", "categories"] {
            if it[field].is_array() {
                row[field] = it[field].clone();
            }
        }
        let prefix = format!("{}/", name(it));
        let below: Vec<Value> = all
            .iter()
            .filter_map(|it| {
                let subresource = name(it).strip_prefix(&prefix)?.to_owned();
                Some(json!({
                    "subresource": subresource, "responseKind": kind(it), "verbs": it["verbs"],
                }))
            })
            .collect();
        if !below.is_empty() {
            row["subresources"] = below.into();
        }
        row
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::Object;

    fn remote() -> Remote {
        let object = json!({"metadata": {"name": "v1.m.example"}, "spec": {
            "group": "m.example", "version": "v1", "service": {"namespace": "a", "name": "b"},
            "insecureSkipTLSVerify": true,
        }});
        Remote::from_object(&Object::from_value(object).unwrap()).unwrap()
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
