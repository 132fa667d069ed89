//! The rules of the admission plugin `RuntimeClass`: a pod gets the overhead, the node selector and
//! the tolerations of its runtime class.

use std::collections::HashSet;

use machinery::fields::{at, integer, list, same, text, top};
use machinery::{Map, Object, Value};

/// The name of the pod's runtime class, or "".
pub fn class_of(pod: &Object) -> &str {
    pod.str_at(&["spec", "runtimeClassName"])
}

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// Adds the overhead, node selector and tolerations of a class to a pod; the error says why the pod
/// is refused.
pub fn apply(pod: &mut Object, class: &Object) -> Result<(), String> {
    let fixed = at(top(class, "overhead"), &["podFixed"]);
    if top(class, "overhead").is_object() {
        let own = at(top(pod, "spec"), &["overhead"]);
        let is_set = own.as_object().is_some_and(|it| !it.is_empty());
        if is_set && !same(own, fixed) {
            return Err(MISMATCH.to_owned());
        }
        if fixed.is_object() {
            pod.map_at(&["spec"]).insert("overhead".to_owned(), fixed.clone());
        }
    }
    let scheduling = top(class, "scheduling");
    if scheduling.is_object() {
        select_nodes(pod, at(scheduling, &["nodeSelector"]))?;
        let own = list(top(pod, "spec"), "tolerations");
        let all: Vec<&Value> = own.iter().chain(list(scheduling, "tolerations")).collect();
        let merged = merged(&all);
        if !merged.is_empty() {
            pod.map_at(&["spec"]).insert("tolerations".to_owned(), merged.into());
        }
    }
    Ok(())
}

fn select_nodes(pod: &mut Object, wanted: &Value) -> Result<(), String> {
    let Some(wanted) = wanted.as_object().filter(|it| !it.is_empty()) else { return Ok(()) };
    let own = at(top(pod, "spec"), &["nodeSelector"]);
    let mut selector: Map<String, Value> = own.as_object().cloned().unwrap_or_default();
    for (key, value) in wanted {
        if let Some(found) = selector.get(key).filter(|found| *found != value) {
            let shown = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                shown(value),
                shown(found)
            ));
        }
        selector.insert(key.clone(), value.clone());
    }
    pod.map_at(&["spec"]).insert("nodeSelector".to_owned(), selector.into());
    Ok(())
}

/// The maximum number of tolerations that are compared with each other. Of more, only equal ones
/// are merged.
const COMPARED_MAX: usize = 1000;

/// The tolerations without those that another one covers.
fn merged(all: &[&Value]) -> Vec<Value> {
    let mut kept: Vec<&Value> = Vec::new();
    if all.len() > COMPARED_MAX {
        let mut seen = HashSet::new();
        kept.extend(all.iter().filter(|it| seen.insert(**it)));
        return kept.into_iter().cloned().collect();
    }
    for (index, toleration) in all.iter().enumerate() {
        let is_covered = kept.iter().any(|it| covers(it, toleration));
        let is_covered_later = || {
            let mut later = all[index + 1..].iter();
            later.any(|it| !same(it, toleration) && covers(it, toleration))
        };
        if !is_covered && !is_covered_later() {
            kept.push(toleration);
        }
    }
    kept.into_iter().cloned().collect()
}

/// Whether `wide` tolerates all that `narrow` does.
fn covers(wide: &Value, narrow: &Value) -> bool {
    if same(wide, narrow) {
        return true;
    }
    let key = text(wide, "key");
    let is_any_key = key.is_empty() && text(wide, "operator") == "Exists";
    let effect = text(wide, "effect");
    let is_effect = effect.is_empty() || effect == text(narrow, "effect");
    if (text(narrow, "key") != key && !is_any_key) || !is_effect {
        return false;
    }
    if let ("NoExecute", Some(longest)) = (effect, integer(wide, "tolerationSeconds"))
        && integer(narrow, "tolerationSeconds").is_none_or(|it| it > longest)
    {
        return false;
    }
    match text(wide, "operator") {
        "Equal" | "" => {
            text(narrow, "operator") == "Equal" && text(narrow, "value") == text(wide, "value")
        }
        operator => operator == "Exists",
    }
}

/// The error about an overhead that differs from that of the class; `class` is None if the pod has
/// no class.
pub fn overhead_refusal(pod: &Object, class: Option<&Object>) -> Option<&'static str> {
    let own = at(top(pod, "spec"), &["overhead"]);
    match class.map(|it| top(it, "overhead")).filter(|it| it.is_object()) {
        Some(overhead) => (!same(own, at(overhead, &["podFixed"]))).then_some(MISMATCH),
        None => own.is_object().then_some(
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;
    use machinery::json;

    fn applied(spec: Value, class: Value) -> Result<Value, String> {
        let mut pod = object(json!({"spec": spec}));
        apply(&mut pod, &object(class))?;
        Ok(top(&pod, "spec").clone())
    }

    #[test]
    fn a_class_sets_overhead_node_selector_and_tolerations() {
        let class = json!({"overhead": {"podFixed": {"cpu": "250m"}}, "scheduling":
            {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]}});
        assert_eq!(
            applied(
                json!({"nodeSelector": {"c": "d"},
                "tolerations": [{"key": "k", "operator": "Equal", "value": "v"}]}),
                class.clone()
            ),
            Ok(json!({"overhead": {"cpu": "250m"}, "nodeSelector": {"a": "b", "c": "d"},
                "tolerations": [{"key": "k", "operator": "Exists"}]}))
        );
        assert_eq!(
            applied(json!({"nodeSelector": {"a": "x"}}), class.clone()),
            Err("conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = x".to_owned())
        );
        assert_eq!(applied(json!({"overhead": {"cpu": "1"}}), class), Err(MISMATCH.to_owned()));
    }

    #[test]
    fn an_overhead_without_that_of_a_runtime_class_is_refused() {
        let pod = object(json!({"spec": {"overhead": {"cpu": "1"}}}));
        assert!(overhead_refusal(&pod, None).is_some());
        assert!(overhead_refusal(&pod, Some(&object(json!({"handler": "h"})))).is_some());
        let class = object(json!({"overhead": {"podFixed": {"cpu": "1"}}}));
        assert_eq!(overhead_refusal(&pod, Some(&class)), None);
    }
}
