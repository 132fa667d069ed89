//! The Scale of an object: its number of replicas, in the same form for every kind that can be
//! scaled.

use super::scope::RequestScope;
use machinery::selector::LabelSelector;
use machinery::{Object, Status, Value, json};
use types::resource::Scale;

/// The Scale of an object.
pub(crate) fn of(scope: &RequestScope, scale: &Scale, object: &Object) -> Result<Value, Status> {
    let at = |path: &[String]| {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        object.get(&path).cloned()
    };
    let spec = match at(&scale.spec_replicas) {
        // Go omits the value 0.
        Some(Value::Number(replicas)) if replicas.as_i64() == Some(0) => json!({}),
        Some(Value::Number(replicas)) => json!({"replicas": replicas}),
        _ => json!({}),
    };
    let replicas = at(&scale.status_replicas).filter(Value::is_number).unwrap_or_else(|| 0.into());
    let mut status = json!({"replicas": replicas});
    let selector = scale.label_selector.as_ref().and_then(|it| at(it)).unwrap_or(Value::Null);
    let selector = selector_text(scope.resource().conventions.scale_selector_is_text, &selector)?;
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

/// A selector in the syntax of queries. Custom resources store it in this form (`is_text`); built-in
/// kinds have an object with `matchLabels` and `matchExpressions`, or a plain map of labels.
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

/// Sets the desired number of replicas of an object.
pub(crate) fn set_replicas(scale: &Scale, object: &mut Object, replicas: i64) {
    let (last, parents) = scale.spec_replicas.split_last().expect("a path is not empty");
    let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
    object.map_at(&parents).insert(last.clone(), replicas.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(is_text: bool, selector: &Value) -> String {
        selector_text(is_text, selector).unwrap()
    }

    #[test]
    fn a_selector_is_in_the_syntax_of_queries() {
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
    fn the_selector_of_a_custom_resource_is_a_string() {
        assert_eq!(text(true, &json!({"matchLabels": {"a": "b"}})), "");
    }
}
