//! [`Decimal`]: a decimal number of up to 38 digits with the arithmetic that a quantity needs.

use std::cmp::Ordering;

/// `mantissa * 10^exponent`.
///
/// Invariants: the mantissa does not end in a zero digit, and is below 10^38; the exponent is -9 or
/// more; zero is `0 * 10^0`. So equal numbers have equal fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decimal {
    mantissa: i128,
    exponent: i64,
}

/// A number has at most this many digits.
const DIGITS_MAX: i64 = 38;
/// Nothing is finer than a billionth.
const EXPONENT_MIN: i64 = -9;
/// Larger exponents are clamped to this one, so that no sum overflows.
pub(super) const EXPONENT_MAX: i64 = 1_000_000_000;

impl Decimal {
    /// `whole.fraction * 10^scale`, both given as decimal digits.
    pub(super) fn new(negative: bool, whole: &str, fraction: &str, scale: i64) -> Self {
        let digits = || whole.bytes().chain(fraction.bytes()).skip_while(|b| *b == b'0');
        let count = i64::try_from(digits().count()).unwrap_or(i64::MAX / 4);
        let fraction_length = i64::try_from(fraction.len()).unwrap_or(i64::MAX / 4);
        let exponent = scale - fraction_length;
        let dropped = (EXPONENT_MIN - exponent).max(count - DIGITS_MAX).max(0);
        let kept = usize::try_from(count - dropped).unwrap_or(0);
        let mut mantissa = digits().take(kept).fold(0, |sum, b| sum * 10 + i128::from(b - b'0'));
        if digits().skip(kept).any(|b| b != b'0') {
            mantissa += 1;
        }
        let number =
            Self::normalized(if negative { -mantissa } else { mantissa }, exponent + dropped);
        Self { exponent: number.exponent.min(EXPONENT_MAX), ..number }
    }

    /// Removes trailing zeros from the mantissa.
    fn normalized(mut mantissa: i128, mut exponent: i64) -> Self {
        if mantissa == 0 {
            return Self { mantissa: 0, exponent: 0 };
        }
        while mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        Self { mantissa, exponent }
    }

    /// Times `1024^power`, rounded away from zero to at most 38 digits.
    pub(super) fn times_1024(mut self, power: i64) -> Self {
        for _ in 0..power {
            let (mut mantissa, mut exponent) = (self.mantissa, self.exponent);
            // Keeps `mantissa * 1024` below 10^38.
            while mantissa.unsigned_abs() >= 10u128.pow(34) {
                mantissa = divide_away_from_zero(mantissa, 10);
                exponent += 1;
            }
            self = Self::normalized(mantissa * 1024, exponent);
        }
        self
    }

    pub(super) fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    pub(super) fn negated(self) -> Self {
        Self { mantissa: -self.mantissa, exponent: self.exponent }
    }

    pub(super) fn is_whole(self) -> bool {
        self.exponent >= 0
    }

    /// Whether it is between `-bound` and `bound`.
    pub(super) fn is_below(self, bound: i64) -> bool {
        Self::from(-bound) < self && self < Self::from(bound)
    }

    pub(super) fn add(self, other: Self) -> Self {
        if self.is_zero() || other.is_zero() {
            return if self.is_zero() { other } else { self };
        }
        let (high, low) =
            if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        // Scales `high` down to the exponent of `low`, or as far as its mantissa does not overflow.
        let room = (DIGITS_MAX - 1 - digit_count(high.mantissa)).max(0);
        let shift = room.min(high.exponent - low.exponent);
        let dropped = high.exponent - low.exponent - shift;
        let coarse = high.mantissa * power_of_ten(shift);
        let fine = match dropped {
            0 => low.mantissa,
            1..=DIGITS_MAX => divide_away_from_zero(low.mantissa, power_of_ten(dropped)),
            _ => low.mantissa.signum(),
        };
        let (mut sum, mut exponent) = (coarse.saturating_add(fine), low.exponent + dropped);
        while digit_count(sum) > DIGITS_MAX {
            sum = divide_away_from_zero(sum, 10);
            exponent += 1;
        }
        Self::normalized(sum, exponent)
    }

    /// As a multiple of `10^exponent`, rounded away from zero and clamped to an i64.
    pub(super) fn rounded(self, exponent: i64) -> i64 {
        let limit = if self.mantissa < 0 { i64::MIN } else { i64::MAX };
        match self.exponent - exponent {
            _ if self.mantissa == 0 => 0,
            shift @ 0..=19 => self
                .mantissa
                .checked_mul(power_of_ten(shift))
                .and_then(|scaled| i64::try_from(scaled).ok())
                .unwrap_or(limit),
            shift if shift > 0 => limit,
            shift => {
                let divisor = power_of_ten((-shift).min(DIGITS_MAX));
                i64::try_from(divide_away_from_zero(self.mantissa, divisor)).unwrap_or(limit)
            }
        }
    }

    /// The digits and a power of ten that is a multiple of three.
    pub(super) fn in_thousands(self) -> (String, i64) {
        let zeros = self.exponent.rem_euclid(3);
        let padding = match zeros {
            0 => "",
            1 => "0",
            _ => "00",
        };
        (self.mantissa.to_string() + padding, self.exponent - zeros)
    }

    /// As `n * 1024^power` with the greatest possible power; None if it is not an integer of at
    /// most 38 digits.
    pub(super) fn in_powers_of_1024(self) -> Option<(i128, usize)> {
        let shift = u32::try_from(self.exponent).ok().filter(|shift| *shift <= 38)?;
        let mut number = self.mantissa.checked_mul(10i128.pow(shift))?;
        let mut power = 0;
        while number != 0 && number % 1024 == 0 {
            number /= 1024;
            power += 1;
        }
        Some((number, power))
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Self::normalized(i128::from(value), 0)
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_sign = self.mantissa.signum().cmp(&other.mantissa.signum());
        if by_sign.is_ne() || self.mantissa == 0 {
            return by_sign;
        }
        let length = |number: &Self| digit_count(number.mantissa) + number.exponent;
        let by_size = length(self).cmp(&length(other)).then_with(|| {
            // Both numbers have the same length, so scaling to the lower exponent does not
            // overflow.
            let scaled = |number: &Self, lowest| {
                number.mantissa.unsigned_abs()
                    * power_of_ten(number.exponent - lowest).unsigned_abs()
            };
            let lowest = self.exponent.min(other.exponent);
            scaled(self, lowest).cmp(&scaled(other, lowest))
        });
        if self.mantissa < 0 { by_size.reverse() } else { by_size }
    }
}

fn divide_away_from_zero(number: i128, divisor: i128) -> i128 {
    let rounding = if number % divisor == 0 { 0 } else { number.signum() };
    number / divisor + rounding
}

fn power_of_ten(exponent: i64) -> i128 {
    10i128.pow(u32::try_from(exponent.clamp(0, DIGITS_MAX)).unwrap_or(0))
}

fn digit_count(mantissa: i128) -> i64 {
    i64::from(mantissa.unsigned_abs().checked_ilog10().unwrap_or(0)) + 1
}
