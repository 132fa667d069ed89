//! Validation of a CRD, except for its versions.
//!
//! v1 is stricter than v1beta1: a structural schema for every version, an approval for groups of
//! Kubernetes' own, no preserved unknown fields. Objects that were stored before such a rule
//! existed remain valid.

use std::collections::HashSet;

use super::conditions::is_established;
use super::schemas::StoredSchemas;
use super::{approval, conversion, versions};
use crate::validation::rules::{IMMUTABLE, one_of};
use machinery::fields::{at, flag, list, text, texts, top};
use machinery::{ErrorList, Object, Path, Value, names};

/// The spec of a CRD, the schemas that it replaces, and the rules that apply.
#[derive(Debug, Clone, Copy)]
pub(super) struct CrdChange<'a> {
    pub(super) spec: &'a Value,
    /// The schemas that are stored.
    pub(super) old: Option<&'a StoredSchemas<'a>>,
    pub(super) strictness: Strictness,
}

/// The rules of the API version in which a CRD was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    /// v1
    Full,
    /// v1beta1, or a stored CRD that never obeyed the new rules.
    Lenient,
}

/// Validates a CRD of the storage version that was sent in `version` of the API and replaces `old`.
pub fn validate_in(new: &Object, old: Option<&Object>, version: &str, errors: &mut ErrorList) {
    let strictness =
        if version.ends_with("v1beta1") { Strictness::Lenient } else { Strictness::Full };
    let spec = top(new, "spec");
    let path = Path::root("spec");
    if old.is_none() {
        validate_name(new, errors);
    }
    validate_group(text(spec, "group"), &path.child("group"), errors);
    one_of(errors, &path.child("scope"), text(spec, "scope"), &["Cluster", "Namespaced"]);
    let stored = old.map(|it| StoredSchemas::of(top(it, "spec")));
    let change = CrdChange { spec, old: stored.as_ref(), strictness };
    versions::validate(change, errors);
    let spec_names = at(spec, &["names"]);
    for key in ["plural", "singular", "kind", "listKind"] {
        if text(spec_names, key).is_empty() {
            errors.required(&path.child("names").child(key), "");
        }
    }
    validate_names(spec_names, &path.child("names"), errors);
    versions::validate_identical_in_all_versions(change, errors);
    conversion::validate(spec, old, errors);
    if let Some(old) = old {
        validate_unchanged(new, old, errors);
    }
    validate_status(new, errors);
    validate_stored_versions(new, errors);
    if strictness == Strictness::Full {
        approval::validate(new, old, errors);
        let was_preserved = old.is_some_and(|it| flag(top(it, "spec"), "preserveUnknownFields"));
        if flag(spec, "preserveUnknownFields") && !was_preserved {
            let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
            errors.invalid(&path.child("preserveUnknownFields"), true, detail);
        }
    }
}

/// Validates a CRD's status.
pub(super) fn validate_status(new: &Object, errors: &mut ErrorList) {
    let path = Path::root("status");
    let accepted = at(top(new, "status"), &["acceptedNames"]);
    validate_names(accepted, &path.child("acceptedNames"), errors);
}

fn validate_name(object: &Object, errors: &mut ErrorList) {
    let plural = object.str_at(&["spec", "names", "plural"]);
    let group = object.str_at(&["spec", "group"]);
    if object.name() != format!("{plural}.{group}") && !object.name().is_empty() {
        let path = Path::root("metadata");
        let detail = r#"must be spec.names.plural+"."+spec.group"#;
        errors.invalid(&path.child("name"), object.name(), detail);
    }
}

fn validate_group(group: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if group.is_empty() {
        errors.required(path, "");
        return;
    }
    let messages = names::dns1123_subdomain(group);
    if !messages.is_empty() {
        errors.invalid(path, group, &messages.join(","));
    } else if !group.contains('.') {
        errors.invalid(path, group, "should be a domain with at least one dot");
    }
}

fn validate_names(given: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut label = |path: &Path<'_>, name: &str| {
        let messages = names::dns1035_label(name);
        if !messages.is_empty() {
            errors.invalid(path, name, &messages.join(","));
        }
    };
    for key in ["plural", "singular"] {
        if !text(given, key).is_empty() {
            label(&path.child(key), text(given, key));
        }
    }
    for key in ["shortNames", "categories"] {
        let path = path.child(key);
        for (index, name) in texts(given, key).enumerate() {
            label(&path.index(index), name);
        }
    }
    let (kind, list_kind) = (text(given, "kind"), text(given, "listKind"));
    for (key, name) in [("kind", kind), ("listKind", list_kind)] {
        let messages = names::dns1035_label(&name.to_lowercase());
        if !name.is_empty() && !messages.is_empty() {
            let detail =
                format!("may have mixed case, but should otherwise match: {}", messages.join(","));
            errors.invalid(&path.child(key), name, &detail);
        }
    }
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.invalid(&path.child("listKind"), list_kind, detail);
    }
}

/// Refuses changes of immutable fields: two always, two once the CRD is established.
fn validate_unchanged(new: &Object, old: &Object, errors: &mut ErrorList) {
    const ALWAYS: [&[&str]; 2] = [&["spec", "group"], &["spec", "names", "plural"]];
    const ONCE_ESTABLISHED: [&[&str]; 2] = [&["spec", "scope"], &["spec", "names", "kind"]];
    let served: &[&[&str]] = if is_established(old) { &ONCE_ESTABLISHED } else { &[] };
    for field in ALWAYS.iter().chain(served) {
        if new.str_at(field) != old.str_at(field) {
            let path = field.join(".");
            errors.invalid(&Path::root(&path), new.str_at(field), IMMUTABLE);
        }
    }
}

fn validate_stored_versions(object: &Object, errors: &mut ErrorList) {
    let root = Path::root("status");
    let path = root.child("storedVersions");
    let value = at(top(object, "status"), &["storedVersions"]);
    let stored: Vec<&str> = texts(top(object, "status"), "storedVersions").collect();
    if stored.is_empty() {
        errors.invalid(&path, value.clone(), "must have at least one stored version");
        return;
    }
    let versions = list(top(object, "spec"), "versions");
    let known: HashSet<&str> = stored.iter().copied().collect();
    for version in versions.iter().filter(|it| flag(it, "storage")) {
        let name = text(version, "name");
        if !known.contains(name) && !errors.is_full() {
            let detail = format!("must have the storage version {name}");
            errors.invalid(&path, value.clone(), &detail);
        }
    }
    let names: HashSet<&str> = versions.iter().map(|it| text(it, "name")).collect();
    for (index, name) in stored.iter().enumerate() {
        if !names.contains(name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.invalid(&path.index(index), *name, &detail);
        }
    }
}

#[cfg(test)]
mod tests;
