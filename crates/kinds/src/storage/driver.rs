//! What the kinds of this group have in common: names of drivers, and parameters for them.

use crate::fields::entries;
use crate::rules::{complaints, qualified_name};
use machinery::field_path::FaultKind;
use machinery::{Faults, Path, Value, names};

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETERS_SIZE: usize = 256 << 10;
const MAX_NAME: usize = 63;

/// Must be the name of something that makes volumes; upper and lower case are the same.
pub(super) fn validate_provisioner(faults: &mut Faults, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        faults.required(path, "");
    } else {
        qualified_name(faults, path, &name.to_lowercase());
    }
}

/// Must be the name of a driver for volumes.
pub(crate) fn validate_driver_name(faults: &mut Faults, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return faults.required(path, "");
    }
    if name.len() > MAX_NAME {
        faults.too_long(path, MAX_NAME);
    }
    complaints(faults, path, name, names::dns1123_subdomain(&name.to_lowercase()));
}

/// The same where the rule is [declared](Faults::declared) with the field.
pub(crate) fn declared_driver_name(faults: &mut Faults, path: &Path<'_>, name: &str) {
    faults.declared(|faults| {
        if name.is_empty() {
            return faults.required(path, "");
        }
        complaints(faults, path, name, names::caseless_name(name));
        if name.len() > MAX_NAME {
            let message = format!("may not be more than {MAX_NAME} characters");
            faults.add(FaultKind::TooLong, path, None, &message);
        }
    });
}

/// Must not be too much for a driver to read. `object` has the parameters.
pub(super) fn validate_parameters(faults: &mut Faults, object: &Value) {
    let path = Path::root("parameters");
    if entries(object, "parameters").count() > MAX_PARAMETERS {
        return faults.too_long(&path, MAX_PARAMETERS);
    }
    let mut size = 0;
    for (key, value) in entries(object, "parameters") {
        if key.is_empty() {
            faults.invalid(&path, key, "field can not be empty.");
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_PARAMETERS_SIZE {
        faults.too_long(&path, MAX_PARAMETERS_SIZE);
    }
}
