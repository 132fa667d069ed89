//! `PodSecurity`: validates pods against the Pod Security Standards that the labels of their
//! namespace select. Workloads, such as deployments, get warnings only; their pods are rejected.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Attributes, Operation};
use crate::cache::watch_cache::Entry;
use crate::registry::admit::AdmissionFuture;
use crate::registry::large_objects::offload_if;
use kinds::core::pod::security_standards::{
    Level, LevelVersion, Policy, evaluate, is_significant, template,
};
use machinery::{ErrorList, Object, Status, Value};

/// The maximum number of existing pods that are checked when a namespace gets a stricter level.
const MAX_PODS: usize = 3000;

/// The maximum time of this check. Upstream: pod-security-admission, `defaultNamespacePodCheckTimeout`.
const MAX_DURATION: Duration = Duration::from_secs(1);

/// The audit annotation with the level that is enforced.
const ENFORCE_POLICY: &str = "pod-security.kubernetes.io/enforce-policy";

/// The audit annotation with the violations of the level that is audited.
const AUDIT_VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";

/// Subresources of pods that do not change the spec.
const IGNORED_POD_SUBRESOURCES: [&str; 8] =
    ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

/// Validates pods, workloads and namespaces.
pub(super) fn validate<'a>(
    attributes: &'a Attributes<'a>,
    object: &'a Object,
) -> AdmissionFuture<'a, ()> {
    if attributes.is_of("", "namespaces") {
        return Box::pin(validate_namespace(attributes, object));
    }
    Box::pin(std::future::ready(validate_namespaced(attributes, object)))
}

/// Validates pods and workloads.
fn validate_namespaced(attributes: &Attributes<'_>, object: &Object) -> Result<(), Status> {
    let resource = attributes.scope.resource();
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => validate_pod(attributes, object),
        (group, plural) if attributes.scope.path.subresource.is_empty() => {
            match template(group, plural, object) {
                Some((metadata, spec)) => {
                    if let Some(policy) = namespace_policy(attributes) {
                        audit(attributes, policy.audit, metadata, spec);
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
    let Some(policy) = namespace_policy(attributes) else {
        annotate(attributes, ENFORCE_POLICY, || "privileged:latest".to_owned());
        return Ok(());
    };
    let Some((metadata, spec)) = template("", "pods", pod) else { return Ok(()) };
    annotate(attributes, ENFORCE_POLICY, || policy.enforce.to_string());
    audit(attributes, policy.audit, metadata, spec);
    let violations = evaluate(policy.enforce, metadata, spec);
    if !violations.is_empty() {
        let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, violations.details());
        return Err(Status::forbidden(&attributes.scope.group_resource(), &attributes.name, &why));
    }
    warn(attributes, policy.warn, metadata, spec);
    Ok(())
}

/// Records violations in the audit event of the request, if it has one.
fn audit(attributes: &Attributes<'_>, level: LevelVersion, metadata: &Value, spec: &Value) {
    if attributes.scope.audit.is_none() {
        return;
    }
    let violations = evaluate(level, metadata, spec);
    if !violations.is_empty() {
        let details = violations.details();
        annotate(attributes, AUDIT_VIOLATIONS, || {
            format!("would violate PodSecurity \"{level}\": {details}")
        });
    }
}

fn annotate(attributes: &Attributes<'_>, key: &str, value: impl FnOnce() -> String) {
    if let Some(audit) = &attributes.scope.audit {
        audit.annotate(key, &value());
    }
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
async fn validate_namespace(attributes: &Attributes<'_>, namespace: &Object) -> Result<(), Status> {
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
        let scope = attributes.scope;
        let check = async { existing_pod_warnings(attributes, namespace.name(), new) };
        for warning in offload_if(true, scope, check).await {
            scope.warn(warning);
        }
    }
    Ok(())
}

/// Warnings about existing pods that violate the new level of their namespace. The pods are parsed
/// one at a time, until the time limit.
fn existing_pod_warnings(
    attributes: &Attributes<'_>,
    namespace: &str,
    level: LevelVersion,
) -> Vec<String> {
    let catalog = attributes.scope.storage.catalog.load();
    let Some(pods) = catalog.resource("", "pods") else { return Vec::new() };
    let snapshot = pods.cache.snapshot();
    let prefix = pods.key(namespace, "");
    let now = Instant::now();
    let half_of_remaining = attributes.scope.deadline.saturating_duration_since(now) / 2;
    let deadline = now + MAX_DURATION.min(half_of_remaining);
    let (prioritized, all) = prioritize_pods(snapshot.under(&prefix, None), deadline);
    // By reasons: the first pod by name, and the number of pods.
    let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
    let mut checked = 0;
    for entry in prioritized {
        let pod = entry.object_as_stored();
        checked += 1;
        if let Some((metadata, spec)) = template("", "pods", &pod) {
            let violations = evaluate(level, metadata, spec);
            if !violations.is_empty() {
                let (name, count) = found.entry(violations.reasons()).or_default();
                if *count == 0 || pod.name() < name.as_str() {
                    pod.name().clone_into(name);
                }
                *count += 1;
            }
        }
        if Instant::now() >= deadline {
            break;
        }
    }
    let mut warnings = Vec::new();
    if checked < all {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {all} existing pods"
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
/// the other pods of the controller usually have the same spec. Only the metadata are read, until
/// `deadline`; at least one pod is returned.
fn prioritize_pods<'a>(
    entries: impl Iterator<Item = &'a Arc<Entry>>,
    deadline: Instant,
) -> (Vec<&'a Arc<Entry>>, usize) {
    let mut seen: HashSet<String> = HashSet::new();
    let (mut first, mut others) = (Vec::new(), Vec::new());
    let mut all = 0;
    for entry in entries {
        all += 1;
        let is_done = first.len() >= MAX_PODS || all > 1 && Instant::now() >= deadline;
        if is_done {
            continue;
        }
        if entry.controller_uid().is_none_or(|uid| seen.insert(uid)) {
            first.push(entry);
        } else if others.len() < MAX_PODS {
            others.push(entry);
        }
    }
    first.append(&mut others);
    first.truncate(MAX_PODS);
    (first, all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Record;

    fn entry(name: &str, controller: &str) -> Arc<Entry> {
        let value = format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","ownerReferences":[{{"uid":"o"}},{{"uid":"{controller}","controller":true}}]}}}}"#
        );
        let record = Record {
            key: format!("/registry/pods/n/{name}").into(),
            value: value.into(),
            created: 1,
            modified: 1,
            expires: None,
        };
        Arc::new(Entry::of(&record, "/registry/pods".len()))
    }

    fn prioritized(deadline: Instant) -> (Vec<String>, usize) {
        let entries = [entry("a", "x"), entry("b", "x"), entry("c", "y")];
        let (pods, all) = prioritize_pods(entries.iter(), deadline);
        (pods.iter().map(|it| it.name().to_owned()).collect(), all)
    }

    #[test]
    fn one_pod_of_each_controller_comes_first() {
        let names = ["a", "c", "b"].map(str::to_owned).to_vec();
        assert_eq!(prioritized(Instant::now() + MAX_DURATION), (names, 3));
    }

    #[test]
    fn only_one_pod_is_checked_after_the_time_limit() {
        assert_eq!(prioritized(Instant::now()), (vec!["a".to_owned()], 3));
    }
}
