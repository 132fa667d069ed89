//! `pods/eviction`: deletes a pod if its `PodDisruptionBudget` allows it.

use http::Response;

use crate::endpoints::context::RequestContext;
use crate::endpoints::object_response;
use crate::http::body::Body;
use crate::registry;
use crate::registry::admit::AlreadyAdmitted;
use crate::registry::large_objects::{has_large_objects, offload_if};
use crate::registry::{ManagedFields, UpdateRequest, UpdateStrategy, WriteOutcome};
use crate::request::options::{DeleteOptions, WriteOptions};
use kinds::policy::eviction;
use machinery::{ErrorList, GroupKind, Object, Path, Status, Value};
use types::resource::Subresource;

/// Deletes the pod with the options in the body, if its budget allows it.
pub(crate) async fn evict(
    cx: &RequestContext,
    body: &[u8],
    subresource: &Subresource,
) -> Result<Response<Body>, Status> {
    let mut write_options = WriteOptions::parse(&cx.query, "CreateOptions")?;
    let validation = write_options.field_validation();
    let mut body = super::subresource::decode_body(cx, body, subresource, validation)?;
    if body.name() != cx.scope.path.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    forbid_ignore_store_read_error(&body)?;
    let is_dry_run = write_options.dry_run;
    write_options.dry_run |= delete_options(&body)?.dry_run;
    super::subresource::admit(cx, &mut body, subresource, &write_options).await?;
    let mut options = delete_options(&body)?;
    options.dry_run |= is_dry_run;
    let pod = cx.find_current().await?.object();
    // Once the budget is charged, the deletion is completed even if the client disconnects.
    let _write = cx.scope.writes.begin();
    if eviction::needs_budget(&pod) {
        charge_budget(cx, &pod, options.dry_run).await?;
    }
    let options = mark_as_disruption_target(cx, options).await?;
    let (namespace, name) = (cx.scope.namespace(), &cx.scope.path.name);
    // The eviction has been admitted as a whole.
    registry::delete(&cx.scope, namespace, name, &options, &AlreadyAdmitted).await?;
    Ok(object_response::success(cx, 201, None))
}

/// Records the eviction in the conditions of the pod, and returns the options of its deletion: a
/// required resourceVersion becomes that of the changed pod. Upstream:
/// `registry/core/pod/storage/eviction.go`, `addConditionAndDeletePod`.
async fn mark_as_disruption_target(
    cx: &RequestContext,
    mut options: DeleteOptions,
) -> Result<DeleteOptions, Status> {
    if options.dry_run {
        return Ok(options);
    }
    let now = cx.scope.storage.now();
    let transform = |pod: &Object| {
        registry::check_delete_preconditions(&cx.scope, pod, &options)?;
        let mut pod = pod.clone();
        eviction::set_disruption_target(&mut pod, &now);
        Ok(pod)
    };
    let request = UpdateRequest {
        transform: &transform,
        strategy: UpdateStrategy::Posted,
        admission: &AlreadyAdmitted,
        dry_run: false,
        managed_fields: ManagedFields::Keep,
    };
    let outcome = registry::update(&cx.scope, request).await?;
    if let (Some(revision), WriteOutcome::Stored(entry)) = (&mut options.resource_version, outcome)
    {
        *revision = entry.revision.to_string();
    }
    Ok(options)
}

/// Rejects the option to delete an object that cannot be decoded. Upstream:
/// `registry/core/pod/storage/eviction.go`.
fn forbid_ignore_store_read_error(eviction: &Object) -> Result<(), Status> {
    const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    if eviction.get(&["deleteOptions", OPTION]) != Some(&Value::Bool(true)) {
        return Ok(());
    }
    let mut errors = ErrorList::new();
    let detail = "can not be set for pod eviction, try after removing the option";
    errors.invalid(&Path::root("deleteOptions").child(OPTION), true, detail);
    Err(Status::invalid(&GroupKind::new("policy", "Eviction"), eviction.name(), &errors))
}

/// The options of the deletion of the pod, from the body.
fn delete_options(eviction: &Object) -> Result<DeleteOptions, Status> {
    let sent = eviction.get(&["deleteOptions"]).cloned().and_then(Object::from_value);
    DeleteOptions::from_body(&sent.unwrap_or_default())
}

/// Subtracts one disruption from the budget that covers the pod, if there is one.
async fn charge_budget(cx: &RequestContext, pod: &Object, dry_run: bool) -> Result<(), Status> {
    let mut budgets = budgets(cx, pod).await;
    if budgets.len() > 1 {
        return Err(eviction::more_than_one_budget());
    }
    let Some(mut budget) = budgets.pop() else { return Ok(()) };
    eviction::check_disruption_allowed(&budget)?;
    if dry_run {
        return Ok(());
    }
    eviction::record_disruption(&mut budget, pod.name(), &cx.scope.storage.now());
    let path = format!(
        "/apis/policy/v1/namespaces/{}/poddisruptionbudgets/{}/status",
        budget.namespace(),
        budget.name()
    );
    let response = cx.plane.loopback.update(&path, &budget.into_value()).await;
    match response.code {
        200 => Ok(()),
        // A concurrent eviction has charged the budget: the client should retry.
        409 => Err(Status::too_many_requests(eviction::VIOLATES, 10)),
        _ => Err(Status::internal(response.message())),
    }
}

/// The budgets that cover the pod.
async fn budgets(cx: &RequestContext, pod: &Object) -> Vec<Object> {
    let catalog = cx.scope.storage.catalog.load_full();
    let Some(served) = catalog.resource("policy", "poddisruptionbudgets") else {
        return Vec::new();
    };
    let namespace = cx.scope.namespace();
    let search = async {
        let (snapshot, prefix) = (served.cache.snapshot(), served.key(namespace, ""));
        let all = snapshot.under(&prefix, None).map(|it| it.object());
        all.filter(|it| eviction::covers(it, pod)).collect()
    };
    offload_if(has_large_objects(served, namespace), &cx.scope, search).await
}
