//! Decodes a body in any supported media type; the error messages are those of Kubernetes.

use super::list_objects;
use machinery::codec::{self, Decoded};
use machinery::{Map, Reason, Status, Value};
use types::Type;
use types::protobuf::{self, Envelope};

/// The media types of bodies. The error message lists all of them, although protobuf is supported
/// only for types with a message.
const MEDIA_TYPES: [&str; 3] = ["application/json", "application/yaml", protobuf::MEDIA_TYPE];

/// The reason why a body cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyDecodeError {
    /// The media type is not one of these.
    UnsupportedMediaType(&'static [&'static str]),
    /// The body cannot be parsed, or its type cannot be determined.
    Unrecognized(String),
    /// The body has the expected type, but is malformed.
    Malformed(protobuf::Error),
    /// The lists of the body have more than [`MAX_LIST_OBJECTS`](list_objects::MAX_LIST_OBJECTS)
    /// objects.
    TooManyObjects,
}

impl BodyDecodeError {
    /// The Status without the expected type.
    pub(crate) fn plain_status(&self) -> Status {
        match self {
            Self::UnsupportedMediaType(accepted) => unsupported_media_type(accepted),
            Self::Unrecognized(why) => Status::bad_request(why),
            Self::Malformed(why) => Status::bad_request(why.to_string()),
            Self::TooManyObjects => list_objects::too_many(),
        }
    }

    /// The Status with the expected type, `kind` of `version`.
    pub(crate) fn status(&self, kind: &str, version: &str, bytes: &[u8]) -> Status {
        match self {
            Self::UnsupportedMediaType(accepted) => unsupported_media_type(accepted),
            Self::Unrecognized(why) => unrecognized(kind, why, bytes),
            Self::Malformed(why) => cannot_be_handled(kind, version, kind, &why.to_string()),
            Self::TooManyObjects => list_objects::too_many(),
        }
    }
}

/// Decodes a body. Protobuf is supported only if its type `ty` is known.
pub(crate) fn decode_body(
    content_type: &str,
    bytes: &[u8],
    ty: Option<&'static Type>,
) -> Result<Decoded, BodyDecodeError> {
    let mut parts = content_type.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default().to_ascii_lowercase();
    if parts.any(|parameter| !parameter.is_empty() && !parameter.contains('=')) {
        return Err(BodyDecodeError::UnsupportedMediaType(&MEDIA_TYPES));
    }
    let decoded = match (media.as_str(), ty) {
        ("" | "application/json", _) => codec::json::decode_exact(bytes).map_err(|error| {
            let why = format!("couldn't get version/kind; json parse error: {error}");
            BodyDecodeError::Unrecognized(why)
        }),
        ("application/yaml", _) => codec::yaml::decode(bytes)
            .map_err(|error| BodyDecodeError::Unrecognized(error.to_string())),
        (protobuf::MEDIA_TYPE, Some(ty)) => decode_protobuf(ty, bytes),
        _ => Err(BodyDecodeError::UnsupportedMediaType(&MEDIA_TYPES)),
    }?;
    if list_objects::exceeds_limit(&decoded.value) {
        return Err(BodyDecodeError::TooManyObjects);
    }
    Ok(decoded)
}

fn decode_protobuf(ty: &'static Type, bytes: &[u8]) -> Result<Decoded, BodyDecodeError> {
    let envelope =
        Envelope::read(bytes).map_err(|error| BodyDecodeError::Unrecognized(error.to_string()))?;
    let mut object = Map::new();
    // An object of another kind is not decoded: its kind is sufficient for the error.
    if envelope.kind.is_empty() || envelope.kind == ty.short_name() {
        object = protobuf::decode(ty, envelope.raw).map_err(BodyDecodeError::Malformed)?;
    }
    for (member, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
        if !text.is_empty() {
            object.insert(member.to_owned(), text.into());
        }
    }
    Ok(Decoded { value: Value::Object(object), ..Decoded::default() })
}

/// The Status for an unsupported media type.
pub(crate) fn unsupported_media_type(accepted: &[&str]) -> Status {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    );
    Status::new(415, Reason::UnsupportedMediaType, message)
}

/// The Status for a body that should be a `kind` but cannot be parsed.
pub(super) fn unrecognized(kind: &str, why: &str, bytes: &[u8]) -> Status {
    let summary = summary(bytes);
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
    ))
}

/// The Status for a body of `kind` and `version` that is invalid, or not a `wanted`.
pub(crate) fn cannot_be_handled(kind: &str, version: &str, wanted: &str, why: &str) -> Status {
    let message = format!("{kind} in version \"{version}\" cannot be handled as a {wanted}: {why}");
    Status::bad_request(message)
}

/// The beginning of a body for error messages: text if it looks like JSON, otherwise hexadecimal.
fn summary(bytes: &[u8]) -> String {
    const MAX_SUMMARY: usize = 30;
    let start = &bytes[..bytes.len().min(MAX_SUMMARY)];
    let more = if bytes.len() > MAX_SUMMARY { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => {
            let mut hex = String::new();
            for byte in start {
                hex += &format!("{byte:02x}");
            }
            hex + more
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn config_map(bytes: &[u8]) -> Result<Value, String> {
        let ty = types::find("core/v1.ConfigMap");
        match decode_body(protobuf::MEDIA_TYPE, bytes, ty) {
            Ok(decoded) => Ok(decoded.value),
            Err(error) => Err(error.status("ConfigMap", "v1", bytes).message),
        }
    }

    #[test]
    fn an_object_is_decoded_from_protobuf() {
        let sent = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
        assert_eq!(config_map(&protobuf::encode(&sent).unwrap()), Ok(sent));
    }

    #[test]
    fn only_the_kind_of_an_unexpected_object_is_decoded() {
        let sent = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "AA=="}});
        let found = config_map(&protobuf::encode(&sent).unwrap());
        assert_eq!(found, Ok(json!({"apiVersion": "v1", "kind": "Secret"})));
    }

    #[test]
    fn invalid_protobuf_has_upstreams_error() {
        assert_eq!(
            config_map(b"hello"),
            Err("the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (68656c6c6f)".to_owned())
        );
        assert_eq!(
            config_map(b"k8s\0\x12\x02\x0a\x05"),
            Err("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: unexpected EOF"
                .to_owned())
        );
    }

    #[test]
    fn protobuf_is_unsupported_for_a_kind_without_a_message() {
        assert_eq!(
            decode_body(protobuf::MEDIA_TYPE, b"", None).unwrap_err(),
            BodyDecodeError::UnsupportedMediaType(&MEDIA_TYPES)
        );
        let ty = types::find("core/v1.ConfigMap");
        assert_eq!(
            decode_body("text/csv", b"", ty).unwrap_err(),
            BodyDecodeError::UnsupportedMediaType(&MEDIA_TYPES)
        );
    }
}
