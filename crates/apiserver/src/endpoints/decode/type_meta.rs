//! Checks the type metadata of an object (`apiVersion`, `kind`) against the type of its path.

use super::media::{cannot_be_handled, unrecognized};
use crate::endpoints::context::RequestContext;
use crate::registry::UpdateStrategy;
use machinery::nested::accessor_error;
use machinery::{ErrorList, GroupVersion, Object, Path, Status, Value, codec};
use types::Type;
use types::resource::Shape;

/// The type metadata does not match the path.
pub(crate) enum TypeMetaError {
    /// The object cannot be decoded as the expected type.
    Undecodable(String),
    /// The object can be decoded, but is rejected.
    Rejected(Status),
}

/// Checks the type metadata of a body, and completes it. Bodies of built-in kinds may omit it.
pub(super) fn check_body(
    cx: &RequestContext,
    object: &mut Object,
    bytes: &[u8],
) -> Result<(), Status> {
    let resource = cx.scope.resource();
    let (kind, expected) = (&resource.kind, resource.api_version(cx.scope.version()));
    if resource.conventions.requires_type_meta {
        if object.kind().is_empty() {
            let text = String::from_utf8_lossy(bytes);
            let why = format!("Object 'Kind' is missing in '{text}'");
            return Err(unrecognized(kind, &why, bytes));
        }
        if let Some(why) = null_api_version_error(object) {
            return Err(cannot_be_handled(object.kind(), "", kind, &why));
        }
    } else if let Some(why) = resource_conversion_error(cx, object) {
        let version = match object.api_version() {
            "" => cx.scope.version().name.clone(),
            _ => object.gvk().version,
        };
        let found = if object.kind().is_empty() { kind } else { object.kind() };
        return Err(cannot_be_handled(found, &version, kind, &why));
    }
    let found = object.api_version();
    if found != expected && (resource.conventions.requires_type_meta || !found.is_empty()) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({found}) does not match the expected API version ({expected})",
        )));
    }
    if resource.conventions.requires_type_meta && object.kind() != kind {
        return Err(wrong_type_meta(cx, object));
    }
    object.set_type(&expected, kind);
    Ok(())
}

/// Checks the type metadata of a patched object: a patch cannot change the kind of an object.
pub(crate) fn check_patched(
    cx: &RequestContext,
    object: &mut Object,
    strategy: UpdateStrategy,
) -> Result<(), TypeMetaError> {
    let resource = cx.scope.resource();
    let expected = resource.api_version(cx.scope.version());
    check_types(object).map_err(TypeMetaError::Undecodable)?;
    if resource.conventions.requires_type_meta {
        if object.kind().is_empty() {
            let text = Value::from(object.map().clone());
            let why = format!("Object 'Kind' is missing in '{text}'");
            return Err(TypeMetaError::Undecodable(why));
        }
        if let Some(why) = null_api_version_error(object) {
            return Err(TypeMetaError::Undecodable(why));
        }
        if object.api_version().is_empty() {
            let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
            return Err(TypeMetaError::Rejected(Status::internal(why)));
        }
        let differs = object.kind() != resource.kind || object.api_version() != expected;
        // Only the status of an object that is sent to `/status` is used.
        if differs && !matches!(strategy, UpdateStrategy::Status) {
            return Err(TypeMetaError::Rejected(wrong_type_meta(cx, object)));
        }
    } else if object.api_version().is_empty() {
        // Upstream: the object is decoded as the internal type, which has no known fields.
        *object = Object::default();
    } else if let Some(why) = resource_conversion_error(cx, object) {
        return Err(TypeMetaError::Undecodable(why));
    }
    object.set_type(&expected, &resource.kind);
    Ok(())
}

/// Fails unless version and kind are strings or missing.
pub(super) fn check_types(object: &Object) -> Result<(), String> {
    for member in ["kind", "apiVersion"] {
        match object.map().get(member) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => {
                let other = codec::json::kind_name(other);
                return Err(format!(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal {other} into Go struct field .{member} of type string"
                ));
            }
        }
    }
    match object.api_version().parse::<GroupVersion>() {
        Err(error) if !object.api_version().is_empty() => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Removes the leading slash from a version of the core group: Kubernetes parses `/v1` as `v1`.
pub(crate) fn canonicalize(object: &mut Object) {
    if let Some(version) = object.api_version().strip_prefix('/').map(str::to_owned)
        && !version.contains('/')
    {
        object.map_mut().insert("apiVersion".to_owned(), version.into());
    }
}

/// The error for an apiVersion of null. It is not the same as a missing one, since a custom
/// resource is decoded without a type.
fn null_api_version_error(object: &Object) -> Option<String> {
    let version = object.map().get("apiVersion").filter(|it| it.is_null())?;
    Some(accessor_error(&["apiVersion".to_owned()], version, "string"))
}

/// The error for an object that cannot be converted to the kind of the path, which is built in.
fn resource_conversion_error(cx: &RequestContext, object: &Object) -> Option<String> {
    match &cx.scope.version().shape {
        Shape::Typed(wanted) => conversion_error(cx, wanted, object),
        Shape::Structural(_) => None,
    }
}

/// The error for an object that has another type than `wanted` and cannot be converted to it.
pub(crate) fn conversion_error(
    cx: &RequestContext,
    wanted: &'static Type,
    object: &Object,
) -> Option<String> {
    let (resource, kind) = (cx.scope.resource(), object.kind());
    let (wanted_kind, wanted_version) = (wanted.short_name(), wanted.package().api_version());
    let found = object.api_version();
    let is_accepted_version = found.is_empty()
        || found == wanted_version
        || types::is_alias(found, wanted)
        || wanted_kind == resource.kind
            && resource.versions.iter().any(|version| resource.api_version(version) == found);
    if is_accepted_version && (kind.is_empty() || kind == wanted_kind) {
        return None;
    }
    let version = if found.is_empty() { wanted_version } else { found };
    let kind = if kind.is_empty() { wanted_kind } else { kind };
    Some(match types::of_kind(version, kind) {
        Some(ty) => {
            let named = ty.name().rsplit('/').next().unwrap_or_default();
            let package = wanted.name().split('/').next().unwrap_or_default();
            format!("converting ({named}) to ({package}.{wanted_kind}): unknown conversion")
        }
        None => format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/api/legacyscheme/scheme.go:30\""
        ),
    })
}

/// The Status for a custom resource of another kind or version, which is well formed but invalid.
fn wrong_type_meta(cx: &RequestContext, object: &Object) -> Status {
    let (resource, gvk) = (cx.scope.resource(), object.gvk());
    let expected = resource.api_version(cx.scope.version());
    let mut errors = ErrorList::new();
    if object.kind() != resource.kind {
        let detail = format!("must be {}", resource.kind);
        errors.invalid(&Path::root("kind"), object.kind(), &detail);
    }
    if object.api_version() != expected {
        let detail = format!("must be {expected}");
        errors.invalid(&Path::root("apiVersion"), object.api_version(), &detail);
    }
    Status::invalid(&gvk.group_kind(), object.name(), &errors)
}
