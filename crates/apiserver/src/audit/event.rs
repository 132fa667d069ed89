//! [`Event`]: the `audit.k8s.io/v1` Event of a request. The parts that all stages of a request share
//! are encoded once; a stage copies them.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderMap;
use http::header::{HeaderName, USER_AGENT};
use http::request::Parts as Head;
use serde::Serialize;

use super::policy::{Level, Stage};
use crate::auth::authentication::User;
use crate::auth::authorization::Attributes;
use crate::http::headers;
use keel::Timestamp;
use machinery::codec::json;
use machinery::{Status, timestamp};

/// The maximum length of a user agent. Upstream: `maxUserAgentLength`.
const MAX_USER_AGENT: usize = 1024;

/// The header with the addresses of the client and of proxies.
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The header with the address of the client, as a proxy knows it.
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// See the [module documentation](self). The fields hold JSON unless their documentation says
/// otherwise.
#[derive(Debug, Default)]
pub(super) struct Event {
    /// The fields `requestURI`, `verb` and `user`.
    request: Vec<u8>,
    /// The fields `impersonatedUser` and `authenticationMetadata`, or nothing.
    impersonation: Vec<u8>,
    /// The fields `sourceIPs` and `userAgent`, each if there is one.
    client: Vec<u8>,
    /// Not encoded yet, since the object of the request completes it.
    pub object_ref: Option<ObjectReference>,
    /// The `responseStatus`.
    pub response_status: Option<ResponseStatus>,
    /// The `requestObject`.
    pub request_object: Option<Vec<u8>>,
    /// The `responseObject`.
    pub response_object: Option<Vec<u8>>,
    /// Not encoded yet, since annotations are added until the end.
    pub annotations: Annotations,
}

/// The `responseStatus` of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResponseStatus {
    /// That of a response without a Status.
    Code(u16),
    /// As JSON.
    Encoded(Cow<'static, [u8]>),
}

impl ResponseStatus {
    fn size(&self) -> usize {
        match self {
            Self::Code(_) => 0,
            Self::Encoded(bytes) => bytes.len(),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Code(code) => write_code(out, None, *code),
            Self::Encoded(bytes) => out.extend_from_slice(bytes),
        }
    }
}

impl From<Vec<u8>> for ResponseStatus {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Encoded(bytes.into())
    }
}

/// The annotations of an event, in the order of their keys. Those of most requests are constant.
#[derive(Debug, Default)]
pub(super) struct Annotations(Vec<(Cow<'static, str>, Cow<'static, str>)>);

impl Annotations {
    /// Adds an annotation, unless the key has a value. The error is the key if that is another one.
    pub(super) fn add(
        &mut self,
        key: Cow<'static, str>,
        value: Cow<'static, str>,
    ) -> Result<(), Cow<'static, str>> {
        match self.0.binary_search_by(|(present, _)| present.cmp(&key)) {
            Ok(index) if self.0[index].1 == value => Ok(()),
            Ok(_) => Err(key),
            Err(index) => {
                self.0.insert(index, (key, value));
                Ok(())
            }
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        for (index, (key, value)) in self.0.iter().enumerate() {
            out.push(if index == 0 { b'{' } else { b',' });
            json::write_text(out, key);
            out.push(b':');
            json::write_text(out, value);
        }
        out.push(b'}');
    }
}

/// The initial capacity for the constant parts of an event, so that they seldom grow.
const REQUEST_CAPACITY: usize = 512;

/// Like [`REQUEST_CAPACITY`], for the addresses and the user agent.
const CLIENT_CAPACITY: usize = 192;

/// The object of a request.
#[derive(Debug, Default)]
pub(super) struct ObjectReference {
    resource: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    api_group: String,
    api_version: String,
    pub resource_version: String,
    subresource: String,
}

impl ObjectReference {
    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        for (name, text) in [
            ("resource", &self.resource),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("uid", &self.uid),
            ("apiGroup", &self.api_group),
            ("apiVersion", &self.api_version),
            ("resourceVersion", &self.resource_version),
            ("subresource", &self.subresource),
        ] {
            if !text.is_empty() {
                text_field(out, name, text);
            }
        }
        close_object(out, start);
    }
}

/// Appends the user of an event.
fn write_user(out: &mut Vec<u8>, user: &User) {
    let start = out.len();
    for (name, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            text_field(out, name, text);
        }
    }
    if !user.groups.is_empty() {
        begin_field(out, "groups");
        write_texts(out, &user.groups);
    }
    if !user.extra.is_empty() {
        field(out, "extra", &user.extra);
    }
    close_object(out, start);
}

impl Event {
    /// The event of a request. `address` is that of the client, unless it is in this process.
    pub(super) fn new(attributes: &Attributes<'_>, head: &Head, address: Option<IpAddr>) -> Self {
        let mut event = Self {
            request: Vec::with_capacity(REQUEST_CAPACITY),
            client: Vec::with_capacity(CLIENT_CAPACITY),
            ..Self::default()
        };
        let uri = head.uri.path_and_query().map_or("", |it| it.as_str());
        text_field(&mut event.request, "requestURI", uri);
        text_field(&mut event.request, "verb", attributes.verb);
        begin_field(&mut event.request, "user");
        write_user(&mut event.request, attributes.user);
        let addresses = source_addresses(&head.headers, address);
        if !addresses.is_empty() {
            field(&mut event.client, "sourceIPs", &addresses);
        }
        let agent = headers::first(&head.headers, USER_AGENT);
        if !agent.is_empty() {
            text_field(&mut event.client, "userAgent", &truncated_user_agent(&agent));
        }
        event.object_ref = attributes.resource.map(|it| ObjectReference {
            resource: it.resource.to_owned(),
            namespace: it.namespace.to_owned(),
            name: it.name.to_owned(),
            api_group: it.group.to_owned(),
            api_version: it.version.to_owned(),
            subresource: it.subresource.to_owned(),
            ..ObjectReference::default()
        });
        event
    }

    /// Records the impersonated user, and the verb that allowed it unless that is `impersonate`.
    pub(super) fn set_impersonated(&mut self, user: &User, constraint: Option<&str>) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct AuthenticationMetadata<'a> {
            impersonation_constraint: &'a str,
        }
        self.impersonation.clear();
        begin_field(&mut self.impersonation, "impersonatedUser");
        write_user(&mut self.impersonation, user);
        if let Some(impersonation_constraint) = constraint {
            let metadata = AuthenticationMetadata { impersonation_constraint };
            field(&mut self.impersonation, "authenticationMetadata", &metadata);
        }
    }

    /// The usual maximum of the size of a line.
    pub(super) fn max_size(&self) -> usize {
        let objects = [&self.request_object, &self.response_object];
        let objects: usize = objects.iter().filter_map(|it| it.as_ref()).map(Vec::len).sum();
        let status = self.response_status.as_ref().map_or(0, ResponseStatus::size);
        let encoded = self.request.len() + self.impersonation.len() + self.client.len();
        encoded + objects + status + 768
    }

    /// Appends the event of one stage as a line of JSON. What is known only later is not part of the
    /// event that the request was received.
    pub(super) fn encode(
        &self,
        out: &mut Vec<u8>,
        level: Level,
        id: &str,
        stage: Stage,
        [received, now]: [Timestamp; 2],
    ) {
        let is_later = stage != Stage::RequestReceived;
        out.extend_from_slice(br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":""#);
        out.extend_from_slice(level.as_str().as_bytes());
        out.push(b'"');
        text_field(out, "auditID", id);
        text_field(out, "stage", stage.as_str());
        out.extend_from_slice(&self.request);
        if is_later {
            out.extend_from_slice(&self.impersonation);
        }
        out.extend_from_slice(&self.client);
        if let Some(object) = &self.object_ref {
            begin_field(out, "objectRef");
            object.write(out);
        }
        if is_later {
            if let Some(status) = &self.response_status {
                begin_field(out, "responseStatus");
                status.write(out);
            }
            raw_field(out, "requestObject", self.request_object.as_deref());
            raw_field(out, "responseObject", self.response_object.as_deref());
        }
        let received_text = micros(received);
        text_field(out, "requestReceivedTimestamp", &received_text);
        let now = if now == received { received_text } else { micros(now) };
        text_field(out, "stageTimestamp", &now);
        if is_later && !self.annotations.0.is_empty() {
            begin_field(out, "annotations");
            self.annotations.write(out);
        }
        out.extend_from_slice(b"}\n");
    }
}

/// The `responseStatus` of a failure.
pub(super) fn status_of_failure(status: &Status) -> Vec<u8> {
    let mut out = br#"{"metadata":{},"status":"Failure""#.to_vec();
    field(&mut out, "message", &status.message);
    let reason = status.custom_reason.as_deref().unwrap_or(status.reason.as_str());
    if !reason.is_empty() {
        field(&mut out, "reason", reason);
    }
    if let Some(details) = &status.details {
        field(&mut out, "details", &details.to_value());
    }
    field(&mut out, "code", &status.code);
    out.push(b'}');
    out
}

/// The `responseStatus` of a failed authentication.
pub(super) fn status_of_unauthenticated(message: &str) -> ResponseStatus {
    let mut out = Vec::new();
    write_code(&mut out, Some(message), 401);
    out.into()
}

fn write_code(out: &mut Vec<u8>, message: Option<&str>, code: u16) {
    out.extend_from_slice(br#"{"metadata":{}"#);
    if let Some(message) = message {
        field(out, "message", message);
    }
    field(out, "code", &code);
    out.push(b'}');
}

/// The `responseStatus` of a request whose client disconnected before the response.
pub(super) fn status_of_canceled() -> ResponseStatus {
    let why = "request did not complete within requested timeout - context canceled";
    status_of_failure(&Status::timeout(why, 0)).into()
}

fn field(out: &mut Vec<u8>, name: &str, value: &(impl Serialize + ?Sized)) {
    begin_field(out, name);
    json::write(out, value);
}

fn text_field(out: &mut Vec<u8>, name: &str, text: &str) {
    begin_field(out, name);
    json::write_text(out, text);
}

/// Appends a list of texts.
fn write_texts(out: &mut Vec<u8>, texts: &[String]) {
    for (index, text) in texts.iter().enumerate() {
        out.push(if index == 0 { b'[' } else { b',' });
        json::write_text(out, text);
    }
    out.push(b']');
}

/// Makes the fields from `start` on an object: the comma before the first one becomes its brace.
fn close_object(out: &mut Vec<u8>, start: usize) {
    match out.get_mut(start) {
        Some(comma) => *comma = b'{',
        None => out.push(b'{'),
    }
    out.push(b'}');
}

fn raw_field(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    if let Some(value) = value {
        begin_field(out, name);
        out.extend_from_slice(value);
    }
}

fn begin_field(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn micros(time: Timestamp) -> String {
    timestamp::format_micros(time.seconds(), time.nanos())
}

fn truncated_user_agent(agent: &str) -> Cow<'_, str> {
    if agent.len() <= MAX_USER_AGENT {
        return agent.into();
    }
    let end = agent.floor_char_boundary(MAX_USER_AGENT);
    format!("{}...TRUNCATED", &agent[..end]).into()
}

/// The addresses of proxies and of the client. All but the last can be chosen by the client.
///
/// Upstream: apimachinery/pkg/util/net `SourceIPs`.
fn source_addresses(headers: &HeaderMap, address: Option<IpAddr>) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    let parse = |text: &str| text.trim().parse::<IpAddr>().ok();
    if let Some(forwarded) = headers.get(X_FORWARDED_FOR) {
        let forwarded = String::from_utf8_lossy(forwarded.as_bytes());
        found.extend(forwarded.split(',').filter_map(parse));
    }
    let real = headers.get(X_REAL_IP).and_then(|it| parse(&String::from_utf8_lossy(it.as_bytes())));
    found.extend(real.filter(|it| !found.contains(it)));
    found.extend(address.filter(|it| found.last() != Some(it)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_proxies_precede_that_of_the_connection() {
        let addresses = |forwarded: &'static str, real: &'static str, peer: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", http::HeaderValue::from_static(forwarded));
            headers.insert("x-real-ip", http::HeaderValue::from_static(real));
            let found = source_addresses(&headers, peer.parse().ok());
            found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(addresses("", "", "10.0.0.1"), "10.0.0.1");
        assert_eq!(addresses("1.1.1.1, x, 2.2.2.2", "", "2.2.2.2"), "1.1.1.1 2.2.2.2");
        assert_eq!(addresses("1.1.1.1", "3.3.3.3", "::1"), "1.1.1.1 3.3.3.3 ::1");
        assert_eq!(addresses("", "", ""), "");
    }

    #[test]
    fn a_long_user_agent_is_truncated() {
        let agent = "ä".repeat(1000);
        let text = truncated_user_agent(&agent);
        assert_eq!(text.len(), 1024 + "...TRUNCATED".len());
        assert_eq!(truncated_user_agent("kubectl"), "kubectl");
    }

    #[test]
    fn annotations_are_ordered_and_the_first_value_of_a_key_counts() {
        let mut annotations = Annotations::default();
        annotations.add("b".into(), "1".into()).unwrap();
        annotations.add("a".into(), "<".into()).unwrap();
        annotations.add("b".into(), "1".into()).unwrap();
        assert_eq!(annotations.add("b".into(), "2".into()), Err("b".into()));
        let mut out = Vec::new();
        annotations.write(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), r#"{"a":"\u003c","b":"1"}"#);
    }

    #[test]
    fn a_failure_is_a_status_without_kind() {
        let status = Status::bad_request("a < b");
        let text = String::from_utf8(status_of_failure(&status)).unwrap();
        assert_eq!(
            text,
            r#"{"metadata":{},"status":"Failure","message":"a \u003c b","reason":"BadRequest","code":400}"#
        );
    }
}
