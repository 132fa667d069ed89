//! Admission: handlers that validate or mutate an object before the API server stores it.
//!
//! A handler gets kube's [`AdmissionRequest`] of its own type, or of
//! [`DynamicObject`](kube_core::DynamicObject) for the raw object. An `AdmissionReview` gets a
//! response in the version of the request, `v1` or `v1beta1`.
//!
//! An object that does not decode as the type of the handler is left unchanged by a mutating handler,
//! with a warning, and denied by a validating one. The server validates the schema between the two: it
//! refuses the object with its own message, such as `spec.pages: Required value`, and what it accepts
//! does not bypass the validating handler. The same holds if the old object of an update or a deletion
//! does not decode. A handler that changes such objects, or decides about
//! them, takes `DynamicObject`s.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use runtime::webhook::admission::{Allowed, Denied, validating};
//!
//! let handler = validating(|request: kube_core::admission::AdmissionRequest<ConfigMap>| async move {
//!     match request.object.and_then(|map| map.data) {
//!         Some(data) if data.contains_key("password") => Err(Denied::new("use a Secret")),
//!         Some(_) => Ok(Allowed::default()),
//!         None => Ok(Allowed::default().warn("a config map without data")),
//!     }
//! });
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kube_core::Resource;
use kube_core::admission::{AdmissionRequest, AdmissionReview};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::difference;
pub use super::requests::{create_request, delete_request, update_request};
use super::server::{BadReview, Handler};

/// The request is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Annotations for the audit log, under the webhook's name.
    pub audit_annotations: BTreeMap<String, String>,
}

impl Allowed {
    /// Allows the request with a warning.
    #[must_use]
    pub fn warn(mut self, warning: &str) -> Self {
        self.warnings.push(warning.to_owned());
        self
    }
}

/// The request is denied. The text of the error, which clients get, begins with the field if there is
/// one.
///
/// ```
/// # use runtime::webhook::Denied;
/// let denied = Denied::invalid("spec.cidr", "it overlaps with another one");
/// assert_eq!(denied.to_string(), "spec.cidr: it overlaps with another one");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", .field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default())]
pub struct Denied {
    /// The HTTP code of the response to the client.
    pub code: u16,
    /// The reason for programs, such as `Forbidden`.
    pub reason: String,
    /// The message for people, without the field.
    pub message: String,
    /// The field that is not valid, such as `spec.cidr`.
    pub field: Option<String>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

impl Denied {
    /// Denies the request as forbidden.
    pub fn new(message: impl Into<String>) -> Self {
        let (reason, message) = ("Forbidden".to_owned(), message.into());
        Self { code: 403, reason, message, field: None, warnings: Vec::new() }
    }

    /// Denies the request because the value of `field` is not valid.
    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        let field = Some(field.to_owned());
        Self { code: 422, reason: "Invalid".to_owned(), field, ..Self::new(message) }
    }
}

/// The request is allowed, and the object is changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed<K> {
    /// `None` leaves the object unchanged.
    pub object: Option<K>,
    /// Warnings and audit annotations.
    pub allowed: Allowed,
}

impl<K> Changed<K> {
    /// Changes the object to `object`.
    pub fn to(object: K) -> Self {
        Self { object: Some(object), allowed: Allowed::default() }
    }

    /// Leaves the object unchanged.
    pub fn nothing() -> Self {
        Self { object: None, allowed: Allowed::default() }
    }

    /// Adds a warning.
    #[must_use]
    pub fn warn(mut self, warning: &str) -> Self {
        self.allowed = self.allowed.warn(warning);
        self
    }
}

/// A validating handler with a context: a value, or an `Arc` that several handlers share.
///
/// ```
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
/// use kube_core::admission::AdmissionRequest;
/// use runtime::webhook::{Allowed, Denied, Handler, admission};
/// use runtime::{Lister, Manager};
///
/// struct Context {
///     namespaces: Lister<Namespace>,
/// }
///
/// async fn validate(
///     request: AdmissionRequest<ConfigMap>,
///     cx: Arc<Context>,
/// ) -> Result<Allowed, Denied> {
///     let name = request.namespace.unwrap_or_default();
///     match cx.namespaces.get("", &name) {
///         Ok(Some(namespace)) if namespace.metadata.annotations.is_some() => Ok(Allowed::default()),
///         _ => Err(Denied::new(format!("the namespace {name} has no annotations"))),
///     }
/// }
///
/// fn handler(manager: &Manager) -> Handler {
///     let context = Context { namespaces: manager.lister() };
///     let has_synced = manager.informer::<Namespace>().has_synced();
///     admission::validating_with(validate, context).after_sync(has_synced)
/// }
/// ```
pub fn validating_with<K, C, F, A>(validate: F, context: impl Into<Arc<C>>) -> Handler
where
    K: Resource + DeserializeOwned + Send + 'static,
    C: Send + Sync + 'static,
    F: Fn(AdmissionRequest<K>, Arc<C>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Allowed, Denied>> + Send + 'static,
{
    let context = context.into();
    validating(move |request| validate(request, Arc::clone(&context)))
}

/// A mutating handler with a context, like [`validating_with`].
///
/// ```
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube_core::admission::AdmissionRequest;
/// use runtime::webhook::{Changed, Denied, admission};
///
/// struct Context {
///     team: String,
/// }
///
/// async fn label(
///     request: AdmissionRequest<ConfigMap>,
///     cx: Arc<Context>,
/// ) -> Result<Changed<ConfigMap>, Denied> {
///     let Some(mut map) = request.object else { return Ok(Changed::nothing()) };
///     map.metadata.labels.get_or_insert_default().insert("team".to_owned(), cx.team.clone());
///     Ok(Changed::to(map))
/// }
///
/// let handler = admission::mutating_with(label, Context { team: "blue".to_owned() });
/// ```
pub fn mutating_with<K, C, F, A>(change: F, context: impl Into<Arc<C>>) -> Handler
where
    K: Resource + Serialize + DeserializeOwned + Clone + Send + 'static,
    C: Send + Sync + 'static,
    F: Fn(AdmissionRequest<K>, Arc<C>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Changed<K>, Denied>> + Send + 'static,
{
    let context = context.into();
    mutating(move |request| change(request, Arc::clone(&context)))
}

/// A validating handler. An object that does not decode is denied.
pub fn validating<K, F, A>(validate: F) -> Handler
where
    K: Resource + DeserializeOwned + Send + 'static,
    F: Fn(AdmissionRequest<K>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Allowed, Denied>> + Send + 'static,
{
    Handler::new(move |body| {
        let decoded = DecodedRequest::<K>::parse(&body);
        let validation = decoded.map(|decoded| (decoded.header, decoded.request.map(&validate)));
        async move {
            let (header, validation) = validation?;
            let decision = match validation {
                Ok(validation) => validation.await,
                Err(why) => Err(Denied {
                    code: 400,
                    reason: "BadRequest".to_owned(),
                    ..Denied::new(format!("the webhook cannot read the object: {why}"))
                }),
            };
            Ok(header.respond(decision.map(|allowed| (allowed, None))))
        }
    })
}

/// A mutating handler. The patch contains exactly the changes of the handler: fields that its type
/// does not have stay unchanged. An object that does not decode is left unchanged: the server refuses
/// it with a better message if its schema does.
pub fn mutating<K, F, A>(change: F) -> Handler
where
    K: Resource + Serialize + DeserializeOwned + Clone + Send + 'static,
    F: Fn(AdmissionRequest<K>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Changed<K>, Denied>> + Send + 'static,
{
    Handler::new(move |body| {
        let decoded = DecodedRequest::<K>::parse(&body).map(|decoded| {
            let before = decoded.request.as_ref().ok().and_then(|it| it.object.clone());
            (decoded.header, decoded.object, before, decoded.request.map(&change))
        });
        async move {
            let (header, raw, before, changing) = decoded?;
            let changed = match changing {
                Ok(changing) => changing.await,
                Err(why) => Ok(Changed::nothing().warn(&format!(
                    "the webhook cannot read the object and leaves it unchanged: {why}"
                ))),
            };
            let decision = match changed {
                Err(denied) => Err(denied),
                Ok(Changed { object: Some(after), allowed }) => {
                    let patch = difference::patch(&raw, before.as_ref(), &after);
                    let patch = patch.map_err(|error| BadReview(error.to_string()))?;
                    Ok((allowed, Some(patch)))
                }
                Ok(Changed { object: None, allowed }) => Ok((allowed, None)),
            };
            Ok(header.respond(decision))
        }
    })
}

/// A decoded review.
struct DecodedRequest<K: Resource> {
    header: ResponseHeader,
    /// The raw object.
    object: Value,
    /// The typed request, or the reason why the object cannot be decoded.
    request: Result<AdmissionRequest<K>, String>,
}

/// The fields of a request that the response repeats.
struct ResponseHeader {
    api_version: String,
    uid: String,
    /// The group, kind and name of the object.
    object: Value,
}

impl<K: Resource + DeserializeOwned> DecodedRequest<K> {
    fn parse(body: &[u8]) -> Result<Self, BadReview> {
        let review: Value =
            serde_json::from_slice(body).map_err(|error| BadReview(error.to_string()))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let api_version = text(&review["apiVersion"]);
        if review["kind"] != "AdmissionReview"
            || !matches!(api_version.as_str(), "admission.k8s.io/v1" | "admission.k8s.io/v1beta1")
        {
            return Err(BadReview("it is not an AdmissionReview of v1 or v1beta1".to_owned()));
        }
        let uid = text(&review["request"]["uid"]);
        if uid.is_empty() {
            return Err(BadReview("it has no request with a uid".to_owned()));
        }
        let (object, kind) = (review["request"]["object"].clone(), &review["request"]["kind"]);
        let header = ResponseHeader {
            api_version,
            uid,
            object: json!({
                "group": kind["group"], "kind": kind["kind"], "name": review["request"]["name"],
            }),
        };
        let request = serde_json::from_value::<AdmissionReview<K>>(review)
            .map_err(|error| error.to_string())
            .and_then(|review| {
                AdmissionReview::try_into(review).map_err(|_| "there is no request".to_owned())
            });
        Ok(Self { header, object, request })
    }
}

impl ResponseHeader {
    /// The review with the response.
    fn respond(self, decision: Result<(Allowed, Option<json_patch::Patch>), Denied>) -> Bytes {
        let response = match decision {
            Ok((allowed, patch)) => self.allow(&allowed, patch),
            Err(denied) => json!({
                "uid": self.uid, "allowed": false, "warnings": denied.warnings,
                "status": self.status(&denied),
            }),
        };
        let review = json!({
            "apiVersion": self.api_version, "kind": "AdmissionReview", "response": response,
        });
        review.to_string().into()
    }

    /// The details repeat the field and the message: kubectl prints only them if the object is not
    /// valid, and other clients print only the message.
    fn status(&self, denied: &Denied) -> Value {
        let mut status = json!({
            "status": "Failure", "code": denied.code, "reason": denied.reason,
            "message": denied.to_string(),
        });
        if let Some(field) = &denied.field {
            status["details"] = self.object.clone();
            status["details"]["causes"] = json!([
                {"reason": "FieldValueInvalid", "field": field, "message": denied.message},
            ]);
        }
        status
    }

    fn allow(&self, allowed: &Allowed, patch: Option<json_patch::Patch>) -> Value {
        let mut response = json!({"uid": self.uid, "allowed": true});
        if !allowed.warnings.is_empty() {
            response["warnings"] = json!(allowed.warnings);
        }
        if !allowed.audit_annotations.is_empty() {
            response["auditAnnotations"] = json!(allowed.audit_annotations);
        }
        if let Some(patch) = patch.filter(|it| !it.is_empty()) {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = STANDARD.encode(json!(patch).to_string()).into();
        }
        response
    }
}
