//! The estimated cost and result size of each function.

use super::estimator::{Estimator, Operand};
use super::{
    AUTHORIZATION_COST, CostEstimate, LIST_COST, REGEX_FACTOR, STRING_FACTOR, STRUCT_COST, Size,
};
use crate::ast::{Kind, Literal};
use crate::types::Type;

/// The maximum length of the pattern of a named format.
const MAX_FORMAT_PATTERN: f64 = 128.0;

/// The maximum length of the name of a format.
const MAX_FORMAT_NAME: u64 = 64;

/// A call whose cost is estimated.
pub(super) struct CallSite<'u, 'c> {
    pub(super) function: &'u str,
    pub(super) overload: &'u str,
    pub(super) target: Option<&'u Operand<'c>>,
    pub(super) args: &'u [Operand<'c>],
    pub(super) costs: &'u [CostEstimate],
}

/// The cost including that of all arguments except the receiver, and the size of the result if it
/// is known.
type Estimate = (CostEstimate, Option<Size>);

/// The estimate of a call.
pub(super) fn estimate<'c>(estimator: &Estimator<'c>, call: &CallSite<'_, 'c>) -> Estimate {
    let args = call.costs.iter().fold(CostEstimate::ZERO, |sum, cost| sum.plus(*cost));
    let own = lists(call).or_else(|| kubernetes(estimator, call));
    if let Some((cost, size)) = own {
        return (cost.plus(args), size);
    }
    if let Some(estimate) = without_all_arguments(call) {
        return estimate;
    }
    let (cost, size) = standard(call).unwrap_or((CostEstimate::ONE, None));
    (cost.plus(args), size)
}

/// An estimate without a size. Returns an `Option`, because callers return it.
#[allow(clippy::unnecessary_wraps, reason = "the last expression of functions that return options")]
fn unsized_cost(cost: CostEstimate) -> Option<Estimate> {
    Some((cost, None))
}

/// The extensions for lists and sets, by overload.
fn lists(call: &CallSite<'_, '_>) -> Option<Estimate> {
    let base = CostEstimate::fixed(1 + LIST_COST);
    let made = |factor: f64, size: Size| Some((size.scaled(factor).plus(base), Some(size)));
    let target = call.target.map(Operand::size);
    let literal = |index: usize| call.args.get(index).and_then(|arg| integer(arg));
    match call.overload {
        "list_slice" => {
            let end = literal(1).unwrap_or(target?.max);
            made(1.0, Size::fixed(end.wrapping_sub(literal(0).unwrap_or(0))))
        }
        "list_flatten" | "list_reverse" => made(1.0, target?),
        #[allow(clippy::cast_precision_loss, reason = "cel-go takes the depth as a float")]
        "list_flatten_int" => made(literal(0).unwrap_or(u64::MAX) as f64, target?),
        "lists_range" => made(1.0, Size::fixed(literal(0).unwrap_or(u64::MAX))),
        "list_distinct" => made(2.0, target?.times(target?)),
        "list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list" => {
            let factor = if call.overload.contains("equivalent") { 2.0 } else { 1.0 };
            let product = call.args.first()?.size().times(call.args.get(1)?.size());
            unsized_cost(product.scaled(factor).plus(CostEstimate::ONE))
        }
        id if id.ends_with("_sort") || id.ends_with("_sortByAssociatedKeys") => {
            let by_keys = id.ends_with("_sortByAssociatedKeys");
            let keys = if by_keys { call.args.first()?.size() } else { target? };
            let text = id.starts_with("list_string_") || id.starts_with("list_bytes_");
            made(if text { 2.0 + STRING_FACTOR } else { 2.0 }, keys.times(keys))
        }
        _ => None,
    }
}

fn integer(operand: &Operand<'_>) -> Option<u64> {
    match operand.expr.kind {
        Kind::Literal(Literal::Int(value)) => u64::try_from(value).ok(),
        Kind::Literal(Literal::Uint(value)) => Some(value),
        _ => None,
    }
}

/// Kubernetes' estimates, by function.
fn kubernetes<'c>(estimator: &Estimator<'c>, call: &CallSite<'_, 'c>) -> Option<Estimate> {
    let first = || call.args.first().map(Operand::size);
    let string = |size: Size, times: f64| size.scaled(times * STRING_FACTOR);
    match call.function {
        "check" => unsized_cost(CostEstimate::fixed(AUTHORIZATION_COST)),
        "serviceAccount"
        | "path"
        | "group"
        | "resource"
        | "subresource"
        | "namespace"
        | "name"
        | "allowed"
        | "reason"
        | "error"
        | "errored"
        | "masked"
        | "prefixLength"
        | "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "format.named"
        | "sign"
        | "asInteger"
        | "isInteger"
        | "asApproximateFloat"
        | "isGreaterThan"
        | "isLessThan"
        | "compareTo"
        | "add"
        | "sub"
        | "major"
        | "minor"
        | "patch"
        | "getScheme"
        | "getHostname"
        | "getHost"
        | "getPort"
        | "getEscapedPath"
        | "getQuery" => unsized_cost(CostEstimate::ONE),
        "fieldSelector" | "labelSelector" => unsized_cost(selector(first()?)),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
            unsized_cost(traversal(estimator, call)?)
        }
        "url" => Some((string(first()?, 1.0), first())),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            let size = call.target?.size();
            Some((string(size, 1.0), Some(size)))
        }
        "replace" => replace(call),
        "split" => {
            let size = call.target?.size();
            let max = call.args.get(1).and_then(integer).unwrap_or(size.max);
            Some((string(size, 2.0), Some(Size { min: 0, max })))
        }
        "join" => join(estimator, call),
        "find" | "findAll" => {
            let size = call.target?.size();
            Some((pattern(size, first()?), Some(Size { min: 0, max: size.max })))
        }
        "ip" if call.overload == "cidr_ip" => unsized_cost(CostEstimate::ONE),
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            unsized_cost(string(first()?, 1.0))
        }
        "ip.isCanonical" => unsized_cost(string(first()?, 2.0)),
        "containsIP" | "containsCIDR" => contains(call),
        "validate" => {
            let cost = string(first()?, 1.0).scaled(MAX_FORMAT_PATTERN * REGEX_FACTOR);
            unsized_cost(cost)
        }
        "_==_" => equality(call),
        _ => None,
    }
}

fn selector(length: Size) -> CostEstimate {
    #[allow(clippy::cast_precision_loss, reason = "a small constant")]
    let each = (LIST_COST + STRUCT_COST) as f64;
    let requirements = length.scaled(0.5).scaled(each);
    CostEstimate::fixed(LIST_COST).plus(length.scaled(STRING_FACTOR)).plus(requirements)
}

fn traversal<'c>(estimator: &Estimator<'c>, call: &CallSite<'_, 'c>) -> Option<CostEstimate> {
    let target = call.target?;
    let Some((ty, size)) = estimator.element(target) else {
        let factor = if call.function == "includes" { 1.0 } else { STRING_FACTOR };
        return Some(target.size().scaled(factor));
    };
    let each = match ty {
        Type::String | Type::Bytes => CostEstimate::ONE.plus(size.scaled(STRING_FACTOR)),
        _ => CostEstimate::ONE,
    };
    Some(target.size().times(each))
}

fn replace(call: &CallSite<'_, '_>) -> Option<Estimate> {
    let size = call.target?.size();
    let (old, new) = (call.args.first()?.size(), call.args.get(1)?.size());
    let (mut count, mut kept) = (Size::ZERO, Size::ZERO);
    // The longest result: the new text in every gap, or the shortest parts replaced by the longest.
    if old.min == 0 {
        count.max = size.max.saturating_add(1);
        kept.max = size.max;
    } else if new.max <= old.min {
        kept.max = size.max;
    } else {
        count.max = size.max.div_ceil(old.min);
    }
    // The shortest result is computed in the same way.
    if old.max == 0 {
        count.min = size.min.saturating_add(1);
        kept.min = size.min;
    } else if old.max <= new.min {
        kept.min = size.min;
    } else {
        count.min = size.min.div_ceil(old.max);
    }
    Some((size.scaled(2.0 * STRING_FACTOR), Some(count.times(new).plus(kept))))
}

fn join<'c>(estimator: &Estimator<'c>, call: &CallSite<'_, 'c>) -> Option<Estimate> {
    let target = call.target?;
    let count = target.size();
    let mut size = match estimator.element(target) {
        Some((_, element)) => count.times(element),
        None => Size::ZERO,
    };
    if let Some(separator) = call.args.first() {
        let gaps = Size { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
        size = size.plus(separator.size().times(gaps));
    }
    Some((size.scaled(STRING_FACTOR), Some(size)))
}

fn contains(call: &CallSite<'_, '_>) -> Option<Estimate> {
    let bytes = Size { min: 4, max: 16 };
    let mut cost = bytes.plus(bytes).scaled(STRING_FACTOR);
    if call.function == "containsCIDR" {
        cost = cost.plus(bytes.scaled(STRING_FACTOR)).plus(CostEstimate::ONE);
    }
    if call.overload.ends_with("_string") {
        cost = cost.plus(call.args.first()?.size().scaled(STRING_FACTOR));
    }
    unsized_cost(cost)
}

fn equality(call: &CallSite<'_, '_>) -> Option<Estimate> {
    let [left, right] = call.args else {
        return None;
    };
    let Type::Opaque(name) = left.ty else {
        return None;
    };
    if left.ty != right.ty {
        return None;
    }
    let max = match *name {
        "kubernetes.NamedFormat" => MAX_FORMAT_NAME,
        "kubernetes.URL" => right.known_size().map_or(1, |size| size.max),
        _ => return unsized_cost(CostEstimate::ONE),
    };
    unsized_cost(CostEstimate { min: 1, max }.scaled(STRING_FACTOR))
}

fn pattern(text: Size, regex: Size) -> CostEstimate {
    text.plus(Size::ONE).scaled(STRING_FACTOR).times(regex.scaled(REGEX_FACTOR))
}

/// Operators that do not always evaluate all of their arguments.
fn without_all_arguments(call: &CallSite<'_, '_>) -> Option<Estimate> {
    match call.overload {
        "logical_and" | "logical_or" => {
            let max = call.costs.iter().fold(0_u64, |sum, cost| sum.saturating_add(cost.max));
            unsized_cost(CostEstimate { min: call.costs.first()?.min, max })
        }
        "conditional" => {
            let [condition, yes, no] = call.costs else {
                return None;
            };
            let size = call.args[1].size().union(call.args[2].size());
            Some((condition.plus(yes.union(*no)), Some(size)))
        }
        _ => None,
    }
}

/// The estimates of the language itself, by overload; None for overloads that cost 1.
fn standard(call: &CallSite<'_, '_>) -> Option<Estimate> {
    let size = |index: usize| call.args.get(index).map(Operand::size);
    let string = |size: Size| size.scaled(STRING_FACTOR);
    match call.overload {
        "string_format" => unsized_cost(string(call.target?.size())),
        "string_to_bytes" => {
            let Size { min, max } = size(0)?;
            Some((string(size(0)?), Some(Size { min, max: max.wrapping_mul(4) })))
        }
        "bytes_to_string" => {
            let Size { min, max } = size(0)?;
            Some((string(size(0)?), Some(Size { min: min / 4, max })))
        }
        "strings_quote" => {
            let Size { min, max } = size(0)?;
            let quoted = Size { min: min + 2, max: max.wrapping_mul(2).wrapping_add(2) };
            Some((string(size(0)?), Some(quoted)))
        }
        "starts_with_string" | "ends_with_string" => unsized_cost(string(size(0)?)),
        "in_list" => unsized_cost(size(1)?),
        "matches" => unsized_cost(pattern(size(0)?, size(1)?)),
        "matches_string" => unsized_cost(pattern(call.target?.size(), size(0)?)),
        "contains_string" => unsized_cost(string(call.target?.size()).times(string(size(0)?))),
        "add_list" => Some((CostEstimate::ONE, Some(size(0)?.plus(size(1)?)))),
        "add_string" | "add_bytes" => {
            let sum = size(0)?.plus(size(1)?);
            Some((string(sum), Some(sum)))
        }
        "equals"
        | "not_equals"
        | "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes" => {
            let smaller = size(0)?.max.min(size(1)?.max);
            let compared = Size { min: u64::from(smaller > 0), max: smaller };
            unsized_cost(string(compared))
        }
        _ => None,
    }
}
