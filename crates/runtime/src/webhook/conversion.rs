//! Conversion: a handler that converts custom resources between their versions.
//!
//! A `ConversionReview` has many objects of several versions; the response contains all of them in
//! the same order, or a failure that names the object. The versions `v1` and `v1beta1` are
//! supported.
//!
//! ```
//! use runtime::{versions::Versions, webhook::{ServerOptions, WebhookServer, conversion}};
//!
//! fn server<V: Versions + 'static>() -> WebhookServer { // `V` has `#[derive(Versions)]`
//!     WebhookServer::new(ServerOptions::default()).at("/convert", conversion::converting::<V>())
//! }
//! ```
//!
//! The CRD names the webhook with [`Versions::crd_converted_by`], and
//! [`InjectionTarget::Conversion`](super::InjectionTarget) maintains the CA in it.

use bytes::Bytes;
use serde_json::{Value, json};

use super::server::{BadReview, Handler};
use crate::versions::{ConversionError, Versions};

/// The largest review: the API server sends a whole list in one review.
const MAX_BODY: usize = 128 << 20;

/// A handler for a kind with `#[derive(Versions)]`.
pub fn converting<V: Versions + 'static>() -> Handler {
    converting_with(V::convert)
}

/// A handler that calls `convert` with each object and the desired version. It accepts reviews of
/// up to 128 MiB, whatever the limit of its server is.
pub fn converting_with<F>(convert: F) -> Handler
where
    F: Fn(Value, &str) -> Result<Value, ConversionError> + Send + Sync + 'static,
{
    Handler::new(move |body| {
        let response = respond(&body, &convert);
        async move { response }
    })
    .with_max_body(MAX_BODY)
}

fn respond(
    body: &[u8],
    convert: &dyn Fn(Value, &str) -> Result<Value, ConversionError>,
) -> Result<Bytes, BadReview> {
    let mut review: Value =
        serde_json::from_slice(body).map_err(|error| BadReview(error.to_string()))?;
    if review["kind"] != "ConversionReview" {
        return Err(BadReview("it is not a ConversionReview".to_owned()));
    }
    let request = review["request"].take();
    let (Some(uid), Some(desired)) =
        (request["uid"].as_str(), request["desiredAPIVersion"].as_str())
    else {
        return Err(BadReview("it has no request with a uid and a version".to_owned()));
    };
    let objects = request["objects"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut response = json!({"uid": uid, "result": {"status": "Success"}});
    let mut converted = Vec::with_capacity(objects.len());
    for object in objects {
        match convert(object.clone(), desired) {
            Ok(object) => converted.push(object),
            Err(error) => {
                let message = format!("cannot convert {} to {desired}: {error}", name(object));
                response["result"] = json!({"status": "Failure", "message": message});
                converted.clear();
                break;
            }
        }
    }
    response["convertedObjects"] = Value::Array(converted);
    let review = json!({
        "apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response,
    });
    Ok(review.to_string().into())
}

fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meta = &object["metadata"];
    format!("{} {}/{}", text(&object["kind"]), text(&meta["namespace"]), text(&meta["name"]))
}
