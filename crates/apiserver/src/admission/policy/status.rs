//! The status controller of validating policies: writes the result of type checking to the status
//! of each policy. Admission does not read the status.

use std::sync::Arc;
use std::time::Duration;

use super::{GROUP, type_checking};
use crate::in_process::loopback::LoopbackClient;
use crate::storage::Storage;
use machinery::{Object, Value, json};

/// The delay before a failed write is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The field manager of upstream's controller, which runs in the controller manager.
const FIELD_MANAGER: &str = "validatingadmissionpolicy-status";

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

/// Writes the status of all policies until the plane stops.
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

/// Writes the status of a changed policy. Returns false if the write must be retried.
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
    // A policy that was deleted or replaced causes another change, which wakes the controller.
    matches!(client.apply(&path, FIELD_MANAGER, &config).await.code, ..400 | 404 | 409)
}
