//! The values of arguments: names of users and groups, and lifetimes.

use std::time::Duration;

use crate::duration_arg::parse_duration;
use machinery::{go_duration, names};

/// The shortest lifetime of a certificate that the API allows.
const MIN_TTL: Duration = Duration::from_mins(10);

/// The longest lifetime, which is the largest number of the API's field.
const MAX_TTL: Duration = Duration::from_secs(i32::MAX as u64);

/// The maximum length of a common name and of an organization in a certificate.
const MAX_NAME: usize = 64;

/// Parses the name of a user.
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    if text.starts_with("system:") {
        return Err("names that begin with \"system:\" belong to Kubernetes itself".to_owned());
    }
    check_name(text)
}

/// Parses the name of a group.
pub(super) fn parse_group(text: &str) -> Result<String, String> {
    if text.starts_with("system:") {
        return Err("groups that begin with \"system:\" belong to Kubernetes itself: to give all \
                    rights, use --role cluster-admin"
            .to_owned());
    }
    check_name(text)
}

fn check_name(text: &str) -> Result<String, String> {
    let is_allowed = |it: char| it.is_ascii_alphanumeric() || ".-_@:+".contains(it);
    let begins_well = text.starts_with(|it: char| it.is_ascii_alphanumeric());
    if text.len() > MAX_NAME {
        return Err(format!("a name in a certificate has at most {MAX_NAME} characters"));
    }
    if !begins_well || !text.chars().all(is_allowed) {
        return Err(
            "a name has the letters a-z and A-Z, digits and the characters . - _ @ : + and \
                    begins with a letter or a digit"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

/// Parses the name of a namespace.
pub(super) fn parse_namespace(text: &str) -> Result<String, String> {
    let defects = names::namespace_name(text);
    if defects.is_empty() { Ok(text.to_owned()) } else { Err(defects.join("; ")) }
}

/// Parses the lifetime of a certificate: Go's notation, or days as in `7d`.
pub(super) fn parse_ttl(text: &str) -> Result<Duration, String> {
    let ttl = match text.strip_suffix('d') {
        Some(days) => days.parse().ok().map(|days: u32| 24 * Duration::from_hours(days.into())),
        None => go_duration::parse_duration(text).ok(),
    };
    let ttl = ttl.ok_or("not a duration such as 24h, 1h30m or 7d")?;
    if ttl < MIN_TTL {
        return Err("a certificate is valid for 10 minutes at least".to_owned());
    }
    if ttl > MAX_TTL {
        return Err("a certificate is valid for 68 years at most".to_owned());
    }
    Ok(ttl)
}

/// Parses a time to wait, which is not zero.
pub(super) fn parse_timeout(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("the time is more than zero, as in 30s".to_owned()),
        timeout => Ok(timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kubernetes_itself_are_refused() {
        assert!(parse_name("system:admin").unwrap_err().contains("Kubernetes itself"));
        assert!(parse_group("system:masters").unwrap_err().contains("--role cluster-admin"));
    }

    #[test]
    fn a_name_must_fit_into_a_certificate_a_path_and_a_list() {
        for good in ["jane", "jane@example.com", "team:ci-1", "R2.D2_x+y"] {
            assert_eq!(parse_name(good).as_deref(), Ok(good));
        }
        let long = "x".repeat(65);
        for bad in ["", "-x", ".", "a/b", "a b", "a,b", "a%2fb", "Jürgen", "a\n", long.as_str()] {
            assert!(parse_name(bad).is_err() && parse_group(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_letters_of_a_name_are_those_of_ascii() {
        assert!(parse_name("Zoë").unwrap_err().contains("the letters a-z and A-Z"));
    }

    #[test]
    fn the_name_of_a_namespace_is_a_part_of_a_path() {
        assert_eq!(parse_namespace("team-1").as_deref(), Ok("team-1"));
        for bad in ["", "-a", "a-", "A", "a/b", "a.b", "..", "a?b"] {
            assert!(parse_namespace(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_time_to_wait_is_more_than_zero() {
        assert_eq!(parse_timeout("300ms"), Ok(Duration::from_millis(300)));
        for bad in ["0", "0s", "-1s", "soon"] {
            assert!(parse_timeout(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_lifetime_is_between_ten_minutes_and_68_years() {
        assert_eq!(parse_ttl("10m"), Ok(Duration::from_mins(10)));
        assert_eq!(parse_ttl("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(parse_ttl("7d"), Ok(Duration::from_hours(168)));
        assert!(parse_ttl("9m59s").unwrap_err().contains("10 minutes at least"));
        assert!(parse_ttl("99999d").unwrap_err().contains("68 years"));
        for bad in ["", "24", "tomorrow", "-24h", "d", "1.5d"] {
            assert!(parse_ttl(bad).unwrap_err().contains("such as 24h"), "{bad}");
        }
    }
}
