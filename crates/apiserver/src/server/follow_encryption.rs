//! Follows the configuration of encryption at rest, and reads objects again that could not be
//! decrypted.

use std::sync::Arc;
use std::time::Duration;

use crate::encryption::Encryption;
use crate::plane::Plane;
use crate::plane::health_checks::{CheckScope, NamedCheck};
use keel::Tasks;

/// The interval at which objects that cannot be decrypted are tried again.
const UNREADABLE_INTERVAL: Duration = Duration::from_secs(10);

/// Starts the health check and the tasks of encryption at rest, if it is configured.
pub(super) fn spawn(plane: &Arc<Plane>, encryption: Encryption, tasks: &Tasks) {
    if let Some(check) = encryption.health_check() {
        let (name, scope) = ("kms-providers".to_owned(), CheckScope::Health);
        plane.health_checks.add(NamedCheck { name, scope, check: Arc::new(check) });
    }
    let Some(mut changed) = encryption.subscribe() else { return };
    let (cache, clock) = (Arc::clone(&plane.storage.cache), plane.storage.clock.clone());
    let stop = tasks.shutdown();
    let retrying = async move {
        loop {
            tokio::select! {
                () = clock.sleep(UNREADABLE_INTERVAL) => {}
                Ok(()) = changed.changed() => {}
            }
            if let Err(error) = cache.retry_unreadable().await {
                tracing::warn!(error = error.with_causes(), "cannot read objects again");
            }
        }
    };
    tasks.spawn("unreadable-objects", async move {
        tokio::select! {
            () = retrying => {}
            () = stop => {}
        }
    });
    tasks.spawn("encryption-configuration", encryption.follow_file());
}
