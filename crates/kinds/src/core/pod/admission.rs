//! The rules of the admission plugins `DefaultTolerationSeconds`, `Priority`, `AlwaysPullImages`
//! and `LimitPodHardAntiAffinityTopology` for pods.

use std::collections::HashSet;

use super::{CONTAINERS, each_container};
use machinery::fields::{
    at, default_value, integer, list, list_mut, map_mut, maps_mut, part, text, top,
};
use machinery::{ErrorList, Object, Path, json};

const TOLERATED_SECONDS: i64 = 300;

/// Adds the default tolerations for nodes that are not ready or not reachable, unless the pod has
/// its own.
pub fn default_tolerations(pod: &mut Object) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerations = list_mut(pod.map_at(&["spec"]), "tolerations");
        let is_covered = tolerations.iter().any(|toleration| {
            matches!(text(toleration, "key"), it if it == key || it.is_empty())
                && matches!(text(toleration, "effect"), "NoExecute" | "")
        });
        if !is_covered {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": TOLERATED_SECONDS,
            }));
        }
    }
}

fn set_priority(pod: &mut Object, value: i64, policy: &str) {
    let spec = pod.map_at(&["spec"]);
    spec.insert("priority".to_owned(), value.into());
    default_value(spec, "preemptionPolicy", policy.into());
}

/// Sets the priority of a pod to that of its priority class; `class` is None if it is not stored.
/// The error says why the pod is forbidden.
pub fn assign_priority(pod: &mut Object, class: Option<&Object>) -> Result<(), String> {
    let name = pod.str_at(&["spec", "priorityClassName"]);
    let (value, policy) = match (name, class) {
        (_, Some(class)) => (
            top(class, "value").as_i64().unwrap_or(0),
            Some(class.str_at(&["preemptionPolicy"])).filter(|policy| !policy.is_empty()),
        ),
        ("", None) => (0, None),
        ("system-cluster-critical", None) => (2_000_000_000, None),
        ("system-node-critical", None) => (2_000_001_000, None),
        (name, None) => return Err(format!("no PriorityClass with name {name} was found")),
    };
    let policy = policy.unwrap_or("PreemptLowerPriority").to_owned();
    let refuse = |what: &str, given: &str, computed: &str| {
        format!(
            "the {what} ({given}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
        )
    };
    let spec = top(pod, "spec");
    if let Some(given) = integer(spec, "priority").filter(|given| *given != value) {
        let (given, computed) = (given.to_string(), value.to_string());
        return Err(refuse("integer value of priority", &given, &computed));
    }
    let given = text(spec, "preemptionPolicy");
    if !given.is_empty() && given != policy {
        return Err(refuse("string value of PreemptionPolicy", given, &policy));
    }
    set_priority(pod, value, &policy);
    Ok(())
}

/// Keeps the priority of a pod if an update omits it.
pub fn keep_priority(new: &mut Object, old: &Object) {
    for key in ["priority", "preemptionPolicy"] {
        if let Some(value) = part(top(old, "spec"), key) {
            default_value(new.map_at(&["spec"]), key, value.clone());
        }
    }
}

/// Whether an update adds an image that the pod did not have.
pub fn has_new_images(new: &Object, old: &Object) -> bool {
    let mut before = HashSet::new();
    let path = Path::root("spec");
    each_container(top(old, "spec"), &path, |it, _| {
        before.insert(text(it, "image").to_owned());
    });
    let mut is_new = false;
    each_container(top(new, "spec"), &path, |container, _| {
        is_new |= !before.contains(text(container, "image"));
    });
    is_new
}

/// Sets the pull policy of all images to `Always`.
pub fn pull_always(pod: &mut Object) {
    let spec = pod.map_at(&["spec"]);
    for part in CONTAINERS {
        for container in maps_mut(spec, part) {
            container.insert("imagePullPolicy".to_owned(), "Always".into());
        }
    }
    for volume in maps_mut(spec, "volumes") {
        if let Some(image) = map_mut(volume, "image") {
            image.insert("pullPolicy".to_owned(), "Always".into());
        }
    }
}

/// The errors about images whose pull policy is not `Always`.
pub fn images_not_always_pulled(pod: &Object) -> Vec<String> {
    let mut errors = ErrorList::new();
    let spec = top(pod, "spec");
    let path = Path::root("spec");
    each_container(spec, &path, |container, path| {
        let policy = text(container, "imagePullPolicy");
        if policy != "Always" {
            errors.not_supported(&path.child("imagePullPolicy"), policy, &["Always"]);
        }
    });
    let path = path.child("volumes");
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let image = at(volume, &["image"]);
        let policy = text(image, "pullPolicy");
        if image.is_object() && policy != "Always" {
            let path = path.index(index);
            errors.not_supported(&path.child("image").child("pullPolicy"), policy, &["Always"]);
        }
    }
    errors.iter().map(ToString::to_string).collect()
}

/// The error about a required pod anti-affinity whose topology is not a single node.
pub fn refused_anti_affinity(pod: &Object) -> Option<String> {
    const HOST: &str = "kubernetes.io/hostname";
    let affinity = at(top(pod, "spec"), &["affinity", "podAntiAffinity"]);
    let terms = list(affinity, "requiredDuringSchedulingIgnoredDuringExecution").iter();
    let key = terms.map(|it| text(it, "topologyKey")).find(|it| *it != HOST)?;
    Some(format!(
        "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOST} is allowed"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;
    use machinery::Value;

    fn pod(spec: Value) -> Object {
        object(json!({"metadata": {"name": "a"}, "spec": spec}))
    }

    #[test]
    fn missing_default_tolerations_are_added() {
        let mut pod = pod(json!({"tolerations": [{"key": "node.kubernetes.io/not-ready",
            "operator": "Exists", "effect": "NoExecute"}]}));
        default_tolerations(&mut pod);
        let keys: Vec<&str> =
            list(top(&pod, "spec"), "tolerations").iter().map(|it| text(it, "key")).collect();
        assert_eq!(keys, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
    }

    #[test]
    fn a_pod_gets_the_priority_of_its_class() {
        let class = object(json!({"value": 7, "preemptionPolicy": "Never"}));
        let mut named = pod(json!({"priorityClassName": "c"}));
        assert_eq!(assign_priority(&mut named, Some(&class)), Ok(()));
        assert_eq!(top(&named, "spec")["priority"], 7);
        assert_eq!(top(&named, "spec")["preemptionPolicy"], "Never");
        assert_eq!(
            assign_priority(&mut pod(json!({"priorityClassName": "none"})), None),
            Err("no PriorityClass with name none was found".to_owned())
        );
        assert!(assign_priority(&mut pod(json!({"priority": 9})), None).is_err());
    }
}
