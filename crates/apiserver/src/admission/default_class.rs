//! Finds the default among storage classes or ingress classes.

use std::cmp::Reverse;

use crate::cache::watch_cache::Snapshot;
use machinery::Object;

/// The name of the class with one of the annotations `marks`. Of several such classes the newest is
/// the default; of equally old ones the first by name.
pub(super) fn default_class(classes: &Snapshot, marks: &[&str]) -> Option<String> {
    let mut marked: Vec<Object> = classes
        .entries
        .values()
        .map(|it| it.object_as_stored())
        .filter(|it| marks.iter().any(|mark| it.annotation(mark) == Some("true")))
        .collect();
    let age = |it: &Object| Reverse(it.meta_text("creationTimestamp").to_owned());
    marked.sort_by_cached_key(|it| (age(it), it.name().to_owned()));
    marked.first().map(|it| it.name().to_owned())
}
