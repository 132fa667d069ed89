//! [`Attributes`]: what somebody is about to do, as far as admission looks at it.

use super::Admission;
use crate::endpoints::context::RequestContext;
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
    /// The request.
    pub cx: &'a RequestContext,
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
    fn new(cx: &'a RequestContext, operation: Operation, name: &str, dry_run: bool) -> Self {
        let (name, namespace) = (name.to_owned(), cx.namespace());
        Self { cx, operation, name, namespace, old: None, kind: None, dry_run, deletion: None }
    }

    /// To create `object`.
    pub(crate) fn create(cx: &'a RequestContext, object: &Object, dry_run: bool) -> Self {
        Self::new(cx, Operation::Create, object.name(), dry_run)
    }

    /// To change `old`.
    pub(crate) fn update(cx: &'a RequestContext, old: &'a Object, dry_run: bool) -> Self {
        Self { old: Some(old), ..Self::new(cx, Operation::Update, old.name(), dry_run) }
    }

    /// To delete `old`. Upstream: who deletes a whole collection names none of its objects.
    pub(crate) fn delete(
        cx: &'a RequestContext,
        old: &'a Object,
        options: &'a DeleteOptions,
    ) -> Self {
        let name = if cx.verb == Verb::DeleteCollection { "" } else { old.name() };
        Self {
            namespace: old.namespace(),
            old: Some(old),
            deletion: Some(options),
            ..Self::new(cx, Operation::Delete, name, options.dry_run)
        }
    }

    /// To send something of another kind to a subresource of the named object.
    pub(crate) fn below(
        cx: &'a RequestContext,
        operation: Operation,
        kind: GroupVersionKind,
        dry_run: bool,
    ) -> Self {
        Self { kind: Some(kind), ..Self::new(cx, operation, &cx.target.name, dry_run) }
    }

    /// Whether it is what the server itself does with something that was posted to a subresource,
    /// and was admitted as such.
    pub(super) fn follows_from_a_post(&self) -> bool {
        self.operation == Operation::Update && self.cx.verb == Verb::Create
    }

    pub(super) fn admission(&self) -> &'a Admission {
        &self.cx.plane.admission
    }

    /// Whether it is about an object of this resource, and not about a subresource of one.
    pub(super) fn is_of(&self, group: &str, plural: &str) -> bool {
        self.is_part_of(group, plural, "")
    }

    /// Whether it is about a subresource of an object of this resource.
    pub(super) fn is_part_of(&self, group: &str, plural: &str, subresource: &str) -> bool {
        let resource = self.cx.resource();
        resource.plural == plural
            && resource.group == group
            && self.cx.target.subresource == subresource
    }

    /// It may not be, and why. An object without a name is called by what its name begins with.
    pub(super) fn forbidden(&self, object: &Object, why: &str) -> Status {
        let names = [object.name(), object.meta_text("generateName"), "Unknown"];
        let name = names.into_iter().find(|it| !it.is_empty()).unwrap_or_default();
        Status::forbidden(&self.cx.what(), name, why)
    }
}
