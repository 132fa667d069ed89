//! The [`Resource`] that a CRD defines, and the strategy of all custom resources.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::versions::readable_columns;
use machinery::field_path::quote;
use machinery::fields::{at, flag, list, part, text, texts, top};
use machinery::gvk::version_priority;
use machinery::json_path::JsonPath;
use machinery::nested::{nested_integer, nested_text};
use machinery::{ErrorList, Object, Path, Value, meta, names};
use schema::{PatternPool, Structural};
use types::resource::{
    Columns, Conventions, PathColumn, Resource, Scale, Selectable, Shape, Strategy, Version,
};

/// Why a CRD cannot be served, though it was accepted once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Stored by another server, or damaged: it has to be corrected by hand.
    #[error("the CRD has no storage version")]
    NoStorageVersion,
}

/// Turns an accepted CRD of the storage version into what the server serves.
pub fn resource(crd: &Object) -> Result<Resource, Error> {
    resource_with(crd, &PatternPool::default())
}

/// As [`resource`]; its schemas share compiled patterns with the other schemas of `pool`.
pub fn resource_with(crd: &Object, pool: &PatternPool) -> Result<Resource, Error> {
    let spec = top(crd, "spec");
    let names = names(crd);
    let group = text(spec, "group");
    let plural = text(names, "plural");
    let mut versions: Vec<(Version, bool)> = Vec::new();
    for (it, schema) in list(spec, "versions").iter().zip(structurals(spec, pool)) {
        versions.push((version(it, spec, text(names, "kind"), schema), flag(it, "storage")));
    }
    versions.sort_by(|(a, _), (b, _)| version_priority(&a.name, &b.name));
    let storage = versions.iter().position(|(_, is_stored)| *is_stored);
    Ok(Resource {
        group: group.to_owned(),
        plural: plural.to_owned(),
        singular: text(names, "singular").to_owned(),
        kind: text(names, "kind").to_owned(),
        list_kind: text(names, "listKind").to_owned(),
        short_names: texts(names, "shortNames").map(str::to_owned).collect(),
        categories: texts(names, "categories").map(str::to_owned).collect(),
        namespaced: text(spec, "scope") == "Namespaced",
        storage_index: storage.ok_or(Error::NoStorageVersion)?,
        versions: versions.into_iter().map(|(version, _)| version).collect(),
        strategy: &STRATEGY,
        conventions: &Conventions::CUSTOM,
        prefix: format!("/registry/{group}/{plural}"),
        ttl_seconds: None,
    })
}

/// The accepted names, or the requested ones before any are accepted.
fn names(crd: &Object) -> &Value {
    let accepted = at(top(crd, "status"), &["acceptedNames"]);
    if text(accepted, "kind").is_empty() { at(top(crd, "spec"), &["names"]) } else { accepted }
}

fn version(version: &Value, spec: &Value, kind: &str, schema: Arc<Structural>) -> Version {
    let name = text(version, "name");
    let subresources = at(version, &["subresources"]);
    let deprecation =
        flag(version, "deprecated").then(|| match text(version, "deprecationWarning") {
            "" => deprecation_warning(name, spec, kind),
            warning => warning.to_owned(),
        });
    Version {
        name: name.to_owned(),
        group: None,
        served: flag(version, "served"),
        deprecation,
        shape: Shape::Structural(schema),
        columns: Columns::Paths(columns(version)),
        status: part(subresources, "status").is_some(),
        scale: part(subresources, "scale").map(scale),
        selectable: list(version, "selectableFields").iter().map(selectable).collect(),
    }
}

/// The warning about a deprecated version. It recommends the served version of the highest priority
/// that is not deprecated and has a higher priority than this one.
fn deprecation_warning(name: &str, spec: &Value, kind: &str) -> String {
    let group = text(spec, "group");
    let others = list(spec, "versions").iter();
    let others = others.filter(|it| flag(it, "served") && !flag(it, "deprecated"));
    let better = others.map(|it| text(it, "name")).filter(|it| version_priority(it, name).is_lt());
    match better.min_by(|a, b| version_priority(a, b)) {
        Some(best) => format!("{group}/{name} {kind} is deprecated; use {group}/{best} {kind}"),
        None => format!("{group}/{name} {kind} is deprecated"),
    }
}

/// The schema of each version. Versions with the same schema share one.
fn structurals(spec: &Value, pool: &PatternPool) -> Vec<Arc<Structural>> {
    let versions = list(spec, "versions");
    let mut distinct: HashMap<&Value, Arc<Structural>> = HashMap::new();
    let schemas = versions.iter().map(|version| {
        let of_version = || Arc::new(structural(version, spec, pool));
        Arc::clone(distinct.entry(&version["schema"]).or_insert_with(of_version))
    });
    schemas.collect()
}

fn structural(version: &Value, spec: &Value, pool: &PatternPool) -> Structural {
    match part(at(version, &["schema"]), "openAPIV3Schema") {
        None => Structural::anything(),
        Some(schema) if flag(spec, "preserveUnknownFields") => {
            Structural::compile_with(schema, pool).keeping_unknown_fields()
        }
        Some(schema) => Structural::compile_with(schema, pool),
    }
}

fn columns(version: &Value) -> Vec<PathColumn> {
    if list(version, "additionalPrinterColumns").is_empty() {
        return vec![age()];
    }
    readable_columns(version)
        .map(|(column, path)| PathColumn {
            name: text(column, "name").to_owned(),
            kind: text(column, "type").to_owned(),
            format: text(column, "format").to_owned(),
            description: match text(column, "description") {
                "" => format!(
                    "Custom resource definition column (in JSONPath format): {}",
                    text(column, "jsonPath")
                ),
                description => description.to_owned(),
            },
            priority: column["priority"].as_i64().and_then(|it| it.try_into().ok()).unwrap_or(0),
            path,
        })
        .collect()
}

/// Upstream's description of the column `Age`.
const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The column of a version without `additionalPrinterColumns`.
fn age() -> PathColumn {
    let path = JsonPath::parse(".metadata.creationTimestamp");
    PathColumn {
        name: "Age".to_owned(),
        kind: "date".to_owned(),
        format: String::new(),
        description: AGE.to_owned(),
        priority: 0,
        path: path.expect("the path is well formed"),
    }
}

fn scale(scale: &Value) -> Scale {
    let path = |key| fields(text(scale, key));
    Scale {
        spec_replicas: path("specReplicasPath"),
        status_replicas: path("statusReplicasPath"),
        label_selector: part(scale, "labelSelectorPath").map(|_| path("labelSelectorPath")),
    }
}

fn selectable(field: &Value) -> Selectable {
    let path = text(field, "jsonPath");
    Selectable {
        label: path.strip_prefix('.').unwrap_or(path).to_owned(),
        path: fields(path),
        fallback: None,
        absent: "",
    }
}

/// Splits `.spec.size` into its fields.
fn fields(path: &str) -> Vec<String> {
    path.strip_prefix('.').unwrap_or(path).split('.').map(str::to_owned).collect()
}

/// What is the same for all custom resources; the rest is in their schema.
static STRATEGY: Strategy = Strategy {
    prepare_status,
    generation: true,
    unconditional_update: false,
    warnings: |object| finalizer_warnings(object, &Object::default()),
    update_warnings: Some(finalizer_warnings),
    ..Strategy::DEFAULT
};

/// Every finalizer is allowed, but a new one that may conflict with others causes a warning.
fn finalizer_warnings(new: &Object, old: &Object) -> Vec<String> {
    let added: BTreeSet<&str> =
        new.finalizers().filter(|it| old.finalizers().all(|old| old != *it)).collect();
    let mut warnings = Vec::new();
    for finalizer in added {
        let mut warn = |why: &str| {
            warnings.push(format!("metadata.finalizers: {}: {why}", quote(finalizer)));
        };
        for why in names::qualified_name(finalizer) {
            warn(&why);
        }
        if finalizer.contains('/') || meta::STANDARD_FINALIZERS.contains(&finalizer) {
            continue;
        }
        let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        warn(&format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    warnings
}

/// An update of `/status` changes nothing else, not even metadata except for `managedFields`.
fn prepare_status(new: &mut Object, old: &Object) {
    let status = new.map_mut().remove("status");
    let managed = new.remove_meta("managedFields");
    let mut kept = old.clone();
    kept.map_mut().remove("status");
    kept.remove_meta("managedFields");
    if let Some(managed) = managed {
        kept.set_meta("managedFields", managed);
    }
    kept.map_mut().extend(status.map(|it| ("status".to_owned(), it)));
    *new = kept;
}

/// Validates the number of replicas in the spec of a `/scale`.
pub fn validate_scale_spec(scale: &Scale, object: &Object, errors: &mut ErrorList) {
    validate_replicas(&scale.spec_replicas, object, errors);
}

/// Validates the status of a `/scale`.
pub fn validate_scale_status(scale: &Scale, object: &Object, errors: &mut ErrorList) {
    validate_replicas(&scale.status_replicas, object, errors);
    if let Some(path) = &scale.label_selector
        && let Err(why) = nested_text(object.map(), path)
    {
        errors.invalid(&Path::root(&format!(".{}", path.join("."))), "", &why);
    }
}

fn validate_replicas(path: &[String], object: &Object, errors: &mut ErrorList) {
    let shown = format!(".{}", path.join("."));
    let at = Path::root(&shown);
    match nested_integer(object.map(), path) {
        Ok(Some(count)) if count < 0 => {
            errors.invalid(&at, count, "should be a non-negative integer");
        }
        Ok(Some(count)) if count > i64::from(i32::MAX) => {
            let detail = format!("should be less than or equal to {}", i32::MAX);
            errors.invalid(&at, count, &detail);
        }
        Ok(_) => {}
        Err(why) => errors.invalid(&at, 0, &why),
    }
}

#[cfg(test)]
mod tests;
