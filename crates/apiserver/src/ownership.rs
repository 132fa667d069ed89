//! Who owns which field: `metadata.managedFields`, kept for every write.

use crate::answer;
use crate::context::Cx;
use kinds::apply::{Node, ResourceVersions, filter};
use machinery::patch::apply::{self, Error, Force, Request};
use machinery::{Object, Status};

type OwnRequest<'a> = Request<'a, Node<'a>, ResourceVersions<'a>>;

/// Gives `asked` what the rules of this request's kind and manager are.
fn with_request<T>(cx: &Cx, asked: impl FnOnce(&OwnRequest<'_>) -> T) -> T {
    let resource = cx.resource();
    let versions = ResourceVersions { resource, schemas: cx.served.apply_schemas() };
    let api_version = resource.api_version(cx.version());
    let manager = apply::manager_name(cx.query.text("fieldManager"), &cx.user_agent);
    let now = cx.plane.now();
    asked(&Request {
        schema: versions.node(cx.version),
        api_version: &api_version,
        kind: &resource.kind,
        subresource: &cx.target.subresource,
        manager: &manager,
        filter: filter(resource, cx.version(), &cx.target.subresource),
        now: &now,
        versions: &versions,
    })
}

/// Notes what a create, update or patch has changed. Both objects are in the hub version.
pub(crate) fn track(cx: &Cx, live: Option<&Object>, new: &mut Object) {
    if cx.version == cx.resource().storage {
        with_request(cx, |request| apply::update(request, live, new));
        return;
    }
    // Fields are named as the manager knows them.
    let live = live.map(|it| answer::converted(&cx.served, cx.version, it.clone()));
    let mut sent = answer::converted(&cx.served, cx.version, new.clone());
    with_request(cx, |request| apply::update(request, live.as_ref(), &mut sent));
    match sent.remove_meta("managedFields") {
        Some(fields) => new.set_meta("managedFields", fields),
        None => {
            new.remove_meta("managedFields");
        }
    }
}

/// What becomes of `live` when `config` is applied to it; all in the version of the request.
pub(crate) fn apply(
    cx: &Cx,
    live: Option<&Object>,
    config: &Object,
    force: Force,
) -> Result<Object, Status> {
    with_request(cx, |request| apply::apply(request, live, config, force)).map_err(refused)
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
