//! [`fill_in`]: copies the defaults of limit ranges into the containers of a pod.
//!
//! Each default is copied into each container, so that the result may be thousands of times larger
//! than the limit ranges and the pod together. The number of bytes is therefore computed, and limited,
//! before anything is copied.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Limits;
use machinery::fields::{at, list, maps_mut, top};
use machinery::{Map, Object, Value};

/// The annotation that lists the defaults that were set.
pub(super) const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The defaults may add this many bytes to a pod: an object with more is too large to be stored.
const ADDED_MAX: usize = 3 << 19;

/// The quotes, the colon and the comma of a member of a JSON object.
const PUNCTUATION: usize = 6;

/// The lists of containers that get defaults, and the words for their elements in the annotation.
const LISTS: [(&str, &str); 2] =
    [("containers", "container"), ("initContainers", "init container")];

/// Refuse the pod: the defaults of the limit ranges make it too large.
#[derive(Debug, thiserror::Error)]
#[error(
    "the limit ranges of the namespace add more than {ADDED_MAX} bytes of defaults to the containers of the pod"
)]
pub struct TooManyDefaults;

/// The default of one resource.
struct Default<'a> {
    value: &'a Value,
    /// The index of the limit range that it comes from.
    range: usize,
}

/// The defaults of `requests` or of `limits`, by the names of resources.
type Defaults<'a> = BTreeMap<&'a str, Default<'a>>;

/// Fills in the requests and limits that the containers of a pod do not have, and notes that in an
/// annotation. If several limit ranges have a default for the same resource, the first one wins.
pub fn fill_in(ranges: &[Arc<Limits>], pod: &mut Object) -> Result<(), TooManyDefaults> {
    let parts = [
        ("requests", "request", merged(ranges, |range| &range.default_request)),
        ("limits", "limit", merged(ranges, |range| &range.default)),
    ];
    if parts.iter().all(|(_, _, defaults)| defaults.is_empty()) {
        return Ok(());
    }
    let Some(last) = last_range(pod, &parts)? else { return Ok(()) };
    let mut notes = Vec::new();
    for (list, word) in LISTS {
        for container in maps_mut(pod.map_at(&["spec"]), list) {
            for (key, what, defaults) in &parts {
                let names = fill_container(container, key, defaults, last);
                if !names.is_empty() {
                    let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
                    notes.push(format!("{} {what} for {word} {name}", names.join(", ")));
                }
            }
        }
    }
    // Each limit range that fills in something overwrites the note of those before it.
    let note = format!("LimitRanger plugin set: {}", notes.join("; "));
    pod.map_at(&["metadata", "annotations"]).insert(ANNOTATION.to_owned(), note.into());
    Ok(())
}

fn merged<'a>(
    ranges: &'a [Arc<Limits>],
    defaults: impl Fn(&'a Limits) -> &'a Map<String, Value>,
) -> Defaults<'a> {
    let mut merged = Defaults::new();
    for (range, limits) in ranges.iter().enumerate() {
        for (name, value) in defaults(limits) {
            merged.entry(name.as_str()).or_insert(Default { value, range });
        }
    }
    merged
}

/// The index of the last limit range of which a container gets a default, if there is one.
fn last_range(
    pod: &Object,
    parts: &[(&str, &str, Defaults<'_>)],
) -> Result<Option<usize>, TooManyDefaults> {
    let spec = top(pod, "spec");
    let (mut last, mut added) = (None, 0);
    for (key, _, defaults) in parts {
        for container in LISTS.iter().flat_map(|(containers, _)| list(spec, containers)) {
            for (name, default) in missing(at(container, &["resources", key]), defaults) {
                last = last.max(Some(default.range));
                added += name.len() + default.value.as_str().map_or(0, str::len) + PUNCTUATION;
            }
            if added > ADDED_MAX {
                return Err(TooManyDefaults);
            }
        }
    }
    Ok(last)
}

fn missing<'a, 'd>(
    present: &'a Value,
    defaults: &'a Defaults<'d>,
) -> impl Iterator<Item = (&'d str, &'a Default<'d>)> {
    let is_missing = |name: &str| present.get(name).is_none();
    defaults
        .iter()
        .map(|(name, default)| (*name, default))
        .filter(move |(name, _)| is_missing(name))
}

/// Fills in the missing members of `key` and returns the names of those that come from the limit range
/// `noted`.
fn fill_container<'d>(
    container: &mut Map<String, Value>,
    key: &str,
    defaults: &Defaults<'d>,
    noted: usize,
) -> Vec<&'d str> {
    let present = container.get("resources").map_or(&Value::Null, |it| at(it, &[key]));
    let missing: Vec<&str> = missing(present, defaults).map(|(name, _)| name).collect();
    if missing.is_empty() {
        return missing;
    }
    let empty = || Value::Object(Map::new());
    let resources = container.entry("resources").or_insert_with(empty);
    if !resources.is_object() {
        *resources = empty();
    }
    if !resources[key].is_object() {
        resources[key] = empty();
    }
    for name in &missing {
        resources[key][*name] = defaults[name].value.clone();
    }
    missing.into_iter().filter(|name| defaults[name].range == noted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;
    use machinery::json;

    fn range(limit: Value) -> Arc<Limits> {
        Arc::new(Limits::of(&object(json!({"spec": {"limits": [limit]}}))))
    }

    fn resources(pod: &Object) -> &Value {
        &at(top(pod, "spec"), &["containers"])[0]["resources"]
    }

    #[test]
    fn missing_resources_are_filled_in_and_noted() {
        let range = range(json!({"type": "Container",
            "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}}));
        let container = json!({"name": "c", "resources": {"limits": {"cpu": "2"}}});
        let mut pod = object(json!({"spec": {"containers": [container]}}));
        fill_in(&[range], &mut pod).unwrap();
        assert_eq!(
            *resources(&pod),
            json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m"}})
        );
        assert_eq!(
            pod.annotation(ANNOTATION),
            Some(
                "LimitRanger plugin set: cpu request for container c; memory limit for container c"
            )
        );
    }

    #[test]
    fn the_first_range_wins_and_the_last_one_is_noted() {
        let ranges = [
            range(json!({"type": "Container", "default": {"cpu": "1"}})),
            range(json!({"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}})),
            range(json!({"type": "Container", "default": {"memory": "2Gi"}})),
        ];
        let mut pod = object(json!({"spec": {"containers": [{"name": "c"}]}}));
        fill_in(&ranges, &mut pod).unwrap();
        assert_eq!(*resources(&pod), json!({"limits": {"cpu": "1", "memory": "1Gi"}}));
        let note = "LimitRanger plugin set: memory limit for container c";
        assert_eq!(pod.annotation(ANNOTATION), Some(note));
    }

    #[test]
    fn a_pod_that_becomes_too_large_is_refused_and_not_changed() {
        let defaults: Map<String, Value> =
            (0..1000).map(|n| (format!("example.com/r{n}"), "1".into())).collect();
        let range = range(json!({"type": "Container", "default": defaults}));
        let containers: Value = (0..100).map(|n| json!({"name": format!("c{n}")})).collect();
        let pod = object(json!({"spec": {"containers": containers}}));
        let mut changed = pod.clone();
        assert!(fill_in(&[range], &mut changed).is_err());
        assert_eq!(changed, pod);
    }
}
