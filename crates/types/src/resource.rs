//! [`Resource`]: the description of one kind, built-in or custom.
//!
//! A kind is data: names, versions, columns, and at most a few small functions ([`Strategy`]) where
//! it differs from others. The server's verbs are written once, against this type; a CRD becomes
//! the same type at run time.

mod strategy;
mod conventions;

pub use conventions::Conventions;
pub use strategy::{
    Action, DeletionHooks, GarbageCollectionPolicy, READ_AND_WRITE, Strategy, Subresource,
    UnstoredKind, ValidateIn, drop_status, keep_all_but_status, keep_status,
};

use std::sync::Arc;

use crate::{OrderedMap, Type};
use machinery::codec::json;
use machinery::{GroupKind, GroupResource, GroupVersion, Object, Value};
use schema::Structural;

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    /// `pods`
    pub plural: String,
    /// `pod`
    pub singular: String,
    /// `Pod`
    pub kind: String,
    /// `PodList`
    pub list_kind: String,
    /// `po`
    pub short_names: Vec<String>,
    /// `all`
    pub categories: Vec<String>,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// All versions, served or not, the preferred one first.
    pub versions: Vec<Version>,
    /// The index in `versions` of the storage version.
    pub storage_index: usize,
    /// What this kind does differently.
    pub strategy: &'static Strategy,
    /// How it is served, where Kubernetes serves built-in and custom kinds differently.
    pub conventions: &'static Conventions,
    /// The prefix of the keys of objects, `/registry/pods` or `/registry/<group>/<plural>`, without
    /// a slash at the end.
    pub prefix: String,
    /// Seconds after which the server removes an object (events).
    pub ttl_seconds: Option<u64>,
}

/// One version of a [`Resource`].
#[derive(Debug, Clone)]
pub struct Version {
    /// `v1`
    pub name: String,
    /// Another group than the resource's, for the one kind that is served in two: Event.
    pub group: Option<String>,
    /// Whether clients may use it.
    pub served: bool,
    /// The warning for requests in this version, if it is deprecated.
    pub deprecation: Option<String>,
    /// The schema of objects in it.
    pub shape: Shape,
    /// The columns that `kubectl get` shows.
    pub columns: Columns,
    /// `/status`
    pub status: bool,
    /// `/scale`
    pub scale: Option<Scale>,
    /// Selectable fields besides `metadata.name` and `metadata.namespace`. Shared with the objects
    /// whose fields were read by it.
    pub selectable: Arc<[Selectable]>,
}

impl Version {
    /// The release without this version in the warning about a built-in kind, such as `1.22`; empty if
    /// there is none, and for custom resources.
    pub fn removed_release(&self) -> &str {
        let warning = match &self.shape {
            Shape::Typed(_) => self.deprecation.as_deref().unwrap_or_default(),
            Shape::Structural(_) => "",
        };
        let after = warning.split_once(", unavailable in v").map_or("", |(_, it)| it);
        after.split_once('+').map_or("", |(release, _)| release)
    }
}

/// The schema of the objects of a version.
#[derive(Debug, Clone)]
pub enum Shape {
    /// A built-in type: decoded as Go decodes it.
    Typed(&'static Type),
    /// A custom resource's schema: pruned, defaulted and validated by it.
    Structural(Arc<Structural>),
}

impl Shape {
    /// Appends an object of this shape as Go writes it: the fields of a built-in type in the order
    /// of their declaration, all others sorted.
    pub fn write(&self, object: &Object, out: &mut Vec<u8>) {
        match self {
            Self::Typed(ty) => json::write(out, &OrderedMap(ty, object.map())),
            Self::Structural(_) => json::write(out, object.map()),
        }
    }
}

/// The columns and cells of a Table.
#[derive(Debug, Clone)]
pub enum Columns {
    /// Built in: computed by a function, since most of them are more than a path.
    Fixed(&'static [Column], fn(&Object, &Now) -> Vec<Value>),
    /// A custom resource's `additionalPrinterColumns`, each a JSON path.
    Paths(Vec<PathColumn>),
}

/// The time at which a Table is made, for the ages in it.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Seconds since 1970.
    pub unix_seconds: i64,
}

/// One column of a built-in kind's Table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// `string`, `integer`, `date`, …
    pub kind: &'static str,
    /// `name` for the first column, else mostly empty.
    pub format: &'static str,
    /// What it means.
    pub description: &'static str,
    /// 0 is always shown, 1 with `-o wide`.
    pub priority: i32,
}

/// One column of a custom resource's Table.
#[derive(Debug, Clone)]
pub struct PathColumn {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean`, `date`
    pub kind: String,
    /// Or empty.
    pub format: String,
    /// Or empty.
    pub description: String,
    /// 0 is always shown, 1 with `-o wide`.
    pub priority: i32,
    /// Where the value is.
    pub path: machinery::json_path::JsonPath,
}

/// Where a resource keeps what `/scale` shows.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Below `.spec`.
    pub spec_replicas: Vec<String>,
    /// Below `.status`.
    pub status_replicas: Vec<String>,
    /// Below `.spec` or `.status`, if there is one.
    pub label_selector: Option<Vec<String>>,
}

/// A field that a field selector may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selectable {
    /// As it is written in the selector, `spec.nodeName`.
    pub label: String,
    /// Where the value is, field by field.
    pub path: Vec<String>,
    /// The field whose value is used if that at `path` is absent or empty.
    pub fallback: Option<&'static str>,
    /// The value of an absent field.
    pub absent: &'static str,
}

impl Resource {
    /// `deployments.apps`
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    /// `Deployment.apps`
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.group, &self.kind)
    }

    /// The version in which objects are stored. A conversion between two other versions goes through
    /// it.
    pub fn storage_version(&self) -> &Version {
        &self.versions[self.storage_index]
    }

    /// Whether objects of the storage version and of `version` differ only in their `apiVersion`.
    pub fn differs_in_api_version_only(&self, version: usize) -> bool {
        let same_shape = match (&self.storage_version().shape, &self.versions[version].shape) {
            (Shape::Structural(a), Shape::Structural(b)) => Arc::ptr_eq(a, b),
            _ => true,
        };
        self.strategy.convert.is_none() && same_shape
    }

    /// The `apiVersion` of objects in `version`.
    pub fn api_version(&self, version: &Version) -> String {
        GroupVersion::new(version.group.as_deref().unwrap_or(&self.group), &version.name)
            .to_string()
    }

    /// The group under which `version` is served.
    pub fn group_of<'a>(&'a self, version: &'a Version) -> &'a str {
        version.group.as_deref().unwrap_or(&self.group)
    }
}
