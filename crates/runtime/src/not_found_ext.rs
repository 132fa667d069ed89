//! [`NotFoundExt`]: requests for objects that may not exist.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use runtime::{Api, NotFoundExt, kube_client, kube_core::params::{DeleteParams, PostParams}};
//!
//! async fn clean_up(maps: &Api<ConfigMap>) -> kube_client::Result<()> {
//!     maps.delete("cache", &DeleteParams::default()).await.ignore_not_found()?;
//!     let Some(mut map) = maps.get("settings").await.optional()? else { return Ok(()) };
//!     map.data = None;
//!     maps.replace("settings", &PostParams::default(), &map).await.ignore_not_found()
//! }
//! ```

use kube_client::{Error, Result};

/// See the [module documentation](self). Only a response with the code 404 is "not found": without a
/// connection, or with a server that does not know the resource either, the error stays.
pub trait NotFoundExt<T> {
    /// `None` if the object does not exist.
    fn optional(self) -> Result<Option<T>>;

    /// Succeeds if the object does not exist.
    fn ignore_not_found(self) -> Result<()>;
}

impl<T> NotFoundExt<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            // A server that does not know the resource responds with 404 and without the name of
            // an object.
            Err(Error::Api(status)) if status.code == 404 && names_object(&status) => Ok(None),
            result => result.map(Some),
        }
    }

    fn ignore_not_found(self) -> Result<()> {
        self.optional().map(drop)
    }
}

/// Whether a status is about an object with a name.
fn names_object(status: &kube_core::Status) -> bool {
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(status: serde_json::Value) -> Result<u32> {
        Err(Error::Api(Box::new(serde_json::from_value(status).unwrap())))
    }

    #[test]
    fn only_a_missing_object_is_ignored() {
        let missing = || refused(json!({"code": 404, "details": {"kind": "pods", "name": "a"}}));
        assert!(matches!(missing().optional(), Ok(None)));
        assert!(missing().ignore_not_found().is_ok());
        assert!(matches!(Ok(7).optional(), Ok(Some(7))));
        let conflict = refused(json!({"code": 409, "details": {"kind": "pods", "name": "a"}}));
        assert!(conflict.optional().is_err());
        let unknown_resource = refused(json!({"code": 404, "message": "404 page not found"}));
        assert!(unknown_resource.ignore_not_found().is_err());
    }
}
