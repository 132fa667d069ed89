//! The names of the time zones of the IANA database.

use std::collections::HashSet;
use std::sync::OnceLock;

/// The names, one in each line.
static NAMES: &str = include_str!("time_zones.txt");

/// The maximum length of a part of a name.
const MAX_PART: usize = 14;

/// The errors about the name of a time zone, in Kubernetes' words.
pub(super) fn validate(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let unknown = format!("unknown time zone {name}");
    if !name.split('/').all(is_part) {
        return vec![unknown];
    }
    let mut messages = Vec::new();
    if name.eq_ignore_ascii_case("Local") {
        messages.push(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
                .to_owned(),
        );
    }
    if name != "Local" && !is_known(name) {
        messages.push(unknown);
    }
    messages
}

/// Whether a time zone exists. Its name is case-sensitive, because Go reads it from a file.
pub(super) fn is_known(name: &str) -> bool {
    static KNOWN: OnceLock<HashSet<&'static str>> = OnceLock::new();
    KNOWN.get_or_init(|| NAMES.lines().collect()).contains(name)
}

fn is_part(part: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b".-_+".contains(&b);
    (1..=MAX_PART).contains(&part.len())
        && part.bytes().all(is_plain)
        && part != "."
        && part != ".."
        && !part.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: &[&str]) {
        assert_eq!(validate(name), expected, "{name}");
    }

    #[test]
    fn unknown_time_zones_are_refused() {
        check("Europe/Berlin", &[]);
        check("Etc/UTC", &[]);
        check("", &["timeZone must be nil or non-empty string"]);
        check("europe/berlin", &["unknown time zone europe/berlin"]);
        check("../etc/passwd", &["unknown time zone ../etc/passwd"]);
        check("Mars/Olympus", &["unknown time zone Mars/Olympus"]);
    }

    #[test]
    fn local_is_not_an_explicit_time_zone() {
        let explicit =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        check("Local", &[explicit]);
        check("LOCAL", &[explicit, "unknown time zone LOCAL"]);
    }
}
