//! The names that are accepted for a CRD, and the conditions about them.
//!
//! The names of all kinds of a group must be unique, so a CRD gets those that no other CRD has.
//! With all of them it is established: unlike upstream, which waits until its servers know the CRD,
//! this server serves a kind as soon as that status is stored.

use std::collections::BTreeSet;

use super::approval::ApprovalStatus;
use super::conditions::{Condition, find, set_condition};
use machinery::fields::{at, text, texts, top};
use machinery::{Map, Object, Value, json};

/// The status that a CRD should have, given the `others` (those of other groups do not count), or
/// None if it is up to date.
pub fn next_status(crd: &Object, others: &[&Object], now: &str) -> Option<Value> {
    let spec = top(crd, "spec");
    let status = top(crd, "status");
    let accepted = status.get("acceptedNames").cloned().unwrap_or_else(|| json!({}));
    let is_settled = find(status, "NamesAccepted").is_some_and(|it| it.status == "True")
        && find(status, "Established").is_some_and(|it| it.status == "True");
    let approval = ApprovalStatus::of(crd);
    let approval = approval.as_ref().map(ApprovalStatus::condition);
    let is_settled = is_settled && approval.is_none_or(|it| find(status, it.kind) == Some(it));
    if is_settled && names_only(at(spec, &["names"])) == names_only(&accepted) {
        return None;
    }
    let group = text(spec, "group");
    let same_group = others.iter().filter(|it| it.str_at(&["spec", "group"]) == group);
    let used = UsedNames::of(same_group.copied().chain([crd]));
    let (names, conflict) = assign_names(at(spec, &["names"]), &accepted, &used);

    let named = match &conflict {
        None => Condition {
            kind: "NamesAccepted",
            status: "True",
            reason: "NoConflicts",
            message: "no conflicts found",
        },
        Some(conflict) => Condition {
            kind: "NamesAccepted",
            status: "False",
            reason: conflict.reason,
            message: &conflict.message,
        },
    };
    let established = match (find(status, "Established"), &conflict) {
        (Some(old), _) if old.status == "True" => old,
        (_, None) => Condition {
            kind: "Established",
            status: "True",
            reason: "InitialNamesAccepted",
            message: "the initial names have been accepted",
        },
        (Some(old), Some(_)) => old,
        (None, Some(_)) => Condition {
            kind: "Established",
            status: "False",
            reason: "NotAccepted",
            message: "not all names are accepted",
        },
    };
    let mut next = status.as_object().cloned().unwrap_or_default();
    next.insert("acceptedNames".to_owned(), Value::Object(names));
    set_condition(&mut next, &named, now);
    set_condition(&mut next, &established, now);
    if let Some(approval) = &approval {
        set_condition(&mut next, approval, now);
    }
    let next = Value::Object(next);
    (next != *status).then_some(next)
}

/// The accepted names of the CRDs of a group.
#[derive(Debug, Default)]
struct UsedNames<'a> {
    resources: BTreeSet<&'a str>,
    kinds: BTreeSet<&'a str>,
}

impl<'a> UsedNames<'a> {
    fn of(crds: impl Iterator<Item = &'a Object>) -> Self {
        let mut used = Self::default();
        for crd in crds {
            let names = at(top(crd, "status"), &["acceptedNames"]);
            used.resources.extend([text(names, "plural"), text(names, "singular")]);
            used.resources.extend(texts(names, "shortNames"));
            used.kinds.extend([text(names, "kind"), text(names, "listKind")]);
        }
        used
    }
}

#[derive(Debug)]
struct Conflict {
    reason: &'static str,
    message: String,
}

/// Accepts the requested names that are free, and keeps the accepted ones otherwise. Of several
/// conflicts the last is reported.
fn assign_names(
    requested: &Value,
    accepted: &Value,
    used: &UsedNames<'_>,
) -> (Map<String, Value>, Option<Conflict>) {
    let mut names = names_only(accepted);
    let mut conflict = None;
    for (key, used, reason) in [
        ("plural", &used.resources, "PluralConflict"),
        ("singular", &used.resources, "SingularConflict"),
        ("shortNames", &used.resources, "ShortNamesConflict"),
        ("kind", &used.kinds, "KindConflict"),
        ("listKind", &used.kinds, "ListKindConflict"),
    ] {
        let own: BTreeSet<&str> = all_names(accepted, key).collect();
        let clashes: Vec<String> = all_names(requested, key)
            .filter(|name| !own.contains(name) && used.contains(name))
            .map(|name| format!("\"{name}\" is already in use"))
            .collect();
        let message = match clashes.as_slice() {
            [] => {
                put(&mut names, key, at(requested, &[key]).clone());
                continue;
            }
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        conflict = Some(Conflict { reason, message });
    }
    put(&mut names, "categories", at(requested, &["categories"]).clone());
    (names, conflict)
}

/// The name at `key`, or all of them if it is a list.
fn all_names<'a>(names: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    names.get(key).and_then(Value::as_str).into_iter().chain(texts(names, key))
}

/// Inserts a name as Go writes it: `plural` and `kind` always, the others unless they are empty.
fn put(names: &mut Map<String, Value>, key: &str, value: Value) {
    let is_empty = match &value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    match (key, is_empty) {
        (_, false) => names.insert(key.to_owned(), value),
        ("plural" | "kind", true) => names.insert(key.to_owned(), "".into()),
        (_, true) => names.remove(key),
    };
}

/// The names in a form that can be compared.
fn names_only(names: &Value) -> Map<String, Value> {
    let mut only = Map::new();
    for key in ["plural", "singular", "shortNames", "kind", "listKind", "categories"] {
        put(&mut only, key, at(names, &[key]).clone());
    }
    only
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;

    fn crd(plural: &str, kind: &str) -> Object {
        object(json!({"metadata": {"name": format!("{plural}.example.dev")}, "spec": {
            "group": "example.dev", "names": {"plural": plural, "singular": kind.to_lowercase(),
                "kind": kind, "listKind": format!("{kind}List")}},
            "status": {"conditions": null, "acceptedNames": {"plural": "", "kind": ""},
                "storedVersions": ["v1"]}}))
    }

    fn accepted(mut crd: Object, others: &[&Object]) -> Object {
        let status = next_status(&crd, others, "T").unwrap();
        crd.map_mut().insert("status".to_owned(), status);
        crd
    }

    fn conditions(crd: &Object) -> Vec<(&str, &str, &str, &str)> {
        let conditions = list_of(crd);
        conditions
            .iter()
            .map(|it| {
                (text(it, "type"), text(it, "status"), text(it, "reason"), text(it, "message"))
            })
            .collect()
    }

    fn list_of(crd: &Object) -> &[Value] {
        machinery::fields::list(top(crd, "status"), "conditions")
    }

    #[test]
    fn the_status_of_a_crd_in_a_protected_group_has_the_approval() {
        let mut crd = object(json!({
            "metadata": {"name": "w.sample.k8s.io",
                "annotations": {"api-approved.kubernetes.io": "unapproved, for now"}},
            "spec": {"group": "sample.k8s.io", "names": {"plural": "w", "kind": "W"}}}));
        let status = next_status(&crd, &[], "T").unwrap();
        crd.map_mut().insert("status".to_owned(), status);
        assert_eq!(
            conditions(&crd)[2],
            (
                "KubernetesAPIApprovalPolicyConformant",
                "False",
                "UnapprovedAnnotation",
                r#"not approved: "unapproved, for now""#
            )
        );
        assert!(next_status(&crd, &[], "U").is_none());
    }

    #[test]
    fn free_names_are_accepted_and_establish_the_crd() {
        let widgets = accepted(crd("widgets", "Widget"), &[]);
        assert_eq!(
            conditions(&widgets),
            [
                ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
                (
                    "Established",
                    "True",
                    "InitialNamesAccepted",
                    "the initial names have been accepted"
                ),
            ]
        );
        assert_eq!(
            widgets.get(&["status", "acceptedNames"]),
            Some(&json!({"plural": "widgets", "singular": "widget", "kind": "Widget",
                "listKind": "WidgetList"}))
        );
        assert!(next_status(&widgets, &[], "U").is_none());
    }

    #[test]
    fn a_name_that_is_taken_is_not_accepted() {
        let widgets = accepted(crd("widgets", "Widget"), &[]);
        let others = accepted(crd("others", "Widget"), &[&widgets]);
        assert_eq!(
            conditions(&others),
            [
                ("NamesAccepted", "False", "ListKindConflict", r#""WidgetList" is already in use"#),
                ("Established", "False", "NotAccepted", "not all names are accepted"),
            ]
        );
        assert_eq!(
            others.get(&["status", "acceptedNames"]),
            Some(&json!({"plural": "others", "kind": ""}))
        );
        assert!(next_status(&others, &[&widgets], "U").is_none());
        let freed = accepted(others, &[]);
        assert!(super::super::is_established(&freed));
    }

    #[test]
    fn a_new_short_name_is_accepted_later() {
        let mut widgets = accepted(crd("widgets", "Widget"), &[]);
        widgets.map_at(&["spec", "names"]).insert("shortNames".to_owned(), json!(["wd"]));
        let widgets = accepted(widgets, &[]);
        assert_eq!(widgets.get(&["status", "acceptedNames", "shortNames"]), Some(&json!(["wd"])));
    }

    #[test]
    fn names_of_other_groups_do_not_count() {
        let mut other = accepted(crd("widgets", "Widget"), &[]);
        other.map_at(&["spec"]).insert("group".to_owned(), "other.dev".into());
        let widgets = accepted(crd("widgets", "Widget"), &[&other]);
        assert!(super::super::is_established(&widgets));
    }
}
