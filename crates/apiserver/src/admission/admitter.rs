//! [`Admitter`]: the admission of one request, called by the registry.

use super::policy::authorize_params;
use super::{Admission, Attributes, Operation, OperationOptions};
use crate::auth::authorization;
use crate::auth::authorization::{ResourceAttributes, forbidden};
use crate::rbac;
use crate::rbac::escalation::{self, PolicyWrite};
use crate::registry::admit::{AdmissionFuture, Admit};
use crate::registry::scope::RequestScope;
use crate::request::Verb;
use crate::request::options::{DeleteOptions, WriteOptions};
use crate::storage::hooks::Reservation;
use machinery::{Object, Status};

/// See the [module documentation](self).
pub(crate) struct Admitter<'a> {
    admission: &'a Admission,
    scope: &'a RequestScope,
    options: OperationOptions<'a>,
}

impl Admission {
    /// The admission of a create or an update.
    pub(crate) fn of_write<'a>(
        &'a self,
        scope: &'a RequestScope,
        options: &'a WriteOptions,
    ) -> Admitter<'a> {
        Admitter { admission: self, scope, options: OperationOptions::Write(options) }
    }

    /// The admission of a deletion.
    pub(crate) fn of_deletion<'a>(
        &'a self,
        scope: &'a RequestScope,
        options: &'a DeleteOptions,
    ) -> Admitter<'a> {
        Admitter { admission: self, scope, options: OperationOptions::Delete(options) }
    }
}

impl<'a> Admitter<'a> {
    fn attributes<'b>(&'b self, object: Option<&Object>, old: Option<&'b Object>) -> Attributes<'b>
    where
        'a: 'b,
    {
        let (admission, scope) = (self.admission, self.scope);
        match (self.options, old) {
            (OperationOptions::Delete(options), Some(old)) => {
                Attributes::delete(admission, scope, old, options)
            }
            (options, Some(old)) => Attributes::update(admission, scope, old, options),
            (options, None) => {
                let name = object.map_or("", Object::name);
                Attributes::create(admission, scope, name, options)
            }
        }
    }
}

impl Admit for Admitter<'_> {
    fn mutate<'a>(
        &'a self,
        object: &'a mut Object,
        old: Option<&'a Object>,
    ) -> AdmissionFuture<'a, ()> {
        let attributes = self.attributes(Some(object), old);
        Box::pin(async move {
            super::mutate(&attributes, object).await?;
            check_escalation(&attributes, object).await
        })
    }

    fn validate<'a>(
        &'a self,
        object: Option<&'a Object>,
        old: Option<&'a Object>,
    ) -> AdmissionFuture<'a, Reservation> {
        let attributes = self.attributes(object, old);
        Box::pin(async move {
            if let Some(object) = object {
                authorize_params(&attributes, object).await?;
                authorize_creation(&attributes).await?;
            }
            super::validate(&attributes, object).await
        })
    }
}

/// Refuses roles and bindings that grant more than the user may do.
async fn check_escalation(attributes: &Attributes<'_>, object: &Object) -> Result<(), Status> {
    let (admission, scope) = (attributes.admission, attributes.scope);
    let Some(rules) = &admission.rules else { return Ok(()) };
    if scope.path.group != rbac::GROUP {
        return Ok(());
    }
    let write = PolicyWrite {
        user: &scope.user,
        plural: &scope.path.resource,
        namespace: scope.namespace(),
        requested_name: &scope.path.name,
        object,
        old: attributes.old,
    };
    escalation::check(&write, rules, &admission.authorizers).await
}

/// Authorizes the creation of an object by another verb, such as a patch that applies a
/// configuration.
///
/// Upstream: endpoints/handlers `withAuthorization`, which follows the validation of the object.
async fn authorize_creation(attributes: &Attributes<'_>) -> Result<(), Status> {
    let scope = attributes.scope;
    if attributes.operation != Operation::Create || scope.verb == Verb::Create {
        return Ok(());
    }
    let resource = ResourceAttributes {
        namespace: scope.namespace(),
        ..ResourceAttributes::from(&scope.path)
    };
    let verb = Verb::Create.as_str();
    let creation = authorization::Attributes::of_resource(&scope.user, verb, resource);
    let decision = attributes.admission.authorizers.decide(&creation).await;
    match decision.evaluation_error() {
        _ if decision.is_allowed() => Ok(()),
        Some(error) => Err(Status::internal(error)),
        None => Err(forbidden(&creation, decision.reason())),
    }
}
