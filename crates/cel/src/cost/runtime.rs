//! The actual cost of a call for its arguments.

use super::{AUTHORIZATION_COST, LIST_COST, REGEX_FACTOR, STRING_FACTOR, STRUCT_COST, scale};
use crate::library::formats::Format;
use crate::plan::Call;
use crate::value::Value;

/// The cost of a call; None if it depends on the result.
pub(crate) fn before(call: &Call, args: &[Value<'_>]) -> Option<u64> {
    let size = |index: usize| args.get(index).map_or(1, Value::cost_size);
    let strings = |size: u64, factor: f64| scale(size, factor * STRING_FACTOR);
    let overload = call.overload();
    Some(match (call.function.as_str(), overload) {
        (_, "list_slice" | "lists_range" | "list_reverse") | ("join", _) => return None,
        (_, id) if id.starts_with("list_") && sorts(id) => self_compare(args, id),
        (_, "list_flatten") => size(0) + 1 + LIST_COST,
        (_, "list_flatten_int") => {
            let depth = match args.get(1) {
                Some(Value::Int(depth)) => u64::try_from(*depth).unwrap_or(1),
                _ => 1,
            };
            size(0).saturating_mul(depth).saturating_add(1 + LIST_COST)
        }
        (_, "list_sets_contains_list" | "list_sets_intersects_list") => {
            size(0).saturating_mul(size(1)).saturating_add(1)
        }
        (_, "list_sets_equivalent_list") => {
            size(0).saturating_mul(size(1)).saturating_mul(2).saturating_add(1)
        }
        ("check", _) => AUTHORIZATION_COST,
        ("fieldSelector" | "labelSelector", _) => {
            let length = size(1);
            let requirements = scale(length, 0.5);
            LIST_COST + scale(length, STRING_FACTOR) + requirements * (LIST_COST + STRUCT_COST)
        }
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes", _) => {
            args.first().map_or(0, |value| traversal(value, MAX_DEPTH))
        }
        (
            "lowerAscii" | "upperAscii" | "substring" | "trim" | "url" | "cidr" | "isIP" | "isCIDR"
            | "quantity" | "isQuantity" | "semver" | "isSemver",
            _,
        ) => strings(size(0), 1.0),
        ("ip", id) if id != "cidr_ip" => strings(size(0), 1.0),
        ("replace" | "split" | "ip.isCanonical", _) => strings(size(0), 2.0),
        ("find" | "findAll", _) | (_, "matches" | "matches_string") => pattern(size(0), size(1)),
        ("containsIP" | "containsCIDR", _) => contains(call, size(0), size(1)),
        ("validate", _) => match args.first().and_then(Value::downcast::<Format>) {
            Some(format) => pattern(size(1), format.regex_size()),
            None => 1,
        },
        (_, "starts_with_string" | "ends_with_string") => strings(size(1), 1.0),
        (_, "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format") => {
            strings(size(0), 1.0)
        }
        (_, "in_list") => size(1),
        (_, id) if compares_text(id) => strings(size(0).min(size(1)), 1.0),
        (_, "add_string" | "add_bytes") => strings(size(0).saturating_add(size(1)), 1.0),
        (_, "contains_string") => strings(size(0), 1.0).saturating_mul(strings(size(1), 1.0)),
        _ => 1,
    })
}

/// The cost of a call that depends on its result, which is None if the call failed.
pub(crate) fn after(call: &Call, args: &[Value<'_>], result: Option<&Value<'_>>) -> u64 {
    let size = result.map_or(1, Value::cost_size);
    if call.function == "join" {
        return scale(size, 2.0 * STRING_FACTOR);
    }
    debug_assert!(!args.is_empty(), "functions on lists have an argument");
    size.saturating_add(1 + LIST_COST)
}

/// The cost of `==` or `!=`: the size of the smaller operand.
pub(crate) fn equality(left: &Value<'_>, right: &Value<'_>, equals: bool) -> u64 {
    if equals && matches!(left, Value::Opaque(_)) {
        return 1;
    }
    scale(left.cost_size().min(right.cost_size()), STRING_FACTOR)
}

fn sorts(id: &str) -> bool {
    id == "list_distinct" || id.ends_with("_sort") || id.ends_with("_sortByAssociatedKeys")
}

fn self_compare(args: &[Value<'_>], id: &str) -> u64 {
    let keys = usize::from(id.ends_with("_sortByAssociatedKeys"));
    let Some(Value::List(list)) = args.get(keys) else {
        return 1;
    };
    let text = matches!(list.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))));
    let size = list.len() as u64;
    let factor = if text { 2.0 + STRING_FACTOR } else { 2.0 };
    floor(size.saturating_mul(size), factor).saturating_add(1 + LIST_COST)
}

fn compares_text(id: &str) -> bool {
    let relation = ["less_", "greater_", "less_equals_", "greater_equals_"];
    ["string", "bytes"].iter().any(|kind| {
        relation.iter().any(|relation| id.strip_prefix(relation).is_some_and(|rest| rest == *kind))
    })
}

/// The cost of matching: that of the text, which counts as one character longer, times that of the
/// pattern.
fn pattern(text: u64, regex: u64) -> u64 {
    scale(text.saturating_add(1), STRING_FACTOR).saturating_mul(scale(regex, REGEX_FACTOR))
}

fn contains(call: &Call, own: u64, other: u64) -> u64 {
    let mut cost = scale(own.saturating_mul(2), STRING_FACTOR);
    if call.function == "containsCIDR" {
        cost += scale(own, STRING_FACTOR) + 1;
    }
    if call.overload().ends_with("_string") {
        cost += scale(other, STRING_FACTOR);
    }
    cost
}

/// Values that are nested deeper cost 1, so that the data cannot exhaust the stack.
const MAX_DEPTH: usize = 256;

/// The cost of visiting a value with all values in it.
fn traversal(value: &Value<'_>, depth: usize) -> u64 {
    let Some(depth) = depth.checked_sub(1) else {
        return 1;
    };
    match value {
        Value::String(text) => floor(text.len() as u64, STRING_FACTOR),
        Value::Bytes(bytes) => floor(bytes.len() as u64, STRING_FACTOR),
        Value::List(list) => {
            list.iter().map(|element| element.map_or(1, |element| traversal(&element, depth))).sum()
        }
        Value::Map(map) => {
            let entry = |key: Value<'_>| {
                let value = map.get(&key).and_then(Result::ok);
                traversal(&key, depth) + value.map_or(1, |value| traversal(&value, depth))
            };
            map.keys().into_iter().map(entry).sum()
        }
        _ => 1,
    }
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "cel-go truncates here"
)]
fn floor(value: u64, factor: f64) -> u64 {
    (value as f64 * factor) as u64
}
