//! `authorization.k8s.io`: questions about what somebody may do. Nothing of it is stored.

use crate::authentication::asked;
use types::resource::{Behavior, Question, Resource};

/// The rows of the group.
pub fn resources() -> Vec<Resource> {
    static LOCAL: Behavior = Behavior { question: Some(Question::LocalAccess), ..Behavior::PLAIN };
    static OWN: Behavior = Behavior { question: Some(Question::SelfAccess), ..Behavior::PLAIN };
    static RULES: Behavior = Behavior { question: Some(Question::SelfRules), ..Behavior::PLAIN };
    static ANY: Behavior = Behavior { question: Some(Question::Access), ..Behavior::PLAIN };
    let local = asked("authorization", "LocalSubjectAccessReview", &LOCAL);
    vec![
        Resource { namespaced: true, ..local },
        asked("authorization", "SelfSubjectAccessReview", &OWN),
        asked("authorization", "SelfSubjectRulesReview", &RULES),
        asked("authorization", "SubjectAccessReview", &ANY),
    ]
}
