//! The validation hooks of claims for devices: they read the labels of the claim's namespace.

use crate::storage::Storage;
use crate::storage::hooks::Validate;
use kinds::resource::admin_access;
use machinery::Object;

/// The hook of new claims and templates; None for another resource.
pub(crate) fn validation_hook(group: &str, plural: &str) -> Option<Validate> {
    let hook: Validate = match (group, plural) {
        ("resource.k8s.io", "resourceclaims") => |storage, new, old, errors| {
            if old.is_none() {
                admin_access::validate_claim(new, || is_labeled(storage, new), errors);
            }
        },
        ("resource.k8s.io", "resourceclaimtemplates") => |storage, new, old, errors| {
            if old.is_none() {
                admin_access::validate_template(new, || is_labeled(storage, new), errors);
            }
        },
        _ => return None,
    };
    Some(hook)
}

/// The hook of the status of claims; None for another resource.
pub(crate) fn status_validation_hook(group: &str, plural: &str) -> Option<Validate> {
    ((group, plural) == ("resource.k8s.io", "resourceclaims")).then_some(
        |storage, new, old, errors| {
            if let Some(old) = old {
                admin_access::validate_allocation(new, old, || is_labeled(storage, new), errors);
            }
        },
    )
}

/// Whether the namespace of a claim allows administrative access.
fn is_labeled(storage: &Storage, claim: &Object) -> bool {
    let catalog = storage.catalog.load();
    let namespaces = catalog.resource("", "namespaces");
    let namespace = namespaces.and_then(|it| it.cache.get(&it.key("", claim.namespace())));
    namespace.is_some_and(|it| it.label(admin_access::NAMESPACE_LABEL) == Some("true"))
}
