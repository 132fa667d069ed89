//! `PodSecurity`: validates pods against the Pod Security Standards that the labels of their
//! namespace select. Workloads, such as deployments, get warnings only; their pods are rejected.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::{Attributes, Operation};
use crate::cache::watch_cache::Entry;
use kinds::core::pod::security_standards::{
    Level, LevelVersion, Policy, evaluate, is_significant, template,
};
use machinery::{ErrorList, Object, Status, Value};

/// The maximum number of existing pods that are checked when a namespace gets a stricter level.
const MAX_PODS: usize = 3000;

/// Subresources of pods that do not change the spec.
const IGNORED_POD_SUBRESOURCES: [&str; 8] =
    ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

/// Validates pods, workloads and namespaces.
pub(super) fn validate(attributes: &Attributes<'_>, object: &Object) -> Result<(), Status> {
    let resource = attributes.scope.resource();
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") if attributes.is_of("", "namespaces") => {
            validate_namespace(attributes, object)
        }
        ("", "pods") => validate_pod(attributes, object),
        (group, plural) if attributes.scope.path.subresource.is_empty() => {
            match template(group, plural, object) {
                Some((metadata, spec)) => {
                    if let Some(policy) = namespace_policy(attributes) {
                        warn(attributes, policy.warn, metadata, spec);
                    }
                    Ok(())
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn validate_pod(attributes: &Attributes<'_>, pod: &Object) -> Result<(), Status> {
    let is_ignored = IGNORED_POD_SUBRESOURCES.contains(&attributes.scope.path.subresource.as_str());
    if is_ignored || attributes.old.is_some_and(|old| !is_significant(pod, old)) {
        return Ok(());
    }
    let Some(policy) = namespace_policy(attributes) else { return Ok(()) };
    let Some((metadata, spec)) = template("", "pods", pod) else { return Ok(()) };
    let violations = evaluate(policy.enforce, metadata, spec);
    if !violations.is_empty() {
        let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, violations.details());
        return Err(Status::forbidden(&attributes.scope.group_resource(), &attributes.name, &why));
    }
    warn(attributes, policy.warn, metadata, spec);
    Ok(())
}

fn warn(attributes: &Attributes<'_>, level: LevelVersion, metadata: &Value, spec: &Value) {
    let violations = evaluate(level, metadata, spec);
    if !violations.is_empty() {
        let details = violations.details();
        attributes.scope.warn(format!("would violate PodSecurity \"{level}\": {details}"));
    }
}

/// The policy of the request's namespace; None if it allows everything.
fn namespace_policy(attributes: &Attributes<'_>) -> Option<Policy> {
    let catalog = attributes.scope.storage.catalog.load();
    let namespaces = catalog.resource("", "namespaces")?;
    let namespace = namespaces.cache.get(&namespaces.key("", attributes.namespace))?;
    let policy = Policy::of(|key| namespace.label(key), &mut ErrorList::new());
    Some(policy).filter(|it| !it.is_fully_privileged())
}

/// Validates the labels of a namespace, and warns about existing pods that violate its new level.
fn validate_namespace(attributes: &Attributes<'_>, namespace: &Object) -> Result<(), Status> {
    let mut errors = ErrorList::new();
    let new = Policy::of(|key| namespace.label(key), &mut errors);
    let mut old_errors = ErrorList::new();
    let old = attributes.old.map(|old| Policy::of(|key| old.label(key), &mut old_errors));
    // An update that leaves the invalid labels unchanged is allowed.
    let is_unchanged = old.is_some() && errors.summary() == old_errors.summary();
    if !errors.is_empty() && !is_unchanged {
        let kind = attributes.scope.resource().group_kind();
        return Err(Status::invalid(&kind, namespace.name(), &errors));
    }
    let (Operation::Update, Some(old)) = (attributes.operation, old) else { return Ok(()) };
    let (new, old) = (new.enforce, old.enforce);
    let is_relaxed = new.version == old.version && new.level <= old.level;
    if new.level != Level::Privileged && !is_relaxed {
        for warning in existing_pod_warnings(attributes, namespace.name(), new) {
            attributes.scope.warn(warning);
        }
    }
    Ok(())
}

/// Warnings about existing pods that violate the new level of their namespace.
fn existing_pod_warnings(
    attributes: &Attributes<'_>,
    namespace: &str,
    level: LevelVersion,
) -> Vec<String> {
    let catalog = attributes.scope.storage.catalog.load();
    let Some(pods) = catalog.resource("", "pods") else { return Vec::new() };
    let snapshot = pods.cache.snapshot();
    let prefix = pods.key(namespace, "");
    let (checked, all) = prioritize_pods(snapshot.under(&prefix, None));
    // By reasons: the first pod by name, and the number of pods.
    let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in &checked {
        let Some((metadata, spec)) = template("", "pods", pod) else { continue };
        let violations = evaluate(level, metadata, spec);
        if !violations.is_empty() {
            let (name, count) = found.entry(violations.reasons()).or_default();
            if *count == 0 || pod.name() < name.as_str() {
                pod.name().clone_into(name);
            }
            *count += 1;
        }
    }
    let mut warnings = Vec::new();
    if checked.len() < all {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {} of {all} existing pods",
            checked.len()
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{level}\""
        ));
    }
    let mut named: Vec<String> = found
        .into_iter()
        .map(|(reasons, (name, count))| match count {
            1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            count => format!("{name} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    named.sort_unstable();
    warnings.extend(named);
    warnings
}

/// The pods to check, and the number of all pods. One pod of each controller comes first, because
/// the other pods of the controller usually have the same spec.
fn prioritize_pods<'a>(entries: impl Iterator<Item = &'a Arc<Entry>>) -> (Vec<Object>, usize) {
    let mut seen: HashSet<String> = HashSet::new();
    let (mut first, mut others) = (Vec::new(), Vec::new());
    let mut all = 0;
    for entry in entries {
        all += 1;
        let pod = entry.object_as_stored();
        match controller(&pod) {
            Some(uid) if !seen.insert(uid.to_owned()) => {
                if others.len() < MAX_PODS {
                    others.push(pod);
                }
            }
            _ => first.push(pod),
        }
    }
    first.append(&mut others);
    first.truncate(MAX_PODS);
    (first, all)
}

fn controller(pod: &Object) -> Option<&str> {
    let owners = pod.metadata()?.get("ownerReferences")?.as_array()?;
    owners.iter().find(|it| it.get("controller") == Some(&Value::Bool(true)))?.get("uid")?.as_str()
}
