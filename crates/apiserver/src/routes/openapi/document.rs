//! Builds the OpenAPI documents of a catalog: built-in kinds from their types, custom kinds from
//! the schemas of their CRDs without changes.

use std::sync::Arc;

use crate::cache::watch_cache::Entry;
use crate::routes::discovery;
use crate::routes::version::MINOR;
use crate::storage::catalog::{Catalog, ServedResource};
use machinery::{GroupVersion, Map, Object, Value, json};
use schema::openapi::{self, Descriptions, Kind, Subresource, swagger};
use types::Resource;
use types::Type;
use types::resource::Shape;

/// The version 3 document of a group version.
pub(super) fn version_3(catalog: &Catalog, group: &str, version: &str) -> Value {
    let mut parts = DocumentParts::new(catalog);
    parts.add_version(group, version);
    let mut schemas = types::openapi::schemas(parts.types, &parts.versions);
    schemas.extend(parts.custom.into_iter().map(|it| (it.name, it.schema)));
    // Upstream: CRD documents have a different title, since another component builds them.
    if catalog.group(group).is_some_and(|it| it.conventions.crd_openapi) {
        openapi::document("Kubernetes CRD Swagger", "v0.1.0", parts.paths, schemas)
    } else {
        openapi::document("Kubernetes", &kubernetes_version(), parts.paths, schemas)
    }
}

/// The version 2 document of all groups.
pub(super) fn version_2(catalog: &Catalog) -> Value {
    let mut parts = DocumentParts::new(catalog);
    for group in catalog.groups() {
        for version in &group.versions {
            parts.add_version(&group.name, version);
        }
    }
    parts.paths.extend([version_path()]);
    let mut definitions: Map<String, Value> = types::openapi::schemas(parts.types, &parts.versions)
        .into_iter()
        .map(|(name, schema)| (name, swagger::builtin(schema)))
        .collect();
    let (name, schema) = version_schema();
    definitions.insert(name, swagger::builtin(schema));
    for mut it in parts.custom {
        if it.preserves_unknown_fields {
            it.schema["x-kubernetes-preserve-unknown-fields"] = true.into();
        }
        definitions.insert(it.name, swagger::custom(it.schema));
    }
    let paths = parts.paths.into_iter().map(|(path, it)| (path, swagger::path_item(it))).collect();
    swagger::document("Kubernetes", &kubernetes_version(), paths, definitions)
}

/// The emulated version of Kubernetes. Upstream: it has no patch level.
fn kubernetes_version() -> String {
    format!("1.{MINOR}")
}

/// The document of `/version`.
pub(super) fn version_document() -> Value {
    let schemas = Map::from_iter([version_schema()]);
    openapi::document(
        "Kubernetes",
        &kubernetes_version(),
        Map::from_iter([version_path()]),
        schemas,
    )
}

const VERSION_MODEL: &str = "io.k8s.apimachinery.pkg.version.Info";

fn version_path() -> (String, Value) {
    let schema = json!({"$ref": format!("#/components/schemas/{VERSION_MODEL}")});
    let operation = json!({
        "tags": ["version"], "description": "the version of this server",
        "operationId": "getCodeVersion",
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": schema}}},
            "401": {"description": "Unauthorized"},
        },
    });
    ("/version/".to_owned(), json!({"get": operation}))
}

fn version_schema() -> (String, Value) {
    const REQUIRED: [&str; 9] = [
        "major",
        "minor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ];
    const OPTIONAL: [&str; 4] =
        ["emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"];
    let required =
        REQUIRED.iter().map(|it| ((*it).to_owned(), json!({"type": "string", "default": ""})));
    let optional = OPTIONAL.iter().map(|it| ((*it).to_owned(), json!({"type": "string"})));
    let properties: Map<String, Value> = required.chain(optional).collect();
    let schema = json!({
        "type": "object", "description": "The version of a server and of the API that it serves.",
        "required": REQUIRED, "properties": properties,
    });
    (VERSION_MODEL.to_owned(), schema)
}

/// The stored CRD of a custom resource.
pub(super) fn crd(catalog: &Catalog, resource: &Resource) -> Option<Arc<Entry>> {
    if !resource.conventions.dynamic {
        return None;
    }
    let crds = catalog.resource("apiextensions.k8s.io", "customresourcedefinitions")?;
    let name = format!("{}.{}", resource.plural, resource.group);
    crds.cache.get(&crds.key("", &name))
}

/// The paths and schemas of a document.
struct DocumentParts<'a> {
    catalog: &'a Catalog,
    descriptions: Descriptions,
    paths: Map<String, Value>,
    /// The built-in types that the document refers to.
    types: Vec<&'static Type>,
    custom: Vec<CrdSchema>,
    versions: Vec<GroupVersion>,
}

/// The schema of a custom kind or of its list.
struct CrdSchema {
    name: String,
    schema: Value,
    /// `spec.preserveUnknownFields` of the CRD, which applies to all versions.
    preserves_unknown_fields: bool,
}

impl<'a> DocumentParts<'a> {
    fn new(catalog: &'a Catalog) -> Self {
        let mut parts = Self {
            catalog,
            descriptions: types::openapi::common_descriptions(),
            paths: Map::new(),
            types: Vec::new(),
            custom: Vec::new(),
            versions: Vec::new(),
        };
        for name in ["Status", "DeleteOptions", "ObjectMeta", "ListMeta"] {
            parts.types.extend(types::find(&format!("meta/v1.{name}")));
        }
        parts
    }

    fn add_version(&mut self, group: &str, version: &str) {
        self.versions.push(GroupVersion::new(group, version));
        for (served, index) in self.catalog.resources(group, version) {
            self.add(served, index);
        }
    }

    fn add(&mut self, served: &ServedResource, index: usize) {
        let (resource, version) = (&served.resource, served.version(index));
        let kind = Kind {
            group: resource.group_of(version),
            version: &version.name,
            kind: &resource.kind,
            list_kind: &resource.list_kind,
            plural: &resource.plural,
            namespaced: resource.namespaced,
            crd: resource.conventions.crd_openapi,
            deletes_collections: discovery::verbs(served).contains(&"deletecollection"),
        };
        let (model, list_model) = match &version.shape {
            Shape::Typed(ty) => {
                let list = types::of_kind(&resource.api_version(version), &resource.list_kind);
                let list = list.unwrap_or(ty);
                self.types.extend([*ty, list]);
                (ty.openapi_name(), list.openapi_name())
            }
            Shape::Structural(_) => {
                self.add_custom(resource, index, &kind);
                (kind.model(), kind.list_model())
            }
        };
        let subresources = discovery::subresources(served, index);
        let subresources: Vec<Subresource<'_>> =
            subresources.iter().map(|it| self.subresource(it, &kind, &model)).collect();
        self.paths.extend(openapi::paths(&kind, &model, &list_model, &subresources));
    }

    fn add_custom(&mut self, resource: &Resource, index: usize, kind: &Kind<'_>) {
        let crd = crd(self.catalog, resource).map(|it| it.object());
        let schema = crd.as_ref().and_then(|it| schema_of(it, kind.version));
        let selectable: Vec<&str> =
            resource.versions[index].selectable.iter().map(|it| it.label.as_str()).collect();
        let preserves_unknown_fields = crd.as_ref().is_some_and(|it| {
            it.get(&["spec", "preserveUnknownFields"]).is_some_and(|it| it == true)
        });
        self.custom.push(CrdSchema {
            name: kind.model(),
            schema: openapi::v3_schema(schema, kind, &selectable, &self.descriptions),
            preserves_unknown_fields,
        });
        self.custom.push(CrdSchema {
            name: kind.list_model(),
            schema: openapi::v3_list_schema(kind, &selectable, &self.descriptions),
            preserves_unknown_fields: false,
        });
    }

    fn subresource<'b>(
        &mut self,
        it: &'b discovery::SubresourceDiscovery,
        kind: &Kind<'b>,
        model: &str,
    ) -> Subresource<'b> {
        let (group, version) = match it.group {
            "" => (kind.group, kind.version),
            group => (group, it.version),
        };
        let ty = types::of_kind(&GroupVersion::new(group, version).to_string(), &it.kind);
        self.types.extend(ty);
        // Upstream: a subresource of a custom resource has the group, version and kind of the
        // resource.
        let (group, version, kind) = if kind.crd {
            (kind.group, kind.version, kind.kind)
        } else {
            (group, version, it.kind.as_str())
        };
        Subresource {
            name: it.name,
            verbs: it.verbs,
            model: ty.map_or_else(|| model.to_owned(), Type::openapi_name),
            group,
            version,
            kind,
        }
    }
}

/// The schema of a version in a CRD.
fn schema_of<'a>(crd: &'a Object, version: &str) -> Option<&'a Value> {
    let versions = crd.get(&["spec", "versions"])?.as_array()?;
    versions.iter().find(|it| it["name"] == version)?.get("schema")?.get("openAPIV3Schema")
}
