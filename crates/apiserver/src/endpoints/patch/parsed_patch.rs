//! [`ParsedPatch`]: a patch, and its application to a document.
//!
//! The content of a patch is validated only when it is applied, so that a patch of a missing object
//! results in the error for a missing object.

use super::go_json::PatchedObjects;
use super::{APPLY, JSON, MERGE, STRATEGIC, media};
use crate::endpoints::context::RequestContext;
use crate::endpoints::decode;
use crate::request::options::FieldValidation;
use machinery::codec::{Decoded, Literals};
use machinery::patch::json::PatchError;
use machinery::{Reason, Status, Value, codec, patch};
use types::resource::Shape;
use types::strategic::{self, Error};

/// The type of a patch, from its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum PatchType {
    Json,
    Merge,
    StrategicMerge,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(in super::super) struct ParsedPatch {
    pub patch_type: PatchType,
    pub value: Value,
    text: Vec<u8>,
    /// The errors about duplicate fields.
    duplicates: Vec<String>,
    /// The numbers as the client has written them, by their path in the object.
    pub literals: Literals,
}

/// Parses a patch without a validation of its content.
pub(in super::super) fn parse(cx: &RequestContext, body: &[u8]) -> Result<ParsedPatch, Status> {
    let supports_strategic_merge = cx.scope.resource().conventions.supports_strategic_merge;
    let patch_type = match media(cx) {
        JSON => PatchType::Json,
        MERGE => PatchType::Merge,
        STRATEGIC if supports_strategic_merge => PatchType::StrategicMerge,
        _ if !supports_strategic_merge => {
            return Err(decode::unsupported_media_type(&[JSON, MERGE, APPLY]));
        }
        _ => {
            let mut status =
                Status::new(415, Reason::UnsupportedMediaType, "415: Unsupported Media Type");
            status.details = Some(Box::default());
            return Err(status);
        }
    };
    let Decoded { mut value, duplicates, literals, .. } =
        codec::json::decode_exact(body).map_err(|_| Status::bad_request("invalid JSON patch"))?;
    decode::check_list_objects(&value)?;
    // Upstream: only a strategic merge patch is merged as values; the others change the text of an
    // object, which preserves the notation of numbers.
    if patch_type == PatchType::StrategicMerge {
        if let Some(number) = &literals.too_large {
            return Err(Status::bad_request(codec::json::too_large(number).to_string()));
        }
        codec::json::whole_floats_to_integers(&mut value);
    }
    Ok(ParsedPatch { patch_type, value, text: body.to_vec(), duplicates, literals })
}

impl ParsedPatch {
    /// The objects of a document that the patch changes.
    pub(super) fn patched_objects(&self) -> PatchedObjects {
        let mut patched = PatchedObjects::default();
        match self.patch_type {
            PatchType::Merge | PatchType::StrategicMerge => patched.add_merge_patch(&self.value),
            PatchType::Json => {
                let operations = self.value.as_array().into_iter().flatten();
                let paths = operations.flat_map(|it| [it["path"].as_str(), it["from"].as_str()]);
                paths.flatten().for_each(|path| patched.add_pointer(path));
            }
        }
        patched
    }

    /// Applies the patch to `document`, and returns the strict errors about the patch itself.
    pub(in super::super) fn apply(
        &self,
        cx: &RequestContext,
        validation: FieldValidation,
        document: &mut Value,
    ) -> Result<Vec<String>, Status> {
        let mut errors = self.duplicates.clone();
        let is_checked = validation != FieldValidation::Ignore;
        match self.patch_type {
            PatchType::Json => {
                if is_checked {
                    errors.extend(
                        validate_operations(&self.value).map_err(|why| decode_error(&why))?,
                    );
                    for error in &mut errors {
                        error.insert_str(0, "json patch ");
                    }
                }
                self.apply_json_patch(document)?;
            }
            PatchType::Merge => {
                if is_checked && !matches!(self.value, Value::Object(_) | Value::Null) {
                    return Err(decode_error(&unmarshal_error(
                        &self.value,
                        "value of type",
                        GO_MAP,
                    )));
                }
                if let Some(number) = self.literals.too_large.as_ref().filter(|_| is_checked) {
                    return Err(decode_error(&codec::json::too_large(number).to_string()));
                }
                match &self.value {
                    Value::Object(_) | Value::Array(_) => {
                        patch::merge::apply(document, &self.value);
                    }
                    _ => return Err(Status::bad_request("Invalid JSON Patch")),
                }
            }
            PatchType::StrategicMerge => self.apply_strategic_merge_patch(cx, document)?,
        }
        Ok(errors)
    }

    fn apply_json_patch(&self, document: &mut Value) -> Result<(), Status> {
        patch::json::apply(document, &self.text).map_err(|error| match error {
            PatchError::Malformed(_) => Status::bad_request(error.to_string()),
            PatchError::TooManyOperations(_) => Status::too_large(&error.to_string()),
            _ => unprocessable(),
        })
    }

    fn apply_strategic_merge_patch(
        &self,
        cx: &RequestContext,
        document: &mut Value,
    ) -> Result<(), Status> {
        let Shape::Typed(ty) = &cx.scope.version().shape else { return Err(unprocessable()) };
        match &self.value {
            Value::Object(_) => {}
            Value::Null => return Ok(()),
            other => {
                return Err(Status::bad_request(unmarshal_error(other, "value of type", GO_MAP)));
            }
        }
        strategic::apply(ty, document, &self.value).map_err(|error| match error {
            Error::NotAnObject(_)
            | Error::PrimitiveList
            | Error::RetainKeys
            | Error::ElementOrder => Status::bad_request(error.to_string()),
            Error::ListOfLists => unprocessable(),
            other => Status::unclassified(other.to_string()),
        })
    }
}

const GO_MAP: &str = "map[string]interface {}";

fn unmarshal_error(found: &Value, place: &str, wanted: &str) -> String {
    format!("json: cannot unmarshal {} into Go {place} {wanted}", codec::json::kind_name(found))
}

fn decode_error(why: &str) -> Status {
    Status::bad_request(format!("error decoding patch: {why}"))
}

/// The errors about unknown members of operations; fails if a member has the wrong type.
fn validate_operations(patch: &Value) -> Result<Vec<String>, String> {
    let operations = match patch {
        Value::Array(operations) => operations.as_slice(),
        Value::Null => &[],
        other => return Err(unmarshal_error(other, "value of type", "[]handlers.jsonPatchOp")),
    };
    let mut unknown = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let members = match operation {
            Value::Object(members) => members,
            Value::Null => continue,
            other => return Err(unmarshal_error(other, "value of type", "handlers.jsonPatchOp")),
        };
        for (name, value) in members {
            match (name.as_str(), value) {
                ("value", _) | ("op" | "path" | "from", Value::String(_) | Value::Null) => {}
                ("op" | "path" | "from", other) => {
                    let place = format!("struct field jsonPatchOp.{name} of type");
                    return Err(unmarshal_error(other, &place, "string"));
                }
                _ => unknown.push(format!("unknown field \"[{index}].{name}\"")),
            }
        }
    }
    Ok(unknown)
}

fn unprocessable() -> Status {
    let message = "the server rejected our request due to an error in our request";
    let mut status = Status::new(422, Reason::Invalid, message);
    status.details = Some(Box::default());
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn unknown_members_of_operations_are_reported() {
        let check = |patch: Value, expect: Result<Vec<&str>, &str>| {
            let expect = expect
                .map(|it| it.into_iter().map(str::to_owned).collect::<Vec<_>>())
                .map_err(str::to_owned);
            assert_eq!(validate_operations(&patch), expect, "{patch}");
        };
        check(json!([{"op": "test", "path": "/a", "value": 1}, null]), Ok(vec![]));
        check(json!([{"op": "test", "foo": 1}]), Ok(vec!["unknown field \"[0].foo\""]));
        check(
            json!([{"op": 1}]),
            Err("json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
        );
        check(
            json!({}),
            Err("json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        );
    }
}
