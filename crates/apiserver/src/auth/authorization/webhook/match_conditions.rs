//! [`MatchConditions`]: the expressions that a request must fulfill for a webhook to be asked about it.
//!
//! Upstream: `apiserver/pkg/authorization/cel`.

use std::sync::{Arc, LazyLock};

use cel::{Bindings, Budget, CompileError, DeclType, Env, Library, Object, Program, Type};
use machinery::field_path::ErrorType;
use machinery::status::aggregate_messages;
use machinery::{ErrorList, Path, Value};

/// The cost limit of one expression, upstream's `PerCallLimit`.
const PER_CALL: u64 = 1_000_000;

/// The variable of the expressions.
const VARIABLE: &str = "request";

/// See the [module documentation](self). Without any, all requests match.
#[derive(Debug, Clone, Default)]
pub struct MatchConditions(Arc<[Condition]>);

#[derive(Debug)]
struct Condition {
    source: String,
    program: Program,
}

/// Whether a request matches.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// All conditions are true.
    Matches,
    /// A condition is false.
    Excluded,
    /// No condition is false, and some have errors.
    Failed(String),
}

static ENV: LazyLock<Env> = LazyLock::new(|| {
    let text = || DeclType::string(u64::MAX);
    let texts = || DeclType::list(text(), u64::MAX);
    let object = |name: &str, fields: Vec<(&str, DeclType)>| {
        let fields = fields.into_iter().map(|(name, decl)| (name.to_owned(), decl));
        DeclType::object(Object::new(name, fields))
    };
    let requirement = || {
        let fields = vec![("key", text()), ("operator", text()), ("values", texts())];
        object("kubernetes.SelectorRequirement", fields)
    };
    let selector = |name: &str| {
        let requirements = DeclType::list(requirement(), u64::MAX);
        object(name, vec![("rawSelector", text()), ("requirements", requirements)])
    };
    let resource = vec![
        ("namespace", text()),
        ("verb", text()),
        ("group", text()),
        ("version", text()),
        ("resource", text()),
        ("subresource", text()),
        ("name", text()),
        ("fieldSelector", selector("kubernetes.FieldSelectorAttributes")),
        ("labelSelector", selector("kubernetes.LabelSelectorAttributes")),
    ];
    let path = vec![("path", text()), ("verb", text())];
    let request = vec![
        ("resourceAttributes", object("kubernetes.ResourceAttributes", resource)),
        ("nonResourceAttributes", object("kubernetes.NonResourceAttributes", path)),
        ("user", text()),
        ("groups", texts()),
        ("extra", DeclType::map(texts(), u64::MAX)),
        ("uid", text()),
    ];
    let request = object("kubernetes.SubjectAccessReviewSpec", request);
    Env::new(Library::kubernetes()).variable(VARIABLE, request)
});

impl MatchConditions {
    /// Compiles expressions. `path` is the field of their list.
    pub(crate) fn compile(sources: &[&str], path: &Path<'_>, errors: &mut ErrorList) -> Self {
        const MAX: usize = 64;
        if sources.len() > MAX {
            errors.too_many(path, sources.len(), MAX);
            return Self::default();
        }
        let mut conditions = Vec::new();
        for (index, source) in sources.iter().enumerate() {
            let item = path.index(index);
            let path = item.child("expression");
            if source.trim().is_empty() {
                errors.required(&path, "");
            } else if sources[..index].contains(source) {
                errors.duplicate(&path, *source);
            } else {
                conditions.extend(compile(source, &path, errors));
            }
        }
        Self(conditions.into())
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a request matches.
    pub(super) fn evaluate(&self, request: &Value) -> Match {
        let mut errors = Vec::new();
        for Condition { source, program } in self.0.iter() {
            let bindings = Bindings::new().json(VARIABLE, request);
            match program.evaluate(&bindings, &mut Budget::new(PER_CALL)) {
                Ok(cel::Value::Bool(true)) => {}
                Ok(cel::Value::Bool(false)) => return Match::Excluded,
                Ok(_) => errors.push(format!(
                    "cel evaluation error: expression '{source}' eval result type should be bool"
                )),
                Err(why) => errors.push(format!(
                    "cel evaluation error: expression '{source}' resulted in error: {why}"
                )),
            }
        }
        if errors.is_empty() { Match::Matches } else { Match::Failed(aggregate_messages(errors)) }
    }
}

fn compile(source: &str, path: &Path<'_>, errors: &mut ErrorList) -> Option<Condition> {
    match ENV.compile(source) {
        Ok(program) if *program.result_type() == Type::Bool => {
            return Some(Condition { source: source.to_owned(), program });
        }
        Ok(program) => {
            let why = format!("must evaluate to bool but got {}", program.result_type());
            errors.invalid(path, source, &why);
        }
        Err(error @ CompileError::Issues(_)) => {
            errors.invalid(path, source, &error.to_string());
        }
        Err(error @ CompileError::Instantiation(_)) => {
            errors.add(ErrorType::Internal, path, None, &error.to_string());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn compiled(sources: &[&str]) -> Result<MatchConditions, String> {
        let mut errors = ErrorList::new();
        let found = MatchConditions::compile(sources, &Path::root("matchConditions"), &mut errors);
        if errors.is_empty() { Ok(found) } else { Err(errors.summary()) }
    }

    #[test]
    fn a_request_matches_if_all_conditions_are_true() {
        let request = json!({"user": "jane", "groups": ["dev"], "uid": "", "extra": {"a": ["b"]},
            "resourceAttributes": {"namespace": "n", "verb": "get", "resource": "pods"}});
        let evaluate = |sources: &[&str]| compiled(sources).unwrap().evaluate(&request);
        assert_eq!(evaluate(&[]), Match::Matches);
        let all = [
            "request.user == 'jane'",
            "has(request.resourceAttributes)",
            "'dev' in request.groups",
        ];
        assert_eq!(evaluate(&all), Match::Matches);
        let selectors = "request.resourceAttributes.?labelSelector.requirements.orValue([]).exists(it, it.key == 'a')";
        assert_eq!(evaluate(&["true", selectors]), Match::Excluded);
        let failing = "request.nonResourceAttributes.path == '/a'";
        let Match::Failed(error) = evaluate(&[failing, "true"]) else { panic!("it fails") };
        let expected = format!("cel evaluation error: expression '{failing}' resulted in error: ");
        assert!(error.starts_with(&expected), "{error}");
        assert_eq!(evaluate(&[failing, "request.extra['a'] == ['c']"]), Match::Excluded);
    }

    #[test]
    fn an_expression_that_cannot_be_used_is_refused() {
        let error = |sources: &[&str]| compiled(sources).unwrap_err();
        assert_eq!(
            error(&["request.user"]),
            "matchConditions[0].expression: Invalid value: \"request.user\": must evaluate to bool but got string"
        );
        let unknown = error(&["request.name == 'a'"]);
        assert!(
            unknown.contains("compilation failed: ERROR: <input>:1:8: undefined field 'name'"),
            "{unknown}"
        );
        assert_eq!(error(&[" "]), "matchConditions[0].expression: Required value");
        assert_eq!(
            error(&["true", "true"]),
            "matchConditions[1].expression: Duplicate value: \"true\""
        );
        assert_eq!(error(&[""; 65]), "matchConditions: Too many: 65: must have at most 64 items");
    }
}
