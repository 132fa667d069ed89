//! Finalizers: an object with a finalizer is not removed before its controller has cleaned up.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use runtime::{Action, Api, Failure, finalizer::{self, Stage}};
//!
//! # async fn make_bucket(_: &ConfigMap) -> Result<Action, Failure> { Ok(Action::Done) }
//! # async fn delete_bucket(_: &ConfigMap) -> Result<(), Failure> { Ok(()) }
//! async fn reconcile(api: &Api<ConfigMap>, map: ConfigMap) -> Result<Action, Failure> {
//!     let done = finalizer::run(api, "example.com/bucket", map, |stage| async {
//!         match stage {
//!             Stage::Apply(map) => make_bucket(&map).await,
//!             Stage::Cleanup(map) => {
//!                 delete_bucket(&map).await?; // must be idempotent
//!                 Ok(Action::Done)
//!             }
//!         }
//!     });
//!     Ok(done.await?.action())
//! }
//! ```
//!
//! A cleanup that takes time is not a failure: [`Progress::NotYet`] keeps the finalizer, and the next
//! event of the object or of its dependents, or the action, calls the function again:
//!
//! ```no_run
//! use k8s_openapi::api::{batch::v1::Job, core::v1::ConfigMap};
//! use runtime::{Action, Api, Failure, finalizer::{self, Progress, Stage}};
//!
//! # async fn make_bucket(_: &ConfigMap) -> Result<Action, Failure> { Ok(Action::Done) }
//! # async fn start_or_get_job(_: &ConfigMap) -> Result<Job, Failure> { Ok(Job::default()) }
//! async fn reconcile(api: &Api<ConfigMap>, map: ConfigMap) -> Result<Action, Failure> {
//!     let done = finalizer::run(api, "example.com/bucket", map, |stage| async {
//!         match stage {
//!             Stage::Apply(map) => make_bucket(&map).await.map(Progress::Done),
//!             Stage::Cleanup(map) => {
//!                 let job = start_or_get_job(&map).await?; // the controller `owns::<Job>()`
//!                 let is_complete = job.status.is_some_and(|status| status.completion_time.is_some());
//!                 Ok(match is_complete {
//!                     true => Progress::Done(Action::Done),
//!                     false => Progress::NotYet(Action::Done), // the Job's own event follows
//!                 })
//!             }
//!         }
//!     });
//!     Ok(done.await?.action())
//! }
//! ```
//!
//! Without `run`:
//!
//! ```no_run
//! # use {k8s_openapi::api::core::v1::ConfigMap, runtime::{Api, finalizer}};
//! # async fn example(api: &Api<ConfigMap>, map: ConfigMap) -> Result<(), runtime::kube_client::Error> {
//! let Some(map) = finalizer::add(api, "example.com/bucket", map).await? else { return Ok(()) };
//! assert!(finalizer::has(&map, "example.com/bucket"));
//! let uid = map.metadata.uid.as_deref();
//! finalizer::remove(api, "example.com/bucket", "settings", uid).await?;
//! # Ok(())
//! # }
//! ```

use std::convert::Infallible;
use std::fmt;

use kube_client::Api;
use kube_client::api::{Patch, PatchParams};
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::{Action, Failure};

/// The number of attempts if the object is written concurrently; the next reconcile tries again.
const MAX_ATTEMPTS: usize = 8;

/// The work of a reconcile.
#[derive(Debug, Clone)]
pub enum Stage<K> {
    /// Apply the object; the finalizer was added.
    Apply(K),
    /// Clean up; the object is removed when this succeeds, unless it is [`Progress::NotYet`]. It may
    /// be called more than once.
    Cleanup(K),
}

/// The result of a function whose cleanup may take time, see the [module documentation](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<T> {
    /// The object was applied, or everything was cleaned up.
    Done(T),
    /// The cleanup goes on: the finalizer stays, and the function is called again. After an apply,
    /// this is the same as `Done`.
    NotYet(T),
}

/// The results that a function of [`run`] may have: [`Action`] or `()` if its cleanup is complete
/// when it succeeds, and [`Progress`] if it may take longer.
///
/// ```
/// use runtime::{Action, finalizer::{Progress, StageResult}};
///
/// assert_eq!(Action::Done.progress(), Progress::Done(Action::Done));
/// assert_eq!(Progress::NotYet(()).progress(), Progress::NotYet(()));
/// ```
pub trait StageResult {
    /// The value in the result of [`run`].
    type Value;

    /// Whether the finalizer may be removed, with the value.
    fn progress(self) -> Progress<Self::Value>;
}

impl StageResult for Action {
    type Value = Self;

    fn progress(self) -> Progress<Self> {
        Progress::Done(self)
    }
}

impl StageResult for () {
    type Value = Self;

    fn progress(self) -> Progress<Self> {
        Progress::Done(self)
    }
}

impl<T> StageResult for Progress<T> {
    type Value = T;

    fn progress(self) -> Self {
        self
    }
}

/// The result of [`run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finalized<T> {
    /// The object was applied.
    Applied(T),
    /// The finalizer was removed; the object is removed when it has no other finalizers.
    CleanedUp(T),
    /// The cleanup goes on; the finalizer stays.
    CleaningUp(T),
    /// The object is being deleted and does not have the finalizer.
    NotOurs,
}

impl Finalized<Action> {
    /// The action at the end of a reconcile.
    pub fn action(self) -> Action {
        match self {
            Self::Applied(action) | Self::CleanedUp(action) | Self::CleaningUp(action) => action,
            Self::NotOurs => Action::Done,
        }
    }
}

/// The reason why an object was not reconciled. All of them can be retried.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use runtime::{Api, finalizer::{self, Finalized, FinalizerError, Stage}};
/// use std::io;
///
/// // The function has its own error type.
/// async fn keep_file(api: &Api<ConfigMap>, map: ConfigMap) -> Result<(), FinalizerError<io::Error>> {
///     let done = finalizer::run(api, "example.com/file", map, |stage| async move {
///         match stage {
///             Stage::Apply(_) => std::fs::write("/data/file", "there"),
///             Stage::Cleanup(_) => std::fs::remove_file("/data/file"),
///         }
///     });
///     match done.await {
///         Ok(Finalized::Applied(()) | Finalized::CleanedUp(())) => Ok(()),
///         Ok(Finalized::CleaningUp(()) | Finalized::NotOurs) => Ok(()),
///         Err(FinalizerError::Cleanup(e)) if e.kind() == io::ErrorKind::NotFound => Ok(()),
///         Err(error) => Err(error),
///     }
/// }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum FinalizerError<E> {
    /// The function failed.
    #[error("cannot apply the object")]
    Apply(#[source] E),
    /// The function failed; the finalizer stays.
    #[error("cannot clean up after the object")]
    Cleanup(#[source] E),
    /// The finalizer could not be added.
    #[error("cannot add the finalizer")]
    Add(#[source] kube_client::Error),
    /// The finalizer could not be removed; the cleanup will be called again.
    #[error("cannot remove the finalizer")]
    Remove(#[source] kube_client::Error),
    /// The object has no name, and so does not come from a server.
    #[error("an object without a name has no finalizers")]
    NoName,
}

impl From<FinalizerError<Failure>> for Failure {
    /// The failure of the function is returned unchanged.
    fn from(error: FinalizerError<Failure>) -> Self {
        match error {
            FinalizerError::Apply(failure) | FinalizerError::Cleanup(failure) => failure,
            FinalizerError::Add(error) => FinalizerError::<Infallible>::Add(error).into(),
            FinalizerError::Remove(error) => FinalizerError::<Infallible>::Remove(error).into(),
            FinalizerError::NoName => FinalizerError::<Infallible>::NoName.into(),
        }
    }
}

/// Adds the finalizer before anything else, calls `act`, and removes the finalizer after the
/// cleanup.
///
/// It gets the object and patches it: the permissions are `get` and `patch` of the kind.
pub async fn run<K, F, A, T, E>(
    api: &Api<K>,
    finalizer: &str,
    object: K,
    act: F,
) -> Result<Finalized<T::Value>, FinalizerError<E>>
where
    K: Resource + Serialize + DeserializeOwned + Clone + fmt::Debug,
    F: FnOnce(Stage<K>) -> A,
    A: Future<Output = Result<T, E>>,
    T: StageResult,
{
    let Some(name) = object.meta().name.clone() else {
        return Err(FinalizerError::NoName);
    };
    if object.meta().deletion_timestamp.is_none() {
        let Some(object) = add(api, finalizer, object).await.map_err(FinalizerError::Add)? else {
            return Ok(Finalized::NotOurs);
        };
        let applied = act(Stage::Apply(object)).await.map_err(FinalizerError::Apply)?;
        return Ok(match applied.progress() {
            Progress::Done(value) | Progress::NotYet(value) => Finalized::Applied(value),
        });
    }
    if !has(&object, finalizer) {
        return Ok(Finalized::NotOurs);
    }
    let uid = object.meta().uid.clone();
    let done = act(Stage::Cleanup(object)).await.map_err(FinalizerError::Cleanup)?;
    let value = match done.progress() {
        Progress::Done(value) => value,
        Progress::NotYet(value) => return Ok(Finalized::CleaningUp(value)),
    };
    remove(api, finalizer, &name, uid.as_deref()).await.map_err(FinalizerError::Remove)?;
    Ok(Finalized::CleanedUp(value))
}

/// Whether the object has the finalizer.
pub fn has<K: Resource>(object: &K, finalizer: &str) -> bool {
    names(object).iter().any(|it| it == finalizer)
}

/// Adds the finalizer, and returns the object from the server; `None` if it is being deleted or was
/// removed, so that no finalizer can be added.
pub async fn add<K>(api: &Api<K>, finalizer: &str, object: K) -> kube_client::Result<Option<K>>
where
    K: Resource + Serialize + DeserializeOwned + Clone + fmt::Debug,
{
    let uid = object.meta().uid.clone();
    let name = object.meta().name.clone().unwrap_or_default();
    let mut object = object;
    for attempt in 1.. {
        if has(&object, finalizer) {
            return Ok(Some(object));
        }
        let mut finalizers = names(&object).to_vec();
        finalizers.push(finalizer.to_owned());
        match write(api, &name, &object, &finalizers).await {
            Err(kube_client::Error::Api(status))
                if status.is_conflict() && attempt < MAX_ATTEMPTS => {}
            Err(kube_client::Error::Api(status)) if status.is_not_found() => return Ok(None),
            written => return written.map(Some),
        }
        match api.get_opt(&name).await? {
            Some(fresh) if fresh.meta().uid == uid && fresh.meta().deletion_timestamp.is_none() => {
                object = fresh;
            }
            // Being deleted, removed, or another object with the same name: the next event shows
            // it.
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// Removes the finalizer. If the object was removed, or another one has its name, this has no
/// effect.
pub async fn remove<K>(
    api: &Api<K>,
    finalizer: &str,
    name: &str,
    uid: Option<&str>,
) -> kube_client::Result<()>
where
    K: Resource + Serialize + DeserializeOwned + Clone + fmt::Debug,
{
    for attempt in 1.. {
        let Some(object) = api.get_opt(name).await? else {
            return Ok(());
        };
        if object.meta().uid.as_deref() != uid || !has(&object, finalizer) {
            return Ok(());
        }
        let mut finalizers = names(&object).to_vec();
        finalizers.retain(|it| it != finalizer);
        match write(api, name, &object, &finalizers).await {
            Err(kube_client::Error::Api(status))
                if status.is_conflict() && attempt < MAX_ATTEMPTS => {}
            Err(kube_client::Error::Api(status)) if status.is_not_found() => return Ok(()),
            written => return written.map(drop),
        }
    }
    Ok(())
}

fn names<K: Resource>(object: &K) -> &[String] {
    object.meta().finalizers.as_deref().unwrap_or_default()
}

/// Writes the whole list, with the resourceVersion, so that finalizers of others are not lost.
async fn write<K>(
    api: &Api<K>,
    name: &str,
    seen: &K,
    finalizers: &[String],
) -> kube_client::Result<K>
where
    K: Resource + DeserializeOwned + Clone + fmt::Debug,
{
    let patch = json!({"metadata": {
        "resourceVersion": seen.meta().resource_version, "finalizers": finalizers,
    }});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_converted_failure_stays_permanent_or_transient() {
        let failure = Failure::from(FinalizerError::Cleanup(Failure::permanent("no such bucket")));
        assert!(failure.is_permanent());
        let failure = Failure::from(FinalizerError::Apply(Failure::transient("not now")));
        assert_eq!((failure.to_string().as_str(), failure.is_permanent()), ("not now", false));
        let failure = Failure::from(FinalizerError::<Failure>::NoName);
        assert_eq!(failure.to_string(), "an object without a name has no finalizers");
    }
}
