//! The managed fields of objects that are sent to a subresource and have a kind of their own.

use crate::registry::scope::RequestScope;
use machinery::Object;
use machinery::patch::apply::{self, Filter, OnlyVersion, Request};
use types::apply::TypeRef;

/// A field manager's request for a kind with a single version.
pub(super) type SingleVersionRequest<'a> = Request<'a, TypeRef<'a>, OnlyVersion>;

/// Sets the client as the manager of all fields of a new object.
pub(crate) fn track(scope: &RequestScope, new: &mut Object) {
    let (api_version, kind) = (new.api_version().to_owned(), new.kind().to_owned());
    with_request(scope, &api_version, &kind, |request| apply::update(request, None, new));
}

/// Calls `action` with the field manager's request for the kind.
pub(super) fn with_request<T>(
    scope: &RequestScope,
    api_version: &str,
    kind: &str,
    action: impl FnOnce(&SingleVersionRequest<'_>) -> T,
) -> T {
    let ty = types::of_kind(api_version, kind);
    let now = scope.storage.now();
    action(&Request {
        schema: ty.map_or(TypeRef::Deduced, TypeRef::Type),
        api_version,
        kind,
        subresource: &scope.path.subresource,
        manager: &scope.field_manager,
        filter: Filter::ALL,
        now: &now,
        versions: &OnlyVersion,
    })
}
