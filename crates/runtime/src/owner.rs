//! Owner references, by which the garbage collector deletes dependents, and controller references,
//! of which an object has at most one.
//!
//! ```
//! use k8s_openapi::api::core::v1::{ConfigMap, Pod};
//! use runtime::owner;
//!
//! let mut map = ConfigMap::default();
//! map.metadata.name = Some("settings".into());
//! map.metadata.uid = Some("7".into());
//! let mut pod = Pod::default();
//! owner::set_controller(&map, &mut pod)?;
//! assert!(owner::is_controlled_by(&pod, &map));
//! assert_eq!(owner::controller_of(&pod).unwrap().name, "settings");
//! assert!(owner::release(&map, &mut pod));
//! owner::add_owner(&map, &mut pod)?; // an owner that is not the controller
//! assert!(owner::controller_of(&pod).is_none());
//! # Ok::<(), owner::OwnerError>(())
//! ```

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::{DynamicObject, Resource};

use crate::DynamicKind;

/// The reason why an object cannot be owned.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// The object has another controller.
    #[error("the object already has the controller {kind} {name:?}")]
    ControlledByAnother {
        /// The kind of the other controller.
        kind: String,
        /// The name of the other controller.
        name: String,
    },
    /// The owner has no uid: create it first.
    #[error("the owner has no name or no uid yet")]
    NotStored,
    /// An owner must be in the namespace of its dependent, or cluster-scoped; otherwise the garbage
    /// collector deletes the dependent.
    #[error("an owner in namespace {owner:?} cannot own an object in namespace {dependent:?}")]
    OtherNamespace {
        /// The namespace of the owner.
        owner: String,
        /// The namespace of the dependent; empty if it is cluster-scoped.
        dependent: String,
    },
}

/// Adds `owner` to the owners of `dependent`.
pub fn add_owner<O, D>(owner: &O, dependent: &mut D) -> Result<(), OwnerError>
where
    O: Resource<DynamicType = ()>,
    D: Resource,
{
    let reference = owner.owner_ref(&()).ok_or(OwnerError::NotStored)?;
    check_namespaces(owner, dependent)?;
    put(dependent, reference);
    Ok(())
}

/// Makes `owner` the controller of `dependent`.
pub fn set_controller<O, D>(owner: &O, dependent: &mut D) -> Result<(), OwnerError>
where
    O: Resource<DynamicType = ()>,
    D: Resource,
{
    set_controller_reference(owner, owner.controller_owner_ref(&()), dependent)
}

/// Makes `owner`, an object of a kind that is known at run time only, the controller of `dependent`.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use runtime::{DynamicKind, kube_core::DynamicObject, owner};
/// # fn example(kind: &DynamicKind, site: &DynamicObject, map: &mut ConfigMap) -> Result<(), owner::OwnerError> {
/// owner::set_dynamic_controller(kind, site, map)
/// # }
/// ```
pub fn set_dynamic_controller<D: Resource>(
    kind: &DynamicKind,
    owner: &DynamicObject,
    dependent: &mut D,
) -> Result<(), OwnerError> {
    set_controller_reference(owner, owner.controller_owner_ref(&kind.resource), dependent)
}

fn set_controller_reference<O: Resource, D: Resource>(
    owner: &O,
    reference: Option<OwnerReference>,
    dependent: &mut D,
) -> Result<(), OwnerError> {
    let mut reference = reference.ok_or(OwnerError::NotStored)?;
    check_namespaces(owner, dependent)?;
    if let Some(other) = controller_of(dependent)
        && other.uid != reference.uid
    {
        let OwnerReference { kind, name, .. } = other.clone();
        return Err(OwnerError::ControlledByAnother { kind, name });
    }
    // A foreground deletion of the owner waits for its dependents, as with Kubernetes' controllers.
    reference.block_owner_deletion = Some(true);
    put(dependent, reference);
    Ok(())
}

/// Removes `owner` from `dependent`; returns whether it was an owner.
pub fn release<O: Resource, D: Resource>(owner: &O, dependent: &mut D) -> bool {
    let Some(uid) = owner.meta().uid.as_deref() else {
        return false;
    };
    let Some(references) = dependent.meta_mut().owner_references.as_mut() else {
        return false;
    };
    let before = references.len();
    references.retain(|it| it.uid != uid);
    references.len() < before
}

/// The controller of an object.
pub fn controller_of<D: Resource>(dependent: &D) -> Option<&OwnerReference> {
    let references = dependent.meta().owner_references.as_deref().unwrap_or_default();
    references.iter().find(|it| it.controller == Some(true))
}

/// Whether `dependent` is controlled by this object, and not by an earlier one with the same name.
pub fn is_controlled_by<O: Resource, D: Resource>(dependent: &D, owner: &O) -> bool {
    let uid = owner.meta().uid.as_deref();
    uid.is_some() && controller_of(dependent).map(|it| it.uid.as_str()) == uid
}

fn check_namespaces<O: Resource, D: Resource>(owner: &O, dependent: &D) -> Result<(), OwnerError> {
    let Some(namespace) = owner.meta().namespace.as_deref() else {
        return Ok(());
    };
    let dependent = dependent.meta().namespace.as_deref().unwrap_or_default();
    if namespace == dependent {
        return Ok(());
    }
    Err(OwnerError::OtherNamespace { owner: namespace.to_owned(), dependent: dependent.to_owned() })
}

/// Adds a reference; it replaces an earlier one of the same owner.
fn put<D: Resource>(dependent: &mut D, reference: OwnerReference) {
    let references = dependent.meta_mut().owner_references.get_or_insert_default();
    match references.iter_mut().find(|it| it.uid == reference.uid) {
        Some(present) => *present = reference,
        None => references.push(reference),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};

    use super::*;

    fn map(name: &str, uid: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map.metadata.namespace = Some("n".to_owned());
        map.metadata.uid = Some(uid.to_owned());
        map
    }

    fn pod() -> Pod {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some("n".to_owned());
        pod
    }

    #[test]
    fn an_object_has_one_controller() {
        let mut pod = pod();
        set_controller(&map("a", "1"), &mut pod).unwrap();
        set_controller(&map("a", "1"), &mut pod).unwrap();
        let refused = set_controller(&map("b", "2"), &mut pod).unwrap_err();
        assert_eq!(refused.to_string(), "the object already has the controller ConfigMap \"a\"");
        add_owner(&map("b", "2"), &mut pod).unwrap();
        let owners = pod.metadata.owner_references.as_deref().unwrap();
        assert_eq!(owners.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(release(&map("a", "1"), &mut pod));
        set_controller(&map("b", "2"), &mut pod).unwrap();
        assert!(is_controlled_by(&pod, &map("b", "2")));
    }

    #[test]
    fn another_object_with_the_same_name_is_not_the_owner() {
        let mut pod = pod();
        set_controller(&map("a", "1"), &mut pod).unwrap();
        assert!(!is_controlled_by(&pod, &map("a", "9")));
        assert!(set_controller(&map("a", "9"), &mut pod).is_err());
    }

    #[test]
    fn an_owner_in_another_namespace_is_refused() {
        let mut elsewhere = pod();
        elsewhere.metadata.namespace = Some("m".to_owned());
        let refused = add_owner(&map("a", "1"), &mut elsewhere).unwrap_err();
        let owner = "n".to_owned();
        assert_eq!(refused, OwnerError::OtherNamespace { owner, dependent: "m".to_owned() });
        assert!(add_owner(&map("a", "1"), &mut Node::default()).is_err());
        assert_eq!(add_owner(&ConfigMap::default(), &mut pod()), Err(OwnerError::NotStored));
    }

    #[test]
    fn a_cluster_scoped_owner_may_own_objects_of_any_namespace() {
        let mut node = Node::default();
        node.metadata.name = Some("a".to_owned());
        node.metadata.uid = Some("1".to_owned());
        let mut pod = pod();
        set_controller(&node, &mut pod).unwrap();
        assert_eq!(controller_of(&pod).unwrap().kind, "Node");
    }
}
