//! `Binding`: binds a pod to a node; superseded by the subresource `pods/binding`.

use crate::table;
use types::columns::{AGE, NAME, age};
use types::resource::{Columns, Resource, Strategy, UnstoredKind};

/// The resource of the kind `Binding`.
pub fn resource() -> Resource {
    static STRATEGY: Strategy =
        Strategy { unstored: Some(UnstoredKind::Binding), ..Strategy::DEFAULT };
    table::resource("", "Binding", "bindings", &STRATEGY, table::v1("core/v1.Binding", columns()))
}

fn columns() -> Columns {
    Columns::Fixed(&[NAME, AGE], |object, now| vec![object.name().into(), age(object, now)])
}
