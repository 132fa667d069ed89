//! Optional values: `optional.of(x)`, `a.?b`, `[?i]`, `orValue`, `optMap`.

use std::sync::Arc;

use super::{EvalResult, Library, Run, no_such_overload};
use crate::macros::Family;
use crate::value::Value;

pub(super) fn declare(library: &mut Library) {
    library.macros.add(Family::Optional);
    library.add("optional.of", "optional_of", "(V) -> optional(V)", |args| {
        Ok(Value::some(args[0].clone()))
    });
    library.add(
        "optional.ofNonZeroValue",
        "optional_ofNonZeroValue",
        "(V) -> optional(V)",
        |args| {
            let value = &args[0];
            Ok(if value.is_zero() { Value::Optional(None) } else { Value::some(value.clone()) })
        },
    );
    library
        .add("optional.none", "optional_none", "() -> optional(V)", |_| Ok(Value::Optional(None)));
    library.add("value", "optional_value", "optional(V).() -> V", |args| match &args[0] {
        Value::Optional(Some(value)) => Ok((**value).clone()),
        Value::Optional(None) => Err("optional.none() dereference".into()),
        _ => no_such_overload(),
    });
    library.add("hasValue", "optional_hasValue", "optional(V).() -> bool", |args| match &args[0] {
        Value::Optional(value) => Ok(Value::Bool(value.is_some())),
        _ => no_such_overload(),
    });
    for (function, id, declared) in [
        ("or", "optional_or_optional", "optional(V).(optional(V)) -> optional(V)"),
        ("orValue", "optional_orValue_value", "optional(V).(V) -> V"),
        ("_?._", "select_optional_field", "(dyn, string) -> optional(V)"),
        ("_[?_]", "list_optindex_optional_int", "(list(V), int) -> optional(V)"),
        ("_[?_]", "optional_list_optindex_optional_int", "(optional(list(V)), int) -> optional(V)"),
        ("_[?_]", "map_optindex_optional_value", "(map(K, V), K) -> optional(V)"),
        (
            "_[?_]",
            "optional_map_optindex_optional_value",
            "(optional(map(K, V)), K) -> optional(V)",
        ),
        ("_[_]", "optional_list_index_int", "(optional(list(V)), int) -> optional(V)"),
        ("_[_]", "optional_map_index_value", "(optional(map(K, V)), K) -> optional(V)"),
    ] {
        library.add_overload(function, id, declared, Run::Evaluator);
    }
    library.add("first", "list_first", "list(V).() -> optional(V)", |args| element_at(args, |_| 0));
    library.add("last", "list_last", "list(V).() -> optional(V)", |args| {
        element_at(args, |len| len - 1)
    });
    library.add("optional.unwrap", "optional_unwrap", "(list(optional(V))) -> list(V)", unwrap);
    library.add("unwrapOpt", "optional_unwrapOpt", "list(optional(V)).() -> list(V)", unwrap);
}

fn element_at<'a>(args: &mut [Value<'a>], index: fn(usize) -> usize) -> EvalResult<'a> {
    match args {
        [Value::List(list)] if list.len() == 0 => Ok(Value::Optional(None)),
        [Value::List(list)] => match list.get(index(list.len())) {
            Some(value) => Ok(Value::some(value?)),
            None => Ok(Value::Optional(None)),
        },
        _ => no_such_overload(),
    }
}

fn unwrap<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let [Value::List(list)] = args else {
        return no_such_overload();
    };
    let mut values = Vec::new();
    for value in list.iter() {
        match value? {
            Value::Optional(inner) => {
                values
                    .extend(inner.map(|it| Arc::try_unwrap(it).unwrap_or_else(|it| (*it).clone())));
            }
            other => return Err(format!("value {other} is not optional").into()),
        }
    }
    Ok(Value::list(values))
}
