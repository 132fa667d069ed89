//! What a durable store does from time to time, whether or not anybody writes: keeps its reserve of
//! disk space, forgets history on the disk, and returns unused space to the file system.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use keel::Clock;

use crate::{Engine, Error};

/// The time between two rounds. A change stays readable after a restart for one to two of them, as
/// long as kube-apiserver has etcd keep it.
pub(crate) const INTERVAL: Duration = Duration::from_mins(5);

/// Runs until `shutdown`, or until the store is closed; the first round is at once.
pub(crate) async fn keep(engine: Arc<Engine>, clock: Clock, shutdown: impl Future<Output = ()>) {
    let mut shutdown = pin!(shutdown);
    loop {
        match engine.maintain().await {
            Ok(()) => {}
            Err(Error::Closed) => return,
            Err(error) => tracing::warn!(%error, "the store cannot tidy its files"),
        }
        tokio::select! {
            () = &mut shutdown => return,
            () = clock.sleep(INTERVAL) => {}
        }
    }
}
