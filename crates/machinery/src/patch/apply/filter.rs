//! [`Filter`]: the fields that a request cannot change, and so cannot own.

use super::compare::Comparison;
use super::element::PathElement;
use super::set::Set;

/// The fields that a request can change. Paths are field names from the object's root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// All but these and their descendants.
    Without(&'static [&'static [&'static str]]),
    /// Only these fields and their descendants; None matches any single element.
    Only(&'static [&'static [Option<&'static str>]]),
}

/// Fields without an owner: the type, the name, and fields that the server sets.
const UNOWNED: [&[&str]; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

impl Filter {
    /// All fields.
    pub const ALL: Self = Self::Without(&[]);

    /// The part of a set that passes the filter.
    pub(super) fn apply(self, mut set: Set) -> Set {
        match self {
            Self::Without(paths) => {
                for path in paths {
                    cut(&mut set, path, true);
                }
                set
            }
            Self::Only(patterns) => only(set, patterns),
        }
    }

    /// The part of a comparison that passes the filter.
    pub(super) fn apply_to(self, changes: Comparison) -> Comparison {
        Comparison {
            removed: self.apply(changes.removed),
            modified: self.apply(changes.modified),
            added: self.apply(changes.added),
        }
    }
}

/// The comparison without the fields that have no owner.
pub(super) fn strip_all(changes: Comparison) -> Comparison {
    let Comparison { removed, modified, added } = changes;
    Comparison { removed: strip(removed), modified: strip(modified), added: strip(added) }
}

/// The set without the fields that have no owner.
pub(super) fn strip(mut set: Set) -> Set {
    for path in UNOWNED {
        cut(&mut set, path, false);
    }
    set
}

/// Removes a path from the set, with or without its descendants.
fn cut(set: &mut Set, path: &[&str], with_descendants: bool) {
    let Some((first, rest)) = path.split_first() else { return };
    let named = |element: &PathElement| element.as_field() == Some(first);
    let Some(at) = set.nodes.iter().position(|node| named(&node.element)) else { return };
    let node = &mut set.nodes[at];
    if rest.is_empty() {
        node.owned = false;
        if with_descendants {
            node.below = Set::new();
        }
    } else {
        cut(&mut node.below, rest, with_descendants);
    }
    if !node.owned && node.below.is_empty() {
        set.nodes.remove(at);
    }
}

/// The part of the set that leads to a pattern or is below it.
fn only(set: Set, patterns: &[&[Option<&str>]]) -> Set {
    let mut kept = Set::new();
    for node in set.nodes {
        let fits = |step: Option<&str>| step.is_none_or(|it| node.element.as_field() == Some(it));
        let rests: Vec<&[Option<&str>]> = patterns
            .iter()
            .filter_map(|pattern| pattern.split_first())
            .filter(|(step, _)| fits(**step))
            .map(|(_, rest)| rest)
            .collect();
        if rests.is_empty() {
            continue;
        }
        let whole = rests.iter().any(|rest| rest.is_empty());
        let below = if whole { node.below } else { only(node.below, &rests) };
        kept.attach(node.element, node.owned, below);
    }
    kept
}
