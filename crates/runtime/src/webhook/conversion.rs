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
//! Objects that lack required fields are converted too, as [`PartialObjects`] describes: server-side
//! apply sends them.
//!
//! The objects are decoded one at a time, and each is written to the response before the next one is
//! decoded: a decoded object needs up to 17 times the memory of its JSON, and a review may contain a
//! whole list.
//!
//! The CRD names the webhook with [`Versions::crd_converted_by`], and
//! [`InjectionTarget::Conversion`](super::InjectionTarget) maintains the CA in it.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::server::{BadReview, Handler};
use crate::versions::partial_object::PartialObjects;
use crate::versions::{ConversionError, Versions};

/// The largest review: kube-apiserver sends a whole list in one review.
const MAX_BODY: usize = 128 << 20;

/// The largest object. An API server accepts objects of up to 3 MiB.
const MAX_OBJECT: usize = 8 << 20;

/// A handler for a kind with `#[derive(Versions)]`.
pub fn converting<V: Versions + 'static>() -> Handler {
    let partial_objects = LazyLock::new(PartialObjects::of::<V>);
    let retry = move |object: &Value, desired: &str| partial_objects.convert::<V>(object, desired);
    handler(V::convert, retry)
}

/// A handler that calls `convert` with each object and the desired version. It accepts reviews of
/// up to 128 MiB, whatever the limit of its server is, with objects of up to 8 MiB.
pub fn converting_with<F>(convert: F) -> Handler
where
    F: Fn(Value, &str) -> Result<Value, ConversionError> + Send + Sync + 'static,
{
    handler(convert, |_, _| None)
}

/// A handler that calls `retry` with each object that cannot be decoded.
fn handler(
    convert: impl Fn(Value, &str) -> Converted + Send + Sync + 'static,
    retry: impl Fn(&Value, &str) -> Option<Converted> + Send + Sync + 'static,
) -> Handler {
    Handler::new(move |body| {
        let response = respond(&body, Conversion { convert: &convert, retry: &retry });
        async move { response }
    })
    .with_max_body(MAX_BODY)
}

type Converted = Result<Value, ConversionError>;

/// The functions of a handler.
#[derive(Clone, Copy)]
struct Conversion<'a> {
    convert: &'a dyn Fn(Value, &str) -> Converted,
    /// Converts an object that `convert` cannot decode; none if that is not possible.
    retry: &'a dyn Fn(&Value, &str) -> Option<Converted>,
}

/// A review, whose objects are not decoded.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConversionReview<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<ConversionRequest<'a>>,
}

#[derive(Deserialize)]
struct ConversionRequest<'a> {
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "desiredAPIVersion")]
    desired: Option<Cow<'a, str>>,
    #[serde(borrow)]
    objects: Option<&'a RawValue>,
}

fn respond(body: &[u8], conversion: Conversion<'_>) -> Result<Bytes, BadReview> {
    let bad = |error: serde_json::Error| BadReview(error.to_string());
    let review: ConversionReview<'_> = serde_json::from_slice(body).map_err(bad)?;
    if review.kind != "ConversionReview" {
        return Err(BadReview("it is not a ConversionReview".to_owned()));
    }
    let Some(ConversionRequest { uid: Some(uid), desired: Some(desired), objects }) =
        review.request
    else {
        return Err(BadReview("it has no request with a uid and a version".to_owned()));
    };
    let mut output = Vec::with_capacity(objects.map_or(0, |it| it.get().len()));
    output.extend_from_slice(br#"{"apiVersion":"#);
    write(&mut output, &review.api_version).map_err(bad)?;
    output.extend_from_slice(br#","kind":"ConversionReview","response":{"uid":"#);
    write(&mut output, &uid).map_err(bad)?;
    output.extend_from_slice(br#","convertedObjects":["#);
    let objects_start = output.len();
    let mut objects_converter =
        ObjectsConverter { conversion, desired: &desired, output: &mut output, failure: None };
    let decoded = match objects.map(RawValue::get) {
        None => Ok(()),
        Some(raw) => {
            let mut raw = serde_json::Deserializer::from_str(raw);
            DeserializeSeed::deserialize(&mut objects_converter, &mut raw)
        }
    };
    let result = match (objects_converter.failure, decoded) {
        (Some(message), _) => {
            output.truncate(objects_start);
            json!({"status": "Failure", "message": message})
        }
        (None, Err(error)) => return Err(bad(error)),
        (None, Ok(())) => json!({"status": "Success"}),
    };
    output.extend_from_slice(br#"],"result":"#);
    write(&mut output, &result).map_err(bad)?;
    output.extend_from_slice(b"}}");
    Ok(output.into())
}

/// Converts the objects of a list, and writes them to the output.
struct ObjectsConverter<'a> {
    conversion: Conversion<'a>,
    desired: &'a str,
    output: &'a mut Vec<u8>,
    /// The reason why an object cannot be converted.
    failure: Option<String>,
}

impl ObjectsConverter<'_> {
    fn convert(&self, raw: &RawValue) -> Result<Value, String> {
        let (raw, desired) = (raw.get(), self.desired);
        if raw.len() > MAX_OBJECT {
            let length = raw.len();
            return Err(format!("an object has {length} bytes, {MAX_OBJECT} are allowed"));
        }
        let read =
            || serde_json::from_str(raw).map_err(|error| format!("cannot read an object: {error}"));
        let object: Value = read()?;
        let name = name(&object);
        let mut converted = (self.conversion.convert)(object, desired);
        if let Err(ConversionError::Decode { .. }) = &converted
            && let Some(retried) = (self.conversion.retry)(&read()?, desired)
        {
            converted = retried;
        }
        converted.map_err(|error| format!("cannot convert {name} to {desired}: {error}"))
    }
}

impl<'de> DeserializeSeed<'de> for &mut ObjectsConverter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for &mut ObjectsConverter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut objects: A) -> Result<(), A::Error> {
        let mut is_first = true;
        while let Some(raw) = objects.next_element::<&RawValue>()? {
            match self.convert(raw) {
                Ok(object) => {
                    if !is_first {
                        self.output.push(b',');
                    }
                    is_first = false;
                    write(self.output, &object).map_err(A::Error::custom)?;
                }
                Err(message) => {
                    let error = A::Error::custom(&message);
                    self.failure = Some(message);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

fn write<T: Serialize + ?Sized>(output: &mut Vec<u8>, value: &T) -> serde_json::Result<()> {
    serde_json::to_writer(output, value)
}

fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meta = &object["metadata"];
    format!("{} {}/{}", text(&object["kind"]), text(&meta["namespace"]), text(&meta["name"]))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn review(request: &str) -> String {
        format!(
            r#"{{"kind": "ConversionReview", "request": {request}, "apiVersion": "apiextensions.k8s.io/v1"}}"#
        )
    }

    fn unretried(convert: &dyn Fn(Value, &str) -> Converted) -> Conversion<'_> {
        Conversion { convert, retry: &|_, _| None }
    }

    /// The response to a request, with an identity conversion.
    fn check(request: &str) -> Result<Value, String> {
        let response = respond(review(request).as_bytes(), unretried(&|object, _| Ok(object)));
        response.map(|it| serde_json::from_slice(&it).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_object_is_decoded_when_the_previous_one_was_converted() {
        let converted = RefCell::new(Vec::new());
        let request =
            r#"{"objects": [{"a": 1}, {"b": 2}, }], "uid": "7", "desiredAPIVersion": "g/v2"}"#;
        assert!(check(request).is_err(), "the syntax is checked first");
        // A number that no Value can represent is found only when its object is decoded.
        let request =
            r#"{"objects": [{"a": 1}, {"b": 1e999}], "uid": "7", "desiredAPIVersion": "g/v2"}"#;
        let convert = |object: Value, _: &str| {
            converted.borrow_mut().push(object.clone());
            Ok(object)
        };
        let response = respond(review(request).as_bytes(), unretried(&convert));
        let response: Value = serde_json::from_slice(&response.unwrap()).unwrap();
        assert_eq!(*converted.borrow(), [json!({"a": 1})]);
        let (result, objects) =
            (&response["response"]["result"], &response["response"]["convertedObjects"]);
        assert_eq!((&result["status"], objects), (&json!("Failure"), &json!([])));
        let message = result["message"].as_str().unwrap();
        assert!(message.starts_with("cannot read an object: number out of range"), "{message}");
    }

    #[test]
    fn the_fields_of_a_request_may_have_any_order_and_escapes() {
        let request = r#"{"objects": [{"a": 1}, {"b": [2]}], "uid": "\u0037\"", "x": {}, "desiredAPIVersion": "g/v2"}"#;
        let expected = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {
                "uid": "7\"", "convertedObjects": [{"a": 1}, {"b": [2]}],
                "result": {"status": "Success"},
            },
        });
        assert_eq!(check(request), Ok(expected));
        let empty = check(r#"{"uid": "7", "desiredAPIVersion": "g/v2"}"#).unwrap();
        assert_eq!(empty["response"]["convertedObjects"], json!([]));
    }

    #[test]
    fn an_object_that_is_too_large_is_not_decoded() {
        let large = " ".repeat(MAX_OBJECT);
        let request =
            format!(r#"{{"uid": "7", "desiredAPIVersion": "g/v2", "objects": [["{large}"]]}}"#);
        let message = check(&request).unwrap()["response"]["result"]["message"].to_string();
        assert!(message.contains("8388608 are allowed"), "{message}");
    }

    #[test]
    fn a_review_without_a_list_or_a_version_is_refused() {
        assert!(check(r#"{"uid": "7"}"#).unwrap_err().contains("a uid and a version"));
        let error = check(r#"{"uid": "7", "desiredAPIVersion": "g/v2", "objects": 1}"#);
        assert!(error.unwrap_err().contains("a list of objects"));
    }
}
