//! `bindings`: the deprecated way to bind a pod to a node. The Binding is admitted under its own
//! resource, and then has the effect of `pods/binding`.

use http::Response;

use super::subresource;
use crate::admission;
use crate::admission::{Attributes, OperationOptions};
use crate::endpoints::context::RequestContext;
use crate::http::body::Body;
use crate::registry::scope::RequestScope;
use crate::request::ResourcePath;
use crate::request::options::WriteOptions;
use machinery::{Object, Status};
use types::resource::Action;

/// Binds the pod that has the binding's name.
pub(super) async fn bind(
    cx: &RequestContext,
    mut binding: Object,
    options: &WriteOptions,
) -> Result<Response<Body>, Status> {
    if binding.name().is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    // The cache must include webhook configurations that were created just before this request.
    cx.scope.catch_up().await?;
    let (admission, admitted_options) = (&cx.plane.admission, OperationOptions::Write(options));
    let attributes = Attributes::create(admission, &cx.scope, binding.name(), admitted_options);
    admission::admit_subresource(&attributes, &mut binding).await?;
    let pod = scope_of_pod(&cx.scope, binding.name()).ok_or_else(Status::no_such_resource)?;
    let subresources = pod.resource().strategy.subresources;
    let action = subresources.iter().find(|it| it.name == "binding").map(|it| &it.action);
    let Some(Action::Post(change)) = action else { return Err(Status::no_such_resource()) };
    subresource::update_object(cx, &pod, &binding, *change, options.dry_run).await
}

/// The scope of a write to the named pod.
fn scope_of_pod(scope: &RequestScope, name: &str) -> Option<RequestScope> {
    let catalog = scope.storage.catalog.load_full();
    let (served, version) = catalog.find("", "v1", "pods")?;
    let path = ResourcePath {
        resource: "pods".to_owned(),
        name: name.to_owned(),
        subresource: "binding".to_owned(),
        ..scope.path.clone()
    };
    Some(scope.for_other_object(served, version, path))
}
