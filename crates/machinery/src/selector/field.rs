//! [`FieldSelector`]: `metadata.name=x,spec.nodeName!=n`. The kind defines the selectable fields.
//!
//! ```
//! use machinery::selector::FieldSelector;
//! let selector = FieldSelector::parse(r"metadata.name=a\,b,status.phase!=Running")?;
//! assert_eq!(selector.requires_exact_match("metadata.name"), Some("a,b"));
//! # Ok::<(), String>(())
//! ```

use std::fmt;

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    /// All must hold. Sorted, so that the order in which they were written does not matter.
    requirements: Vec<FieldRequirement>,
}

/// One condition on one field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldRequirement {
    /// `metadata.name`
    pub field: String,
    /// The value to compare with.
    pub value: String,
    /// True for `=`, false for `!=`.
    pub equal: bool,
}

impl FieldSelector {
    /// Selects all objects.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Parses the form used in queries. An error is the message for the client.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = split_terms(text);
        // Upstream sorts the terms too, so the same error is found first.
        terms.sort_unstable();
        let mut requirements = Vec::with_capacity(terms.len());
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, equal, value)) = split_term(term) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
            };
            let value = unescape(value)?;
            requirements.push(FieldRequirement { field: field.to_owned(), value, equal });
        }
        requirements.sort_unstable();
        Ok(Self { requirements })
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The conditions, all of which must hold.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The value that `field` must have, if there is a term `field=value`.
    pub fn requires_exact_match(&self, field: &str) -> Option<&str> {
        let found = self.requirements.iter().find(|known| known.equal && known.field == field);
        found.map(|requirement| requirement.value.as_str())
    }

    /// Whether it selects an object with these fields; a missing field counts as empty.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> bool {
        let holds = |known: &FieldRequirement| {
            (field(&known.field).unwrap_or_default() == known.value) == known.equal
        };
        self.requirements.iter().all(holds)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, FieldRequirement { field, value, equal }) in
            self.requirements.iter().enumerate()
        {
            let comma = if index > 0 { "," } else { "" };
            let operator = if *equal { "=" } else { "!=" };
            write!(f, "{comma}{field}{operator}{}", escape(value))?;
        }
        Ok(())
    }
}

/// Cuts at every comma that has no backslash before it.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (index, b) in text.bytes().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Splits a term into the field, whether the operator is `=` or `==`, and the escaped value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.find('=')?;
    let (field, value) = (&term[..at], &term[at + 1..]);
    match field.strip_suffix('!') {
        Some(field) => Some((field, false, value)),
        None => Some((field, true, value.strip_prefix('=').unwrap_or(value))),
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=")
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                other => {
                    let sequence: String = other.into_iter().collect();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: \\{sequence}"
                    ));
                }
            },
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    c as u32
                ));
            }
            c => plain.push(c),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parses `text` and prints the result, or the error.
    fn check(text: &str, expected: &str) {
        let printed =
            FieldSelector::parse(text).map_or_else(|error| error, |selector| selector.to_string());
        assert_eq!(printed, expected, "{text}");
    }

    #[test]
    fn selectors_are_printed_sorted_and_normalized() {
        check("", "");
        check(",", "");
        check("b==2,a=1", "a=1,b=2");
        check("spec.nodeName!=n1,status.phase!=Running", "spec.nodeName!=n1,status.phase!=Running");
        check("spec.nodeName=", "spec.nodeName=");
        check(r"a=x\,y\=z\\", r"a=x\,y\=z\\");
        check("a!b=c", "a!b=c");
    }

    #[test]
    fn errors_name_the_invalid_part() {
        check(
            "spec.nodeName",
            "invalid selector: 'spec.nodeName'; can't understand 'spec.nodeName'",
        );
        check(r"a=\x", r"invalid field selector: invalid escape sequence: \x");
        check(r"a=\", r"invalid field selector: invalid escape sequence: \");
        check("a=b=c", "invalid field selector: unescaped character in value: 61");
    }

    #[test]
    fn a_missing_field_counts_as_empty() {
        let matches = |text| {
            FieldSelector::parse(text).unwrap().matches(|field| (field == "a").then_some("1"))
        };
        assert!(matches("a=1,b="));
        assert!(matches("b!=1"));
        assert!(!matches("a!=1"));
    }

    #[test]
    fn only_an_equality_requires_an_exact_match() {
        let selector = FieldSelector::parse("a!=1,b=2").unwrap();
        assert_eq!(
            (selector.requires_exact_match("a"), selector.requires_exact_match("b")),
            (None, Some("2"))
        );
    }

    proptest! {
        #![proptest_config(crate::seeded::config())]

        #[test]
        fn what_is_printed_parses_to_the_same(text in r"[ab=!,\\ ä]{0,20}") {
            if let Ok(selector) = FieldSelector::parse(&text) {
                prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
            }
        }

        #[test]
        fn nothing_panics(text in ".*") {
            let _ = FieldSelector::parse(&text);
        }
    }
}
