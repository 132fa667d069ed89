//! [`Variants`]: the variants of an enum for the values of a schema, with as few renames as possible.

use std::collections::BTreeSet;

use super::words::{capitalized, pascal_case};

/// The words for characters of a value that has no letters or digits.
const SYMBOLS: [(char, &str); 20] = [
    ('!', "Not"),
    ('#', "Hash"),
    ('$', "Dollar"),
    ('%', "Percent"),
    ('&', "And"),
    ('*', "Star"),
    ('+', "Plus"),
    (',', "Comma"),
    ('-', "Minus"),
    ('.', "Dot"),
    ('/', "Slash"),
    (':', "Colon"),
    ('<', "Less"),
    ('=', "Equal"),
    ('>', "Greater"),
    ('?', "Question"),
    ('@', "At"),
    ('^', "Caret"),
    ('|', "Or"),
    ('~', "Tilde"),
];

/// See the [module documentation](self).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Variants {
    /// The value of `#[serde(rename_all = "…")]`.
    pub(crate) rename_all: Option<&'static str>,
    pub(crate) variants: Vec<Variant>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) identifier: String,
    /// The value, if it is not the one that serde derives from the identifier.
    pub(crate) rename: Option<String>,
}

/// A rule of `#[serde(rename_all = "…")]`.
type Case = (&'static str, fn(&str) -> String);

const CASES: [Case; 7] = [
    ("lowercase", |name| name.to_ascii_lowercase()),
    ("UPPERCASE", |name| name.to_ascii_uppercase()),
    ("camelCase", |name| {
        let mut letters = name.chars();
        let first = letters.next().map(|first| first.to_ascii_lowercase());
        first.into_iter().chain(letters).collect()
    }),
    ("snake_case", snake_case),
    ("SCREAMING_SNAKE_CASE", |name| snake_case(name).to_ascii_uppercase()),
    ("kebab-case", |name| snake_case(name).replace('_', "-")),
    ("SCREAMING-KEBAB-CASE", |name| snake_case(name).to_ascii_uppercase().replace('_', "-")),
];

/// As serde does: an underscore before each upper-case letter but the first.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (index, letter) in name.char_indices() {
        if index > 0 && letter.is_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

impl Variants {
    /// The variants for these values. Repeated ones count once.
    pub(crate) fn of(values: &[&str]) -> Self {
        let unnamed = Self::with_case(values, None);
        let cases = CASES.iter().map(|case| Self::with_case(values, Some(*case)));
        // The first of the best.
        cases.fold(unnamed, |best, next| if next.renames() < best.renames() { next } else { best })
    }

    fn renames(&self) -> usize {
        let renamed = self.variants.iter().filter(|it| it.rename.is_some()).count();
        renamed + usize::from(self.rename_all.is_some()) // an attribute as well
    }

    fn with_case(values: &[&str], case: Option<Case>) -> Self {
        let (mut variants, mut taken, mut seen) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for value in values.iter().filter(|value| seen.insert(**value)) {
            let name = identifier(value, case.is_none());
            let mut identifier = name.clone();
            let mut number = 2;
            while !taken.insert(identifier.clone()) {
                identifier = format!("{name}{number}");
                number += 1;
            }
            let derived = case.map_or_else(|| identifier.clone(), |(_, apply)| apply(&identifier));
            let rename = (derived != *value).then(|| (*value).to_owned());
            variants.push(Variant { identifier, rename });
        }
        Self { rename_all: case.map(|(name, _)| name), variants }
    }
}

/// The identifier for a value. One that is an identifier already may stay as it is.
fn identifier(value: &str, keeps: bool) -> String {
    let is_camel = value.starts_with(|it: char| it.is_ascii_uppercase())
        && value.chars().all(|it| it.is_ascii_alphanumeric());
    let name = if keeps && is_camel { value.to_owned() } else { pascal_case(value) };
    match name.as_str() {
        "" if value.is_empty() => "Empty".to_owned(),
        "" => spelled(value),
        "Self" => "SelfValue".to_owned(),
        name if name.starts_with(|it: char| it.is_ascii_digit()) => format!("V{name}"),
        _ => name,
    }
}

fn spelled(value: &str) -> String {
    let word = |letter: char| SYMBOLS.iter().find(|(it, _)| *it == letter).map(|(_, word)| *word);
    let name: String = value.chars().filter_map(word).map(capitalized).collect();
    if name.is_empty() { "Other".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&str], expected: &str) {
        let variants = Variants::of(values);
        let mut lines: Vec<String> =
            variants.rename_all.map(|it| format!("({it})")).into_iter().collect();
        lines.extend(variants.variants.iter().map(|it| match &it.rename {
            Some(value) => format!("{}={value:?}", it.identifier),
            None => it.identifier.clone(),
        }));
        assert_eq!(lines.join(" "), expected);
    }

    #[test]
    fn identifiers_stay_as_they_are() {
        check(&["Always", "IfNotPresent", "TCP"], "Always IfNotPresent TCP");
        check(&["A", "A"], "A");
    }

    #[test]
    fn one_rule_is_better_than_many_renames() {
        check(&["http", "https"], "(lowercase) Http Https");
        check(&["fooBar", "baz"], "(camelCase) FooBar Baz");
        check(&["READ_ONLY", "WRITE_ONCE"], "(SCREAMING_SNAKE_CASE) ReadOnly WriteOnce");
        check(&["true", "None", ""], "True=\"true\" None Empty=\"\"");
    }

    #[test]
    fn every_value_has_an_identifier_of_its_own() {
        check(&["=", "!=", ">="], "Equal=\"=\" NotEqual=\"!=\" GreaterEqual=\">=\"");
        check(&["a-b", "a_b", "a b"], "AB=\"a-b\" AB2=\"a_b\" AB3=\"a b\"");
        check(&["1.2", "Self", "类"], "V12=\"1.2\" SelfValue=\"Self\" Other=\"类\"");
    }
}
