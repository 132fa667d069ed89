//! Pruning: removes the fields that a schema does not specify.

use crate::embedded::{self, ReadMetadata};
use crate::paths::Paths;
use crate::structural::{Additional, Node, NodeFlags, Structural};
use machinery::{FieldError, Map, Path, Value};

/// The fields that every resource has, named in its schema or not.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Structural {
    /// Drops the fields that the schema does not specify, and nulls that are not nullable. Appends
    /// the paths of the former to `unknown`, in the form of strict field validation.
    ///
    /// `apiVersion`, `kind` and `metadata` of the object itself are not pruned; the metadata of
    /// embedded resources is pruned to the fields of metadata.
    pub fn prune(&self, object: &mut Map<String, Value>, unknown: &mut Vec<String>) {
        self.prune_unspecified(object, unknown);
        if self.root.flags.has(NodeFlags::EMBEDDED_BELOW) {
            let mut paths = Paths::default();
            embedded::coerce(&self.root, object, &mut paths);
            unknown.extend(paths.into_sorted());
        }
    }

    /// Prunes like [`Structural::prune`], but decodes the metadata of embedded resources with
    /// `read`, and fails if it cannot be decoded.
    pub fn prune_and_read(
        &self,
        object: &mut Map<String, Value>,
        read: ReadMetadata<'_>,
        unknown: &mut Vec<String>,
    ) -> Result<(), FieldError> {
        self.prune_unspecified(object, unknown);
        let mut unknown_metadata = Vec::new();
        self.read_embedded(object, read, &mut unknown_metadata)?;
        unknown_metadata.sort();
        unknown.extend(unknown_metadata);
        Ok(())
    }

    /// Drops unspecified fields and nulls; skips the metadata of embedded resources.
    fn prune_unspecified(&self, object: &mut Map<String, Value>, unknown: &mut Vec<String>) {
        if self.keeps_unknown {
            return;
        }
        let mut fields = Paths::default();
        prune_fields(object, &self.root, Context::Root, &Path::EMPTY, &mut fields);
        unknown.extend(fields.into_sorted());
    }
}

/// The context of a value, which may preserve fields that the schema itself does not.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Context {
    /// The object itself: its `apiVersion`, `kind` and `metadata` are not pruned.
    Root,
    /// Only the schema of the value matters.
    Schema,
    /// An item of a list that preserves unknown fields. The extension applies to the items of lists
    /// and of lists of lists, but not to the properties of the items.
    // Upstream: schema/pruning/algorithm.go skipPrune
    PreservedItem,
}

/// Prunes a value that is not a whole object, and returns the paths of the dropped fields.
pub(crate) fn prune_value(node: &Node, value: &mut Value) -> Vec<String> {
    let mut unknown = Paths::default();
    prune(value, Some(node), Context::Schema, &Path::EMPTY, &mut unknown);
    unknown.into_list()
}

fn prune(
    value: &mut Value,
    node: Option<&Node>,
    context: Context,
    path: &Path<'_>,
    unknown: &mut Paths,
) {
    match (value, node) {
        (Value::Object(map), Some(node)) => prune_fields(map, node, context, path, unknown),
        (Value::Object(map), None) => {
            map.keys().for_each(|key| unknown.add(|| path.child(key).to_string()));
            map.clear();
        }
        (Value::Array(items), node) => prune_items(items, node, context, path, unknown),
        _ => {}
    }
}

fn prune_items(
    items: &mut [Value],
    node: Option<&Node>,
    context: Context,
    path: &Path<'_>,
    unknown: &mut Paths,
) {
    let items_node = node.and_then(|it| it.items.as_deref());
    let preserves = node.is_some_and(|it| preserves(it, context));
    if preserves && items_node.is_none() {
        return;
    }
    let context = if preserves { Context::PreservedItem } else { Context::Schema };
    for (index, item) in items.iter_mut().enumerate() {
        prune(item, items_node, context, &path.index(index), unknown);
    }
}

fn prune_fields(
    map: &mut Map<String, Value>,
    node: &Node,
    context: Context,
    path: &Path<'_>,
    unknown: &mut Paths,
) {
    let is_resource = context == Context::Root || node.is_embedded();
    let preserves = preserves(node, context);
    map.retain(|key, value| {
        let field = node.field(key);
        let is_meta = is_resource && META_FIELDS.contains(&key.as_str());
        if is_meta && context == Context::Root {
            return true;
        }
        if field.is_some_and(|it| is_dropped_null(it, value)) {
            return false;
        }
        if is_meta {
            // Metadata is not pruned here, but nulls in it are dropped like elsewhere.
            if let Some(field) = field {
                drop_nulls(field, value);
            }
            return true;
        }
        let here = path.child(key);
        if field.is_some() || !matches!(node.additional, Additional::Unstated) {
            prune(value, field, Context::Schema, &here, unknown);
            return true;
        }
        if !preserves {
            unknown.add(|| here.to_string());
        }
        preserves
    });
}

fn preserves(node: &Node, context: Context) -> bool {
    context == Context::PreservedItem || node.flags.has(NodeFlags::PRESERVES_UNKNOWN)
}

fn is_dropped_null(node: &Node, value: &Value) -> bool {
    value.is_null() && !node.is_nullable() && node.default.is_none()
}

fn drop_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|key, value| {
            let Some(field) = node.field(key) else { return true };
            if is_dropped_null(field, value) {
                return false;
            }
            drop_nulls(field, value);
            true
        }),
        Value::Array(items) => {
            let Some(item_node) = &node.items else { return };
            for item in items {
                drop_nulls(item_node, item);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
