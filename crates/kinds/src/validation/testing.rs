//! What the tests of every kind have in common: run one function of its behavior, show the result.

use machinery::{ErrorList, Object, Value};
use types::resource::Behavior;

/// An object of this JSON.
pub(crate) fn object(value: Value) -> Object {
    Object::from_value(value).expect("the test's object is a map")
}

/// The user's object with defaults.
pub(crate) fn defaulted(behavior: &Behavior, value: Value) -> Value {
    let mut object = object(value);
    (behavior.defaults)(&mut object);
    object.into_value()
}

/// The user's object as it is created.
pub(crate) fn created(behavior: &Behavior, value: Value) -> Value {
    let mut object = object(value);
    (behavior.defaults)(&mut object);
    (behavior.prepare_create)(&mut object);
    object.into_value()
}

/// Why a new object is refused, after defaults.
pub(crate) fn refusals(behavior: &Behavior, value: Value) -> Vec<String> {
    let object = object(created(behavior, value));
    let mut errors = ErrorList::new();
    match behavior.validate_in {
        Some(validate) => validate(&object, None, "v1", &mut errors),
        None => (behavior.validate)(&object, &mut errors),
    }
    lines(&errors)
}

/// Why a change is refused; both objects are given defaults.
pub(crate) fn refusals_of_update(behavior: &Behavior, new: Value, old: Value) -> Vec<String> {
    let old = object(created(behavior, old));
    let mut new = object(defaulted(behavior, new));
    (behavior.prepare_update)(&mut new, &old);
    let mut errors = ErrorList::new();
    match behavior.validate_in {
        Some(validate) => validate(&new, Some(&old), "v1", &mut errors),
        None => (behavior.validate_update)(&new, &old, &mut errors),
    }
    lines(&errors)
}

/// Each error as a line.
pub(crate) fn lines(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}
