//! The rules for the names of objects, labels, ports, keys and environment variables.
//!
//! Each rule returns its error messages, in Kubernetes' words, and none if the name is valid:
//!
//! ```
//! use machinery::names;
//! assert!(names::dns1123_label("web-1").is_empty());
//! assert_eq!(names::dns1123_label("web.1"), ["must not contain dots"]);
//! ```

/// A rule for names. Returns the error messages; none if the name is valid.
pub type NameRule = fn(&str) -> Vec<String>;

/// The longest DNS label.
pub const LABEL_MAX: usize = 63;
/// The longest DNS subdomain, and so the longest name of most objects.
pub const SUBDOMAIN_MAX: usize = 253;

const LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_PATTERN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const KEY_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// A DNS label: `my-name`.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut messages = too_long(value, LABEL_MAX, "characters");
    if is_dns_label(value) {
        return messages;
    }
    messages.push(if is_dns_subdomain(value) {
        "must not contain dots".to_owned()
    } else {
        mismatch(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
            LABEL_PATTERN,
            &["my-name", "123-abc"],
        )
    });
    messages
}

/// DNS labels with dots between: `example.com`. The rule for most objects' names.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain(value, "characters")
}

/// [`dns1123_subdomain`] with the messages of the format `k8s-long-name`, which say "bytes" instead
/// of "characters".
pub fn long_name(value: &str) -> Vec<String> {
    subdomain(value, "bytes")
}

/// `k8s-long-name-caseless`: DNS labels with dots between, in upper or lower case.
pub fn caseless_name(value: &str) -> Vec<String> {
    let mut messages = too_long(value, SUBDOMAIN_MAX, "bytes");
    if !is_dns_subdomain(&value.to_lowercase()) {
        messages.push(mismatch(
            "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN_PATTERN,
            &["Example.com"],
        ));
    }
    messages
}

/// [`dns1123_label`] with the messages of the format `k8s-short-name`, which say "bytes" instead of
/// "characters".
pub fn short_name(value: &str) -> Vec<String> {
    let mut messages = dns1123_label(value);
    if value.len() > LABEL_MAX {
        messages[0] = format!("must be no more than {LABEL_MAX} bytes");
    }
    messages
}

/// A DNS label that begins with a letter.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut messages = too_long(value, LABEL_MAX, "characters");
    if !is_dns_label(value) || !value.starts_with(|c: char| c.is_ascii_lowercase()) {
        messages.push(mismatch(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    messages
}

/// The name of a namespace.
pub fn namespace_name(value: &str) -> Vec<String> {
    dns1123_label(value)
}

/// The key of a label or of an annotation, or a finalizer: `example.com/MyName` or `MyName`.
pub fn qualified_name(value: &str) -> Vec<String> {
    const RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    const EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];
    let mut messages = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                mismatch(RULE, KEY_PATTERN, EXAMPLES)
            )];
        }
        Some(("", name)) => {
            messages.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            let found = subdomain(prefix, "bytes");
            messages.extend(found.into_iter().map(|message| format!("prefix part {message}")));
            name
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    }
    let found = too_long(name, LABEL_MAX, "bytes");
    messages.extend(found.into_iter().map(|message| format!("name part {message}")));
    if !is_key(name) {
        messages.push(format!("name part {}", mismatch(RULE, KEY_PATTERN, EXAMPLES)));
    }
    messages
}

/// The value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut messages = too_long(value, LABEL_MAX, "bytes");
    if !value.is_empty() && !is_key(value) {
        messages.push(mismatch(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({KEY_PATTERN})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    messages
}

/// A key of a `ConfigMap` or of a `Secret`.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut messages = too_long(value, SUBDOMAIN_MAX, "characters");
    if value.is_empty() || !value.bytes().all(is_key_byte) {
        messages.push(mismatch(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    // A key is the name of a file in a volume.
    match value {
        "." => messages.push("must not be '.'".to_owned()),
        ".." => messages.push("must not be '..'".to_owned()),
        _ if value.starts_with("..") => messages.push("must not start with '..'".to_owned()),
        _ => {}
    }
    messages
}

/// The name of an environment variable: anything printable but `=`.
pub fn env_var_name(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.is_empty() {
        messages.push("environment variable name must be non-empty".to_owned());
    }
    if value.bytes().any(|b| !(b' '..=b'~').contains(&b) || b == b'=') {
        messages.push("a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned());
    }
    messages
}

/// The name of a port: an IANA service name.
pub fn port_name(value: &str) -> Vec<String> {
    let mut messages = too_long(value, 15, "characters");
    let mut add_if = |wrong: bool, text: &str| {
        if wrong {
            messages.push(text.to_owned());
        }
    };
    add_if(
        value.is_empty() || !value.bytes().all(|b| b == b'-' || is_lower_alphanumeric(b)),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    add_if(
        !value.bytes().any(|b| b.is_ascii_lowercase()),
        "must contain at least one letter (a-z)",
    );
    add_if(value.contains("--"), "must not contain consecutive hyphens");
    add_if(value.starts_with('-') || value.ends_with('-'), "must not begin or end with a hyphen");
    messages
}

/// A name that must only be valid as a segment of a URL's path, such as that of a role.
pub fn path_segment(value: &str) -> Vec<String> {
    if matches!(value, "." | "..") {
        return vec![format!("may not be '{value}'")];
    }
    ["/", "%"]
        .into_iter()
        .filter(|part| value.contains(part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// A domain name of three or more parts, such as the name of a webhook. The caller must refuse an
/// empty name as a missing value.
pub fn fully_qualified_name(value: &str) -> Vec<String> {
    let messages = dns1123_subdomain(value);
    if !messages.is_empty() {
        return vec![messages.join(",")];
    }
    if value.split('.').count() < 3 {
        return vec![
            "should be a domain with at least three segments separated by dots".to_owned(),
        ];
    }
    messages
}

fn subdomain(value: &str, unit: &str) -> Vec<String> {
    let mut messages = too_long(value, SUBDOMAIN_MAX, unit);
    if !is_dns_subdomain(value) {
        messages.push(mismatch(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN_PATTERN,
            &["example.com"],
        ));
    }
    messages
}

/// `value` has more than `max` bytes. Upstream's older rules say "characters" but count bytes too.
fn too_long(value: &str, max: usize, unit: &str) -> Vec<String> {
    if value.len() > max { vec![format!("must be no more than {max} {unit}")] } else { Vec::new() }
}

fn mismatch(rule: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn is_dns_label(value: &str) -> bool {
    ends_match(value, is_lower_alphanumeric)
        && value.bytes().all(|b| b == b'-' || is_lower_alphanumeric(b))
}

fn is_dns_subdomain(value: &str) -> bool {
    value.split('.').all(is_dns_label)
}

fn is_key(value: &str) -> bool {
    ends_match(value, |b| b.is_ascii_alphanumeric()) && value.bytes().all(is_key_byte)
}

fn ends_match(value: &str, allowed: fn(u8) -> bool) -> bool {
    let bytes = value.as_bytes();
    bytes.first().is_some_and(|b| allowed(*b)) && bytes.last().is_some_and(|b| allowed(*b))
}

fn is_lower_alphanumeric(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn is_key_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The errors about `value` must start with `messages`, in this order.
    fn check(rule: NameRule, value: &str, messages: &[&str]) {
        let found = rule(value);
        let alike = found.len() == messages.len()
            && found.iter().zip(messages).all(|(a, b)| a.starts_with(b));
        assert!(alike, "{value:?}: {found:#?}");
    }

    #[test]
    fn dns_labels_and_subdomains_are_validated() {
        check(dns1123_label, "my-name", &[]);
        check(dns1123_label, "1", &[]);
        check(dns1123_label, "not.a.label", &["must not contain dots"]);
        check(dns1123_label, "-a", &["a lowercase RFC 1123 label must consist"]);
        check(dns1123_label, &"a".repeat(64), &["must be no more than 63 characters"]);
        check(dns1123_subdomain, "a.b-c.1", &[]);
        check(dns1123_subdomain, "a..b", &["a lowercase RFC 1123 subdomain"]);
        check(dns1123_subdomain, "", &["a lowercase RFC 1123 subdomain"]);
        check(dns1035_label, "a1", &[]);
        check(dns1035_label, "1a", &["a DNS-1035 label"]);
    }

    #[test]
    fn a_pattern_that_does_not_match_is_shown_with_examples() {
        assert_eq!(
            dns1035_label("W W"),
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert_eq!(
            label_value("a b"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
        assert_eq!(
            dns1123_subdomain("A_B"),
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
    }

    #[test]
    fn prefix_and_name_of_a_qualified_name_are_validated() {
        check(qualified_name, "example.com/My_Name.1", &[]);
        check(qualified_name, "x", &[]);
        check(qualified_name, "a b", &["name part must consist of"]);
        check(qualified_name, "a/b/c", &["a valid label key must consist of"]);
        check(qualified_name, "/b", &["prefix part must be non-empty"]);
        check(qualified_name, "A/b", &["prefix part a lowercase RFC 1123 subdomain"]);
        check(qualified_name, "a/", &["name part must be non-empty", "name part must consist of"]);
        check(qualified_name, &"a".repeat(64), &["name part must be no more than 63 bytes"]);
    }

    #[test]
    fn label_values_and_config_map_keys_are_validated() {
        check(label_value, "", &[]);
        check(label_value, "-x", &["a valid label must be"]);
        check(config_map_key, "..data", &["must not start with '..'"]);
        check(config_map_key, "..", &["must not be '..'"]);
        check(config_map_key, ".hidden", &[]);
        check(config_map_key, "a/b", &["a valid config key must consist"]);
    }

    #[test]
    fn port_names_variables_and_path_segments_are_validated() {
        check(port_name, "http-2", &[]);
        check(port_name, "80", &["must contain at least one letter"]);
        check(port_name, "-a--", &["must not contain consecutive", "must not begin or end"]);
        check(port_name, "", &["must contain only", "must contain at least one"]);
        check(env_var_name, "MY VAR", &[]);
        check(env_var_name, "A=B", &["a valid environment variable name"]);
        check(env_var_name, "ä", &["a valid environment variable name"]);
        check(path_segment, "system:node", &[]);
        check(path_segment, "..", &["may not be '..'"]);
        check(path_segment, "a/b%", &["may not contain '/'", "may not contain '%'"]);
    }

    #[test]
    fn a_fully_qualified_name_has_at_least_three_parts() {
        check(fully_qualified_name, "a.b.c", &[]);
        check(fully_qualified_name, "a.b", &["should be a domain with at least three"]);
        check(fully_qualified_name, "A.b.c", &["a lowercase RFC 1123 subdomain"]);
    }
}
