//! The types of a reconcile function: [`Request`], [`Action`], [`Failure`].
//!
//! A reconcile function gets a key and no event: it makes the actual state match the desired state
//! of the object. It must be correct after any number of missed or repeated calls.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use informer::{ObjectDecodeError, ObjectKey};
use keel::{causes, push_cause};

/// What the message of a refused request begins with, before its code.
const REFUSED_WITH: &str = "the server responded with";

/// The key of the object to reconcile.
pub type Request = ObjectKey;

/// What follows a successful reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The next reconcile follows the next change.
    Done,
    /// The key is requeued after its backoff.
    Requeue,
    /// The key is requeued after this time; a change may come earlier.
    RequeueAfter(Duration),
}

/// A failed reconcile.
///
/// `?` converts every error, also that of the crate `anyhow`, into a transient failure, but for
/// [`ObjectDecodeError`], which becomes a permanent one. (`Failure` does not implement `Error`, since
/// `?` could not convert into it then.)
///
/// ```
/// use runtime::Failure;
///
/// fn parse(size: &str) -> Result<u32, Failure> {
///     // A retry would fail in the same way.
///     size.parse().map_err(Failure::permanent)
/// }
/// assert!(parse("many").is_err_and(|failure| failure.is_permanent()));
///
/// async fn fetch() -> anyhow::Result<u32> {
///     anyhow::bail!("not today")
/// }
///
/// async fn reconcile() -> Result<(), Failure> {
///     if fetch().await? == 0 {
///         return Err(Failure::transient("there is none yet"));
///     }
///     Ok(())
/// }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// assert_eq!(reconcile().await.unwrap_err().to_string(), "not today");
/// # });
/// ```
pub struct Failure {
    cause: Box<dyn StdError + Send + Sync>,
    is_permanent: bool,
}

impl Failure {
    /// A failure that is retried after the backoff of the key.
    pub fn transient(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { cause: cause.into(), is_permanent: false }
    }

    /// A failure that is not retried before the next change.
    pub fn permanent(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { cause: cause.into(), is_permanent: true }
    }

    /// Whether the failure is not retried.
    pub fn is_permanent(&self) -> bool {
        self.is_permanent
    }

    /// The error that caused the failure.
    pub fn cause(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.cause
    }

    /// Whether the server has refused a write since the object has changed.
    pub(crate) fn is_conflict(&self) -> bool {
        causes(&*self.cause).any(|cause| {
            let error = cause.downcast_ref();
            matches!(error, Some(kube_client::Error::Api(status)) if status.reason == "Conflict")
        })
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        let cause = error.into();
        let is_permanent = cause.is::<ObjectDecodeError>();
        Self { cause, is_permanent }
    }
}

impl fmt::Display for Failure {
    /// Contains all causes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut message = String::new();
        for cause in causes(&*self.cause) {
            if let Some(kube_client::Error::Api(status)) = cause.downcast_ref() {
                // kube's own message also contains the whole status in debug format.
                let (code, refusal) = (status.code, &status.message);
                push_cause(&mut message, &format!("{REFUSED_WITH} {code}: {refusal}"));
                break;
            }
            push_cause(&mut message, &cause.to_string());
        }
        f.write_str(&message)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_permanent { "permanent" } else { "transient" };
        write!(f, "{kind} failure: {self}")
    }
}

/// Whether the server has forbidden a request, according to a text with the message of a failure.
pub(crate) fn is_forbidden(message: &str) -> bool {
    message.contains(&format!("{REFUSED_WITH} 403: "))
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
    fn the_message_of_a_refusal_is_that_of_the_server() {
        let status = kube_core::Status::failure("pods \"a\" already exists", "AlreadyExists");
        let refused = kube_client::Error::Api(Box::new(status.with_code(409)));
        let failure = Failure::from(crate::apply::ApplyError::Client(refused));
        let printed =
            "cannot apply the object: the server responded with 409: pods \"a\" already exists";
        assert_eq!(failure.to_string(), printed);
    }

    #[test]
    fn an_error_that_repeats_its_cause_is_printed_once() {
        let failure = Failure::from(kube_client::Error::Service(crate::Fenced.into()));
        assert_eq!(failure.to_string(), format!("ServiceError: {}", crate::Fenced));
    }

    #[test]
    fn an_error_of_anyhow_is_printed_with_its_causes() {
        fn fail() -> Result<(), Failure> {
            Err(anyhow::Error::from(fmt::Error).context("cannot reach it"))?
        }
        let printed = "cannot reach it: an error occurred when formatting an argument";
        assert_eq!(fail().unwrap_err().to_string(), printed);
    }

    #[test]
    fn only_a_write_of_an_old_state_is_a_conflict() {
        let refused = |reason| {
            let status = kube_core::Status::failure("no", reason).with_code(409);
            Failure::from(crate::apply::ApplyError::Client(kube_client::Error::Api(Box::new(
                status,
            ))))
        };
        assert!(refused("Conflict").is_conflict());
        assert!(!refused("AlreadyExists").is_conflict());
    }

    #[test]
    fn an_object_that_cannot_be_decoded_is_a_permanent_failure() {
        let item = Item::parse(br#"{"metadata":{"name":"a"}}"#.as_slice()).unwrap();
        let error = item.decode::<u32>().unwrap_err();
        assert!(Failure::from(ObjectDecodeError { item, error }).is_permanent());
    }
}
