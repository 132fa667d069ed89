//! The mutations of a policy: apply configurations and JSON patches.

use super::compiler::{Compiler, Declarations, Expression};
use super::evaluation::{BUDGET, Evaluation};
use super::policy_spec::text;
use super::types;
use crate::registry::shape;
use crate::storage::catalog::ServedResource;
use ::types::apply::ResourceVersions;
use machinery::codec::Literals;
use machinery::patch::apply::overlay;
use machinery::patch::json::{self, PatchError};
use machinery::{GroupVersionKind, Map, Object, Status, Value};

/// One mutation of a policy.
pub(super) enum Mutation {
    /// The expression returns a partial object, which is merged into the object.
    ApplyConfiguration(Expression),
    /// The expression returns the operations of a JSON patch.
    JsonPatch(Expression),
}

/// The type of the object that is mutated.
pub(super) enum PatchTarget<'a> {
    /// An object of a resource, in the version with this index.
    Resource(&'a ServedResource, usize),
    /// An object of another kind that is sent to a subresource. Upstream cannot merge these.
    Subresource(&'a GroupVersionKind),
}

/// The reasons for which a mutation fails.
#[derive(Debug)]
pub(super) enum MutationError {
    /// The policy failed. Its failure policy applies.
    Policy(String),
    /// The request fails, independent of the failure policy.
    Request(Status),
}

impl From<String> for MutationError {
    fn from(why: String) -> Self {
        Self::Policy(why)
    }
}

impl Mutation {
    /// Compiles an item of a policy's `mutations`.
    pub(super) fn of(mutation: &Value, compiler: &Compiler) -> Self {
        let compiled = |key: &str, result| {
            compiler.expression(
                text(&mutation[key], "expression"),
                Declarations::Patches,
                &[result],
            )
        };
        match text(mutation, "patchType") {
            "JSONPatch" => Self::JsonPatch(compiled("jsonPatch", types::json_patch())),
            _ => Self::ApplyConfiguration(compiled(
                "applyConfiguration",
                types::apply_configuration(),
            )),
        }
    }

    /// Applies the mutation to the object of `evaluation`.
    pub(super) fn apply(
        &self,
        evaluation: &Evaluation<'_>,
        target: &PatchTarget<'_>,
        object: &Object,
    ) -> Result<Object, MutationError> {
        match self {
            Self::ApplyConfiguration(expression) => {
                let config = evaluate(evaluation, expression, to_configuration)?;
                let &PatchTarget::Resource(served, version) = target else {
                    let kind = object.gvk();
                    return Err(MutationError::Policy(format!(
                        "error applying patch: failed to convert patch object to typed object: no corresponding type for {kind}"
                    )));
                };
                let mut object = object.clone();
                let versions = ResourceVersions {
                    resource: &served.resource,
                    schemas: served.apply_schemas(),
                };
                overlay(versions.type_ref(version), object.map_mut(), &config)
                    .map_err(|error| format!("error applying patch: {error}"))?;
                shape::shape(served, version, &mut object)?;
                Ok(object)
            }
            Self::JsonPatch(expression) => {
                let operations = evaluate(evaluation, expression, to_operations)?;
                apply_json_patch(&operations, target, object)
            }
        }
    }
}

impl PatchTarget<'_> {
    /// Makes a patched object fit its type. Returns messages about unknown fields.
    fn fit(&self, object: &mut Object) -> Result<Vec<String>, String> {
        match self {
            Self::Resource(served, version) => {
                let unknown = shape::shape(served, *version, object)?;
                Ok(if served.resource.conventions.prunes_policy_results {
                    Vec::new()
                } else {
                    unknown
                })
            }
            Self::Subresource(kind) => {
                let mut unknown = Vec::new();
                let api_version = kind.group_version().to_string();
                if let Some(ty) = ::types::of_kind(&api_version, &kind.kind) {
                    let mut value = Value::Object(std::mem::take(object.map_mut()));
                    shape::fit_type(ty, &mut value, &Literals::default(), &mut unknown)?;
                    *object = Object::from_value(value).unwrap_or_default();
                }
                Ok(unknown)
            }
        }
    }
}

/// Evaluates an expression and reads its value.
fn evaluate<T>(
    evaluation: &Evaluation<'_>,
    expression: &Expression,
    read: impl Fn(&cel::Value<'_>) -> Result<T, String>,
) -> Result<T, String> {
    if let Err(error) = &expression.program {
        return Err(error.to_string());
    }
    let mut budget = BUDGET;
    let outcomes = evaluation.run([Some(expression)], &mut budget, read);
    let outcome = outcomes.map_err(|exhausted| exhausted.to_string())?.pop().flatten();
    outcome.unwrap_or_else(|| Err("there is no expression".to_owned()))?
}

fn to_configuration(value: &cel::Value<'_>) -> Result<Map<String, Value>, String> {
    check_names(value)?;
    match value.to_json() {
        Ok(Value::Object(config)) => Ok(config),
        Ok(_) => {
            let kind = value.type_name();
            Err(format!("unsupported return type from ApplyConfiguration expression: {kind}"))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn to_operations(value: &cel::Value<'_>) -> Result<Value, String> {
    let cel::Value::List(list) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let mut operations = Vec::new();
    for item in list.iter() {
        let item = item.map_err(|error| error.to_string())?;
        let cel::Value::Struct(structure) = &item else {
            return Err(
                "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch"
                    .to_owned(),
            );
        };
        let mut operation = Map::new();
        operation.insert("op".to_owned(), "".into());
        operation.insert("path".to_owned(), "".into());
        for (name, value) in &structure.fields {
            if matches!(value, cel::Value::Struct(_)) {
                check_names(value)?;
            }
            let value = value.to_json().map_err(|error| {
                format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}")
            })?;
            operation.insert(name.clone(), value);
        }
        operations.push(Value::Object(operation));
    }
    Ok(Value::Array(operations))
}

/// Applies a JSON patch. A failed `test` operation is not an error and leaves the object unchanged.
fn apply_json_patch(
    operations: &Value,
    target: &PatchTarget<'_>,
    object: &Object,
) -> Result<Object, MutationError> {
    let mut value = object.clone().into_value();
    match json::apply(&mut value, operations.to_string().as_bytes()) {
        Ok(()) => {}
        Err(PatchError::TestFailed { .. }) => return Ok(object.clone()),
        Err(error) => {
            let why =
                patch_error_message(operations, &error, value).unwrap_or_else(|| error.to_string());
            return Err(MutationError::Policy(format!("JSON Patch: {why}")));
        }
    }
    let request_error = |why: String| MutationError::Request(Status::internal(why));
    let Some(mut patched) = Object::from_value(value) else {
        return Err(request_error("the patched object is not an object".to_owned()));
    };
    let unknown = target.fit(&mut patched).map_err(request_error)?;
    if !unknown.is_empty() {
        return Err(request_error(format!("strict decoding error: {}", unknown.join(", "))));
    }
    Ok(patched)
}

/// The message of upstream's library for a failed operation whose path does not exist, which is the
/// most frequent error of authors.
fn patch_error_message(
    operations: &Value,
    error: &PatchError,
    mut document: Value,
) -> Option<String> {
    let PatchError::DoesNotApply { index, .. } = error else { return None };
    let (before, operation) = (&operations.as_array()?[..*index], &operations[*index]);
    json::apply(&mut document, Value::from(before.to_vec()).to_string().as_bytes()).ok()?;
    let (kind, path) = (text(operation, "op"), text(operation, "path"));
    if matches!(kind, "move" | "copy") {
        return move_error_message(kind, text(operation, "from"), path, &document);
    }
    let (parent, key) = parent_of(&document, path)?;
    Some(match (kind, parent) {
        ("test", None) => {
            format!("test operation does not apply: is missing path: {path}: missing value")
        }
        ("add" | "remove", None) => format!(
            "{kind} operation does not apply: doc is missing path: \"{path}\": missing value"
        ),
        ("replace", None) => {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        }
        ("replace", Some(_)) => {
            format!("replace operation does not apply: doc is missing key: {path}: missing value")
        }
        ("remove", Some(Value::Object(_))) => format!(
            "error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
        ),
        ("add" | "remove", Some(Value::Array(_))) => format!(
            "error in {kind} for path: '{path}': Unable to access invalid index: {key}: invalid index referenced"
        ),
        ("add" | "remove" | "test", _) => return None,
        (unknown, _) => format!("Unexpected kind: {unknown}"),
    })
}

/// The object or list that contains the last element of a path, if it exists, and that element.
fn parent_of<'d, 'p>(document: &'d Value, path: &'p str) -> Option<(Option<&'d Value>, &'p str)> {
    let (parent, key) = path.rsplit_once('/')?;
    Some((document.pointer(parent).filter(|it| it.is_object() || it.is_array()), key))
}

/// The message of upstream's library for a failed `move` or `copy`.
fn move_error_message(kind: &str, from: &str, path: &str, document: &Value) -> Option<String> {
    let (source, key) = parent_of(document, from)?;
    let missing = |what: &str| {
        format!("{kind} operation does not apply: doc is missing {what}: missing value")
    };
    let Some(source) = source else { return Some(missing(&format!("from path: {from}"))) };
    if source.is_array() && document.pointer(from).is_none() {
        let prefix = match kind {
            "move" => format!("error in move for path: '{key}'"),
            _ => format!("error in copy for from: '{from}'"),
        };
        let why = format!("Unable to access invalid index: {key}: invalid index referenced");
        return Some(format!("{prefix}: {why}"));
    }
    if kind == "move" && document.pointer(from).is_none() {
        return Some(format!(
            "error in move for path: '{key}': Unable to remove nonexistent key: {key}: missing value"
        ));
    }
    let (destination, _) = parent_of(document, path)?;
    destination.is_none().then(|| missing(&format!("destination path: {path}")))
}

/// Checks that the type name of every nested object is its path: `Object.spec.template` at
/// `spec.template`.
fn check_names(value: &cel::Value<'_>) -> Result<(), String> {
    let mut misnamed = Vec::new();
    if let cel::Value::Struct(structure) = value {
        find_misnamed(value, &structure.name, &mut misnamed);
    }
    if misnamed.is_empty() {
        return Ok(());
    }
    Err(format!("type mismatch: {}", misnamed.join("\n")))
}

fn find_misnamed(value: &cel::Value<'_>, path: &str, misnamed: &mut Vec<String>) {
    match value {
        cel::Value::Struct(structure) => {
            if *structure.name != *path {
                misnamed.push(format!(
                    "unexpected type name \"{}\", expected \"{path}\", which matches field name path from root Object type",
                    structure.name
                ));
            }
            for (name, value) in &structure.fields {
                find_misnamed(value, &format!("{path}.{name}"), misnamed);
            }
        }
        cel::Value::List(list) => {
            list.iter().filter_map(Result::ok).for_each(|it| find_misnamed(&it, path, misnamed));
        }
        cel::Value::Map(map) => {
            let values = map.keys().into_iter().filter_map(|key| map.get(&key)?.ok());
            values.for_each(|it| find_misnamed(&it, path, misnamed));
        }
        _ => {}
    }
}
