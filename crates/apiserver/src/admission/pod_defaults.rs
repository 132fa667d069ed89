//! What admission adds to a new object: to a pod the service account and its token, tolerations and
//! a priority, to a node the taint of one that has not reported yet, to a request for a certificate
//! who asks.

use crate::catalog::Served;
use crate::context::Cx;
use kinds::certificates::certificate_signing_request::set_requestor;
use kinds::core::pod::admission as pod;
use kinds::core::pod::service_account::inject_service_account;
use kinds::scheduling::priority_class::is_reserved;
use machinery::{Object, Status, Value, json};
use std::sync::Arc;

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
            inject_service_account(object, &account, &suffix);
            pod::default_tolerations(object);
            let class = priority_class(cx, object);
            if let Some(class) = &class {
                let spec = object.map_at(&["spec"]);
                spec.insert("priorityClassName".to_owned(), class.name().into());
            }
            pod::assign_priority(object, class.as_ref())
                .map_err(|why| Status::forbidden(&cx.what(), object.name(), &why))?;
        }
        ("scheduling.k8s.io", "priorityclasses") => one_default_class(cx, object)?,
        ("certificates.k8s.io", "certificatesigningrequests") => {
            let user = &cx.user;
            set_requestor(object, &user.name, &user.uid, &user.groups, &json!(user.extra));
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

fn priority_classes(cx: &Cx) -> Option<Arc<Served>> {
    cx.plane.catalog.load().resource("scheduling.k8s.io", "priorityclasses").map(Arc::clone)
}

/// The class that a pod names, or that of pods that name none.
fn priority_class(cx: &Cx, pod: &Object) -> Option<Object> {
    let classes = priority_classes(cx)?;
    match pod.str_at(&["spec", "priorityClassName"]) {
        "" => default_class(&classes),
        name => classes.cache.get(&classes.key("", name)).map(|entry| entry.object_as_stored()),
    }
}

/// The class of pods that name none. Should there be several, the humblest of them.
fn default_class(classes: &Served) -> Option<Object> {
    let snapshot = classes.cache.snapshot();
    snapshot
        .entries
        .values()
        .filter(|entry| !is_reserved(entry.name()))
        .map(|entry| entry.object_as_stored())
        .filter(|class| class.get(&["globalDefault"]) == Some(&Value::Bool(true)))
        .min_by_key(|class| class.get(&["value"]).and_then(Value::as_i64))
}

/// Refuses a second class for pods that name none.
fn one_default_class(cx: &Cx, class: &Object) -> Result<(), Status> {
    if class.get(&["globalDefault"]) != Some(&Value::Bool(true)) {
        return Ok(());
    }
    let other = priority_classes(cx).and_then(|classes| default_class(&classes));
    match other.filter(|other| other.name() != class.name()) {
        None => Ok(()),
        Some(other) => {
            let why = format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                other.name()
            );
            Err(Status::forbidden(&cx.what(), class.name(), &why))
        }
    }
}
