//! [`Slice`]: an `EndpointSlice` as the controllers read and write it, and the requests for it.

use std::sync::Arc;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use runtime::informer::{Item, NoSuchIndex, ObjectEvent};
use runtime::{Client, Lister, Mapper, Predicate, Request};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::api_requests::{self, has_code};
use crate::controller_context::ControllerContext;
use crate::endpoints::subsets::TargetRef;
use crate::metadata::Metadata;
use crate::service_pods::decode;

pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// The index of slices by `namespace/service`.
const SERVICE_INDEX: &str = "service";

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Slice {
    /// The metadata; without a name if the slice is to be created.
    pub metadata: Metadata,
    /// `IPv4` or `IPv6`.
    pub address_type: String,
    /// The endpoints.
    #[serde(deserialize_with = "null_as_default")]
    pub endpoints: Vec<Endpoint>,
    /// The ports of each endpoint, sorted.
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<SlicePort>,
}

/// An endpoint of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Endpoint {
    /// The addresses, of one family.
    pub addresses: Vec<String>,
    /// The state of the pod.
    pub conditions: Conditions,
    /// The host name in the domain of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// The node of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The zone of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The zone and the node whose clients should use this endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Hints>,
}

/// The state of an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Conditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// The hints of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Hints {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_zones: Vec<Named>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_nodes: Vec<Named>,
}

/// A zone or a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Named {
    pub name: String,
}

/// A port of all endpoints of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SlicePort {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    pub protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

/// An empty list is null in JSON.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// The fields that identify an endpoint: another state of the rest is an update in place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndpointKey {
    addresses: Vec<String>,
    hostname: Option<String>,
    namespace: String,
    name: String,
}

impl Endpoint {
    /// What identifies the endpoint.
    pub(crate) fn key(&self) -> EndpointKey {
        let target = self.target_ref.as_ref();
        let mut addresses = self.addresses.clone();
        addresses.sort_unstable();
        EndpointKey {
            addresses,
            hostname: self.hostname.clone(),
            namespace: target.map(|it| it.namespace.clone()).unwrap_or_default(),
            name: target.map(|it| it.name.clone()).unwrap_or_default(),
        }
    }
}

impl Slice {
    fn path(&self, namespace: &str) -> String {
        format!("{}/{}", slices_path(namespace), self.metadata.name)
    }

    /// Whether an object of this kind and uid owns the slice.
    pub(crate) fn is_owned_by(&self, kind: &str, uid: &str) -> bool {
        let owners = &self.metadata.owner_references;
        owners.iter().any(|it| it.uid == uid && it.kind == kind && it.api_version == "v1")
    }

    fn to_json(&self, metadata: &Value) -> Value {
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": metadata,
            "addressType": self.address_type,
            "endpoints": self.endpoints,
            "ports": self.ports,
        })
    }

    /// Creates the slice, with a name that begins with that of its service.
    pub(crate) async fn create(
        &self,
        client: &Client,
        namespace: &str,
        service: &str,
    ) -> api_requests::Result<Value> {
        let metadata = json!({
            "generateName": name_prefix(service),
            "labels": self.metadata.labels,
            "annotations": self.metadata.annotations,
            "ownerReferences": self.metadata.owner_references,
        });
        api_requests::create(client, &slices_path(namespace), &self.to_json(&metadata)).await
    }

    /// Replaces the slice.
    pub(crate) async fn update(
        &self,
        client: &Client,
        namespace: &str,
    ) -> api_requests::Result<Value> {
        let slice = self.to_json(&self.metadata.to_update());
        api_requests::replace(client, &self.path(namespace), &slice).await
    }

    /// Deletes the slice, if it still exists.
    pub(crate) async fn delete(
        &self,
        client: &Client,
        namespace: &str,
    ) -> api_requests::Result<()> {
        let path = self.path(namespace);
        match api_requests::delete(client, &path, &self.metadata.uid).await {
            Err(error) if !has_code(&error, 404) && !has_code(&error, 409) => Err(error),
            _ => Ok(()),
        }
    }
}

fn slices_path(namespace: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
}

/// The prefix of the names of slices. A name is at most 253 characters long, and the server
/// truncates a prefix that is too long.
fn name_prefix(service: &str) -> String {
    format!("{service}-")
}

/// The slices of services, which one controller manages.
pub(crate) struct Slices {
    lister: Lister<Slice>,
    manager: &'static str,
}

impl Slices {
    /// The slices with this value of the label [`MANAGED_BY`].
    pub(crate) fn new(cx: &ControllerContext, manager: &'static str) -> Self {
        let informer = cx.manager.informer::<EndpointSlice>();
        informer.indexer().add_index(SERVICE_INDEX, |item| {
            let service = service_of(item);
            service.map(|request| request.to_string()).into_iter().collect()
        });
        Self { lister: informer.lister(), manager }
    }

    /// The slices of a service that are not being deleted.
    pub(crate) fn of_service(&self, service: &Request) -> Result<Vec<Arc<Slice>>, NoSuchIndex> {
        let found = self.lister.indexer().by_index(SERVICE_INDEX, &service.to_string())?;
        let decoded = found.iter().filter_map(|item| decode(&self.lister, item));
        let is_mine = |slice: &Arc<Slice>| {
            slice.metadata.labels.get(MANAGED_BY).is_some_and(|manager| manager == self.manager)
                && !slice.metadata.is_deleting()
        };
        Ok(decoded.filter(is_mine).collect())
    }

    /// Maps a slice to its service.
    pub(crate) fn to_service() -> Mapper {
        Mapper::custom(|item| service_of(item).into_iter().collect())
    }

    /// Accepts the events of slices that the controller manages, or managed before the change.
    pub(crate) fn are_managed(&self) -> Predicate {
        let manager = self.manager;
        Predicate::custom(move |event| {
            let is_mine =
                |item: &Item| item.labels().get(MANAGED_BY).is_some_and(|it| it == manager);
            match event {
                ObjectEvent::Updated { old, new } => is_mine(new) || is_mine(old),
                ObjectEvent::Added { item, .. } | ObjectEvent::Deleted { item, .. } => {
                    is_mine(item)
                }
            }
        })
    }
}

/// The service in the label of a slice.
fn service_of(slice: &Item) -> Option<Request> {
    let labels = slice.labels();
    let service = labels.get(SERVICE_NAME).filter(|name| !name.is_empty())?;
    Some(Request::new(slice.namespace(), service))
}
