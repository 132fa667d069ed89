//! `maxUnavailable` and `maxSurge` of a rolling update: a number, or a percentage of the replicas.

use crate::validation::rules::percent;
use machinery::Value;

/// Whether the value is 0 or 0%. Text that is not a percentage is parsed as a number, or counts as
/// 0.
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
    fn numbers_percentages_and_other_text_can_be_zero() {
        assert!(is_zero(&json!(0)) && is_zero(&json!("0%")) && is_zero(&json!("none")));
        assert!(!is_zero(&json!(1)) && !is_zero(&json!("1%")) && !is_zero(&json!("7")));
    }
}
