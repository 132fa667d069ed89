//! The cost of expressions: estimates at compile time, and actual costs during evaluation.
//!
//! One unit is about the time of one field access. All numbers are cel-go's and Kubernetes',
//! because they decide whether a rule is accepted.

mod calls;
pub(crate) mod estimator;
pub(crate) mod runtime;

/// Cost per character of reading a string once.
const STRING_FACTOR: f64 = 0.1;

/// Cost per character of a pattern, for each cost unit of the string that is matched.
const REGEX_FACTOR: f64 = 0.25;

/// Cost of creating a list, a map and a message.
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const STRUCT_COST: u64 = 40;

/// Cost of an authorization check. The budget of an expression suffices for two.
const AUTHORIZATION_COST: u64 = 350_000;

/// The minimum and the maximum of a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostEstimate {
    /// The minimum.
    pub min: u64,
    /// The maximum; `u64::MAX` if it is unlimited.
    pub max: u64,
}

/// The minimum and the maximum of a size.
pub(crate) type Size = CostEstimate;

impl CostEstimate {
    const ZERO: Self = Self::fixed(0);
    const ONE: Self = Self::fixed(1);
    const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    const fn fixed(value: u64) -> Self {
        Self { min: value, max: value }
    }

    fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn scaled(self, factor: f64) -> Self {
        Self { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// `value * factor`, rounded up; saturates at `u64::MAX`.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "cel-go computes with floats, and Rust's conversion saturates where Go's is guarded"
)]
fn scale(value: u64, factor: f64) -> u64 {
    (value as f64 * factor).ceil() as u64
}
