//! Tests of expressions and their results, by topic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, OnceLock};

use serde_json::{Value as Json, json};

use cel::{Bindings, Budget, DeclType, Env, Extension, Library, Program, Value};

mod collections;
mod compile_errors;
mod cost_estimates;
mod cost_runtime;
mod language;
mod libraries;
mod schemas;
mod strings;

/// Kubernetes' library and the extensions that Kubernetes does not enable.
fn library_with_all_extensions() -> Arc<Library> {
    static SHARED: OnceLock<Arc<Library>> = OnceLock::new();
    let build = || {
        let standard = Library::standard();
        let extensions = [
            Extension::Optionals,
            Extension::Strings,
            Extension::StringReverse,
            Extension::Lists,
            Extension::KubernetesLists,
            Extension::Sets,
            Extension::Math,
            Extension::Regex,
            Extension::Urls,
            Extension::Addresses,
            Extension::Quantity,
            Extension::Semver,
            Extension::Formats,
            Extension::Authorizer,
            Extension::TwoVariables,
            Extension::Bind,
            Extension::Encoders,
        ];
        Arc::new(extensions.into_iter().fold(standard, Library::with))
    };
    Arc::clone(SHARED.get_or_init(build))
}

fn show(value: &Value<'_>) -> String {
    match value {
        Value::Type(_) | Value::Opaque(_) | Value::Optional(_) => value.to_string(),
        Value::Uint(value) => format!("{value}u"),
        Value::Bytes(bytes) => format!("b{:?}", String::from_utf8_lossy(bytes)),
        Value::Double(_) => format!("double {value}"),
        other => other.to_json().map_or_else(|error| error.to_string(), |json| json.to_string()),
    }
}

fn run(env: &Env, source: &str, bindings: &[(&str, &Json)]) -> String {
    let program: Program = match env.compile(source) {
        Ok(program) => program,
        Err(error) => return error.to_string(),
    };
    let bound = bindings.iter().fold(Bindings::new(), |bound, (name, json)| bound.json(name, json));
    match program.evaluate(&bound, &mut Budget::UNLIMITED.clone()) {
        Ok(value) => show(&value),
        Err(error) => format!("error: {error}"),
    }
}

/// Evaluates `source` with the dynamic variable `x`, and compares the result or the error.
fn check(source: &str, expected: &str) {
    let x =
        json!({"i": 1, "d": 1.5, "s": "text", "l": [1, 2, 3], "m": {"a": 1, "b": 2}, "n": null});
    let env = Env::new(library_with_all_extensions()).variable("x", DeclType::any());
    assert_eq!(run(&env, source, &[("x", &x)]), expected, "{source}");
}

/// Calls [`check`] for each line of a table.
fn check_all(table: &[(&str, &str)]) {
    for (source, expected) in table {
        check(source, expected);
    }
}
