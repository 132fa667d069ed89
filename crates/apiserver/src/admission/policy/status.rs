//! Shows in the status of each validating policy whether its expressions fit what it is about.
//! Nothing is decided by it.

use super::{GROUP, type_checking};
use crate::cache::storage::Storage;
use crate::in_process::loopback::LoopbackClient;
use machinery::{Object, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How long to wait before a status is written again that could not be written.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Under this name upstream's controller manager does the same.
const FIELD_MANAGER: &str = "validatingadmissionpolicy-status";

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

/// Keeps the status of all policies true until the storage stops.
pub(crate) async fn run_policy_status_controller(storage: Arc<Storage>, client: LoopbackClient) {
    let catalog = storage.catalog.load_full();
    let Some(policies) = catalog.resource(GROUP, "validatingadmissionpolicies") else { return };
    let mut changed = policies.cache.subscribe();
    let stop = storage.tasks.shutdown();
    tokio::pin!(stop);
    loop {
        changed.mark_seen();
        let snapshot = policies.cache.snapshot().initialized();
        let mut has_failed = false;
        for entry in snapshot.entries.values() {
            has_failed |= !sync_status(&storage, &client, &entry.object()).await;
        }
        let retry = async {
            if has_failed {
                storage.clock.sleep(RETRY_DELAY).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = changed.changed() => {}
            () = retry => {}
            () = &mut stop => return,
        }
    }
}

/// Writes the status of a policy that has changed; whether that needs no other try.
async fn sync_status(storage: &Storage, client: &LoopbackClient, policy: &Object) -> bool {
    let observed = policy.get(&["status", "observedGeneration"]).and_then(Value::as_i64);
    if policy.generation() <= observed.unwrap_or(0) || policy.deletion_timestamp().is_some() {
        return true;
    }
    let salt = storage.clock.now().nanos();
    let status = type_checking::status(&storage.catalog.load(), policy, salt);
    let config = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": policy.name(), "uid": policy.uid()},
        "status": status,
    });
    let path = format!("{POLICIES}/{}/status", policy.name());
    // One that is gone, or is another by now, wakes us anyway.
    matches!(client.apply(&path, FIELD_MANAGER, &config).await.code, ..400 | 404 | 409)
}
