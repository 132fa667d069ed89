//! The values of request headers as text.
//!
//! Go's HTTP server passes the bytes of a header on unchanged, and Kubernetes interprets them as
//! UTF-8. A value that is not UTF-8 is never treated as an absent header, since that would ignore
//! an intention of the client.

use std::borrow::Cow;
use std::str;

use http::header::{HeaderMap, HeaderValue};

use machinery::Status;

/// The text of a header that affects authorization. A value that is not UTF-8 is rejected.
pub(crate) fn to_utf8<'a>(name: &str, value: &'a HeaderValue) -> Result<&'a str, Status> {
    str::from_utf8(value.as_bytes())
        .map_err(|_| Status::bad_request(format!("the header {name} is not valid UTF-8")))
}

/// The first value of a header that is compared with known values, or "". Bytes that are not UTF-8
/// become replacement characters, which no known value contains, so that the header matches
/// nothing.
pub(crate) fn first(headers: &HeaderMap, name: impl http::header::AsHeaderName) -> Cow<'_, str> {
    headers.get(name).map_or(Cow::Borrowed(""), |it| String::from_utf8_lossy(it.as_bytes()))
}

/// The size of the names and values of all headers.
pub(crate) fn size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

/// The error for an invalid `Host` header of an HTTP/1 request, with the text of Go's server.
pub(crate) fn host_error(version: http::Version, headers: &HeaderMap) -> Option<&'static str> {
    if version > http::Version::HTTP_11 {
        return None;
    }
    let mut hosts = headers.get_all(http::header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version == http::Version::HTTP_11 => {
            Some("400 Bad Request: missing required Host header")
        }
        (Some(_), Some(_)) => Some("400 Bad Request: too many Host headers"),
        (Some(host), None) if !host.as_bytes().iter().all(|it| is_host_byte(*it)) => {
            Some("400 Bad Request: malformed Host header")
        }
        _ => None,
    }
}

/// Upstream: golang.org/x/net/http/httpguts `ValidHostHeader`.
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use http::Version;

    use super::*;

    fn check(hosts: &[&[u8]], version: Version, expect: Option<&str>) {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append("host", HeaderValue::from_bytes(host).unwrap());
        }
        let found =
            host_error(version, &headers).map(|it| it.trim_start_matches("400 Bad Request: "));
        assert_eq!(found, expect, "{hosts:?}");
    }

    #[test]
    fn an_http_1_request_has_one_well_formed_host() {
        check(&[b"[::1]:6443"], Version::HTTP_11, None);
        check(&[b""], Version::HTTP_11, None);
        check(&[], Version::HTTP_11, Some("missing required Host header"));
        check(&[], Version::HTTP_10, None);
        check(&[], Version::HTTP_2, None);
        check(&[b"a", b"b"], Version::HTTP_11, Some("too many Host headers"));
        check(&[b"\xff"], Version::HTTP_11, Some("malformed Host header"));
        check(&[b"a/b"], Version::HTTP_11, Some("malformed Host header"));
    }

    #[test]
    fn a_value_that_is_not_utf_8_is_not_treated_as_absent() {
        let value = HeaderValue::from_bytes("jörg".as_bytes()).unwrap();
        assert_eq!(to_utf8("x", &value).unwrap(), "jörg");
        let latin = HeaderValue::from_bytes(b"j\xf6rg").unwrap();
        assert_eq!(to_utf8("x", &latin).unwrap_err().code, 400);
        let mut headers = HeaderMap::new();
        assert_eq!(first(&headers, "accept"), "");
        headers.insert("accept", latin);
        assert_eq!(first(&headers, "accept"), "j\u{fffd}rg");
    }
}
