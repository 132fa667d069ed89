//! The parameters of operations, with their types and descriptions.

use machinery::{Value, json};

/// The names of the query parameters of each verb.
pub(super) const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
pub(super) const GET: &[&str] = &["resourceVersion"];
pub(super) const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
pub(super) const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
pub(super) const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];

/// A parameter in the query.
pub(super) fn query(name: &str) -> Value {
    let schema = json!({"type": type_of(name), "uniqueItems": true});
    json!({"name": name, "in": "query", "description": describe(name), "schema": schema})
}

/// A parameter in the path of objects of `kind`.
pub(super) fn in_path(name: &str, kind: &str) -> Value {
    let description = match name {
        "name" => format!("name of the {kind}"),
        _ => "object name and auth scope, such as for teams and projects".to_owned(),
    };
    let schema = json!({"type": "string", "uniqueItems": true});
    json!({"name": name, "in": "path", "required": true, "description": description,
        "schema": schema})
}

fn type_of(name: &str) -> &'static str {
    match name {
        "limit" | "timeoutSeconds" | "gracePeriodSeconds" => "integer",
        "allowWatchBookmarks"
        | "sendInitialEvents"
        | "watch"
        | "force"
        | "ignoreStoreReadErrorWithClusterBreakingPotential"
        | "orphanDependents" => "boolean",
        _ => "string",
    }
}

fn describe(name: &str) -> &'static str {
    match name {
        "allowWatchBookmarks" => "Whether a watch may send events of the type BOOKMARK.",
        "continue" => "The `continue` token of the previous page of a list in pages.",
        "fieldSelector" => {
            "A selector to restrict the list of returned objects by their fields. Defaults to everything."
        }
        "labelSelector" => {
            "A selector to restrict the list of returned objects by their labels. Defaults to everything."
        }
        "limit" => {
            "The maximum number of objects in the response; if there are more, it has a `continue` token."
        }
        "resourceVersion" => {
            "The version of the collection from which a watch begins, or which a read must have reached."
        }
        "resourceVersionMatch" => {
            "How `resourceVersion` is applied to a list: `Exact` or `NotOlderThan`."
        }
        "sendInitialEvents" => {
            "Whether a watch begins with the existing objects, and a bookmark after the last of them."
        }
        "timeoutSeconds" => "The time after which the request ends, in seconds.",
        "watch" => {
            "Watch for changes to the described resources, and return them as a stream of events."
        }
        "dryRun" => "If it is `All`, the request is processed, and nothing is stored.",
        "fieldManager" => "The name of the manager of the fields that the request changes.",
        "fieldValidation" => {
            "What is done about unknown and duplicate fields: `Ignore`, `Warn` or `Strict`."
        }
        "force" => "Whether an apply patch takes fields that other managers own.",
        "gracePeriodSeconds" => {
            "The time in seconds until the object is deleted. Zero means immediately; the default is that of the kind."
        }
        "ignoreStoreReadErrorWithClusterBreakingPotential" => {
            "Whether to delete an object that cannot be read from the store, without its finalizers."
        }
        "orphanDependents" => "Deprecated: use `propagationPolicy`.",
        "propagationPolicy" => {
            "What is done about dependents of the object: `Orphan`, `Background` or `Foreground`."
        }
        "pretty" => "If it is `true`, the response is indented.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parameter_has_a_description() {
        for name in [LIST, GET, WRITE, PATCH, DELETE].concat() {
            assert!(describe(name).ends_with('.'), "{name}");
        }
    }
}
