//! cel-go's extension for comprehensions with two variables: `all(k, v, …)`, `transformMap`, …

use std::mem;

use super::{Library, no_such_overload};
use crate::macros::Family;
use crate::value::Value;

/// Declares the macros with two variables, and the function to which `transformMap` and
/// `transformMapEntry` expand.
pub(super) fn declare(library: &mut Library) {
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
