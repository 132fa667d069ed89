//! `base64.encode` and `base64.decode`.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use super::{Library, no_such_overload};
use crate::value::Value;

pub(super) fn declare(library: &mut Library) {
    library.add("base64.encode", "base64_encode_bytes", "(bytes) -> string", |args| match args {
        [Value::Bytes(bytes)] => Ok(Value::string(STANDARD.encode(bytes))),
        _ => no_such_overload(),
    });
    library.add("base64.decode", "base64_decode_string", "(string) -> bytes", |args| match args {
        [Value::String(text)] => {
            let decoded = STANDARD.decode(&**text).or_else(|_| STANDARD_NO_PAD.decode(&**text));
            match decoded {
                Ok(bytes) => Ok(Value::Bytes(bytes.into())),
                Err(error) => Err(format!("illegal base64 data: {error}").into()),
            }
        }
        _ => no_such_overload(),
    });
}
