//! The owners of the claims of a StatefulSet's pods, which decide when the garbage collector deletes
//! a claim.
//!
//! ```text
//! whenDeleted  whenScaled   claim of a desired pod   claim of a pod beyond the replicas
//! Retain       Retain       no owner                 no owner
//! Delete       Retain       the set                  the set
//! Retain       Delete       no owner                 the pod
//! Delete       Delete       the set                  the pod
//! ```

use super::view::RetentionPolicy;
use crate::metadata::{Metadata, OwnerReference};

/// The set and the pod of a claim.
#[derive(Clone, Copy)]
pub(super) struct ClaimOwners<'a> {
    /// The reference to the set.
    pub set: &'a OwnerReference,
    /// The reference to the pod.
    pub pod: &'a OwnerReference,
    /// The policy of the set.
    pub policy: &'a RetentionPolicy,
    /// Whether the pod is beyond the replicas of the set.
    pub is_condemned: bool,
}

/// Whether a reference is to an object of this kind and name.
fn is_same_object(one: &OwnerReference, other: &OwnerReference) -> bool {
    one.api_version == other.api_version && one.kind == other.kind && one.name == other.name
}

/// Whether a claim belongs to a former object with the name of `owner`.
pub(super) fn has_stale_owner(claim: &Metadata, owner: &OwnerReference) -> bool {
    let mut references = claim.owner_references.iter();
    references.any(|it| is_same_object(it, owner) && it.uid != owner.uid)
}

impl ClaimOwners<'_> {
    /// Whether another controller manages the claim, so that the policy cannot be followed.
    pub(super) fn has_conflict(&self, claim: &Metadata) -> bool {
        (self.policy.deletes_with_set() || self.policy.deletes_with_pod())
            && self.others(claim).any(|it| it.controller)
    }

    /// The owners that the claim should have; `None` if it has them.
    pub(super) fn changed_owners(&self, claim: &Metadata) -> Option<Vec<OwnerReference>> {
        if has_stale_owner(claim, self.set) || has_stale_owner(claim, self.pod) {
            // The garbage collector deletes the claim.
            return None;
        }
        let mut owners: Vec<OwnerReference> = self.others(claim).cloned().collect();
        if !self.has_conflict(claim) {
            let belongs_to_pod = self.policy.deletes_with_pod() && self.is_condemned;
            if belongs_to_pod {
                owners.push(self.pod.clone());
            } else if self.policy.deletes_with_set() {
                owners.push(self.set.clone());
            }
        }
        let present = &claim.owner_references;
        let is_present = |owner: &OwnerReference| {
            present.iter().any(|it| it.uid == owner.uid && it.controller == owner.controller)
        };
        let is_equal = present.len() == owners.len() && owners.iter().all(is_present);
        (!is_equal).then_some(owners)
    }

    /// The owners of the claim besides the set and the pod.
    fn others<'a>(&self, claim: &'a Metadata) -> impl Iterator<Item = &'a OwnerReference> {
        let (set, pod) = (self.set.clone(), self.pod.clone());
        let is_other =
            move |it: &&OwnerReference| !is_same_object(it, &set) && !is_same_object(it, &pod);
        claim.owner_references.iter().filter(is_other)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reference(kind: &str, name: &str, uid: &str) -> OwnerReference {
        let api_version = if kind == "Pod" { "v1" } else { "apps/v1" };
        let owner = Metadata { name: name.to_owned(), uid: uid.to_owned(), ..Metadata::default() };
        OwnerReference::controller(api_version, kind, &owner)
    }

    fn claim(owners: &[&OwnerReference]) -> Metadata {
        let owner_references = owners.iter().map(|it| (*it).clone()).collect();
        Metadata { owner_references, ..Metadata::default() }
    }

    fn check(
        deleted: &str,
        scaled: &str,
        is_condemned: bool,
        present: &[&OwnerReference],
    ) -> Option<Vec<String>> {
        let policy = json!({"whenDeleted": deleted, "whenScaled": scaled});
        let policy = serde_json::from_value(policy).unwrap();
        let set = reference("StatefulSet", "web", "set");
        let pod = reference("Pod", "web-1", "pod");
        let owners = ClaimOwners { set: &set, pod: &pod, policy: &policy, is_condemned };
        let changed = owners.changed_owners(&claim(present))?;
        Some(changed.into_iter().map(|it| it.uid).collect())
    }

    #[test]
    fn the_owner_of_a_claim_follows_the_policy() {
        for (deleted, scaled, is_condemned, expected) in [
            ("Retain", "Retain", false, None),
            ("Retain", "Retain", true, None),
            ("Delete", "Retain", false, Some("set")),
            ("Delete", "Retain", true, Some("set")),
            ("Retain", "Delete", false, None),
            ("Retain", "Delete", true, Some("pod")),
            ("Delete", "Delete", false, Some("set")),
            ("Delete", "Delete", true, Some("pod")),
        ] {
            let found = check(deleted, scaled, is_condemned, &[]);
            let expected = expected.map(|uid| vec![uid.to_owned()]);
            assert_eq!(found, expected, "{deleted} {scaled} {is_condemned}");
        }
    }

    #[test]
    fn a_former_owner_is_replaced_and_a_right_one_is_kept() {
        let set = reference("StatefulSet", "web", "set");
        let pod = reference("Pod", "web-1", "pod");
        assert_eq!(check("Retain", "Retain", false, &[&set]), Some(Vec::new()));
        assert_eq!(check("Delete", "Retain", false, &[&set]), None);
        assert_eq!(check("Delete", "Delete", false, &[&pod]), Some(vec!["set".to_owned()]));
        let no_controller = OwnerReference { controller: false, ..set.clone() };
        let changed = check("Delete", "Retain", false, &[&no_controller]);
        assert_eq!(changed, Some(vec!["set".to_owned()]));
    }

    #[test]
    fn claims_of_others_are_not_taken() {
        let other = reference("StatefulSet", "db", "other");
        assert_eq!(check("Delete", "Delete", false, &[&other]), None);
        let former = reference("StatefulSet", "web", "former");
        assert_eq!(check("Delete", "Delete", false, &[&former]), None);
        let former_pod = reference("Pod", "web-1", "former");
        assert_eq!(check("Delete", "Delete", true, &[&former_pod]), None);
    }
}
