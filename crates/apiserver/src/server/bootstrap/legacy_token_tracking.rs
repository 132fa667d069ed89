//! The tracking of service account tokens in secrets: a config map says since when it is done, and a
//! label of each secret says when its token was last used. Tokens that are not used are removed by a
//! controller.
//!
//! Upstream: `pkg/controlplane/controller/legacytokentracking` and `patchSecretWithLastUsedDate`.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{Error, ensure};
use crate::auth::authentication::service_account::{LAST_USED, UsedSecret};
use crate::plane::Plane;
use machinery::{json, timestamp};

/// The name of the config map in `kube-system`.
pub(super) const NAME: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// Creates the config map if it is missing.
pub(super) async fn ensure_map(plane: &Plane) -> Result<(), Error> {
    let map = json!({"data": {"since": today(plane)}});
    ensure(&plane.loopback, "/api/v1/namespaces/kube-system/configmaps", NAME, map).await
}

/// Labels the secrets whose tokens are used, once on each day, until the plane stops.
pub(crate) async fn label_used_secrets(plane: Arc<Plane>, mut uses: mpsc::Receiver<UsedSecret>) {
    let stop = plane.storage.tasks.shutdown();
    tokio::pin!(stop);
    loop {
        let used = tokio::select! {
            used = uses.recv() => used,
            () = &mut stop => None,
        };
        let Some(UsedSecret { namespace, name, uid }) = used else { return };
        let (found, today) = (plane.find_referenced("secrets", &namespace, &name), today(&plane));
        // Requests that were sent together have each reported the use.
        if found.is_none_or(|it| it.last_used == today) {
            continue;
        }
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        let patch = json!({"metadata": {"uid": uid, "labels": {LAST_USED: today}}});
        let answer = plane.loopback.merge(&path, &patch).await;
        if !matches!(answer.code, 200 | 404 | 409) {
            let message = answer.message();
            tracing::warn!(path, message, "cannot label the secret of a token that was used");
        }
    }
}

/// The date, as in `2024-01-01`.
fn today(plane: &Plane) -> String {
    let mut date = timestamp::format_seconds(plane.storage.clock.now().seconds());
    date.truncate("2024-01-01".len());
    date
}
