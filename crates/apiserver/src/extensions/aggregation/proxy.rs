//! Forwards a request to an aggregated server, in the name of its user.

use bytes::Bytes;
use futures_util::stream;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue,
    LOCATION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts as Head;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Aggregation, RemoteApiService};
use crate::auth::authentication::{User, protocols_without_token};
use crate::http::body::{Body, Truncated};
use crate::http::deadline::Deadline;
use crate::http::response;
use crate::outbound::Destination;
use crate::outbound::service::ServiceError;

/// Request headers that are not forwarded, besides those of [`HOP_BY_HOP`]. Subprotocols are forwarded
/// without a bearer token among them.
const NOT_FORWARDED: [HeaderName; 4] =
    [AUTHORIZATION, CONTENT_LENGTH, HOST, SEC_WEBSOCKET_PROTOCOL];

/// Hop-by-hop headers, besides those that `Connection` names.
// Upstream: hopHeaders of Go's httputil.ReverseProxy.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The body of the response that replaces a redirect.
const REDIRECTED: &str = "the backend attempted to redirect this request, which is not permitted";

/// The characters that are not escaped in the key of a user's extra field.
const UNESCAPED_IN_KEY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl Aggregation {
    /// Forwards a request and streams back the response of the aggregated server.
    pub(crate) async fn forward(
        &self,
        remote: &RemoteApiService,
        user: &User,
        head: &Head,
        body: Bytes,
    ) -> Response<Body> {
        if !remote.available {
            return response::text(503, "service unavailable\n");
        }
        let Ok(to) = self.destination(remote) else {
            return response::text(503, "service unavailable\n");
        };
        let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let request = Request::builder()
            .method(head.method.clone())
            .uri(format!("{}{path}", remote.service.origin()))
            .body(body);
        let Ok(mut request) = request else { return response::text(400, "bad address\n") };
        let Some(mut headers) = headers(&head.headers, user) else {
            return response::text(500, "the user cannot be written as headers\n");
        };
        add_forwarded(&mut headers, to.addresses.first(), head.uri.path());
        *request.headers_mut() = headers;
        if let Some(service) = self.in_process_service(remote) {
            return in_process_response(service(request).await);
        }
        let request = request.map(Full::new);
        match self.storage.outbound.open(&to, request, Deadline::of(head)).await {
            // Upstream: a client that follows a redirect would send its credentials to its target.
            Ok(response) if is_redirect(&response) => response::text(502, REDIRECTED),
            Ok(response) => forward_response(response),
            Err(error) => response::text(503, &format!("error trying to reach service: {error}\n")),
        }
    }

    /// The addresses of a version's server, the trust in it, and this server's client certificate.
    pub(super) fn destination(
        &self,
        remote: &RemoteApiService,
    ) -> Result<Destination, ServiceError> {
        if self.in_process_service(remote).is_some() {
            return Ok(Destination::of_url(String::new(), remote.trust.clone()));
        }
        let mut to = remote.service.destination(&*self.storage, remote.trust.clone())?;
        to.identity = Some((**self.identity.load()).clone());
        Ok(to)
    }
}

/// Sets the headers of a reverse proxy. Upstream: `apimachinery/pkg/util/proxy/transport.go`; the
/// host is that of the aggregated server, to which the request has been redirected before.
fn add_forwarded(headers: &mut HeaderMap, address: Option<&String>, path: &str) {
    let host = address.map_or("", String::as_str);
    let values = [("host", host), ("proto", "https"), ("uri", path)];
    for (name, value) in values.into_iter().filter(|(_, value)| !value.is_empty()) {
        let name = HeaderName::from_bytes(format!("x-forwarded-{name}").as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
}

/// Whether the response is a redirect with a location.
fn is_redirect(response: &Response<Incoming>) -> bool {
    response.status().is_redirection() && response.headers().contains_key(LOCATION)
}

/// The headers of the forwarded request: the user replaces the credentials. None if a part of the user
/// cannot be written as a header, since the other server must not authorize without it.
pub(super) fn headers(incoming: &HeaderMap, user: &User) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(incoming.len() + 4);
    for (name, value) in incoming {
        let text = name.as_str();
        let claims_identity = text.starts_with("x-remote-") || text.starts_with("impersonate-");
        if !claims_identity && !NOT_FORWARDED.contains(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    remove_hop_by_hop(&mut headers);
    if let Some(protocols) = protocols_without_token(incoming) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocols);
    }
    let mut add = |name: String, value: &str| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        // From bytes, so that text that is not ASCII is sent in UTF-8.
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).ok()?);
        Some(())
    };
    add("x-remote-user".to_owned(), &user.name)?;
    if !user.uid.is_empty() {
        add("x-remote-uid".to_owned(), &user.uid)?;
    }
    for group in &user.groups {
        add("x-remote-group".to_owned(), group)?;
    }
    for (key, values) in &user.extra {
        let key = utf8_percent_encode(&key.to_lowercase(), UNESCAPED_IN_KEY).to_string();
        for value in values {
            add(format!("x-remote-extra-{key}"), value)?;
        }
    }
    Some(headers)
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let values: Vec<HeaderValue> = headers.get_all(CONNECTION).iter().cloned().collect();
    let named = values.iter().flat_map(|it| it.as_bytes().split(|it| *it == b','));
    for name in named.filter_map(|it| HeaderName::from_bytes(it.trim_ascii()).ok()) {
        headers.remove(name);
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

/// The response of a service of this process.
fn in_process_response(response: Response<Bytes>) -> Response<Body> {
    let mut response = response.map(Body::Shared);
    response::set_not_cacheable(response.headers_mut());
    response
}

/// The response for the client, whose body is streamed.
fn forward_response(response: Response<Incoming>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    remove_hop_by_hop(&mut head.headers);
    // Upstream: this server's header precedes that of the aggregated server.
    let cache_control: Vec<HeaderValue> =
        head.headers.get_all(CACHE_CONTROL).iter().cloned().collect();
    response::set_not_cacheable(&mut head.headers);
    for value in cache_control {
        head.headers.append(CACHE_CONTROL, value);
    }
    let body = stream::unfold(Some(body), |body| async move {
        let mut body = body?;
        loop {
            match body.frame().await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Some((Ok(data), Some(body)));
                    }
                }
                Err(_) => return Some((Err(Truncated), None)),
            }
        }
    });
    let mut forwarded = Response::new(Body::try_stream(body));
    *forwarded.status_mut() = head.status;
    *forwarded.headers_mut() = head.headers;
    forwarded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_headers_of_the_client_are_not_forwarded() {
        let mut incoming = HeaderMap::new();
        incoming.insert("authorization", HeaderValue::from_static("Bearer secret"));
        incoming.insert("x-remote-user", HeaderValue::from_static("root"));
        incoming.insert("x-remote-extra-scopes", HeaderValue::from_static("all"));
        incoming.insert("impersonate-user", HeaderValue::from_static("root"));
        incoming.insert("accept", HeaderValue::from_static("application/json"));
        let mut user = User::authenticated("alice", "7", vec!["dev".to_owned()]);
        user.extra.insert("Example.org/scope".to_owned(), vec!["view".to_owned()]);
        let headers = headers(&incoming, &user).unwrap();
        assert_eq!(headers["x-remote-user"], "alice");
        assert_eq!(headers["x-remote-uid"], "7");
        let groups: Vec<_> = headers.get_all("x-remote-group").iter().collect();
        assert_eq!(groups, ["dev", "system:authenticated"]);
        assert_eq!(headers["x-remote-extra-example.org%2fscope"], "view");
        assert_eq!(headers["accept"], "application/json");
        assert!(!headers.contains_key("authorization"));
        assert!(!headers.contains_key("impersonate-user"));
        assert!(!headers.contains_key("x-remote-extra-scopes"));
    }

    /// The forwarded values of a header that the request has in these lines.
    fn forwarded(name: &'static str, lines: &[&'static str]) -> Vec<String> {
        let mut incoming = HeaderMap::new();
        incoming.insert("connection", HeaderValue::from_static("upgrade, X-Hop"));
        for line in lines {
            incoming.append(name, HeaderValue::from_static(line));
        }
        let forwarded = headers(&incoming, &User::authenticated("alice", "", Vec::new())).unwrap();
        forwarded.get_all(name).iter().map(|it| it.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_token_in_a_subprotocol_is_not_forwarded() {
        let check = |lines: &[&'static str], expected: &[&str]| {
            assert_eq!(forwarded("sec-websocket-protocol", lines), expected);
        };
        check(&["v4.channel.k8s.io,v5"], &["v4.channel.k8s.io,v5"]);
        check(&["base64url.bearer.authorization.k8s.io.dA, v4,v5"], &["v4,v5"]);
        check(&["v4, base64url.bearer.authorization.k8s.io.dA", "v5"], &["v4,v5"]);
        check(&["base64url.bearer.authorization.k8s.io.dA"], &[]);
    }

    #[test]
    fn hop_by_hop_headers_are_not_forwarded() {
        for name in ["proxy-authorization", "proxy-connection", "keep-alive", "x-hop"] {
            assert_eq!(forwarded(name, &["secret"]), [""; 0], "{name}");
        }
        assert_eq!(forwarded("x-other", &["a", "b"]), ["a", "b"]);
    }

    #[test]
    fn a_user_is_forwarded_completely_or_not_at_all() {
        let user = User::authenticated("jörg", "", vec!["entwickler·innen".to_owned()]);
        let forwarded = headers(&HeaderMap::new(), &user).unwrap();
        assert_eq!(forwarded["x-remote-user"].as_bytes(), "jörg".as_bytes());
        assert_eq!(forwarded["x-remote-group"].as_bytes(), "entwickler·innen".as_bytes());
        let user = User::authenticated("alice", "", vec!["two\nlines".to_owned()]);
        assert_eq!(headers(&HeaderMap::new(), &user), None);
    }
}
