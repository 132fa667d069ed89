//! Places the endpoints of a service in slices, so that few slices change.
//!
//! Upstream: staging/src/k8s.io/endpointslice/reconciler.go `reconcileByPortMapping`

use std::collections::BTreeMap;
use std::sync::Arc;

use super::changes::Changes;
use super::slice::{Endpoint, EndpointKey, Slice};

/// The maximum number of endpoints in a slice.
pub(super) const MAX_ENDPOINTS: usize = 100;

/// The changes that make slices with the same ports contain exactly the desired endpoints:
///
/// 1. Endpoints that are not desired are removed, and others are updated in place.
/// 2. Slices that change anyway are filled, the fullest ones first.
/// 3. The remaining endpoints go to the unchanged slice that they fill best, or to new slices.
pub(super) fn place(
    existing: &[Arc<Slice>],
    mut desired: BTreeMap<EndpointKey, Endpoint>,
    new_slice: &Slice,
) -> Changes {
    let mut changes = Changes::default();
    let mut unchanged: Vec<&Arc<Slice>> = Vec::new();
    for slice in existing {
        let mut kept = Vec::with_capacity(slice.endpoints.len());
        let mut is_changed = false;
        for endpoint in &slice.endpoints {
            match desired.remove(&endpoint.key()) {
                Some(wanted) => {
                    is_changed |= wanted != *endpoint;
                    kept.push(wanted);
                }
                None => is_changed = true,
            }
        }
        let labels_changed = slice.metadata.labels != new_slice.metadata.labels;
        if is_changed && kept.is_empty() {
            changes.delete.push(Arc::clone(slice));
        } else if is_changed || labels_changed {
            let mut updated = Slice::clone(slice);
            updated.endpoints = kept;
            updated.metadata.labels.clone_from(&new_slice.metadata.labels);
            changes.update.push(updated);
        } else {
            unchanged.push(slice);
        }
    }
    changes.update.sort_by_key(|slice| std::cmp::Reverse(slice.endpoints.len()));
    for slice in &mut changes.update {
        fill(slice, &mut desired);
    }
    while !desired.is_empty() {
        let best =
            if desired.len() < MAX_ENDPOINTS { best_fit(&unchanged, desired.len()) } else { None };
        if let Some(index) = best {
            let mut slice = Slice::clone(unchanged.remove(index));
            fill(&mut slice, &mut desired);
            changes.update.push(slice);
        } else {
            let mut slice = new_slice.clone();
            fill(&mut slice, &mut desired);
            changes.create.push(slice);
        }
    }
    changes
}

/// Moves endpoints to a slice until it is full.
fn fill(slice: &mut Slice, desired: &mut BTreeMap<EndpointKey, Endpoint>) {
    while slice.endpoints.len() < MAX_ENDPOINTS {
        let Some((_, endpoint)) = desired.pop_first() else { return };
        slice.endpoints.push(endpoint);
    }
}

/// The slice that is fullest with `count` more endpoints.
fn best_fit(slices: &[&Arc<Slice>], count: usize) -> Option<usize> {
    let free = |slice: &Slice| MAX_ENDPOINTS.checked_sub(count + slice.endpoints.len());
    let slices = slices.iter().enumerate();
    let fitting = slices.filter_map(|(index, slice)| Some((free(slice)?, index)));
    fitting.min().map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(number: usize) -> Endpoint {
        Endpoint {
            addresses: vec![format!("10.0.{}.{}", number / 256, number % 256)],
            ..Endpoint::default()
        }
    }

    fn slice(name: &str, numbers: impl IntoIterator<Item = usize>) -> Arc<Slice> {
        let mut slice =
            Slice { endpoints: numbers.into_iter().map(endpoint).collect(), ..Slice::default() };
        slice.metadata.name = name.to_owned();
        Arc::new(slice)
    }

    /// Places endpoints, and prints `+` created, `~` updated and `-` deleted slices with their size.
    fn check(existing: &[Arc<Slice>], desired: impl IntoIterator<Item = usize>) -> Vec<String> {
        let desired = desired.into_iter().map(endpoint).map(|it| (it.key(), it)).collect();
        let changes = place(existing, desired, &Slice::default());
        let mut lines = Vec::new();
        for created in &changes.create {
            lines.push(format!("+{}", created.endpoints.len()));
        }
        for updated in &changes.update {
            lines.push(format!("~{} {}", updated.metadata.name, updated.endpoints.len()));
        }
        lines.extend(changes.delete.iter().map(|deleted| format!("-{}", deleted.metadata.name)));
        lines
    }

    #[test]
    fn endpoints_fill_slices_of_a_hundred() {
        assert_eq!(check(&[], 0..250), ["+100", "+100", "+50"]);
        assert_eq!(check(&[slice("a", 0..100)], 0..100), Vec::<String>::new());
    }

    #[test]
    fn a_new_endpoint_goes_to_the_fullest_slice_with_room() {
        let slices = [slice("a", 0..100), slice("b", 100..150), slice("c", 200..220)];
        assert_eq!(check(&slices, (0..151).chain(200..220)), ["~b 51"]);
        let slices = [slice("a", 0..95), slice("b", 100..195)];
        assert_eq!(check(&slices, (0..95).chain(100..195).chain(300..310)), ["+10"]);
    }

    #[test]
    fn new_endpoints_replace_removed_ones() {
        let slices = [slice("a", 0..100), slice("b", 100..150)];
        assert_eq!(check(&slices, (5..150).chain(200..205)), ["~a 100"]);
    }

    #[test]
    fn a_slice_without_endpoints_is_deleted() {
        assert_eq!(check(&[slice("a", 0..10), slice("b", 10..20)], 0..10), ["-b"]);
    }

    #[test]
    fn a_changed_endpoint_is_updated_in_place() {
        let mut changed = endpoint(3);
        changed.conditions.ready = Some(true);
        let desired = (0..10).filter(|it| *it != 3).map(endpoint).chain([changed]);
        let desired = desired.map(|it| (it.key(), it)).collect();
        let changes = place(&[slice("a", 0..10)], desired, &Slice::default());
        assert_eq!(changes.update.len(), 1);
        assert_eq!(changes.update[0].endpoints[3].conditions.ready, Some(true));
    }

    #[test]
    fn a_deleted_slice_is_used_for_a_new_one() {
        let mut changes = Changes {
            create: vec![Slice::clone(&slice("", 0..5))],
            update: Vec::new(),
            delete: vec![slice("a", 5..6), slice("b", 6..7)],
        };
        changes.reuse_deleted(|_| true);
        assert_eq!((changes.create.len(), changes.delete.len()), (0, 1));
        assert_eq!(changes.update[0].metadata.name, "a");
        assert_eq!(changes.update[0].endpoints.len(), 5);
    }
}
