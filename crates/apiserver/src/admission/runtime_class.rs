//! `RuntimeClass`: sets the overhead and the scheduling constraints of a new pod from its runtime
//! class.

use super::{Attributes, Operation};
use kinds::core::pod::runtime_class;
use machinery::{Object, Status};

/// Applies the runtime class to a new pod.
pub(super) fn mutate(attributes: &Attributes<'_>, pod: &mut Object) -> Result<(), Status> {
    match class(attributes, pod)? {
        None => Ok(()),
        Some(class) => {
            runtime_class::apply(pod, &class).map_err(|why| attributes.forbidden(pod, &why))
        }
    }
}

/// Rejects a pod whose overhead differs from that of its class.
pub(super) fn validate(attributes: &Attributes<'_>, pod: &Object) -> Result<(), Status> {
    if !is_new_pod(attributes) {
        return Ok(());
    }
    let class = class(attributes, pod)?;
    let why = runtime_class::overhead_refusal(pod, class.as_ref());
    why.map_or(Ok(()), |why| Err(attributes.forbidden(pod, why)))
}

fn is_new_pod(attributes: &Attributes<'_>) -> bool {
    attributes.operation == Operation::Create && attributes.is_of("", "pods")
}

/// The class that a new pod names. A class that does not exist is an error.
fn class(attributes: &Attributes<'_>, pod: &Object) -> Result<Option<Object>, Status> {
    let name = runtime_class::class_of(pod);
    if name.is_empty() || !is_new_pod(attributes) {
        return Ok(None);
    }
    let catalog = attributes.scope.storage.catalog.load();
    let found = catalog
        .resource("node.k8s.io", "runtimeclasses")
        .and_then(|it| it.cache.get(&it.key("", name)));
    let Some(entry) = found else {
        let why = format!("pod rejected: RuntimeClass \"{name}\" not found");
        return Err(attributes.forbidden(pod, &why));
    };
    Ok(Some(entry.object_as_stored()))
}
