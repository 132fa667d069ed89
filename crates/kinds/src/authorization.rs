//! `authorization.k8s.io`: reviews of access. They are not stored.

use crate::authentication::unstored;
use types::resource::{Behavior, Resource, UnstoredKind};

/// The resources of the group.
pub fn resources() -> Vec<Resource> {
    static LOCAL: Behavior =
        Behavior { unstored: Some(UnstoredKind::LocalSubjectAccessReview), ..Behavior::PLAIN };
    static OWN: Behavior =
        Behavior { unstored: Some(UnstoredKind::SelfSubjectAccessReview), ..Behavior::PLAIN };
    static RULES: Behavior =
        Behavior { unstored: Some(UnstoredKind::SelfSubjectRulesReview), ..Behavior::PLAIN };
    static ANY: Behavior =
        Behavior { unstored: Some(UnstoredKind::SubjectAccessReview), ..Behavior::PLAIN };
    let local = unstored("authorization", "LocalSubjectAccessReview", &LOCAL);
    vec![
        Resource { namespaced: true, ..local },
        unstored("authorization", "SelfSubjectAccessReview", &OWN),
        unstored("authorization", "SelfSubjectRulesReview", &RULES),
        unstored("authorization", "SubjectAccessReview", &ANY),
    ]
}
