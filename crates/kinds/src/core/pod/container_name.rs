//! Chooses the container of a pod for requests for its log and for streams.
//!
//! Upstream: `registry/core/pod/strategy.go`, `validateContainer`.

use machinery::{Object, Value};

/// The container `requested`, or the only one if `requested` is empty; the error is in Kubernetes'
/// words.
pub fn choose(pod: &Object, requested: &str) -> Result<String, String> {
    let name = pod.name();
    if !requested.is_empty() {
        let is_known = names(pod).any(|it| it == requested);
        let invalid = || format!("container {requested} is not valid for pod {name}");
        return is_known.then(|| requested.to_owned()).ok_or_else(invalid);
    }
    match list(pod, "containers") {
        [] => Err(format!("a container name must be specified for pod {name}")),
        [only] => Ok(only["name"].as_str().unwrap_or_default().to_owned()),
        _ => {
            let names: Vec<&str> = names(pod).collect();
            let names = names.join(" ");
            Err(format!(
                "a container name must be specified for pod {name}, choose one of: [{names}]"
            ))
        }
    }
}

fn names(pod: &Object) -> impl Iterator<Item = &str> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|field| list(pod, field))
        .filter_map(|it| it["name"].as_str())
}

fn list<'a>(pod: &'a Object, field: &str) -> &'a [Value] {
    pod.get(&["spec", field]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn check(containers: &[&str], requested: &str, expect: Result<&str, &str>) {
        let containers: Vec<Value> = containers.iter().map(|it| json!({"name": it})).collect();
        let pod = Object::from_value(json!({"metadata": {"name": "p"},
            "spec": {"initContainers": [{"name": "init"}], "containers": containers}}));
        let chosen = choose(&pod.unwrap(), requested);
        assert_eq!(chosen.as_deref().map_err(String::as_str), expect);
    }

    #[test]
    fn the_only_container_need_not_be_named() {
        check(&["a"], "", Ok("a"));
        check(&["a", "b"], "b", Ok("b"));
        check(&["a"], "init", Ok("init"));
    }

    #[test]
    fn one_of_several_containers_must_be_named() {
        check(
            &["a", "b"],
            "",
            Err("a container name must be specified for pod p, choose one of: [init a b]"),
        );
        check(&["a"], "x", Err("container x is not valid for pod p"));
    }
}
