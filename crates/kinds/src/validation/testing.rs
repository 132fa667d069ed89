//! What the tests of every kind have in common: run one function of its strategy, show the result.

use machinery::{ErrorList, Object, Value};
use types::resource::Strategy;

/// An object of this JSON.
pub(crate) fn object(value: Value) -> Object {
    Object::from_value(value).expect("the test's object is a map")
}

/// The user's object with defaults.
pub(crate) fn defaulted(strategy: &Strategy, value: Value) -> Value {
    let mut object = object(value);
    (strategy.defaults)(&mut object);
    object.into_value()
}

/// The user's object as it is created.
pub(crate) fn created(strategy: &Strategy, value: Value) -> Value {
    let mut object = object(value);
    (strategy.defaults)(&mut object);
    (strategy.prepare_create)(&mut object);
    object.into_value()
}

/// Why a new object is refused, after defaults.
pub(crate) fn refusals(strategy: &Strategy, value: Value) -> Vec<String> {
    let object = object(created(strategy, value));
    let mut errors = ErrorList::new();
    match strategy.validate_in {
        Some(validate) => validate(&object, None, "v1", &mut errors),
        None => (strategy.validate)(&object, &mut errors),
    }
    lines(&errors)
}

/// Why a change is refused; both objects are given defaults.
pub(crate) fn refusals_of_update(strategy: &Strategy, new: Value, old: Value) -> Vec<String> {
    let old = object(created(strategy, old));
    let mut new = object(defaulted(strategy, new));
    (strategy.prepare_update)(&mut new, &old);
    let mut errors = ErrorList::new();
    match strategy.validate_in {
        Some(validate) => validate(&new, Some(&old), "v1", &mut errors),
        None => (strategy.validate_update)(&new, &old, &mut errors),
    }
    lines(&errors)
}

/// Each error as a line.
pub(crate) fn lines(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}
