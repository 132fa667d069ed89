//! [`Challenge`]: how a registry wants to be authenticated to.
//!
//! ```text
//! WWW-Authenticate: Bearer realm="https://auth.example.com/token",service="registry.example.com"
//! WWW-Authenticate: Basic realm="registry"
//! ```

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// See the [module documentation](self).
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User and password with each request.
    Basic,
    /// A token of the server `realm`.
    Bearer { realm: String, service: Option<String> },
}

impl Challenge {
    /// The challenge in the headers of a response; a token is preferred to a password.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).into_iter();
        let mut challenges: Vec<Self> =
            values.filter_map(|value| Self::parse(value.to_str().ok()?)).collect();
        let bearer = challenges.iter().position(|one| matches!(one, Self::Bearer { .. }));
        if challenges.is_empty() { None } else { Some(challenges.remove(bearer.unwrap_or(0))) }
    }

    fn parse(text: &str) -> Option<Self> {
        let (scheme, parameters) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service) = (None, None);
        for (name, value) in parameters_of(parameters) {
            match name.to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                _ => {}
            }
        }
        Some(Self::Bearer { realm: realm?, service })
    }
}

/// The parameters of a challenge: `name="value"` or `name=value`, with commas between.
fn parameters_of(text: &str) -> Vec<(String, String)> {
    let (mut parameters, mut rest) = (Vec::new(), text);
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([',', ' ']).to_owned();
        let mut value = String::new();
        let mut end = after.len();
        if let Some(quoted) = after.strip_prefix('"') {
            let mut is_escaped = false;
            for (index, char) in quoted.char_indices() {
                match char {
                    '\\' if !is_escaped => is_escaped = true,
                    '"' if !is_escaped => {
                        end = index + 2;
                        break;
                    }
                    _ => {
                        value.push(char);
                        is_escaped = false;
                    }
                }
            }
        } else {
            end = after.find(',').unwrap_or(after.len());
            after[..end].trim().clone_into(&mut value);
        }
        parameters.push((name, value));
        rest = &after[end..];
    }
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(values: &[&'static str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, http::HeaderValue::from_static(value));
        }
        Challenge::of(&headers)
    }

    fn bearer(realm: &str, service: Option<&str>) -> Challenge {
        let service = service.map(str::to_owned);
        Challenge::Bearer { realm: realm.to_owned(), service }
    }

    #[test]
    fn a_token_is_preferred() {
        let both = ["Basic realm=\"a\"", "Bearer realm=\"https://a/t\",service=\"s\""];
        assert_eq!(challenge(&both), Some(bearer("https://a/t", Some("s"))));
        assert_eq!(challenge(&["basic"]), Some(Challenge::Basic));
        assert_eq!(challenge(&["Negotiate"]), None);
        assert_eq!(challenge(&[]), None);
    }

    #[test]
    fn parameters_are_quoted_or_not() {
        let scope = "bearer service=s , scope=\"a:b:pull,push\", realm=\"https://a/\\\"t\"";
        assert_eq!(challenge(&[scope]), Some(bearer("https://a/\"t", Some("s"))));
        assert_eq!(challenge(&["Bearer realm=\"https://a"]), Some(bearer("https://a", None)));
        assert_eq!(challenge(&["Bearer service=\"s\""]), None);
    }
}
