//! Server-side apply: every field has owners. Applying a configuration sets fields, takes ownership
//! of them, and releases those that the configuration no longer has.
//!
//! ```
//! use machinery::patch::apply::{Deduced, Filter, Force, OnlyVersion, Request, apply};
//! use machinery::{Object, json};
//!
//! let config = |value| Object::from_value(value).expect("an object");
//! let request = |manager| Request {
//!     schema: Deduced::Granular,
//!     api_version: "example.dev/v1",
//!     kind: "Widget",
//!     subresource: "",
//!     manager,
//!     filter: Filter::ALL,
//!     now: "2024-05-06T07:08:09Z",
//!     versions: &OnlyVersion,
//! };
//! let one = config(json!({"apiVersion": "example.dev/v1", "kind": "Widget", "spec": {"size": 1}}));
//! let live = apply(&request("one"), None, &one, Force::No)?;
//!
//! let two = config(json!({"apiVersion": "example.dev/v1", "kind": "Widget", "spec": {"size": 2}}));
//! let refused = apply(&request("two"), Some(&live), &two, Force::No).unwrap_err();
//! assert_eq!(
//!     refused.to_string(),
//!     r#"Apply failed with 1 conflict: conflict with "one": .spec.size"#
//! );
//! # Ok::<(), machinery::patch::apply::Error>(())
//! ```
//!
//! [`apply`] merges a configuration; [`update`] tracks all other requests. Both maintain
//! `metadata.managedFields`, where each manager has an [entry](managed) with the [`Set`] of its
//! fields. The [`Schema`] defines how values merge, and which of them are owned as a whole.
//!
//! Upstream: sigs.k8s.io/structured-merge-diff and apimachinery's util/managedfields.

mod element;
mod set;
mod schema;
mod item;
mod fields;
mod compare;
mod merge;
mod overlay;
mod remove;
mod validate;
mod filter;
mod managed;
mod request;
mod conflict;
mod update;
mod prune;
mod last_applied;
pub mod scale;

pub use compare::{Comparison, compare};
pub use conflict::Conflicts;
pub use element::{ParseElementError, PathElement};
pub use fields::fields;
pub use filter::Filter;
pub use item::KeyError;
pub use managed::DecodeError;
pub use overlay::{OverlayError, overlay};
pub use request::{ManagedFieldsError, OnlyVersion, Request, Versions, manager_name};
pub use schema::{Deduced, Forms, ListRule, MapRule, Scalar, Schema};
pub use set::Set;
pub use update::{keep_times_if_unchanged, update};
pub use validate::ValidationErrors;

use std::collections::HashMap;

use crate::{GroupVersion, GroupVersionKind, Map, Object, Value};
use managed::{Entry, Managed, Operation};

/// Whether an apply overrides conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// A change of a field that another manager owns is a conflict.
    No,
    /// The applier takes over the fields of other managers.
    Yes,
}

/// Why a configuration was not applied. The texts are the messages of the response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// 409, `Conflict`, with [`Conflicts::causes`] as details: other managers own changed fields.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
    /// 400: the version and kind are not those of the request.
    #[error("invalid object type: {0}")]
    WrongType(String),
    /// 400: the configuration has `managedFields`.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsSent,
    /// 500 without a reason, as upstream: the configuration does not match the schema.
    #[error("failed to create typed patch object ({object}): {errors}")]
    NotTyped {
        /// `namespace/name; group/version, Kind=kind`
        object: String,
        /// The values that do not match the schema.
        errors: ValidationErrors,
    },
    /// 500: the stored `managedFields` cannot be decoded.
    #[error("failed to decode managed fields: {0}")]
    Managed(#[from] DecodeError),
    /// 500: the configuration cannot be merged into the stored object.
    #[error("failed to merge config: {0}")]
    Merge(#[from] KeyError),
    /// 500: ownership cannot be determined.
    #[error(transparent)]
    ManagedFieldsError(#[from] ManagedFieldsError),
}

/// Applies `config` to `live`. The result includes `metadata.managedFields`.
///
/// `live` is in the version of the request and in its stored form. The caller still has to set
/// defaults and the canonical form of values in the result. If nothing changed, the result equals
/// `live` except for `managedFields`.
pub fn apply<S: Schema, V: Versions<S>>(
    request: &Request<'_, S, V>,
    live: Option<&Object>,
    config: &Object,
    force: Force,
) -> Result<Object, Error> {
    check_config(request, config)?;
    let nothing = Object::default();
    let before = live.map(request::entries).unwrap_or_default();
    let mut managed = Managed::decode(before.to_vec())?;
    let live = live.unwrap_or(&nothing);
    if managed.entries.is_empty() {
        let all = request.changes(&nothing, live)?;
        managed = update::track(request, managed, all, &nothing, live, "before-first-apply")?;
    }
    update::reconcile_all(request, &mut managed);

    let mut merged = without_managed(live);
    merge::merge(request.schema, merged.map_mut(), config.map())?;
    let applier = request.entry(request.manager, Operation::Apply);
    let applier_entry = managed.entry(&applier);
    let last = applier_entry.clone();
    // Includes metadata.name and similar fields, which have no owner: `prune` would otherwise
    // remove their parents. `update_entry` strips them.
    applier_entry.replace_owned(request.filter.apply(fields(request.schema, config.map())));
    request.api_version.clone_into(&mut applier_entry.api_version);
    let object = prune::prune(request, merged, &managed, &last)?;

    let changes = request.changes(live, &object)?;
    let all = request.changes_by_version(&mut managed, changes, live, &object)?;
    let all: HashMap<String, (Set, Set)> = all
        .into_iter()
        .map(|(version, it)| (version, (it.modified.union(it.added), it.removed)))
        .collect();
    let mut conflicts = Conflicts::default();
    for entry in managed.entries.iter_mut().filter(|entry| !entry.has_same_manager(&applier)) {
        let Some((changed, removed)) = all.get(&entry.api_version) else { continue };
        let lost = entry.set.intersection(changed);
        conflicts.add(entry, &lost);
        entry.remove_owned(&lost);
        entry.remove_owned(removed);
    }
    conflicts.sort();
    if force == Force::No && !conflicts.is_empty() {
        check_conflicts(request, live, conflicts)?;
    }
    let changed = !update::equal_except_managed_fields(live, &object);
    update_entry(&mut managed, last, request.api_version, changed.then_some(request.now));
    Ok(finish(request, object, managed, config))
}

/// Checks the type and that `managedFields` is absent, in upstream's order; then the schema.
fn check_config<S: Schema, V>(request: &Request<'_, S, V>, config: &Object) -> Result<(), Error> {
    // Upstream: an object whose apiVersion does not parse has an empty type.
    let gvk = match config.api_version().parse::<GroupVersion>() {
        Ok(_) => config.gvk(),
        Err(_) => GroupVersionKind::default(),
    };
    let shown = format!("{}/{}, Kind={}", gvk.group, gvk.version, gvk.kind);
    if (config.api_version(), config.kind()) != (request.api_version, request.kind) {
        return Err(Error::WrongType(shown));
    }
    if config.get(&["metadata", "managedFields"]).is_some_and(Value::is_array) {
        return Err(Error::ManagedFieldsSent);
    }
    validate::validate(request.schema, config.map()).map_err(|errors| {
        let object = format!("{}/{}; {shown}", config.namespace(), config.name());
        Error::NotTyped { object, errors }
    })
}

/// A copy without `managedFields`, which are large and not merged.
fn without_managed(object: &Object) -> Object {
    let copy = |(key, value): (&String, &Value)| (key.clone(), value.clone());
    let parts = object.map().iter().map(|(key, value)| match value {
        Value::Object(metadata) if key == "metadata" => {
            let kept = metadata.iter().filter(|(key, _)| *key != "managedFields");
            (key.clone(), Value::Object(kept.map(copy).collect::<Map<_, _>>()))
        }
        value => copy((key, value)),
    });
    Object::new(parts.collect())
}

/// Fails with the conflicts. kubectl has none about fields that it owned by client-side apply.
fn check_conflicts<S: Schema, V>(
    request: &Request<'_, S, V>,
    live: &Object,
    conflicts: Conflicts,
) -> Result<(), Conflicts> {
    let kubectl = request.manager == last_applied::MANAGER;
    let rest = match kubectl.then(|| last_applied::owned(request, live)).flatten() {
        Some(allowed) => conflicts.without(&allowed),
        None => conflicts,
    };
    if rest.is_empty() { Ok(()) } else { Err(rest) }
}

/// Sets the applier's new fields in its former entry. `now` is None if the apply did not change the
/// object; the entry then keeps its time.
fn update_entry(managed: &mut Managed, last: Entry, api_version: &str, now: Option<&str>) {
    let entry = managed.entry(&last);
    let set = filter::strip(std::mem::take(&mut entry.set));
    *entry = last;
    entry.set_owned(set, api_version);
    if let Some(now) = now {
        entry.set_time(now);
    }
    managed.drop_empty();
}

/// Sets `managedFields`, and the annotation of kubectl.
fn finish<S, V>(
    request: &Request<'_, S, V>,
    mut object: Object,
    managed: Managed,
    config: &Object,
) -> Object {
    request::set_entries(&mut object, managed);
    if request.manager == last_applied::MANAGER {
        last_applied::update_annotation(&mut object, config);
    }
    object
}

#[cfg(test)]
mod tests;
