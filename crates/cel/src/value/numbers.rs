//! Exact comparison of numbers of different types, conversions, and Go's format of floats.

use std::cmp::Ordering;

/// A number of any of the three types.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Int(i64),
    Uint(u64),
    Double(f64),
}

impl Number {
    /// None if one of them is NaN.
    pub(crate) fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(&b),
            (Self::Double(a), b) => b.compare_to_double(a).map(Ordering::reverse),
            (a, Self::Double(b)) => a.compare_to_double(b),
            (a, b) => Some(a.wide().cmp(&b.wide())),
        }
    }

    fn wide(self) -> i128 {
        match self {
            Self::Int(value) => i128::from(value),
            Self::Uint(value) => i128::from(value),
            Self::Double(_) => 0,
        }
    }

    fn compare_to_double(self, double: f64) -> Option<Ordering> {
        if double.is_nan() {
            return None;
        }
        if double >= 1e30 {
            return Some(Ordering::Less);
        }
        if double <= -1e30 {
            return Some(Ordering::Greater);
        }
        #[allow(clippy::cast_possible_truncation, reason = "the magnitude is below 1e30")]
        let whole = double.trunc() as i128;
        let order = self.wide().cmp(&whole);
        let fraction = double.fract();
        Some(order.then_with(|| 0.0_f64.partial_cmp(&fraction).unwrap_or(Ordering::Equal)))
    }
}

/// A float as Go's `%g` prints it.
pub(crate) fn go_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // As Go's strconv: the shortest format has an exponent below 1e-4 and from 1e6 on.
    if !(-4..6).contains(&exponent) && value != 0.0 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    format!("{value}")
}

/// Truncates to an integer; None if it does not fit into an i64.
pub(crate) fn double_to_int(value: f64) -> Option<i64> {
    let in_range = value.is_finite()
        && value > -9_223_372_036_854_775_808.0
        && value < 9_223_372_036_854_775_808.0;
    #[allow(clippy::cast_possible_truncation, reason = "the range is checked")]
    in_range.then_some(value as i64)
}

/// Truncates to an integer; None if it does not fit into a u64.
pub(crate) fn double_to_uint(value: f64) -> Option<u64> {
    let in_range = value.is_finite() && (0.0..18_446_744_073_709_551_616.0).contains(&value);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    in_range.then_some(value as u64)
}

/// The nearest float.
#[allow(clippy::cast_precision_loss, reason = "the language says so")]
pub(crate) fn int_to_double(value: i64) -> f64 {
    value as f64
}

/// The nearest float.
#[allow(clippy::cast_precision_loss, reason = "the language says so")]
pub(crate) fn uint_to_double(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_of_large_integers_is_exact() {
        let big = Number::Int(9_007_199_254_740_993);
        assert_eq!(big.compare(Number::Double(9_007_199_254_740_992.0)), Some(Ordering::Greater));
        assert_eq!(Number::Uint(u64::MAX).compare(Number::Int(-1)), Some(Ordering::Greater));
        assert_eq!(Number::Double(1.5).compare(Number::Int(1)), Some(Ordering::Greater));
        assert_eq!(Number::Double(-1.5).compare(Number::Int(-1)), Some(Ordering::Less));
        assert_eq!(Number::Double(f64::NAN).compare(Number::Int(1)), None);
    }

    #[test]
    fn floats_are_printed_as_go_prints_them() {
        let shown = [1.5, 100.0, 123_456.0, 1e6, 1e-5, -0.25, 0.0].map(go_float).join(" ");
        assert_eq!(shown, "1.5 100 123456 1e+06 1e-05 -0.25 0");
    }
}
