//! [`Error`]: why a strategic merge patch cannot be applied, in upstream's words.

use serde_json::{Map, Value};

use super::go_value;

/// Why a patch cannot be applied.
///
/// Upstream answers most of these with a Status that has only the message and code 500. The
/// variants with another code are documented as such.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The patch is JSON, but not an object: a bad request (400).
    #[error("json: cannot unmarshal {0} into Go value of type map[string]interface {{}}")]
    NotAnObject(&'static str),
    /// `$deleteFromPrimitiveList` without a field: a bad request (400).
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    /// `$retainKeys` is no list, or the patch sets a field that it does not name: a bad request
    /// (400).
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    /// `$setElementOrder` without a field: a bad request (400).
    #[error("invalid patch format of setElementOrder list")]
    ElementOrder,
    /// A list that merges has lists in it: unprocessable (422). Upstream's response has the general
    /// message of that code instead of this one.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// An element lacks its merge key.
    #[error("map: {element} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The element, as Go writes it.
        element: String,
        /// The field that it should have.
        key: &'static str,
    },
    /// Objects should merge in a list whose elements have no merge key.
    #[error("cannot merge lists without merge key for {kind}")]
    NoDeclaredKey {
        /// The `reflect.Kind` of an element in Go.
        kind: &'static str,
    },
    /// A `$patch` that does not exist.
    #[error("unknown patch type: {directive} in map: {patch}")]
    UnknownDirective {
        /// The value of `$patch`.
        directive: String,
        /// The object with the directive, as Go writes it.
        patch: String,
    },
    /// `$patch: merge` in an element of a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirective,
    /// A value of a type that does not belong there.
    #[error("expected a {expected}, but received a {found}")]
    WrongType {
        /// A Go type.
        expected: &'static str,
        /// A Go type.
        found: &'static str,
    },
    /// A list that merges has elements of several types.
    #[error("list element types are not identical: [{original} {patch}]")]
    MixedElements {
        /// The old list, as Go writes it.
        original: String,
        /// The patch's list, as Go writes it.
        patch: String,
    },
    /// There is no list whose order could be set.
    #[error("no elements in any of the given slices")]
    NoElements,
    /// The elements of the patch's list are not in the order of `$setElementOrder`, or not in it.
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    OtherOrder {
        /// The patch's list, as Go writes it.
        patch: String,
        /// The requested order, as Go writes it.
        order: String,
    },
    /// The type has no such field, so that the values of the original and the patch cannot be
    /// merged.
    #[error("unable to find api field in struct {type_name} for the json field {key:?}")]
    UnknownField {
        /// The type's name.
        type_name: &'static str,
        /// The field's name.
        key: String,
    },
    /// Objects or lists should merge in a map, whose values have no type upstream.
    #[error("merging an object in json but data type is not struct, instead is: {kind}")]
    NotAStruct {
        /// The `reflect.Kind` of the map in Go.
        kind: &'static str,
    },
    /// A list should merge in a field that is no list.
    #[error("expected slice or array type, but got: {owner}")]
    NotAList {
        /// The `reflect.Kind` of the owner of the field in Go.
        owner: &'static str,
    },
    /// A list of lists should merge.
    #[error("unexpected slice of slice")]
    SliceOfSlices,
    /// Lists or objects where only primitive values can be compared. Upstream panics.
    #[error("runtime error: hash of unhashable type {0}")]
    Unhashable(&'static str),
}

impl Error {
    pub(super) fn not_a_map(found: &Value) -> Self {
        Self::WrongType {
            expected: go_value::type_of(&Value::Object(Map::new())),
            found: go_value::type_of(found),
        }
    }

    pub(super) fn not_a_list(found: &Value) -> Self {
        Self::WrongType {
            expected: go_value::type_of(&Value::Array(Vec::new())),
            found: go_value::type_of(found),
        }
    }

    pub(super) fn no_merge_key(element: &Map<String, Value>, key: &'static str) -> Self {
        Self::NoMergeKey { element: go_value::object(element), key }
    }

    pub(super) fn unknown_directive(directive: &Value, patch: &Map<String, Value>) -> Self {
        Self::UnknownDirective {
            directive: go_value::as_text(directive),
            patch: go_value::object(patch),
        }
    }

    pub(super) fn mixed_elements(original: &[Value], patch: &[Value]) -> Self {
        Self::MixedElements { original: go_value::list(original), patch: go_value::list(patch) }
    }

    pub(super) fn unhashable(value: &Value) -> Self {
        Self::Unhashable(go_value::type_of(value))
    }
}
