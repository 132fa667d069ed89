//! `/scale`: an object's number of replicas, in the same shape for every kind that has one.

use super::apply::Configuration;
use super::patch;
use crate::answer;
use crate::body::Body;
use crate::context::Cx;
use crate::conversion;
use crate::decode;
use crate::negotiation::Form;
use crate::options::WriteOptions;
use crate::ownership;
use crate::registry::{self, Part, UpdateRequest};
use crate::table;
use http::Response;
use kinds::autoscaling::SCALE_COLUMNS;
use machinery::patch::apply::{Force, keep_times_if_unchanged};
use machinery::selector::LabelSelector;
use machinery::{ErrorList, GroupKind, Object, Path, Status, Value, json};
use types::Type;
use types::resource::Scale;

/// What stands for the replicas of an object that does not say how many it wants. Upstream: the
/// smallest number, which is looked for afterwards.
const UNSTATED: i64 = -(1 << 31);

/// Answers with the scale of the named object.
pub(crate) async fn get(cx: &Cx, scale: &Scale) -> Result<Response<Body>, Status> {
    let entry = cx.current().await?;
    let object = conversion::working(cx, &entry).await?;
    if is_unstated(cx, scale, &object) {
        let path = scale.spec_replicas.join(".");
        let why = format!("the spec replicas field \".{path}\" does not exist");
        return Err(Status::internal(why));
    }
    shown(cx, scale, &object)
}

/// Replaces it.
pub(crate) async fn update(cx: &Cx, body: &[u8], scale: &Scale) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(&cx.query, "UpdateOptions")?;
    // Upstream has no words for what is wrong with the scale of a custom resource, only for the place
    // in its source where the type is not known; ours are those for built-in kinds.
    let sent = decode::other(cx, body, ty(), options.field_validation)?;
    super::create::check_namespace(cx, &sent)?;
    super::update::check_name(cx, &sent)?;
    write(cx, scale, options.dry_run, &|old| {
        let mut new = sent.clone();
        ownership::scale::track(cx, old, &mut new);
        Ok(new)
    })
    .await
}

/// Changes it.
pub(crate) async fn patch(cx: &Cx, body: &[u8], scale: &Scale) -> Result<Response<Body>, Status> {
    if patch::is_apply(cx) {
        return apply(cx, body, scale).await;
    }
    let options = WriteOptions::parse(&cx.query, "PatchOptions")?;
    let patch = patch::parse(cx, body)?;
    write(cx, scale, options.dry_run, &|old| {
        let mut value = old.clone().into_value();
        patch.apply(cx, options.field_validation, &mut value)?;
        let mut new = of_the_path(cx, patch::made_of(cx, ty(), &patch, value)?)?;
        ownership::scale::track(cx, old, &mut new);
        Ok(new)
    })
    .await
}

/// Applies a configuration to it. Upstream fails to do so for custom resources, whose converter does
/// not know what a Scale is.
async fn apply(cx: &Cx, body: &[u8], scale: &Scale) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse_apply(&cx.query)?;
    let force = if cx.query.flag("force") { Force::Yes } else { Force::No };
    let config = Configuration::read(body, options.field_validation)?;
    write(cx, scale, options.dry_run, &|old| {
        let new = ownership::scale::apply(cx, old, &config.object, force)?;
        config.judge(cx)?;
        of_the_path(cx, new)
    })
    .await
}

fn ty() -> &'static Type {
    types::find("autoscaling/v1.Scale").expect("the table has all types of autoscaling/v1")
}

/// A Scale that is of the object that the path names.
fn of_the_path(cx: &Cx, scale: Object) -> Result<Object, Status> {
    super::update::check_name(cx, &scale)?;
    super::create::check_namespace(cx, &scale)?;
    Ok(scale)
}

/// Stores how many are `wanted`, a function of the Scale that there is. Both Scales have owners.
async fn write(
    cx: &Cx,
    scale: &Scale,
    dry_run: bool,
    wanted: &(dyn Fn(&Object) -> Result<Object, Status> + Send + Sync),
) -> Result<Response<Body>, Status> {
    let transform = |old: &Object| {
        let wanted = wanted(&owned(cx, scale, old)?)?;
        let replicas = wanted.get(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
        // A custom resource's own schema and rules judge it.
        if replicas < 0 && cx.resource().conventions.scale_checks_replicas {
            return Err(negative(cx, replicas));
        }
        if replicas == UNSTATED {
            let path = scale.spec_replicas.join(".");
            let why = format!("the spec replicas field \".{path}\" cannot be empty");
            return Err(Status::bad_request(why));
        }
        let mut new = old.clone();
        if !wanted.uid().is_empty() {
            new.set_meta("uid", wanted.uid());
        }
        set_replicas(scale, &mut new, replicas);
        if !wanted.resource_version().is_empty() {
            new.set_meta("resourceVersion", wanted.resource_version());
        }
        ownership::scale::put_back(cx, &wanted, &mut new);
        keep_times_if_unchanged(old, &mut new);
        Ok(new)
    };
    let request =
        UpdateRequest { transform: &transform, part: Part::Main, dry_run, ownership_settled: true };
    let object = registry::update(cx, request).await?.object(cx).await?;
    shown(cx, scale, &object)
}

/// The Scale of an object, with its owners, as those who change it see it.
fn owned(cx: &Cx, scale: &Scale, object: &Object) -> Result<Object, Status> {
    let mut value = of(cx, scale, object)?;
    if is_unstated(cx, scale, object) {
        value["spec"]["replicas"] = UNSTATED.into();
    }
    let mut owned = Object::from_value(value).unwrap_or_default();
    // A patch speaks of the resourceVersion only if its sender insists on one.
    owned.remove_meta("resourceVersion");
    ownership::scale::show(cx, object, &mut owned);
    Ok(owned)
}

/// Whether a custom resource does not say how many it wants.
fn is_unstated(cx: &Cx, scale: &Scale, object: &Object) -> bool {
    let path: Vec<&str> = scale.spec_replicas.iter().map(String::as_str).collect();
    cx.resource().conventions.scale_may_lack_replicas
        && !object.get(&path).is_some_and(Value::is_number)
}

/// Makes an object wish for so many.
pub(crate) fn set_replicas(scale: &Scale, object: &mut Object, replicas: i64) {
    let (last, parents) = scale.spec_replicas.split_last().expect("a path has a last step");
    let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
    object.map_at(&parents).insert(last.clone(), replicas.into());
}

fn shown(cx: &Cx, scale: &Scale, object: &Object) -> Result<Response<Body>, Status> {
    let value = of(cx, scale, object)?;
    if cx.accepted.form == Form::Whole {
        return Ok(answer::document(200, cx.accepted, &value));
    }
    let object = Object::from_value(value).unwrap_or_default();
    if cx.accepted.form == Form::Table && cx.resource().conventions.scale_has_table {
        let table = table::table_with(cx, &SCALE_COLUMNS, object)?;
        return Ok(answer::serialized(200, cx.accepted, &table));
    }
    Ok(answer::document(200, cx.accepted, &answer::partial(object)))
}

/// The Scale of an object.
pub(crate) fn of(cx: &Cx, scale: &Scale, object: &Object) -> Result<Value, Status> {
    let at = |path: &[String]| {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        object.get(&path).cloned()
    };
    let spec = match at(&scale.spec_replicas) {
        Some(Value::Number(replicas)) if replicas.as_i64() == Some(0) => json!({}),
        Some(Value::Number(replicas)) => json!({"replicas": replicas}),
        _ => json!({}),
    };
    let replicas = at(&scale.status_replicas).filter(Value::is_number).unwrap_or_else(|| 0.into());
    let mut status = json!({"replicas": replicas});
    let selector = scale.label_selector.as_ref().and_then(|it| at(it)).unwrap_or(Value::Null);
    let selector = selector_text(cx.resource().conventions.scale_selector_is_text, &selector)?;
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.metadata().and_then(|it| it.get(field)) {
            metadata[field] = value.clone();
        }
    }
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec,
        "status": status,
    }))
}

/// A selector in the form of queries. Custom resources keep it in this form; built-in ones have an
/// object with `matchLabels` and `matchExpressions`, or a plain map of labels.
fn selector_text(is_text: bool, selector: &Value) -> Result<String, Status> {
    match selector {
        Value::String(text) => Ok(text.clone()),
        Value::Object(map) if !is_text => {
            let is_plain = map.values().all(Value::is_string);
            let labels = json!({"matchLabels": map});
            LabelSelector::from_value(if is_plain { &labels } else { selector })
                .map(|selector| selector.to_string())
                .map_err(Status::bad_request)
        }
        _ => Ok(String::new()),
    }
}

fn negative(cx: &Cx, replicas: i64) -> Status {
    let mut errors = ErrorList::new();
    let spec = Path::root("spec");
    errors.invalid(&spec.child("replicas"), replicas, "must be greater than or equal to 0");
    Status::invalid(&GroupKind::new("autoscaling", "Scale"), &cx.target.name, &errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(is_text: bool, selector: &Value) -> String {
        selector_text(is_text, selector).unwrap()
    }

    #[test]
    fn a_selector_is_shown_as_it_is_written_in_queries() {
        assert_eq!(text(true, &json!("a=b")), "a=b");
        assert_eq!(text(false, &json!({"a": "b", "c": "d"})), "a=b,c=d");
        assert_eq!(
            text(
                false,
                &json!({"matchLabels": {"b": "c"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]})
            ),
            "a,b=c"
        );
        assert_eq!(text(false, &json!({})), "");
    }

    #[test]
    fn custom_resources_keep_selectors_as_text() {
        assert_eq!(text(true, &json!({"matchLabels": {"a": "b"}})), "");
    }
}
