//! [`Status`], the one error the wire can carry.
//!
//! Every constructor below is one way in which Kubernetes refuses a request; its wording is part
//! of the protocol, since people and scripts read it.

use std::collections::HashSet;
use std::fmt;

use crate::field_path::{ErrorList, quote};
use crate::{GroupKind, GroupResource, Map, Value, json};

/// The machine-readable cause in a [`Status`]; clients branch on it, so the set is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation: they are the wire's own")]
pub enum Reason {
    /// No reason is written.
    Unknown,
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
}

impl Reason {
    /// Every reason but [`Reason::Unknown`].
    const NAMED: [Self; 18] = [
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::AlreadyExists,
        Self::Conflict,
        Self::Gone,
        Self::Invalid,
        Self::ServerTimeout,
        Self::Timeout,
        Self::TooManyRequests,
        Self::BadRequest,
        Self::MethodNotAllowed,
        Self::NotAcceptable,
        Self::RequestEntityTooLarge,
        Self::UnsupportedMediaType,
        Self::InternalError,
        Self::Expired,
        Self::ServiceUnavailable,
    ];

    /// Reads the wire's spelling; [`Reason::Unknown`] for any other text.
    pub fn parse(text: &str) -> Self {
        Self::NAMED.into_iter().find(|known| known.as_str() == text).unwrap_or(Self::Unknown)
    }

    /// The wire's spelling; empty for [`Reason::Unknown`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Gone => "Gone",
            Self::Invalid => "Invalid",
            Self::ServerTimeout => "ServerTimeout",
            Self::Timeout => "Timeout",
            Self::TooManyRequests => "TooManyRequests",
            Self::BadRequest => "BadRequest",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::InternalError => "InternalError",
            Self::Expired => "Expired",
            Self::ServiceUnavailable => "ServiceUnavailable",
        }
    }
}

/// One entry of `details.causes`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cause {
    /// For programs, such as `FieldValueInvalid`; may be empty.
    pub reason: String,
    /// The human-readable description.
    pub message: String,
    /// The field in which the error is; may be empty.
    pub field: String,
}

/// The object that the failure is about, and the causes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// Its group.
    pub group: String,
    /// Its resource or its kind: which of the two depends on the error, as in Kubernetes.
    pub kind: String,
    /// Its uid; empty unless the request named one.
    pub uid: String,
    /// All errors that were found.
    pub causes: Vec<Cause>,
    /// After how many seconds the client should retry; 0 if unknown.
    pub retry_after_seconds: u32,
}

/// A failed request, as every Kubernetes client expects to read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The cause for programs.
    pub reason: Reason,
    /// A reason that is not in [`Reason`], for example from a webhook. `reason` is then
    /// [`Reason::Unknown`].
    pub custom_reason: Option<Box<str>>,
    /// The human-readable description.
    pub message: String,
    /// The object and the causes; None where Kubernetes writes no details at all.
    pub details: Option<Box<Details>>,
    /// `metadata.continue` of a 410: continues an expired list at the current revision.
    pub continue_token: Option<String>,
}

impl Status {
    /// A failure without details.
    pub fn new(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, reason, custom_reason: None, message, details: None, continue_token: None }
    }

    fn about(mut self, what: &GroupResource, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: what.group.clone(),
            kind: what.resource.clone(),
            ..Details::default()
        }));
        self
    }

    fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// 404: the object does not exist.
    pub fn not_found(what: &GroupResource, name: &str) -> Self {
        let message = format!("{what} {} not found", quote(name));
        Self::new(404, Reason::NotFound, message).about(what, name)
    }

    /// 404: the resource or the path below it does not exist.
    pub fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(404, Reason::NotFound, message).about(&GroupResource::default(), "")
    }

    /// 409: an object of this name exists.
    pub fn already_exists(what: &GroupResource, name: &str) -> Self {
        let message = format!("{what} {} already exists", quote(name));
        Self::new(409, Reason::AlreadyExists, message).about(what, name)
    }

    /// 409: `generateName` led only to names of existing objects.
    pub fn generate_name_conflict(what: &GroupResource, name: &str) -> Self {
        let message = format!(
            "{what} {} already exists, the server was not able to generate a unique name for the object",
            quote(name)
        );
        Self::new(409, Reason::AlreadyExists, message).about(what, name).retry_after(1)
    }

    /// 409: another client changed the object first, or a precondition does not hold.
    pub fn conflict(what: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {what} {}: {why}", quote(name));
        Self::new(409, Reason::Conflict, message).about(what, name)
    }

    /// The usual [`conflict`](Self::conflict): the caller's copy is stale.
    pub fn modified(what: &GroupResource, name: &str) -> Self {
        const STALE: &str = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(what, name, STALE)
    }

    /// 422: the object can be parsed but has validation errors.
    pub fn invalid(what: &GroupKind, name: &str, errors: &ErrorList) -> Self {
        let causes = errors.reported().map(|error| Cause {
            reason: error.kind.reason().to_owned(),
            message: error.body(),
            field: error.field.clone(),
        });
        let message = format!("{what} {} is invalid: {}", quote(name), errors.summary());
        let mut status = Self::new(422, Reason::Invalid, message);
        status.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: what.group.clone(),
            kind: what.kind.clone(),
            causes: causes.collect(),
            ..Details::default()
        }));
        status
    }

    /// 400: the request cannot be parsed, or contradicts itself.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, Reason::BadRequest, message)
    }

    /// 401: the credentials are missing or invalid.
    pub fn unauthorized() -> Self {
        Self::new(401, Reason::Unauthorized, "Unauthorized")
    }

    /// 403: the user may not do this. `why` follows "is forbidden: ".
    pub fn forbidden(what: &GroupResource, name: &str, why: &str) -> Self {
        let message = match (what.resource.as_str(), name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{what} is forbidden: {why}"),
            (_, name) => format!("{what} {} is forbidden: {why}", quote(name)),
        };
        Self::new(403, Reason::Forbidden, message).about(what, name)
    }

    /// 405: the resource does not have this verb.
    pub fn method_not_supported(what: &GroupResource, action: &str) -> Self {
        let message =
            format!("{action} is not supported on resources of kind {}", quote(&what.to_string()));
        Self::new(405, Reason::MethodNotAllowed, message).about(what, "")
    }

    /// 405: the path does not have this HTTP method.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, Reason::MethodNotAllowed, message).about(&GroupResource::default(), "")
    }

    /// 410: the requested history was compacted; the client has to list again.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, Reason::Expired, message)
    }

    /// 504: the request was not finished in time.
    pub fn timeout(message: &str, retry_after: u32) -> Self {
        Self::new(504, Reason::Timeout, format!("Timeout: {message}")).retry_after(retry_after)
    }

    /// 504: the requested resource version is in the future.
    pub fn too_large_resource_version(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let mut status = Self::timeout(&message, 1);
        status.details.get_or_insert_default().causes.push(Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        });
        status
    }

    /// 429: the client should retry after `retry_after` seconds.
    pub fn too_many_requests(message: &str, retry_after: u32) -> Self {
        Self::new(429, Reason::TooManyRequests, message).retry_after(retry_after)
    }

    /// 413: the body exceeds the limit.
    pub fn too_large(message: &str) -> Self {
        let message = format!("Request entity too large: {message}");
        Self::new(413, Reason::RequestEntityTooLarge, message)
    }

    /// 500: an error of the server.
    pub fn internal(why: impl fmt::Display) -> Self {
        let why = why.to_string();
        let message = format!("Internal error occurred: {why}");
        let mut status = Self::new(500, Reason::InternalError, message);
        let cause = Cause { message: why, ..Cause::default() };
        status.details = Some(Box::new(Details { causes: vec![cause], ..Details::default() }));
        status
    }

    /// 500 without a reason and details, as Kubernetes writes an error that has no Status.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::new(500, Reason::Unknown, message)
    }

    /// 503: the server cannot serve the request now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, Reason::ServiceUnavailable, message)
    }

    /// Decodes a Status; None if `value` is another kind or has no code.
    pub fn from_value(value: &Value) -> Option<Self> {
        let code = value["code"].as_u64().filter(|_| value["kind"] == "Status")?;
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        let mut status =
            Self::new(u16::try_from(code).ok()?, Reason::parse(text("reason")), text("message"));
        status.details = value.get("details").map(|details| Box::new(Details::from_value(details)));
        status.continue_token = value["metadata"]["continue"].as_str().map(str::to_owned);
        Some(status)
    }

    /// Encodes the Status for the wire.
    pub fn to_value(&self) -> Value {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        let reason = self.custom_reason.as_deref().unwrap_or(self.reason.as_str());
        if !reason.is_empty() {
            body["reason"] = reason.into();
        }
        if let Some(details) = &self.details {
            body["details"] = details.to_value();
        }
        if let Some(token) = &self.continue_token {
            body["metadata"]["continue"] = token.as_str().into();
        }
        body
    }
}

impl Details {
    fn from_value(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let causes = value["causes"].as_array().into_iter().flatten().map(Cause::from_value);
        let seconds = value["retryAfterSeconds"].as_u64().unwrap_or(0);
        Self {
            name: text("name"),
            group: text("group"),
            kind: text("kind"),
            uid: text("uid"),
            causes: causes.collect(),
            retry_after_seconds: u32::try_from(seconds).unwrap_or(u32::MAX),
        }
    }

    /// The `details` of a Status.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        for (key, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                map.insert(key.to_owned(), text.clone().into());
            }
        }
        if !self.causes.is_empty() {
            map.insert("causes".to_owned(), self.causes.iter().map(Cause::to_value).collect());
        }
        if self.retry_after_seconds > 0 {
            map.insert("retryAfterSeconds".to_owned(), self.retry_after_seconds.into());
        }
        Value::Object(map)
    }
}

impl Cause {
    fn from_value(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        Self { reason: text("reason"), message: text("message"), field: text("field") }
    }

    fn to_value(&self) -> Value {
        let mut map = Map::new();
        for (key, text) in
            [("reason", &self.reason), ("message", &self.message), ("field", &self.field)]
        {
            if !text.is_empty() {
                map.insert(key.to_owned(), text.clone().into());
            }
        }
        Value::Object(map)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

/// Joins messages as Kubernetes' aggregate errors do: without duplicates, in brackets if there are
/// several.
pub fn aggregate_messages(mut messages: Vec<String>) -> String {
    let mut seen = HashSet::new();
    messages.retain(|it| seen.insert(it.clone()));
    match messages.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Path;

    #[test]
    fn a_missing_object_is_named_with_its_group() {
        let what = GroupResource::new("apps", "deployments");
        let body = Status::not_found(&what, "a").to_value();
        assert_eq!(body["message"], r#"deployments.apps "a" not found"#);
        assert_eq!(body["details"], json!({"name": "a", "group": "apps", "kind": "deployments"}));
    }

    #[test]
    fn an_error_that_was_found_twice_is_one_cause() {
        let mut errors = ErrorList::new();
        for field in ["a", "b", "a"] {
            errors.required(&Path::root(field), "");
        }
        let status = Status::invalid(&GroupKind::new("", "Pod"), "p", &errors);
        assert_eq!(status.details.map(|it| it.causes.len()), Some(2));
    }

    #[test]
    fn every_error_becomes_a_cause() {
        let mut errors = ErrorList::new();
        errors.required(&Path::root("metadata").child("name"), "name or generateName is required");
        let status = Status::invalid(&GroupKind::new("", "ConfigMap"), "", &errors);
        assert_eq!(
            status.message,
            r#"ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required"#
        );
        assert_eq!(
            status.to_value()["details"]["causes"][0],
            json!({"reason": "FieldValueRequired", "field": "metadata.name",
                "message": "Required value: name or generateName is required"})
        );
    }

    #[test]
    fn a_status_is_read_as_it_was_written() {
        let mut continue_token = Status::expired("the token has expired");
        continue_token.continue_token = Some("token".to_owned());
        for status in [
            Status::not_found(&GroupResource::new("apps", "deployments"), "a"),
            Status::too_many_requests("slow down", 7),
            Status::too_large_resource_version(9, 3),
            Status::unclassified("no reason"),
            continue_token,
        ] {
            assert_eq!(Status::from_value(&status.to_value()), Some(status));
        }
        assert_eq!(Status::from_value(&json!({"kind": "Pod", "code": 404})), None);
    }
}
