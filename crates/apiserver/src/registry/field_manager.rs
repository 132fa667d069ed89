//! Field management: updates `metadata.managedFields` with every write.

pub(crate) mod scale;
pub(crate) mod subresource_object;

use std::cell::RefCell;

use super::conversion;
use super::scope::RequestScope;
use machinery::codec::json::whole_floats_to_integers;
use machinery::patch::apply::{self, Error, Force, Request, Versions};
use machinery::{Object, Status, codec};
use types::apply::{ResourceVersions, TypeRef, filter};

type FieldManagerRequest<'a> = Request<'a, TypeRef<'a>, ConvertedVersions<'a>>;

/// The versions of the request's kind, with known conversions of objects. Managed fields can be in
/// another version than that of the request, and the conversion to that version can need a webhook.
struct ConvertedVersions<'a> {
    versions: ResourceVersions<'a>,
    scope: &'a RequestScope,
    known: &'a [KnownConversion],
    /// The object and the version of the conversion that is needed before managed fields can be
    /// computed.
    missing: RefCell<Option<(Object, String)>>,
}

/// An object, a version, and the object in that version.
type KnownConversion = (Object, String, Result<Object, String>);

impl<'a> Versions<TypeRef<'a>> for ConvertedVersions<'a> {
    fn schema(&self, api_version: &str) -> Option<TypeRef<'a>> {
        self.versions.schema(api_version)
    }

    fn convert(&self, object: &Object, api_version: &str) -> Result<Object, String> {
        if !self.scope.served.conversion.uses_webhook() {
            return self.versions.convert(object, api_version);
        }
        let is_match = |(from, to, _): &&KnownConversion| to == api_version && from == object;
        if let Some((_, _, converted)) = self.known.iter().find(is_match) {
            return converted.clone();
        }
        *self.missing.borrow_mut() = Some((object.clone(), api_version.to_owned()));
        // The result with this error is discarded, and the action repeated with the conversion.
        Err("the object is not converted yet".to_owned())
    }
}

/// Calls `action` with the field manager's request. The call is repeated until all conversions that
/// it needs are known.
async fn with_request<T>(
    scope: &RequestScope,
    action: impl Fn(&FieldManagerRequest<'_>) -> T,
) -> T {
    let mut known = Vec::new();
    loop {
        let (result, missing) = try_with_request(scope, &known, &action);
        let Some((object, api_version)) = missing else { return result };
        let converted = in_version(scope, object.clone(), &api_version).await;
        known.push((object, api_version, converted));
    }
}

fn try_with_request<T>(
    scope: &RequestScope,
    known: &[KnownConversion],
    action: impl FnOnce(&FieldManagerRequest<'_>) -> T,
) -> (T, Option<(Object, String)>) {
    let resource = scope.resource();
    let versions = ResourceVersions { resource, schemas: scope.served.apply_schemas() };
    let versions = ConvertedVersions { versions, scope, known, missing: RefCell::default() };
    let api_version = resource.api_version(scope.version());
    let now = scope.storage.now();
    let result = action(&Request {
        schema: versions.versions.type_ref(scope.version),
        api_version: &api_version,
        kind: &resource.kind,
        subresource: &scope.path.subresource,
        manager: &scope.field_manager,
        filter: filter(resource, scope.version(), &scope.path.subresource),
        now: &now,
        versions: &versions,
    });
    (result, versions.missing.into_inner())
}

/// The object in another version. Without the fields of a manager it may have no metadata, which a
/// conversion webhook needs.
async fn in_version(
    scope: &RequestScope,
    mut object: Object,
    api_version: &str,
) -> Result<Object, String> {
    let resource = scope.resource();
    let is_match = |it: &_| resource.api_version(it) == api_version;
    let Some(version) = resource.versions.iter().position(is_match) else {
        return Err(format!("request to convert CR to an invalid group/version: {api_version}"));
    };
    let has_metadata = object.get(&["metadata"]).is_some();
    if !has_metadata {
        object.set_meta("name", scope.path.name.as_str());
    }
    let mut converted =
        conversion::object(scope, version, object).await.map_err(|status| status.message)?;
    if !has_metadata {
        converted.map_mut().remove("metadata");
    }
    Ok(converted)
}

/// Updates the managed fields after a create, update or patch. Both objects are in the memory
/// version.
pub(crate) async fn track(scope: &RequestScope, live: Option<&Object>, new: &mut Object) {
    if !scope.resource().conventions.collapses_floats || !has_whole_floats(new) {
        return track_values(scope, live, new).await;
    }
    // 1 and 1.0 are the same value to field management.
    let mut value = new.clone().into_value();
    whole_floats_to_integers(&mut value);
    let mut collapsed = Object::from_value(value).unwrap_or_default();
    track_values(scope, live, &mut collapsed).await;
    move_managed_fields(new, &mut collapsed);
}

fn has_whole_floats(object: &Object) -> bool {
    object.map().values().any(codec::json::has_whole_floats)
}

async fn track_values(scope: &RequestScope, live: Option<&Object>, new: &mut Object) {
    if scope.version == conversion::memory_version(scope) {
        if !scope.served.conversion.uses_webhook() {
            try_with_request(scope, &[], |request| apply::update(request, live, new));
            return;
        }
        *new = with_request(scope, |request| updated(request, live, new.clone())).await;
        return;
    }
    // Managed fields are in the version of the request.
    let live = live.map(|it| conversion::in_request_version(scope, it.clone()));
    let sent = conversion::in_request_version(scope, new.clone());
    let update = |request: &FieldManagerRequest<'_>| updated(request, live.as_ref(), sent.clone());
    let mut sent = with_request(scope, update).await;
    move_managed_fields(new, &mut sent);
}

fn move_managed_fields(new: &mut Object, tracked: &mut Object) {
    match tracked.remove_meta("managedFields") {
        Some(fields) => new.set_meta("managedFields", fields),
        None => {
            new.remove_meta("managedFields");
        }
    }
}

fn updated(request: &FieldManagerRequest<'_>, live: Option<&Object>, mut new: Object) -> Object {
    apply::update(request, live, &mut new);
    new
}

/// Applies `config` to `live`. All objects are in the version of the request.
pub(crate) async fn apply(
    scope: &RequestScope,
    live: Option<&Object>,
    config: &Object,
    force: Force,
) -> Result<Object, Status> {
    let applied = with_request(scope, |request| apply::apply(request, live, config, force)).await;
    applied.map_err(apply_error_status)
}

fn apply_error_status(error: Error) -> Status {
    match error {
        Error::Conflicts(conflicts) => {
            let mut status = Status::new(409, machinery::Reason::Conflict, conflicts.to_string());
            status.details.get_or_insert_default().causes = conflicts.causes();
            status
        }
        Error::WrongType(_) | Error::ManagedFieldsSent => Status::bad_request(error.to_string()),
        other => Status::unclassified(other.to_string()),
    }
}
