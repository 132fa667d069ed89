//! `Binding`: the old way to say on which node a pod runs; `pods/binding` is the new one. And
//! `ComponentStatus`, the old way to ask how the server is.

use crate::columns::{AGE, NAME, age};
use crate::resource::{Behavior, Columns, Question, Resource};
use crate::table;

/// The row of `Binding`.
pub fn resource() -> Resource {
    static BEHAVIOR: Behavior = Behavior { question: Some(Question::Binding), ..Behavior::PLAIN };
    table::row("", "Binding", "bindings", &BEHAVIOR, table::v1("core/v1.Binding", columns()))
}

/// The row of `ComponentStatus`.
pub fn component_status() -> Resource {
    static BEHAVIOR: Behavior =
        Behavior { question: Some(Question::Components), ..Behavior::PLAIN };
    let version = table::v1("core/v1.ComponentStatus", columns());
    Resource {
        plural: "componentstatuses".to_owned(),
        short_names: vec!["cs".to_owned()],
        namespaced: false,
        ..table::row("", "ComponentStatus", "componentstatuses", &BEHAVIOR, version)
    }
}

fn columns() -> Columns {
    Columns::Fixed(&[NAME, AGE], |object, now| vec![object.name().into(), age(object, now)])
}
