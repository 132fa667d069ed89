//! A patch as it was sent, and what it does to a document.
//!
//! Whether it makes sense as a patch is judged only when there is something to be patched: who
//! patches what does not exist is told that.

use super::quoted::Apart;
use super::{APPLY, JSON, MERGE, STRATEGIC, media};
use crate::endpoints::context::RequestContext;
use crate::endpoints::decode;
use crate::request::options::FieldValidation;
use machinery::codec::{Decoded, Literals};
use machinery::patch::json::PatchError;
use machinery::{Reason, Status, Value, codec, patch};
use types::resource::Shape;
use types::strategic::{self, Error};

/// How a patch is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Form {
    Json,
    Merge,
    Strategic,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(in super::super) struct Patch {
    pub form: Form,
    pub value: Value,
    text: Vec<u8>,
    /// Complaints about fields that are there twice.
    duplicates: Vec<String>,
    /// Its numbers as they were sent, by their place in the object.
    pub literals: Literals,
}

/// Reads a patch; what it is for is not looked at yet.
pub(in super::super) fn parse(cx: &RequestContext, body: &[u8]) -> Result<Patch, Status> {
    let typed = matches!(cx.scope.version().shape, Shape::Typed(_));
    let form = match media(cx) {
        JSON => Form::Json,
        MERGE => Form::Merge,
        STRATEGIC if typed => Form::Strategic,
        _ if !typed => return Err(decode::unsupported(&[JSON, MERGE, APPLY])),
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
    // Upstream: only this one is merged as values; the others change the text of an object, so that
    // numbers stay as they were written.
    if form == Form::Strategic {
        if let Some(number) = &literals.too_large {
            return Err(Status::bad_request(codec::json::too_large(number).to_string()));
        }
        codec::json::collapse(&mut value);
    }
    Ok(Patch { form, value, text: body.to_vec(), duplicates, literals })
}

impl Patch {
    /// What it takes apart of a document that was written before.
    pub(super) fn taken_apart(&self) -> Apart {
        let mut apart = Apart::default();
        match self.form {
            Form::Merge | Form::Strategic => apart.note_members(&self.value),
            Form::Json => {
                let operations = self.value.as_array().into_iter().flatten();
                let paths = operations.flat_map(|it| [it["path"].as_str(), it["from"].as_str()]);
                paths.flatten().for_each(|path| apart.note_path(path));
            }
        }
        apart
    }

    /// Changes `document`; answers with complaints about the patch itself.
    pub(in super::super) fn apply(
        &self,
        cx: &RequestContext,
        validation: FieldValidation,
        document: &mut Value,
    ) -> Result<Vec<String>, Status> {
        let mut complaints = self.duplicates.clone();
        let is_checked = validation != FieldValidation::Ignore;
        match self.form {
            Form::Json => {
                if is_checked {
                    complaints.extend(operations(&self.value).map_err(|why| undecodable(&why))?);
                    for complaint in &mut complaints {
                        complaint.insert_str(0, "json patch ");
                    }
                }
                self.operate(document)?;
            }
            Form::Merge => {
                if is_checked && !matches!(self.value, Value::Object(_) | Value::Null) {
                    return Err(undecodable(&unfit(&self.value, "value of type", A_MAP)));
                }
                if let Some(number) = self.literals.too_large.as_ref().filter(|_| is_checked) {
                    return Err(undecodable(&codec::json::too_large(number).to_string()));
                }
                match &self.value {
                    Value::Object(_) | Value::Array(_) => {
                        patch::merge::apply(document, &self.value);
                    }
                    _ => return Err(Status::bad_request("Invalid JSON Patch")),
                }
            }
            Form::Strategic => self.merge_strategically(cx, document)?,
        }
        Ok(complaints)
    }

    fn operate(&self, document: &mut Value) -> Result<(), Status> {
        patch::json::apply(document, &self.text).map_err(|error| match error {
            PatchError::Malformed(_) => Status::bad_request(error.to_string()),
            PatchError::TooManyOperations(_) => Status::too_large(&error.to_string()),
            _ => rejected(),
        })
    }

    fn merge_strategically(&self, cx: &RequestContext, document: &mut Value) -> Result<(), Status> {
        let Shape::Typed(ty) = &cx.scope.version().shape else { return Err(rejected()) };
        match &self.value {
            Value::Object(_) => {}
            Value::Null => return Ok(()),
            other => return Err(Status::bad_request(unfit(other, "value of type", A_MAP))),
        }
        strategic::apply(ty, document, &self.value).map_err(|error| match error {
            Error::NotAnObject(_)
            | Error::PrimitiveList
            | Error::RetainKeys
            | Error::ElementOrder => Status::bad_request(error.to_string()),
            Error::ListOfLists => rejected(),
            other => Status::unclassified(other.to_string()),
        })
    }
}

const A_MAP: &str = "map[string]interface {}";

fn unfit(found: &Value, place: &str, wanted: &str) -> String {
    format!("json: cannot unmarshal {} into Go {place} {wanted}", codec::json::kind_name(found))
}

fn undecodable(why: &str) -> Status {
    Status::bad_request(format!("error decoding patch: {why}"))
}

/// Complaints about members that no operation has; an error if one has the wrong type.
fn operations(patch: &Value) -> Result<Vec<String>, String> {
    let operations = match patch {
        Value::Array(operations) => operations.as_slice(),
        Value::Null => &[],
        other => return Err(unfit(other, "value of type", "[]handlers.jsonPatchOp")),
    };
    let mut unknown = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let members = match operation {
            Value::Object(members) => members,
            Value::Null => continue,
            other => return Err(unfit(other, "value of type", "handlers.jsonPatchOp")),
        };
        for (name, value) in members {
            match (name.as_str(), value) {
                ("value", _) | ("op" | "path" | "from", Value::String(_) | Value::Null) => {}
                ("op" | "path" | "from", other) => {
                    let place = format!("struct field jsonPatchOp.{name} of type");
                    return Err(unfit(other, &place, "string"));
                }
                _ => unknown.push(format!("unknown field \"[{index}].{name}\"")),
            }
        }
    }
    Ok(unknown)
}

fn rejected() -> Status {
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
    fn operations_are_read_as_strictly_as_objects() {
        let check = |patch: Value, expect: Result<Vec<&str>, &str>| {
            let expect = expect
                .map(|it| it.into_iter().map(str::to_owned).collect::<Vec<_>>())
                .map_err(str::to_owned);
            assert_eq!(operations(&patch), expect, "{patch}");
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
