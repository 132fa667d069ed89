//! `Binding`: binds a pod to a node; superseded by the subresource `pods/binding`. Also the
//! deprecated `ComponentStatus`: the health of the components of the control plane.

use crate::table;
use machinery::{Object, Value};
use types::columns::{AGE, NAME, age, column};
use types::resource::{Behavior, Column, Columns, Now, Resource, UnstoredKind};

/// The row of `Binding`.
pub fn resource() -> Resource {
    static BEHAVIOR: Behavior =
        Behavior { unstored: Some(UnstoredKind::Binding), ..Behavior::PLAIN };
    table::row("", "Binding", "bindings", &BEHAVIOR, table::v1("core/v1.Binding", columns()))
}

/// The row of `ComponentStatus`.
pub fn component_status() -> Resource {
    static BEHAVIOR: Behavior =
        Behavior { unstored: Some(UnstoredKind::Components), ..Behavior::PLAIN };
    let version = table::v1("core/v1.ComponentStatus", Columns::Fixed(COMPONENT_COLUMNS, cells));
    Resource {
        plural: "componentstatuses".to_owned(),
        short_names: vec!["cs".to_owned()],
        namespaced: false,
        ..table::row("", "ComponentStatus", "componentstatuses", &BEHAVIOR, version)
    }
}

const COMPONENT_COLUMNS: &[Column] = &[
    NAME,
    column("Status", "Whether the component is healthy"),
    column("Message", "The component's message about its health"),
    column("Error", "The error of the health check"),
];

fn cells(object: &Object, _: &Now) -> Vec<Value> {
    let conditions = object.get(&["conditions"]).and_then(Value::as_array);
    let healthy = conditions.into_iter().flatten().find(|it| it["type"] == "Healthy");
    let text = |key: &str| healthy.and_then(|it| it[key].as_str()).unwrap_or_default();
    let status = match healthy {
        None => "Unknown",
        Some(condition) if condition["status"] == "True" => "Healthy",
        Some(_) => "Unhealthy",
    };
    vec![object.name().into(), status.into(), text("message").into(), text("error").into()]
}

fn columns() -> Columns {
    Columns::Fixed(&[NAME, AGE], |object, now| vec![object.name().into(), age(object, now)])
}
