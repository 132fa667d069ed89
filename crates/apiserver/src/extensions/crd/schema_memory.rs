//! The limit of the memory that the compiled schemas of all CRDs need together.

use std::sync::Arc;

use crate::storage::Storage;
use kinds::apiextensions;
use machinery::{ErrorList, Object, Path};
use schema::{SchemaMemory, Structural};
use types::Resource;
use types::resource::Shape;

/// The maximum memory of the compiled patterns and rules of all CRDs together, approximately in
/// bytes.
const MAX_SCHEMA_MEMORY: usize = 1 << 30;

/// Rejects a CRD if its compiled patterns and rules, together with those of all other CRDs, need
/// too much memory.
pub(super) fn validate(
    storage: &Storage,
    object: &Object,
    old: Option<&Object>,
    errors: &mut ErrorList,
) {
    let is_unchanged = old.is_some_and(|old| object.map().get("spec") == old.map().get("spec"));
    if is_unchanged || !errors.is_empty() {
        return;
    }
    let Ok(crd) = apiextensions::resource_with(object, &storage.patterns) else { return };
    let catalog = storage.catalog.load();
    let others = catalog.served().iter().map(|it| &*it.resource);
    let others = others.filter(|it| (&it.group, &it.plural) != (&crd.group, &crd.plural));
    let mut memory = SchemaMemory::default();
    for resource in others.chain([&crd]) {
        add_schemas(resource, &mut memory);
    }
    let total = memory.bytes();
    if total > MAX_SCHEMA_MEMORY {
        let detail = format!(
            "the patterns and rules of all CRDs would need {total} bytes, limit is {MAX_SCHEMA_MEMORY}"
        );
        errors.forbidden(&Path::root("spec").child("versions"), &detail);
    }
}

/// Adds the distinct schemas of a resource's versions.
fn add_schemas<'a>(resource: &'a Resource, memory: &mut SchemaMemory<'a>) {
    let mut added: Vec<&Arc<Structural>> = Vec::new();
    for version in &resource.versions {
        if let Shape::Structural(schema) = &version.shape
            && !added.iter().any(|it| Arc::ptr_eq(it, schema))
        {
            memory.add(schema);
            added.push(schema);
        }
    }
}
