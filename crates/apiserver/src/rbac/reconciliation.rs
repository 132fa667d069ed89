//! What must change in a stored role or binding so that it grants at least what the plane's own one
//! grants. What a user has added stays.
//!
//! Upstream: component-helpers/auth/rbac/reconciliation

use super::rights::GrantedRights;
use super::rule::Rule;
use machinery::{Object, Value};

/// The annotation with which a user keeps the server from changing a role or a binding: `false`.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// What the server does with a stored object.
#[derive(Debug, PartialEq)]
pub(crate) enum Reconciliation {
    /// It grants what it should.
    Keep,
    /// It is replaced by this one.
    Update(Object),
    /// It is deleted and created anew: the role of a binding cannot be changed.
    Recreate,
}

/// Compares a stored role with that of the plane.
pub(crate) fn of_role(stored: &Object, wanted: &Object) -> Reconciliation {
    if is_protected(stored) {
        return Reconciliation::Keep;
    }
    let mut updated = with_merged_metadata(stored, wanted);
    let (granted, wanted_rules) = (Rule::of_role(stored), Rule::of_role(wanted));
    // A user has given the role too many rules to compare.
    let Ok(missing) = GrantedRights::of(&granted).missing(&wanted_rules) else {
        return Reconciliation::Keep;
    };
    if !missing.is_empty() {
        let rules = missing.iter().map(|right| right.target.rule(vec![right.verb.to_owned()]));
        append(&mut updated, &["rules"], rules.map(|rule| rule.to_value()));
    }
    let selectors = ["aggregationRule", "clusterRoleSelectors"];
    if wanted.get(&selectors).is_none() {
        updated.map_mut().remove("aggregationRule");
    } else {
        append_missing(&mut updated, wanted, &selectors);
    }
    changed(stored, updated)
}

/// Compares a stored binding with that of the plane.
pub(crate) fn of_binding(stored: &Object, wanted: &Object) -> Reconciliation {
    if is_protected(stored) {
        return Reconciliation::Keep;
    }
    if stored.get(&["roleRef"]) != wanted.get(&["roleRef"]) {
        return Reconciliation::Recreate;
    }
    let mut updated = with_merged_metadata(stored, wanted);
    append_missing(&mut updated, wanted, &["subjects"]);
    changed(stored, updated)
}

fn changed(stored: &Object, updated: Object) -> Reconciliation {
    if *stored == updated { Reconciliation::Keep } else { Reconciliation::Update(updated) }
}

fn is_protected(stored: &Object) -> bool {
    stored.str_at(&["metadata", "annotations", AUTO_UPDATE]) == "false"
}

/// The stored object with the wanted labels and annotations that it does not have.
fn with_merged_metadata(stored: &Object, wanted: &Object) -> Object {
    let mut updated = stored.clone();
    for field in ["labels", "annotations"] {
        let Some(Value::Object(wanted)) = wanted.get(&["metadata", field]) else { continue };
        let map = updated.map_at(&["metadata", field]);
        for (key, value) in wanted {
            map.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    updated
}

fn list<'a>(object: &'a Object, path: &[&str]) -> &'a [Value] {
    object.get(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Appends the elements of a list of `wanted` that the list of `object` does not have.
fn append_missing(object: &mut Object, wanted: &Object, path: &[&str]) {
    let found = list(object, path);
    let missing = list(wanted, path).iter().filter(|it| !found.contains(it));
    let missing: Vec<Value> = missing.cloned().collect();
    if !missing.is_empty() {
        append(object, path, missing.into_iter());
    }
}

fn append(object: &mut Object, path: &[&str], added: impl Iterator<Item = Value>) {
    let mut elements = list(object, path).to_vec();
    elements.extend(added);
    if let [parents @ .., last] = path {
        object.map_at(parents).insert((*last).to_owned(), elements.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    fn role(rules: &Value) -> Object {
        object(
            json!({"metadata": {"name": "r", "labels": {"ours": "1"}, "annotations": {AUTO_UPDATE: "true"}},
            "rules": rules}),
        )
    }

    fn reading(resources: &[&str]) -> Value {
        json!({"verbs": ["get"], "apiGroups": [""], "resources": resources})
    }

    #[test]
    fn missing_rules_are_added_and_those_of_users_stay() {
        let wanted = role(&json!([reading(&["pods", "nodes"])]));
        let stored = role(&json!([reading(&["secrets"]), reading(&["nodes"])]));
        let expected =
            role(&json!([reading(&["secrets"]), reading(&["nodes"]), reading(&["pods"])]));
        assert_eq!(of_role(&stored, &wanted), Reconciliation::Update(expected.clone()));
        assert_eq!(of_role(&expected, &wanted), Reconciliation::Keep);
    }

    #[test]
    fn labels_of_users_stay_and_missing_ones_are_added() {
        let wanted = role(&json!([]));
        let stored =
            object(json!({"metadata": {"name": "r", "labels": {"ours": "changed", "theirs": "2"},
            "annotations": {AUTO_UPDATE: "true"}}, "rules": []}));
        assert_eq!(of_role(&stored, &wanted), Reconciliation::Keep);
        let stored = object(json!({"metadata": {"name": "r"}, "rules": []}));
        let Reconciliation::Update(updated) = of_role(&stored, &wanted) else {
            panic!("it lacks labels")
        };
        assert_eq!(updated.get(&["metadata", "labels"]), Some(&json!({"ours": "1"})));
    }

    #[test]
    fn a_role_whose_user_forbids_it_is_not_changed() {
        let mut stored = role(&json!([]));
        stored.map_at(&["metadata", "annotations"]).insert(AUTO_UPDATE.to_owned(), "false".into());
        assert_eq!(of_role(&stored, &role(&json!([reading(&["pods"])]))), Reconciliation::Keep);
    }

    #[test]
    fn selectors_of_an_aggregated_role_are_added() {
        let selector = |label: &str| json!({"matchLabels": {label: "true"}});
        let aggregated = |selectors: Value| {
            object(
                json!({"metadata": {"name": "r"}, "aggregationRule": {"clusterRoleSelectors": selectors}}),
            )
        };
        let wanted = aggregated(json!([selector("a")]));
        let stored = aggregated(json!([selector("b")]));
        let expected = aggregated(json!([selector("b"), selector("a")]));
        assert_eq!(of_role(&stored, &wanted), Reconciliation::Update(expected));
        let plain = object(json!({"metadata": {"name": "r"}}));
        assert_eq!(of_role(&wanted, &plain), Reconciliation::Update(plain.clone()));
    }

    #[test]
    fn a_binding_gets_missing_subjects_and_is_made_anew_for_another_role() {
        let binding = |role: &str, users: &[&str]| {
            let subjects: Vec<Value> =
                users.iter().map(|it| json!({"kind": "User", "name": it})).collect();
            object(
                json!({"metadata": {"name": "b"}, "roleRef": {"name": role}, "subjects": subjects}),
            )
        };
        let wanted = binding("r", &["a"]);
        let expected = Reconciliation::Update(binding("r", &["b", "a"]));
        assert_eq!(of_binding(&binding("r", &["b"]), &wanted), expected);
        assert_eq!(of_binding(&binding("r", &["a", "b"]), &wanted), Reconciliation::Keep);
        assert_eq!(of_binding(&binding("s", &["a"]), &wanted), Reconciliation::Recreate);
    }
}
