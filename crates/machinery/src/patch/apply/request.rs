//! [`Request`]: the manager, the operation and the schema of one change.

use super::compare::{Comparison, compare};
use super::filter::{Filter, strip_all};
use super::item::KeyError;
use super::managed::{Entry, Managed, Operation};
use super::schema::Schema;
use crate::{Object, Value};

/// The maximum number of versions in the `managedFields` of one object; entries of further versions
/// are dropped.
const VERSIONS_MAX: usize = 32;

/// See the [module documentation](self).
#[derive(Debug, Clone, Copy)]
pub struct Request<'a, S, V> {
    /// The schema of the objects in the version of the request.
    pub schema: S,
    /// The version of the request, `apps/v1`.
    pub api_version: &'a str,
    /// `Deployment`
    pub kind: &'a str,
    /// `status`, `scale`, …, or empty.
    pub subresource: &'a str,
    /// The manager's name, see [`manager_name`].
    pub manager: &'a str,
    /// The fields that this request can change.
    pub filter: Filter,
    /// The time, in seconds: `2024-05-06T07:08:09Z`.
    pub now: &'a str,
    /// The other versions of the kind, in which `managedFields` may have entries.
    pub versions: &'a V,
}

/// The versions of a kind.
pub trait Versions<S> {
    /// The schema of a version; None if the version does not exist (any more). The entries of such
    /// a version are dropped.
    fn schema(&self, api_version: &str) -> Option<S>;

    /// Converts an object to `api_version`, which has a schema. The error is a message.
    fn convert(&self, object: &Object, api_version: &str) -> Result<Object, String>;
}

/// The versions of a kind that has only one.
#[derive(Debug, Clone, Copy)]
pub struct OnlyVersion;

impl<S> Versions<S> for OnlyVersion {
    fn schema(&self, _api_version: &str) -> Option<S> {
        None
    }

    fn convert(&self, object: &Object, _api_version: &str) -> Result<Object, String> {
        Ok(object.clone())
    }
}

/// Why ownership could not be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManagedFieldsError {
    /// An element of a list cannot be identified.
    #[error("failed to compare objects: {0}")]
    Compare(#[from] KeyError),
    /// The conversion to a manager's version failed.
    #[error("failed to convert the object to {api_version}: {why}")]
    Convert {
        /// The target version.
        api_version: String,
        /// The message of the converter.
        why: String,
    },
}

impl<S: Schema, V: Versions<S>> Request<'_, S, V> {
    /// An entry without fields for a manager that makes this request.
    pub(super) fn entry(&self, manager: &str, operation: Operation) -> Entry {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        let mut entry = Entry::new(manager, operation, self.api_version);
        self.subresource.clone_into(&mut entry.subresource);
        entry
    }

    /// The schema of a version; None if the version does not exist.
    pub(super) fn schema_of(&self, api_version: &str) -> Option<S> {
        if api_version == self.api_version {
            Some(self.schema)
        } else {
            self.versions.schema(api_version)
        }
    }

    /// Converts an object to a version that has a schema.
    pub(super) fn convert(
        &self,
        object: Object,
        api_version: &str,
    ) -> Result<Object, ManagedFieldsError> {
        if object.api_version() == api_version {
            return Ok(object);
        }
        self.versions
            .convert(&object, api_version)
            .map_err(|why| ManagedFieldsError::Convert { api_version: api_version.to_owned(), why })
    }

    /// The changes that the request can make, in the request's version.
    pub(super) fn changes(
        &self,
        old: &Object,
        new: &Object,
    ) -> Result<Comparison, ManagedFieldsError> {
        self.changes_in(self.schema, old, new)
    }

    fn changes_in(
        &self,
        schema: S,
        old: &Object,
        new: &Object,
    ) -> Result<Comparison, ManagedFieldsError> {
        Ok(self.filter.apply_to(strip_all(compare(schema, old.map(), new.map())?)))
    }

    /// The changes of the request, in each version that has an entry. Drops the entries of versions
    /// that do not exist any more, and those beyond [`VERSIONS_MAX`] versions, because the objects
    /// are converted and compared once for each version.
    pub(super) fn changes_by_version(
        &self,
        managed: &mut Managed,
        changes: Comparison,
        old: &Object,
        new: &Object,
    ) -> Result<Vec<(String, Comparison)>, ManagedFieldsError> {
        let mut known: Vec<String> = vec![self.api_version.to_owned()];
        managed.entries.retain(|it| {
            let is_known = known.contains(&it.api_version);
            let is_kept =
                is_known || known.len() < VERSIONS_MAX && self.schema_of(&it.api_version).is_some();
            if is_kept && !is_known {
                known.push(it.api_version.clone());
            }
            is_kept
        });
        let mut all = vec![(self.api_version.to_owned(), changes)];
        for entry in &managed.entries {
            let version = &entry.api_version;
            if all[0].1.is_empty() || all.iter().any(|(it, _)| it == version) {
                continue;
            }
            let Some(schema) = self.schema_of(version) else { continue };
            let old = self.convert(in_version(old, self), version)?;
            let new = self.convert(in_version(new, self), version)?;
            all.push((version.clone(), self.changes_in(schema, &old, &new)?));
        }
        Ok(all)
    }
}

/// A copy with `apiVersion` and `kind`, which an object that does not exist yet lacks.
fn in_version<S, V>(object: &Object, request: &Request<'_, S, V>) -> Object {
    let mut copy = object.clone();
    copy.remove_meta("managedFields");
    copy.set_type(request.api_version, request.kind);
    copy
}

/// The name of the field manager: `field_manager` if it is given, or else the first part of the
/// `User-Agent` without unprintable characters, truncated to the maximum length of a name.
pub fn manager_name(field_manager: &str, user_agent: &str) -> String {
    const LENGTH_MAX: usize = 128;
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let mut name = String::new();
    let first = user_agent.split('/').next().unwrap_or_default();
    for c in first.chars().filter(|c| *c == ' ' || !(c.is_control() || c.is_whitespace())) {
        if name.len() + c.len_utf8() > LENGTH_MAX {
            break;
        }
        name.push(c);
    }
    name
}

/// The entries of an object.
pub(super) fn entries(object: &Object) -> &[Value] {
    let list = object.metadata().and_then(|it| it.get("managedFields"));
    list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Sets or removes the entries of an object.
pub(super) fn set_entries(object: &mut Object, managed: Managed) {
    match managed.encode() {
        Some(list) => object.set_meta("managedFields", list),
        None => drop(object.remove_meta("managedFields")),
    }
}
