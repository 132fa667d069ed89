//! Functions on lists, CEL's extension and Kubernetes' own, and inserting into maps.

use std::cmp::Ordering;
use std::mem;

use super::{EvalResult, Library, Plain, no_such_overload, operators};
use crate::error::EvalError;
use crate::macros::Family;
use crate::time::Duration;
use crate::value::equality::{compare, equal};
use crate::value::{List, Value};

/// `lists.range` makes no longer lists: they would fill memory before they cost anything.
const MAX_RANGE: i64 = 1_000_000;

/// The signatures of `sort`, `min`, `isSorted` and of sorting by keys for one type.
macro_rules! signatures {
    ($type:literal) => {
        [
            concat!("list(", $type, ").() -> list(", $type, ")"),
            concat!("list(", $type, ").() -> ", $type),
            concat!("list(", $type, ").() -> bool"),
            concat!("list(T).(list(", $type, ")) -> list(T)"),
        ]
    };
}

/// Types with an order: part of an overload's name, and signatures.
const ORDERED: &[(&str, [&str; 4])] = &[
    ("int", signatures!("int")),
    ("uint", signatures!("uint")),
    ("double", signatures!("double")),
    ("bool", signatures!("bool")),
    ("duration", signatures!("duration")),
    ("timestamp", signatures!("timestamp")),
    ("string", signatures!("string")),
    ("bytes", signatures!("bytes")),
];

/// The lists extension of cel-go.
pub(super) fn declare(library: &mut Library) {
    library.macros.add(Family::Lists);
    library.add("slice", "list_slice", "list(T).(int, int) -> list(T)", slice);
    library.add("flatten", "list_flatten", "list(list(T)).() -> list(T)", flatten);
    library.add("flatten", "list_flatten_int", "list(dyn).(int) -> list(dyn)", flatten);
    library.add("lists.range", "lists_range", "(int) -> list(int)", range);
    library.add("reverse", "list_reverse", "list(T).() -> list(T)", |args| {
        with_values(args, |mut values| {
            values.reverse();
            Ok(values)
        })
    });
    library.add("distinct", "list_distinct", "list(T).() -> list(T)", |args| {
        with_values(args, |values| Ok(distinct(values)))
    });
    for (name, [sorted, _, _, by]) in ORDERED {
        library.add("sort", &format!("list_{}_sort", runtime(name)), sorted, sort);
        let id = format!("list_{}_sortByAssociatedKeys", runtime(name));
        library.add("@sortByAssociatedKeys", &id, by, sort_by);
    }
}

/// cel-go names overloads after the types' full names.
fn runtime(name: &str) -> &str {
    match name {
        "duration" => "google.protobuf.Duration",
        "timestamp" => "google.protobuf.Timestamp",
        other => other,
    }
}

/// Kubernetes' own.
pub(super) fn declare_kubernetes(library: &mut Library) {
    for (name, [_, one, truth, _]) in ORDERED {
        library.add("isSorted", &format!("list_{name}_is_sorted_bool"), truth, is_sorted);
        library.add("max", &format!("list_{name}_max_{name}"), one, |args| {
            extreme(args, "max", Ordering::Less)
        });
        library.add("min", &format!("list_{name}_min_{name}"), one, |args| {
            extreme(args, "min", Ordering::Greater)
        });
    }
    let sums: [(&str, &'static str, Plain); 4] = [
        ("int", "list(int).() -> int", |args| sum(args, Value::Int(0))),
        ("uint", "list(uint).() -> uint", |args| sum(args, Value::Uint(0))),
        ("double", "list(double).() -> double", |args| sum(args, Value::Double(0.0))),
        ("duration", "list(duration).() -> duration", |args| {
            sum(args, Value::Duration(Duration { nanoseconds: 0 }))
        }),
    ];
    for (name, declared, run) in sums {
        library.add("sum", &format!("list_{name}_sum_{name}"), declared, run);
    }
    library.add("indexOf", "list_a_index_of_int", "list(A).(A) -> int", |args| {
        position(args, |positions| positions.next())
    });
    library.add("lastIndexOf", "list_a_last_index_of_int", "list(A).(A) -> int", |args| {
        position(args, |positions| positions.last())
    });
    library.add("includes", "list_includes_dyn_dyn", "dyn.(dyn) -> bool", |args| match args {
        [Value::List(list), value] => {
            Ok(Value::Bool(list.values()?.iter().any(|own| equal(own, value))))
        }
        [own, value] => Ok(Value::Bool(equal(own, value))),
        _ => no_such_overload(),
    });
}

/// The overloads of `transformMap` and similar macros.
pub(super) fn declare_map_insert(library: &mut Library) {
    library.macros.add(Family::TwoVariables);
    let one = "(map(K, V), K, V) -> map(K, V)";
    library.add("cel.@mapInsert", "@mapInsert_map_key_value", one, |args| {
        let [Value::Map(_), key, value] = args else {
            return no_such_overload();
        };
        let (key, value) = (mem::replace(key, Value::Null), mem::replace(value, Value::Null));
        match mem::replace(&mut args[0], Value::Null) {
            Value::Map(map) => Ok(Value::Map(map.inserted(key, value)?)),
            _ => no_such_overload(),
        }
    });
    let many = "(map(K, V), map(K, V)) -> map(K, V)";
    library.add("cel.@mapInsert", "@mapInsert_map_map", many, |args| {
        let [own, Value::Map(more)] = args else {
            return no_such_overload();
        };
        let Value::Map(mut map) = mem::replace(own, Value::Null) else {
            return no_such_overload();
        };
        for key in more.keys() {
            if let Some(value) = more.get(&key) {
                map = map.inserted(key, value?)?;
            }
        }
        Ok(Value::Map(map))
    });
}

fn list_of<'v, 'a>(args: &'v [Value<'a>]) -> Result<&'v List<'a>, EvalError> {
    match args.first() {
        Some(Value::List(list)) => Ok(list),
        _ => Err(EvalError::no_such_overload()),
    }
}

type Values<'a> = Result<Vec<Value<'a>>, EvalError>;

fn with_values<'a>(
    args: &mut [Value<'a>],
    map: fn(Vec<Value<'a>>) -> Values<'a>,
) -> EvalResult<'a> {
    map(list_of(args)?.values()?).map(Value::list)
}

fn slice<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return no_such_overload();
    };
    let words = match (usize::try_from(*start), usize::try_from(*end)) {
        (Ok(from), Ok(to)) if from <= to && to <= list.len() => {
            return Ok(Value::list(list.values()?.drain(from..to).collect()));
        }
        (Ok(from), Ok(to)) if from <= to => format!("list is length {}", list.len()),
        (Ok(_), Ok(_)) => "start index must be less than or equal to end index".to_owned(),
        _ => "negative indexes not supported".to_owned(),
    };
    Err(format!("cannot slice({start}, {end}), {words}").into())
}

fn flatten<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let depth = match args.get(1) {
        Some(Value::Int(depth)) => {
            usize::try_from(*depth).map_err(|_| "level must be non-negative")?
        }
        _ => 1,
    };
    let mut flat = Vec::new();
    flatten_into(list_of(args)?, depth, &mut flat)?;
    Ok(Value::list(flat))
}

fn flatten_into<'a>(
    list: &List<'a>,
    depth: usize,
    flat: &mut Vec<Value<'a>>,
) -> Result<(), EvalError> {
    for value in list.iter() {
        match value? {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, flat)?,
            value => flat.push(value),
        }
    }
    Ok(())
}

fn range<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    match args {
        [Value::Int(size)] if *size < 0 => {
            Err(format!("lists.range: size must be non-negative, got {size}").into())
        }
        [Value::Int(size)] if *size > MAX_RANGE => {
            Err(format!("lists.range: size {size} exceeds maximum allowed ({MAX_RANGE})").into())
        }
        [Value::Int(size)] => Ok(Value::list((0..*size).map(Value::Int).collect())),
        _ => no_such_overload(),
    }
}

fn distinct(values: Vec<Value<'_>>) -> Vec<Value<'_>> {
    let mut seen: Vec<Value<'_>> = Vec::new();
    for value in values {
        if !seen.iter().any(|own| equal(own, &value)) {
            seen.push(value);
        }
    }
    seen
}

fn sort<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let values = list_of(args)?.values()?;
    sorted(values.clone(), values)
}

fn sort_by<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let [Value::List(list), Value::List(keys)] = args else {
        return no_such_overload();
    };
    sorted(keys.values()?, list.values()?)
}

fn sorted<'a>(keys: Vec<Value<'a>>, values: Vec<Value<'a>>) -> EvalResult<'a> {
    if keys.len() != values.len() {
        return Err(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, \
             but got {} and {} elements respectively",
            values.len(),
            keys.len()
        )
        .into());
    }
    if keys.windows(2).any(|pair| pair[0].type_name() != pair[1].type_name()) {
        return Err("list elements must have the same type".into());
    }
    if keys
        .first()
        .is_some_and(|key| compare(key, key).is_err() && !matches!(key, Value::Double(_)))
    {
        return Err("list elements must be comparable".into());
    }
    let mut pairs: Vec<_> = keys.into_iter().zip(values).collect();
    pairs.sort_by(|(a, _), (b, _)| compare(a, b).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, value)| value).collect()))
}

fn is_sorted<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let values = list_of(args)?.values()?;
    for pair in values.windows(2) {
        if compare(&pair[0], &pair[1])?.is_gt() {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn extreme<'a>(args: &mut [Value<'a>], name: &str, worse: Ordering) -> EvalResult<'a> {
    let mut best: Option<Value<'a>> = None;
    for value in list_of(args)?.iter() {
        let value = value?;
        best = match best {
            Some(own) if compare(&own, &value)? != worse => Some(own),
            _ => Some(value),
        };
    }
    best.ok_or_else(|| format!("{name} called on empty list").into())
}

/// The elements determine the operation: for a list of unknown type, every overload is tried.
fn sum<'a>(args: &mut [Value<'a>], zero: Value<'a>) -> EvalResult<'a> {
    let mut total = None;
    for value in list_of(args)?.iter() {
        total = Some(match total {
            None => value?,
            Some(total) => operators::add(&mut [total, value?])?,
        });
    }
    Ok(total.unwrap_or(zero))
}

fn position<'a>(
    args: &mut [Value<'a>],
    pick: fn(&mut dyn Iterator<Item = usize>) -> Option<usize>,
) -> EvalResult<'a> {
    let [Value::List(list), value] = args else {
        return no_such_overload();
    };
    let values = list.values()?;
    let mut positions =
        values.iter().enumerate().filter(|(_, own)| equal(own, value)).map(|(index, _)| index);
    let found = pick(&mut positions).and_then(|index| i64::try_from(index).ok());
    Ok(Value::Int(found.unwrap_or(-1)))
}
