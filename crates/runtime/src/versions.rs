//! [`Versions`]: the versions of one kind as one CRD, and the conversion between them.
//!
//! ```
//! use runtime::{Versions, resource, versions::Versions as _};
//!
//! mod v1 {
//!     #[runtime::resource(group = "example.com", version = "v1", kind = "Gate", namespaced)]
//!     pub struct GateSpec { pub endpoint: String }
//! }
//! mod v2 {
//!     #[runtime::resource(group = "example.com", version = "v2", kind = "Gate", namespaced)]
//!     pub struct GateSpec { pub host: String, pub port: u16 }
//! }
//!
//! impl TryFrom<v1::Gate> for v2::Gate {
//!     type Error = String;
//!     fn try_from(gate: v1::Gate) -> Result<Self, String> {
//!         let (host, port) = gate.spec.endpoint.split_once(':').ok_or("the endpoint has no port")?;
//!         let port = port.parse().map_err(|_| "the port is not a number")?;
//!         let spec = v2::GateSpec { host: host.to_owned(), port };
//!         Ok(v2::Gate { metadata: gate.metadata, spec })
//!     }
//! }
//! impl From<v2::Gate> for v1::Gate {
//!     fn from(gate: v2::Gate) -> Self {
//!         let endpoint = format!("{}:{}", gate.spec.host, gate.spec.port);
//!         Self { metadata: gate.metadata, spec: v1::GateSpec { endpoint } }
//!     }
//! }
//!
//! #[derive(Versions)]
//! enum Gate {
//!     V1(v1::Gate),
//!     #[versions(storage)]
//!     V2(v2::Gate),
//! }
//!
//! let crd = Gate::crd()?;
//! assert_eq!(crd.spec.versions.len(), 2);
//!
//! let old = serde_json::json!({"apiVersion": "example.com/v1", "kind": "Gate",
//!     "metadata": {"name": "a"}, "spec": {"endpoint": "b.c:80"}});
//! let new = Gate::convert(old, "example.com/v2")?;
//! assert_eq!(new["spec"], serde_json::json!({"host": "b.c", "port": 80}));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod partial_object;

use std::fmt;

use kube_core::Resource;
use kube_core::crd::merge_crds;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, WebhookClientConfig, WebhookConversion,
};
pub use kube_core::crd::MergeError;

/// See the [module documentation](self). `#[derive(Versions)]` implements it.
pub trait Versions {
    /// The stored version.
    type Stored: Resource<DynamicType = ()>;

    /// One CRD for each version.
    fn version_crds() -> Vec<CustomResourceDefinition>;

    /// Converts an object to another version, such as `example.com/v2`.
    fn convert(object: Value, desired: &str) -> Result<Value, ConversionError>;

    /// The merged CRD without a conversion webhook, for versions with the same fields.
    fn crd() -> Result<CustomResourceDefinition, MergeError> {
        merge_crds(Self::version_crds(), &Self::Stored::version(&()))
    }

    /// The merged CRD for versions that a webhook converts
    /// ([`webhook::conversion`](crate::webhook::conversion)).
    fn crd_converted_by(
        webhook: WebhookClientConfig,
    ) -> Result<CustomResourceDefinition, MergeError> {
        let mut crd = Self::crd()?;
        crd.spec.conversion = Some(CustomResourceConversion {
            strategy: "Webhook".to_owned(),
            webhook: Some(WebhookConversion {
                client_config: Some(webhook),
                conversion_review_versions: vec!["v1".to_owned()],
            }),
        });
        Ok(crd)
    }
}

/// The reason why an object cannot be converted.
///
/// ```
/// use runtime::{versions::ConversionError, webhook::conversion::converting_with};
///
/// // Without a type for each version, the objects are converted as JSON.
/// let handler = converting_with(|mut object, desired| match desired {
///     "example.com/v1" | "example.com/v2" => {
///         object["apiVersion"] = desired.into();
///         Ok(object)
///     }
///     _ => Err(ConversionError::unknown(desired)),
/// });
/// # drop(handler);
/// ```
#[derive(Debug, thiserror::Error)]
pub enum ConversionError {
    /// The CRD and the webhook are of different releases.
    #[error("unknown version {0:?}")]
    Unknown(String),
    /// The object is not valid in its version.
    #[error("the object is not a valid {kind} of {version}: {error}")]
    Decode {
        /// The kind.
        kind: String,
        /// The version.
        version: String,
        /// The reason.
        error: serde_json::Error,
    },
    /// The object has a value that the other version cannot represent.
    #[error("{0}")]
    Convert(String),
}

impl ConversionError {
    /// There is no such version.
    pub fn unknown(version: &str) -> Self {
        Self::Unknown(version.to_owned())
    }
}

/// The apiVersion of an object.
#[doc(hidden)] // for the expansion of `#[derive(Versions)]`
pub fn api_version(object: &Value) -> Result<String, ConversionError> {
    let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if version.is_empty() { Err(ConversionError::unknown("")) } else { Ok(version.to_owned()) }
}

/// Decodes a `From` and converts it to a `To`.
#[doc(hidden)] // for the expansion of `#[derive(Versions)]`
pub fn decode<From, To>(object: Value) -> Result<To, ConversionError>
where
    From: DeserializeOwned + Resource<DynamicType = ()> + TryInto<To>,
    From::Error: fmt::Display,
{
    let decoded: From =
        serde_json::from_value(object).map_err(|error| ConversionError::Decode {
            kind: From::kind(&()).into_owned(),
            version: From::api_version(&()).into_owned(),
            error,
        })?;
    decoded.try_into().map_err(|it: From::Error| ConversionError::Convert(it.to_string()))
}

/// Converts a `From` to a `To` and encodes it.
#[doc(hidden)] // for the expansion of `#[derive(Versions)]`
pub fn encode<From, To>(object: From) -> Result<Value, ConversionError>
where
    From: TryInto<To>,
    From::Error: fmt::Display,
    To: Serialize,
{
    let converted: To =
        object.try_into().map_err(|it: From::Error| ConversionError::Convert(it.to_string()))?;
    serde_json::to_value(&converted).map_err(|it| ConversionError::Convert(it.to_string()))
}
