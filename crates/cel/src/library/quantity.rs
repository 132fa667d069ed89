//! Kubernetes' quantity library: `quantity('1.5Gi')`.

use std::any::Any;

use super::{EvalResult, Library, Plain, no_such_overload};
use crate::value::{Opaque, Value};

const NAME: &str = "kubernetes.Quantity";

/// The number of billionths in one. As upstream, smaller fractions are rounded away from zero.
const UNIT: i128 = 1_000_000_000;

const PATTERN_ERROR: &str = "quantities must match the regular expression \
                             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Quantity {
    billionths: i128,
}

impl Opaque for Quantity {
    fn type_name(&self) -> &'static str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self == other)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub(super) fn declare(library: &mut Library) {
    library.add_type(NAME);
    library.add("quantity", "string_to_quantity", "(string) -> kubernetes.Quantity", |args| {
        match args {
            [Value::String(text)] => Ok(Value::opaque(parse(text)?)),
            _ => no_such_overload(),
        }
    });
    library.add("isQuantity", "is_quantity_string", "(string) -> bool", |args| match args {
        [Value::String(text)] => Ok(Value::Bool(parse(text).is_ok())),
        _ => no_such_overload(),
    });
    library.add("sign", "quantity_sign", "(kubernetes.Quantity) -> int", |args| {
        with_quantity(args, |own| {
            Value::Int(if own.billionths > 0 { 1 } else { -i64::from(own.billionths < 0) })
        })
    });
    library.add(
        "asApproximateFloat",
        "quantity_get_float",
        "kubernetes.Quantity.() -> double",
        |args| with_quantity(args, |own| Value::Double(approximate(own.billionths))),
    );
    library.add("isInteger", "quantity_is_integer", "kubernetes.Quantity.() -> bool", |args| {
        with_quantity(args, |own| Value::Bool(own.integer().is_some()))
    });
    library.add(
        "asInteger",
        "quantity_get_int",
        "kubernetes.Quantity.() -> int",
        |args| match args[0].downcast::<Quantity>().map(Quantity::integer) {
            Some(Some(value)) => Ok(Value::Int(value)),
            Some(None) => Err("cannot convert value to integer".into()),
            None => no_such_overload(),
        },
    );
    let comparisons: [(&'static str, &str, &'static str, Plain); 3] = [
        (
            "isGreaterThan",
            "quantity_is_greater_than",
            "kubernetes.Quantity.(kubernetes.Quantity) -> bool",
            |args| with_operands(args, |a, b| Ok(Value::Bool(a > b))),
        ),
        (
            "isLessThan",
            "quantity_is_less_than",
            "kubernetes.Quantity.(kubernetes.Quantity) -> bool",
            |args| with_operands(args, |a, b| Ok(Value::Bool(a < b))),
        ),
        (
            "compareTo",
            "quantity_compare_to",
            "kubernetes.Quantity.(kubernetes.Quantity) -> int",
            |args| with_operands(args, |a, b| Ok(Value::Int(a.cmp(&b) as i64))),
        ),
    ];
    for (function, id, declared, run) in comparisons {
        library.add(function, id, declared, run);
    }
    let own = "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity";
    let int = "kubernetes.Quantity.(int) -> kubernetes.Quantity";
    let add: Plain = |args| with_operands(args, |a, b| checked(a.checked_add(b)));
    let sub: Plain = |args| with_operands(args, |a, b| checked(a.checked_sub(b)));
    library.add("add", "quantity_add", own, add);
    library.add("add", "quantity_add_int", int, add);
    library.add("sub", "quantity_sub", own, sub);
    library.add("sub", "quantity_sub_int", int, sub);
}

impl Quantity {
    fn integer(&self) -> Option<i64> {
        if self.billionths % UNIT != 0 {
            return None;
        }
        i64::try_from(self.billionths / UNIT).ok()
    }
}

#[allow(clippy::cast_precision_loss, reason = "the function is called approximate")]
fn approximate(billionths: i128) -> f64 {
    billionths as f64 / UNIT as f64
}

fn with_quantity<'a>(args: &mut [Value<'a>], map: fn(&Quantity) -> Value<'a>) -> EvalResult<'a> {
    match args[0].downcast::<Quantity>() {
        Some(quantity) => Ok(map(quantity)),
        None => no_such_overload(),
    }
}

fn with_operands<'a>(
    args: &mut [Value<'a>],
    map: fn(i128, i128) -> EvalResult<'a>,
) -> EvalResult<'a> {
    let other = match &args[1] {
        Value::Int(value) => Some(i128::from(*value) * UNIT),
        other => other.downcast::<Quantity>().map(|other| other.billionths),
    };
    match args[0].downcast::<Quantity>().zip(other) {
        Some((own, other)) => map(own.billionths, other),
        None => no_such_overload(),
    }
}

fn checked<'a>(billionths: Option<i128>) -> EvalResult<'a> {
    let billionths = billionths.ok_or("quantity overflow")?;
    Ok(Value::opaque(Quantity { billionths }))
}

fn parse(text: &str) -> Result<Quantity, String> {
    if text.is_empty() {
        return Err(PATTERN_ERROR.to_owned());
    }
    let (negative, rest) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return Err(PATTERN_ERROR.to_owned());
    }
    let (base, exponent) = scale(suffix)?;
    // Later digits are below a billionth and are ignored.
    let fraction = &fraction[..fraction.len().min(18)];
    let digits = format!("{whole}{fraction}");
    let too_large = || "unable to parse quantity's suffix".to_owned();
    let mantissa: i128 = digits.parse().map_err(|_| too_large())?;
    let places = u32::try_from(fraction.len()).map_err(|_| too_large())?;
    let mut value = mantissa.checked_mul(UNIT).ok_or_else(too_large)?;
    for _ in 0..exponent.max(0) {
        value = value.checked_mul(base).ok_or_else(too_large)?;
    }
    let divisor = 10_i128.checked_pow(places).ok_or_else(too_large)?;
    let divisor = divisor.saturating_mul(base.saturating_pow(exponent.min(0).unsigned_abs()));
    let rounded = value / divisor + i128::from(value % divisor != 0);
    Ok(Quantity { billionths: if negative { -rounded } else { rounded } })
}

/// The base and the exponent of the factor of a suffix.
fn scale(suffix: &str) -> Result<(i128, i32), String> {
    const SUFFIXES: &[(&str, i128, i32)] = &[
        ("", 10, 0),
        ("n", 10, -9),
        ("u", 10, -6),
        ("m", 10, -3),
        ("k", 10, 3),
        ("M", 10, 6),
        ("G", 10, 9),
        ("T", 10, 12),
        ("P", 10, 15),
        ("E", 10, 18),
        ("Ki", 1024, 1),
        ("Mi", 1024, 2),
        ("Gi", 1024, 3),
        ("Ti", 1024, 4),
        ("Pi", 1024, 5),
        ("Ei", 1024, 6),
    ];
    if let Some((_, base, power)) = SUFFIXES.iter().find(|(own, ..)| *own == suffix) {
        return Ok((*base, *power));
    }
    if !suffix.bytes().all(|byte| byte.is_ascii_digit() || b"eEinumkKMGTP+-".contains(&byte)) {
        return Err(PATTERN_ERROR.to_owned());
    }
    let exponent = suffix.strip_prefix(['e', 'E']).and_then(|digits| digits.parse::<i32>().ok());
    match exponent {
        Some(power) if power.abs() <= 30 => Ok((10, power)),
        _ => Err("unable to parse quantity's suffix".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_scale_and_small_fractions_are_rounded_up() {
        let check = |text: &str, expected: Option<i128>| {
            assert_eq!(parse(text).ok().map(|it| it.billionths), expected, "{text}");
        };
        check("1", Some(UNIT));
        check("1.5Ki", Some(1_536 * UNIT));
        check("-100m", Some(-UNIT / 10));
        check("1e3", Some(1_000 * UNIT));
        check("0.1n", Some(1));
        check(".5", Some(UNIT / 2));
        check("1E", Some(UNIT * 1_000_000_000_000_000_000));
        check("lots", None);
        check("1.2.3", None);
        check("1Q", None);
        check("1e999", None);
        check("", None);
        check("-", None);
    }
}
