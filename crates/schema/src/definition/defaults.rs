//! Do the defaults obey the schema they stand in?

use crate::embedded;
use crate::prune::prune_value;
use crate::source::Source;
use crate::structural::Node;
use crate::validate::validate_data;
use machinery::{Faults, Path, Value};

/// Finds defaults that an object could not have as values. Those below `additionalProperties` are
/// left out, as upstream does.
pub(super) fn check(source: Source<'_>, path: &Path<'_>, faults: &mut Faults) {
    check_node(source, Place::Resource, path, faults);
}

/// What part of a resource a schema speaks about.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Resource,
    /// `apiVersion`, `kind`, `metadata`, or below.
    Meta,
    Elsewhere,
}

fn check_node(source: Source<'_>, place: Place, path: &Path<'_>, faults: &mut Faults) {
    let embedded = source.flag("x-kubernetes-embedded-resource");
    let place = if embedded { Place::Resource } else { place };
    if let Some(default) = source.value("default") {
        check_default(source, default, place, &path.child("default"), faults);
    }
    let below = if place == Place::Resource { Place::Elsewhere } else { place };
    if let Some(items) = source.schema("items") {
        check_node(items, below, &path.child("items"), faults);
    }
    let properties = path.child("properties");
    for (name, property) in source.properties() {
        let is_meta =
            place == Place::Resource && matches!(name, "apiVersion" | "kind" | "metadata");
        let place = if is_meta { Place::Meta } else { below };
        check_node(property, place, &properties.key(name), faults);
    }
}

fn check_default(
    source: Source<'_>,
    default: &Value,
    place: Place,
    path: &Path<'_>,
    faults: &mut Faults,
) {
    let node = Node::compile(source);
    if place != Place::Meta && !prune_value(&node, &mut default.clone()).is_empty() {
        faults.invalid(path, default.clone(), "must not have unknown fields");
    }
    let mut found = Faults::new();
    embedded::validate(&node, default, path, &mut found);
    if found.is_empty() {
        validate_data(&node, default.into(), None, path, &mut found);
    }
    faults.extend(found);
}
