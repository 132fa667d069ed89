//! [`parse_duration`]: the values of flags that are durations.

use std::time::Duration;

use machinery::go_duration;

/// Parses a duration in Go's notation.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = go_duration::parse_duration(text);
    duration.map_err(|_| "not a duration such as 24h or 1h30m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit_and_no_sign() {
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_mins(90)));
        for bad in ["", "24", "soon", "-24h", "7d"] {
            assert!(parse_duration(bad).unwrap_err().contains("such as 24h"), "{bad}");
        }
    }
}
