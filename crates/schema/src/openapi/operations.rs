//! The paths of a kind and the operations at each.

use super::parameters::{self, DELETE, GET, LIST, PATCH, WRITE, query};
use super::{Kind, SCHEMAS};
use machinery::{Map, Value, json};

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const PATCH_BODY: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// The schema of `/scale`.
pub const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// A subresource: `/status`, `/scale`, `/eviction`.
#[derive(Debug, Clone)]
pub struct Subresource<'a> {
    /// `status`, the last part of the path.
    pub name: &'a str,
    /// The verbs of discovery: either `create` alone, or `get`, `patch` and `update`.
    pub verbs: &'a [&'a str],
    /// The schema of requests and responses.
    pub model: String,
    /// The group of its kind.
    pub group: &'a str,
    /// The version of its kind.
    pub version: &'a str,
    /// Its kind.
    pub kind: &'a str,
}

/// An operation: one method of a path.
#[derive(Debug, Clone, Copy)]
struct Operation<'a> {
    method: &'a str,
    /// `x-kubernetes-action`
    action: &'a str,
    /// The start of the operation's id.
    verb: &'a str,
    /// The text between the version and the kind in the id.
    infix: &'a str,
    options: &'a [&'a str],
    request_body: Option<RequestBody<'a>>,
    /// The schema of the response.
    response_model: &'a str,
    /// The status codes of successful responses, with their texts.
    codes: &'a [(&'a str, &'a str)],
}

#[derive(Debug, Clone, Copy)]
struct RequestBody<'a> {
    /// The name of its schema.
    model: &'a str,
    required: bool,
}

const OK: &[(&str, &str)] = &[("200", "OK")];
const OK_OR_CREATED: &[(&str, &str)] = &[("200", "OK"), ("201", "Created")];
const OK_OR_ACCEPTED: &[(&str, &str)] = &[("200", "OK"), ("202", "Accepted")];
const OK_CREATED_OR_ACCEPTED: &[(&str, &str)] =
    &[("200", "OK"), ("201", "Created"), ("202", "Accepted")];

/// All paths of a kind with their operations. `model` and `list_model` name the schemas of its
/// objects and of their lists.
pub fn paths(
    kind: &Kind<'_>,
    model: &str,
    list_model: &str,
    subresources: &[Subresource<'_>],
) -> Map<String, Value> {
    let base = match kind.group {
        "" => format!("/api/{}", kind.version),
        group => format!("/apis/{group}/{}", kind.version),
    };
    let identity = (kind.group, kind.version, kind.kind);
    let target = Target { kind, identity, subresource: "" };
    let mut paths = Map::new();
    let mut collection = format!("{base}/{}", kind.plural);
    if kind.namespaced {
        let mut item = target.item(&[], &[list(list_model)]);
        item["get"]["operationId"] = target.operation_id("list", "", "ForAllNamespaces").into();
        paths.insert(collection, item);
        collection = format!("{base}/namespaces/{{namespace}}/{}", kind.plural);
    }
    let namespace: &[&str] = if kind.namespaced { &["namespace"] } else { &[] };
    let mut operations = vec![list(list_model), create(model)];
    if kind.deletes_collections {
        operations.push(delete_collection());
    }
    paths.insert(collection.clone(), target.item(namespace, &operations));

    let named: &[&str] = if kind.namespaced { &["name", "namespace"] } else { &["name"] };
    let object = format!("{collection}/{{name}}");
    let mut operations = read_and_change(model).to_vec();
    operations.push(delete());
    paths.insert(object.clone(), target.item(named, &operations));
    for it in subresources {
        let identity = (it.group, it.version, it.kind);
        let target = Target { kind, identity, subresource: it.name };
        let item = match it.verbs {
            ["create"] => target.item(named, &[create(&it.model)]),
            _ => target.item(named, &read_and_change(&it.model)),
        };
        paths.insert(format!("{object}/{}", it.name), item);
    }
    paths
}

fn list(model: &str) -> Operation<'_> {
    Operation {
        method: "get",
        action: "list",
        verb: "list",
        infix: "",
        options: LIST,
        request_body: None,
        response_model: model,
        codes: OK,
    }
}

fn create(model: &str) -> Operation<'_> {
    Operation {
        method: "post",
        action: "post",
        verb: "create",
        infix: "",
        options: WRITE,
        request_body: Some(RequestBody { model, required: true }),
        response_model: model,
        codes: OK_CREATED_OR_ACCEPTED,
    }
}

fn delete() -> Operation<'static> {
    Operation {
        method: "delete",
        action: "delete",
        verb: "delete",
        infix: "",
        options: DELETE,
        request_body: Some(RequestBody { model: DELETE_OPTIONS, required: false }),
        response_model: STATUS,
        codes: OK_OR_ACCEPTED,
    }
}

fn delete_collection() -> Operation<'static> {
    Operation {
        action: "deletecollection",
        infix: "Collection",
        options: LIST,
        codes: OK,
        ..delete()
    }
}

fn read_and_change(model: &str) -> [Operation<'_>; 3] {
    let get = Operation { action: "get", verb: "read", options: GET, ..list(model) };
    let put = Operation {
        method: "put",
        action: "put",
        verb: "replace",
        codes: OK_OR_CREATED,
        ..create(model)
    };
    let patch = Operation {
        method: "patch",
        action: "patch",
        verb: "patch",
        options: PATCH,
        request_body: Some(RequestBody { model: PATCH_BODY, required: true }),
        ..put
    };
    [get, put, patch]
}

/// The target of operations: a resource or a subresource.
struct Target<'a> {
    kind: &'a Kind<'a>,
    /// Group, version and kind of the request and response.
    identity: (&'a str, &'a str, &'a str),
    /// The name of the subresource, or "".
    subresource: &'a str,
}

impl Target<'_> {
    /// The path item with these path parameters and operations.
    fn item(&self, in_path: &[&str], operations: &[Operation<'_>]) -> Value {
        let in_path = in_path.iter();
        let mut parameters: Vec<Value> =
            in_path.map(|name| parameters::in_path(name, self.identity.2)).collect();
        parameters.push(query("pretty"));
        let mut item = json!({"parameters": parameters});
        for operation in operations {
            item[operation.method] = self.describe(operation);
        }
        item
    }

    fn describe(&self, operation: &Operation<'_>) -> Value {
        let namespaced = if self.kind.namespaced { "Namespaced" } else { "" };
        let mut responses = json!({"401": {"description": "Unauthorized"}});
        for (code, text) in operation.codes {
            let content =
                content(operation.response_model, &["application/json", "application/yaml"]);
            responses[*code] = json!({"description": text, "content": content});
        }
        let options: Vec<Value> = operation.options.iter().map(|name| query(name)).collect();
        let infix = format!("{}{namespaced}", operation.infix);
        let suffix = capitalized(&[self.subresource]).concat();
        let (group, version, kind) = self.identity;
        let mut described = json!({
            "tags": [tag(self.kind)],
            "description": self.description(operation),
            "operationId": self.operation_id(operation.verb, &infix, &suffix),
            "parameters": options,
            "responses": responses,
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
        });
        if let Some(RequestBody { model, required }) = operation.request_body {
            let content = content(model, self.request_media_types(operation));
            described["requestBody"] = json!({"content": content, "required": required});
        }
        described
    }

    /// The media types of the request body.
    fn request_media_types(&self, operation: &Operation<'_>) -> &'static [&'static str] {
        match (operation.method, self.kind.crd) {
            ("patch", true) => &[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
            ],
            ("patch", false) => &[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
                "application/apply-patch+yaml",
            ],
            (_, true) => &["application/json", "application/yaml"],
            (_, false) => &["*/*"],
        }
    }

    /// `partially update status of the specified Widget`
    fn description(&self, operation: &Operation<'_>) -> String {
        let verb = if operation.verb == "patch" { "partially update" } else { operation.verb };
        let article = match (operation.action, self.kind.crd) {
            ("list", true) => " objects of kind",
            ("list", false) => " or watch objects of kind",
            ("deletecollection", _) => " collection of",
            ("post" | "delete", _) if self.kind.kind.starts_with(['A', 'E', 'I', 'O', 'U']) => {
                " an"
            }
            ("post" | "delete", _) => " a",
            _ => " the specified",
        };
        let of = if self.subresource.is_empty() { "" } else { " of" };
        let space = if self.subresource.is_empty() { "" } else { " " };
        format!("{verb}{space}{}{of}{article} {}", self.subresource, self.kind.kind)
    }

    /// `readAppsV1NamespacedDeploymentScale`
    fn operation_id(&self, verb: &str, infix: &str, suffix: &str) -> String {
        format!(
            "{verb}{}{}{infix}{}{suffix}",
            capitalized(&group_words(self.kind)).concat(),
            capitalized(&[self.kind.version]).concat(),
            self.kind.kind
        )
    }
}

fn content(model: &str, types: &[&str]) -> Value {
    let schema = json!({"schema": {"$ref": format!("{SCHEMAS}{model}")}});
    types.iter().map(|it| ((*it).to_owned(), schema.clone())).collect()
}

/// `stableExampleCom_v1`
fn tag(kind: &Kind<'_>) -> String {
    let words = group_words(kind);
    let (first, rest) = words.split_first().unwrap_or((&"core", &[]));
    format!("{first}{}_{}", capitalized(rest).concat(), kind.version)
}

/// The parts of the group, without the suffix `.k8s.io`.
fn group_words<'a>(kind: &Kind<'a>) -> Vec<&'a str> {
    match kind.group {
        "" => vec!["core"],
        group => group.strip_suffix(".k8s.io").unwrap_or(group).split(['.', '-']).collect(),
    }
}

fn capitalized(words: &[&str]) -> Vec<String> {
    words
        .iter()
        .map(|word| {
            let mut letters = word.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            first.into_iter().chain(letters).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPLOYMENT: Kind<'static> = Kind {
        group: "apps",
        version: "v1",
        kind: "Deployment",
        list_kind: "DeploymentList",
        plural: "deployments",
        namespaced: true,
        crd: false,
        deletes_collections: true,
    };

    fn scale() -> Subresource<'static> {
        Subresource {
            name: "scale",
            verbs: &["get", "patch", "update"],
            model: SCALE.to_owned(),
            group: "autoscaling",
            version: "v1",
            kind: "Scale",
        }
    }

    #[test]
    fn a_namespaced_kind_has_paths_for_collections_objects_and_subresources() {
        let paths = paths(&DEPLOYMENT, "Deployment", "DeploymentList", &[scale()]);
        let all = "/apis/apps/v1/namespaces/{namespace}/deployments";
        let below = &paths[&format!("{all}/{{name}}/scale")];
        assert_eq!(paths.len(), 4);
        assert_eq!(below["get"]["operationId"], "readAppsV1NamespacedDeploymentScale");
        assert_eq!(below["get"]["description"], "read scale of the specified Deployment");
        assert_eq!(below["put"]["x-kubernetes-group-version-kind"]["kind"], "Scale");
        let create = &paths[all]["post"];
        assert_eq!(create["x-kubernetes-action"], "post");
        assert_eq!(
            create["x-kubernetes-group-version-kind"],
            json!({"group": "apps", "version": "v1", "kind": "Deployment"})
        );
        assert_eq!(
            paths["/apis/apps/v1/deployments"]["get"]["operationId"],
            "listAppsV1DeploymentForAllNamespaces"
        );
        assert_eq!(create["tags"], json!(["apps_v1"]));
        assert_eq!(
            paths[all]["delete"]["operationId"],
            "deleteAppsV1CollectionNamespacedDeployment"
        );
    }

    #[test]
    fn a_patch_has_query_parameters_and_media_types() {
        let paths = paths(&DEPLOYMENT, "Deployment", "DeploymentList", &[]);
        let patch = &paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        let names: Vec<&Value> =
            patch["parameters"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
        assert_eq!(patch["parameters"][3]["schema"]["type"], "boolean");
        assert_eq!(patch["description"], "partially update the specified Deployment");
        let types = patch["requestBody"]["content"].as_object().unwrap();
        assert!(types.contains_key("application/strategic-merge-patch+json"));
    }

    #[test]
    fn the_paths_of_the_core_group_start_with_api() {
        let kind = Kind {
            group: "",
            version: "v1",
            kind: "Namespace",
            list_kind: "NamespaceList",
            plural: "namespaces",
            namespaced: false,
            crd: false,
            deletes_collections: false,
        };
        let finalize =
            Subresource { name: "finalize", verbs: &["create"], kind: "Namespace", ..scale() };
        let paths = paths(&kind, "Namespace", "NamespaceList", &[finalize]);
        assert_eq!(paths["/api/v1/namespaces/{name}"]["get"]["operationId"], "readCoreV1Namespace");
        assert_eq!(
            paths["/api/v1/namespaces/{name}/finalize"]["post"]["operationId"],
            "createCoreV1NamespaceFinalize"
        );
        assert!(paths["/api/v1/namespaces"].get("delete").is_none());
        assert_eq!(paths.len(), 3);
    }
}
