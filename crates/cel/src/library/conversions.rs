//! Conversions: `int(x)`, `string(x)`, `timestamp(x)`, …, and `type(x)`, `dyn(x)`.

use std::mem;

use super::{EvalResult, Library, no_such_overload};
use crate::error::EvalError;
use crate::time::{Duration, Timestamp};
use crate::value::{Text, Value, numbers};

pub(super) fn declare(library: &mut Library) {
    library.add("type", "type", "(A) -> type(A)", |args| match args {
        [value] => Ok(Value::Type(value.type_name().into())),
        _ => no_such_overload(),
    });
    library.add("dyn", "to_dyn", "(A) -> dyn", identity);
    library.add("bool", "bool_to_bool", "(bool) -> bool", identity);
    library.add("bool", "string_to_bool", "(string) -> bool", string_to_bool);
    library.add("bytes", "bytes_to_bytes", "(bytes) -> bytes", identity);
    library.add("bytes", "string_to_bytes", "(string) -> bytes", |args| match args {
        [Value::String(text)] => Ok(Value::Bytes(text.as_bytes().into())),
        _ => no_such_overload(),
    });
    library.add("double", "double_to_double", "(double) -> double", identity);
    library.add("double", "int64_to_double", "(int) -> double", to_double);
    library.add("double", "string_to_double", "(string) -> double", to_double);
    library.add("double", "uint64_to_double", "(uint) -> double", to_double);
    library.add("duration", "duration_to_duration", "(duration) -> duration", identity);
    library.add("duration", "string_to_duration", "(string) -> duration", to_duration);
    library.add("int", "int64_to_int64", "(int) -> int", identity);
    library.add("int", "double_to_int64", "(double) -> int", to_int);
    library.add("int", "duration_to_int64", "(duration) -> int", to_int);
    library.add("int", "string_to_int64", "(string) -> int", to_int);
    library.add("int", "timestamp_to_int64", "(timestamp) -> int", to_int);
    library.add("int", "uint64_to_int64", "(uint) -> int", to_int);
    library.add("string", "string_to_string", "(string) -> string", identity);
    library.add("string", "bool_to_string", "(bool) -> string", to_string);
    library.add("string", "bytes_to_string", "(bytes) -> string", to_string);
    library.add("string", "double_to_string", "(double) -> string", to_string);
    library.add("string", "duration_to_string", "(duration) -> string", to_string);
    library.add("string", "int64_to_string", "(int) -> string", to_string);
    library.add("string", "timestamp_to_string", "(timestamp) -> string", to_string);
    library.add("string", "uint64_to_string", "(uint) -> string", to_string);
    library.add("timestamp", "timestamp_to_timestamp", "(timestamp) -> timestamp", identity);
    library.add("timestamp", "int64_to_timestamp", "(int) -> timestamp", to_timestamp);
    library.add("timestamp", "string_to_timestamp", "(string) -> timestamp", to_timestamp);
    library.add("uint", "uint64_to_uint64", "(uint) -> uint", identity);
    library.add("uint", "double_to_uint64", "(double) -> uint", to_uint);
    library.add("uint", "int64_to_uint64", "(int) -> uint", to_uint);
    library.add("uint", "string_to_uint64", "(string) -> uint", to_uint);
}

/// Whether calls with a constant argument are evaluated at compile time.
pub(crate) fn is_conversion(function: &str) -> bool {
    matches!(
        function,
        "bool"
            | "bytes"
            | "double"
            | "duration"
            | "dyn"
            | "int"
            | "string"
            | "timestamp"
            | "type"
            | "uint"
    )
}

fn identity<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    match args {
        [value] => Ok(mem::replace(value, Value::Null)),
        _ => no_such_overload(),
    }
}

fn failed(from: &str, to: &str) -> EvalError {
    format!("type conversion error from '{from}' to '{to}'").into()
}

fn string_to_bool<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    match args[0].as_str() {
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(Value::Bool(true)),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(Value::Bool(false)),
        _ => Err(failed("string", "bool")),
    }
}

fn to_double<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    Ok(Value::Double(match args {
        [Value::Int(value)] => numbers::int_to_double(*value),
        [Value::Uint(value)] => numbers::uint_to_double(*value),
        [Value::String(text)] => text.parse().map_err(|_| failed("string", "double"))?,
        _ => return no_such_overload(),
    }))
}

fn to_int<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    Ok(Value::Int(match args {
        [Value::Uint(value)] => i64::try_from(*value).map_err(|_| "integer overflow")?,
        [Value::Double(value)] => numbers::double_to_int(*value).ok_or("integer overflow")?,
        [Value::Duration(value)] => value.nanoseconds,
        [Value::Timestamp(value)] => value.seconds,
        [Value::String(text)] => text.parse().map_err(|_| failed("string", "int"))?,
        _ => return no_such_overload(),
    }))
}

fn to_uint<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    Ok(Value::Uint(match args {
        [Value::Int(value)] => u64::try_from(*value).map_err(|_| "unsigned integer overflow")?,
        [Value::Double(value)] => {
            numbers::double_to_uint(*value).ok_or("unsigned integer overflow")?
        }
        [Value::String(text)] => {
            let digits = text.strip_prefix('+').map_or(Some(&**text), |_| None);
            digits.and_then(|it| it.parse().ok()).ok_or_else(|| failed("string", "uint"))?
        }
        _ => return no_such_overload(),
    }))
}

fn to_string<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    match args {
        [Value::Bytes(bytes)] => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::string(text)),
            Err(_) => Err("invalid UTF-8 in bytes, cannot convert to string".into()),
        },
        [value] => Ok(Value::String(Text::from(value.to_string()))),
        _ => no_such_overload(),
    }
}

fn to_duration<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let parsed = args[0].as_str().and_then(Duration::parse);
    parsed.map(Value::Duration).ok_or_else(|| failed("string", "google.protobuf.Duration"))
}

fn to_timestamp<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    match args {
        [Value::Int(seconds)] => {
            Ok(Value::Timestamp(Timestamp::new(*seconds, 0).ok_or("timestamp overflow")?))
        }
        [Value::String(text)] => Timestamp::parse(text)
            .map(Value::Timestamp)
            .ok_or_else(|| failed("string", "google.protobuf.Timestamp")),
        _ => no_such_overload(),
    }
}
