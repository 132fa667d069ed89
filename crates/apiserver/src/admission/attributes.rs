//! [`Attributes`]: the attributes of a request that admission reads.

use super::Admission;
use crate::registry::scope::RequestScope;
use crate::request::Verb;
use crate::request::options::{DeleteOptions, WriteOptions};
use machinery::{GroupVersionKind, Object, Status};

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// An object is created.
    Create,
    /// An object is updated or patched.
    Update,
    /// An object is deleted.
    Delete,
    /// A client connects to a subresource, such as `pods/exec`.
    Connect,
}

impl Operation {
    /// The name in the rules of webhooks and policies, and in reviews.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The options of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OperationOptions<'a> {
    /// Those of a create or an update.
    Write(&'a WriteOptions),
    /// Those of a deletion.
    Delete(&'a DeleteOptions),
    /// A connection has none.
    None,
}

impl OperationOptions<'_> {
    /// Whether the request is a dry run.
    pub(crate) fn is_dry_run(self) -> bool {
        match self {
            Self::Write(options) => options.dry_run,
            Self::Delete(options) => options.dry_run,
            Self::None => false,
        }
    }
}

/// See the [module documentation](self). Objects are in the memory version: the version of the
/// request for custom kinds, the storage version for built-in kinds.
pub(crate) struct Attributes<'a> {
    /// The state of admission.
    pub admission: &'a Admission,
    /// The scope of the request.
    pub scope: &'a RequestScope,
    /// The operation of the request.
    pub operation: Operation,
    /// The name of the object; "" if the server generates it.
    pub name: String,
    /// The namespace of the object. A request for a collection may have none.
    pub namespace: &'a str,
    /// The stored object; None for a create.
    pub old: Option<&'a Object>,
    /// The kind of the object that is sent to a subresource, where it differs from the kind of the
    /// resource: Scale, Binding, `PodExecOptions`. These kinds have one version only.
    pub kind: Option<GroupVersionKind>,
    /// The options of the request.
    pub options: OperationOptions<'a>,
}

impl<'a> Attributes<'a> {
    fn new(
        admission: &'a Admission,
        scope: &'a RequestScope,
        operation: Operation,
        name: &str,
        options: OperationOptions<'a>,
    ) -> Self {
        Self {
            admission,
            scope,
            operation,
            name: name.to_owned(),
            namespace: scope.namespace(),
            old: None,
            kind: None,
            options,
        }
    }

    /// The attributes of the creation of an object. `name` is "" if the server generates it.
    pub(crate) fn create(
        admission: &'a Admission,
        scope: &'a RequestScope,
        name: &str,
        options: OperationOptions<'a>,
    ) -> Self {
        Self::new(admission, scope, Operation::Create, name, options)
    }

    /// The attributes of an update of `old`.
    pub(crate) fn update(
        admission: &'a Admission,
        scope: &'a RequestScope,
        old: &'a Object,
        options: OperationOptions<'a>,
    ) -> Self {
        let attributes = Self::new(admission, scope, Operation::Update, old.name(), options);
        Self { old: Some(old), ..attributes }
    }

    /// The attributes of the deletion of `old`. Upstream: the deletion of a collection has no name.
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
            ..Self::new(
                admission,
                scope,
                Operation::Delete,
                name,
                OperationOptions::Delete(options),
            )
        }
    }

    /// The attributes of an object of another kind that is sent to a subresource of the named
    /// object.
    pub(crate) fn of_subresource(
        admission: &'a Admission,
        scope: &'a RequestScope,
        operation: Operation,
        kind: GroupVersionKind,
        options: OperationOptions<'a>,
    ) -> Self {
        let attributes = Self::new(admission, scope, operation, &scope.path.name, options);
        Self { kind: Some(kind), ..attributes }
    }

    /// Whether the request is for this resource, and not for one of its subresources.
    pub(super) fn is_of(&self, group: &str, plural: &str) -> bool {
        self.is_subresource_of(group, plural, "")
    }

    /// Whether the request is for this subresource of the resource.
    pub(super) fn is_subresource_of(&self, group: &str, plural: &str, subresource: &str) -> bool {
        let resource = self.scope.resource();
        resource.plural == plural
            && resource.group == group
            && self.scope.path.subresource == subresource
    }

    /// The answer 403 with this reason. An object without a name is identified by its
    /// `generateName`.
    pub(super) fn forbidden(&self, object: &Object, why: &str) -> Status {
        let names = [object.name(), object.meta_text("generateName"), "Unknown"];
        let name = names.into_iter().find(|it| !it.is_empty()).unwrap_or_default();
        Status::forbidden(&self.scope.group_resource(), name, why)
    }
}
