//! Validates numbers: `minimum`, `maximum`, `multipleOf` and the range of the format.

use super::data::Number;
use super::{Walk, WalkErrors};
use crate::format::Format;
use crate::structural::{Bound, Node, Type};
use machinery::Path;
use machinery::field_path::ErrorType;

impl Walk<'_> {
    pub(super) fn check_number(
        self,
        node: &Node,
        number: Number,
        path: &Path<'_>,
        found: &mut WalkErrors,
    ) -> usize {
        let checks = node.checks.as_deref();
        let range = Range { kind: node.kind, format: checks.and_then(|it| it.format) };
        self.check_range(range, number, "Checked", path, found);
        if let Some(checks) = checks.and_then(|it| it.number.as_deref()) {
            if let Some(factor) = checks.multiple_of {
                self.check_multiple(range, number, factor, path, found);
            }
            if let Some(bound) = checks.minimum {
                self.check_bound(range, number, bound, &MINIMUM, path, found);
            }
            if let Some(bound) = checks.maximum {
                self.check_bound(range, number, bound, &MAXIMUM, path, found);
            }
        }
        2
    }

    /// Checks that the type and its format can represent a number.
    fn check_range(
        self,
        range: Range,
        number: Number,
        what: &str,
        path: &Path<'_>,
        found: &mut WalkErrors,
    ) -> bool {
        let Some(description) = range.excludes(number) else { return true };
        found.add(|| {
            self.error_without_field(format!(
                "{what} value must be of type {description} in {path}"
            ))
        });
        false
    }

    fn check_multiple(
        self,
        range: Range,
        number: Number,
        factor: f64,
        path: &Path<'_>,
        found: &mut WalkErrors,
    ) {
        let factor_fits = self.check_range(range, Number::Float(factor), "MultipleOf", path, found);
        let number = comparable(number, factor_fits);
        // As upstream, a `multipleOf` below 1 for integers is only detected here.
        if matches!(number, Number::Integer(_)) && truncated(factor) <= 0 {
            let step = truncated(factor);
            found.add(|| {
                let message =
                    format!("factor MultipleOf declared for {path} must be positive: {step}");
                self.error(ErrorType::Invalid, path, Some(step.into()), message)
            });
            return;
        }
        let is_multiple = match number {
            Number::Integer(integer) => integer % truncated(factor) == 0,
            Number::Float(float) if factor < 1.0 => {
                Number::Float(1.0 / factor * float).is_integral()
            }
            Number::Float(float) => Number::Float(float / factor).is_integral(),
        };
        if !is_multiple {
            found.add(|| {
                let factor = limit_text(number, factor);
                let message = format_args!("should be a multiple of {factor}");
                self.invalid(path, number.to_value(), message)
            });
        }
    }

    fn check_bound(
        self,
        range: Range,
        number: Number,
        bound: Bound,
        side: &Limit,
        path: &Path<'_>,
        found: &mut WalkErrors,
    ) {
        let bound_fits =
            self.check_range(range, Number::Float(bound.value), side.what, path, found);
        let number = comparable(number, bound_fits);
        let ordering = match number {
            Number::Integer(integer) => Some(integer.cmp(&truncated(bound.value))),
            Number::Float(float) => float.partial_cmp(&bound.value),
        };
        let beyond = ordering == Some(side.beyond)
            || bound.exclusive && ordering == Some(std::cmp::Ordering::Equal);
        if beyond {
            let relation = if bound.exclusive { side.exclusive } else { side.inclusive };
            found.add(|| {
                let limit = limit_text(number, bound.value);
                self.invalid(path, number.to_value(), format_args!("should be {relation} {limit}"))
            });
        }
    }
}

/// The texts for `minimum` or `maximum`.
#[derive(Debug)]
struct Limit {
    what: &'static str,
    /// The order of an invalid number relative to the limit.
    beyond: std::cmp::Ordering,
    inclusive: &'static str,
    exclusive: &'static str,
}

const MINIMUM: Limit = Limit {
    what: "Minimum boundary",
    beyond: std::cmp::Ordering::Less,
    inclusive: "greater than or equal to",
    exclusive: "greater than",
};

const MAXIMUM: Limit = Limit {
    what: "Maximum boundary",
    beyond: std::cmp::Ordering::Greater,
    inclusive: "less than or equal to",
    exclusive: "less than",
};

/// The numbers that a type and its format can hold.
#[derive(Debug, Clone, Copy)]
struct Range {
    kind: Type,
    format: Option<Format>,
}

impl Range {
    /// The description of the type if it cannot represent the number; None if it can.
    fn excludes(self, number: Number) -> Option<String> {
        let float = number.to_f64();
        let fits = match (self.kind, self.format, number) {
            (Type::Integer, Some(Format::Int32), _) => {
                number.is_integral() && (-2_147_483_648.0..=2_147_483_647.0).contains(&float)
            }
            (Type::Integer, _, Number::Float(_)) => {
                float.fract() == 0.0 && float.abs() < 9_223_372_036_854_775_808.0
            }
            (Type::Number, Some(Format::Float), _) => float.abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if fits {
            return None;
        }
        let name = self.kind.name();
        Some(match self.format {
            Some(format) => format!("{name} with format {}", format.name()),
            None => format!("{name} (default format)"),
        })
    }
}

/// If the type cannot represent the limit, upstream compares doubles.
fn comparable(number: Number, limit_fits: bool) -> Number {
    if limit_fits { number } else { Number::Float(number.to_f64()) }
}

/// The integer part of a limit, as Go converts it.
#[allow(clippy::cast_possible_truncation, reason = "Go converts with the same rule")]
fn truncated(limit: f64) -> i64 {
    limit as i64
}

/// The limit in the type in which it was compared.
fn limit_text(number: Number, limit: f64) -> String {
    match number {
        Number::Integer(_) => truncated(limit).to_string(),
        Number::Float(_) => go_float(limit),
    }
}

/// A double as Go's `%v` prints it: with an exponent from 1e6 on and below 1e-4.
fn go_float(float: f64) -> String {
    if float != 0.0 && !(1e-4..1e6).contains(&float.abs()) {
        let text = format!("{float:e}");
        if let Some((mantissa, exponent)) = text.split_once('e') {
            let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |it| ('-', it));
            return format!("{mantissa}e{sign}{digits:0>2}");
        }
    }
    format!("{float}")
}

#[cfg(test)]
mod tests {
    use super::go_float;

    #[test]
    fn doubles_print_as_in_go() {
        let printed: Vec<String> = [1.0, 0.5, 3e9, 1.5e-7, -2e30, 0.0].map(go_float).into();
        assert_eq!(printed, ["1", "0.5", "3e+09", "1.5e-07", "-2e+30", "0"]);
    }
}
