//! `authorization.k8s.io`: reviews of access. They are not stored.

use crate::authentication::unstored;
use types::resource::{Resource, Strategy, UnstoredKind};

/// The resources of the group.
pub fn resources() -> Vec<Resource> {
    static LOCAL: Strategy =
        Strategy { unstored: Some(UnstoredKind::LocalSubjectAccessReview), ..Strategy::DEFAULT };
    static OWN: Strategy =
        Strategy { unstored: Some(UnstoredKind::SelfSubjectAccessReview), ..Strategy::DEFAULT };
    static RULES: Strategy =
        Strategy { unstored: Some(UnstoredKind::SelfSubjectRulesReview), ..Strategy::DEFAULT };
    static ANY: Strategy =
        Strategy { unstored: Some(UnstoredKind::SubjectAccessReview), ..Strategy::DEFAULT };
    let local = unstored("authorization", "LocalSubjectAccessReview", &LOCAL);
    vec![
        Resource { namespaced: true, ..local },
        unstored("authorization", "SelfSubjectAccessReview", &OWN),
        unstored("authorization", "SelfSubjectRulesReview", &RULES),
        unstored("authorization", "SubjectAccessReview", &ANY),
    ]
}
