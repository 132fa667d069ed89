//! PATCH with an apply configuration: server-side apply. A missing object is created.

use http::Response;

use super::create::{check_namespace, respond};
use super::update::check_name;
use crate::endpoints::context::RequestContext;
use crate::endpoints::decode;
use crate::http::body::Body;
use crate::registry;
use crate::registry::conversion;
use crate::registry::field_manager;
use crate::registry::shape;
use crate::registry::{ManagedFields, Transform, TransformFuture, UpdateRequest, UpdateStrategy};
use crate::request::options::{FieldValidation, WriteOptions};
use machinery::patch::apply::{Force, keep_times_if_unchanged};
use machinery::{Object, Status, Value, codec};

/// Applies the configuration in the body and responds with the resulting object.
pub(crate) async fn apply(
    cx: &RequestContext,
    body: &[u8],
    strategy: UpdateStrategy,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse_apply(&cx.query)?;
    let force = if cx.query.flag("force") { Force::Yes } else { Force::No };
    let config = ApplyConfiguration::read(body, options.field_validation())?;
    cx.scope.catch_up().await?;
    let missing = !cx.scope.served.cache.contains(&cx.scope.key());
    if missing && cx.scope.path.subresource.is_empty() {
        return create(cx, &config, force, &options).await;
    }
    let request = UpdateRequest {
        transform: &ApplyTransform { cx, config: &config, force },
        strategy,
        admission: &cx.plane.admission.of_write(&cx.scope, &options),
        dry_run: options.dry_run,
        managed_fields: ManagedFields::Keep,
    };
    let outcome = registry::update(&cx.scope, request).await?;
    respond(cx, 200, outcome).await
}

/// The change of an existing object by an apply configuration.
struct ApplyTransform<'c> {
    cx: &'c RequestContext,
    config: &'c ApplyConfiguration,
    force: Force,
}

impl Transform for ApplyTransform<'_> {
    fn apply<'a>(&'a self, old: &'a Object) -> TransformFuture<'a> {
        Box::pin(async move {
            let live = conversion::in_request_version(&self.cx.scope, old.clone());
            let config = &self.config.object;
            let applied =
                field_manager::apply(&self.cx.scope, Some(&live), config, self.force).await?;
            self.config.check_duplicates(self.cx)?;
            let mut new = decode_applied(self.cx, config, applied)?;
            keep_times_if_unchanged(old, &mut new);
            Ok(new)
        })
    }
}

async fn create(
    cx: &RequestContext,
    config: &ApplyConfiguration,
    force: Force,
    options: &WriteOptions,
) -> Result<Response<Body>, Status> {
    let applied = field_manager::apply(&cx.scope, None, &config.object, force).await?;
    config.check_duplicates(cx)?;
    let mut object = decode_applied(cx, &config.object, applied)?;
    if !object.uid().is_empty() {
        let uid = object.uid();
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&cx.scope.group_resource(), object.name(), &why));
    }
    // Upstream: the resourceVersion of a patch is ignored when the object is created.
    object.remove_meta("resourceVersion");
    super::create::store(cx, object, ManagedFields::Keep, options).await
}

/// A decoded apply configuration.
pub(super) struct ApplyConfiguration {
    pub object: Object,
    /// The errors about duplicate keys.
    duplicates: Vec<String>,
    validation: FieldValidation,
}

impl ApplyConfiguration {
    /// Decodes the body, which is YAML or its subset JSON.
    pub(super) fn read(body: &[u8], validation: FieldValidation) -> Result<Self, Status> {
        let decoded = codec::yaml::decode(body).map_err(|error| {
            // Upstream: a body that starts as JSON is decoded when it is applied, and YAML before
            // that, with another message.
            let prefix = match body.trim_ascii_start().first() {
                Some(b'{') => "error decoding patch: error converting YAML to JSON",
                _ => "error encoding patch",
            };
            Status::bad_request(format!("{prefix}: {error}"))
        })?;
        decode::check_list_objects(&decoded.value)?;
        let mut object = match decoded.value {
            Value::Object(config) => Object::new(config),
            Value::Null => Object::default(),
            other => {
                let found = codec::json::kind_name(&other);
                return Err(Status::bad_request(format!(
                    "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
                )));
            }
        };
        decode::canonicalize(&mut object);
        Ok(Self { object, duplicates: decoded.duplicates, validation })
    }

    /// Adds a warning or fails for duplicate keys. Upstream: after the configuration is applied.
    pub(super) fn check_duplicates(&self, cx: &RequestContext) -> Result<(), Status> {
        if self.validation == FieldValidation::Strict && !self.duplicates.is_empty() {
            let all = self.duplicates.join("\n  ");
            return Err(Status::bad_request(format!(
                "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  {all}"
            )));
        }
        decode::report_strict_errors(cx, self.validation, self.duplicates.iter().cloned())
            .map_err(Status::bad_request)
    }
}

/// Normalizes the applied object by its type, and converts it to the memory version.
fn decode_applied(
    cx: &RequestContext,
    config: &Object,
    mut object: Object,
) -> Result<Object, Status> {
    decode::check_applied(&object)?;
    shape::shape_applied(&cx.scope.served, cx.scope.version, config, &mut object)
        .map_err(Status::unclassified)?;
    check_name(cx, &object)?;
    check_namespace(cx, &object)?;
    Ok(shape::to_memory_version(&cx.scope, object))
}
