//! `PodLogOptions`: the parameters of a request for a pod's log.
//!
//! Upstream: `apis/core/validation/validation.go`, `ValidatePodLogOptions`.

use machinery::{ErrorList, Path};

/// The options of one request, except the boolean ones, which are read directly from the query.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    since_seconds: Option<i64>,
    since_time: Option<String>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    stream: Option<String>,
}

impl LogOptions {
    /// Parses the options of a query; `parameter` returns the first value of the parameter of a
    /// name. `integer` parses a number. Errors are those of Go's parsers.
    pub fn parse<'a>(
        parameter: impl Fn(&str) -> Option<&'a str>,
        integer: impl Fn(&str) -> Result<i64, String>,
    ) -> Result<Self, String> {
        let number = |name| parameter(name).map(&integer).transpose();
        // The first malformed option is reported, in the order in which Go declares the fields.
        let since_seconds = number("sinceSeconds")?;
        let since_time = parameter("sinceTime").map(since_time).transpose()?;
        let tail_lines = number("tailLines")?;
        let limit_bytes = number("limitBytes")?;
        let stream = parameter("stream").map(ToOwned::to_owned);
        Ok(Self { since_seconds, since_time, tail_lines, limit_bytes, stream })
    }

    /// Validates the options.
    pub fn validate(&self) -> ErrorList {
        let mut errors = ErrorList::new();
        if let Some(lines) = self.tail_lines.filter(|it| *it < 0) {
            let detail = "must be greater than or equal to 0";
            errors.invalid(&Path::root("tailLines"), lines, detail);
        }
        let positive = "must be greater than 0";
        if let Some(bytes) = self.limit_bytes.filter(|it| *it < 1) {
            errors.invalid(&Path::root("limitBytes"), bytes, positive);
        }
        match (self.since_seconds, &self.since_time) {
            (Some(_), Some(_)) => {
                let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
                errors.forbidden(&Path::UNNAMED, detail);
            }
            (Some(seconds @ ..1), None) => {
                errors.invalid(&Path::root("sinceSeconds"), seconds, positive);
            }
            _ => {}
        }
        if self.stream.is_some() {
            errors.forbidden(&Path::root("stream"), "may not be specified");
        }
        errors
    }

    /// The query of the request to the kubelet, sorted by name. `flag` returns whether a boolean
    /// parameter is set.
    pub fn kubelet_query(&self, flag: impl Fn(&str) -> bool) -> String {
        let number = |it: Option<i64>| it.map(|it| it.to_string());
        let flag = |name| flag(name).then(|| "true".to_owned());
        let parameters = [
            ("follow", flag("follow")),
            ("limitBytes", number(self.limit_bytes)),
            ("previous", flag("previous")),
            ("sinceSeconds", number(self.since_seconds)),
            ("sinceTime", self.since_time.as_ref().map(|it| it.replace(':', "%3A"))),
            ("tailLines", number(self.tail_lines)),
            ("timestamps", flag("timestamps")),
        ];
        let set = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let pairs: Vec<String> = set.map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join("&")
    }
}

/// Parses a time into RFC 3339 in UTC; without one, the zero time of Go.
///
/// Upstream: `meta/v1/time.go`, `UnmarshalQueryParameter`.
fn since_time(text: &str) -> Result<String, String> {
    const ZERO: &str = "0001-01-01T00:00:00Z";
    match text {
        "" | "null" => Ok(ZERO.to_owned()),
        text => Ok(types::parse_time(text)?.unwrap_or_else(|| ZERO.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &[(&str, &'static str)]) -> Result<LogOptions, String> {
        let parameter =
            |name: &str| query.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        LogOptions::parse(parameter, |it| it.parse().map_err(|_| format!("{it:?} is no number")))
    }

    fn errors_of(query: &[(&str, &'static str)]) -> Vec<String> {
        parse(query).unwrap().validate().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn limits_must_be_positive_and_tail_lines_not_negative() {
        assert_eq!(
            errors_of(&[("tailLines", "-1"), ("limitBytes", "0"), ("sinceSeconds", "0")]),
            [
                "tailLines: Invalid value: -1: must be greater than or equal to 0",
                "limitBytes: Invalid value: 0: must be greater than 0",
                "sinceSeconds: Invalid value: 0: must be greater than 0",
            ]
        );
        assert!(errors_of(&[("tailLines", "0"), ("limitBytes", "1")]).is_empty());
    }

    #[test]
    fn since_time_and_since_seconds_exclude_each_other() {
        assert_eq!(
            errors_of(&[("sinceSeconds", "0"), ("sinceTime", "2024-01-01T00:00:00Z")]),
            ["[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"]
        );
        assert!(errors_of(&[("sinceTime", "")]).is_empty());
    }

    #[test]
    fn a_stream_cannot_be_selected() {
        assert_eq!(errors_of(&[("stream", "All")]), ["stream: Forbidden: may not be specified"]);
    }

    #[test]
    fn the_first_malformed_option_is_reported() {
        let error = parse(&[("tailLines", "x"), ("sinceTime", "y")]).unwrap_err();
        assert_eq!(
            error,
            r#"parsing time "y" as "2006-01-02T15:04:05Z07:00": cannot parse "y" as "2006""#
        );
    }

    #[test]
    fn the_query_for_the_kubelet_is_sorted_and_has_times_in_utc() {
        let options = parse(&[("sinceTime", "2024-01-01T01:00:00+01:00"), ("tailLines", "5")]);
        assert_eq!(
            options.unwrap().kubelet_query(|it| it == "follow"),
            "follow=true&sinceTime=2024-01-01T00%3A00%3A00Z&tailLines=5"
        );
    }
}
