//! Values that are a number or a percentage, such as `maxSurge: 25%`.

use serde_json::Value;

/// How a fraction is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// To the next smaller number.
    Down,
    /// To the next larger number.
    Up,
}

/// The value, or its share of `total`; 0 if it is neither a number nor a percentage.
pub(crate) fn resolve(value: &Value, total: i32, round: Round) -> i32 {
    if let Some(number) = value.as_i64() {
        return i32::try_from(number).unwrap_or(i32::MAX);
    }
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    let Some(percent) = percent else { return 0 };
    let hundredths = percent.saturating_mul(i64::from(total));
    let share = match round {
        Round::Down => hundredths.div_euclid(100),
        Round::Up => hundredths.saturating_add(99).div_euclid(100),
    };
    i32::try_from(share).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_percentage_is_a_share_of_the_total() {
        for (value, total, up, down) in [
            (json!(3), 10, 3, 3),
            (json!("25%"), 10, 3, 2),
            (json!("25%"), 4, 1, 1),
            (json!("100%"), 7, 7, 7),
            (json!("0%"), 7, 0, 0),
            (json!(null), 7, 0, 0),
        ] {
            let resolved = (resolve(&value, total, Round::Up), resolve(&value, total, Round::Down));
            assert_eq!(resolved, (up, down), "{value} of {total}");
        }
    }
}
