//! `authorization.k8s.io`: reviews of access. They are not stored.

use crate::authentication::unstored;
use types::resource::{Behavior, Resource, UnstoredKind};

/// The resources of the group.
pub fn resources() -> Vec<Resource> {
    static LOCAL: Behavior =
        Behavior { unstored: Some(UnstoredKind::LocalAccess), ..Behavior::PLAIN };
    static OWN: Behavior = Behavior { unstored: Some(UnstoredKind::SelfAccess), ..Behavior::PLAIN };
    static RULES: Behavior =
        Behavior { unstored: Some(UnstoredKind::SelfRules), ..Behavior::PLAIN };
    static ANY: Behavior = Behavior { unstored: Some(UnstoredKind::Access), ..Behavior::PLAIN };
    let local = unstored("authorization", "LocalSubjectAccessReview", &LOCAL);
    vec![
        Resource { namespaced: true, ..local },
        unstored("authorization", "SelfSubjectAccessReview", &OWN),
        unstored("authorization", "SelfSubjectRulesReview", &RULES),
        unstored("authorization", "SubjectAccessReview", &ANY),
    ]
}
