//! The managed fields of replicas at `/scale`, where the replicas are a field of a Scale that maps
//! to a field of the object.

use super::apply_error_status;
use super::subresource_object::{self, SingleVersionRequest};
use crate::registry::scope::RequestScope;
use machinery::patch::apply::scale::{self, Replicas};
use machinery::patch::apply::{self, Force};
use machinery::{Object, Status, Value};
use types::resource::Version;

/// Sets the managed fields of a Scale from those of its object `parent`.
pub(crate) fn to_subresource(scope: &RequestScope, parent: &Object, scale: &mut Object) {
    set_managed_fields(
        scale,
        with_replicas(scope, |replicas| scale::to_subresource(parent, replicas)),
    );
}

/// Sets the managed fields of `parent` after an update of its Scale.
pub(crate) fn to_parent(scope: &RequestScope, scale: &Object, parent: &mut Object) {
    let entries = with_replicas(scope, |replicas| scale::to_parent(parent, scale, replicas));
    set_managed_fields(parent, entries);
}

/// Updates the managed fields of a Scale after an update or patch.
pub(crate) fn track(scope: &RequestScope, live: &Object, new: &mut Object) {
    with_request(scope, |request| apply::update(request, Some(live), new));
}

/// Applies `config` to the Scale `live`.
pub(crate) fn apply(
    scope: &RequestScope,
    live: &Object,
    config: &Object,
    force: Force,
) -> Result<Object, Status> {
    with_request(scope, |request| apply::apply(request, Some(live), config, force))
        .map_err(apply_error_status)
}

fn with_request<T>(scope: &RequestScope, action: impl FnOnce(&SingleVersionRequest<'_>) -> T) -> T {
    subresource_object::with_request(scope, "autoscaling/v1", "Scale", action)
}

fn with_replicas<T>(scope: &RequestScope, action: impl FnOnce(Replicas<'_>) -> T) -> T {
    let resource = scope.resource();
    let path = |api_version: &str| {
        let is_match = |it: &&Version| resource.api_version(it) == api_version;
        let version = resource.versions.iter().find(is_match)?;
        Some(version.scale.as_ref().map(|it| it.spec_replicas.clone()).unwrap_or_default())
    };
    action(Replicas { api_version: &resource.api_version(scope.version()), path: &path })
}

fn set_managed_fields(object: &mut Object, entries: Option<Value>) {
    match entries {
        Some(entries) => object.set_meta("managedFields", entries),
        None => drop(object.remove_meta("managedFields")),
    }
}
