//! [`Admit`]: the interface of admission that the registry calls.

use std::future::ready;
use std::pin::Pin;

use crate::storage::hooks::Reservation;
use machinery::{Object, Status};

/// The result of an admission, which may wait for webhooks.
pub(crate) type AdmissionFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, Status>> + Send + 'a>>;

/// See the [module documentation](self).
pub(crate) trait Admit: Send + Sync {
    /// Mutates the object, or rejects the request before validation. `old` is None for a new
    /// object.
    fn mutate<'a>(
        &'a self,
        object: &'a mut Object,
        old: Option<&'a Object>,
    ) -> AdmissionFuture<'a, ()>;

    /// Validates an object that is about to be stored or, if `object` is None, deleted. The
    /// reservation, such as the quota that the object uses, is held until the object can be read.
    fn validate<'a>(
        &'a self,
        object: Option<&'a Object>,
        old: Option<&'a Object>,
    ) -> AdmissionFuture<'a, Reservation>;
}

/// The admission of a write that follows from an admitted request, such as the deletion of a pod
/// that follows from its eviction.
pub(crate) struct AlreadyAdmitted;

impl Admit for AlreadyAdmitted {
    fn mutate<'a>(&'a self, _: &'a mut Object, _: Option<&'a Object>) -> AdmissionFuture<'a, ()> {
        Box::pin(ready(Ok(())))
    }

    fn validate<'a>(
        &'a self,
        _: Option<&'a Object>,
        _: Option<&'a Object>,
    ) -> AdmissionFuture<'a, Reservation> {
        Box::pin(ready(Ok(Reservation::default())))
    }
}
