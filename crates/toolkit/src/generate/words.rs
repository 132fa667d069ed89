//! Names in Rust's cases: the words of a JSON name, and what serde makes of an identifier.

use crate::names::KEYWORDS;

/// Words that cannot be raw identifiers either.
const NEVER_RAW: [&str; 4] = ["self", "super", "crate", "_"];

/// The words of a name in lower case: `podCIDRs` has `pod` and `cidrs`, `HTTPRoute` has `http` and
/// `route`. What is neither a letter nor a digit of ASCII separates words.
pub(crate) fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words: Vec<String> = Vec::new();
    let mut is_start = true;
    for (index, letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            is_start = true;
            continue;
        }
        let starts = is_start || starts_word(&letters, index);
        let lower = letter.to_ascii_lowercase();
        match words.last_mut() {
            Some(word) if !starts => word.push(lower),
            _ => words.push(lower.to_string()),
        }
        is_start = false;
    }
    words
}

/// Whether an upper-case letter begins a word, after a letter or a digit.
fn starts_word(letters: &[char], index: usize) -> bool {
    let at = |index: usize| letters.get(index).copied().unwrap_or(' ');
    if !at(index).is_ascii_uppercase() {
        return false;
    }
    if !at(index - 1).is_ascii_uppercase() {
        return true;
    }
    let (next, after) = (at(index + 1), at(index + 2));
    let is_plural = next == 's' && !after.is_ascii_lowercase(); // as in CIDRs
    let is_numbered = next == 'v' && after.is_ascii_digit(); // as in IPv4
    next.is_ascii_lowercase() && !is_plural && !is_numbered
}

/// A name as a part of a type's name: `podCIDRs` is `PodCidrs`.
pub(crate) fn pascal_case(name: &str) -> String {
    words(name).iter().map(|word| capitalized(word)).collect()
}

/// The singular of a name as a part of a type's name: an element of `rules` is a `Rule`.
pub(crate) fn singular_pascal_case(name: &str) -> String {
    let mut words = words(name);
    if let Some(last) = words.last_mut() {
        *last = singular(last);
    }
    words.iter().map(|word| capitalized(word)).collect()
}

/// The singular of an English plural, or the word itself.
fn singular(word: &str) -> String {
    const SAME: [&str; 5] = ["series", "species", "dns", "tls", "https"];
    let ends = |ends: &[&str]| ends.iter().any(|end| word.ends_with(end));
    if SAME.contains(&word) || word.len() < 4 || ends(&["ss", "us", "is"]) {
        return word.to_owned();
    }
    let stem = |cut: usize| word[..word.len() - cut].to_owned();
    if word == "analyses" {
        return "analysis".to_owned();
    }
    if ends(&["ies"]) {
        return stem(3) + "y";
    }
    if ends(&["sses", "xes", "ches", "shes", "iases", "tatuses"]) && !ends(&["caches"]) {
        return stem(2);
    }
    if ends(&["s"]) { stem(1) } else { word.to_owned() }
}

pub(crate) fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    match letters.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + letters.as_str(),
        None => String::new(),
    }
}

/// A name as the identifier of a field: `podCIDRs` is `pod_cidrs`, and `type` is `r#type`.
pub(crate) fn field_identifier(name: &str) -> String {
    let snake = words(name).join("_");
    match snake.as_str() {
        "" => "field".to_owned(),
        word if NEVER_RAW.contains(&word) => format!("{word}_"),
        word if KEYWORDS.contains(&word) => format!("r#{word}"),
        word if word.starts_with(|first: char| first.is_ascii_digit()) => format!("_{word}"),
        word => word.to_owned(),
    }
}

/// A rule of `#[serde(rename_all = "…")]` for the fields of a struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldCase {
    Camel,
    Snake,
    Kebab,
    Pascal,
}

impl FieldCase {
    pub(crate) const ALL: [Self; 4] = [Self::Camel, Self::Snake, Self::Kebab, Self::Pascal];

    /// The value of the attribute.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Camel => "camelCase",
            Self::Snake => "snake_case",
            Self::Kebab => "kebab-case",
            Self::Pascal => "PascalCase",
        }
    }

    /// The name in JSON that serde gives to a field, as in `serde_derive`.
    pub(crate) fn apply(self, identifier: &str) -> String {
        let plain = identifier.strip_prefix("r#").unwrap_or(identifier);
        let pascal = || plain.split('_').map(capitalized).collect::<String>();
        match self {
            Self::Snake => plain.to_owned(),
            Self::Kebab => plain.replace('_', "-"),
            Self::Pascal => pascal(),
            Self::Camel => {
                let pascal = pascal();
                let mut letters = pascal.chars();
                let first = letters.next().map(|first| first.to_ascii_lowercase());
                first.into_iter().chain(letters).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_where_a_reader_expects_it() {
        for (name, identifier) in [
            ("replicas", "replicas"),
            ("dnsNames", "dns_names"),
            ("podCIDRs", "pod_cidrs"),
            ("clusterIPs", "cluster_ips"),
            ("HTTPRoute", "http_route"),
            ("hostIPC", "host_ipc"),
            ("IPv4Pool", "ipv4_pool"),
            ("s3Bucket", "s3_bucket"),
            ("kebab-case.name", "kebab_case_name"),
            ("type", "r#type"),
            ("self", "self_"),
            ("$ref", "r#ref"),
            ("3d", "_3d"),
            ("*", "field"),
            ("类", "field"),
        ] {
            assert_eq!(field_identifier(name), identifier, "{name}");
        }
    }

    #[test]
    fn elements_are_named_in_the_singular() {
        for (name, element) in [
            ("rules", "Rule"),
            ("matches", "Match"),
            ("policies", "Policy"),
            ("hostAliases", "HostAlias"),
            ("addresses", "Address"),
            ("status", "Status"),
            ("podCIDRs", "PodCidr"),
            ("caches", "Cache"),
            ("dns", "Dns"),
        ] {
            assert_eq!(singular_pascal_case(name), element, "{name}");
        }
    }

    #[test]
    fn cases_are_those_of_serde() {
        let named = |case: FieldCase| case.apply("pod_cidr");
        assert_eq!(FieldCase::ALL.map(named), ["podCidr", "pod_cidr", "pod-cidr", "PodCidr"]);
        assert_eq!(FieldCase::Camel.apply("r#type"), "type");
    }
}
