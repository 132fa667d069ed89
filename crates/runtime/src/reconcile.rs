//! What a reconcile function gets and gives: a [`Request`], an [`Action`], a [`Failure`].
//!
//! It gets a key, never an event: whatever happened, and however often, it makes the world match
//! what the object wants now. So it must be right after any number of missed or repeated calls.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use informer::{ObjectDecodeError, ObjectKey};

/// Which object to look after.
pub type Request = ObjectKey;

/// What comes next, after a reconcile that went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing, until something changes.
    Done,
    /// Look again, after the back-off that failures have.
    Requeue,
    /// Look again after this time, or when something changes before.
    RequeueAfter(Duration),
}

/// A reconcile that went wrong.
///
/// Every error is a transient failure by `?`, but for [`ObjectDecodeError`], which is a permanent one.
/// (It is not an error itself, since `?` could not convert into it then.)
///
/// ```
/// use runtime::Failure;
///
/// fn parse(size: &str) -> Result<u32, Failure> {
///     // It will not become a number by trying again.
///     size.parse().map_err(Failure::permanent)
/// }
/// assert!(parse("many").is_err_and(|failure| failure.is_permanent()));
/// ```
pub struct Failure {
    cause: Box<dyn StdError + Send + Sync>,
    is_permanent: bool,
}

impl Failure {
    /// Trying again may help: the key comes again after its back-off.
    pub fn transient(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { cause: cause.into(), is_permanent: false }
    }

    /// Trying again will not help: the key comes again when something changes.
    pub fn permanent(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { cause: cause.into(), is_permanent: true }
    }

    /// Whether trying again is useless.
    pub fn is_permanent(&self) -> bool {
        self.is_permanent
    }

    /// What went wrong.
    pub fn cause(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.cause
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let cause: Box<dyn StdError + Send + Sync> = Box::new(error);
        let is_permanent = cause.is::<ObjectDecodeError>();
        Self { cause, is_permanent }
    }
}

impl fmt::Display for Failure {
    /// With all causes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cause: &(dyn StdError + 'static) = &*self.cause;
        loop {
            if let Some(kube_client::Error::Api(status)) = cause.downcast_ref() {
                // By itself it prints the whole status as well, in Rust's notation.
                return write!(f, "the server answered {}: {}", status.code, status.message);
            }
            write!(f, "{cause}")?;
            match cause.source() {
                Some(source) => cause = source,
                None => return Ok(()),
            }
            f.write_str(": ")?;
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_permanent { "permanent" } else { "transient" };
        write!(f, "{kind} failure: {self}")
    }
}

/// A reconcile function with its context.
pub(crate) type Reconcile =
    Arc<dyn Fn(Request) -> BoxFuture<'static, Result<Action, Failure>> + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;
    use informer::Item;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot reach it")]
    struct Unreachable(#[source] fmt::Error);

    #[test]
    fn errors_are_transient_and_printed_with_their_causes() {
        let failure = Failure::from(Unreachable(fmt::Error));
        let printed = "cannot reach it: an error occurred when formatting an argument";
        assert_eq!((failure.to_string().as_str(), failure.is_permanent()), (printed, false));
    }

    #[test]
    fn what_a_server_refused_is_told_in_its_words() {
        let status = kube_core::Status::failure("pods \"a\" already exists", "AlreadyExists");
        let refused = kube_client::Error::Api(Box::new(status.with_code(409)));
        let failure = Failure::from(crate::apply::ApplyError::Client(refused));
        let printed = "cannot apply the object: the server answered 409: pods \"a\" already exists";
        assert_eq!(failure.to_string(), printed);
    }

    #[test]
    fn an_object_that_does_not_fit_will_not_fit_the_next_time() {
        let item = Item::parse(br#"{"metadata":{"name":"a"}}"#.as_slice()).unwrap();
        let error = item.decode::<u32>().unwrap_err();
        assert!(Failure::from(ObjectDecodeError { item, error }).is_permanent());
    }
}
