//! Embedded resources (`x-kubernetes-embedded-resource`): whole objects inside of an object.
//!
//! Prunes and validates the type and the metadata of embedded resources. Those of the outermost
//! object are left to the server.

use crate::paths::Paths;
use crate::structural::{Node, NodeFlags, Structural};
use machinery::field_path::ErrorType;
use machinery::{ErrorList, FieldError, GroupVersion, Map, Object, Path, Value, meta, names};

/// The known fields of `metadata`, and of the objects in its lists.
const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];
const OWNER_REFERENCE: [&str; 6] =
    ["apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"];
const MANAGED_FIELDS: [&str; 7] =
    ["apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time"];

/// Called with each embedded resource and its path.
type Visit<'v> = &'v mut dyn FnMut(&mut Map<String, Value>, &Path<'_>) -> Result<(), FieldError>;

/// Decodes metadata in place, and calls the function with the path of each unknown field.
pub type ReadMetadata<'r> =
    &'r mut dyn FnMut(&mut Value, &mut dyn FnMut(String)) -> Result<(), String>;

impl Structural {
    /// Decodes the metadata of the resources below the root with `read`, and appends the paths of
    /// unknown fields to `unknown`. Fails if the type or the metadata of a resource is malformed.
    pub fn read_embedded(
        &self,
        object: &mut Map<String, Value>,
        read: ReadMetadata<'_>,
        unknown: &mut Vec<String>,
    ) -> Result<(), FieldError> {
        if !self.root.flags.has(NodeFlags::EMBEDDED_BELOW) {
            return Ok(());
        }
        let mut paths = Paths::default();
        let result = visit_fields(&self.root, object, &Path::EMPTY, &mut |map, path| {
            read_resource(map, path, read, &mut paths)
        });
        unknown.extend(paths.into_list());
        result
    }
}

fn read_resource(
    map: &mut Map<String, Value>,
    path: &Path<'_>,
    read: ReadMetadata<'_>,
    unknown: &mut Paths,
) -> Result<(), FieldError> {
    for key in ["apiVersion", "kind"] {
        if let Some(other) = map.get(key).filter(|it| !it.is_string()) {
            return Err(invalid(&path.child(key), other.clone(), "must be a string"));
        }
    }
    let Some(metadata) = map.get_mut("metadata") else { return Ok(()) };
    let path = path.child("metadata");
    let sent = metadata.clone();
    read(metadata, &mut |below| unknown.add(|| format!("{path}.{below}")))
        .map_err(|why| invalid(&path, sent, &why))
}

fn invalid(path: &Path<'_>, value: Value, detail: &str) -> FieldError {
    let (kind, field) = (ErrorType::Invalid, path.to_string());
    FieldError { kind, field, value: Some(value), detail: detail.to_owned() }
}

/// Drops unknown fields from the metadata of all resources below the root, and adds their paths to
/// `unknown`.
pub(crate) fn coerce(node: &Node, object: &mut Map<String, Value>, unknown: &mut Paths) {
    let pruned = visit_fields(node, object, &Path::EMPTY, &mut |map, path| {
        prune_resource(map, path, unknown);
        Ok(())
    });
    debug_assert!(pruned.is_ok(), "the visitor does not fail");
}

/// Drops unknown fields from the metadata of resources in the default of a node. Other unknown
/// fields in defaults are refused in the CRD.
// Upstream: schema/defaulting/prune.go PruneDefaults
pub(crate) fn prune_default(node: &mut Node) {
    let Some(mut default) = node.default.take() else { return };
    let pruned = visit_value(node, &mut default, &Path::EMPTY, &mut |map, path| {
        prune_resource(map, path, &mut Paths::default());
        Ok(())
    });
    debug_assert!(pruned.is_ok(), "the visitor does not fail");
    node.default = Some(default);
}

fn prune_resource(map: &mut Map<String, Value>, path: &Path<'_>, unknown: &mut Paths) {
    if let Some(metadata) = map.get_mut("metadata") {
        prune_metadata(metadata, &path.child("metadata"), unknown);
    }
}

fn visit_fields(
    node: &Node,
    map: &mut Map<String, Value>,
    path: &Path<'_>,
    visit: Visit<'_>,
) -> Result<(), FieldError> {
    for (key, value) in map.iter_mut() {
        if let Some(field) = node.property(key) {
            visit_value(field, value, &path.child(key), visit)?;
        } else if let Some(field) = node.field(key) {
            visit_value(field, value, &path.key(key), visit)?;
        }
    }
    Ok(())
}

fn visit_value(
    node: &Node,
    value: &mut Value,
    path: &Path<'_>,
    visit: Visit<'_>,
) -> Result<(), FieldError> {
    if !node.flags.has(NodeFlags::EMBEDDED_BELOW) {
        return Ok(());
    }
    match value {
        Value::Object(map) => {
            if node.is_embedded() {
                visit(map, path)?;
            }
            visit_fields(node, map, path, visit)
        }
        Value::Array(items) => {
            let Some(item_node) = &node.items else { return Ok(()) };
            for (index, item) in items.iter_mut().enumerate() {
                visit_value(item_node, item, &path.index(index), visit)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn prune_metadata(metadata: &mut Value, path: &Path<'_>, unknown: &mut Paths) {
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    retain_known(metadata, &METADATA, path, unknown);
    for (list, fields) in
        [("ownerReferences", &OWNER_REFERENCE[..]), ("managedFields", &MANAGED_FIELDS[..])]
    {
        let path = path.child(list);
        let items = metadata.get_mut(list).and_then(Value::as_array_mut);
        for (index, item) in items.into_iter().flatten().enumerate() {
            retain_known(item, fields, &path.index(index), unknown);
        }
    }
    // Empty fields are dropped, as by upstream's round trip through Go's ObjectMeta.
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.retain(|_, value| !crate::json_schema::is_zero(value));
    }
}

fn retain_known(value: &mut Value, fields: &[&str], path: &Path<'_>, unknown: &mut Paths) {
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, _| {
            let known = fields.contains(&key.as_str());
            if !known {
                unknown.add(|| path.child(key).to_string());
            }
            known
        });
    }
}

/// Validates the type and the metadata of all resources below the root.
pub(crate) fn validate_below(node: &Node, object: &Map<String, Value>, errors: &mut ErrorList) {
    validate_fields(node, object, &Path::EMPTY, errors);
}

/// Like [`validate_below`], for a value that may be a resource itself.
pub(crate) fn validate(node: &Node, value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if !node.flags.has(NodeFlags::EMBEDDED_BELOW) {
        return;
    }
    match value {
        Value::Object(map) => {
            if node.is_embedded() {
                validate_resource(map, path, errors);
            }
            validate_fields(node, map, path, errors);
        }
        Value::Array(items) => {
            let Some(item_node) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                validate(item_node, item, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

fn validate_fields(node: &Node, map: &Map<String, Value>, path: &Path<'_>, errors: &mut ErrorList) {
    for (key, value) in map {
        if let Some(field) = node.property(key) {
            validate(field, value, &path.child(key), errors);
        } else if let Some(field) = node.field(key) {
            validate(field, value, &path.key(key), errors);
        }
    }
}

fn validate_resource(map: &Map<String, Value>, path: &Path<'_>, errors: &mut ErrorList) {
    validate_type_field(map, "apiVersion", path, errors, |text| {
        text.parse::<GroupVersion>().err().map(|error| error.to_string())
    });
    validate_type_field(map, "kind", path, errors, |text| {
        let messages = names::dns1035_label(&text.to_lowercase());
        (!messages.is_empty()).then(|| {
            format!("may have mixed case, but should otherwise match: {}", messages.join(","))
        })
    });
    if let Some(metadata) = map.get("metadata") {
        validate_metadata(metadata, path, errors);
    }
}

fn validate_type_field(
    map: &Map<String, Value>,
    key: &str,
    path: &Path<'_>,
    errors: &mut ErrorList,
    message: impl Fn(&str) -> Option<String>,
) {
    let path = path.child(key);
    match map.get(key) {
        None => errors.required(&path, ""),
        Some(Value::String(text)) if text.is_empty() => {
            errors.invalid(&path, "", "must not be empty");
        }
        Some(Value::String(text)) => {
            if let Some(message) = message(text) {
                errors.invalid(&path, text.as_str(), &message);
            }
        }
        Some(other) => errors.invalid(&path, other.clone(), "must be a string"),
    }
}

fn validate_metadata(metadata: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Value::Object(map) = metadata else {
        errors.invalid(&path.child("metadata"), metadata.clone(), "must be an object");
        return;
    };
    let mut resource = Object::default();
    resource.metadata_mut().clone_from(map);
    if resource.name().is_empty() {
        // An embedded resource, such as a template, needs no name.
        resource.set_meta("name", "template");
    }
    let namespaced = !resource.namespace().is_empty();
    let mut found = ErrorList::new();
    meta::validate_object_meta(&resource, namespaced, names::path_segment, &mut found);
    let prefix = path.to_string();
    for mut error in found.into_inner() {
        if !prefix.is_empty() {
            error.field = format!("{prefix}.{}", error.field);
        }
        errors.push(error);
    }
}
