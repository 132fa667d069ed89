//! [`AccessRecord`]: the verbs on resources that a manager requests, for the roles of an operator.
//!
//! Each is appended once to a file, as a line such as
//!
//! ```text
//! {"group":"apps","resource":"deployments/status","verb":"patch"}
//! ```
//!
//! A reference to an owner whose deletion it blocks counts as `update` of the owner's `finalizers`, which
//! the admission plugin `OwnerReferencesPermissionEnforcement` demands.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use kube_core::{ApiResource, GroupVersionKind, TypeMeta};
use serde::Deserialize;
use serde_json::json;

use crate::managed_client::resource_path::ResourcePath;
use client::json_requests::APPLY_PATCH;
use machinery::GroupVersion;

/// See the [module documentation](self). Clones share the file.
#[derive(Clone)]
pub(crate) struct AccessRecord {
    path: Arc<Path>,
    written: Arc<Mutex<BTreeSet<String>>>,
}

impl AccessRecord {
    /// A record in this file, to which several managers may append.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path: path.into(), written: Arc::default() }
    }

    /// Records the verbs of a request. A failure is logged: the role would lack a rule.
    pub(crate) fn add(&self, request: &Request<Bytes>) {
        for line in lines(request) {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            if !written.contains(&line) {
                if let Err(error) = self.append(&line) {
                    tracing::error!(path = %self.path.display(), %error, "cannot record a request");
                }
                written.insert(line);
            }
        }
    }

    /// One write, so that lines of several processes do not mix.
    fn append(&self, line: &str) -> io::Result<()> {
        OpenOptions::new().append(true).create(true).open(&self.path)?.write_all(line.as_bytes())
    }
}

fn lines(request: &Request<Bytes>) -> Vec<String> {
    let Some(target) = ResourcePath::parse(request.uri().path()) else { return Vec::new() };
    let resource = match &target.subresource {
        Some(subresource) => format!("{}/{subresource}", target.resource),
        None => target.resource.clone(),
    };
    let group = &target.group_version.group;
    let verbs = verbs(request, &target).iter();
    let requested = verbs.map(|verb| line(group, &resource, verb));
    let owners = blocked_owners(request.body()).into_iter();
    let blocked =
        owners.map(|owner| line(&owner.group, &format!("{}/finalizers", owner.plural), "update"));
    requested.chain(blocked).collect()
}

fn line(group: &str, resource: &str, verb: &str) -> String {
    format!("{}\n", json!({"group": group, "resource": resource, "verb": verb}))
}

/// The kinds of the owners whose deletion a written object blocks. A reference names no plural, which is
/// guessed from the kind.
fn blocked_owners(body: &[u8]) -> Vec<ApiResource> {
    let Ok(object) = serde_json::from_slice::<OwnedObject>(body) else { return Vec::new() };
    let blocked = object.metadata.owner_references.into_iter().filter(|it| it.block_owner_deletion);
    let kinds = blocked.filter_map(|owner| {
        let TypeMeta { api_version, kind } = owner.type_meta;
        let GroupVersion { group, version } = api_version.parse().ok()?;
        Some(ApiResource::from_gvk(&GroupVersionKind { group, version, kind }))
    });
    kinds.collect()
}

#[derive(Deserialize)]
struct OwnedObject {
    metadata: OwnedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnedMetadata {
    owner_references: Vec<BlockingReference>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockingReference {
    #[serde(flatten)]
    type_meta: TypeMeta,
    #[serde(default)]
    block_owner_deletion: bool,
}

fn verbs<B>(request: &Request<B>, target: &ResourcePath) -> &'static [&'static str] {
    let mut parameters = request.uri().query().unwrap_or_default().split('&');
    let is_watch = parameters.any(|it| matches!(it, "watch" | "watch=1" | "watch=true"));
    let is_object = target.name.is_some();
    match *request.method() {
        Method::GET | Method::HEAD if is_watch => &["watch"],
        Method::GET | Method::HEAD if is_object => &["get"],
        Method::GET | Method::HEAD => &["list"],
        Method::POST => &["create"],
        Method::PUT => &["update"],
        // Who applies an object that does not exist creates it.
        Method::PATCH if is_apply(request) && target.subresource.is_none() => &["patch", "create"],
        Method::PATCH => &["patch"],
        Method::DELETE if is_object => &["delete"],
        Method::DELETE => &["deletecollection"],
        _ => &[],
    }
}

fn is_apply<B>(request: &Request<B>) -> bool {
    request.headers().get(CONTENT_TYPE).is_some_and(|it| it == APPLY_PATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, path: &str, expected: &[&str]) {
        let request = Request::builder().method(method).uri(path).body(Bytes::new()).unwrap();
        let expected: Vec<String> = expected
            .iter()
            .map(|it| {
                let (verb, resource) = it.split_once(' ').unwrap();
                let (group, resource) = resource.split_once(':').unwrap();
                line(group, resource, verb)
            })
            .collect();
        assert_eq!(lines(&request), expected);
    }

    #[test]
    fn a_request_has_a_verb_and_a_resource() {
        check(Method::GET, "/api/v1/pods?watch=true&limit=1", &["watch :pods"]);
        check(Method::GET, "/api/v1/namespaces/a/pods?limit=1", &["list :pods"]);
        check(Method::GET, "/api/v1/namespaces/a", &["get :namespaces"]);
        check(Method::POST, "/apis/apps/v1/namespaces/a/deployments", &["create apps:deployments"]);
        check(Method::PUT, "/apis/a.com/v1/things/b/status", &["update a.com:things/status"]);
        check(Method::PATCH, "/apis/a.com/v1/things/b", &["patch a.com:things"]);
        check(Method::DELETE, "/apis/a.com/v1/things/b", &["delete a.com:things"]);
        check(Method::DELETE, "/apis/a.com/v1/things", &["deletecollection a.com:things"]);
        check(Method::GET, "/version", &[]);
    }

    #[test]
    fn an_apply_may_create() {
        let request = Request::patch("/api/v1/namespaces/a/pods/b")
            .header(CONTENT_TYPE, APPLY_PATCH)
            .body(Bytes::new())
            .unwrap();
        assert_eq!(lines(&request).len(), 2);
    }

    #[test]
    fn who_blocks_the_deletion_of_an_owner_updates_its_finalizers() {
        let written = |blocks: bool| {
            let owner = json!({
                "apiVersion": "a.com/v1", "kind": "Policy", "name": "a", "uid": "7",
                "controller": true, "blockOwnerDeletion": blocks,
            });
            let object = json!({"metadata": {"name": "a", "ownerReferences": [owner]}});
            let request = Request::post("/api/v1/namespaces/a/pods");
            lines(&request.body(Bytes::from(object.to_string())).unwrap())
        };
        let create = line("", "pods", "create");
        assert_eq!(written(true), [create.clone(), line("a.com", "policies/finalizers", "update")]);
        assert_eq!(written(false), [create]);
    }
}
