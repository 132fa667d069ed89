//! Who owns which field: `metadata.managedFields`, kept for every write.

pub(crate) mod scale;
pub(crate) mod sent;

use super::conversion;
use super::scope::RequestScope;
use machinery::codec::json::collapse;
use machinery::patch::apply::{self, Error, Force, Request, Versions};
use machinery::{Object, Status, codec};
use std::cell::RefCell;
use types::apply::{ResourceVersions, TypeRef, filter};

type OwnRequest<'a> = Request<'a, TypeRef<'a>, Converted<'a>>;

/// The versions of the request's kind, with what was found out about objects in them: managers may
/// have named fields in another version than that of the request, and others may have to be asked
/// what an object is in it.
struct Converted<'a> {
    versions: ResourceVersions<'a>,
    scope: &'a RequestScope,
    known: &'a [Known],
    /// What must be asked before ownership can be told.
    unknown: RefCell<Option<(Object, String)>>,
}

/// An object, a version, and what the object is in that version.
type Known = (Object, String, Result<Object, String>);

impl<'a> Versions<TypeRef<'a>> for Converted<'a> {
    fn schema(&self, api_version: &str) -> Option<TypeRef<'a>> {
        self.versions.schema(api_version)
    }

    fn convert(&self, object: &Object, api_version: &str) -> Result<Object, String> {
        if !self.scope.served.conversion.uses_webhook() {
            return self.versions.convert(object, api_version);
        }
        let is_it = |(from, to, _): &&Known| to == api_version && from == object;
        if let Some((_, _, converted)) = self.known.iter().find(is_it) {
            return converted.clone();
        }
        *self.unknown.borrow_mut() = Some((object.clone(), api_version.to_owned()));
        Err("it was not converted yet".to_owned())
    }
}

/// Gives `asked` what the rules of this request's kind and manager are; again, as often as there is
/// something to be converted first.
async fn with_request<T>(scope: &RequestScope, asked: impl Fn(&OwnRequest<'_>) -> T) -> T {
    let mut known = Vec::new();
    loop {
        let (answer, unknown) = once(scope, &known, &asked);
        let Some((object, api_version)) = unknown else { return answer };
        let converted = in_version(scope, object.clone(), &api_version).await;
        known.push((object, api_version, converted));
    }
}

fn once<T>(
    scope: &RequestScope,
    known: &[Known],
    asked: impl FnOnce(&OwnRequest<'_>) -> T,
) -> (T, Option<(Object, String)>) {
    let resource = scope.resource();
    let versions = ResourceVersions { resource, schemas: scope.served.apply_schemas() };
    let versions = Converted { versions, scope, known, unknown: RefCell::default() };
    let api_version = resource.api_version(scope.version());
    let now = scope.storage.now();
    let answer = asked(&Request {
        schema: versions.versions.node(scope.version),
        api_version: &api_version,
        kind: &resource.kind,
        subresource: &scope.path.subresource,
        manager: &scope.field_manager,
        filter: filter(resource, scope.version(), &scope.path.subresource),
        now: &now,
        versions: &versions,
    });
    (answer, versions.unknown.into_inner())
}

async fn in_version(
    scope: &RequestScope,
    object: Object,
    api_version: &str,
) -> Result<Object, String> {
    let resource = scope.resource();
    let is_it = |it: &_| resource.api_version(it) == api_version;
    let Some(version) = resource.versions.iter().position(is_it) else {
        return Err(format!("request to convert CR to an invalid group/version: {api_version}"));
    };
    let converted = conversion::object(scope, version, object).await;
    converted.map_err(|status| status.message)
}

/// Notes what a create, update or patch has changed. Both objects are in the version that verbs
/// work in.
pub(crate) async fn track(scope: &RequestScope, live: Option<&Object>, new: &mut Object) {
    if !scope.resource().conventions.collapses_floats || !has_whole_floats(new) {
        return track_values(scope, live, new).await;
    }
    // A manager owns the same field whether it writes 1 or 1.0.
    let mut value = new.clone().into_value();
    collapse(&mut value);
    let mut collapsed = Object::from_value(value).unwrap_or_default();
    track_values(scope, live, &mut collapsed).await;
    take_entries(new, &mut collapsed);
}

fn has_whole_floats(object: &Object) -> bool {
    object.map().values().any(codec::json::has_whole_floats)
}

async fn track_values(scope: &RequestScope, live: Option<&Object>, new: &mut Object) {
    if scope.version == conversion::working_version(scope) {
        if !scope.served.conversion.uses_webhook() {
            once(scope, &[], |request| apply::update(request, live, new));
            return;
        }
        *new = with_request(scope, |request| updated(request, live, new.clone())).await;
        return;
    }
    // Fields are named as the manager knows them.
    let live = live.map(|it| conversion::requested(scope, it.clone()));
    let sent = conversion::requested(scope, new.clone());
    let update = |request: &OwnRequest<'_>| updated(request, live.as_ref(), sent.clone());
    let mut sent = with_request(scope, update).await;
    take_entries(new, &mut sent);
}

fn take_entries(new: &mut Object, tracked: &mut Object) {
    match tracked.remove_meta("managedFields") {
        Some(fields) => new.set_meta("managedFields", fields),
        None => {
            new.remove_meta("managedFields");
        }
    }
}

fn updated(request: &OwnRequest<'_>, live: Option<&Object>, mut new: Object) -> Object {
    apply::update(request, live, &mut new);
    new
}

/// What becomes of `live` when `config` is applied to it; all in the version of the request.
pub(crate) async fn apply(
    scope: &RequestScope,
    live: Option<&Object>,
    config: &Object,
    force: Force,
) -> Result<Object, Status> {
    let applied = with_request(scope, |request| apply::apply(request, live, config, force)).await;
    applied.map_err(refused)
}

fn refused(error: Error) -> Status {
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
