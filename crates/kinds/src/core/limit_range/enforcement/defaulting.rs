//! [`set_defaults`]: copies the defaults of limit ranges into the containers of a pod.
//!
//! Each default is copied into each container, so the result may be thousands of times larger than
//! the limit ranges and the pod together. Therefore the number of bytes is computed and limited
//! before anything is copied.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Limits;
use machinery::fields::{at, list, maps_mut, top};
use machinery::{Map, Object, Value};

/// The annotation that lists the defaults that were set.
pub(super) const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The maximum number of bytes that the defaults may add to a pod, 1.5 MiB: a larger object cannot
/// be stored.
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
struct DefaultQuantity<'a> {
    value: &'a Value,
    /// The index of the limit range that has it.
    range: usize,
}

/// The defaults of `requests` or of `limits`, by the names of resources.
type Defaults<'a> = BTreeMap<&'a str, DefaultQuantity<'a>>;

/// The defaults of one field of a container's resources.
struct FieldDefaults<'a> {
    /// `requests` or `limits`.
    field: &'static str,
    /// The word for one of them in the annotation.
    word: &'static str,
    defaults: Defaults<'a>,
}

/// Sets the requests and limits that the containers of a pod do not have, and lists them in an
/// annotation. If several limit ranges have a default for the same resource, the first one wins.
pub fn set_defaults(ranges: &[Arc<Limits>], pod: &mut Object) -> Result<(), TooManyDefaults> {
    let fields = [
        FieldDefaults {
            field: "requests",
            word: "request",
            defaults: merged(ranges, |range| &range.default_request),
        },
        FieldDefaults {
            field: "limits",
            word: "limit",
            defaults: merged(ranges, |range| &range.default),
        },
    ];
    if fields.iter().all(|it| it.defaults.is_empty()) {
        return Ok(());
    }
    // As upstream, the annotation only lists the defaults of the last limit range that sets any:
    // each one overwrites the annotation of those before it.
    let Some(last) = last_range(pod, &fields)? else { return Ok(()) };
    let mut notes = Vec::new();
    for (list, container_word) in LISTS {
        for container in maps_mut(pod.map_at(&["spec"]), list) {
            for FieldDefaults { field, word, defaults } in &fields {
                let names = set_in_container(container, field, defaults, last);
                if !names.is_empty() {
                    let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
                    notes.push(format!("{} {word} for {container_word} {name}", names.join(", ")));
                }
            }
        }
    }
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
            merged.entry(name.as_str()).or_insert(DefaultQuantity { value, range });
        }
    }
    merged
}

/// The index of the last limit range of which a container gets a default, if there is one. Fails if
/// the defaults are too large.
fn last_range(
    pod: &Object,
    fields: &[FieldDefaults<'_>],
) -> Result<Option<usize>, TooManyDefaults> {
    let spec = top(pod, "spec");
    let (mut last, mut added) = (None, 0);
    for FieldDefaults { field, defaults, .. } in fields {
        for container in LISTS.iter().flat_map(|(containers, _)| list(spec, containers)) {
            for (name, default) in missing(at(container, &["resources", field]), defaults) {
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
) -> impl Iterator<Item = (&'d str, &'a DefaultQuantity<'d>)> {
    let is_missing = |name: &str| present.get(name).is_none();
    defaults
        .iter()
        .map(|(name, default)| (*name, default))
        .filter(move |(name, _)| is_missing(name))
}

/// Sets the missing quantities of `field` and returns the names of those that come from the limit
/// range with the index `range`.
fn set_in_container<'d>(
    container: &mut Map<String, Value>,
    field: &str,
    defaults: &Defaults<'d>,
    range: usize,
) -> Vec<&'d str> {
    let present = container.get("resources").map_or(&Value::Null, |it| at(it, &[field]));
    let missing: Vec<&str> = missing(present, defaults).map(|(name, _)| name).collect();
    if missing.is_empty() {
        return missing;
    }
    let empty = || Value::Object(Map::new());
    let resources = container.entry("resources").or_insert_with(empty);
    if !resources.is_object() {
        *resources = empty();
    }
    if !resources[field].is_object() {
        resources[field] = empty();
    }
    for name in &missing {
        resources[field][*name] = defaults[name].value.clone();
    }
    missing.into_iter().filter(|name| defaults[name].range == range).collect()
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
    fn missing_requests_and_limits_are_set_and_listed_in_the_annotation() {
        let range = range(json!({"type": "Container",
            "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}}));
        let container = json!({"name": "c", "resources": {"limits": {"cpu": "2"}}});
        let mut pod = object(json!({"spec": {"containers": [container]}}));
        set_defaults(&[range], &mut pod).unwrap();
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
    fn the_first_range_wins_and_the_annotation_lists_the_last_one() {
        let ranges = [
            range(json!({"type": "Container", "default": {"cpu": "1"}})),
            range(json!({"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}})),
            range(json!({"type": "Container", "default": {"memory": "2Gi"}})),
        ];
        let mut pod = object(json!({"spec": {"containers": [{"name": "c"}]}}));
        set_defaults(&ranges, &mut pod).unwrap();
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
        assert!(set_defaults(&[range], &mut changed).is_err());
        assert_eq!(changed, pod);
    }
}
