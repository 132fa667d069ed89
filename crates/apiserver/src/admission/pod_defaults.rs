//! What admission adds to a new pod or node: the service account and its token, tolerations, a
//! priority, the taint of a node that has not reported yet.

use crate::context::Cx;
use kinds::core::pod::admission as pod;
use machinery::{Object, Status};

/// Completes a new object.
pub(super) fn create(cx: &Cx, object: &mut Object) -> Result<(), Status> {
    match (cx.resource().group.as_str(), cx.resource().plural.as_str()) {
        ("", "pods") => {
            let name = match object.str_at(&["spec", "serviceAccountName"]) {
                "" => "default".to_owned(),
                name => name.to_owned(),
            };
            let account = service_account(cx, &name);
            let suffix = cx.plane.entropy.suffix(5);
            pod::inject_service_account(object, &account, &suffix);
            pod::default_tolerations(object);
            pod::assign_priority(object, None)
                .map_err(|why| Status::forbidden(&cx.what(), object.name(), &why))?;
        }
        ("", "nodes") => kinds::core::node::taint_not_ready(object),
        _ => {}
    }
    Ok(())
}

/// The account as it is stored; one that is not there has no wishes of its own.
fn service_account(cx: &Cx, name: &str) -> Object {
    let catalog = cx.plane.catalog.load();
    let found = catalog
        .resource("", "serviceaccounts")
        .and_then(|it| it.cache.get(&it.key(cx.namespace(), name)));
    if let Some(entry) = found {
        return entry.object_as_stored();
    }
    let mut account = Object::default();
    account.set_meta("name", name);
    account
}
