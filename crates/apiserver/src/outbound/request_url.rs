//! The URLs of requests to webhooks, which are those of client-go.
//!
//! client-go joins the path of a configuration with its own, which cleans it: repeated slashes, `.`,
//! `..` and a slash at the end are removed. Query and fragment are dropped.
//!
//! ```text
//! https://localhost:9443//validate/   https://localhost:9443/validate
//! ```
//!
//! Upstream: `client-go/rest/request.go` `NewRequest`, `URL`.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use cel::go_url::Url;

/// The bytes that Go escapes in a path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// The URL for the `url` in a `clientConfig`. One that cannot be parsed is returned unchanged.
pub(super) fn of_client_config(url: &str) -> String {
    let Ok(parsed) = Url::parse(url) else { return url.to_owned() };
    let path = parsed.escaped_path();
    let path: Cow<'_, [u8]> = percent_decode_str(&path).into();
    join(&origin(&parsed), &path)
}

/// The URL for the `server` in a kubeconfig. Unlike that of a `clientConfig`, a clean path is not
/// escaped again. One that cannot be parsed is returned unchanged.
pub(super) fn of_server(server: &str) -> String {
    let Ok(parsed) = Url::parse(server) else { return server.to_owned() };
    let escaped = parsed.escaped_path();
    let path: Cow<'_, [u8]> = percent_decode_str(&escaped).into();
    if clean(&path) == *path {
        return origin(&parsed) + &escaped;
    }
    join(&origin(&parsed), &path)
}

/// The URL with this path, which is not escaped.
pub(super) fn join(origin: &str, path: &[u8]) -> String {
    format!("{origin}{}", percent_encode(&clean(path), ESCAPED))
}

fn origin(url: &Url) -> String {
    format!("{}://{}", url.scheme, url.host())
}

/// Go's `path.Join("/", path)`.
fn clean(path: &[u8]) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in path.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    [b"/".as_slice(), &segments.join(&b'/')].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cleaned_as_by_client_go() {
        for (url, expected) in [
            ("https://a.b:8443", "https://a.b:8443/"),
            ("https://a.b/c/d", "https://a.b/c/d"),
            ("https://a.b//c", "https://a.b/c"),
            ("https://a.b/c/", "https://a.b/c"),
            ("https://a.b/c/./../../d//", "https://a.b/d"),
            ("https://[::1]:1/c", "https://[::1]:1/c"),
        ] {
            assert_eq!(of_client_config(url), expected);
            assert_eq!(of_server(url), expected);
        }
        assert_eq!(of_server("https://a/c?d=e#f"), "https://a/c");
        assert_eq!(of_client_config("https:// a"), "https:// a");
    }

    #[test]
    fn a_path_is_escaped_as_by_client_go() {
        assert_eq!(of_client_config("https://a/%41b%2Fc d"), "https://a/Ab/c%20d");
        assert_eq!(of_server("https://a/b%2Fc"), "https://a/b%2Fc");
        assert_eq!(of_server("https://a//b%2Fc"), "https://a/b/c");
        assert_eq!(join("https://a", "b%41?é".as_bytes()), "https://a/b%2541%3F%C3%A9");
    }
}
