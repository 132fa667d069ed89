//! Finds the default among storage classes or ingress classes.

use std::cmp::Reverse;

use crate::cache::watch_cache::Snapshot;
use machinery::Object;

/// The name of the class on which one of these annotations is `true`. Of several such classes, the
/// newest is the default; of equally old ones, the first by name.
pub(super) fn default_class(classes: &Snapshot, annotations: &[&str]) -> Option<String> {
    let mut defaults: Vec<Object> = classes
        .entries
        .values()
        .map(|it| it.object_as_stored())
        .filter(|it| annotations.iter().any(|key| it.annotation(key) == Some("true")))
        .collect();
    let newest_first = |it: &Object| Reverse(it.meta_text("creationTimestamp").to_owned());
    defaults.sort_by_cached_key(|it| (newest_first(it), it.name().to_owned()));
    defaults.first().map(|it| it.name().to_owned())
}
