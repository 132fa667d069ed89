//! [`Stage`]: the namespace and the definitions of one run, made for it and removed after it.
//!
//! Names are drawn, so that two runs do not meet. What is about to be made is noted first, so that
//! a run that is interrupted at any point still removes everything.

use super::objects::definition;
use super::pool::{Pool, is_not_found};
use anyhow::{Context, Result, bail};
use keel::Entropy;
use machinery::json;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Where definitions are.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMESPACES: &str = "/api/v1/namespaces";

/// How long a definition may take to be served.
const UNTIL_SERVED: Duration = Duration::from_mins(1);

/// How often to try to delete something.
const ATTEMPTS: usize = 5;

/// How long to watch a namespace go: it is empty by then, and its name is never used again.
const UNTIL_GONE: Duration = Duration::from_secs(1);

/// See the [module documentation](self).
pub(crate) struct Stage<'a> {
    pool: &'a Pool,
    /// Where the objects are.
    pub namespace: String,
    /// The API group of the definitions.
    pub group: String,
    /// What to delete in the end, the last one first.
    made: Mutex<Vec<String>>,
}

impl<'a> Stage<'a> {
    /// Draws the names; makes nothing yet.
    pub(crate) fn new(pool: &'a Pool, entropy: &Entropy) -> Self {
        let run = entropy.suffix(6);
        Self {
            pool,
            namespace: format!("sampan-bench-{run}"),
            group: format!("bench-{run}.example.com"),
            made: Mutex::default(),
        }
    }

    /// Makes the namespace.
    pub(crate) async fn create_namespace(&self) -> Result<()> {
        let Self { namespace, .. } = self;
        self.note(format!("{NAMESPACES}/{namespace}"));
        // Nobody may be there to empty the namespace when it goes: an API server alone does not.
        self.note(format!("{NAMESPACES}/{namespace}/configmaps"));
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.pool.post(NAMESPACES, body.to_string()).await.context("cannot make a namespace")?;
        Ok(())
    }

    /// Makes a definition.
    pub(crate) async fn create_definition(&self, singular: &str) -> Result<()> {
        self.note(self.definition_path(singular));
        let body = definition(&self.group, singular).to_string();
        self.pool.post(DEFINITIONS, body).await.context("cannot make a definition")?;
        Ok(())
    }

    /// Deletes a definition before the end.
    pub(crate) async fn delete_definition(&self, singular: &str) -> Result<()> {
        let path = self.definition_path(singular);
        self.pool.delete(&path).await?;
        self.made.lock().expect("nobody panics with it").retain(|it| *it != path);
        Ok(())
    }

    /// Tries `attempt` until it no longer answers 404, which is what a definition's resource does
    /// until it is served.
    pub(crate) async fn until_served<T>(&self, attempt: impl AsyncFn() -> Result<T>) -> Result<T> {
        let begun = Instant::now();
        loop {
            match attempt().await {
                Err(error) if is_not_found(&error) => {
                    if begun.elapsed() > UNTIL_SERVED {
                        return Err(error.context("a definition was not served in time"));
                    }
                }
                result => return result,
            }
            // In proportion, so that asking is a small load and the error stays a tenth.
            let pause = begun.elapsed() / 10;
            sleep(pause.clamp(Duration::from_millis(1), Duration::from_millis(50))).await;
        }
    }

    /// Removes everything that was made.
    pub(crate) async fn remove(&self) -> Result<()> {
        let made = std::mem::take(&mut *self.made.lock().expect("nobody panics with it"));
        let mut left = Vec::new();
        for path in made.iter().rev() {
            if let Err(error) = self.delete(path).await {
                left.push(format!("{error:#}"));
            }
        }
        if !left.is_empty() {
            bail!("cannot remove all that was made:\n  {}", left.join("\n  "));
        }
        Ok(())
    }

    /// Waits a little for the namespace to go; false if it is still there.
    pub(crate) async fn is_gone(&self) -> bool {
        let path = format!("{NAMESPACES}/{}", self.namespace);
        let begun = Instant::now();
        while begun.elapsed() < UNTIL_GONE {
            match self.pool.get(&path).await {
                Err(error) if is_not_found(&error) => return true,
                _ => sleep(Duration::from_millis(50)).await,
            }
        }
        false
    }

    /// Deletes what is there. A large collection may take longer than the server allows a request:
    /// each attempt gets further.
    async fn delete(&self, path: &str) -> Result<()> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.pool.delete(path).await {
                Err(error) if is_not_found(&error) => return Ok(()),
                Err(error) if attempts == ATTEMPTS => return Err(error),
                Err(_) => {}
                Ok(_) => return Ok(()),
            }
        }
    }

    fn definition_path(&self, singular: &str) -> String {
        format!("{DEFINITIONS}/{singular}s.{}", self.group)
    }

    fn note(&self, path: String) {
        self.made.lock().expect("nobody panics with it").push(path);
    }
}
