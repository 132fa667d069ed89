//! `authentication.k8s.io`: reviews of tokens and users. They are not stored.

use crate::table;
use types::columns::{AGE, NAME, age};
use types::resource::{Behavior, Columns, Resource, UnstoredKind};

/// The resources of the group.
pub fn resources() -> Vec<Resource> {
    static SELF: Behavior =
        Behavior { unstored: Some(UnstoredKind::SelfSubjectReview), ..Behavior::PLAIN };
    static TOKEN: Behavior =
        Behavior { unstored: Some(UnstoredKind::TokenReview), ..Behavior::PLAIN };
    vec![
        unstored("authentication", "SelfSubjectReview", &SELF),
        unstored("authentication", "TokenReview", &TOKEN),
    ]
}

/// A kind that is not stored, in version `v1` of the group `<group>.k8s.io`.
pub(crate) fn unstored(group: &str, kind: &str, behavior: &'static Behavior) -> Resource {
    let columns =
        Columns::Fixed(&[NAME, AGE], |object, now| vec![object.name().into(), age(object, now)]);
    let full = format!("{group}.k8s.io");
    let plural = format!("{}s", kind.to_lowercase());
    Resource {
        namespaced: false,
        prefix: format!("/registry/{full}/{plural}"),
        ..table::row(
            &full,
            kind,
            &plural,
            behavior,
            table::v1(&format!("{group}/v1.{kind}"), columns),
        )
    }
}
