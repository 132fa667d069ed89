//! [`Applier`]: server-side apply with one field manager.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube_client::{Api, Client};
//! use runtime::apply::{Applier, ApplyError};
//!
//! async fn apply(client: Client, wanted: &ConfigMap) -> Result<(), Box<dyn std::error::Error>> {
//!     let maps = Api::namespaced(client, "default");
//!     match Applier::new("my-operator").apply(&maps, wanted).await {
//!         Err(ApplyError::Conflict(conflicts)) => println!("not applied: {conflicts}"),
//!         applied => drop(applied?),
//!     }
//!     Ok(())
//! }
//! ```

use std::any::Any;
use std::fmt;

use kube_client::Api;
use kube_client::api::{Patch, PatchParams};
use kube_core::{Resource, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub struct Applier {
    params: PatchParams,
}

/// The reason why an object was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Leave the fields out, or apply with [`Applier::force`].
    #[error("other managers own some of the fields: {0}")]
    Conflict(Conflicts),
    /// The object needs a name.
    #[error("an object without a name cannot be applied")]
    NoName,
    /// A [`DynamicObject`](kube_core::DynamicObject) needs an apiVersion and a kind, which
    /// `DynamicObject::new` sets.
    #[error("an object without an apiVersion and a kind cannot be applied")]
    NoKind,
    /// The object cannot be encoded. Types that can be decoded usually can be encoded.
    #[error("cannot encode the object")]
    Encode(#[source] serde_json::Error),
    /// The request failed.
    #[error("cannot apply the object")]
    Client(#[source] kube_client::Error),
}

/// Fields that other managers own.
///
/// ```
/// use runtime::apply::{Conflicts, FieldConflict};
///
/// let field = ".spec.replicas".to_owned();
/// let message = r#"conflict with "kubectl" using apps/v1"#.to_owned();
/// let conflicts = Conflicts(vec![FieldConflict { field, message }]);
/// assert_eq!(conflicts.to_string(), r#".spec.replicas: conflict with "kubectl" using apps/v1"#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicts(pub Vec<FieldConflict>);

/// A field that another manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldConflict {
    /// The path, such as `.spec.replicas`.
    pub field: String,
    /// The owner, in the text of the server: `conflict with "kubectl" using v1`.
    pub message: String,
}

impl Applier {
    /// An applier that fails on conflicts.
    pub fn new(field_manager: &str) -> Self {
        let field_manager = Some(field_manager.to_owned());
        Self { params: PatchParams { field_manager, ..PatchParams::default() } }
    }

    /// An applier that takes fields from other managers, for the fields that only this controller
    /// decides.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.params.force = true;
        self
    }

    /// Applies these fields, and creates the object if it does not exist. Fields that this manager
    /// applied before and that are not in `object` are removed.
    ///
    /// An object of a kind that is known at run time only has its kind itself:
    ///
    /// ```no_run
    /// use kube_core::DynamicObject;
    /// use runtime::{Client, DynamicKind, apply::{Applier, ApplyError}};
    ///
    /// async fn apply(client: &Client, kind: &DynamicKind) -> Result<DynamicObject, ApplyError> {
    ///     let mut site = DynamicObject::new("blog", &kind.resource);
    ///     site.data = serde_json::json!({"spec": {"pages": 2}});
    ///     Applier::new("my-operator").apply(&kind.api(client, "default"), &site).await
    /// }
    /// ```
    pub async fn apply<K>(&self, api: &Api<K>, object: &K) -> Result<K, ApplyError>
    where
        K: Resource<DynamicType: 'static> + Serialize + DeserializeOwned + Clone + fmt::Debug,
    {
        let name = object.meta().name.as_deref().ok_or(ApplyError::NoName)?;
        let patch = Patch::Apply(applicable(object)?);
        api.patch(name, &self.params, &patch).await.map_err(apply_error)
    }

    /// Applies the status, which must be part of `object`.
    pub async fn apply_status<K>(&self, api: &Api<K>, object: &K) -> Result<K, ApplyError>
    where
        K: Resource<DynamicType: 'static> + Serialize + DeserializeOwned + Clone + fmt::Debug,
    {
        let name = object.meta().name.as_deref().ok_or(ApplyError::NoName)?;
        let whole = applicable(object)?;
        let patch = Patch::Apply(json!({
            "apiVersion": whole["apiVersion"], "kind": whole["kind"],
            "metadata": {"name": name}, "status": whole["status"],
        }));
        api.patch_status(name, &self.params, &patch).await.map_err(apply_error)
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, FieldConflict { field, message }) in self.0.iter().enumerate() {
            let separator = if n == 0 { "" } else { "; " };
            write!(f, "{separator}{field}: {message}")?;
        }
        Ok(())
    }
}

/// The object without the fields that cannot be applied: the server refuses managedFields, and a
/// resourceVersion would turn every concurrent write into a conflict.
fn applicable<K>(object: &K) -> Result<Value, ApplyError>
where
    K: Resource<DynamicType: 'static> + Serialize,
{
    let mut value = serde_json::to_value(object).map_err(ApplyError::Encode)?;
    let unit: &dyn Any = &();
    if let Some(static_type) = unit.downcast_ref::<K::DynamicType>() {
        value["apiVersion"] = K::api_version(static_type).into();
        value["kind"] = K::kind(static_type).into();
    } else if !(value["apiVersion"].is_string() && value["kind"].is_string()) {
        return Err(ApplyError::NoKind);
    }
    if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"]
        {
            meta.remove(field);
        }
    }
    Ok(value)
}

fn apply_error(error: kube_client::Error) -> ApplyError {
    match error {
        kube_client::Error::Api(status) if status.is_conflict() => match conflicts(&status) {
            Some(conflicts) => ApplyError::Conflict(conflicts),
            None => ApplyError::Client(kube_client::Error::Api(status)),
        },
        error => ApplyError::Client(error),
    }
}

fn conflicts(status: &Status) -> Option<Conflicts> {
    let causes = status.details.as_ref().map(|it| it.causes.as_slice()).unwrap_or_default();
    let of_managers = causes.iter().filter(|it| it.reason == "FieldManagerConflict");
    let conflicts: Vec<_> = of_managers
        .map(|it| FieldConflict { field: it.field.clone(), message: it.message.clone() })
        .collect();
    (!conflicts.is_empty()).then_some(Conflicts(conflicts))
}
