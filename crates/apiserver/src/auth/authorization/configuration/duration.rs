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
        let (nanoseconds, seconds) = (absolute.as_nanos(), absolute.as_secs());
        // The shortest decimal form of a number of nanoseconds in a unit.
        let in_unit = |nanoseconds: u128, unit: u128| {
            let digits = unit.ilog10() as usize;
            let text = format!("{}.{:0digits$}", nanoseconds / unit, nanoseconds % unit);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        if nanoseconds == 0 {
            return f.write_str("0s");
        }
        if nanoseconds < 1_000 {
            return write!(f, "{sign}{nanoseconds}ns");
        }
        if nanoseconds < 1_000_000 {
            return write!(f, "{sign}{}µs", in_unit(nanoseconds, 1_000));
        }
        if nanoseconds < 1_000_000_000 {
            return write!(f, "{sign}{}ms", in_unit(nanoseconds, 1_000_000));
        }
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        f.write_str(sign)?;
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if seconds >= 60 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", in_unit(nanoseconds % 60_000_000_000, 1_000_000_000))
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
        for text in ["0s", "5ns", "1.5µs", "20ms", "1s", "1.25s", "-1s", "1m0s", "31s", "1h0m2s"] {
            let found = ConfiguredDuration::deserialize(json!(text)).unwrap();
            assert_eq!(found.to_string(), text);
        }
        let error = ConfiguredDuration::deserialize(json!("5")).unwrap_err().to_string();
        assert_eq!(error, "time: missing unit in duration \"5\"");
    }
}
