//! Reports that the directory of the store was removed, moved or replaced while the plane runs. Writes
//! still succeed then, and are lost when the plane ends.

use std::path::Path;
use std::sync::Arc;

use super::STORE_DIRECTORY;
use crate::config::StoreConfig;
use crate::config_files::followed::INTERVAL;
use crate::plane::Plane;
use crate::plane::health_checks::{CheckScope, NamedCheck};
use keel::blocking;
use store::embedded::StoreFiles;

/// Starts the readiness check and the task that logs, for a plane with files.
pub(super) fn spawn(plane: &Arc<Plane>, config: &StoreConfig) {
    let StoreConfig::Embedded(directory) = config else { return };
    // A store of the caller may be elsewhere.
    let Ok(files) = StoreFiles::of(&directory.join(STORE_DIRECTORY)) else { return };
    let files = Arc::new(files);
    let check = {
        let files = Arc::clone(&files);
        move || files.first_missing().map_or(Ok(()), |path| Err(reason(path)))
    };
    let (name, scope) = ("data-directory".to_owned(), CheckScope::Readiness);
    plane.health_checks.add(NamedCheck { name, scope, check: Arc::new(check) });
    let (clock, stop) = (plane.storage.clock.clone(), plane.storage.tasks.shutdown());
    let watching = async move {
        loop {
            clock.sleep(INTERVAL).await;
            if let Some(path) = blocking(|| files.first_missing()) {
                tracing::error!(
                    "{}: all writes are lost when the plane stops: save what you need, for example \
                     with `kubectl get -o yaml`, and start the plane again",
                    reason(path)
                );
                return;
            }
        }
    };
    plane.storage.tasks.spawn("data-directory", async move {
        tokio::select! {
            () = watching => {}
            () = stop => {}
        }
    });
}

fn reason(path: &Path) -> String {
    format!("{} was removed, moved or replaced while the plane runs", path.display())
}
