//! `DefaultIngressClass`: an ingress that names no class gets the one that is marked as the default.

use super::{Attempt, Operation, default_class};
use crate::watch_cache::Snapshot;
use machinery::Object;

/// The name of the default class, if there is one.
pub(super) fn read(classes: &Snapshot) -> Option<String> {
    default_class::marked(classes, &["ingressclass.kubernetes.io/is-default-class"])
}

/// Names the default class in a new ingress that names none.
pub(super) fn mutate(attempt: &Attempt<'_>, ingress: &mut Object) {
    if attempt.operation != Operation::Create || !attempt.is_of("networking.k8s.io", "ingresses") {
        return;
    }
    let has_class = ingress.annotation("kubernetes.io/ingress.class").is_some()
        || ingress.get(&["spec", "ingressClassName"]).is_some_and(|it| !it.is_null());
    let default = attempt.admission().ingress_default.current(&attempt.cx.plane);
    if let (false, Some(name)) = (has_class, &*default) {
        ingress.map_at(&["spec"]).insert("ingressClassName".to_owned(), name.as_str().into());
    }
}
