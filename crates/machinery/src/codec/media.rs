//! Media types: that of a body (`Content-Type`), and those that a client accepts (`Accept`).
//!
//! ```
//! use machinery::codec::media;
//! let wanted = media::parse_accept("application/json;q=0.5, application/json;as=Table;v=v1;g=meta.k8s.io");
//! assert_eq!(wanted[0].param("as"), Some("Table"));
//! ```

use std::fmt;

/// `application/json;as=Table`
#[derive(Debug, Clone, PartialEq)]
pub struct MediaType {
    /// `application`, or `*`.
    pub type_: String,
    /// `json`, or `*`.
    pub subtype: String,
    /// All parameters but `q`, in the order given.
    pub params: Vec<(String, String)>,
    /// The quality value `q`, 1 by default.
    pub q: f32,
}

impl MediaType {
    /// A parameter's value.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether the type is this one, with any parameters: `application/json`.
    pub fn is(&self, essence: &str) -> bool {
        essence.split_once('/') == Some((&self.type_, &self.subtype))
    }

    /// Whether the media type matches `essence`, exactly or by a wildcard.
    pub fn accepts(&self, essence: &str) -> bool {
        let Some((type_, subtype)) = essence.split_once('/') else {
            return false;
        };
        match (self.type_.as_str(), self.subtype.as_str()) {
            ("*", "*") => true,
            (own, "*") => own == type_,
            (own, own_subtype) => (own, own_subtype) == (type_, subtype),
        }
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.type_, self.subtype)?;
        self.params.iter().try_for_each(|(key, value)| write!(f, ";{key}={value}"))
    }
}

/// The media types of an `Accept` header, the most preferred first; those that do not parse are
/// omitted.
pub fn parse_accept(header: &str) -> Vec<MediaType> {
    let mut clauses: Vec<MediaType> = header.split(',').filter_map(parse_clause).collect();
    sort_as_upstream(&mut clauses);
    clauses
}

/// The media type of a `Content-Type` header; None if there is no valid one.
pub fn parse_content_type(header: &str) -> Option<MediaType> {
    let mut parsed = parse_clause(header)?;
    parsed.type_.make_ascii_lowercase();
    parsed.subtype.make_ascii_lowercase();
    Some(parsed)
}

fn parse_clause(clause: &str) -> Option<MediaType> {
    let mut parts = clause.split(';');
    let essence = parts.next()?.trim();
    let (type_, subtype) = match essence.split_once('/') {
        _ if matches!(essence, "*" | "*/") => ("*", "*"),
        Some((type_, subtype)) if !subtype.is_empty() && !subtype.contains('/') => (type_, subtype),
        _ => return None,
    };
    let mut parsed = MediaType {
        type_: type_.trim().to_owned(),
        subtype: subtype.trim().to_owned(),
        params: Vec::new(),
        q: 1.0,
    };
    for part in parts {
        let Some((key, value)) = part.split_once('=').filter(|(_, value)| !value.contains('='))
        else {
            continue;
        };
        let value = value.trim().trim_matches('"');
        match key.trim() {
            "q" => parsed.q = value.parse().ok().filter(|q: &f32| q.is_finite()).unwrap_or(0.0),
            key => parsed.params.push((key.to_owned(), value.to_owned())),
        }
    }
    Some(parsed)
}

/// Sorts with the insertion sort that Go uses for up to twelve elements. The algorithm matters,
/// because upstream's order is not transitive: a wildcard and a less preferred exact type each
/// precede the other, and the later of the two in the header comes first.
fn sort_as_upstream(clauses: &mut [MediaType]) {
    const INSERTION_SORT_MAX: usize = 12;
    if clauses.len() > INSERTION_SORT_MAX {
        let rank = |clause: &MediaType| (clause.type_ == "*", clause.subtype == "*");
        clauses.sort_by(|a, b| b.q.total_cmp(&a.q).then_with(|| rank(a).cmp(&rank(b))));
        return;
    }
    for end in 1..clauses.len() {
        for at in (1..=end).rev() {
            if !goes_before(&clauses[at], &clauses[at - 1]) {
                break;
            }
            clauses.swap(at, at - 1);
        }
    }
}

fn goes_before(a: &MediaType, b: &MediaType) -> bool {
    a.q > b.q || (a.type_ != "*" && b.type_ == "*") || (a.subtype != "*" && b.subtype == "*")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Prints the clauses of an Accept header, the most preferred first.
    fn check(header: &str, expected: &str) {
        let printed: Vec<String> = parse_accept(header).iter().map(ToString::to_string).collect();
        assert_eq!(printed.join(" "), expected, "{header}");
    }

    #[test]
    fn the_most_preferred_media_type_comes_first() {
        check("", "");
        check("text/csv;q=0.2, application/json;q=0.5", "application/json text/csv");
        check("*/*, application/json", "application/json */*");
        check("application/*, application/yaml", "application/yaml application/*");
        check("a/b, c/d", "a/b c/d");
        check("*/*;q=0.9, application/json;q=0.5", "application/json */*");
        check("application/json;q=0.5, */*;q=0.9", "*/* application/json");
    }

    #[test]
    fn parameters_are_kept() {
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            "application/json;as=Table;v=v1;g=meta.k8s.io application/json",
        );
        check("application/json; stream=watch ; q=0.1", "application/json;stream=watch");
    }

    #[test]
    fn media_types_that_do_not_parse_are_omitted() {
        check("*", "*/*");
        check("json", "");
        check("a/b/c, ,x/y", "x/y");
        check("a/b;q=hot, c/d;q=0.1", "c/d a/b");
    }

    #[test]
    fn a_content_type_is_lower_case() {
        let parsed = parse_content_type("Application/JSON; charset=\"utf-8\"").unwrap();
        assert!(parsed.is("application/json"));
        assert_eq!(parsed.param("charset"), Some("utf-8"));
        assert_eq!(parse_content_type(""), None);
    }

    #[test]
    fn wildcards_match_any_type_or_subtype() {
        let accepts = |clause: &str| parse_accept(clause)[0].accepts("application/json");
        assert!(accepts("*/*") && accepts("application/*") && accepts("application/json"));
        assert!(!accepts("text/*"));
    }

    proptest! {
        #![proptest_config(crate::seeded::config())]

        #[test]
        fn nothing_panics(text in ".*", likely in "[a*/;=q0.9, \"]{0,40}") {
            parse_accept(&text);
            parse_accept(&likely);
            let _ = parse_content_type(&likely);
        }
    }
}
