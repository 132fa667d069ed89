//! The rules that all workloads share: a pod template, a selector that must match its labels, and
//! the warnings about the template.
//!
//! ```text
//! spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: …}}
//!                                  └──────── must match ────────────────┘
//! ```

pub(crate) mod columns;
pub(crate) mod counters;

use crate::core::pod::{spec_defaults, template_warnings, validate_template};
use crate::validation::go_struct;
use crate::validation::rules::{IMMUTABLE, label_selector};
use machinery::fields::{at, list, map_mut, part, same, text, top};
use machinery::selector::LabelSelector;
use machinery::{ErrorList, Map, Object, Path, Value, names};
use types::resource::Scale;

/// The path of the spec of a workload.
pub(crate) static SPEC: Path<'static> = Path::root("spec");

/// The paths of the desired and the current number of replicas.
pub(crate) fn scale() -> Scale {
    let path = |parts: [&str; 2]| parts.map(str::to_owned).to_vec();
    Scale {
        spec_replicas: path(["spec", "replicas"]),
        status_replicas: path(["status", "replicas"]),
        label_selector: Some(path(["spec", "selector"])),
    }
}

/// Sets the defaults of the pod template of a spec, which is created if it is missing.
pub(crate) fn template_defaults(spec: &mut Map<String, Value>) {
    let template = spec.entry("template").or_insert_with(|| Map::new().into());
    if let Some(template) = template.as_object_mut() {
        template.entry("spec").or_insert_with(|| Map::new().into());
        if let Some(spec) = map_mut(template, "spec") {
            spec_defaults(spec);
        }
    }
}

/// Sets the status of a new object, which replaces one that the client sent.
pub(crate) fn reset_status(object: &mut Object, zero: Value) {
    object.map_mut().insert("status".to_owned(), zero);
}

/// The labels of a spec's template; null if it has none.
pub(crate) fn template_labels(spec: &Value) -> &Value {
    at(spec, &["template", "metadata", "labels"])
}

/// Validates a selector, which must not be missing or empty; `word` is the kind in the message.
pub(crate) fn validate_selector(errors: &mut ErrorList, spec: &Value, word: &str) {
    let path = SPEC.child("selector");
    let Some(selector) = part(spec, "selector") else { return errors.required(&path, "") };
    label_selector(errors, &path, selector);
    refuse_empty_selector(errors, selector, word);
}

/// Refuses a selector without requirements, which would select every pod.
pub(crate) fn refuse_empty_selector(errors: &mut ErrorList, selector: &Value, word: &str) {
    let has_labels = at(selector, &["matchLabels"]).as_object().is_some_and(|map| !map.is_empty());
    if !has_labels && list(selector, "matchExpressions").is_empty() {
        let message = format!("empty selector is invalid for {word}");
        invalid_selector(errors, selector, &message);
    }
}

/// Validates that the selector does not change.
pub(crate) fn validate_same_selector(errors: &mut ErrorList, new: &Object, old: &Object) {
    let selector = |object| at(top(object, "spec"), &["selector"]);
    if !same(selector(new), selector(old)) {
        invalid_selector(errors, selector(new), IMMUTABLE);
    }
}

/// Adds an error about the selector, which the message shows.
pub(crate) fn invalid_selector(errors: &mut ErrorList, selector: &Value, message: &str) {
    go_struct::invalid(errors, &SPEC.child("selector"), "LabelSelector", selector, message);
}

/// The parsed selector of a spec; None if it is malformed.
pub(crate) fn selector_of(spec: &Value) -> Option<LabelSelector> {
    LabelSelector::from_value(at(spec, &["selector"])).ok()
}

/// Validates that the selector matches the labels of the template at `path`.
pub(crate) fn validate_match(
    errors: &mut ErrorList,
    path: &Path<'_>,
    selector: &LabelSelector,
    labels: &Value,
) {
    if !selector.matches(|key| labels.get(key).and_then(Value::as_str)) {
        refuse_labels(errors, path, labels);
    }
}

/// Adds the error about a template whose labels the selector does not match.
pub(crate) fn refuse_labels(errors: &mut ErrorList, path: &Path<'_>, labels: &Value) {
    let path = path.child("metadata");
    let message = "`selector` does not match template `labels`";
    errors.invalid(&path.child("labels"), labels.clone(), message);
}

/// Validates the template of pods that are always restarted; `kind` is the kind in the message.
pub(crate) fn validate_always_restarted_template(
    errors: &mut ErrorList,
    path: &Path<'_>,
    template: &Value,
    kind: &str,
) {
    validate_template(errors, path, template);
    validate_always_restarted(errors, path, template, kind);
}

/// Validates that the pods of a template are always restarted and have no deadline.
pub(crate) fn validate_always_restarted(
    errors: &mut ErrorList,
    path: &Path<'_>,
    template: &Value,
    kind: &str,
) {
    let path = path.child("spec");
    let spec = at(template, &["spec"]);
    let policy = text(spec, "restartPolicy");
    if policy != "Always" {
        errors.not_supported(&path.child("restartPolicy"), policy, &["Always"]);
    }
    if part(spec, "activeDeadlineSeconds").is_some() {
        let message = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(&path.child("activeDeadlineSeconds"), &message);
    }
}

/// The warnings for a new object whose name becomes part of the names of pods.
pub(crate) fn warnings(object: &Object) -> Vec<String> {
    let mut warnings = Vec::new();
    warn_of_name(&mut warnings, object.name());
    warnings.extend(warnings_of_template(object));
    warnings
}

/// The warnings for an update; none if the spec, and so the generation, does not change.
pub(crate) fn update_warnings(new: &Object, old: &Object) -> Vec<String> {
    if new.generation() == old.generation() {
        return Vec::new();
    }
    warnings_of_template(new)
}

/// The warnings about the pod template.
pub(crate) fn warnings_of_template(object: &Object) -> Vec<String> {
    let mut warnings = Vec::new();
    let path = SPEC.child("template");
    let template = at(top(object, "spec"), &["template"]);
    template_warnings(&mut warnings, &path, at(template, &["metadata"]), at(template, &["spec"]));
    warnings
}

/// Adds a warning if `name` is not a DNS label: it becomes part of the host names of pods.
pub(crate) fn warn_of_name(out: &mut Vec<String>, name: &str) {
    let messages = names::dns1123_label(name);
    if !messages.is_empty() {
        let messages = messages.join(" ");
        out.push(format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{messages}]"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{lines, object};
    use machinery::json;

    #[test]
    fn a_missing_selector_matches_no_template() {
        let mut errors = ErrorList::new();
        let spec = json!({"template": {"metadata": {"labels": {"a": "b"}}}});
        let selector = selector_of(&spec).unwrap();
        validate_match(&mut errors, &SPEC.child("template"), &selector, template_labels(&spec));
        assert_eq!(
            lines(&errors),
            [
                r#"spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`"#
            ]
        );
    }

    #[test]
    fn empty_and_missing_selectors_are_refused() {
        let mut errors = ErrorList::new();
        validate_selector(&mut errors, &json!({"selector": {}}), "deployment");
        validate_selector(&mut errors, &json!({}), "deployment");
        assert_eq!(
            lines(&errors),
            [
                "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
                "spec.selector: Required value",
            ]
        );
    }

    #[test]
    fn a_name_that_is_not_a_dns_label_causes_a_warning() {
        let named = |name: &str| object(json!({"metadata": {"name": name}}));
        assert_eq!(warnings(&named("a")), Vec::<String>::new());
        assert!(warnings(&named("a.b"))[0].starts_with("metadata.name: this is used in Pod names"));
    }

    #[test]
    fn an_update_only_causes_warnings_if_the_generation_changes() {
        let make = |generation: i64| {
            let env = json!([{"name": "A"}, {"name": "A"}]);
            object(json!({"metadata": {"name": "a", "generation": generation}, "spec": {"template":
                {"spec": {"containers": [{"name": "c", "env": env}]}}}}))
        };
        assert_eq!(update_warnings(&make(1), &make(1)), Vec::<String>::new());
        assert_eq!(
            update_warnings(&make(2), &make(1)),
            [
                r#"spec.template.spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply"#
            ]
        );
    }
}
