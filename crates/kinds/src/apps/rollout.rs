//! `maxUnavailable` and `maxSurge` of a rolling update: a number, or a percentage of the replicas.

use crate::validation::rules::percent;
use machinery::Value;

/// Whether it allows none at all. Text that is no percentage counts as the number that it is, or 0.
pub(super) fn is_zero(value: &Value) -> bool {
    let count = match value {
        Value::String(text) => percent(text).unwrap_or_else(|| text.parse().unwrap_or(0)),
        other => other.as_i64().unwrap_or(0),
    };
    count == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn zero_is_zero_in_every_form() {
        assert!(is_zero(&json!(0)) && is_zero(&json!("0%")) && is_zero(&json!("none")));
        assert!(!is_zero(&json!(1)) && !is_zero(&json!("1%")) && !is_zero(&json!("7")));
    }
}
