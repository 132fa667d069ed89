//! [`ClientExt`]: the `Api` of an object's own namespace.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
//! use runtime::{Api, Client, ClientExt};
//!
//! fn apis(client: &Client, pod: &Pod, node: &Node) {
//!     let pods: Api<Pod> = client.api_of(pod); //                          where the pod is
//!     let nodes: Api<Node> = client.api_of(node); //                       of the cluster
//!     let beside: Api<ConfigMap> = client.api_beside(pod); //              another kind
//!     let there: Api<ConfigMap> = client.api_in("kube-system"); //         `request.namespace()`
//!     # drop((pods, nodes, beside, there));
//! }
//! ```

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube_client::{Api, Client};
use kube_core::Resource;

/// See the [module documentation](self).
pub trait ClientExt {
    /// The objects of kind `K` in a namespace; those of the cluster if the kind has no namespaces.
    fn api_in<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope: ApiScope>;

    /// The objects of the kind and the namespace of `object`.
    fn api_of<K>(&self, object: &K) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope: ApiScope>,
    {
        self.api_beside(object)
    }

    /// The objects of kind `K` in the namespace of `object`, such as its dependents.
    fn api_beside<K>(&self, object: &impl Resource) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope: ApiScope>,
    {
        self.api_in(object.meta().namespace.as_deref().unwrap_or_default())
    }
}

impl ClientExt for Client {
    fn api_in<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope: ApiScope>,
    {
        K::Scope::api(self.clone(), namespace)
    }
}

/// Whether the objects of a kind have namespaces: the scopes of `k8s-openapi`.
///
/// ```
/// use k8s_openapi::api::core::v1::{Node, Pod};
/// use runtime::{client_ext::ApiScope, kube_core::Resource};
///
/// fn is_served<K: Resource<Scope: ApiScope>>() {}
/// is_served::<Pod>();
/// is_served::<Node>();
/// ```
pub trait ApiScope: Sized {
    /// The `Api` of a kind of this scope.
    #[doc(hidden)]
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, namespace: &str) -> Api<K>;
}

impl ApiScope for NamespaceResourceScope {
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, namespace: &str) -> Api<K> {
        Api::namespaced(client, namespace)
    }
}

impl ApiScope for ClusterResourceScope {
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, _: &str) -> Api<K> {
        Api::all(client)
    }
}
