//! The rules of roles: which of them allow an action, and how kubectl lists them.

use std::collections::BTreeMap;

use machinery::Value;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Something with objects.
    Resource {
        /// The API group; empty for the core group.
        group: String,
        /// The plural, with `/` and the subresource if there is one.
        resource: String,
        /// The name of the object; empty for any.
        name: String,
    },
    /// Something with a path that is not one of a resource.
    Path(String),
}

/// Whether one of the rules allows a verb on what is acted on.
pub(super) fn allow(rules: &Value, verb: &str, action: &Action) -> bool {
    rules.as_array().into_iter().flatten().any(|rule| allows(rule, verb, action))
}

fn allows(rule: &Value, verb: &str, action: &Action) -> bool {
    let has = |field: &str, value: &str| strings(rule, field).any(|it| it == "*" || it == value);
    if !has("verbs", verb) {
        return false;
    }
    match action {
        Action::Resource { group, resource, name } => {
            let subresource = resource.split_once('/').map(|(_, it)| format!("*/{it}"));
            let has_resource = has("resources", resource)
                || subresource.is_some_and(|it| strings(rule, "resources").any(|had| had == it));
            let mut names = strings(rule, "resourceNames").peekable();
            let has_name = names.peek().is_none() || names.any(|it| it == name);
            has("apiGroups", group) && has_resource && has_name
        }
        Action::Path(path) => {
            strings(rule, "nonResourceURLs").any(|it| match it.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => it == path,
            })
        }
    }
}

/// How much rules allow: the number of their rights, where `*` counts as a thousand.
pub(super) fn breadth(rules: &Value) -> usize {
    let count = |rule: &Value, field: &str| -> usize {
        strings(rule, field).map(|it| if it.contains('*') { 1000 } else { 1 }).sum()
    };
    let rules = rules.as_array().into_iter().flatten();
    rules
        .map(|rule| {
            let resources = count(rule, "resources") * count(rule, "apiGroups");
            count(rule, "verbs") * (resources + count(rule, "nonResourceURLs"))
        })
        .sum()
}

fn strings<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    rule[field].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The rows of `can-i --list`, without the title: one for each resource and name with all its verbs,
/// and one for each verb of a path, in kubectl's order.
///
/// Upstream: kubectl/pkg/util/rbac
pub(super) fn rows(status: &Value) -> Vec<Vec<String>> {
    let mut verbs: BTreeMap<(String, String, Option<String>), Vec<String>> = BTreeMap::new();
    for rule in status["resourceRules"].as_array().into_iter().flatten() {
        let names: Vec<Option<String>> = match strings(rule, "resourceNames").next() {
            None => vec![None],
            Some(_) => strings(rule, "resourceNames").map(|it| Some(it.to_owned())).collect(),
        };
        for group in strings(rule, "apiGroups") {
            for resource in strings(rule, "resources") {
                for name in &names {
                    let key = (group.to_owned(), resource.to_owned(), name.clone());
                    let known = verbs.entry(key).or_default();
                    for verb in strings(rule, "verbs") {
                        if !known.iter().any(|it| it == verb) {
                            known.push(verb.to_owned());
                        }
                    }
                }
            }
        }
    }
    // Each row with the text by which kubectl sorts it.
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for ((group, resource, name), verbs) in verbs {
        let (verbs, name) = (verbs.join(" "), name.unwrap_or_default());
        let order = order(&verbs, &group, &resource, &name, "");
        let resource = with_group(&resource, &group);
        rows.push((order, cells(&resource, "", &name, &verbs)));
    }
    for rule in status["nonResourceRules"].as_array().into_iter().flatten() {
        for url in strings(rule, "nonResourceURLs") {
            for verb in strings(rule, "verbs") {
                rows.push((order(verb, "", "", "", url), cells("", url, "", verb)));
            }
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// A rule as Go prints it.
fn order(verbs: &str, group: &str, resource: &str, name: &str, url: &str) -> String {
    format!(
        "&PolicyRule{{Verbs:[{verbs}],APIGroups:[{group}],Resources:[{resource}],\
         ResourceNames:[{name}],NonResourceURLs:[{url}],}}"
    )
}

fn cells(resource: &str, url: &str, name: &str, verbs: &str) -> Vec<String> {
    vec![resource.to_owned(), format!("[{url}]"), format!("[{name}]"), format!("[{verbs}]")]
}

/// `deployments.apps/scale` from `deployments/scale` and `apps`.
fn with_group(resource: &str, group: &str) -> String {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource, format!("/{subresource}")),
        None => (resource, String::new()),
    };
    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
    format!("{resource}{group}{subresource}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[track_caller]
    fn check(rule: &Value, verb: &str, resource: &str, name: &str, expect: bool) {
        let action = Action::Resource {
            group: "apps".to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
        };
        assert_eq!(allow(&json!([rule]), verb, &action), expect);
    }

    #[test]
    fn a_rule_allows_what_each_of_its_lists_has() {
        let rule = json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]});
        check(&rule, "get", "deployments", "", true);
        check(&rule, "list", "deployments", "", false);
        check(&rule, "get", "deployments/scale", "", false);
        let core = json!({"apiGroups": [""], "resources": ["*"], "verbs": ["*"]});
        check(&core, "get", "deployments", "", false);
        let everything = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
        check(&everything, "delete", "deployments/scale", "web", true);
        let scale = json!({"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["get"]});
        check(&scale, "get", "deployments/scale", "", true);
        check(&scale, "get", "deployments/status", "", false);
    }

    #[test]
    fn a_rule_with_names_allows_only_objects_of_these_names() {
        let rule = json!({
            "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"],
            "resourceNames": ["web"],
        });
        check(&rule, "get", "deployments", "web", true);
        check(&rule, "get", "deployments", "db", false);
        check(&rule, "get", "deployments", "", false);
    }

    #[test]
    fn a_path_with_a_star_allows_what_begins_with_it() {
        let rules = json!([{"nonResourceURLs": ["/healthz", "/api/*"], "verbs": ["get"]}]);
        for (path, expect) in
            [("/healthz", true), ("/healthz/etcd", false), ("/api/v1", true), ("/apis", false)]
        {
            assert_eq!(allow(&rules, "get", &Action::Path(path.to_owned())), expect, "{path}");
        }
    }

    #[test]
    fn rows_have_all_verbs_of_a_resource_and_are_sorted_by_them() {
        let status = json!({
            "resourceRules": [
                {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]},
                {"verbs": ["get"], "apiGroups": ["", "apps"], "resources": ["pods", "x/scale"]},
                {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
            ],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/b", "/a"]}],
        });
        let rows: Vec<String> = rows(&status).iter().map(|it| it.join(" ")).collect();
        assert_eq!(
            rows,
            [
                " [/a] [] [get]",
                " [/b] [] [get]",
                "pods [] [a] [get]",
                "x/scale [] [] [get]",
                "pods.apps [] [] [get]",
                "x.apps/scale [] [] [get]",
                "pods [] [] [list get]",
            ]
        );
    }
}
