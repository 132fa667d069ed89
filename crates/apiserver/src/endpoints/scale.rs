//! `/scale`: the replicas of an object, in the same kind for every scalable resource.

use http::Response;

use super::apply::ApplyConfiguration;
use super::patch;
use crate::endpoints::context::RequestContext;
use crate::endpoints::decode;
use crate::endpoints::object_response;
use crate::endpoints::table;
use crate::http::body::Body;
use crate::http::negotiation::Representation;
use crate::http::response;
use crate::registry;
use crate::registry::conversion;
use crate::registry::field_manager;
use crate::registry::{ManagedFields, UpdateRequest, UpdateStrategy};
use crate::request::options::WriteOptions;
use kinds::autoscaling::SCALE_COLUMNS;
use machinery::patch::apply::{Force, keep_times_if_unchanged};
use machinery::{ErrorList, GroupKind, Object, Path, Status, Value};
use types::Type;
use types::resource::Scale;

/// The number of replicas in the Scale of an object without that field. Upstream: the minimum of
/// int32, which is rejected if it is still there when the Scale is written.
const UNSET_REPLICAS: i64 = -(1 << 31);

/// Responds with the Scale of the named object.
pub(crate) async fn get(cx: &RequestContext, scale: &Scale) -> Result<Response<Body>, Status> {
    let entry = cx.find_current().await?;
    let object = conversion::in_memory_version(&cx.scope, &entry).await?;
    if lacks_replicas(cx, scale, &object) {
        let path = scale.spec_replicas.join(".");
        let why = format!("the spec replicas field \".{path}\" does not exist");
        return Err(Status::internal(why));
    }
    respond(cx, scale, &object)
}

/// Replaces the Scale of the named object.
pub(crate) async fn update(
    cx: &RequestContext,
    body: &[u8],
    scale: &Scale,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&cx.query, "UpdateOptions")?;
    // Upstream has no message for an invalid Scale of a custom resource, only the position in its
    // source where the type is unknown; these are the messages for built-in kinds.
    let sent = decode::of_type(cx, body, scale_type(), options.field_validation())?;
    decode::note_typed_object(cx, &sent, "autoscaling/v1", scale_type());
    super::create::check_namespace(cx, &sent)?;
    super::update::check_name(cx, &sent)?;
    write(cx, scale, &options, &|old| {
        let mut new = sent.clone();
        field_manager::scale::track(&cx.scope, old, &mut new);
        Ok(new)
    })
    .await
}

/// Patches the Scale of the named object.
pub(crate) async fn patch(
    cx: &RequestContext,
    body: &[u8],
    scale: &Scale,
) -> Result<Response<Body>, Status> {
    patch::note_patch(cx, body);
    if patch::is_apply(cx) {
        return apply(cx, body, scale).await;
    }
    let options = WriteOptions::parse(&cx.query, "PatchOptions")?;
    let patch = patch::parse(cx, body)?;
    write(cx, scale, &options, &|old| {
        let mut value = old.clone().into_value();
        patch.apply(cx, options.field_validation(), &mut value)?;
        let mut new =
            checked_against_path(cx, patch::decode_patched(cx, scale_type(), &patch, value)?)?;
        field_manager::scale::track(&cx.scope, old, &mut new);
        Ok(new)
    })
    .await
}

/// Applies a configuration to the Scale of the named object. Upstream fails to do so for custom
/// resources, whose converter does not know the kind Scale.
async fn apply(cx: &RequestContext, body: &[u8], scale: &Scale) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse_apply(&cx.query)?;
    let force = if cx.query.flag("force") { Force::Yes } else { Force::No };
    let config = ApplyConfiguration::read(body, options.field_validation())?;
    write(cx, scale, &options, &|old| {
        let new = field_manager::scale::apply(&cx.scope, old, &config.object, force)?;
        config.check_duplicates(cx)?;
        checked_against_path(cx, new)
    })
    .await
}

fn scale_type() -> &'static Type {
    types::find("autoscaling/v1.Scale").expect("the table has all types of autoscaling/v1")
}

/// Fails unless the Scale has the name and the namespace of the path.
fn checked_against_path(cx: &RequestContext, scale: Object) -> Result<Object, Status> {
    super::update::check_name(cx, &scale)?;
    super::create::check_namespace(cx, &scale)?;
    Ok(scale)
}

/// Updates the object with the replicas that `change` computes from the current Scale. Both Scales
/// have managed fields.
async fn write(
    cx: &RequestContext,
    scale: &Scale,
    options: &WriteOptions,
    change: &(dyn Fn(&Object) -> Result<Object, Status> + Send + Sync),
) -> Result<Response<Body>, Status> {
    let transform = |old: &Object| {
        let new_scale = change(&scale_with_managed_fields(cx, scale, old)?)?;
        let replicas = new_scale.get(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
        // The schema and the rules of a custom resource validate the number.
        if replicas < 0 && cx.scope.resource().conventions.scale_checks_replicas {
            return Err(negative_replicas(cx, replicas));
        }
        if replicas == UNSET_REPLICAS {
            let path = scale.spec_replicas.join(".");
            let why = format!("the spec replicas field \".{path}\" cannot be empty");
            return Err(Status::bad_request(why));
        }
        let mut new = old.clone();
        if !new_scale.uid().is_empty() {
            new.set_meta("uid", new_scale.uid());
        }
        registry::scale::set_replicas(scale, &mut new, replicas);
        if !new_scale.resource_version().is_empty() {
            new.set_meta("resourceVersion", new_scale.resource_version());
        }
        field_manager::scale::to_parent(&cx.scope, &new_scale, &mut new);
        keep_times_if_unchanged(old, &mut new);
        Ok(new)
    };
    let admission = &cx.plane.admission.of_write(&cx.scope, options);
    let request = UpdateRequest {
        transform: &transform,
        strategy: UpdateStrategy::Main,
        admission,
        dry_run: options.dry_run,
        managed_fields: ManagedFields::Keep,
    };
    let object = registry::update(&cx.scope, request).await?.object(&cx.scope).await?;
    respond(cx, scale, &object)
}

/// The current Scale of an object, with its managed fields, as the base of a change.
fn scale_with_managed_fields(
    cx: &RequestContext,
    scale: &Scale,
    object: &Object,
) -> Result<Object, Status> {
    let mut value = registry::scale::of(&cx.scope, scale, object)?;
    if lacks_replicas(cx, scale, object) {
        value["spec"]["replicas"] = UNSET_REPLICAS.into();
    }
    let mut scale_object = Object::from_value(value).unwrap_or_default();
    // A patch has a resourceVersion only if the client sends one.
    scale_object.remove_meta("resourceVersion");
    field_manager::scale::to_subresource(&cx.scope, object, &mut scale_object);
    Ok(scale_object)
}

/// Whether a custom resource has no number of replicas.
fn lacks_replicas(cx: &RequestContext, scale: &Scale, object: &Object) -> bool {
    let path: Vec<&str> = scale.spec_replicas.iter().map(String::as_str).collect();
    cx.scope.resource().conventions.scale_may_lack_replicas
        && !object.get(&path).is_some_and(Value::is_number)
}

fn respond(cx: &RequestContext, scale: &Scale, object: &Object) -> Result<Response<Body>, Status> {
    let value = registry::scale::of(&cx.scope, scale, object)?;
    if cx.accepted.representation == Representation::Object {
        return Ok(response::document(200, cx.accepted, &value));
    }
    let object = Object::from_value(value).unwrap_or_default();
    if cx.accepted.representation == Representation::Table
        && cx.scope.resource().conventions.scale_has_table
    {
        let table = table::table_of_columns(cx, &SCALE_COLUMNS, object)?;
        return Ok(response::serialized(200, cx.accepted, &table));
    }
    Ok(response::document(200, cx.accepted, &object_response::partial_object_metadata(object)))
}

fn negative_replicas(cx: &RequestContext, replicas: i64) -> Status {
    let mut errors = ErrorList::new();
    let spec = Path::root("spec");
    errors.invalid(&spec.child("replicas"), replicas, "must be greater than or equal to 0");
    Status::invalid(&GroupKind::new("autoscaling", "Scale"), &cx.scope.path.name, &errors)
}
