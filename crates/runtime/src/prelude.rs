//! What most operators import: `use runtime::prelude::*`.
//!
//! ```
//! use runtime::prelude::*;
//! use std::sync::Arc;
//!
//! #[resource(group = "example.com", version = "v1", kind = "Site", namespaced)]
//! struct SiteSpec {
//!     pages: u32,
//! }
//!
//! async fn reconcile(request: Request, sites: Arc<Lister<Site>>) -> Result<Action, Failure> {
//!     let Some(site) = sites.get_key(&request)? else { return Ok(Action::Done) };
//!     println!("{} has {} pages", site.name_any(), site.spec.pages);
//!     Ok(Action::Done)
//! }
//!
//! fn add_to(manager: &Manager) {
//!     manager.add(Controller::for_::<Site>().reconcile(reconcile, manager.lister()));
//! }
//! ```

pub use derive::{Versions, resource, schema};
pub use informer::{Lister, Selection};
pub use keel::Clock;
pub use kube_client::{Api, Client};
pub use kube_core::params::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
pub use kube_core::{CustomResourceExt, ObjectMeta, Resource, ResourceExt};

pub use crate::apply::Applier;
pub use crate::conditions::{self, NewCondition};
pub use crate::finalizer::{self, Stage};
pub use crate::recorder::{EventType, Recorder};
pub use crate::{
    Action, CONTROLLER_INDEX, ClientExt, Controller, Failure, LeaderElection, ListerExt, Manager,
    ManagerOptions, Mapper, NotFoundExt, Predicate, Request, client, create_or_update, owner,
    patch_status,
};
