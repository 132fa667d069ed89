//! Reads the bearer token of a request from the `Authorization` header, or from a WebSocket
//! subprotocol, since browsers cannot set that header for a WebSocket.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue};

use machinery::Status;

/// The prefix of a subprotocol that contains a token in base64.
const TOKEN_PROTOCOL_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// The token in the first `Authorization` header. None if the header has another scheme or no token.
///
/// Upstream: authentication/request/bearertoken. The token ends at the first space; one that is not
/// UTF-8 is refused like an unknown token.
pub(super) fn header(headers: &HeaderMap) -> Result<Option<&str>, Status> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let mut parts = value.as_bytes().trim_ascii().splitn(3, |it| *it == b' ');
    let (Some(scheme), Some(token)) = (parts.next(), parts.next()) else { return Ok(None) };
    if !scheme.eq_ignore_ascii_case(b"bearer") || token.is_empty() {
        return Ok(None);
    }
    std::str::from_utf8(token).map(Some).map_err(|_| Status::unauthorized())
}

/// Whether the token is missing only because there are several spaces before it.
pub(super) fn has_extra_space(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(AUTHORIZATION) else { return false };
    let mut parts = value.as_bytes().trim_ascii().splitn(3, |it| *it == b' ');
    let is_bearer = parts.next().is_some_and(|it| it.eq_ignore_ascii_case(b"bearer"));
    is_bearer && parts.next() == Some(b"") && parts.next().is_some()
}

/// The token in a subprotocol of a request for a WebSocket.
///
/// Upstream: authentication/request/websocket. The request must have exactly one token, and another
/// subprotocol, which the server can choose.
pub(super) fn websocket_protocol(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>, Status> {
    if !is_websocket(headers) {
        return Ok(None);
    }
    let mut token = None;
    let mut others = 0;
    for value in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
        for protocol in String::from_utf8_lossy(value.as_bytes()).split(',') {
            let Some(encoded) = protocol.trim().strip_prefix(TOKEN_PROTOCOL_PREFIX) else {
                others += 1;
                continue;
            };
            let decoded = BASE64_URL_SAFE_NO_PAD.decode(encoded).ok();
            let decoded = decoded.and_then(|it| String::from_utf8(it).ok());
            // A second token is refused, like one that cannot be decoded.
            if token.is_some() || decoded.is_none() {
                return Err(Status::unauthorized());
            }
            token = decoded;
        }
    }
    match token.filter(|it| !it.is_empty()) {
        Some(_) if others == 0 => Err(Status::unauthorized()),
        token => Ok(token.map(Cow::Owned)),
    }
}

/// The subprotocols of a request without tokens; None if it has no others.
///
/// Upstream: authentication/request/websocket, which removes the token after reading it.
pub(crate) fn protocols_without_token(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut remaining: Vec<&[u8]> = Vec::new();
    for value in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
        let protocols = value.as_bytes().split(|it| *it == b',').map(<[u8]>::trim_ascii);
        remaining.extend(protocols.filter(|it| !it.starts_with(TOKEN_PROTOCOL_PREFIX.as_bytes())));
    }
    let joined = remaining.join(&b","[..]);
    HeaderValue::from_bytes(&joined).ok().filter(|it| !it.is_empty())
}

fn is_websocket(headers: &HeaderMap) -> bool {
    let is = |value: &str, word: &str| value.trim().eq_ignore_ascii_case(word);
    let connection = crate::http::headers::first(headers, CONNECTION);
    is(&crate::http::headers::first(headers, UPGRADE), "websocket")
        && connection.split(',').any(|it| is(it, "upgrade"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(values: &[&[u8]]) -> Result<Option<String>, u16> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
        }
        header(&headers).map(|it| it.map(ToOwned::to_owned)).map_err(|it| it.code)
    }

    #[test]
    fn a_token_is_the_second_word_of_the_first_header() {
        for one in ["Bearer t", "bearer t", " BEARER t ", "Bearer t u v"] {
            assert_eq!(bearer(&[one.as_bytes()]), Ok(Some("t".to_owned())), "{one}");
        }
        assert_eq!(bearer(&[b"Bearer t", b"Bearer u"]), Ok(Some("t".to_owned())));
        assert_eq!(bearer(&["Bearer tö".as_bytes()]), Ok(Some("tö".to_owned())));
        for none in [&b""[..], b"Bearer", b"Bearer  t", b"Basic t", b"\xff t", b"Bearer\xc3\xa9 t"]
        {
            assert_eq!(bearer(&[none]), Ok(None), "{none:?}");
        }
        assert_eq!(bearer(&[b"Basic t", b"Bearer u"]), Ok(None));
    }

    #[test]
    fn spaces_before_a_token_are_noticed() {
        for (value, expected) in [
            ("Bearer  t", true),
            ("bearer   t", true),
            ("Bearer t", false),
            ("Bearer", false),
            ("Basic  t", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            assert_eq!(has_extra_space(&headers), expected, "{value:?}");
        }
    }

    #[test]
    fn a_token_that_is_not_utf_8_is_refused() {
        assert_eq!(bearer(&[b"Bearer \xff"]), Err(401));
    }

    fn protocols(upgrade: &str, values: &[&str]) -> Result<Option<String>, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(UPGRADE, upgrade.parse().unwrap());
        headers.insert(CONNECTION, "keep-alive, Upgrade".parse().unwrap());
        for value in values {
            headers.append(SEC_WEBSOCKET_PROTOCOL, value.parse().unwrap());
        }
        websocket_protocol(&headers).map(|it| it.map(Cow::into_owned)).map_err(|it| it.code)
    }

    #[test]
    fn a_websocket_may_have_its_token_in_a_subprotocol() {
        let token = format!("{TOKEN_PROTOCOL_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode("t"));
        let both = format!("{token}, v4.channel.k8s.io");
        assert_eq!(protocols("websocket", &[&both]), Ok(Some("t".to_owned())));
        assert_eq!(protocols("WebSocket", &[&token, "v4"]), Ok(Some("t".to_owned())));
        assert_eq!(protocols("h2c", &[&both]), Ok(None));
        assert_eq!(protocols("websocket", &["v4"]), Ok(None));
        for bad in [&token, &format!("{TOKEN_PROTOCOL_PREFIX}!!,v4"), &format!("{both},{token}")] {
            assert_eq!(protocols("websocket", &[bad]), Err(401), "{bad}");
        }
        let latin = format!("{TOKEN_PROTOCOL_PREFIX}{},v4", BASE64_URL_SAFE_NO_PAD.encode([0xff]));
        assert_eq!(protocols("websocket", &[&latin]), Err(401));
    }
}
