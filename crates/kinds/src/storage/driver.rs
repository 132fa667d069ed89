//! Validation that several kinds have in common: names of drivers, and their parameters.

use crate::validation::rules::{add_invalid, qualified_name};
use machinery::field_path::ErrorType;
use machinery::fields::entries;
use machinery::{ErrorList, Path, Value, names};

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETERS_SIZE: usize = 256 << 10;
const MAX_NAME: usize = 63;

/// Validates the name of a provisioner, which is not case-sensitive.
pub(super) fn validate_provisioner(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        errors.required(path, "");
    } else {
        qualified_name(errors, path, &name.to_lowercase());
    }
}

/// Validates the name of a driver.
pub(crate) fn validate_driver_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > MAX_NAME {
        errors.too_long(path, MAX_NAME);
    }
    add_invalid(errors, path, name, names::dns1123_subdomain(&name.to_lowercase()));
}

/// The same, for fields whose rule upstream is [declarative](ErrorList::declarative).
pub(crate) fn declared_driver_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    errors.declarative(|errors| {
        if name.is_empty() {
            return errors.required(path, "");
        }
        add_invalid(errors, path, name, names::caseless_name(name));
        if name.len() > MAX_NAME {
            let message = format!("may not be more than {MAX_NAME} characters");
            errors.add(ErrorType::TooLong, path, None, &message);
        }
    });
}

/// Limits the number and the size of the `parameters` of an object.
pub(super) fn validate_parameters(errors: &mut ErrorList, object: &Value) {
    let path = Path::root("parameters");
    if entries(object, "parameters").count() > MAX_PARAMETERS {
        return errors.too_long(&path, MAX_PARAMETERS);
    }
    let mut size = 0;
    for (key, value) in entries(object, "parameters") {
        if key.is_empty() {
            errors.invalid(&path, key, "field can not be empty.");
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_PARAMETERS_SIZE {
        errors.too_long(&path, MAX_PARAMETERS_SIZE);
    }
}
