//! Checks that defaults are valid by their schema.

use crate::embedded;
use crate::json_schema::JsonSchema;
use crate::prune::prune_value;
use crate::rules::{self, Validator};
use crate::structural::Node;
use crate::validate::validate_data;
use cel::Budget;
use machinery::{ErrorList, Path, Value};

/// Reports defaults that would be invalid as values. As upstream, defaults below
/// `additionalProperties` are not checked.
pub(super) fn check(source: JsonSchema<'_>, node: &Node, path: &Path<'_>, errors: &mut ErrorList) {
    let mut walk = Walk { budget: rules::full_budget(), errors };
    walk.check_node(source, node, Place::Resource, path);
}

/// The part of a resource that a schema describes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Resource,
    /// `apiVersion`, `kind`, `metadata`, or below.
    Meta,
    Elsewhere,
}

/// One walk through a schema.
struct Walk<'f> {
    /// The cost budget of the rules of all defaults together.
    budget: Budget,
    errors: &'f mut ErrorList,
}

impl Walk<'_> {
    fn check_node(&mut self, source: JsonSchema<'_>, node: &Node, place: Place, path: &Path<'_>) {
        let place = if node.is_embedded() { Place::Resource } else { place };
        if let Some(default) = source.value("default") {
            self.check_default(node, default, place, &path.child("default"));
        }
        let below = if place == Place::Resource { Place::Elsewhere } else { place };
        if let (Some(items), Some(node)) = (source.schema("items"), &node.items) {
            self.check_node(items, node, below, &path.child("items"));
        }
        let properties = path.child("properties");
        for (name, property) in source.properties() {
            let is_meta =
                place == Place::Resource && matches!(name, "apiVersion" | "kind" | "metadata");
            let place = if is_meta { Place::Meta } else { below };
            if let Some(node) = node.property(name) {
                self.check_node(property, node, place, &properties.key(name));
            }
        }
    }

    fn check_default(&mut self, node: &Node, default: &Value, place: Place, path: &Path<'_>) {
        if place != Place::Meta && !prune_value(node, &mut default.clone()).is_empty() {
            self.errors.invalid(path, default.clone(), "must not have unknown fields");
        }
        let mut found = ErrorList::new();
        embedded::validate(node, default, path, &mut found);
        if found.is_empty() {
            validate_data(node, default.into(), None, path, &mut found);
        }
        if found.is_empty()
            && self.budget.remaining > 0
            && let Some(validator) = Validator::of(node, place == Place::Resource)
        {
            rules::check_default(&validator, node, default, path, &mut self.budget, &mut found);
        }
        self.errors.extend(found);
    }
}
