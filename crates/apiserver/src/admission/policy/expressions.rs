//! Validates the expressions of a policy before it is stored. The other fields of the policy are
//! validated by its kind.

use super::compiler::{Compiler, Declarations, ExpressionError};
use super::policy_spec::text;
use super::types;
use crate::admission::error_order;
use cel::{Program, Type};
use machinery::field_path::ErrorType;
use machinery::{ErrorList, Object, Path, Value};

static SPEC: Path<'static> = Path::root("spec");

/// The maximum length of an audit annotation's expression that is compiled. The kind rejects longer
/// ones.
const MAX_ANNOTATION_EXPRESSION: usize = 5 << 10;

/// Validates the expressions of a policy.
pub(crate) fn validate(new: &Object, old: Option<&Object>, errors: &mut ErrorList) {
    let null = Value::Null;
    let spec = new.get(&["spec"]).unwrap_or(&null);
    let old = old.and_then(|it| it.get(&["spec"]));
    let mut found = ErrorList::new();
    match new.kind() {
        "ValidatingAdmissionPolicy" => {
            conditions(spec, old, &mut found);
            let compiler = variables(spec, &mut found);
            validations(spec, &compiler, &mut found);
        }
        "MutatingAdmissionPolicy" => {
            conditions(spec, old, &mut found);
            let compiler = variables(spec, &mut found);
            mutations(spec, &compiler, &mut found);
        }
        _ => {}
    }
    error_order::merge(errors, found);
}

fn has_params(spec: &Value) -> bool {
    spec["paramKind"].is_object()
}

/// Validates the match conditions if they have changed. They cannot use variables.
fn conditions(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let are_same =
        |old: &Value| ["paramKind", "matchConditions"].into_iter().all(|key| old[key] == spec[key]);
    if old.is_some_and(are_same) {
        return;
    }
    let compiler = Compiler::new(has_params(spec));
    let path = SPEC.child("matchConditions");
    for (index, condition) in list(spec, "matchConditions").iter().enumerate() {
        let source = text(condition, "expression").trim();
        if !source.is_empty() {
            let compiled = compiler.program(source, Declarations::Authorizer, &[Type::Bool]);
            report(errors, &path.index(index).child("expression"), source, compiled);
        }
    }
}

/// Validates the variables. Returns the compiler for the expressions that use them.
fn variables(spec: &Value, errors: &mut ErrorList) -> Compiler {
    let variables = list(spec, "variables");
    let mut compiler = match variables {
        [] if spec["mutations"].is_null() => Compiler::new(has_params(spec)),
        _ => Compiler::with_variables(has_params(spec)),
    };
    let path = SPEC.child("variables");
    for (index, variable) in variables.iter().enumerate() {
        let source = text(variable, "expression");
        if !source.trim().is_empty() {
            let compiled = compiler.variable(text(variable, "name"), source).program;
            report(errors, &path.index(index).child("expression"), source, compiled);
        }
    }
    compiler
}

fn validations(spec: &Value, compiler: &Compiler, errors: &mut ErrorList) {
    let path = SPEC.child("validations");
    for (index, validation) in list(spec, "validations").iter().enumerate() {
        let path = path.index(index);
        for (key, declarations, result) in [
            ("expression", Declarations::Authorizer, Type::Bool),
            ("messageExpression", Declarations::Objects, Type::String),
        ] {
            let source = text(validation, key);
            if !source.trim().is_empty() {
                let compiled = compiler.program(source, declarations, &[result]);
                report(errors, &path.child(key), source, compiled);
            }
        }
    }
    let path = SPEC.child("auditAnnotations");
    for (index, annotation) in list(spec, "auditAnnotations").iter().enumerate() {
        let source = text(annotation, "valueExpression");
        if source.trim().is_empty() || source.trim().len() > MAX_ANNOTATION_EXPRESSION {
            continue;
        }
        let results = [Type::String, Type::Null];
        let compiled = compiler.program(source.trim(), Declarations::Authorizer, &results);
        report(errors, &path.index(index).child("valueExpression"), source, compiled);
    }
}

fn mutations(spec: &Value, compiler: &Compiler, errors: &mut ErrorList) {
    let path = SPEC.child("mutations");
    for (index, mutation) in list(spec, "mutations").iter().enumerate() {
        let (key, result) = match text(mutation, "patchType") {
            "ApplyConfiguration" => ("applyConfiguration", types::apply_configuration()),
            "JSONPatch" => ("jsonPatch", types::json_patch()),
            _ => continue,
        };
        let source = text(&mutation[key], "expression").trim();
        if !source.is_empty() {
            let compiled = compiler.program(source, Declarations::Patches, &[result]);
            let path = path.index(index);
            report(errors, &path.child(key).child("expression"), source, compiled);
        }
    }
}

fn report(
    errors: &mut ErrorList,
    path: &Path<'_>,
    source: &str,
    compiled: Result<Program, ExpressionError>,
) {
    match compiled {
        Ok(_) => {}
        Err(ExpressionError::Invalid(why)) => errors.invalid(path, source, &why),
        Err(ExpressionError::Internal(why)) => errors.add(ErrorType::Internal, path, None, &why),
    }
}

fn list<'v>(spec: &'v Value, key: &str) -> &'v [Value] {
    spec[key].as_array().map_or(&[], Vec::as_slice)
}
