//! PATCH with a configuration: server-side apply. What is not there yet is created.

use super::create::{check_namespace, shown};
use super::update::check_name;
use crate::body::Body;
use crate::context::Cx;
use crate::options::{FieldValidation, WriteOptions};
use crate::registry::{self, Change, Changing, Part, UpdateRequest};
use crate::{conversion, decode, ownership};
use http::Response;
use machinery::patch::apply::{Force, keep_times_of_no_change};
use machinery::{Object, Status, Value, codec};

/// Applies the configuration in the body, and answers with what came of it.
pub(crate) async fn apply(cx: &Cx, body: &[u8], part: Part) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse_apply(&cx.query)?;
    let force = if cx.query.flag("force") { Force::Yes } else { Force::No };
    let config = configuration(cx, body, options.field_validation)?;
    cx.catch_up().await?;
    let missing = cx.served.cache.get(&cx.key()).is_none();
    if missing && cx.target.subresource.is_empty() {
        return create(cx, &config, force, options.dry_run).await;
    }
    let request = UpdateRequest {
        transform: &Applied { cx, config: &config, force },
        part,
        dry_run: options.dry_run,
        ownership_settled: true,
    };
    let outcome = registry::update(cx, request).await?;
    shown(cx, 200, outcome).await
}

/// The change that a configuration makes.
struct Applied<'c> {
    cx: &'c Cx,
    config: &'c Object,
    force: Force,
}

impl Change for Applied<'_> {
    fn of<'a>(&'a self, old: &'a Object) -> Changing<'a> {
        Box::pin(async move {
            let live = conversion::requested(self.cx, old.clone());
            let applied = ownership::apply(self.cx, Some(&live), self.config, self.force).await?;
            let mut new = fitted(self.cx, applied)?;
            keep_times_of_no_change(old, &mut new);
            Ok(new)
        })
    }
}

async fn create(
    cx: &Cx,
    config: &Object,
    force: Force,
    dry_run: bool,
) -> Result<Response<Body>, Status> {
    let object = fitted(cx, ownership::apply(cx, None, config, force).await?)?;
    if !object.uid().is_empty() {
        let uid = object.uid();
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&cx.what(), object.name(), &why));
    }
    super::create::refuse_if_terminating(cx, &object)?;
    let outcome = super::create::admitted(cx, object, dry_run).await?;
    shown(cx, 201, outcome).await
}

/// Reads the body, which is YAML or the JSON that is a part of it.
fn configuration(cx: &Cx, body: &[u8], validation: FieldValidation) -> Result<Object, Status> {
    let decoded = codec::yaml::decode(body)
        .map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))?;
    decode::judge(cx, validation, decoded.duplicates)
        .map_err(|why| Status::bad_request(format!("error decoding YAML: {why}")))?;
    match decoded.value {
        Value::Object(config) => Ok(Object::new(config)),
        Value::Null => Ok(Object::default()),
        other => {
            let found = codec::json::kind_name(&other);
            Err(Status::bad_request(format!(
                "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )))
        }
    }
}

/// Makes the outcome fit its type, and brings it to the version that verbs work in.
fn fitted(cx: &Cx, mut object: Object) -> Result<Object, Status> {
    decode::shape(&cx.served, cx.version, &mut object).map_err(Status::unclassified)?;
    check_name(cx, &object)?;
    check_namespace(cx, &object)?;
    Ok(decode::working(cx, object))
}
