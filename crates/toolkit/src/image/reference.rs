//! [`Reference`]: the name of an image: registry, repository and tag.
//!
//! ```text
//! registry.example.com:5000/team/operator-demo:v1
//! └──── registry ─────────┘ └─ repository ───┘ └ tag
//! ```

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::uri::Authority;

/// The name of an image. As in other tools, the first part is a registry if it has a dot or a port, or
/// is `localhost`.
///
/// ```
/// use toolkit::Reference;
///
/// let name: Reference = "localhost:5000/team/demo:v1".parse()?;
/// assert_eq!(name.registry.as_deref(), Some("localhost:5000"));
/// assert_eq!((name.repository.as_str(), name.tag.as_deref()), ("team/demo", Some("v1")));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The host of the registry, with its port.
    pub registry: Option<String>,
    /// The repository in the registry.
    pub repository: String,
    /// The tag.
    pub tag: Option<String>,
}

impl Reference {
    /// The name with a tag: its own one, or one made of the version of a project.
    pub(crate) fn with_default_tag(&self, version: &str) -> Self {
        // A version may have a plus sign, and a tag may not.
        let tag = self.tag.clone().unwrap_or_else(|| version.replace('+', "-"));
        Self { tag: Some(tag), ..self.clone() }
    }
}

impl FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "a name is like registry.example.com/team/demo:v1";
        if text.contains('@') {
            return Err(format!("an image gets its digest when it is built; {example}"));
        }
        let (registry, path) = match text.split_once('/') {
            Some((host, path)) if is_host(host) => (Some(host.to_owned()), path),
            _ => (None, text),
        };
        let (repository, tag) = match path.rsplit_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (path, None),
        };
        if let Some(registry) = &registry {
            check_registry(registry)?;
        }
        if let Some(part) = repository.split('/').find(|part| !is_path_component(part)) {
            return Err(format!(
                "{part:?} in the repository {repository:?} is not valid: it has lower case letters \
                 and digits, with single dots or dashes between; {example}"
            ));
        }
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            return Err(format!("the tag {tag:?} is not valid; {example}"));
        }
        let tag = tag.map(str::to_owned);
        Ok(Self { registry, repository: repository.to_owned(), tag })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(registry) = &self.registry {
            write!(f, "{registry}/")?;
        }
        f.write_str(&self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        Ok(())
    }
}

fn is_host(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':'])
}

/// Checks the host of a registry, with or without a port.
pub(crate) fn check_registry(registry: &str) -> Result<(), String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    let is_host_and_port = |authority: &Authority| {
        let host = authority.host();
        let port = authority.port_u16().map(|port| format!("{host}:{port}"));
        !host.is_empty() && registry == port.as_deref().unwrap_or(host)
    };
    match registry.parse::<Authority>() {
        Ok(authority) if registry.bytes().all(is_allowed) && is_host_and_port(&authority) => Ok(()),
        _ => Err(format!(
            "{registry:?} is not a registry: name its host, such as registry.example.com:5000, \
             without https:// and without a path"
        )),
    }
}

/// Whether the registry is on this machine.
pub(crate) fn is_loopback(registry: &str) -> bool {
    let authority = registry.parse::<Authority>();
    let Ok(host) = authority.map(|authority| authority.host().trim_matches(['[', ']']).to_owned())
    else {
        return false;
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_path_component(part: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = part.bytes().next().zip(part.bytes().last());
    let are_ends_alphanumeric =
        ends.is_some_and(|(first, last)| is_alphanumeric(&first) && is_alphanumeric(&last));
    let separators = part.split(|char: char| char.is_ascii_alphanumeric());
    let is_separator =
        |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|byte| byte == b'-');
    are_ends_alphanumeric
        && !part.bytes().any(|byte| byte.is_ascii_uppercase())
        && separators.into_iter().all(is_separator)
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_registry_a_repository_and_a_tag() {
        let parts = |text: &str| {
            let name: Reference = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
            (name.registry, name.repository, name.tag)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parts("demo"), (None, "demo".to_owned(), None));
        assert_eq!(parts("team/demo:v1"), (None, "team/demo".to_owned(), some("v1")));
        assert_eq!(
            parts("[::1]:5000/a__b/c-d:1.0"),
            (some("[::1]:5000"), "a__b/c-d".to_owned(), some("1.0"))
        );
        assert_eq!(parts("localhost/demo"), (some("localhost"), "demo".to_owned(), None));
    }

    #[test]
    fn names_that_are_not_valid_are_refused() {
        let digest = format!("registry.example.com/demo@sha256:{}", "0".repeat(64));
        for text in [
            "",
            "Demo",
            "a//b",
            "demo:",
            "demo:-v1",
            "a..b",
            "a___b",
            "-a",
            "a-",
            &digest,
            "https://registry.example.com/demo",
            "user@registry.example.com/demo",
            "a.b:x/demo",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        for registry in ["localhost", "localhost:5000", "127.0.0.1:5000", "127.1.2.3", "[::1]:5000"]
        {
            assert!(is_loopback(registry), "{registry}");
        }
        for registry in ["127.0.0.1.example.com", "localhost.example.com", "10.0.0.1:5000"] {
            assert!(!is_loopback(registry), "{registry}");
        }
    }

    #[test]
    fn the_default_tag_is_the_version() {
        let name: Reference = "demo".parse().unwrap();
        assert_eq!(name.with_default_tag("1.0.0+a").to_string(), "demo:1.0.0-a");
    }
}
