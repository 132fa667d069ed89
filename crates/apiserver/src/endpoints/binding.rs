//! `bindings`: the old way to say on which node a pod runs. It is admitted as what it is, and then
//! does what `pods/binding` does.

use super::subresource;
use crate::admission::{self, Attempt};
use crate::body::Body;
use crate::context::{Cx, Parts};
use crate::request::Target;
use http::Response;
use machinery::{Object, Status};
use std::sync::Arc;
use types::resource::Action;

/// Binds the pod that has the binding's name.
pub(super) async fn bind(
    cx: &Cx,
    mut binding: Object,
    dry_run: bool,
) -> Result<Response<Body>, Status> {
    if binding.name().is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    // Who is to be asked may have been configured a moment ago.
    cx.catch_up().await?;
    let attempt = Attempt::create(cx, &binding, dry_run);
    admission::admit_sent(&attempt, &mut binding).await?;
    let pod = about_pod(cx, binding.name()).ok_or_else(Status::no_such_resource)?;
    let subresources = pod.resource().behavior.subresources;
    let action = subresources.iter().find(|it| it.name == "binding").map(|it| &it.action);
    let Some(Action::Post(change)) = action else { return Err(Status::no_such_resource()) };
    let bound = subresource::apply(&pod, &binding, *change, dry_run).await;
    pod.take_warnings().into_iter().for_each(|it| cx.warn(it));
    bound
}

/// The same request, as if it had been made for the pod.
fn about_pod(cx: &Cx, name: &str) -> Option<Cx> {
    let catalog = cx.plane.catalog.load_full();
    let (served, version) = catalog.find("", "v1", "pods")?;
    let target = Target {
        resource: "pods".to_owned(),
        name: name.to_owned(),
        subresource: "binding".to_owned(),
        ..cx.target.clone()
    };
    let parts = Parts {
        plane: Arc::clone(&cx.plane),
        user: cx.user.clone(),
        verb: cx.verb,
        target,
        query: cx.query.clone(),
        errors_as: cx.errors_as,
        content_type: cx.content_type.clone(),
        user_agent: cx.user_agent.clone(),
        upgrade: cx.upgrade,
        deadline: cx.deadline,
        writes: cx.writes.clone(),
        seat: cx.seat.clone(),
        account: cx.account.clone(),
    };
    Some(Cx::new(parts, cx.accepted, Arc::clone(served), version))
}
