//! Administrative access to devices: a claim may request it in namespaces with a label. Upstream:
//! `pkg/registry/resource/utils.go`.

use machinery::fields::{at, list, top};
use machinery::{ErrorList, Object, Path, Value};

/// The label of the namespaces in which administrative access can be requested, with the value
/// `true`.
pub const NAMESPACE_LABEL: &str = "resource.kubernetes.io/admin-access";

const DETAIL: &str = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace";

/// Validates a new claim. The specs of claims are immutable.
pub fn validate_claim(claim: &Object, is_labeled: impl FnOnce() -> bool, errors: &mut ErrorList) {
    validate_requests(top(claim, "spec"), is_labeled, errors);
}

/// Validates a new template of claims.
pub fn validate_template(
    template: &Object,
    is_labeled: impl FnOnce() -> bool,
    errors: &mut ErrorList,
) {
    validate_requests(at(top(template, "spec"), &["spec"]), is_labeled, errors);
}

/// Validates a new allocation of a claim. An allocation is immutable.
pub fn validate_allocation(
    new: &Object,
    old: &Object,
    is_labeled: impl FnOnce() -> bool,
    errors: &mut ErrorList,
) {
    let requested = |claim: &Object| {
        let devices = at(top(claim, "status"), &["allocation", "devices"]);
        list(devices, "results").iter().position(|it| it.get("adminAccess") == Some(&TRUE))
    };
    let Some(index) = requested(new).filter(|_| requested(old).is_none()) else { return };
    if !is_labeled() {
        let status = Path::root("status");
        let allocation = status.child("allocation");
        let devices = allocation.child("devices");
        let results = devices.child("results");
        prepend(errors, &results.index(index).child("adminAccess"));
    }
}

const TRUE: Value = Value::Bool(true);

fn validate_requests(spec: &Value, is_labeled: impl FnOnce() -> bool, errors: &mut ErrorList) {
    let requests = list(at(spec, &["devices"]), "requests");
    let requests_it = |it: &Value| at(it, &["exactly", "adminAccess"]) == &TRUE;
    let Some(index) = requests.iter().position(requests_it) else { return };
    if !is_labeled() {
        // Upstream: the path is that of a claim also in a template.
        let root = Path::root("spec");
        let devices = root.child("devices");
        let requests = devices.child("requests");
        prepend(errors, &requests.index(index).child("adminAccess"));
    }
}

/// Upstream: this error precedes those of the rules of the kind.
fn prepend(errors: &mut ErrorList, path: &Path<'_>) {
    let others = std::mem::take(errors);
    errors.forbidden(path, DETAIL);
    errors.extend(others);
}
