//! Times in UTC, as in `2026-01-31T12:00:00Z`.

use keel::Timestamp;

/// Formats a time, to the second.
pub(crate) fn format(time: Timestamp) -> String {
    jiff::Timestamp::from_second(time.seconds()).unwrap_or_default().to_string()
}

/// Parses a time.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp::from_seconds(time.as_second()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formatted_time_is_parsed_to_the_same_time() {
        let time = Timestamp::from_seconds(1_900_000_000);
        assert_eq!(format(time), "2030-03-17T17:46:40Z");
        assert_eq!(parse(&format(time)), Some(time));
        assert_eq!(parse("tomorrow"), None);
    }
}
