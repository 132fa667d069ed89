//! [`ScaleClient`]: reads and writes the `scale` subresource of objects of any kind.

use k8s_openapi::api::autoscaling::v1::Scale;

use crate::api_requests;
use crate::resource_discovery::escaped;
use keel::Clock;
use machinery::{GroupKind, GroupVersion, GroupVersionKind, names};
use runtime::Client;
use runtime::client::{Mapping, RestMapper, RestMapperError};
use runtime::kube_client;

/// See the [module documentation](self).
pub(crate) struct ScaleClient {
    client: Client,
    mapper: RestMapper,
}

/// The reason why a scale cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScaleError {
    /// The server does not serve the kind.
    #[error("no matches for kind {kind:?} in version {api_version:?}")]
    NoKind {
        /// The kind.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
    /// The kind has no such subresource.
    #[error("{0} does not implement the scale subresource")]
    NotScalable(String),
    /// Discovery failed.
    #[error("{0}")]
    Discovery(String),
    /// The request failed.
    #[error("{}", api_requests::message(.0))]
    Request(#[source] kube_client::Error),
}

/// A scale and the path at which it was read.
pub(crate) struct LocatedScale {
    /// The path of the subresource.
    pub path: String,
    /// The scale.
    pub scale: Scale,
}

impl ScaleClient {
    /// A client that writes with the rights of `client`, and discovers with those of `reader`.
    pub(crate) fn new(client: Client, reader: Client, clock: &Clock) -> Self {
        Self { client, mapper: RestMapper::new(reader, clock) }
    }

    /// The resource of a kind; in another version if this one is not served.
    pub(crate) async fn mapping(
        &self,
        api_version: &str,
        kind: &str,
    ) -> Result<Mapping, ScaleError> {
        let no_kind =
            || ScaleError::NoKind { kind: kind.to_owned(), api_version: api_version.to_owned() };
        let version: GroupVersion = api_version.parse().map_err(|_| no_kind())?;
        let exact = GroupVersionKind::new(&version.group, &version.version, kind);
        let mapped = match self.mapper.mapping(&exact).await {
            Err(RestMapperError::NoKindMatch(_)) => {
                self.mapper.preferred(&GroupKind::new(&version.group, kind)).await
            }
            mapped => mapped,
        };
        mapped.map_err(|error| match error {
            RestMapperError::Discovery(error) => {
                ScaleError::Discovery(api_requests::message(&error))
            }
            RestMapperError::NoKindMatch(_) | RestMapperError::NoVersion(_) => no_kind(),
        })
    }

    /// The scale of an object; `None` if the object does not exist.
    pub(crate) async fn get(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<LocatedScale>, ScaleError> {
        let mapping = self.mapping(api_version, kind).await?;
        // The name in a reference to an owner may be any text, also a path.
        if !names::path_segment(name).is_empty() {
            return Ok(None);
        }
        let path = object_path(&mapping, namespace, name);
        match self.read(&format!("{path}/scale")).await {
            Ok(scale) => Ok(Some(scale)),
            Err(ScaleError::Request(error)) if api_requests::has_code(&error, 404) => {
                self.check_scalable(&mapping).await.map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the scale at a path.
    pub(crate) async fn read(&self, path: &str) -> Result<LocatedScale, ScaleError> {
        let request = http::Request::get(path).body(Vec::new());
        let request =
            request.map_err(|error| ScaleError::Request(kube_client::Error::HttpError(error)))?;
        let scale = self.client.request(request).await.map_err(ScaleError::Request)?;
        Ok(LocatedScale { path: path.to_owned(), scale })
    }

    /// Replaces a scale.
    pub(crate) async fn replace(&self, scale: &LocatedScale) -> api_requests::Result<Scale> {
        api_requests::replace(&self.client, &scale.path, &scale.scale).await
    }

    /// Whether the kind has a scale, for a path that was not found.
    async fn check_scalable(&self, mapping: &Mapping) -> Result<(), ScaleError> {
        let version = mapping.kind.group_version();
        let path = collection_path(&version);
        let list: Option<serde_json::Value> =
            api_requests::get(&self.client, &path).await.map_err(ScaleError::Request)?;
        let name = format!("{}/scale", mapping.resource);
        let resources = list.as_ref().and_then(|list| list["resources"].as_array());
        if resources.into_iter().flatten().any(|it| it["name"] == name.as_str()) {
            return Ok(());
        }
        let resource = &mapping.resource;
        Err(ScaleError::NotScalable(match version.group.as_str() {
            "" => resource.clone(),
            group => format!("{resource}.{group}"),
        }))
    }
}

/// The path of an object in a namespace. A cluster-scoped object is not found there: who may write in a
/// namespace must not scale objects outside.
pub(crate) fn object_path(mapping: &Mapping, namespace: &str, name: &str) -> String {
    let (root, resource) = (collection_path(&mapping.kind.group_version()), &mapping.resource);
    format!("{root}/namespaces/{namespace}/{resource}/{}", escaped(name))
}

/// The path of a group and version.
fn collection_path(version: &GroupVersion) -> String {
    if version.group.is_empty() {
        return format!("/api/{}", version.version);
    }
    format!("/apis/{}/{}", version.group, version.version)
}
