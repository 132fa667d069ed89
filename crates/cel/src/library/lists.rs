//! Functions on lists: cel-go's lists extension and Kubernetes' lists library.

use std::cmp::Ordering;

use super::{EvalResult, Library, Plain, no_such_overload, operators};
use crate::error::EvalError;
use crate::macros::Family;
use crate::time::Duration;
use crate::value::equality::{compare, equal};
use crate::value::{List, Value};

/// The maximum length of a list from `lists.range`. The cost is only charged after the list is
/// built, so a longer one could exhaust memory.
const MAX_RANGE: i64 = 1_000_000;

/// The signatures for lists of a type that can be ordered.
struct OrderedType {
    /// The name of the type in ids of overloads.
    name: &'static str,
    sort: &'static str,
    min_and_max: &'static str,
    is_sorted: &'static str,
    sort_by_keys: &'static str,
}

macro_rules! signatures {
    ($type:literal) => {
        OrderedType {
            name: $type,
            sort: concat!("list(", $type, ").() -> list(", $type, ")"),
            min_and_max: concat!("list(", $type, ").() -> ", $type),
            is_sorted: concat!("list(", $type, ").() -> bool"),
            sort_by_keys: concat!("list(T).(list(", $type, ")) -> list(T)"),
        }
    };
}

const ORDERED: &[OrderedType] = &[
    signatures!("int"),
    signatures!("uint"),
    signatures!("double"),
    signatures!("bool"),
    signatures!("duration"),
    signatures!("timestamp"),
    signatures!("string"),
    signatures!("bytes"),
];

/// Declares the functions of cel-go's lists extension.
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
    for ordered in ORDERED {
        let name = runtime_type_name(ordered.name);
        library.add("sort", &format!("list_{name}_sort"), ordered.sort, sort);
        let id = format!("list_{name}_sortByAssociatedKeys");
        library.add("@sortByAssociatedKeys", &id, ordered.sort_by_keys, sort_by);
    }
}

/// The full name of a type, which cel-go uses in ids of overloads.
fn runtime_type_name(name: &str) -> &str {
    match name {
        "duration" => "google.protobuf.Duration",
        "timestamp" => "google.protobuf.Timestamp",
        other => other,
    }
}

/// Declares the functions of Kubernetes' lists library (`isSorted`, `sum`, `min`, `max`, `indexOf`,
/// `lastIndexOf`, `includes`).
pub(super) fn declare_kubernetes(library: &mut Library) {
    for OrderedType { name, is_sorted: signature, min_and_max, .. } in ORDERED {
        library.add("isSorted", &format!("list_{name}_is_sorted_bool"), signature, is_sorted);
        library.add("max", &format!("list_{name}_max_{name}"), min_and_max, |args| {
            extreme(args, "max", Ordering::Less)
        });
        library.add("min", &format!("list_{name}_min_{name}"), min_and_max, |args| {
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
    let reason = match (usize::try_from(*start), usize::try_from(*end)) {
        (Ok(from), Ok(to)) if from <= to && to <= list.len() => {
            return Ok(Value::list(list.values()?.drain(from..to).collect()));
        }
        (Ok(from), Ok(to)) if from <= to => format!("list is length {}", list.len()),
        (Ok(_), Ok(_)) => "start index must be less than or equal to end index".to_owned(),
        _ => "negative indexes not supported".to_owned(),
    };
    Err(format!("cannot slice({start}, {end}), {reason}").into())
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

/// The types of the elements determine the operation, because all overloads are candidates for a
/// list of unknown type.
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
