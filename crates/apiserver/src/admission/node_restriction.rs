//! `NodeRestriction`: a node writes its own objects only: its Node, its lease, its `CSINode`, its
//! resource slices, its mirror pods, and the status of the pods on it. It requests tokens for these
//! pods only. Other users are not restricted.
//!
//! Upstream: plugin/pkg/admission/noderestriction

mod nodes;
mod pods;
mod tokens;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use x509_parser::prelude::{FromDer, X509CertificationRequest};

use super::{Attributes, Operation};
use crate::auth::authentication::NODE_PREFIX;
use crate::cache::watch_cache::Entry;
use crate::registry::admit::AdmissionFuture;
use machinery::field_path::quote;
use machinery::{GroupResource, Object, Status, Value};

const LEASE_NAMESPACE: &str = "kube-node-lease";
/// The signers whose certificates have the name of a node.
const NODE_SIGNERS: [&str; 2] =
    ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

/// A write of a node.
struct NodeWrite<'a> {
    node: &'a str,
    attributes: &'a Attributes<'a>,
    /// The new object; None for a deletion.
    object: Option<&'a Object>,
}

/// Rejects creations and updates that a node may not make.
pub(super) fn mutate<'a>(
    attributes: &'a Attributes<'a>,
    object: &'a mut Object,
) -> AdmissionFuture<'a, ()> {
    let is_write = matches!(attributes.operation, Operation::Create | Operation::Update);
    let node = attributes.scope.user.node_name().filter(|_| is_write);
    let Some(node) = node else { return Box::pin(std::future::ready(Ok(()))) };
    let write = NodeWrite { node, attributes, object: Some(object) };
    Box::pin(async move {
        write.check()?;
        if write.is_token_request() { tokens::check(&write).await } else { Ok(()) }
    })
}

/// Rejects deletions that a node may not make.
pub(super) fn delete(attributes: &Attributes<'_>) -> Result<(), Status> {
    match attributes.scope.user.node_name() {
        Some(node) => NodeWrite { node, attributes, object: None }.check(),
        None => Ok(()),
    }
}

impl NodeWrite<'_> {
    /// Checks everything but requests for tokens, which may wait for the authorizers.
    fn check(&self) -> Result<(), Status> {
        if self.node.is_empty() {
            let user = quote(&self.attributes.scope.user.name);
            return self.forbid(&format!("could not determine node from user {user}"));
        }
        let resource = self.attributes.scope.resource();
        match (resource.group.as_str(), resource.plural.as_str()) {
            ("", "pods") => pods::check(self),
            ("", "nodes") => nodes::check(self),
            ("", "persistentvolumeclaims") => self.check_claim(),
            ("coordination.k8s.io", "leases") => self.check_lease(),
            ("storage.k8s.io", "csinodes") if self.name() != self.node => {
                self.forbid("can only access CSINode with the same name as the requesting node")
            }
            ("resource.k8s.io", "resourceslices") => self.check_slice(),
            ("certificates.k8s.io", "certificatesigningrequests") => self.check_signing_request(),
            _ => Ok(()),
        }
    }

    fn is_token_request(&self) -> bool {
        self.attributes.operation == Operation::Create
            && self.attributes.is_subresource_of("", "serviceaccounts", "token")
    }

    fn subresource(&self) -> &str {
        &self.attributes.scope.path.subresource
    }

    /// The name of the object, also of one that is created.
    fn name(&self) -> &str {
        &self.attributes.name
    }

    /// The answer 403 with this reason. Upstream: admission `NewForbidden`.
    fn forbid(&self, why: &str) -> Result<(), Status> {
        let object = self.object;
        let generated = object.map_or("", |it| it.meta_text("generateName"));
        let names = [self.name(), object.map_or("", Object::name), generated, "Unknown"];
        let name = names.into_iter().find(|it| !it.is_empty()).unwrap_or_default();
        Err(Status::forbidden(&self.attributes.scope.group_resource(), name, why))
    }

    /// The stored object of a built-in kind, or the answer 404. Upstream: a lister names the kind in
    /// the singular.
    fn find(
        &self,
        (group, plural, singular): (&str, &str, &str),
        namespace: &str,
        name: &str,
    ) -> Result<Object, Status> {
        let catalog = self.attributes.scope.storage.catalog.load();
        let found = catalog.resource(group, plural).and_then(|it| {
            let entry = it.cache.get(&it.key(namespace, name)).filter(|it| !it.uninitialized)?;
            Some(Entry::object_as_stored(&entry))
        });
        found.ok_or_else(|| Status::not_found(&GroupResource::new(group, singular), name))
    }

    /// A node changes the capacity and the conditions of a claim when it has resized the volume.
    fn check_claim(&self) -> Result<(), Status> {
        if self.subresource() != "status" {
            return self.forbid("may only update PVC status");
        }
        let (Some(new), Some(old)) = (self.object, self.attributes.old) else {
            let operation = quote(self.attributes.operation.as_str());
            return self.forbid(&format!("unexpected operation {operation}"));
        };
        let changed = changed_fields(&comparable_claim(old), &comparable_claim(new));
        if changed.is_empty() {
            return Ok(());
        }
        let (node, changed) = (quote(self.node), changed.join(", "));
        self.forbid(&format!(
            "node {node} is not allowed to update fields other than status.quantity and status.conditions: {changed}"
        ))
    }

    fn check_lease(&self) -> Result<(), Status> {
        if self.attributes.namespace != LEASE_NAMESPACE {
            let namespace = quote(LEASE_NAMESPACE);
            return self
                .forbid(&format!("can only access leases in the {namespace} system namespace"));
        }
        if self.name() != self.node {
            return self
                .forbid("can only access node lease with the same name as the requesting node");
        }
        Ok(())
    }

    /// The node authorizer checks updates: the node of a slice does not change.
    fn check_slice(&self) -> Result<(), Status> {
        let (slice, verb) = match self.attributes.operation {
            Operation::Create => (self.object, "create"),
            Operation::Delete => (self.attributes.old, "delete"),
            Operation::Update | Operation::Connect => return Ok(()),
        };
        if slice.is_some_and(|it| it.str_at(&["spec", "nodeName"]) == self.node) {
            return Ok(());
        }
        self.forbid(&format!(
            "can only {verb} ResourceSlice with the same NodeName as the requesting node"
        ))
    }

    /// A node requests certificates with its own name.
    fn check_signing_request(&self) -> Result<(), Status> {
        let Some(request) = self.object else { return Ok(()) };
        let is_for_node = NODE_SIGNERS.contains(&request.str_at(&["spec", "signerName"]));
        if self.attributes.operation != Operation::Create || !is_for_node {
            return Ok(());
        }
        let name = match common_name(request.str_at(&["spec", "request"])) {
            Ok(name) => name,
            Err(error) => return self.forbid(&format!("unable to parse csr: {error}")),
        };
        let node = self.node;
        if name.strip_prefix(NODE_PREFIX) != Some(node) {
            return self.forbid(&format!("can only create a node CSR with CN={NODE_PREFIX}{node}"));
        }
        Ok(())
    }
}

/// The common name in a request for a certificate, which is PEM in base64.
fn common_name(request: &str) -> Result<String, &'static str> {
    let no_request = "PEM block type must be CERTIFICATE REQUEST";
    let pem = BASE64_STANDARD.decode(request).map_err(|_| no_request)?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(&pem).map_err(|_| no_request)?;
    if pem.label != "CERTIFICATE REQUEST" {
        return Err(no_request);
    }
    let malformed = "x509: malformed certificate request";
    let (_, request) = X509CertificationRequest::from_der(&pem.contents).map_err(|_| malformed)?;
    let subject = &request.certification_request_info.subject;
    // Upstream: the last of several names counts.
    let name = subject.iter_common_name().last().map(|it| it.as_str().map(str::to_owned));
    name.unwrap_or(Ok(String::new())).map_err(|_| malformed)
}

/// The parts of a claim that a node may not change.
fn comparable_claim(claim: &Object) -> Value {
    let mut value = Value::Object(claim.map().clone());
    let metadata = ["resourceVersion", "managedFields"];
    let status = ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"];
    for (part, fields) in [("metadata", &metadata[..]), ("status", &status[..])] {
        if let Some(part) = value.get_mut(part).and_then(Value::as_object_mut) {
            part.retain(|key, _| !fields.contains(&key.as_str()));
        }
    }
    value
}

/// The paths of the fields in which two objects differ. An empty field counts as absent.
fn changed_fields(old: &Value, new: &Value) -> Vec<String> {
    let mut changed = Vec::new();
    compare(old, new, "", &mut changed);
    changed
}

fn compare(old: &Value, new: &Value, path: &str, changed: &mut Vec<String>) {
    if old == new || (is_empty(old) && is_empty(new)) {
        return;
    }
    let empty = serde_json::Map::new();
    let fields = |value: &'_ Value| value.is_object() || is_empty(value);
    if path.is_empty() || (fields(old) && fields(new)) {
        let [old, new] = [old, new].map(|it| it.as_object().unwrap_or(&empty));
        let added = new.keys().filter(|key| !old.contains_key(*key));
        for key in old.keys().chain(added) {
            let of =
                |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            compare(&of(old), &of(new), &path, changed);
        }
        return;
    }
    changed.push(path.to_owned());
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Number(_) => false,
    }
}
