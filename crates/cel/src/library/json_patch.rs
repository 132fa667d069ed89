//! `jsonpatch.escapeKey`: escapes a key for the path of a JSON patch.

use super::{Library, no_such_overload};
use crate::value::Value;

pub(super) fn declare(library: &mut Library) {
    let id = "string_jsonpatch_escapeKey_string";
    library.add("jsonpatch.escapeKey", id, "(string) -> string", |args| match args {
        [Value::String(key)] => Ok(Value::string(key.replace('~', "~0").replace('/', "~1"))),
        _ => no_such_overload(),
    });
}
