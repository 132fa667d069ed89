//! [`InformerExt`]: the typed client, informer and lister of every kind that is a Rust type.
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use informer::InformerFactory;
//! use runtime::InformerExt;
//!
//! async fn names(factory: &InformerFactory) -> Result<Vec<String>, Box<dyn std::error::Error>> {
//!     let pods = Pod::lister(factory); // makes the informer, which is shared
//!     factory.start();
//!     factory.wait_for_sync().await?;
//!     let pods = pods.list_namespace("default").objects;
//!     Ok(pods.into_iter().filter_map(|pod| pod.metadata.name).collect())
//! }
//! ```

use kube_client::{Api, Client};
use kube_core::Resource;
use serde::de::DeserializeOwned;

use informer::{InformerFactory, Lister, Scope, SharedInformer};
use machinery::gvk::GroupVersion;

/// See the [module documentation](self).
pub trait InformerExt: Resource<DynamicType = ()> + Sized {
    /// All objects of this kind, whole.
    fn scope() -> Scope {
        let group_version = GroupVersion::new(&Self::group(&()), &Self::version(&()));
        Scope::all(group_version, &Self::plural(&()))
    }

    /// The informer of this kind in `factory`.
    fn informer(factory: &InformerFactory) -> SharedInformer {
        factory.informer(&Self::scope())
    }

    /// A lister of the informer of this kind.
    fn lister(factory: &InformerFactory) -> Lister<Self>
    where
        Self: DeserializeOwned,
    {
        Self::informer(factory).lister()
    }

    /// The client for the objects of all namespaces.
    fn api(client: &Client) -> Api<Self> {
        Api::all(client.clone())
    }
}

impl<K: Resource<DynamicType = ()>> InformerExt for K {}
