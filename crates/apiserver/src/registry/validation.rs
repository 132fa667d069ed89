//! Validates objects: first the schema, then the rules of the kind.

use std::collections::HashSet;

use super::UpdateStrategy;
use super::scope::RequestScope;
use kinds::apiextensions;
use machinery::meta::{self, initializers};
use machinery::{ErrorList, FieldError, Object, Path, names};
use schema::Structural;
use types::Resource;
use types::resource::Shape;

/// Validates the metadata of a new object.
pub(crate) fn validate_metadata(resource: &Resource, object: &Object, errors: &mut ErrorList) {
    let name = resource.strategy.validate_name;
    meta::validate_object_meta(object, resource.namespaced, name, errors);
    if resource.conventions.restricts_finalizers {
        meta::validate_builtin_finalizers(object, errors);
    }
}

/// Validates the metadata of an updated object.
pub(crate) fn validate_metadata_update(
    resource: &Resource,
    new: &Object,
    old: &Object,
    errors: &mut ErrorList,
) {
    // Upstream: the name of a custom resource is validated only on creation.
    let name = if resource.conventions.validates_name_on_update {
        resource.strategy.validate_name
    } else {
        names::path_segment
    };
    let mut object_errors = ErrorList::new();
    meta::validate_object_meta(new, resource.namespaced, name, &mut object_errors);
    errors.extend(object_errors.clone());
    let mut update_errors = ErrorList::new();
    meta::validate_object_meta_update(new, old, &mut update_errors);
    if resource.conventions.repeats_update_errors {
        // Upstream: several validations of a custom resource report the same errors; only
        // finalizers are validated once.
        errors.allow_duplicates();
        for _ in 0..2 {
            let all =
                object_errors.iter().filter(|it| !it.field.starts_with("metadata.finalizers"));
            all.for_each(|error| errors.push(error.clone()));
            errors.extend(update_errors.clone());
        }
        return;
    }
    if resource.conventions.restricts_finalizers {
        meta::validate_builtin_finalizers(new, errors);
    }
    let known: HashSet<FieldError> = errors.iter().cloned().collect();
    for error in update_errors.into_inner() {
        if !known.contains(&error) {
            errors.push(error);
        }
    }
}

/// Validates a new object, which is in the memory version.
pub(crate) fn validate_create(scope: &RequestScope, object: &Object, errors: &mut ErrorList) {
    let resource = scope.resource();
    if let Shape::Structural(schema) = &scope.version().shape {
        schema.validate(object.map(), None, errors);
        validate_scale(scope, object, UpdateStrategy::Main, errors);
        validate_rules(scope, schema, object, None, errors);
    }
    match resource.strategy.validate_in {
        Some(validate) => validate(object, None, &resource.api_version(scope.version()), errors),
        None => (resource.strategy.validate)(object, errors),
    }
    if let Some(validate) = scope.served.hooks.validate {
        validate(&scope.storage, object, None, errors);
    }
}

/// Validates an update. An uninitialized object is validated as a new one, so that immutable fields
/// can still change.
pub(crate) fn validate_update(
    scope: &RequestScope,
    new: &Object,
    old: &Object,
    strategy: UpdateStrategy,
    errors: &mut ErrorList,
) {
    let resource = scope.resource();
    if initializers::is_uninitialized(old) {
        match strategy {
            UpdateStrategy::Main => return validate_create(scope, new, errors),
            UpdateStrategy::Status => {
                let detail = "must not update status when the object is uninitialized";
                return errors.forbidden(&Path::root("status"), detail);
            }
            UpdateStrategy::Subresource { .. } | UpdateStrategy::Posted => {}
        }
    }
    if let Shape::Structural(schema) = &scope.version().shape {
        match strategy {
            UpdateStrategy::Status => schema.validate_status(new.map(), old.map(), errors),
            UpdateStrategy::Main | UpdateStrategy::Subresource { .. } | UpdateStrategy::Posted => {
                schema.validate(new.map(), Some(old.map()), errors);
            }
        }
        validate_scale(scope, new, strategy, errors);
        validate_rules(scope, schema, new, Some(old), errors);
    }
    match (strategy, resource.strategy.validate_in) {
        (UpdateStrategy::Main, Some(validate)) => {
            validate(new, Some(old), &resource.api_version(scope.version()), errors);
        }
        (UpdateStrategy::Main, None) => (resource.strategy.validate_update)(new, old, errors),
        (UpdateStrategy::Status, _) => (resource.strategy.validate_status)(new, old, errors),
        (UpdateStrategy::Subresource { validate, .. }, _) => validate(new, old, errors),
        (UpdateStrategy::Posted, _) => {}
    }
    let hooks = &scope.served.hooks;
    let hook = match strategy {
        UpdateStrategy::Main => hooks.validate,
        UpdateStrategy::Status => hooks.validate_status,
        UpdateStrategy::Subresource { .. } | UpdateStrategy::Posted => None,
    };
    if let Some(validate) = hook {
        validate(&scope.storage, new, Some(old), errors);
    }
}

/// Evaluates the rules of the schema. They come last, because they are not evaluated on an object
/// with type errors. They apply to the whole object, even if only a part of it is updated.
fn validate_rules(
    scope: &RequestScope,
    schema: &Structural,
    new: &Object,
    old: Option<&Object>,
    errors: &mut ErrorList,
) {
    for warning in schema.validate_rules(new.map(), old.map(Object::map), errors) {
        scope.warn(warning);
    }
}

/// Validates the fields that `/scale` reads.
fn validate_scale(
    scope: &RequestScope,
    object: &Object,
    strategy: UpdateStrategy,
    errors: &mut ErrorList,
) {
    if let Some(scale) = &scope.version().scale {
        if !matches!(strategy, UpdateStrategy::Status) {
            apiextensions::custom::validate_scale_spec(scale, object, errors);
        }
        apiextensions::custom::validate_scale_status(scale, object, errors);
    }
}
