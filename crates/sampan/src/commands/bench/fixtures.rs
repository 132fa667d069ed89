//! [`Fixtures`]: the namespace and the CRDs of one run, created for it and removed after it.
//!
//! Names are random, so that two runs do not interfere. The path of each object is recorded before
//! its creation, so that an interrupted run removes everything.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::{Instant, sleep};

use super::objects::crd;
use super::pool::{Pool, is_not_found};
use keel::Entropy;
use machinery::json;

/// The path of the collection of CRDs.
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMESPACES: &str = "/api/v1/namespaces";

/// The limit of waiting until a CRD is served.
const SERVED_TIMEOUT: Duration = Duration::from_mins(1);

/// The number of attempts to delete an object or a collection.
const DELETE_ATTEMPTS: usize = 5;

/// The limit of waiting for the deletion of the namespace, which is empty and never reused.
const DELETION_TIMEOUT: Duration = Duration::from_secs(1);

/// See the [module documentation](self).
pub(crate) struct Fixtures<'a> {
    pool: &'a Pool,
    /// The namespace of the objects.
    pub namespace: String,
    /// The API group of the CRDs.
    pub group: String,
    /// The paths to delete at the end, in reverse order.
    created: Mutex<Vec<String>>,
}

impl<'a> Fixtures<'a> {
    /// Chooses the names; creates nothing yet.
    pub(crate) fn new(pool: &'a Pool, entropy: &Entropy) -> Self {
        let run = entropy.suffix(6);
        Self {
            pool,
            namespace: format!("sampan-bench-{run}"),
            group: format!("bench-{run}.example.com"),
            created: Mutex::default(),
        }
    }

    /// Creates the namespace.
    pub(crate) async fn create_namespace(&self) -> Result<()> {
        let Self { namespace, .. } = self;
        self.record(format!("{NAMESPACES}/{namespace}"));
        // A server without a namespace controller does not delete the objects of a namespace.
        self.record(format!("{NAMESPACES}/{namespace}/configmaps"));
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.pool.post(NAMESPACES, body.to_string()).await.context("cannot create a namespace")?;
        Ok(())
    }

    /// Creates a CRD.
    pub(crate) async fn create_crd(&self, singular: &str) -> Result<()> {
        self.record(self.crd_path(singular));
        let body = crd(&self.group, singular).to_string();
        self.pool.post(CRDS, body).await.context("cannot create a CRD")?;
        Ok(())
    }

    /// Deletes a CRD before the end of the run.
    pub(crate) async fn delete_crd(&self, singular: &str) -> Result<()> {
        let path = self.crd_path(singular);
        self.pool.delete(&path).await?;
        self.created.lock().unwrap_or_else(PoisonError::into_inner).retain(|it| *it != path);
        Ok(())
    }

    /// Repeats `attempt` while the response is 404, which it is until the resource of a CRD is
    /// served.
    pub(crate) async fn until_served<T>(&self, attempt: impl AsyncFn() -> Result<T>) -> Result<T> {
        let begun = Instant::now();
        loop {
            match attempt().await {
                Err(error) if is_not_found(&error) => {
                    if begun.elapsed() > SERVED_TIMEOUT {
                        return Err(error.context("a CRD was not served in time"));
                    }
                }
                result => return result,
            }
            // The pause grows with the elapsed time: requests stay a small load, and the error of
            // the measurement stays below a tenth.
            let pause = begun.elapsed() / 10;
            sleep(pause.clamp(Duration::from_millis(1), Duration::from_millis(50))).await;
        }
    }

    /// Removes everything that was created.
    pub(crate) async fn remove(&self) -> Result<()> {
        let created =
            std::mem::take(&mut *self.created.lock().unwrap_or_else(PoisonError::into_inner));
        let mut left = Vec::new();
        for path in created.iter().rev() {
            if let Err(error) = self.delete(path).await {
                left.push(format!("{error:#}"));
            }
        }
        if !left.is_empty() {
            bail!("cannot remove all that was created:\n  {}", left.join("\n  "));
        }
        Ok(())
    }

    /// Waits for the deletion of the namespace, up to a limit; false if it still exists.
    pub(crate) async fn namespace_is_deleted(&self) -> bool {
        let path = format!("{NAMESPACES}/{}", self.namespace);
        let begun = Instant::now();
        while begun.elapsed() < DELETION_TIMEOUT {
            match self.pool.get(&path).await {
                Err(error) if is_not_found(&error) => return true,
                _ => sleep(Duration::from_millis(50)).await,
            }
        }
        false
    }

    /// Deletes an object or a collection, which need not exist. A large collection may take longer
    /// than the server's time limit of a request: each attempt deletes more of it.
    async fn delete(&self, path: &str) -> Result<()> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.pool.delete(path).await {
                Err(error) if is_not_found(&error) => return Ok(()),
                Err(error) if attempts == DELETE_ATTEMPTS => return Err(error),
                Err(_) => {}
                Ok(_) => return Ok(()),
            }
        }
    }

    fn crd_path(&self, singular: &str) -> String {
        format!("{CRDS}/{singular}s.{}", self.group)
    }

    fn record(&self, path: String) {
        self.created.lock().unwrap_or_else(PoisonError::into_inner).push(path);
    }
}
