//! The sizes of ReplicaSets when a Deployment is scaled in the middle of a rollout: all of them grow or
//! shrink in proportion, so that the scaling neither speeds up nor reverts the rollout.
//!
//! Upstream: `deployment/sync.go`, `scale`

use std::cmp::Reverse;
use std::sync::Arc;

use super::view::{DeploymentView, MAX_REPLICAS, OwnedReplicaSetView};

/// The new size of each active set, the largest set first.
pub(super) fn scaled<'a>(
    deployment: &DeploymentView,
    active: &[&'a Arc<OwnedReplicaSetView>],
) -> Vec<(&'a Arc<OwnedReplicaSetView>, i32)> {
    let total: i64 = active.iter().map(|set| i64::from(set.replicas())).sum();
    let allowed = if deployment.replicas() > 0 { deployment.max_total() } else { 0 };
    let to_add = allowed - total;
    let mut sets = active.to_vec();
    // Sets of the same size: when growing, newer ones are first, and when shrinking, older ones.
    sets.sort_by(|one, other| {
        let created =
            |set: &OwnedReplicaSetView| set.metadata.creation_timestamp.clone().map(|it| it.0);
        let by_age =
            created(one).cmp(&created(other)).then(one.metadata.name.cmp(&other.metadata.name));
        let by_age = if to_add > 0 { by_age.reverse() } else { by_age };
        Reverse(one.replicas()).cmp(&Reverse(other.replicas())).then(by_age)
    });
    let mut added = 0_i64;
    let mut sizes = Vec::with_capacity(sets.len());
    for set in sets {
        let share = share(deployment, set, to_add, added);
        added += share;
        sizes.push((set, i64::from(set.replicas()) + share));
    }
    // What is left by rounding goes to the largest set.
    if let Some((_, size)) = sizes.first_mut() {
        *size = (*size + to_add - added).max(0);
    }
    let in_range = |size: i64| i32::try_from(size).unwrap_or(i32::MAX);
    sizes.into_iter().map(|(set, size)| (set, in_range(size))).collect()
}

/// The number of pods that one set gains or loses.
fn share(deployment: &DeploymentView, set: &OwnedReplicaSetView, to_add: i64, added: i64) -> i64 {
    if set.replicas() == 0 || to_add == 0 || to_add == added {
        return 0;
    }
    let fraction = fraction(deployment, set);
    let left = to_add - added;
    if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
}

/// The change of a set in proportion to that of the Deployment.
fn fraction(deployment: &DeploymentView, set: &OwnedReplicaSetView) -> i64 {
    let size = i64::from(set.replicas());
    if deployment.replicas() == 0 {
        return -size;
    }
    let recorded = set.annotation(MAX_REPLICAS).filter(|before| *before > 0);
    let before = recorded.unwrap_or(i64::from(deployment.status.replicas));
    if before <= 0 {
        return 0;
    }
    let (wide_size, before) = (i128::from(size), i128::from(before));
    // Rounded to the nearest.
    let new_size = (2 * wide_size * i128::from(deployment.max_total()) + before) / (2 * before);
    i64::try_from(new_size - wide_size).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The sizes of sets with the sizes `before` after a Deployment is scaled from one number of pods
    /// to another, with `maxSurge`.
    fn check(before: &[i32], from: i32, to: i32, surge: i32) -> Vec<i32> {
        let deployment: DeploymentView = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {"replicas": to, "strategy": {"rollingUpdate": {"maxSurge": surge}}},
        }))
        .unwrap();
        let sets: Vec<Arc<OwnedReplicaSetView>> = before
            .iter()
            .enumerate()
            .map(|(index, size)| {
                let set = json!({
                    "metadata": {
                        "name": format!("web-{index}"),
                        "creationTimestamp": format!("2024-01-01T00:00:0{index}Z"),
                        "annotations": {MAX_REPLICAS: (i64::from(from) + i64::from(surge)).to_string()},
                    },
                    "spec": {"replicas": size, "template": {}},
                });
                Arc::new(serde_json::from_value(set).unwrap())
            })
            .collect();
        let sizes = scaled(&deployment, &sets.iter().collect::<Vec<_>>());
        let size_of = |set: &Arc<OwnedReplicaSetView>| {
            sizes.iter().find(|(it, _)| Arc::ptr_eq(it, set)).map(|(_, size)| *size).unwrap()
        };
        sets.iter().map(size_of).collect()
    }

    #[test]
    fn sets_grow_and_shrink_in_proportion() {
        assert_eq!(check(&[5, 5], 10, 20, 0), [10, 10]);
        assert_eq!(check(&[8, 2], 10, 20, 0), [16, 4]);
        assert_eq!(check(&[10, 10], 20, 10, 0), [5, 5]);
        assert_eq!(check(&[8, 5], 10, 30, 3), [20, 13]);
    }

    #[test]
    fn what_is_left_by_rounding_goes_to_the_largest_set() {
        assert_eq!(check(&[3, 3, 3], 9, 10, 0), [3, 3, 4]);
        assert_eq!(check(&[5, 3, 2], 10, 11, 0), [6, 3, 2]);
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        assert_eq!(check(&[5, 5], 10, i32::MAX, 0), [1_073_741_823, 1_073_741_824]);
        assert_eq!(check(&[i32::MAX - 1, 1], 10, i32::MAX, i32::MAX), [i32::MAX, 2]);
    }

    #[test]
    fn all_sets_are_emptied() {
        assert_eq!(check(&[8, 5], 10, 0, 3), [0, 0]);
    }
}
