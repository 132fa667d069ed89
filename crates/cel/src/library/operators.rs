//! Operators: arithmetic with overflow checks, comparisons, membership, and the signatures of the
//! logical operators, which the evaluator implements.

use std::cmp::Ordering;
use std::mem;

use super::{EvalResult, Library, Plain, Run, no_such_overload};
use crate::error::EvalError;
use crate::time::Duration;
use crate::value::Value;
use crate::value::equality::{compare, equal};

/// The part of an overload's id and the signature, for each pair of types that can be ordered.
const ORDERED: &[(&str, &str)] = &[
    ("bool", "(bool, bool) -> bool"),
    ("int64", "(int, int) -> bool"),
    ("int64_double", "(int, double) -> bool"),
    ("int64_uint64", "(int, uint) -> bool"),
    ("uint64", "(uint, uint) -> bool"),
    ("uint64_double", "(uint, double) -> bool"),
    ("uint64_int64", "(uint, int) -> bool"),
    ("double", "(double, double) -> bool"),
    ("double_int64", "(double, int) -> bool"),
    ("double_uint64", "(double, uint) -> bool"),
    ("string", "(string, string) -> bool"),
    ("bytes", "(bytes, bytes) -> bool"),
    ("timestamp", "(timestamp, timestamp) -> bool"),
    ("duration", "(duration, duration) -> bool"),
];

pub(super) fn declare(library: &mut Library) {
    let evaluator = Run::Evaluator;
    library.add_overload("_?_:_", "conditional", "(bool, A, A) -> A", evaluator);
    library.add_overload("_&&_", "logical_and", "(bool, bool) -> bool", evaluator);
    library.add_overload("_||_", "logical_or", "(bool, bool) -> bool", evaluator);
    library.add_overload("@not_strictly_false", "not_strictly_false", "(bool) -> bool", evaluator);
    library.add_overload("_==_", "equals", "(A, A) -> bool", evaluator);
    library.add_overload("_!=_", "not_equals", "(A, A) -> bool", evaluator);
    library.add_overload("_[_]", "index_list", "(list(A), int) -> A", evaluator);
    library.add_overload("_[_]", "index_map", "(map(A, B), A) -> B", evaluator);
    library.add("!_", "logical_not", "(bool) -> bool", not);
    library.add("-_", "negate_double", "(double) -> double", negate);
    library.add("-_", "negate_int64", "(int) -> int", negate);
    library.add("@in", "in_list", "(A, list(A)) -> bool", is_in);
    library.add("@in", "in_map", "(A, map(A, B)) -> bool", is_in);
    declare_arithmetic(library);
    let relations: [(&'static str, &str, Plain); 4] = [
        ("_<_", "less", |args| ordered(args, Ordering::is_lt)),
        ("_<=_", "less_equals", |args| ordered(args, Ordering::is_le)),
        ("_>_", "greater", |args| ordered(args, Ordering::is_gt)),
        ("_>=_", "greater_equals", |args| ordered(args, Ordering::is_ge)),
    ];
    for (function, id, run) in relations {
        for (types, declared) in ORDERED {
            library.add(function, &format!("{id}_{types}"), declared, run);
        }
    }
}

fn declare_arithmetic(library: &mut Library) {
    let table: &[(&'static str, &str, &'static str, Plain)] = &[
        ("_+_", "add_bytes", "(bytes, bytes) -> bytes", add),
        ("_+_", "add_double", "(double, double) -> double", add),
        ("_+_", "add_duration_duration", "(duration, duration) -> duration", add),
        ("_+_", "add_duration_timestamp", "(duration, timestamp) -> timestamp", add),
        ("_+_", "add_timestamp_duration", "(timestamp, duration) -> timestamp", add),
        ("_+_", "add_int64", "(int, int) -> int", add),
        ("_+_", "add_list", "(list(A), list(A)) -> list(A)", add),
        ("_+_", "add_string", "(string, string) -> string", add),
        ("_+_", "add_uint64", "(uint, uint) -> uint", add),
        ("_/_", "divide_double", "(double, double) -> double", divide),
        ("_/_", "divide_int64", "(int, int) -> int", divide),
        ("_/_", "divide_uint64", "(uint, uint) -> uint", divide),
        ("_%_", "modulo_int64", "(int, int) -> int", modulo),
        ("_%_", "modulo_uint64", "(uint, uint) -> uint", modulo),
        ("_*_", "multiply_double", "(double, double) -> double", multiply),
        ("_*_", "multiply_int64", "(int, int) -> int", multiply),
        ("_*_", "multiply_uint64", "(uint, uint) -> uint", multiply),
        ("_-_", "subtract_double", "(double, double) -> double", subtract),
        ("_-_", "subtract_duration_duration", "(duration, duration) -> duration", subtract),
        ("_-_", "subtract_int64", "(int, int) -> int", subtract),
        ("_-_", "subtract_timestamp_duration", "(timestamp, duration) -> timestamp", subtract),
        ("_-_", "subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration", subtract),
        ("_-_", "subtract_uint64", "(uint, uint) -> uint", subtract),
    ];
    for (function, id, declared, run) in table {
        library.add(function, id, declared, *run);
    }
}

fn overflow() -> EvalError {
    "integer overflow".into()
}

fn unsigned_overflow() -> EvalError {
    "unsigned integer overflow".into()
}

fn duration<'a>(nanoseconds: Option<i64>) -> EvalResult<'a> {
    let nanoseconds = nanoseconds.ok_or("integer overflow")?;
    Ok(Value::Duration(Duration { nanoseconds }))
}

pub(super) fn add<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let [left, right] = args else {
        return no_such_overload();
    };
    Ok(match (mem::replace(left, Value::Null), &*right) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_add(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => {
            Value::Uint(a.checked_add(*b).ok_or_else(unsigned_overflow)?)
        }
        (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
        (Value::String(a), Value::String(b)) => Value::string(format!("{}{}", &*a, &**b)),
        (Value::Bytes(a), Value::Bytes(b)) => Value::Bytes([&*a, &**b].concat().into()),
        (Value::List(a), Value::List(b)) => Value::List(a.plus(b)?),
        (Value::Duration(a), Value::Duration(b)) => {
            return duration(a.nanoseconds.checked_add(b.nanoseconds));
        }
        (Value::Timestamp(at), Value::Duration(by)) => {
            Value::Timestamp(at.plus(*by).ok_or("timestamp overflow")?)
        }
        (Value::Duration(by), Value::Timestamp(at)) => {
            Value::Timestamp(at.plus(by).ok_or("timestamp overflow")?)
        }
        _ => return no_such_overload(),
    })
}

fn subtract<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    Ok(match args {
        [Value::Int(a), Value::Int(b)] => Value::Int(a.checked_sub(*b).ok_or_else(overflow)?),
        [Value::Uint(a), Value::Uint(b)] => {
            Value::Uint(a.checked_sub(*b).ok_or_else(unsigned_overflow)?)
        }
        [Value::Double(a), Value::Double(b)] => Value::Double(*a - *b),
        [Value::Duration(a), Value::Duration(b)] => {
            return duration(a.nanoseconds.checked_sub(b.nanoseconds));
        }
        [Value::Timestamp(at), Value::Duration(by)] => {
            let back = by.nanoseconds.checked_neg().ok_or("timestamp overflow")?;
            Value::Timestamp(at.plus(Duration { nanoseconds: back }).ok_or("timestamp overflow")?)
        }
        [Value::Timestamp(a), Value::Timestamp(b)] => {
            Value::Duration(a.since(*b).ok_or("integer overflow")?)
        }
        _ => return no_such_overload(),
    })
}

fn multiply<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    Ok(match args {
        [Value::Int(a), Value::Int(b)] => Value::Int(a.checked_mul(*b).ok_or_else(overflow)?),
        [Value::Uint(a), Value::Uint(b)] => {
            Value::Uint(a.checked_mul(*b).ok_or_else(unsigned_overflow)?)
        }
        [Value::Double(a), Value::Double(b)] => Value::Double(*a * *b),
        _ => return no_such_overload(),
    })
}

fn divide<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err("division by zero".into());
        }
        [Value::Int(a), Value::Int(b)] => Value::Int(a.checked_div(*b).ok_or_else(overflow)?),
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(*a / *b),
        [Value::Double(a), Value::Double(b)] => Value::Double(*a / *b),
        _ => return no_such_overload(),
    })
}

fn modulo<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err("modulus by zero".into());
        }
        [Value::Int(a), Value::Int(b)] => Value::Int(a.checked_rem(*b).ok_or_else(overflow)?),
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(*a % *b),
        _ => return no_such_overload(),
    })
}

fn negate<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    Ok(match args {
        [Value::Int(a)] => Value::Int(a.checked_neg().ok_or_else(overflow)?),
        [Value::Double(a)] => Value::Double(-*a),
        [Value::Duration(a)] => return duration(a.nanoseconds.checked_neg()),
        _ => return no_such_overload(),
    })
}

fn not<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!*value)),
        _ => no_such_overload(),
    }
}

fn ordered<'a>(args: &mut [Value<'a>], wanted: fn(Ordering) -> bool) -> EvalResult<'a> {
    let [a, b] = args else {
        return no_such_overload();
    };
    compare(a, b).map(|order| Value::Bool(wanted(order)))
}

fn is_in<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    match args {
        [value, Value::List(list)] => {
            for element in list.iter() {
                if equal(&element?, value) {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        [key, Value::Map(map)] => match map.get(key) {
            Some(Err(error)) => Err(error),
            found => Ok(Value::Bool(found.is_some())),
        },
        [Value::String(name), Value::Fields(fields)] => Ok(Value::Bool(fields.get(name).is_some())),
        _ => no_such_overload(),
    }
}
