//! References to objects in events.

use k8s_openapi::api::core::v1::ObjectReference;

use crate::metadata::Metadata;

/// A reference to an object, for the events about it.
pub(crate) fn object_reference(
    api_version: &str,
    kind: &str,
    metadata: &Metadata,
) -> ObjectReference {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    ObjectReference {
        api_version: text(api_version),
        kind: text(kind),
        name: text(&metadata.name),
        namespace: text(&metadata.namespace),
        uid: text(&metadata.uid),
        resource_version: text(&metadata.resource_version),
        field_path: None,
    }
}
