//! Media types of requests and responses.
//!
//! ```
//! # use {machinery::json, testenv::{TestEnv, media_type::STRATEGIC_MERGE_PATCH}};
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let env = TestEnv::start().await;
//! let labels = json!({"metadata": {"labels": {"team": "blue"}}});
//! let path = "/api/v1/namespaces/default";
//! let (code, namespace) = env.patch(path, STRATEGIC_MERGE_PATCH, &labels).await;
//! assert_eq!((code, &namespace["metadata"]["labels"]["team"]), (200, &json!("blue")));
//! # });
//! ```

/// An object as JSON.
pub const JSON: &str = "application/json";

/// A JSON merge patch, RFC 7396.
pub const MERGE_PATCH: &str = "application/merge-patch+json";

/// A strategic merge patch, which merges lists by the keys of their type.
pub const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// A JSON patch, RFC 6902.
pub const JSON_PATCH: &str = "application/json-patch+json";

/// The table that `kubectl get` prints, as JSON.
pub const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
