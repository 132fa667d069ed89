//! `Priority`: sets the priority of a pod from its class, and rejects a second default class.

use std::collections::HashMap;

use super::{Attributes, Operation};
use crate::cache::watch_cache::Snapshot;
use kinds::core::pod::admission as pod;
use kinds::scheduling::priority_class::is_reserved;
use machinery::{Object, Status, Value};

/// All priority classes.
pub(super) struct PriorityClasses {
    by_name: HashMap<String, Object>,
    /// The class of pods that name none. Of several default classes, the one with the lowest value
    /// applies.
    default: Option<String>,
}

/// Reads all classes.
pub(super) fn read(classes: &Snapshot) -> PriorityClasses {
    let all = classes.entries.values().map(|it| (it.name().to_owned(), it.object_as_stored()));
    let by_name: HashMap<String, Object> = all.collect();
    let default = by_name
        .values()
        .filter(|it| is_default(it) && !is_reserved(it.name()))
        .min_by_key(|it| (it.get(&["value"]).and_then(Value::as_i64), it.name()))
        .map(|it| it.name().to_owned());
    PriorityClasses { by_name, default }
}

fn is_default(class: &Object) -> bool {
    class.get(&["globalDefault"]) == Some(&Value::Bool(true))
}

/// Sets the priority of a new pod from its class. An updated pod keeps its priority.
pub(super) fn mutate(attributes: &Attributes<'_>, object: &mut Object) -> Result<(), Status> {
    if !attributes.is_of("", "pods") {
        return Ok(());
    }
    if let Some(old) = attributes.old {
        pod::keep_priority(object, old);
        return Ok(());
    }
    let classes = attributes.admission.priority_classes.current(&attributes.scope.storage);
    if let ("", Some(name)) = (object.str_at(&["spec", "priorityClassName"]), &classes.default) {
        let name = name.as_str().into();
        object.map_at(&["spec"]).insert("priorityClassName".to_owned(), name);
    }
    let class = classes.by_name.get(object.str_at(&["spec", "priorityClassName"]));
    pod::assign_priority(object, class).map_err(|why| attributes.forbidden(object, &why))
}

/// Rejects a second default class.
pub(super) fn validate(attributes: &Attributes<'_>, class: &Object) -> Result<(), Status> {
    if !attributes.is_of("scheduling.k8s.io", "priorityclasses") || !is_default(class) {
        return Ok(());
    }
    let classes = attributes.admission.priority_classes.current(&attributes.scope.storage);
    // An update of the default class itself is allowed.
    let is_other =
        |name: &&String| attributes.operation == Operation::Create || name.as_str() != class.name();
    match classes.default.as_ref().filter(is_other) {
        None => Ok(()),
        Some(other) => {
            let why = format!(
                "PriorityClass {other} is already marked as default. Only one default can exist"
            );
            Err(attributes.forbidden(class, &why))
        }
    }
}
