//! `Initializers`: the initializers that process a new object before other clients can see it, as
//! in Kubernetes 1.7 to 1.13.
//!
//! Each `InitializerConfiguration` lists initializers and the resources that they process. The
//! plugin writes their names into the new object, in the order of the configurations' names and
//! then of the list. Each initializer finds the object with `includeUninitialized=true`, processes
//! it, and removes its own name.

use std::collections::HashSet;
use std::future::ready;

use super::{Attributes, Operation};
use crate::auth::authorization;
use crate::auth::authorization::ResourceAttributes;
use crate::cache::watch_cache::Snapshot;
use crate::registry::admit::AdmissionFuture;
use machinery::meta::initializers::is_uninitialized;
use machinery::{Object, Status, Value, json};

/// An initializer and the resources that it processes.
pub(super) struct Initializer {
    name: String,
    rules: Vec<Rule>,
}

/// The resources of an initializer; `*` in a list matches everything.
struct Rule {
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
}

/// All initializers in their order: the keys of the snapshot are in the order of names.
pub(super) fn read(snapshot: &Snapshot) -> Vec<Initializer> {
    let mut all = Vec::new();
    for entry in snapshot.entries.values() {
        let configuration = entry.object_as_stored();
        let initializers = configuration.get(&["initializers"]).and_then(Value::as_array);
        all.extend(initializers.into_iter().flatten().map(Initializer::of));
    }
    all
}

impl Initializer {
    fn of(value: &Value) -> Self {
        let rules = value["rules"].as_array().into_iter().flatten().map(Rule::of).collect();
        Self { name: value["name"].as_str().unwrap_or_default().to_owned(), rules }
    }
}

impl Rule {
    fn of(value: &Value) -> Self {
        let texts = |key: &str| {
            let items = value[key].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
        };
        Self {
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
        }
    }

    fn matches(&self, group: &str, version: &str, resource: &str) -> bool {
        let is_in = |items: &[String], it: &str| items.iter().any(|item| item == "*" || item == it);
        is_in(&self.groups, group)
            && is_in(&self.versions, version)
            && is_in(&self.resources, resource)
    }
}

/// Sets the pending initializers of a new object, unless the request sets them. The verb
/// `initialize` must be authorized to set them or to update an uninitialized object.
pub(super) fn mutate<'a>(
    attributes: &'a Attributes<'a>,
    object: &'a mut Object,
) -> AdmissionFuture<'a, ()> {
    if !attributes.scope.path.subresource.is_empty() {
        return Box::pin(ready(Ok(())));
    }
    match attributes.operation {
        Operation::Create if is_uninitialized(object) => {
            Box::pin(authorize(attributes, object, "create with initializers denied"))
        }
        Operation::Create => {
            add_pending_initializers(attributes, object);
            Box::pin(ready(Ok(())))
        }
        Operation::Update if attributes.old.is_some_and(is_uninitialized) => {
            Box::pin(authorize(attributes, object, "update to uninitialized resource denied"))
        }
        Operation::Update | Operation::Delete | Operation::Connect => Box::pin(ready(Ok(()))),
    }
}

fn add_pending_initializers(attributes: &Attributes<'_>, object: &mut Object) {
    let scope = attributes.scope;
    let initializers = attributes.admission.initializers.current(&scope.storage);
    if initializers.is_empty() || is_exempt(attributes, object) {
        return;
    }
    let (resource, version) = (scope.resource(), scope.version());
    let group = resource.group_of(version);
    let (mut pending, mut names): (Vec<Value>, HashSet<&str>) = Default::default();
    for initializer in initializers.iter() {
        let mut rules = initializer.rules.iter();
        // An initializer that two configurations name takes the first position.
        if rules.any(|it| it.matches(group, &version.name, &resource.plural))
            && names.insert(&initializer.name)
        {
            pending.push(json!({"name": initializer.name}));
        }
    }
    if !pending.is_empty() {
        object.set_meta("initializers", json!({"pending": pending}));
    }
}

/// Configurations are exempt, because a configuration that waits for a missing initializer could
/// not be deleted. Mirror pods are exempt, because they already run when they are created.
fn is_exempt(attributes: &Attributes<'_>, object: &Object) -> bool {
    attributes.is_of("admissionregistration.k8s.io", "initializerconfigurations")
        || (attributes.is_of("", "pods")
            && object.annotation("kubernetes.io/config.mirror").is_some())
}

async fn authorize(attributes: &Attributes<'_>, object: &Object, why: &str) -> Result<(), Status> {
    let scope = attributes.scope;
    let resource = ResourceAttributes::from(&scope.path);
    let initialize = authorization::Attributes::of_resource(&scope.user, "initialize", resource);
    let authorized = attributes.admission.authorizers.check(&initialize).await;
    authorized.map_err(|_| attributes.forbidden(object, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_matches_the_listed_resources_and_a_star_matches_all() {
        let rule = |groups: &[&str], versions: &[&str], resources: &[&str]| {
            let rule =
                json!({"apiGroups": groups, "apiVersions": versions, "resources": resources});
            Rule::of(&rule).matches("apps", "v1", "deployments")
        };
        assert!(rule(&["", "apps"], &["v1"], &["deployments"]));
        assert!(rule(&["*"], &["*"], &["*"]));
        assert!(!rule(&[""], &["v1"], &["deployments"]));
        assert!(!rule(&["apps"], &["v1beta1"], &["deployments"]));
        assert!(!rule(&["apps"], &["v1"], &["deployments/scale", "pods"]));
        assert!(!rule(&[], &[], &[]));
    }
}
