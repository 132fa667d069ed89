//! [`ResourcePath`]: the object or collection in the path of a request. [`dry_run`] reads whether a
//! request is a dry run.

use informer::{Item, ObjectKey};
use machinery::{GroupVersion, Value};

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// The path of the request.
    pub(super) path: String,
    pub(crate) group_version: GroupVersion,
    pub(crate) resource: String,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub(super) namespace: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl ResourcePath {
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let group_version = GroupVersion::new(group, parts.next()?);
        let mut rest: Vec<&str> = parts.collect();
        let mut namespace = "";
        // `namespaces/a` and `namespaces/a/status` are the namespace itself.
        let is_inside = rest.len() > 2 && !matches!(rest[2], "status" | "finalize");
        if rest.first() == Some(&"namespaces") && is_inside {
            namespace = rest[1];
            rest.drain(..2);
        }
        let mut rest = rest.into_iter().map(str::to_owned);
        Some(Self {
            path: path.to_owned(),
            group_version,
            resource: rest.next()?,
            namespace: namespace.to_owned(),
            name: rest.next(),
            subresource: rest.next(),
        })
    }

    /// The key of the object `name`.
    pub(super) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(&self.namespace, name)
    }

    /// Whether the path is that of this object, by its name, or of a collection.
    pub(super) fn is_of(&self, item: &Item) -> bool {
        self.name.as_ref().is_none_or(|name| name == item.name())
    }

    /// Whether the subresource is a stream of bytes to a container or a service.
    pub(super) fn is_streamed(&self) -> bool {
        let subresource = self.subresource.as_deref().unwrap_or_default();
        matches!(subresource, "attach" | "exec" | "log" | "portforward" | "proxy")
    }
}

/// Whether a request is a dry run. Options in the body, as of a deletion, replace those in the query;
/// `None` if the body cannot be read.
pub(super) fn dry_run(query: Option<&str>, body: &[u8]) -> Option<bool> {
    if body.is_empty() {
        let mut pairs = query.unwrap_or_default().split('&');
        return Some(pairs.any(|pair| pair.starts_with("dryRun=") && pair != "dryRun="));
    }
    let options: Value = serde_json::from_slice(body).ok()?;
    Some(options["dryRun"].as_array().is_some_and(|stages| !stages.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str) -> String {
        ResourcePath::parse(path).map_or("none".to_owned(), |target| {
            let name = target.name.unwrap_or_default();
            let (group_version, subresource) = (target.group_version, target.subresource);
            format!(
                "{group_version} {} {:?} {name} {subresource:?}",
                target.resource, target.namespace
            )
        })
    }

    #[test]
    fn a_path_is_split_into_its_parts() {
        assert_eq!(check("/api/v1/namespaces/n/pods"), r#"v1 pods "n"  None"#);
        assert_eq!(check("/api/v1/namespaces/n"), r#"v1 namespaces "" n None"#);
        assert_eq!(check("/api/v1/namespaces/n/status"), r#"v1 namespaces "" n Some("status")"#);
        assert_eq!(
            check("/apis/g.io/v1/namespaces/n/things/a/scale"),
            r#"g.io/v1 things "n" a Some("scale")"#
        );
        assert_eq!(check("/apis/g.io/v1/things/a"), r#"g.io/v1 things "" a None"#);
        assert_eq!(check("/healthz"), "none");
    }

    #[test]
    fn options_in_the_body_replace_those_in_the_query() {
        assert_eq!(dry_run(Some("force=true&dryRun=All"), b""), Some(true));
        assert_eq!(dry_run(Some("fieldManager=dryRun"), b""), Some(false));
        assert_eq!(dry_run(None, br#"{"dryRun":["All"]}"#), Some(true));
        assert_eq!(dry_run(Some("dryRun=All"), br#"{"dryRun":[]}"#), Some(false));
        assert_eq!(dry_run(None, b"k8s\0"), None);
    }
}
