//! [`ResponseContent`]: the content of the response to a write, by its kind.

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;

use super::BoxError;
use super::resource_path::ResourcePath;
use crate::api_service::{ResponseBody, response_body};
use informer::Item;
use informer::shared_items::WrittenItem;
use machinery::Value;

/// The largest response that is read.
const MAX_RESPONSE: usize = 1 << 30;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) enum ResponseContent {
    /// The object in the requested version, also as the response of most subresources.
    Object(Item),
    /// The same from a server in this process, which has stored it: it exists.
    Stored(Item),
    /// Its metadata, which are the same in every version.
    Metadata(Item),
    /// A status, and the uid in it.
    Status(Option<String>),
    /// A scale, an object of another kind, or bytes.
    Other,
}

impl ResponseContent {
    /// Reads the whole response; `None` if the request failed.
    pub(super) async fn read(
        target: &ResourcePath,
        response: Response<ResponseBody>,
    ) -> Result<(Response<ResponseBody>, Option<Self>), BoxError> {
        let (head, body) = response.into_parts();
        let bytes = Limited::new(body, MAX_RESPONSE).collect().await?.to_bytes();
        let content = head.status.is_success().then(|| match head.extensions.get() {
            Some(WrittenItem(item)) if target.is_of(item) => Self::Stored(item.clone()),
            _ => Self::of(target, &bytes),
        });
        Ok((Response::from_parts(head, response_body(bytes)), content))
    }

    fn of(target: &ResourcePath, bytes: &Bytes) -> Self {
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Type {
            api_version: String,
            kind: String,
        }
        let Type { api_version, kind } = serde_json::from_slice(bytes).unwrap_or_default();
        if api_version == "v1" && kind == "Status" {
            let status: Value = serde_json::from_slice(bytes).unwrap_or_default();
            return Self::Status(status["details"]["uid"].as_str().map(str::to_owned));
        }
        let is_match = |item: &Item| {
            target.is_of(item) && !item.uid().is_empty() && !item.resource_version().is_empty()
        };
        let Some(item) = Item::parse(bytes.clone()).ok().filter(is_match) else {
            return Self::Other;
        };
        if kind == "PartialObjectMetadata" && api_version.starts_with("meta.k8s.io/") {
            return Self::Metadata(item);
        }
        // The other responses of subresources, such as scales and tokens, are of other groups.
        if api_version == target.group_version.to_string() {
            return Self::Object(item);
        }
        Self::Other
    }

    /// The object or its metadata.
    pub(super) fn item(&self) -> Option<&Item> {
        match self {
            Self::Object(item) | Self::Stored(item) | Self::Metadata(item) => Some(item),
            Self::Status(_) | Self::Other => None,
        }
    }

    /// The uid of the deleted object, if this response to a deletion shows that it was removed.
    pub(super) fn deleted_uid(&self) -> Option<&str> {
        match self {
            Self::Object(item) | Self::Metadata(item) => is_deleted(item).then(|| item.uid()),
            Self::Status(uid) => uid.as_deref(),
            Self::Stored(_) | Self::Other => None,
        }
    }
}

/// Whether the object in the response to a deletion is its last state. Some kinds respond with the
/// object although it was removed.
fn is_deleted(item: &Item) -> bool {
    #[derive(Deserialize)]
    struct DeletionResponse {
        metadata: Metadata,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Metadata {
        deletion_timestamp: Option<String>,
        deletion_grace_period_seconds: Option<i64>,
        finalizers: Vec<String>,
    }
    let Ok(DeletionResponse { metadata }) = item.decode() else { return false };
    let is_pending =
        metadata.deletion_timestamp.is_some() && metadata.deletion_grace_period_seconds != Some(0);
    metadata.finalizers.is_empty() && !is_pending
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, content: &str) -> String {
        match ResponseContent::of(&ResourcePath::parse(path).unwrap(), &content.to_owned().into()) {
            ResponseContent::Object(item) => format!("object {item:?}"),
            ResponseContent::Stored(item) => format!("stored {item:?}"),
            ResponseContent::Metadata(item) => format!("metadata {item:?}"),
            ResponseContent::Status(uid) => format!("status {uid:?}"),
            ResponseContent::Other => "other".to_owned(),
        }
    }

    #[test]
    fn a_response_is_recognized_by_its_kind() {
        let pod = "/api/v1/namespaces/n/pods/a";
        let metadata = r#""metadata":{"namespace":"n","name":"a","uid":"u","resourceVersion":"7"}"#;
        let with = |kind: &str| format!("{{{kind},{metadata}}}");
        let whole = with(r#""apiVersion":"v1","kind":"Pod""#);
        assert_eq!(check(pod, &whole), "object n/a@7");
        assert_eq!(check(&format!("{pod}/resize"), &whole), "object n/a@7");
        assert_eq!(check("/api/v1/namespaces/n/pods", &whole), "object n/a@7");
        assert_eq!(check("/api/v1/namespaces/n/pods/b", &whole), "other");
        let scale = with(r#""apiVersion":"autoscaling/v1","kind":"Scale""#);
        assert_eq!(check("/apis/apps/v1/namespaces/n/deployments/a/scale", &scale), "other");
        let partial = with(r#""apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata""#);
        assert_eq!(check(pod, &partial), "metadata n/a@7");
        let status = r#"{"apiVersion":"v1","kind":"Status","metadata":{},"details":{"uid":"u"}}"#;
        assert_eq!(check(pod, status), r#"status Some("u")"#);
        assert_eq!(check(pod, "ok"), "other");
    }

    #[test]
    fn an_object_without_finalizers_and_grace_period_was_removed() {
        let removed = |rest: &str| {
            let json = format!(r#"{{"metadata":{{"name":"a"{rest}}}}}"#);
            is_deleted(&Item::parse(json.into_bytes()).unwrap())
        };
        assert!(removed(""));
        assert!(removed(r#","deletionTimestamp":"t","deletionGracePeriodSeconds":0"#));
        assert!(!removed(r#","deletionTimestamp":"t","deletionGracePeriodSeconds":30"#));
        assert!(!removed(
            r#","deletionTimestamp":"t","deletionGracePeriodSeconds":0,"finalizers":["f"]"#
        ));
    }
}
