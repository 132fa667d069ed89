//! cel-go's math extension (`math.greatest`, `math.abs`, `math.bitAnd`, …), which Kubernetes does
//! not enable.

use std::cmp::Ordering;
use std::mem;

use super::{EvalResult, Library, Plain, no_such_overload};
use crate::macros::Family;
use crate::value::Value;
use crate::value::equality::compare;

pub(super) fn declare(library: &mut Library) {
    library.macros.add(Family::Math);
    let extremes: [(&'static str, Plain); 2] = [
        ("math.@max", |args| extreme(args, "math.@max", Ordering::Less)),
        ("math.@min", |args| extreme(args, "math.@min", Ordering::Greater)),
    ];
    for (function, run) in extremes {
        let id = function.replace('.', "_");
        library.add(function, &format!("{id}_one"), "(dyn) -> dyn", run);
        library.add(function, &format!("{id}_two"), "(dyn, dyn) -> dyn", run);
        library.add(function, &format!("{id}_list"), "(list(dyn)) -> dyn", run);
    }
    let doubles: [(&'static str, &str, Plain); 5] = [
        ("math.ceil", "math_ceil_double", |args| map_double(args, f64::ceil)),
        ("math.floor", "math_floor_double", |args| map_double(args, f64::floor)),
        ("math.round", "math_round_double", |args| map_double(args, f64::round)),
        ("math.trunc", "math_trunc_double", |args| map_double(args, f64::trunc)),
        ("math.sqrt", "math_sqrt_double", |args| map_double(args, f64::sqrt)),
    ];
    for (function, id, run) in doubles {
        library.add(function, id, "(double) -> double", run);
    }
    let tests: [(&'static str, &str, Plain); 3] = [
        ("math.isInf", "math_isInf_double", |args| test_double(args, f64::is_infinite)),
        ("math.isNaN", "math_isNaN_double", |args| test_double(args, f64::is_nan)),
        ("math.isFinite", "math_isFinite_double", |args| test_double(args, f64::is_finite)),
    ];
    for (function, id, run) in tests {
        library.add(function, id, "(double) -> bool", run);
    }
    for (name, declared) in
        [("double", "(double) -> double"), ("int", "(int) -> int"), ("uint", "(uint) -> uint")]
    {
        library.add("math.abs", &format!("math_abs_{name}"), declared, abs);
        library.add("math.sign", &format!("math_sign_{name}"), declared, sign);
    }
    declare_bits(library);
}

fn declare_bits(library: &mut Library) {
    let operators: [(&'static str, &str, Plain); 3] = [
        ("math.bitAnd", "bitAnd", |args| bits(args, |a, b| a & b)),
        ("math.bitOr", "bitOr", |args| bits(args, |a, b| a | b)),
        ("math.bitXor", "bitXor", |args| bits(args, |a, b| a ^ b)),
    ];
    for (function, id, run) in operators {
        library.add(function, &format!("math_{id}_int_int"), "(int, int) -> int", run);
        library.add(function, &format!("math_{id}_uint_uint"), "(uint, uint) -> uint", run);
    }
    library.add("math.bitNot", "math_bitNot_int_int", "(int) -> int", not);
    library.add("math.bitNot", "math_bitNot_uint_uint", "(uint) -> uint", not);
    let shifts: [(&'static str, &str, Plain); 2] = [
        ("math.bitShiftLeft", "bitShiftLeft", |args| {
            shift(args, "math.bitShiftLeft", |bits, by| bits.checked_shl(by).unwrap_or(0))
        }),
        ("math.bitShiftRight", "bitShiftRight", |args| {
            shift(args, "math.bitShiftRight", |bits, by| bits.checked_shr(by).unwrap_or(0))
        }),
    ];
    for (function, id, run) in shifts {
        library.add(function, &format!("math_{id}_int_int"), "(int, int) -> int", run);
        library.add(function, &format!("math_{id}_uint_int"), "(uint, int) -> uint", run);
    }
}

fn extreme<'a>(args: &mut [Value<'a>], name: &str, worse: Ordering) -> EvalResult<'a> {
    let values = match args {
        [Value::List(list)] => list.values()?,
        others => others.iter_mut().map(|value| mem::replace(value, Value::Null)).collect(),
    };
    let mut best: Option<Value<'a>> = None;
    for value in values {
        if !matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_)) {
            return Err(format!("no such overload: {name}").into());
        }
        best = match best {
            Some(own) if compare(&own, &value)? != worse => Some(own),
            _ => Some(value),
        };
    }
    best.ok_or_else(|| format!("{name}(list) argument must not be empty").into())
}

fn map_double<'a>(args: &mut [Value<'a>], map: fn(f64) -> f64) -> EvalResult<'a> {
    match args {
        [Value::Double(value)] => Ok(Value::Double(map(*value))),
        _ => no_such_overload(),
    }
}

fn test_double<'a>(args: &mut [Value<'a>], test: fn(f64) -> bool) -> EvalResult<'a> {
    match args {
        [Value::Double(value)] => Ok(Value::Bool(test(*value))),
        _ => no_such_overload(),
    }
}

fn abs<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    match args {
        [Value::Double(value)] => Ok(Value::Double(value.abs())),
        [Value::Int(value)] => Ok(Value::Int(value.checked_abs().ok_or("integer overflow")?)),
        [Value::Uint(value)] => Ok(Value::Uint(*value)),
        _ => no_such_overload(),
    }
}

fn sign<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    match args {
        [Value::Double(value)] if value.is_nan() || *value == 0.0 => Ok(Value::Double(*value)),
        [Value::Double(value)] => Ok(Value::Double(value.signum())),
        [Value::Int(value)] => Ok(Value::Int(value.signum())),
        [Value::Uint(value)] => Ok(Value::Uint(u64::from(*value > 0))),
        _ => no_such_overload(),
    }
}

fn bits<'a>(args: &mut [Value<'a>], operate: fn(u64, u64) -> u64) -> EvalResult<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => {
            Ok(Value::Int(operate(a.cast_unsigned(), b.cast_unsigned()).cast_signed()))
        }
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(operate(*a, *b))),
        _ => no_such_overload(),
    }
}

fn not<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    match args {
        [Value::Int(value)] => Ok(Value::Int(!*value)),
        [Value::Uint(value)] => Ok(Value::Uint(!*value)),
        _ => no_such_overload(),
    }
}

fn shift<'a>(args: &mut [Value<'a>], name: &str, operate: fn(u64, u32) -> u64) -> EvalResult<'a> {
    let offset = match args.get(1) {
        Some(Value::Int(offset)) => *offset,
        _ => return no_such_overload(),
    };
    let by = match u32::try_from(offset) {
        Ok(by) => by,
        Err(_) if offset < 0 => return Err(format!("{name}() negative offset: {offset}").into()),
        Err(_) => u32::MAX,
    };
    match &args[0] {
        Value::Int(value) => Ok(Value::Int(operate(value.cast_unsigned(), by).cast_signed())),
        Value::Uint(value) => Ok(Value::Uint(operate(*value, by))),
        _ => no_such_overload(),
    }
}
