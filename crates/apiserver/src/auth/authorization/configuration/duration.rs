//! [`ConfiguredDuration`]: a duration in a configuration file, in Go's notation.

use std::fmt;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use machinery::go_duration;

/// See the [module documentation](self). It may be negative.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ConfiguredDuration {
    seconds: f64,
}

impl ConfiguredDuration {
    /// Whether it is zero, as it is if the field is absent.
    pub(super) fn is_zero(self) -> bool {
        self.duration().is_zero() && !self.is_negative()
    }

    /// Whether it is negative.
    pub(super) fn is_negative(self) -> bool {
        self.seconds < 0.0
    }

    /// The duration; zero if it is negative.
    pub(super) fn duration(self) -> Duration {
        Duration::try_from_secs_f64(self.seconds).unwrap_or_default()
    }
}

/// Upstream: Go's `Duration.String`.
impl fmt::Display for ConfiguredDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let absolute = Duration::try_from_secs_f64(self.seconds.abs()).unwrap_or_default();
        let sign = if self.is_negative() { "-" } else { "" };
        write!(f, "{sign}{}", go_duration::format(absolute))
    }
}

impl<'de> Deserialize<'de> for ConfiguredDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let seconds = go_duration::parse(&text).map_err(D::Error::custom)?;
        Ok(Self { seconds })
    }
}

impl Serialize for ConfiguredDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn a_duration_is_written_as_in_go() {
        for text in ["0s", "1.25s", "-1s", "1h0m2s"] {
            let found = ConfiguredDuration::deserialize(json!(text)).unwrap();
            assert_eq!(found.to_string(), text);
        }
        let error = ConfiguredDuration::deserialize(json!("5")).unwrap_err().to_string();
        assert_eq!(error, "time: missing unit in duration \"5\"");
    }
}
