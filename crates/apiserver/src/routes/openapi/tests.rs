//! The responses under `/openapi` for built-in kinds and one custom kind.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::header::ACCEPT_ENCODING;
use http_body_util::BodyExt;

use super::*;
use crate::cache::watch_cache::ResourceCache;
use crate::storage::catalog::ServedResource;
use machinery::{Object, Value, json};
use store::{Record, Revision};

const CRD_PREFIX: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions";

fn widgets() -> Object {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.dev", "uid": "u", "generation": 1},
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "description": "what is wanted", "required": ["size"],
                    "properties": {
                        "size": {"type": "integer", "minimum": 1, "default": 2, "description": "how big"},
                        "color": {"type": "string"},
                        "port": {"x-kubernetes-int-or-string": true},
                        "parts": {"type": "array", "x-kubernetes-list-type": "set",
                            "items": {"type": "string"}}}}}}}}],
        },
        "status": {"acceptedNames": {
            "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}},
    });
    Object::from_value(crd).unwrap()
}

/// A catalog of all built-in kinds and the kind of `crd`.
fn catalog(crd: &Object) -> Catalog {
    let revision = Revision::default();
    let mut served = Vec::new();
    let custom = kinds::apiextensions::resource(crd).unwrap();
    for resource in kinds::table::builtin().into_iter().chain([custom]) {
        let cache = ResourceCache::new(&resource.prefix, revision, &Arc::default());
        if resource.prefix == CRD_PREFIX {
            cache.load(&[Arc::new(Record {
                key: format!("{CRD_PREFIX}/{}", crd.name()).into(),
                value: crd.to_bytes().into(),
                created: revision,
                modified: revision,
                expires: None,
            })]);
        }
        served.push(Arc::new(ServedResource::new(resource, Arc::new(cache))));
    }
    Catalog::new(served)
}

fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
}

fn get(path: &[&str], query: &str, pairs: &[(HeaderName, &str)]) -> Response<Body> {
    let catalog = catalog(&widgets());
    let query = Query::parse(Some(query));
    serve_local(&catalog, path, &headers(pairs), &query)
}

fn header(response: &Response<Body>, name: HeaderName) -> &str {
    response.headers().get(name).map_or("", |it| it.to_str().unwrap())
}

/// The body of a response, which is complete without waiting.
fn bytes(response: Response<Body>) -> Vec<u8> {
    let collected = futures_util::FutureExt::now_or_never(response.into_body().collect());
    collected.unwrap().unwrap().to_bytes().to_vec()
}

fn document(path: &[&str]) -> Value {
    serde_json::from_slice(&bytes(get(path, "", &[]))).unwrap()
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|it| references(it, found));
        }
        Value::Array(list) => list.iter().for_each(|it| references(it, found)),
        _ => {}
    }
}

/// Fails if a reference in the document does not resolve.
fn check_references(document: &Value, prefix: &str, schemas: &Value) {
    let mut found = BTreeSet::new();
    references(document, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let name = reference.strip_prefix(prefix).unwrap();
        assert!(schemas.get(name).is_some(), "{reference}");
    }
}

#[test]
fn the_index_has_the_url_of_each_document() {
    let response = get(&["v3"], "", &[]);
    assert_eq!(header(&response, CONTENT_TYPE), "text/plain; charset=utf-8");
    let index: Value = serde_json::from_slice(&bytes(response)).unwrap();
    for index_path in ["api/v1", "apis/coordination.k8s.io/v1", "apis/example.dev/v1"] {
        let address = index["paths"][index_path]["serverRelativeURL"].as_str().unwrap();
        let (path, hash) = address.split_once("?hash=").unwrap();
        assert_eq!(path, format!("/openapi/v3/{index_path}"));
        assert_eq!(hash.len(), 128);
    }
}

#[test]
fn every_reference_in_every_document_resolves() {
    let index = document(&["v3"]);
    for index_path in index["paths"].as_object().unwrap().keys() {
        let path: Vec<&str> = std::iter::once("v3").chain(index_path.split('/')).collect();
        let document = document(&path);
        check_references(&document, "#/components/schemas/", &document["components"]["schemas"]);
    }
    let everything = document(&["v2"]);
    check_references(&everything, "#/definitions/", &everything["definitions"]);
}

#[test]
fn the_core_document_has_the_schemas_of_kinds_and_their_parts() {
    let document = document(&["v3", "api", "v1"]);
    assert_eq!(
        (&document["openapi"], &document["info"]["title"]),
        (&json!("3.0.0"), &json!("Kubernetes"))
    );
    let schemas = &document["components"]["schemas"];
    assert_eq!(
        schemas["io.k8s.api.core.v1.ConfigMap"]["x-kubernetes-group-version-kind"],
        json!([{"group": "", "kind": "ConfigMap", "version": "v1"}])
    );
    assert_eq!(schemas["io.k8s.api.core.v1.Container"]["required"], json!(["name"]));
    assert_eq!(
        document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"]["x-kubernetes-group-version-kind"],
        json!({"group": "policy", "kind": "Eviction", "version": "v1"})
    );
    assert!(document["paths"]["/api/v1/namespaces"].get("delete").is_none());
}

#[test]
fn a_custom_kind_is_published_with_the_schema_of_its_crd() {
    let document = document(&["v3", "apis", "example.dev", "v1"]);
    assert_eq!(document["info"]["title"], "Kubernetes CRD Swagger");
    let schemas = &document["components"]["schemas"];
    let widget = &schemas["dev.example.v1.Widget"];
    assert_eq!(widget["properties"]["spec"]["properties"]["size"]["description"], "how big");
    assert_eq!(widget["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.color"}]));
    assert!(widget["properties"]["metadata"]["description"].as_str().unwrap().len() > 60);
    assert_eq!(schemas["dev.example.v1.WidgetList"]["required"], json!(["items"]));
    let scale =
        &document["paths"]["/apis/example.dev/v1/namespaces/{namespace}/widgets/{name}/scale"];
    assert_eq!(scale["get"]["operationId"], "readExampleDevV1NamespacedWidgetScale");
    assert_eq!(scale["get"]["x-kubernetes-group-version-kind"]["kind"], "Widget");
}

#[test]
fn the_version_endpoint_has_its_own_document() {
    let index = document(&["v3"]);
    let address = index["paths"]["version"]["serverRelativeURL"].as_str().unwrap();
    assert!(address.starts_with("/openapi/v3/version?hash="), "{address}");
    let document = document(&["v3", "version"]);
    assert_eq!(document["info"], json!({"title": "Kubernetes", "version": "1.35"}));
    assert_eq!(document["paths"]["/version/"]["get"]["operationId"], "getCodeVersion");
    let info = &document["components"]["schemas"]["io.k8s.apimachinery.pkg.version.Info"];
    assert_eq!(info["properties"]["gitVersion"]["type"], "string");
}

#[test]
fn version_2_is_one_document_for_all_groups() {
    let document = document(&["v2"]);
    assert_eq!(
        (&document["swagger"], &document["info"]["title"]),
        (&json!("2.0"), &json!("Kubernetes"))
    );
    let definitions = &document["definitions"];
    let containers = &definitions["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    let widget = &definitions["dev.example.v1.Widget"];
    assert_eq!(
        widget["properties"]["spec"]["properties"]["port"],
        json!({"x-kubernetes-int-or-string": true})
    );
    assert_eq!(
        widget["properties"]["metadata"]["$ref"],
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    let path = "/apis/example.dev/v1/namespaces/{namespace}/widgets/{name}";
    let parameters = document["paths"][path]["patch"]["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|it| it["name"] == "dryRun" && it["in"] == "query"));
    // Kubernetes' own test/cmd looks for these.
    let text = document.to_string();
    for part in
        ["list of returned", "List of services", "Watch for changes to the described resources"]
    {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn a_hash_makes_a_response_immutable_and_a_stale_hash_redirects() {
    let plain = get(&["v3", "api", "v1"], "", &[]);
    assert_eq!(header(&plain, CACHE_CONTROL), "no-cache, private");
    let hash = header(&plain, ETAG).trim_matches('"').to_owned();
    let immutable = get(&["v3", "api", "v1"], &format!("hash={hash}"), &[]);
    assert_eq!(header(&immutable, CACHE_CONTROL), IMMUTABLE);
    let stale = get(&["v3", "api", "v1"], "hash=BAD", &[]);
    assert_eq!(stale.status(), StatusCode::MOVED_PERMANENTLY);
    assert_eq!(header(&stale, LOCATION), format!("/openapi/v3/api/v1?hash={hash}"));
}

#[test]
fn a_matching_etag_results_in_not_modified() {
    for path in [&["v3"][..], &["v3", "api", "v1"], &["v2"]] {
        let etag = header(&get(path, "", &[]), ETAG).to_owned();
        let again = get(path, "", &[(IF_NONE_MATCH, &etag)]);
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{path:?}");
        assert!(bytes(again).is_empty());
    }
}

#[test]
fn a_changed_crd_changes_only_the_hash_of_its_group_version() {
    let mut changed = widgets();
    changed.map_at(&["spec"]).insert("preserveUnknownFields".to_owned(), true.into());
    let (old, new) = (catalog(&widgets()), catalog(&changed));
    let hash =
        |catalog: &Catalog, index_path| OpenApiDocuments(catalog).hash(index_path).to_owned();
    assert_eq!(hash(&old, "api/v1"), hash(&new, "api/v1"));
    assert_ne!(hash(&old, "apis/example.dev/v1"), hash(&new, "apis/example.dev/v1"));
}

#[test]
fn a_document_is_compressed_if_the_client_accepts_gzip() {
    let compressed = get(&["v2"], "", &[(ACCEPT_ENCODING, "deflate, gzip;q=0.9")]);
    assert_eq!(header(&compressed, CONTENT_ENCODING), "gzip");
    let decompressed = Compressed::of(bytes(compressed).into()).decompress();
    let plain = get(&["v2"], "", &[]);
    assert_eq!(header(&plain, CONTENT_ENCODING), "");
    assert_eq!(decompressed, bytes(plain));
}

#[test]
fn version_2_is_available_as_protobuf() {
    let response = get(&["v2"], "", &[(ACCEPT, PROTOBUF_DEPRECATED)]);
    assert_eq!(header(&response, CONTENT_TYPE), PROTOBUF);
    // The field `swagger` (1), a string of three bytes.
    assert!(bytes(response).starts_with(b"\x0a\x032.0"));
}

#[test]
fn an_unsupported_media_type_is_not_acceptable() {
    let protobuf = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    let refused = get(&["v3", "api", "v1"], "", &[(ACCEPT, protobuf)]);
    assert_eq!(refused.status(), StatusCode::NOT_ACCEPTABLE);
    let json = format!("{protobuf}, application/json");
    assert_eq!(get(&["v3", "api", "v1"], "", &[(ACCEPT, &json)]).status(), StatusCode::OK);
    assert_eq!(get(&["v2"], "", &[(ACCEPT, "text/html")]).status(), StatusCode::NOT_ACCEPTABLE);
}

#[test]
fn an_unknown_group_version_is_not_found() {
    let response = get(&["v3", "apis", "none.example.com", "v1"], "", &[]);
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert_eq!(header(&response, CONTENT_TYPE), "");
    assert_eq!(get(&["v1"], "", &[]).status(), StatusCode::NOT_FOUND);
}
