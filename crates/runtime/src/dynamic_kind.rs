//! [`DynamicKind`]: a kind that is known at run time only, for controllers and caches of
//! `DynamicObject`s.
//!
//! ```no_run
//! use runtime::{Action, Client, Controller, DynamicKind, Failure, Lister, Manager, Request};
//! use runtime::kube_core::{DynamicObject, GroupVersionKind};
//! use std::sync::Arc;
//!
//! async fn reconcile(request: Request, all: Arc<Lister<DynamicObject>>) -> Result<Action, Failure> {
//!     let Some(object) = all.get_key(&request)? else { return Ok(Action::Done) };
//!     println!("{request}: {}", object.data["spec"]);
//!     Ok(Action::Done)
//! }
//!
//! async fn add_to(manager: &Manager, kind: &str) -> Result<(), Box<dyn std::error::Error>> {
//!     let kind = GroupVersionKind::gvk("example.com", "v1", kind); // from a flag, or an object
//!     let kind = DynamicKind::discover(&manager.client(), &kind).await?;
//!     let pods = GroupVersionKind::gvk("", "v1", "Pod");
//!     let pods = DynamicKind::discover(&manager.client(), &pods).await?;
//!     let lister = manager.lister_dynamic(&kind);
//!     manager.add(Controller::for_dynamic(&kind).owns_dynamic(&pods).reconcile(reconcile, lister));
//!     Ok(())
//! }
//! ```

use kube_client::{Api, Client};
use kube_core::{ApiResource, DynamicObject, GroupVersionKind};

use client::{RestMapper, RestMapperError};
use informer::Scope;
use keel::Clock;
use machinery::GroupVersion;

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DynamicKind {
    /// The group, the version, the kind and its plural.
    pub resource: ApiResource,
    /// Whether its objects have namespaces.
    pub is_namespaced: bool,
}

impl DynamicKind {
    /// A kind whose objects have namespaces.
    ///
    /// ```
    /// use runtime::{DynamicKind, kube_core::{ApiResource, GroupVersionKind}};
    ///
    /// let sites = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Site"));
    /// let kind = DynamicKind::namespaced(sites); // with the plural "sites", which is a guess
    /// assert_eq!(kind.resource.plural, "sites");
    /// ```
    pub fn namespaced(resource: ApiResource) -> Self {
        Self { resource, is_namespaced: true }
    }

    /// A kind whose objects have no namespaces.
    ///
    /// ```
    /// # use runtime::{DynamicKind, kube_core::{ApiResource, GroupVersionKind}};
    /// let nodes = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Node"));
    /// assert!(!DynamicKind::cluster_scoped(nodes).is_namespaced);
    /// ```
    pub fn cluster_scoped(resource: ApiResource) -> Self {
        Self { resource, is_namespaced: false }
    }

    /// The kind as the server serves it.
    pub async fn discover(
        client: &Client,
        kind: &GroupVersionKind,
    ) -> Result<Self, RestMapperError> {
        let wanted = machinery::GroupVersionKind::new(&kind.group, &kind.version, &kind.kind);
        let mapper = RestMapper::new(client.clone(), &Clock::system());
        let mapping = mapper.mapping(&wanted).await?;
        let resource = ApiResource::from_gvk_with_plural(kind, &mapping.resource);
        Ok(Self { resource, is_namespaced: mapping.is_namespaced })
    }

    /// The client for the objects of a namespace; of the cluster if the kind has no namespaces.
    ///
    /// ```no_run
    /// # use runtime::{Api, Client, DynamicKind, Request, kube_core::DynamicObject};
    /// # fn example(client: &Client, kind: &DynamicKind, request: &Request) {
    /// let api: Api<DynamicObject> = kind.api(client, request.namespace());
    /// # drop(api);
    /// # }
    /// ```
    pub fn api(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        if self.is_namespaced {
            Api::namespaced_with(client.clone(), namespace, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }

    /// All objects of the kind.
    pub(crate) fn scope(&self) -> Scope {
        let ApiResource { group, version, plural, .. } = &self.resource;
        Scope::all(GroupVersion::new(group, version), plural)
    }
}
