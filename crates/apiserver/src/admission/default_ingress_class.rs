//! `DefaultIngressClass`: sets the default ingress class of ingresses that name no class.

use super::{Attributes, Operation, default_class};
use crate::cache::watch_cache::Snapshot;
use machinery::Object;

/// The name of the default class, if one exists.
pub(super) fn read(classes: &Snapshot) -> Option<String> {
    default_class::default_class(classes, &["ingressclass.kubernetes.io/is-default-class"])
}

/// Sets the class of a new ingress that names none.
pub(super) fn mutate(attributes: &Attributes<'_>, ingress: &mut Object) {
    if attributes.operation != Operation::Create
        || !attributes.is_of("networking.k8s.io", "ingresses")
    {
        return;
    }
    let has_class = ingress.annotation("kubernetes.io/ingress.class").is_some()
        || ingress.get(&["spec", "ingressClassName"]).is_some_and(|it| !it.is_null());
    let default = attributes.admission.default_ingress_class.current(&attributes.scope.storage);
    if let (false, Some(name)) = (has_class, &*default) {
        ingress.map_at(&["spec"]).insert("ingressClassName".to_owned(), name.as_str().into());
    }
}
