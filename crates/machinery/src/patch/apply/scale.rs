//! Field ownership of the subresource `/scale`: the owner of `spec.replicas` in a Scale owns the
//! field for the replicas in the parent, whose path may differ.
//!
//! [`to_subresource`] makes the entries of a Scale from those of the parent; after a request
//! changed the Scale, [`to_parent`] updates the entries of the parent. Upstream:
//! `managedfields.ScaleHandler`.

use std::collections::HashMap;

use super::element::PathElement;
use super::managed::{Entry, Managed};
use super::set::Set;
use crate::{Object, Value};

const API_VERSION: &str = "autoscaling/v1";

/// The path of the replicas in each version of a kind.
#[derive(Clone, Copy)]
pub struct Replicas<'a> {
    /// The version of the request for the parent, `apps/v1`.
    pub api_version: &'a str,
    /// The path of the field in a version of the parent, for example `["spec", "replicas"]`: None
    /// for an unknown version, empty for one without `/scale`.
    pub path: &'a dyn Fn(&str) -> Option<Vec<String>>,
}

impl Replicas<'_> {
    fn elements(self, api_version: &str) -> Option<Vec<PathElement>> {
        let path = (self.path)(api_version)?;
        Some(path.iter().map(|name| PathElement::field(name)).collect())
    }
}

/// The entries of a Scale, as the value of its `metadata.managedFields`; None for none.
pub fn to_subresource(parent: &Object, replicas: Replicas<'_>) -> Option<Value> {
    let mut scale = Managed::default();
    for entry in entries(parent).entries {
        let path = replicas.elements(&entry.api_version).unwrap_or_default();
        if entry.set.contains(&path) {
            scale.entries.push(renamed(entry, API_VERSION, &path_in_scale()));
        }
    }
    scale.encode()
}

/// The entries of the parent after the Scale was changed; None for none.
pub fn to_parent(parent: &Object, scale: &Object, replicas: Replicas<'_>) -> Option<Value> {
    let owners = entries(scale).entries;
    let places: HashMap<_, usize> =
        owners.iter().zip(0..).map(|(owner, at)| (owner.identifier(), at)).collect();
    let mut known = vec![false; owners.len()];
    let mut managed = Managed::default();
    for mut entry in entries(parent).entries {
        let Some(path) = replicas.elements(&entry.api_version) else { continue };
        if !path.is_empty() && entry.set.contains(&path) {
            // Upstream: the identity of an updater includes the version, which in a Scale is
            // not the parent's. So an updater is not found here, and gets a separate entry below.
            match places.get(&entry.identifier()).copied() {
                Some(at) => known[at] = true,
                None => entry.remove_owned(&only(&path)),
            }
        }
        managed.entries.push(entry);
    }
    let path = replicas.elements(replicas.api_version).unwrap_or_default();
    drop(places);
    let others = owners.into_iter().zip(known).filter(|(_, is_known)| !is_known);
    for (mut owner, _) in others {
        if owner.set.contains(&path_in_scale()) {
            // Upstream drops the time.
            owner.time = None;
            managed.entries.push(renamed(owner, replicas.api_version, &path));
        }
    }
    managed.drop_empty();
    managed.encode()
}

fn entries(object: &Object) -> Managed {
    Managed::decode(super::request::entries(object).to_vec()).unwrap_or_default()
}

/// `.spec.replicas`, the path of the replicas in a Scale.
fn path_in_scale() -> [PathElement; 2] {
    [PathElement::field("spec"), PathElement::field("replicas")]
}

fn only(path: &[PathElement]) -> Set {
    let mut set = Set::new();
    set.insert(path);
    set
}

/// The same manager, as the owner of the replicas in another version.
fn renamed(mut entry: Entry, api_version: &str, path: &[PathElement]) -> Entry {
    api_version.clone_into(&mut entry.api_version);
    entry.replace_owned(only(path));
    entry
}
