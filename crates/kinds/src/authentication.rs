//! `authentication.k8s.io`: reviews of tokens and users. They are not stored.

use crate::table;
use types::columns::{AGE, NAME, age};
use types::resource::{Columns, Resource, Strategy, UnstoredKind};

/// The resources of the group.
pub fn resources() -> Vec<Resource> {
    static SELF: Strategy =
        Strategy { unstored: Some(UnstoredKind::SelfSubjectReview), ..Strategy::DEFAULT };
    static TOKEN: Strategy =
        Strategy { unstored: Some(UnstoredKind::TokenReview), ..Strategy::DEFAULT };
    vec![
        unstored("authentication", "SelfSubjectReview", &SELF),
        unstored("authentication", "TokenReview", &TOKEN),
    ]
}

/// A kind that is not stored, in version `v1` of the group `<group>.k8s.io`.
pub(crate) fn unstored(group: &str, kind: &str, strategy: &'static Strategy) -> Resource {
    let columns =
        Columns::Fixed(&[NAME, AGE], |object, now| vec![object.name().into(), age(object, now)]);
    let full = format!("{group}.k8s.io");
    let plural = format!("{}s", kind.to_lowercase());
    Resource {
        namespaced: false,
        prefix: format!("/registry/{full}/{plural}"),
        ..table::resource(
            &full,
            kind,
            &plural,
            strategy,
            table::v1(&format!("{group}/v1.{kind}"), columns),
        )
    }
}
