//! The limit on the number of objects in the lists of one body.
//!
//! An empty list element takes two or three bytes of a body, but kilobytes in memory: it gets
//! defaults, is copied, validated, and described in the managed fields. A limit on the size of the
//! body therefore does not bound the cost of a request. Objects that are values of a map are not
//! counted, since each has a distinct key and no defaults.

use machinery::{Object, Status, Value};

/// The maximum number of objects in all lists of a body, or of the result of a patch. A container,
/// the largest kind of element, takes up to 4.2 KB, so that a request stays below 300 MiB. An
/// object with a tenth of that number of containers is too large to be stored.
pub(super) const MAX_LIST_OBJECTS: usize = 60_000;

/// Fails if a document has too many objects in its lists.
pub(crate) fn check(document: &Value) -> Result<(), Status> {
    if exceeds_limit(document) { Err(too_many()) } else { Ok(()) }
}

/// Fails if an object has too many objects in its lists.
pub(crate) fn check_object(object: &Object) -> Result<(), Status> {
    let mut left = MAX_LIST_OBJECTS;
    let fits = object.map().values().all(|value| subtract(value, &mut left));
    if fits { Ok(()) } else { Err(too_many()) }
}

/// Whether a document has more than [`MAX_LIST_OBJECTS`] objects in its lists.
pub(super) fn exceeds_limit(document: &Value) -> bool {
    let mut left = MAX_LIST_OBJECTS;
    !subtract(document, &mut left)
}

/// The status of a body with too many objects in its lists.
pub(super) fn too_many() -> Status {
    let message =
        format!("the lists of an object may have {MAX_LIST_OBJECTS} objects, all lists together");
    Status::too_large(&message)
}

/// Subtracts the objects in the lists of `value` from `left`; false if there are more than that.
fn subtract(value: &Value, left: &mut usize) -> bool {
    match value {
        Value::Array(list) => list.iter().all(|element| {
            if element.is_object() {
                let Some(rest) = left.checked_sub(1) else { return false };
                *left = rest;
            }
            subtract(element, left)
        }),
        Value::Object(map) => map.values().all(|value| subtract(value, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::{Map, json};

    fn empty_objects(count: usize) -> Value {
        (0..count).map(|_| json!({})).collect()
    }

    #[test]
    fn objects_of_all_lists_count_together() {
        let half = MAX_LIST_OBJECTS / 2;
        let mut document = json!({"a": empty_objects(half), "b": {"c": [empty_objects(half)]}});
        assert!(!exceeds_limit(&document));
        document["d"] = empty_objects(1);
        assert!(exceeds_limit(&document));
    }

    #[test]
    fn objects_of_maps_and_scalars_of_lists_do_not_count() {
        let number = 2 * MAX_LIST_OBJECTS;
        let map: Map<String, Value> = (0..number).map(|n| (n.to_string(), json!({}))).collect();
        let scalars: Value = (0..number).collect();
        assert!(!exceeds_limit(&json!({"map": map, "scalars": scalars})));
    }
}
