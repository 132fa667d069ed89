//! `ConversionReview`: the request to a conversion webhook, and the validation of its response.
//!
//! Upstream: `apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`.

use machinery::nested::type_name;
use machinery::{ErrorList, GroupVersionKind, Map, Object, Path, Value, codec, meta};

/// The versions of `ConversionReview`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1Beta1,
}

impl ReviewVersion {
    /// The version with this name, if it is supported.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "apiextensions.k8s.io/v1",
            Self::V1Beta1 => "apiextensions.k8s.io/v1beta1",
        }
    }

    /// The body of a request to convert `objects`, each in JSON, to `desired_api_version`.
    pub(super) fn request(
        self,
        uid: &str,
        desired_api_version: &str,
        objects: &[Vec<u8>],
    ) -> Vec<u8> {
        let (api_version, desired_api_version) =
            (self.api_version(), Value::from(desired_api_version));
        let mut body = format!(
            r#"{{"kind":"ConversionReview","apiVersion":"{api_version}","request":{{"uid":"{uid}","desiredAPIVersion":{desired_api_version},"objects":["#
        )
        .into_bytes();
        body.extend_from_slice(&objects.join(&b','));
        // Go encodes the empty response too.
        body.extend_from_slice(
            br#"]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}"#,
        );
        body
    }

    /// The objects in the response to the request with this uid. The error is upstream's message.
    pub(super) fn decode_response(self, uid: &str, body: &[u8]) -> Result<Vec<Value>, String> {
        let decoded = codec::json::decode(body)
            .map_err(|why| format!("couldn't get version/kind; json parse error: {why}"))?;
        let mut review = Object::from_value(decoded.value).unwrap_or_default();
        if review.kind().is_empty() {
            let text = String::from_utf8_lossy(body);
            return Err(format!("Object 'Kind' is missing in '{text}'"));
        }
        // Upstream does not check these fields of v1beta1 reviews.
        let is_checked = self == Self::V1;
        let expected = GroupVersionKind::new("apiextensions.k8s.io", "v1", "ConversionReview");
        let found = review.gvk();
        if is_checked && found != expected {
            return Err(format!("expected webhook response of {expected}, got {found}"));
        }
        let Some(Value::Object(mut response)) = review.map_mut().remove("response") else {
            return Err("no response provided".to_owned());
        };
        let found = response.get("uid").and_then(Value::as_str).unwrap_or_default();
        if is_checked && found != uid {
            return Err(format!("expected response.uid={uid:?}, got {found:?}"));
        }
        let result = response.get("result").unwrap_or(&Value::Null);
        let status = result["status"].as_str().unwrap_or_default();
        if status != "Success" {
            return Err(match result["message"].as_str().unwrap_or_default() {
                "" => format!("response.result.status was '{status}', not 'Success'"),
                message => message.to_owned(),
            });
        }
        match response.remove("convertedObjects") {
            Some(Value::Array(objects)) => Ok(objects),
            _ => Ok(Vec::new()),
        }
    }
}

/// Validates that the objects that the webhook returned are the `originals` in `desired_api_version`.
/// Except for labels and annotations, their metadata is restored from the originals.
pub(super) fn validate_objects(
    gvk: &GroupVersionKind,
    desired_api_version: &str,
    originals: Vec<Object>,
    returned: Vec<Value>,
) -> Result<Vec<Object>, String> {
    let (found, expected) = (returned.len(), originals.len());
    if found != expected {
        return Err(format!(
            "conversion webhook for {gvk} returned {found} objects, expected {expected}"
        ));
    }
    let mut converted = Vec::with_capacity(expected);
    for (index, (original, returned)) in originals.into_iter().zip(returned).enumerate() {
        let object =
            validate_object(desired_api_version, original, returned).map_err(|invalid| {
                let message = invalid.message(index, expected);
                format!("conversion webhook for {gvk} returned {message}")
            })?;
        converted.push(object);
    }
    Ok(converted)
}

/// The error in a converted object.
enum InvalidObject {
    Type(String),
    Object(String),
    Metadata(String),
}

impl InvalidObject {
    /// Upstream words the message for a single object differently.
    fn message(self, index: usize, count: usize) -> String {
        match (self, count) {
            (Self::Type(why), 1) => format!("invalid object at index 0: {why}"),
            (Self::Object(why), 1) => format!("invalid object: {why}"),
            (Self::Metadata(why), 1) => format!("invalid metadata: {why}"),
            (Self::Type(why) | Self::Object(why), _) => {
                format!("invalid converted object at index {index}: {why}")
            }
            (Self::Metadata(why), _) => {
                format!("invalid metadata in object at index {index}: {why}")
            }
        }
    }
}

fn validate_object(
    desired_api_version: &str,
    original: Object,
    returned: Value,
) -> Result<Object, InvalidObject> {
    let text = returned.to_string();
    let mut object = Object::from_value(returned).unwrap_or_default();
    if object.kind().is_empty() {
        return Err(InvalidObject::Type(format!("Object 'Kind' is missing in '{text}'")));
    }
    if object.api_version() != desired_api_version {
        let found = object.api_version();
        let why =
            format!("invalid groupVersion (expected {desired_api_version}, received {found})");
        return Err(InvalidObject::Type(why));
    }
    if object.kind() != original.kind() {
        let (expected, found) = (original.kind(), object.kind());
        let why = format!("invalid kind (expected {expected}, received {found})");
        return Err(InvalidObject::Type(why));
    }
    for (field, before, after) in [
        ("name", original.name(), object.name()),
        ("namespace", original.namespace(), object.namespace()),
        ("UID", original.uid(), object.uid()),
    ] {
        if before != after {
            let why = format!("must have the same {field}: {before} != {after}");
            return Err(InvalidObject::Object(why));
        }
    }
    restore_metadata(original, &mut object).map_err(InvalidObject::Metadata)?;
    Ok(object)
}

fn restore_metadata(mut original: Object, object: &mut Object) -> Result<(), String> {
    let mut returned = match object.map_mut().remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        Some(other) => {
            let found = type_name(&other);
            return Err(format!("invalid metadata of type {found} in converted object"));
        }
        None => return Err("missing metadata in converted object".to_owned()),
    };
    let mut metadata = std::mem::take(original.metadata_mut());
    for field in ["labels", "annotations"] {
        let before = metadata.remove(field);
        match returned.remove(field) {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                validate_map(field, before.as_ref().and_then(Value::as_object), &map)?;
                metadata.insert(field.to_owned(), Value::Object(map));
            }
            Some(other) => {
                let found = type_name(&other);
                return Err(format!(
                    "invalid metadata.{field} of type {found} in converted object"
                ));
            }
        }
    }
    object.map_mut().insert("metadata".to_owned(), Value::Object(metadata));
    Ok(())
}

/// Validates labels or annotations that a webhook has changed.
fn validate_map(
    field: &str,
    before: Option<&Map<String, Value>>,
    after: &Map<String, Value>,
) -> Result<(), String> {
    if let Some((key, other)) = after.iter().find(|(_, value)| !value.is_string()) {
        let found = type_name(other);
        return Err(format!(
            "metadata.{field}[{key}] must be a string, but is {found} in converted object"
        ));
    }
    if before == Some(after) {
        return Ok(());
    }
    let mut errors = ErrorList::new();
    let root = Path::root("metadata");
    if field == "labels" {
        meta::validate_labels(after, &root.child("labels"), &mut errors);
    } else {
        meta::validate_annotations(after, &root.child("annotation"), &mut errors);
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.summary()) }
}

#[cfg(test)]
mod tests;
