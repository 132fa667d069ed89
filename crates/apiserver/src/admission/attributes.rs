//! [`Attributes`]: what somebody is about to do, as far as admission looks at it.

use super::Admission;
use crate::registry::scope::RequestScope;
use crate::request::Verb;
use crate::request::options::DeleteOptions;
use machinery::{GroupVersionKind, Object, Status};

/// What is being done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// It is new.
    Create,
    /// It changes.
    Update,
    /// It goes.
    Delete,
    /// Somebody wants a connection to what it stands for.
    Connect,
}

impl Operation {
    /// As rules and reviews spell it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// See the [module documentation](self). Objects are in the version that verbs work in: that of the request for custom kinds, the hub for the others.
pub(crate) struct Attributes<'a> {
    /// The configuration of admission.
    pub admission: &'a Admission,
    /// What the request is about.
    pub scope: &'a RequestScope,
    /// What it does.
    pub operation: Operation,
    /// Of the object; "" where it will be generated.
    pub name: String,
    /// The object's; the request may be about several.
    pub namespace: &'a str,
    /// The object before; None if it is new.
    pub old: Option<&'a Object>,
    /// The kind of what is sent to a subresource, where it is not the resource's own: Scale,
    /// Binding, `PodExecOptions`. Such objects have one version only.
    pub kind: Option<GroupVersionKind>,
    /// Nothing will be stored.
    pub dry_run: bool,
    /// With what a deletion was asked for.
    pub deletion: Option<&'a DeleteOptions>,
}

impl<'a> Attributes<'a> {
    fn new(
        admission: &'a Admission,
        scope: &'a RequestScope,
        operation: Operation,
        name: &str,
        dry_run: bool,
    ) -> Self {
        let (name, namespace, kind, deletion) = (name.to_owned(), scope.namespace(), None, None);
        Self { admission, scope, operation, name, namespace, old: None, kind, dry_run, deletion }
    }

    /// Those of the creation of an object with this name; "" if it will be generated.
    pub(crate) fn create(
        admission: &'a Admission,
        scope: &'a RequestScope,
        name: &str,
        dry_run: bool,
    ) -> Self {
        Self::new(admission, scope, Operation::Create, name, dry_run)
    }

    /// Those of a change of `old`.
    pub(crate) fn update(
        admission: &'a Admission,
        scope: &'a RequestScope,
        old: &'a Object,
        dry_run: bool,
    ) -> Self {
        let attributes = Self::new(admission, scope, Operation::Update, old.name(), dry_run);
        Self { old: Some(old), ..attributes }
    }

    /// Those of the deletion of `old`. Upstream: the deletion of a collection names none of its
    /// objects.
    pub(crate) fn delete(
        admission: &'a Admission,
        scope: &'a RequestScope,
        old: &'a Object,
        options: &'a DeleteOptions,
    ) -> Self {
        let name = if scope.verb == Verb::DeleteCollection { "" } else { old.name() };
        Self {
            namespace: old.namespace(),
            old: Some(old),
            deletion: Some(options),
            ..Self::new(admission, scope, Operation::Delete, name, options.dry_run)
        }
    }

    /// Those of an object of another kind that is sent to a subresource of the named object.
    pub(crate) fn of_subresource(
        admission: &'a Admission,
        scope: &'a RequestScope,
        operation: Operation,
        kind: GroupVersionKind,
        dry_run: bool,
    ) -> Self {
        let attributes = Self::new(admission, scope, operation, &scope.path.name, dry_run);
        Self { kind: Some(kind), ..attributes }
    }

    /// Whether it is about an object of this resource, and not about a subresource of one.
    pub(super) fn is_of(&self, group: &str, plural: &str) -> bool {
        self.is_subresource_of(group, plural, "")
    }

    /// Whether it is about a subresource of an object of this resource.
    pub(super) fn is_subresource_of(&self, group: &str, plural: &str, subresource: &str) -> bool {
        let resource = self.scope.resource();
        resource.plural == plural
            && resource.group == group
            && self.scope.path.subresource == subresource
    }

    /// It may not be, and why. An object without a name is called by what its name begins with.
    pub(super) fn forbidden(&self, object: &Object, why: &str) -> Status {
        let names = [object.name(), object.meta_text("generateName"), "Unknown"];
        let name = names.into_iter().find(|it| !it.is_empty()).unwrap_or_default();
        Status::forbidden(&self.scope.group_resource(), name, why)
    }
}
