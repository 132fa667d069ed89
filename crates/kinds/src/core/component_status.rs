//! `ComponentStatus`: the health of the components of the control plane; deprecated.

use crate::table;
use machinery::{Object, Value};
use types::columns::{NAME, column};
use types::resource::{Column, Columns, Now, Resource, Strategy, UnstoredKind, Version};

/// The resource of the kind `ComponentStatus`.
pub fn resource() -> Resource {
    static STRATEGY: Strategy =
        Strategy { unstored: Some(UnstoredKind::ComponentStatus), ..Strategy::DEFAULT };
    let deprecation = "v1 ComponentStatus is deprecated in v1.19+";
    let version = Version {
        deprecation: Some(deprecation.to_owned()),
        ..table::v1("core/v1.ComponentStatus", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        plural: "componentstatuses".to_owned(),
        short_names: vec!["cs".to_owned()],
        namespaced: false,
        ..table::resource("", "ComponentStatus", "componentstatuses", &STRATEGY, version)
    }
}

const COLUMNS: &[Column] = &[
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
